"""tulle explore on files: a folder with points and page, options, gates and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.exploring.test_explore import people
from tulle.cli import tulle
from tulle.errors import DataError, GateError, ParameterError

QUICK = ("--quick", "--seed", "1", "--attempts", "40", "--synthesis", "shape")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    people(240).write_csv(tmp_path / "people.csv")
    return tmp_path / "people.csv"


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(tulle, ["explore", *map(str, words)])


@pytest.mark.slow
def test_json_names_a_k_and_the_folder_holds_points_and_page(table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "frontier"
    result = run(table, "-o", folder, "--target", "ill", "--k", "4,20", *QUICK, "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert {"chosen_k", "level", "reason", "next", "points"} <= set(found)
    assert [p["k"] for p in found["points"] if p["k"]] == [4, 20]
    assert all("audit" not in p or p["audit"] is None for p in found["points"])
    assert len(list((folder / "points").glob("*.json"))) == len(found["points"])
    assert {**json.loads((folder / "explore.json").read_text()), "notes": []} == found
    assert "k = 20, shape, class by class" in (folder / "explore.html").read_text()


@pytest.mark.slow
def test_the_terminal_shows_the_releases_and_the_next_step(table: Path, tmp_path: Path) -> None:
    result = run(table, "-o", tmp_path / "f", "-k", "4,20", *QUICK)
    assert result.exit_code == 0
    assert "k = 20, shape" in result.stdout
    assert "as useful" in " ".join(result.stdout.split())
    assert "explore.html" in "".join(result.stdout.split())


@pytest.mark.slow
def test_the_task_can_be_clusters(table: Path, tmp_path: Path) -> None:
    result = run(table, "-o", tmp_path / "f", "-k", "4", "--task", "clusters", *QUICK, "--json")
    points = json.loads(result.stdout)["points"]
    assert {point["scoring"] for point in points} == {"clusters"}
    assert points[0]["utility"] == 1.0
    assert points[-1]["cluster_error"] > 0


@pytest.mark.slow
def test_gates_that_no_release_passes_are_exit_code_one(table: Path, tmp_path: Path) -> None:
    words = ("-k", "4", "--max-singling-out", "0", "--max-membership", "0", "--max-inference", "0")
    result = run(table, "-o", tmp_path / "f", *words, *QUICK)
    assert isinstance(result.exception, GateError)
    assert result.exception.exit_code == 1


@pytest.mark.slow
def test_options_of_the_policy_and_a_control_file(table: Path, tmp_path: Path) -> None:
    people(120, 1).write_csv(tmp_path / "control.csv")
    policy = tmp_path / "policy.toml"
    policy.write_text('[explore]\nk = [6]\nsynthesis = ["mean"]\nholdout = 0.2\n')
    words = ("--policy", policy, "--control", tmp_path / "control.csv", "--json")
    result = run(table, "-o", tmp_path / "f", *words, *QUICK[:5])
    points = json.loads(result.stdout)["points"]
    assert {p["spec"]["method"] for p in points if p["k"]} == {"mean"}
    assert points[0]["records"] == 240
    both = run(table, "-o", tmp_path / "f", *words, "--holdout", "10%")
    assert isinstance(both.exception, ParameterError)


def test_what_cannot_work_is_refused_before_anything_is_read(table: Path, tmp_path: Path) -> None:
    assert isinstance(run(tmp_path / "none.csv", "-o", tmp_path / "f").exception, DataError)
    wrong = run(table, "-o", tmp_path / "f", "--scoring", "nonsense")
    assert isinstance(wrong.exception, ParameterError)
    assert "--scoring" in str(wrong.exception)
    assert run(table, "-o", tmp_path / "f", "-k", "5,x").exit_code == 2
    assert not (tmp_path / "f" / "explore.json").exists()
