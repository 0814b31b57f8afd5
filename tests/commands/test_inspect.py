from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

from tulle._commands.condense import condense
from tulle._commands.inspect import inspect, policy_path
from tulle.cli import tulle
from tulle.errors import DataError, TulleError
from tulle.io.read import read_table
from tulle.io.write import write_table
from tulle.releases import read_manifest
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
    rows = {row["name"]: row for row in found.columns}
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
    assert found["number_of_columns"] == PEOPLE.width
    assert found["policy"] == "people.policy.toml"
    assert [row["name"] for row in found["columns"]] == PEOPLE.columns
    assert found["singled_out_by"][0]["columns"] == "weight"


def test_the_policy_has_a_place_of_its_own_and_an_old_one_is_kept(people: str) -> None:
    assert "people.policy.toml" in run(people).output
    edited = Path("people.policy.toml")
    edited.write_text("# mine\n")
    assert "already" in run(people).output.replace("\n", " ")
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
    with pytest.raises(DataError):
        inspect("none.csv")
    Path("ids.csv").write_text("id,email\n" + "".join(f"{i},a{i}@x.org\n" for i in range(30)))
    found = inspect("ids.csv")
    assert found.combinations == []
    assert any("quasi-identifier" in note for note in found.notes)


def test_database_tables(people: str) -> None:
    write_table(PEOPLE, "sqlite:///clinic.db#people")
    found = inspect("sqlite:///clinic.db#people", "policy.toml")
    assert found.summary["table"] == "sqlite:///clinic.db#people"
    assert [row["name"] for row in found.columns] == PEOPLE.columns


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
    reasons = {row["name"]: row["reason"] for row in inspect("staff.csv").columns}
    assert {name for name, reason in reasons.items() if "date" in reason} == {"Year hired"}


def visits(records: int = 300) -> pl.DataFrame:
    """A table with a case number that has gaps, and an account nobody can judge by its name."""
    rng = np.random.default_rng(16)
    return pl.DataFrame(
        {
            "case": rng.permutation(np.arange(70_000, 70_000 + records + 9))[:records],
            "x17": rng.integers(10**9, 2 * 10**9, records),
            "age": rng.integers(18, 90, records),
            "score": rng.normal(size=records).round(2),
        }
    )


def test_columns_without_evidence_share_a_line_and_each_has_a_row_in_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    visits().with_columns(a=pl.col("score") * 2, b=pl.col("score") * 3).write_csv("visits.csv")
    found = inspect("visits.csv")
    assert [row["name"] for row in found.telling] == ["case", "x17", "age", "score"]
    assert sum("'a', 'b'" in note for note in found.notes) == 1
    shown = json.loads(run("visits.csv", "--json").output)
    rows = {row["name"]: row for row in shown["columns"]}
    assert list(rows) == ["case", "x17", "age", "score", "a", "b"]
    assert all(row.keys() >= {"kind", "role", "action", "reason"} for row in rows.values())
    assert rows["x17"]["action"] == "leave out until a role is stated"
    assert [row["column"] for row in shown["left_out"]] == ["case", "x17"]


@pytest.mark.slow
def test_groups_of_a_release_count_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    who = np.repeat(np.arange(60), rng.integers(1, 12, 60))
    town, score = rng.integers(0, 3, 60)[who], rng.normal(size=len(who)).round(2)
    pl.DataFrame({"patient_id": who + 5000, "town": town, "score": score}).write_csv("v.csv")
    found = inspect("v.csv", "policy.toml")
    assert found.columns[0]["role"] == "person"
    assert sum("'patient_id'" in note for note in found.notes) == 1
    made = condense("v.csv", "release.csv", policy="policy.toml", k=7, seed=1)
    assert read_table("release.csv").columns == ["patient_id", "town", "score"]  # new keys
    assert any("'patient_id'" in note for note in made.notes)
    manifest = read_manifest("release.csv")
    assert "patient_id" in manifest.parameters["unit"]
    assert manifest.counts["fewest people in a group"] >= 7


@pytest.mark.slow
def test_what_may_identify_people_is_left_out_and_a_strict_run_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    visits().write_csv("visits.csv")
    with pytest.raises(DataError, match="'x17'") as refused:
        condense("visits.csv", "release.csv", strict=True)
    assert 'role = "quasi-identifier"' in str(refused.value)
    assert "'case'" not in str(refused.value)  # no doubt about that
    assert not Path("release.csv").exists()
    Path("strict.toml").write_text("[condense]\nstrict = true\n")
    with pytest.raises(DataError, match="'x17'"):
        condense("visits.csv", "release.csv", policy="strict.toml")
    went_on = condense("visits.csv", "safe.csv", seed=1)
    assert read_table("safe.csv").columns == ["age", "score"]
    unsure = {row["column"]: row for row in went_on.tables["left_out"]}["x17"]
    assert unsure["reason"].endswith("not sure, left out to be safe")
    assert unsure["to_keep_it"] == 'kind = "integer", role = "quasi-identifier"'
    inspect("visits.csv", "policy.toml")
    made = condense("visits.csv", "release.csv", policy="policy.toml", seed=1)
    assert read_table("release.csv").columns == ["age", "score"]
    assert [row["column"] for row in made.tables["left_out"]] == ["case", "x17"]
    head, first, rest = Path("policy.toml").read_text().split('role = "identifier"')
    edited = f'{head}role = "identifier"{first}role = "quasi-identifier"{rest}'
    Path("edited.toml").write_text(edited)
    condense("visits.csv", "wider.csv", policy="edited.toml", seed=1)
    assert read_table("wider.csv").columns == ["x17", "age", "score"]


@pytest.mark.slow
def test_the_manifest_says_what_is_left_out_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    visits().drop("x17").write_csv("visits.csv")
    condense("visits.csv", "release.csv", seed=1)
    entries = read_manifest("release.csv").columns
    assert entries["case"]["reason"]
    assert entries["case"]["to_keep_it"] == 'kind = "integer", role = "quasi-identifier"'
    assert entries["age"].keys() == {"kind", "role"}
