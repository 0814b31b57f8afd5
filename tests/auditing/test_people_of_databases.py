"""The audit of people who have rows in several tables, or several rows in one."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from tulle import (
    Audit,
    Column,
    Database,
    DataError,
    Kind,
    Policy,
    Role,
    audit,
    hospital,
    infer_columns,
)
from tulle.auditing._database import ComparedPeople, Trait, derived_traits
from tulle.auditing.audit import audit_people

pytestmark = pytest.mark.slow


def linked(tables: dict[str, pl.DataFrame]) -> Database:
    return Database(
        tables,
        people="patients",
        key="patient_id",
        links={"visits": [("patient_id", "patients"), ("icd", "icd")],
               "labs": ("visit_id", "visits")},
        keys={"visits": "visit_id", "icd": "code"},
        order={"visits": ["admitted"]},
        look_ups=["icd"],
    )  # fmt: skip


ORIGINAL, OTHERS, CONTROL = (hospital(n, random_state=i) for i, n in enumerate((400, 400, 200)))
COLUMNS = {name: infer_columns(frame) for name, frame in ORIGINAL.items()}


def audited(release: dict[str, pl.DataFrame], **options: Any) -> Audit:
    databases = (linked(ORIGINAL), linked(release), linked(CONTROL))
    return audit_people(ComparedPeople(*databases, COLUMNS), 0, quick=True, **options)


def test_a_copy_with_new_keys_is_found_out() -> None:
    found = audited(ORIGINAL)
    assert found.verdict["privacy"]["level"] == "bad"
    attacks = found.result["attacks"]
    for name in ("linkage", "walked:visits", "alone_joined", "linkage:rows of visits"):
        assert attacks[name]["risk"] > 0.5, name
    assert found.result["metrics"]["nearest_record_share"] > 0.65


def test_other_people_are_not() -> None:
    found = audited(OTHERS)
    assert found.verdict["privacy"]["level"] != "bad"
    assert abs(found.result["metrics"]["nearest_record_share"] - 0.5) < 0.1
    assert found.result["metrics"]["propensity_auc"] < 0.6
    assert "400 people original" in found.result["summary"]
    assert "3 tables of people" in found.result["summary"]
    assert any("not shared by k people" in limit for limit in found.result["limits"])


def test_independent_rows_are_told_apart() -> None:
    """Rows dealt out at random to people, as a table without people would release them."""
    visits = OTHERS["visits"]
    shuffled = visits["patient_id"].sample(fraction=1, shuffle=True, seed=1)
    found = audited({**OTHERS, "visits": visits.with_columns(patient_id=shuffled)})
    together = audited(OTHERS)
    told = [one.result["metrics"]["propensity_auc"] for one in (found, together)]
    assert told[0] > told[1] + 0.1


def test_one_row_is_made_of_each_person() -> None:
    people = ComparedPeople(linked(ORIGINAL), linked(OTHERS), None, COLUMNS)
    traits = people.traits()
    table = people.people(0, traits)
    assert table.height == 400
    names = [trait.name for trait in traits]
    for name in ("patients.sex", "visits (rows)", "visits.cost (mean)", "visits.icd (commonest)",
                 "visits.admitted (mean gap)", "labs.value (least)"):  # fmt: skip
        assert name in names
    assert not any("_id" in name for name in names)  # keys are not compared
    counts = ORIGINAL["visits"].group_by("patient_id").len()
    expected = ORIGINAL["patients"].join(counts, on="patient_id", how="left")["len"].fill_null(0)
    assert table["visits (rows)"].to_list() == expected.to_list()  # also of those without visits


def test_what_never_changes_is_asked_once() -> None:
    panel = pl.DataFrame(
        {
            "id": [i // 4 for i in range(400)],
            "year": [2000 + i % 4 for i in range(400)],
            "sex": ["fm"[i // 4 % 2] for i in range(400)],
            "wage": [float(i * 7919 % 101) for i in range(400)],
        }
    )
    tables = {"who": panel.select(pl.col("id").unique(maintain_order=True)), "panel": panel}
    links = {"panel": ("id", "who")}
    database = Database(tables, people="who", key="id", links=links, order={"panel": ["year"]})
    columns = {name: infer_columns(table) for name, table in tables.items()}
    names = [t.name for t in ComparedPeople(database, database, None, columns).traits()]
    assert "panel.sex" in names
    assert "panel.wage (last)" in names
    assert "panel.sex (different)" not in names
    found = audit_people(ComparedPeople(database, database, None, columns), 0, quick=True)
    assert "100 people original (400 rows)" in found.result["summary"]
    assert found.result["attacks"]["exact_copies"]["rate"] == 1.0


@pytest.mark.parametrize("empty", ["visits", "labs"])
def test_empty_tables_do_no_harm(empty: str) -> None:
    release = {**OTHERS, empty: OTHERS[empty].clear()}
    if empty == "visits":
        release["labs"] = OTHERS["labs"].clear()
    assert audited(release).result["metrics"]


def test_python_audits_a_database_and_a_release_of_it() -> None:
    found = audit(linked(ORIGINAL), OTHERS, control=CONTROL, random_state=0, attempts=60)
    assert found.verdict["privacy"]["level"] != "bad"
    assert "walked:visits" in found.to_dict()["attacks"]
    assert found.html("public")


def test_a_release_that_names_people_as_the_original_does_is_refused() -> None:
    rng = np.random.default_rng(0)
    rows = pl.DataFrame({"who": np.repeat(np.arange(700, 760), 3), "x": rng.normal(size=180)})
    entries = [Column("who", Kind.INTEGER, Role.PERSON), Column("x", Kind.DECIMAL, Role.QUASI)]
    with pytest.raises(DataError, match="60 of 60 keys .* 'who'"):
        audit(rows, rows, policy=Policy(tuple(entries)))
    new = rows.with_columns(who=pl.Series(np.repeat(1 + rng.permutation(60), 3)))
    audit(rows.with_columns(pl.col("who") - 699), new, policy=Policy(tuple(entries)))


def test_statistics_of_one_column_are_not_effects_on_each_other() -> None:
    traits = [
        Trait("", "pay", "mean", Role.QUASI, False),
        Trait("", "age", "", Role.QUASI, False),
        Trait("", "pay", "first", Role.QUASI, False),
    ]
    assert derived_traits(traits) == ["pay (first)"]


def test_relations_are_looked_for_in_rows_and_not_in_their_summaries() -> None:
    rng = np.random.default_rng(3)
    who = np.repeat(np.arange(200), 4)
    begin = rng.integers(0, 100, 800)
    table = pl.DataFrame({"who": who, "begin": begin, "end": begin + rng.integers(0, 30, 800)})
    end = np.where(rng.random(800) < 0.2, begin - 5, table["end"])
    turned = table.with_columns(end=end, who=np.repeat(rng.permutation(200) + 1000, 4))
    policy = {"who": "person"}
    for release, share in ((turned, 0.2), (turned.with_columns(end=table["end"]), 0.0)):
        result = audit(table, release, policy=policy, random_state=0).result
        assert result["metrics"]["rules_broken"] == pytest.approx(share, abs=0.05)
        assert result["where"]["rules_broken"] == "columns 'begin' and 'end'"
