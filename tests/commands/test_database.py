"""Linked tables in every command, as a new user of a hospital's database would take them."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from tulle import hospital, read_manifest, read_table, verify_release
from tulle._commands import _database, split
from tulle._commands._decision import Refused
from tulle._commands.audit import audit_files, check_outcome
from tulle._commands.condense import condense
from tulle._commands.explore import explore_file
from tulle._commands.inspect import inspect
from tulle._commands.split import split_file
from tulle._commands.verify import verify
from tulle.cli import tulle
from tulle.errors import DataError, OutputExists, ParameterError, PolicyError, PrivacyError
from tulle.table.policy import load_policy, write_policy

pytestmark = pytest.mark.slow

PEOPLE = 150


def tables() -> dict[str, pl.DataFrame]:
    """A hospital with a row of nobody, and a table that is about nothing."""
    found = hospital(PEOPLE, random_state=5)
    lost = found["visits"].head(1).with_columns(visit_id=10**6, patient_id=1)
    lost = lost.cast(dict(found["visits"].schema))
    log = pl.DataFrame({"moment": range(9), "what": ["x"] * 9})
    return {**found, "visits": pl.concat([found["visits"], lost]), "audit_log": log}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "hospital"
    place.mkdir()
    for name, frame in tables().items():
        frame.write_csv(place / f"{name}.csv")
    return place


@pytest.fixture
def policy(folder: Path, tmp_path: Path) -> Path:
    inspect(folder, tmp_path / "policy.toml")
    return tmp_path / "policy.toml"


def quickly(source: Path | str, output: Path, policy: Path | None, **options: Any) -> Any:
    given = {"k": 5, "seed": 1, "audit": False} | options
    return condense(source, output, policy=policy, **given)


def read(release: Path) -> dict[str, pl.DataFrame]:
    return {path.name.partition(".")[0]: read_table(path) for path in sorted(release.iterdir())}


def test_the_tables_are_explained_and_the_policy_written(folder: Path, tmp_path: Path) -> None:
    found = inspect(folder, tmp_path / "policy.toml")
    assert found.notes[:4] == [
        "5 tables, 3 of people. People: patients (key patient_id; 2 tables lead to it). "
        "Look-up: icd.",
        "visits.patient_id -> patients: 1 row of nobody (left out).",
        "labs.visit_id -> visits -> patients.",
        "visits.icd -> icd (look-up).",
    ]
    assert "Not linked, left out until stated: audit_log." in found.notes
    assert {row["name"] for row in found.columns} >= {"patients.born", "visits.icd", "labs.value"}
    policy = load_policy(tmp_path / "policy.toml")
    assert policy.tables["visits"].order == ("admitted",)
    assert policy.people.key == "patient_id"


def test_who_is_counted_is_asked_never_guessed(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        quickly(folder, tmp_path / "release", None)
    told = str(caught.value)
    for words in ('[people] table = "patients" key = "patient_id"', "tulle inspect", "2 tables"):
        assert words in told
    assert not (tmp_path / "release").exists()


def test_a_release_has_other_people_whose_keys_join(
    folder: Path, policy: Path, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    made = quickly(folder, release, policy)
    found = read(release)
    assert sorted(found) == ["icd", "labs", "patients", "visits"]
    assert made.summary["people"] == PEOPLE
    assert made.summary["released_people"] == found["patients"].height
    patients, visits = found["patients"]["patient_id"], found["visits"]
    assert patients.n_unique() == len(patients)
    assert visits["patient_id"].is_in(patients.implode()).all()
    assert found["labs"]["visit_id"].is_in(visits["visit_id"].implode()).all()
    assert visits["icd"].is_in(found["icd"]["code"].implode()).all()
    assert (visits["patient_id"].n_unique()) < len(patients)  # people without visits
    # rows stand together, in the order of time
    together = visits["patient_id"].rle_id().n_unique() == visits["patient_id"].n_unique()
    assert together
    assert visits.select(pl.col("admitted").is_sorted().over("patient_id").all()).item()
    assert "table 'visits': some rows lead to nobody: left out" in made.notes
    assert "left out, for the policy does not state them: audit_log" in made.notes


def test_the_manifest_covers_all_tables_and_says_the_guarantee(
    folder: Path, policy: Path, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    quickly(folder, release, policy)
    manifest = read_manifest(release)
    words = manifest.guarantee["in words"]
    assert "rests on at least 5 people" in words
    assert "on at least 10." in words
    assert "not shared by 5 people" in words
    assert set(manifest.output["parts"]) == {
        "icd.csv", "labs.csv", "patients.csv", "visits.csv",
    }  # fmt: skip
    assert manifest.parameters["unit"] == "person (table 'patients')"
    assert manifest.columns["visits.cost"]["role"] == "sensitive"
    assert verify(str(release) + "/").summary["holds"]
    assert all(row["holds"] for row in verify_release(release, source=folder))
    text = (release / "visits.csv").read_text()
    (release / "visits.csv").write_text(text.replace("\n", "\n\n", 1))
    assert not verify(release).summary["holds"]
    (release / "labs.csv").unlink()
    assert "1 missing, 1 changed" in verify(release).tables["checks"][0]["detail"]


def test_no_row_of_the_source_is_in_the_release(folder: Path, policy: Path, tmp_path: Path) -> None:
    quickly(folder, tmp_path / "release", policy, report=None)
    before, after = tables(), read(tmp_path / "release")
    for name in ("patients", "visits"):
        whole = before[name].join(after[name], on=after[name].columns, how="semi")
        assert whole.is_empty()


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "uri"])
def test_a_database_is_read_with_its_keys(kind: str, folder: Path, tmp_path: Path) -> None:
    place: Any = tmp_path / ("h.duckdb" if kind == "duckdb" else "h.db")
    ours = tables()
    if kind == "duckdb":
        import duckdb

        with duckdb.connect(str(place)) as connection:
            for name in ours:
                connection.execute(f"CREATE TABLE {name} AS SELECT * FROM '{folder / name}.csv'")
    else:
        with sqlite3.connect(place) as connection:
            for name, frame in ours.items():
                texts = frame.cast({pl.Date: pl.String})
                connection.execute(f"CREATE TABLE {name} ({', '.join(texts.columns)})")
                marks = ", ".join("?" * texts.width)
                connection.executemany(f"INSERT INTO {name} VALUES ({marks})", texts.rows())
        place = f"sqlite:///{place}" if kind == "uri" else place
    found = inspect(place, tmp_path / "policy.toml")
    assert "labs.visit_id -> visits -> patients." in found.notes
    quickly(place, tmp_path / "release", tmp_path / "policy.toml")
    assert sorted(path.name for path in (tmp_path / "release").iterdir()) == [
        "icd.parquet", "labs.parquet", "patients.parquet", "visits.parquet",
    ]  # fmt: skip


def test_dates_may_be_text(folder: Path, tmp_path: Path) -> None:
    """As text no two people share a date; as dates they are drawn, not copied."""
    for name, frame in tables().items():
        (folder / f"{name}.csv").unlink()
        frame.with_columns(pl.col(pl.Date).dt.to_string("%d.%m.%Y")).write_parquet(
            folder / f"{name}.parquet"
        )
    inspect(folder, tmp_path / "policy.toml")
    quickly(folder, tmp_path / "release", tmp_path / "policy.toml")
    after = read(tmp_path / "release")["visits"]
    assert after["admitted"].str.contains(r"^\d\d\.\d\d\.\d{4}$").all()
    days = after.with_columns(pl.col("admitted").str.to_date("%d.%m.%Y"))
    assert days.select(pl.col("admitted").is_sorted().over("patient_id").all()).item()


def test_a_person_has_one_key_in_all_tables(folder: Path, tmp_path: Path) -> None:
    """As in records of a clinic, where laboratory values name visit and patient."""
    visits = pl.read_csv(folder / "visits.csv").select("visit_id", "patient_id")
    labs = pl.read_csv(folder / "labs.csv").join(visits, on="visit_id", maintain_order="left")
    labs.write_csv(folder / "labs.csv")
    policy = tmp_path / "policy.toml"
    found = inspect(folder, policy)
    assert "labs.visit_id -> visits -> patients." in found.notes
    assert 'role = "person"' in policy.read_text()
    quickly(folder, tmp_path / "release", policy)
    after = read(tmp_path / "release")
    assert after["labs"].columns == labs.columns
    joined = after["labs"].join(after["visits"], on="visit_id", suffix="_of_visit")
    assert joined.height == after["labs"].height
    assert (joined["patient_id"] == joined["patient_id_of_visit"]).all()
    labs.with_columns(patient_id=labs["patient_id"].shift(1, fill_value=0)).write_csv(
        folder / "labs.csv"
    )
    with pytest.raises(DataError, match=r"'labs'.*'patient_id'"):
        quickly(folder, tmp_path / "other", policy)


def test_so_many_people_as_asked(folder: Path, policy: Path, tmp_path: Path) -> None:
    made = quickly(folder, tmp_path / "release", policy, people=37)
    assert made.summary["released_people"] == 37
    assert read(tmp_path / "release")["patients"].height == 37


def test_the_same_seed_gives_the_same_bytes(folder: Path, policy: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        quickly(folder, tmp_path / name, policy)
    parts = [read_manifest(tmp_path / name).output["parts"] for name in ("one", "two")]
    assert parts[0] == parts[1]


def test_people_kept_apart_are_the_control(folder: Path, policy: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    made = quickly(folder, tmp_path / "release", policy, holdout="20%", audit=True, report=report)
    assert made.summary["kept_apart"] == 30
    assert made.summary["people"] == 120
    attacks = made.audit.result["attacks"]
    assert {"linkage", "membership", "walked:visits", "alone_joined"} <= attacks.keys()
    assert attacks["linkage"]["control"] is not None
    assert "120 people original" in made.audit.result["summary"]
    page = report.read_text()
    assert "A released history as a whole is invented" in page
    assert "lie nearer to somebody in the data" in page


def test_k_is_chosen_and_judged_on_parts_of_the_people(
    folder: Path, policy: Path, tmp_path: Path
) -> None:
    """Nobody is kept out: releases of parts are attacked next to the rest, as for one table."""
    report = tmp_path / "report.html"
    made = quickly(folder, tmp_path / "release", policy, k=None, audit=True, quick=True)
    chosen = made.summary["chosen"]
    assert {row["k"] for row in chosen["tried"]} <= {10, 15}
    assert chosen["k"] in (10, 15)
    assert {row["for"] for row in chosen["tried"]} == {"choosing", "confirming"}
    result = made.audit.result
    assert result["splits"] == 1  # quick tests attack one (conftest)
    assert "next to the rest" in result["provenance"]["attacked"]
    assert result["attacks"]["linkage"]["control"] is not None
    assert not any("no control" in word for word in result["summary"].split(";"))
    assert read_manifest(tmp_path / "release").parameters["chosen"]
    assert made.summary["people"] == PEOPLE
    assert f"Of the sizes tried, {chosen['why']}." in made.notes
    assert not report.exists()


def test_a_frontier_of_linked_tables_is_kept_and_goes_on(
    folder: Path, policy: Path, tmp_path: Path
) -> None:
    measured: list[str] = []

    def told(point: Any, done: int, total: int) -> None:
        measured.append(point.spec.label)

    given: dict[str, Any] = {"policy": policy, "quick": True, "seed": 1, "progress": told}
    found = explore_file(folder, tmp_path / "frontier", k=[5, 10], **given)
    assert [row["k"] for row in found.rows() if row["k"]] == [5, 10]
    copied, shuffled = found.points[:2]
    assert copied.level == "bad"
    assert copied.utility > shuffled.utility
    assert {"walked:visits", "alone_joined"} <= {*found.points[-1].attacks}
    assert (tmp_path / "frontier" / "explore.html").is_file()
    again = explore_file(folder, tmp_path / "frontier", k=[5, 10], **given)
    assert [point.risk for point in again.points] == [point.risk for point in found.points]
    with pytest.raises(ParameterError, match="--synthesis is for a single table"):
        explore_file(folder, tmp_path / "other", synthesis=["uniform"], policy=policy)


def test_a_k_that_is_given_is_judged_on_parts_as_well(
    folder: Path, policy: Path, tmp_path: Path
) -> None:
    made = quickly(folder, tmp_path / "release", policy, audit=True, quick=True)
    assert made.summary["chosen"] == {"k": 5, "tried": [], "why": "it was given"}
    assert made.audit.result["splits"] == 1


@pytest.mark.parametrize("table", ["patients", "visits"])
def test_an_audit_refuses_a_release_with_keys_of_the_original(
    table: str, folder: Path, policy: Path, tmp_path: Path
) -> None:
    key = {"patients": "patient_id", "visits": "visit_id"}[table]
    release, named = tmp_path / "release", pl.format("N{}", pl.col(key).cast(pl.String))
    for name in ("patients", "visits", "labs"):
        frame = pl.read_csv(folder / f"{name}.csv")
        if key in frame.columns:
            frame.with_columns(named.alias(key)).write_csv(folder / f"{name}.csv")
    quickly(folder, release, policy)
    true = sorted(set(pl.read_csv(folder / f"{table}.csv")[key]))
    own = read(release)
    new = {old: true[place % len(true)] for place, old in enumerate(own[table][key].to_list())}
    for name, frame in own.items():  # as if released people or rows had the keys of true ones
        if key in frame.columns:
            text = pl.col(key).replace_strict(new, return_dtype=pl.String)
            frame = frame.with_columns(text)
            frame = frame.unique(key) if name == table else frame
            frame.write_csv(release / f"{name}.csv")
    with pytest.raises(DataError, match=f"keys of the original.*{key}"):
        audit_files(folder, release, policy=policy, seed=0, attempts=20)


def test_a_split_keeps_people_whole(folder: Path, policy: Path, tmp_path: Path) -> None:
    members, control = tmp_path / "members", tmp_path / "control"
    made = split_file(folder, members, control=control, share=0.2, policy=policy, seed=0)
    assert (made.summary["members"], made.summary["control"]) == (120, 30)
    parts = [read(place) for place in (members, control)]
    for name in ("patients", "visits"):
        ids = [set(part[name]["patient_id"]) for part in parts]
        assert not ids[0] & ids[1]
    labs = [set(part["labs"]["visit_id"]) <= set(part["visits"]["visit_id"]) for part in parts]
    assert all(labs)
    assert parts[0]["icd"].equals(parts[1]["icd"])
    assert stat.S_IMODE(os.stat(members / "visits.csv").st_mode) == 0o600
    with pytest.raises(OutputExists, match="members"):
        split_file(folder, members, control=control, policy=policy)
    quickly(members, tmp_path / "release", policy, audit=True, control=control)
    assert verify(tmp_path / "release").summary["holds"]


def test_a_copy_under_new_names_is_refused_and_audited(
    folder: Path, policy: Path, tmp_path: Path
) -> None:
    members, control = tmp_path / "members", tmp_path / "control"
    split_file(folder, members, control=control, share=0.3, policy=policy, seed=0)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name, frame in read(members).items():
        keys = [key for key in ("patient_id", "visit_id") if key in frame.columns]
        frame.with_columns(pl.col(keys) + 10**7).write_csv(copy / f"{name}.csv")
    found = audit_files(members, copy, control=control, policy=policy, seed=0, attempts=100)
    assert found.verdict["privacy"]["level"] == "bad"
    with pytest.raises(PrivacyError, match="bad"):
        check_outcome(found)


def test_an_audit_takes_release_and_database_in_either_order(
    folder: Path, policy: Path, tmp_path: Path
) -> None:
    quickly(folder, tmp_path / "release", policy)
    both = [
        audit_files(*pair, policy=policy, seed=0, attempts=50, report=tmp_path / f"{place}.json")
        for place, pair in enumerate(
            [(folder, tmp_path / "release"), (tmp_path / "release", folder)]
        )
    ]
    assert both[0].result["attacks"] == both[1].result["attacks"]
    assert both[0].result["smallest_group"] == 5
    assert json.loads((tmp_path / "0.json").read_text())["attacks"]
    with pytest.raises(ParameterError, match="--worst-case"):
        audit_files(folder, tmp_path / "release", policy=policy, worst_case=True)


def test_a_bad_verdict_writes_nothing(
    folder: Path, policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tulle.database.condenser import DatabaseCondenser

    fit, sample = DatabaseCondenser.fit, DatabaseCondenser.sample

    def copy(self: Any, people: int | None = None) -> dict[str, pl.DataFrame]:
        sample(self, people)
        return dict(self._copied)

    def keep(self: Any, database: Any) -> Any:
        self._copied = dict(database.tables)
        return fit(self, database)

    monkeypatch.setattr(DatabaseCondenser, "fit", keep)
    monkeypatch.setattr(DatabaseCondenser, "sample", copy)
    with pytest.raises(Refused, match="bad"):
        quickly(folder, tmp_path / "release", policy, audit=True, holdout=0.3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hospital", "policy.toml"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError])
def test_an_interruption_leaves_nothing(
    stop: type[BaseException],
    folder: Path,
    policy: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put, calls = _database.put_table, []

    def interrupted(*args: Any, **named: Any) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise stop
        put(*args, **named)

    monkeypatch.setattr(_database, "put_table", interrupted)
    with pytest.raises(stop):
        quickly(folder, tmp_path / "release", policy)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hospital", "policy.toml"]


@pytest.mark.parametrize("where", ["tulle._report.save", "tulle.releases._on_disk._completed"])
def test_a_release_and_its_report_are_written_both_or_neither(
    folder: Path, policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(where, interrupted)
    options = {"audit": True, "accept_risk": "nobody is in it", "report": tmp_path / "report.json"}
    with pytest.raises(KeyboardInterrupt):
        quickly(folder, tmp_path / "release", policy, **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hospital", "policy.toml"]
    monkeypatch.undo()
    monkeypatch.setattr("tulle.releases._on_disk.sync_folder", interrupted)  # it is there then
    with pytest.raises(KeyboardInterrupt):
        quickly(folder, tmp_path / "release", policy, **options)
    assert {"release", "release.manifest.json", "report.json"} <= {*os.listdir(tmp_path)}


def test_an_interrupted_split_leaves_nothing(
    folder: Path, policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = split.write_table, []

    def interrupted(*args: Any, **named: Any) -> None:
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        write(*args, **named)

    monkeypatch.setattr(split, "write_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        split_file(folder, tmp_path / "members", control=tmp_path / "control", policy=policy)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hospital", "policy.toml"]


def test_a_release_is_replaced_only_if_asked(folder: Path, policy: Path, tmp_path: Path) -> None:
    quickly(folder, tmp_path / "release", policy)
    with pytest.raises(OutputExists, match="--force"):
        quickly(folder, tmp_path / "release", policy)
    quickly(folder, tmp_path / "release", policy, force=True, seed=2)
    assert verify(tmp_path / "release").summary["holds"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "ward"}, "--target"),
        ({"levels": "ward"}, "--levels"),
        ({"grouping": "mdav"}, "--grouping"),
        ({"min_group": 4}, "--min-group"),
        ({"memory": "1GB"}, "--memory"),
        ({"people": 0}, "--people"),
        ({"k": 1}, "--k"),
        ({"k": PEOPLE + 1}, "--k"),
        ({"holdout": 1.0}, "--holdout"),
    ],
)
def test_wrong_options_are_named(
    options: dict[str, Any], words: str, folder: Path, policy: Path, tmp_path: Path
) -> None:
    with pytest.raises((ParameterError, PrivacyError, DataError), match=words):
        quickly(folder, tmp_path / "release", policy, **{"audit": True, **options})
    assert not (tmp_path / "release").exists()


@pytest.mark.parametrize("name", ["release.csv", "release.parquet", "sqlite:///release.db"])
def test_the_output_is_a_folder(name: str, folder: Path, policy: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="folder"):
        quickly(folder, name if "://" in name else tmp_path / name, policy)  # type: ignore[arg-type]


def test_nothing_is_written_into_the_source(folder: Path, policy: Path) -> None:
    with pytest.raises((ParameterError, OutputExists), match=r"folder|exists"):
        quickly(folder, folder / "release", policy)
    with pytest.raises(Exception, match=r"hospital"):
        quickly(folder, folder, policy, force=True)
    assert len(list(folder.iterdir())) == 5


def edited(policy: Path, old: str, new: str) -> Path:
    text = policy.read_text()
    assert old in text
    policy.write_text(text.replace(old, new))
    return policy


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[tables.labs", "[tables.labors", r"\[tables.labors\].*'labs'"),
        ('link = "visit_id"', 'link = "visitid"', r"\[tables.labs\].*'visitid'.*'visit_id'"),
        ('key = "visit_id"', 'key = "visitid"', r"\[tables.visits\].*'visitid'.*'visit_id'"),
        ('order = ["admitted"]', 'order = ["admited"]', r"visits\].*'admited'.*'admitted'"),
        ('key = "patient_id"\n', "", r"\[people\] needs a key"),
        ('key = "code"\n', "", r"\[tables.icd\].*key"),
        ('link = "visits.icd"', 'link = "icd"', r"\[tables.icd\].*patients.icd"),
        ("[tables.visits.columns.ward]\n", "[tables.visits.columns.wrad]\n",
         r"\[tables.visits\].*'wrad'"),
    ],
)  # fmt: skip
def test_mistakes_in_the_policy_are_named(
    old: str, new: str, words: str, folder: Path, policy: Path, tmp_path: Path
) -> None:
    with pytest.raises((PolicyError, DataError), match=words):
        quickly(folder, tmp_path / "release", edited(policy, old, new))


def test_columns_that_may_name_people_are_refused_without_a_role(
    folder: Path, tmp_path: Path
) -> None:
    people = pl.read_csv(folder / "patients.csv").with_columns(
        e_mail=pl.format("p{}@example.org", pl.int_range(pl.len()))
    )
    people.write_csv(folder / "patients.csv")
    bare = tmp_path / "bare.toml"
    bare.write_text(
        '[people]\ntable = "patients"\nkey = "patient_id"\n'
        '[tables.visits]\nparent = "patients"\nlink = "patient_id"\nkey = "visit_id"\n'
    )
    made = quickly(folder, tmp_path / "release", bare)
    assert "e_mail" not in read(tmp_path / "release")["patients"].columns
    assert made.tables["left_out"][0]["column"] == "patients.e_mail"


def test_a_table_without_rows_and_one_without_people(
    folder: Path, policy: Path, tmp_path: Path
) -> None:
    header = (folder / "labs.csv").read_text().split("\n", 1)[0]
    (folder / "labs.csv").write_text(header + "\n")
    quickly(folder, tmp_path / "release", policy)
    assert read(tmp_path / "release")["labs"].is_empty()
    header = (folder / "patients.csv").read_text().split("\n", 1)[0]
    (folder / "patients.csv").write_text(header + "\n")
    with pytest.raises(DataError, match="'patients'.*no people"):
        quickly(folder, tmp_path / "other", policy)


def test_visits_numbered_within_patients(folder: Path, tmp_path: Path) -> None:
    ours = tables()
    visits = ours["visits"].sort("patient_id", "admitted")
    visits = visits.with_columns(number=pl.int_range(1, pl.len() + 1).over("patient_id"))
    labs = ours["labs"].join(visits.select("visit_id", "patient_id", "number"), on="visit_id")
    visits.drop("visit_id").write_csv(folder / "visits.csv")
    labs.drop("visit_id").write_csv(folder / "labs.csv")
    found = inspect(folder, tmp_path / "policy.toml")
    assert "labs.patient_id+number -> visits -> patients." in found.notes
    quickly(folder, tmp_path / "release", tmp_path / "policy.toml")
    after = read(tmp_path / "release")
    key = ["patient_id", "number"]
    assert not after["visits"].select(key).is_duplicated().any()
    assert after["labs"].join(after["visits"], on=key, how="anti").is_empty()


def test_the_metadata_of_sdv_are_enough(folder: Path, tmp_path: Path) -> None:
    (folder / "audit_log.csv").unlink()
    (folder / "icd.csv").unlink()
    kinds = {"patient_id": "id", "visit_id": "id", "born": "datetime", "admitted": "datetime",
             "discharged": "datetime", "cost": "numerical", "value": "numerical"}  # fmt: skip
    described = {
        name: {
            "primary_key": {"patients": "patient_id", "visits": "visit_id"}.get(name),
            "columns": {c: {"sdtype": kinds.get(c, "categorical")} for c in frame.columns},
        }
        for name, frame in tables().items()
        if name not in ("audit_log", "icd")
    }
    links = [
        {"parent_table_name": "patients", "parent_primary_key": "patient_id",
         "child_table_name": "visits", "child_foreign_key": "patient_id"},
        {"parent_table_name": "visits", "parent_primary_key": "visit_id",
         "child_table_name": "labs", "child_foreign_key": "visit_id"},
    ]  # fmt: skip
    metadata = tmp_path / "metadata.json"
    metadata.write_text(json.dumps({"tables": described, "relationships": links}))
    quickly(folder, tmp_path / "release", metadata)
    assert sorted(read(tmp_path / "release")) == ["labs", "patients", "visits"]


def test_a_written_policy_is_the_one_that_was_read(policy: Path, tmp_path: Path) -> None:
    write_policy(load_policy(policy), tmp_path / "again.toml", made_for="hospital")
    assert (tmp_path / "again.toml").read_text() == policy.read_text()


def test_what_is_shown_is_what_was_made(folder: Path, policy: Path, tmp_path: Path) -> None:
    asked = ["condense", folder, "-o", tmp_path / "r", "--policy", policy, "--k", 10, "--no-audit"]
    shown = CliRunner().invoke(tulle, [*map(str, asked)])
    assert shown.exit_code == 0, shown.exception
    assert "released people" in shown.output
