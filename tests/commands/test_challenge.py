"""tulle challenge: rounds that go on where they were stopped, and nothing of the table in them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from tulle._commands import challenge as command
from tulle._commands.challenge import FIGURES, PAGE, STATE, _Arena, challenge
from tulle.cli import tulle
from tulle.errors import DataError, ParameterError

pytestmark = pytest.mark.slow


def people(count: int, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, count)
    return pl.DataFrame(
        {
            "age": age,
            "rent": (300 + 9 * age + rng.normal(0, 90, count)).round(2),
            "town": rng.choice(["Bern", "Chur", "Genf"], count),
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    people(80).write_csv(tmp_path / "people.csv")
    return tmp_path / "people.csv"


def run(table: Path, folder: Path, rounds: int, **options: object) -> command.Challenged:
    given = {"k": 3, "seed": 1, **options}
    return challenge(table, folder, seconds=1e9, rounds=rounds, **given)  # type: ignore[arg-type]


def traces(folder: Path) -> list[list[list[float]]]:
    return [json.loads(line)["seen"] for line in (folder / STATE).read_text().splitlines()[1:]]


def test_the_folder_is_the_owners_and_holds_nothing_of_the_table(
    table: Path, tmp_path: Path
) -> None:
    found = run(table, tmp_path / "c", 6)
    state = (tmp_path / "c" / STATE).read_text()
    for name in (STATE, PAGE, FIGURES):
        assert (tmp_path / "c" / name).stat().st_mode & 0o077 == 0
    frame = pl.read_csv(table)
    assert not [word for word in ("Bern", "town", "rent", "people") if word in state]
    assert not [rent for rent in frame["rent"] if f"{rent}" in state]
    assert found.summary["releases"] == len(traces(tmp_path / "c")) == 6
    assert found.summary["targets"] == len(traces(tmp_path / "c")[0]) == 20
    told = json.loads((tmp_path / "c" / FIGURES).read_text())
    assert told["best_area"] == found.summary["best_area"]
    assert [step["releases"] for step in told["steps"]] == [0, 2, 4]
    page = (tmp_path / "c" / PAGE).read_text()
    assert "CPU seconds of the attacker" in page
    assert "Bern" not in page


def test_a_run_that_was_stopped_goes_on(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(table, tmp_path / "whole", 5)
    made = _Arena.round

    def stopped(arena: _Arena, number: int) -> tuple[float, np.ndarray]:
        if number == 3:
            raise KeyboardInterrupt
        return made(arena, number)

    with monkeypatch.context() as patch:
        patch.setattr(_Arena, "round", stopped)
        with pytest.raises(KeyboardInterrupt):
            run(table, tmp_path / "parts", 5)
    assert len(traces(tmp_path / "parts")) == 3
    with (tmp_path / "parts" / STATE).open("a") as file:
        file.write('{"seconds": 0.1, "se')  # killed while it wrote
    run(table, tmp_path / "parts", 5)
    assert traces(tmp_path / "parts") == traces(tmp_path / "whole")


def test_who_stops_it_by_hand_sees_what_there_is(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _Arena.round

    def stopped(arena: _Arena, number: int) -> tuple[float, np.ndarray]:
        if number == 4:
            raise KeyboardInterrupt
        return made(arena, number)

    monkeypatch.setattr(_Arena, "round", stopped)
    asked = ["challenge", str(table), "-o", str(tmp_path / "c"), "--k", "3", "--minutes", "99"]
    result = CliRunner().invoke(tulle, asked)
    assert result.exit_code == 130, result.output
    words = " ".join(result.output.split())
    assert "Stopped by hand: the same command goes on" in words
    assert "After 4 releases" in words
    assert (tmp_path / "c" / PAGE).exists()


def test_people_are_in_or_out_with_all_their_rows(tmp_path: Path) -> None:
    frame = people(120).with_columns(who=pl.Series([f"p{i % 60}" for i in range(120)]))
    frame.write_csv(tmp_path / "visits.csv")
    columns = dict.fromkeys(("age", "rent", "town"), "quasi-identifier") | {"who": "person"}
    kinds = {"age": "integer", "rent": "decimal"}
    sections = [
        f'[columns.{name}]\nkind = "{kinds.get(name, "category")}"\nrole = "{role}"\n'
        for name, role in columns.items()
    ]
    (tmp_path / "p.toml").write_text("".join(sections))
    found = run(tmp_path / "visits.csv", tmp_path / "c", 4, policy=tmp_path / "p.toml")
    assert found.summary["people_in_each"] == 30
    assert found.summary["targets"] == 14


def test_other_tables_and_options_are_refused(table: Path, tmp_path: Path) -> None:
    run(table, tmp_path / "c", 4)
    with pytest.raises(ParameterError, match="other options"):
        run(table, tmp_path / "c", 4, k=4)
    with pytest.raises(ParameterError, match="another table"):
        run(table, tmp_path / "c", 4, seed=2)
    people(80, 1).write_csv(table)
    with pytest.raises(ParameterError, match="another table"):
        run(table, tmp_path / "c", 4)


def test_what_cannot_work_is_said(table: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"at least 400 of them.*there are 80.*--k"):
        run(table, tmp_path / "c", 4, k=100)
    with pytest.raises(DataError, match="at least 4"):
        run(table, tmp_path / "d", 2)
    with pytest.raises(DataError, match="is a file"):
        run(table, table, 4)
    (tmp_path / "d" / STATE).write_text("no line\n")
    with pytest.raises(DataError, match="damaged"):
        run(table, tmp_path / "d", 4)


def test_the_command_tells_what_earlier_rounds_found(table: Path, tmp_path: Path) -> None:
    found = run(table, tmp_path / "c", 4)
    words = ["challenge", str(table), "-o", str(tmp_path / "c"), "--minutes", "0", "--k", "3"]
    result = CliRunner().invoke(tulle, [*words, "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["best_area"] == found.summary["best_area"]
    assert [step["releases"] for step in told["steps"]] == [0, 2, 3]
