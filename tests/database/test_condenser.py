"""Releases of databases: keys join, order and constants hold, and everything rests on people."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.database.hospital import database, tables
from tests.examples import few
from tulle import Condenser, Database, DatabaseCondenser
from tulle.errors import GateError, ParameterError, PrivacyError
from tulle.table.schema import Column, Kind, Role

pytestmark = pytest.mark.slow

RULES = [
    "visits.admitted <= visits.discharged",
    "patients.n_visits = count(visits)",
    "patients.paid = sum(visits.cost)",
    "next(visits.age) >= visits.age",
    "patients.born <= year(visits.admitted)",
    "abs(patients.born) <= 9999 * count(visits) + 9999",
    "1920 < patients.born < 2010",
    "patients.born - 10000 <= min(visits.cost)",
]


@pytest.fixture(scope="module")
def fitted() -> DatabaseCondenser:
    return DatabaseCondenser(8, rules=RULES, random_state=0).fit(database())


@pytest.fixture(scope="module")
def released(fitted: DatabaseCondenser) -> dict[str, pl.DataFrame]:
    return fitted.sample()


def joins(child: pl.Series, parent: pl.Series) -> bool:
    return set(child) <= set(parent) and parent.n_unique() == len(parent)


def test_keys_are_new_and_join(released: dict[str, pl.DataFrame]) -> None:
    given = tables()
    assert {name: table.columns for name, table in released.items()} == {
        name: given[name].columns for name in released
    }
    assert released["patients"].height == given["patients"].height
    assert joins(released["visits"]["patient"], released["patients"]["patient"])
    assert joins(released["drugs"]["patient"], released["patients"]["patient"])
    assert joins(released["labs"]["visit"], released["visits"]["visit"])
    assert not set(released["patients"]["patient"]) & set(given["patients"]["patient"])
    assert not released["patients"]["patient"].is_sorted()


def test_order_and_constants_hold(released: dict[str, pl.DataFrame]) -> None:
    visits = released["visits"]
    steps = visits.select(pl.col("admitted").diff().over("patient").dt.total_days())
    assert steps["admitted"].min() >= 0
    assert visits.group_by("patient").agg(pl.col("blood").n_unique())["blood"].max() == 1
    together = visits["patient"].rle_id().n_unique()
    assert together == visits["patient"].n_unique()


def test_rules_hold_across_rows_and_tables(
    fitted: DatabaseCondenser, released: dict[str, pl.DataFrame]
) -> None:
    patients, visits = released["patients"], released["visits"]
    found = visits.group_by("patient").agg(pl.len(), pl.col("cost").sum())
    joined = patients.join(found, on="patient", how="left").fill_null(0)
    assert (joined["n_visits"] == joined["len"]).all()
    assert (joined["paid"] == joined["cost"]).all()
    assert (visits["admitted"] <= visits["discharged"]).all()
    assert visits.select(pl.col("age").diff().over("patient"))["age"].min() >= 0
    assert {one.rule for one in fitted.rules_} == {*RULES}
    assert fitted.broken_rules_ == {}


def test_rows_at_the_same_time_come_only_where_k_people_have_some() -> None:
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(80), 5)
    for least in (0, 1):
        steps = rng.integers(1, 90, 400) * rng.integers(least, 2, 400)
        day = np.datetime64("2020-01-01") + np.cumsum(steps.reshape(80, 5), axis=1).ravel()
        table = pl.DataFrame({"who": who, "day": day, "cost": rng.normal(size=400).round(2)})
        condenser = Condenser(10, columns={"who": "person"}, order=["day"], random_state=1)
        made = condenser.fit(table).sample()
        steps = made.select(pl.col("day").diff().over("who"))["day"].drop_nulls()
        assert (steps.dt.total_days().min() == 0) == (least == 0)


def test_what_rows_add_up_to_is_found() -> None:
    condenser = DatabaseCondenser(8, random_state=0).fit(database())
    rules = {one.rule: one.found for one in condenser.rules_}
    assert rules["patients.paid = sum(visits.cost)"]
    made = condenser.sample()
    paid = made["visits"].group_by("patient").agg(pl.col("cost").sum())
    both = made["patients"].join(paid, on="patient", how="left").fill_null(0)
    assert (both["paid"] == both["cost"]).all()
    held = made["visits"].group_by("patient").agg(visits=pl.len())
    both = made["patients"].join(held, on="patient", how="left").fill_null(0)
    assert (both["n_visits"] == both["visits"]).all()


def test_look_ups_are_kept_where_enough_people_hold_the_key(
    released: dict[str, pl.DataFrame],
) -> None:
    assert released["wards"]["ward"].to_list() == ["A", "B", "C"]
    assert "rare" not in released["visits"]["ward"].to_list()


def test_everything_rests_on_people_and_says_so(fitted: DatabaseCondenser) -> None:
    assert min(people for shown in fitted.rests_on_.values() for people in shown.values()) >= 8
    assert all(model.leaf >= 16 for model in models(fitted))
    assert "not shared" in fitted.sentence()
    assert "table 'drugs': some rows lead to nobody: left out" in fitted.notes_
    assert any("'labs'" in note and "no order" in note for note in fitted.notes_)


@pytest.mark.parametrize(("strangers", "told"), [(1, "some rows"), (9, "30 rows")])
def test_rows_of_nobody_are_counted_where_they_name_many(strangers: int, told: str) -> None:
    """The people here have nothing but their key."""
    who = np.r_[np.repeat(np.arange(60), 2), 1000 + np.arange(30) % strangers]
    days = pl.DataFrame({"id": who, "cost": np.arange(150) % 7})
    people = pl.DataFrame({"id": np.arange(60)})
    links = {"days": ("id", "people")}
    found = Database({"people": people, "days": days}, people="people", key="id", links=links)
    condenser = DatabaseCondenser(8, rules=[], random_state=0).fit(found)
    assert f"table 'days': {told} lead to nobody: left out" in condenser.notes_
    made = condenser.sample()
    assert made["people"].columns == ["id"]
    assert set(made["days"]["id"]) == set(made["people"]["id"])


def models(condenser: DatabaseCondenser) -> list[Any]:
    return [table.model for table in condenser._histories.tables if table.model is not None]


def test_a_leaf_with_too_few_people_stops_the_release(fitted: DatabaseCondenser) -> None:
    model = models(fitted)[0]
    leaf = model.leaf
    object.__setattr__(model, "leaf", 1000)
    try:
        with pytest.raises(PrivacyError, match="nothing is released"):
            fitted.sample()
    finally:
        object.__setattr__(model, "leaf", leaf)


def test_the_fitted_state_holds_no_row_and_no_key(fitted: DatabaseCondenser) -> None:
    import pickle

    state = pickle.dumps(fitted)
    given = tables()
    assert not any(key.encode() in state for key in given["patients"]["patient"])
    assert len(state) < 3_000_000
    lengths = {table.height for name, table in given.items() if name != "wards"}
    for model in models(fitted):
        assert not any(len(getattr(c, "values", getattr(c, "codes", ()))) for c in model.columns)
    assert lengths  # rows are counted, not kept


def test_people_are_drawn_in_batches_that_join(
    fitted: DatabaseCondenser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tulle.condense._histories._BATCH", 70)
    made = fitted.sample()
    test_keys_are_new_and_join(made)
    test_order_and_constants_hold(made)
    assert made["visits"]["patient"].n_unique() > 100


def test_other_numbers_of_people_and_other_kinds_of_tables() -> None:
    given = {name: table.to_pandas() for name, table in tables().items() if name != "wards"}
    hospital = Database(
        given, people="patients", key="patient",
        links={"visits": ("patient", "patients"), "labs": ("visit", "visits"),
               "drugs": ("patient", "patients")},
        keys={"visits": "visit"},
    )  # fmt: skip
    condenser = DatabaseCondenser(10, random_state=1).fit(hospital)
    found = condenser.sample(people=40)
    assert isinstance(found["visits"], pd.DataFrame)
    assert len(found["patients"]) == 40
    assert any("in the order of 'admitted'" in note for note in condenser.notes_)
    assert (found["visits"].admitted.dtype, found["visits"].age.dtype) == (
        given["visits"].admitted.dtype,
        given["visits"].age.dtype,
    )


def test_a_rule_that_cannot_be_kept_is_refused() -> None:
    hospital = database(people=120)
    with pytest.raises(GateError, match=r"visits\.cost"):
        DatabaseCondenser(8, rules=["visits.cost < 0"], random_state=0).fit_resample(hospital)
    with pytest.raises(ParameterError, match="no common parent"):
        DatabaseCondenser(8, rules=["count(visits) = count(labs)"]).fit(hospital)
    with pytest.raises(ParameterError, match="'nothing'"):
        DatabaseCondenser(8, rules=["max(visits.nothing) < 3"]).fit(hospital)
    with pytest.raises(PrivacyError, match="only 120 different people"):
        DatabaseCondenser(121).fit(hospital)
    with pytest.raises(ParameterError, match="Database"):
        DatabaseCondenser(5).fit(tables())


def small(seed: int) -> tuple[Database, int]:
    """Return a random database of two or three levels, with keys and orders of any kind."""
    rng = np.random.default_rng(seed)
    k, people = int(rng.integers(2, 6)), int(rng.integers(14, 40))
    rows = rng.integers(0, rng.integers(2, 6), people)
    who = np.repeat(np.arange(people), rows)
    of = np.repeat(np.arange(len(who)), rng.integers(0, 3, len(who)))
    time = rng.choice(["day", "level", ""])
    inner = {
        "id": who,
        "key": np.arange(len(who)),
        "day": rng.integers(0, 50, len(who)),
        "level": rng.normal(size=len(who)).round(2),
        "kind": rng.choice(["a", "b", "c"], len(who)),
        "same": (np.arange(people) % 3)[who],
    }
    given = {
        "people": pl.DataFrame({"id": np.arange(people), "x": rng.normal(size=people)}),
        "rows": pl.DataFrame(inner),
        "parts": pl.DataFrame({"key": of, "y": rng.integers(0, 9, len(of))}),
    }
    links: dict[str, Any] = {"rows": ("id", "people"), "parts": ("key", "rows")}
    options: dict[str, Any] = {"order": {"rows": [time]} if time else {}}
    return Database(
        given, people="people", key="id", links=links, keys={"rows": "key"}, **options
    ), k  # fmt: skip


@few(12)
@given(st.integers(0, 2**32))
def test_any_database_joins_keeps_order_and_counts_people(seed: int) -> None:
    found, k = small(seed)
    condenser = DatabaseCondenser(k, random_state=seed).fit(found)
    released = condenser.sample()
    rows, parts = released["rows"], released["parts"]
    assert joins(rows["id"], released["people"]["id"])
    assert joins(parts["key"], rows["key"])
    assert rows.group_by("id").agg(pl.col("same").n_unique())["same"].max() in (1, None)
    for time in found.order.get("rows", ()):
        steps = rows.select(pl.col(time).diff().over("id"))[time].drop_nulls()
        assert (steps >= 0).all()
    shown = [n for table in condenser.rests_on_.values() for n in table.values()]
    assert min(shown) >= k
    for model in models(condenser):
        assert min(t.forest.fewest for chain in model.chains for t in chain.targets) >= model.leaf
        assert model.leaf >= min(2 * k, found.n_people) or model.leaf >= k


def test_a_table_of_visits_is_released_with_people() -> None:
    rng = np.random.default_rng(3)
    who = np.repeat(np.arange(90), 5)
    table = pl.DataFrame(
        {
            "who": [f"X{p}" for p in who],
            "year": 2000 + np.tile(np.arange(5), 90),
            "sex": (np.arange(90) % 2)[who],
            "pay": (rng.normal(size=90)[who] + rng.normal(scale=0.2, size=450)).round(2),
        }
    )
    shuffled = table[rng.permutation(450)].sort("year")
    condenser = Condenser(10, columns={"who": "person"}, random_state=0).fit(shuffled)
    released = condenser.sample()
    assert released.columns == table.columns
    assert released["who"].n_unique() == 90
    assert (released.group_by("who").agg(pl.col("year").sort())["year"].list.len() == 5).all()
    assert released.select(pl.col("year").diff().over("who"))["year"].drop_nulls().min() >= 1
    assert released.group_by("who").agg(pl.col("sex").n_unique())["sex"].max() == 1
    within = released.group_by("who").agg(pl.col("pay").std())["pay"].mean()
    assert within < 0.5 * released["pay"].std()  # rows of a released person are alike
    assert any("'year'" in note for note in condenser.notes_)
    assert condenser.sample(20)["who"].n_unique() == 20


def siblings(*, dated: bool, people: int = 240) -> Database:
    """Stays and moves of the same people, which begin on the same day where there are both."""
    rng = np.random.default_rng(3)
    first = rng.integers(1990, 2015, people)
    tables = {
        "people": pl.DataFrame({"id": np.arange(people), "sex": rng.choice(["f", "m"], people)})
    }
    for name, fewest in (("stays", 0), ("moves", 1)):
        counts = rng.integers(fewest, 5, people)
        who = np.repeat(np.arange(people), counts)
        place = np.arange(len(who)) - np.repeat(np.cumsum(counts) - counts, counts)
        year = pl.Series(first[who] + place * rng.integers(1, 3, people)[who])
        time = pl.select(pl.date(year, 1 + who % 12, 1)).to_series() if dated else year
        tables[name] = pl.DataFrame({"id": who, "time": time, "x": rng.normal(size=len(who))})
    return Database(
        tables, people="people", key="id",
        links=dict.fromkeys(("stays", "moves"), ("id", "people")),
        order={"stays": ["time"], "moves": ["time"]},
    )  # fmt: skip


@pytest.mark.parametrize("dated", [False, True])
@pytest.mark.parametrize("rules", [None, ["min(stays.time) = min(moves.time)"]])
def test_sibling_tables_that_begin_together_do_so_in_the_release(
    rules: list[str] | None, dated: bool
) -> None:
    condenser = DatabaseCondenser(10, rules=rules, random_state=0).fit(siblings(dated=dated))
    made = condenser.sample()
    firsts = [made[name].group_by("id").agg(pl.col("time").min()) for name in ("stays", "moves")]
    both = firsts[0].join(firsts[1], on="id")
    assert both.height >= 150
    assert (both["time"] == both["time_right"]).all()
    (rule,) = (one for one in condenser.rules_ if "min(" in one.rule and "=" in one.rule)
    again = DatabaseCondenser(10, rules=[rule.rule], random_state=0).fit(siblings(dated=dated))
    assert [one.rule for one in again.rules_] == [rule.rule]
    assert rule.found == (rules is None)


def test_texts_of_a_person_become_codes_that_k_people_use() -> None:
    rng = np.random.default_rng(0)
    ills = ["asthma attack", "broken leg", "chest pain"]
    table = pl.DataFrame(
        {
            "who": np.repeat(np.arange(60), 3),
            "year": np.tile([2000, 2001, 2002], 60),
            "remark": [f"{ills[i]} of {name}" for name, i in enumerate(rng.integers(0, 3, 180))],
        }
    )
    columns = [Column("who", Kind.INTEGER, Role.PERSON), Column("remark", Kind.TEXT, text="codes")]
    made = Condenser(10, columns=columns, random_state=0).fit(table).sample()
    assert set(made["remark"]) <= {"asthma", "attack", "broken", "leg", "chest", "pain"}
    assert made["who"].n_unique() == 60


def test_rows_that_are_told_apart_by_a_category_are_hardly_repeated() -> None:
    """Somebody plays each position once a year; and no year is before the first of the data."""
    rng = np.random.default_rng(0)
    rows = []
    for who in range(150):
        for year in range(2000, 2000 + rng.integers(1, 5)):
            places = rng.permutation(["P", "C", "1B", "OF"])[: rng.integers(1, 4)]
            rows += [(who, year, place, int(rng.integers(1, 100))) for place in sorted(places)]
    table = pl.DataFrame(rows, schema=["who", "year", "place", "games"], orient="row")
    condenser = Condenser(10, columns={"who": "person"}, order=["year"], random_state=0).fit(table)
    made = condenser.sample()
    (model,) = (rows.model for rows in condenser._synthesis.parts[0].tables)
    model.apart.clear()
    doubled = [
        one.select(pl.struct("who", "year", "place").is_duplicated().mean()).item()
        for one in (made, condenser.sample())
    ]
    assert doubled[0] < 0.03
    assert doubled[0] < 0.7 * doubled[1]  # the few that are left have nowhere else to go
    assert made["year"].min() == 2000
    assert made["year"].max() <= 2004


def test_a_look_up_shows_what_its_roles_release() -> None:
    rng = np.random.default_rng(0)
    who = np.sort(rng.integers(0, 200, 600))
    tables = {
        "patients": pl.DataFrame(
            {"patient": [f"P{i}" for i in range(200)], "born": rng.integers(1930, 2000, 200)}
        ),
        "visits": pl.DataFrame(
            {"patient": [f"P{i}" for i in who], "ward": rng.choice(["A", "B"], 600)}
        ),
        "wards": pl.DataFrame({"ward": ["A", "B"], "head": ["x", "y"], "first": ["P3", "P9"]}),
    }
    database = Database(
        tables,
        people="patients",
        key="patient",
        links={"visits": ("patient", "patients")},
        keys={"wards": "ward"},
        look_ups=["wards"],
        columns={"wards": [Column("first", Kind.TEXT, Role.IDENTIFIER)]},
    )
    made = DatabaseCondenser(k=10, random_state=1).fit(database).sample()
    assert made["wards"].columns == ["ward", "head"]
