"""tulle split and --holdout, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

from tulle.cli import tulle
from tulle.io.read import read_table
from tulle.io.write import write_table
from tulle.releases import read_manifest


def visits(n: int = 900) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "patient": [f"P{i:05}" for i in rng.integers(0, n // 3, n)],
            "day": pl.Series(rng.integers(0, 700, n)).cast(pl.Date),
            "zip": [f"{i:05}" for i in rng.integers(1000, 99999, n)],
            "cost": np.round(rng.lognormal(5, 1, n), 2),
            "ward": rng.choice(["A", "B", "C"], n),
            "dead": rng.choice(["yes", "no"], n, p=[0.1, 0.9]),
        }
    )


POLICY = """
[columns.patient]
kind = "text"
role = "person"
[columns.day]
kind = "datetime"
role = "quasi-identifier"
[columns.zip]
kind = "category"
role = "ignored"
[columns.cost]
kind = "decimal"
role = "sensitive"
[columns.ward]
kind = "category"
role = "quasi-identifier"
[columns.dead]
kind = "category"
role = "target"
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "p.toml"
    path.write_text(POLICY)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(tulle, [str(argument) for argument in arguments])


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "ndjson", "parquet", "arrow", "xlsx"])
def test_types_survive_in_every_format(ending: str, tmp_path: Path, policy: Path) -> None:
    source, members, control = (tmp_path / f"{name}.{ending}" for name in "tmc")
    write_table(visits(), source)
    made = run("split", source, "-o", members, "--control", control, "--policy", policy, "--json")
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    whole, inside, outside = (read_table(path) for path in (source, members, control))
    assert inside.schema == whole.schema
    assert (told["members"], told["control"]) == (inside.height, outside.height)
    assert inside.height + outside.height == whole.height
    assert told["people_in_the_control"] == outside["patient"].n_unique()
    assert not set(inside["patient"]) & set(outside["patient"])


def test_the_person_is_guessed_without_a_policy(tmp_path: Path) -> None:
    write_table(visits(), tmp_path / "t.csv")
    names = ["-o", tmp_path / "m.csv", "--control", tmp_path / "c.csv"]
    made = run("split", tmp_path / "t.csv", *names, "--share", "20%", "--seed", "1", "--json")
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["person"] == "patient"
    assert read_table(tmp_path / "c.csv")["patient"].n_unique() == 57


def test_files_are_not_replaced_or_mixed_up(tmp_path: Path) -> None:
    write_table(visits(30), tmp_path / "t.csv")
    names = ["-o", tmp_path / "m.csv", "--control", tmp_path / "c.csv"]
    assert run("split", tmp_path / "t.csv", *names).exit_code == 0
    assert "--force" in str(run("split", tmp_path / "t.csv", *names).exception)
    same = run(
        "split", tmp_path / "t.csv", "-o", tmp_path / "x.csv", "--control", tmp_path / "x.csv"
    )
    assert "same file" in str(same.exception)


@pytest.mark.slow
def test_a_holdout_is_kept_out_of_the_release_and_serves_the_audit(
    tmp_path: Path, policy: Path
) -> None:
    write_table(visits(), tmp_path / "t.parquet")
    made = run("condense", tmp_path / "t.parquet", "-o", tmp_path / "r.parquet", "--policy", policy,
               "-k", 10, "--holdout", "20%", "--report", tmp_path / "r.json", "--json")  # fmt: skip
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    assert told["records"] + told["kept_apart"] == 900
    assert 100 < told["kept_apart"] < 260
    manifest = read_manifest(tmp_path / "r.parquet")
    assert manifest.counts["kept apart as the control"] == told["kept_apart"]
    assert manifest.parameters["holdout"] == 0.2
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["attacks"]["linkage"]["control"] is not None
    assert "membership" in report["attacks"]


@pytest.mark.slow
def test_tune_keeps_the_same_people_out_of_search_and_release(tmp_path: Path) -> None:
    write_table(visits(400).select("cost", "ward", "dead"), tmp_path / "t.csv")
    made = run("tune", tmp_path / "t.csv", "--target", "dead", "--strategy", "gcd", "--repeats", 1,
               "--holdout", "25%", "-o", tmp_path / "r.csv", "--seed", 3, "--json",
               "--accept-risk", "a test")  # fmt: skip
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    assert told["records"] == 300
    assert read_manifest(tmp_path / "r.csv").counts["kept apart as the control"] == 100
    assert set(told["verdict"]) == {"privacy", "use"}
