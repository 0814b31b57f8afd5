from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result

from tulle._commands.inspect import inspect, policy_path
from tulle.cli import tulle
from tulle.errors import DataError, TulleError
from tulle.io.write import write_table
from tulle.table.policy import load_policy
from tulle.table.schema import Kind, Role

PEOPLE = pl.DataFrame(
    {
        "surname": [f"Zwicknagl{i}" for i in range(60)],
        "zip": [f"0{7311 + i % 3}" for i in range(60)],
        "age": [30 + i % 20 for i in range(60)],
        "weight": [61.515 + i for i in range(60)],
        "diagnosis": ["lupus", "gout", None] * 20,
        "class": ["stayed", "departed"] * 30,
    }
)


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    write_table(PEOPLE, "people.csv")
    return "people.csv"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(tulle, ["inspect", *arguments])


def cells() -> list[str]:
    return [str(cell) for series in PEOPLE for cell in series.drop_nulls() if len(str(cell)) > 3]


def test_finds_kinds_roles_and_who_stands_out(people: str) -> None:
    found = inspect(people, "policy.toml")
    rows = {row["column"]: row for row in found.columns}
    assert rows["surname"]["role"] == "identifier"
    assert rows["surname"]["action"] == "drop"
    assert (rows["zip"]["kind"], rows["zip"]["distinct"]) == ("category", 3)
    assert (rows["diagnosis"]["role"], rows["diagnosis"]["missing"]) == ("sensitive", 20)
    assert rows["class"]["role"] == "target"
    assert found.combinations[0] == {"columns": "weight", "unique": 60, "share": 1.0}
    assert {"columns": "zip + age", "unique": 60, "share": 1.0} in found.combinations
    assert found.summary["share_unique"] == 1.0


def test_the_policy_is_ready_for_the_table(people: str) -> None:
    found = inspect(people, "policy.toml")
    policy = load_policy("policy.toml", PEOPLE.columns)
    kinds = {column.name: (column.kind, column.role) for column in policy.columns}
    assert kinds == {c.name: (c.kind, c.role) for c in found.policy.columns}
    assert kinds["age"] == (Kind.INTEGER, Role.QUASI)


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_no_cell_is_told(people: str, as_json: list[str]) -> None:
    result = run(people, "-o", "policy.toml", *as_json)
    assert result.exit_code == 0
    told = result.output + Path("policy.toml").read_text()
    assert not [cell for cell in cells() if cell in told]


def test_json(people: str) -> None:
    found = json.loads(run(people, "--json").output)
    assert found["records"] == 60
    assert found["policy"] == "people.policy.toml"
    assert [row["column"] for row in found["columns"]] == PEOPLE.columns
    assert found["singled_out_by"][0]["columns"] == "weight"


def test_the_policy_has_a_place_of_its_own_and_an_old_one_is_kept(people: str) -> None:
    assert "people.policy.toml" in run(people).output
    edited = Path("people.policy.toml")
    edited.write_text("# mine\n")
    assert "was there already and is kept" in run(people).output.replace("\n", " ")
    assert edited.read_text() == "# mine\n"
    with pytest.raises(TulleError, match="exists already"):
        inspect(people, edited)
    inspect(people, edited, force=True)
    assert "columns.age" in edited.read_text()
    with pytest.raises(TulleError, match="same file"):
        inspect(people, people, force=True)


def test_names_of_policies() -> None:
    assert str(policy_path("data/people.csv.gz")) == "people.policy.toml"
    assert str(policy_path("book.xlsx#staff")) == "book.policy.toml"
    assert str(policy_path("postgresql://u:secret@host/db#visits")) == "visits.policy.toml"
    assert str(policy_path("sqlite:///a.db#SELECT 1")) == "query.policy.toml"


def test_tables_without_records_and_without_quasi_identifiers(people: str) -> None:
    Path("none.csv").write_text("a,b\n")
    with pytest.raises(DataError, match="has no records"):
        inspect("none.csv")
    Path("ids.csv").write_text("id,email\n" + "".join(f"{i},a{i}@x.org\n" for i in range(30)))
    found = inspect("ids.csv")
    assert found.combinations == []
    assert any("No column is taken for a quasi-identifier" in note for note in found.notes)


def test_database_tables(people: str) -> None:
    write_table(PEOPLE, "sqlite:///clinic.db#people")
    found = inspect("sqlite:///clinic.db#people", "policy.toml")
    assert found.summary["table"] == "sqlite:///clinic.db#people"
    assert [row["column"] for row in found.columns] == PEOPLE.columns


def test_counts_and_working_hours_are_not_called_dates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pl.DataFrame(
        {
            "Full time": ["yes", "no"] * 20,
            "Visits": [1, 2, 3, 4] * 10,
            "Year hired": [2019] * 39 + [2021],
        }
    ).write_csv("staff.csv")
    reasons = {row["column"]: row["reason"] for row in inspect("staff.csv").columns}
    assert {name for name, reason in reasons.items() if "date" in reason} == {"Year hired"}
