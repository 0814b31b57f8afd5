from __future__ import annotations

import datetime
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle.guessing.columns import guess_columns, infer_columns
from tulle.table._series import is_class
from tulle.table.schema import Column, Kind, Role
from tulle.table.uniqueness import singling_out

ID, QUASI, SENSITIVE = Role.IDENTIFIER, Role.QUASI, Role.SENSITIVE
TARGET, LEVEL, IGNORED = Role.TARGET, Role.LEVEL, Role.IGNORED


def census(n: int = 400) -> pl.DataFrame:
    """A table like the Adult data, with what real tables have on top of it."""
    rng = np.random.default_rng(7)
    first, last = ["Ann", "Bob", "Cem", "Dia"], [f"Fam{i}" for i in range(150)]
    day = datetime.date(1950, 1, 1)
    return pl.DataFrame(
        {
            "record": np.arange(n) + 1000,
            "full_name": [f"{a} {b}" for a, b in zip(rng.choice(first, n), rng.choice(last, n))],
            "contact": [f"person{i}@mail.example" for i in range(n)],
            "phone": [f"+49 30 {i:07d}" for i in rng.integers(0, 10**7, n)],
            "age": rng.integers(17, 90, n),
            "birth_date": [day + datetime.timedelta(days=int(d)) for d in rng.integers(0, 2e4, n)],
            "workclass": rng.choice(["Private", "State-gov", "Self-emp"], n),
            "fnlwgt": rng.integers(10_000, 10**6, n),
            "education-num": rng.integers(1, 16, n),
            "sex": rng.integers(1, 3, n),
            "zip": rng.integers(10_000, 99_999, n),
            "num_children": rng.integers(0, 2, n),
            "capital-gain": rng.choice([0, 2174, 15024], n),
            "diagnosis": rng.choice(["flu", "asthma", "none"], n),
            "religion": rng.choice(["a", "b", "c"], n),
            "height_cm": rng.normal(170, 10, n),
            "employed": rng.random(n) < 0.5,
            "country": ["X"] * n,
            "notes": [f"patient number {i} came in the morning and felt better" for i in range(n)],
            "empty": pl.Series([None] * n, dtype=pl.String),
            "privacy_level": rng.integers(2, 10, n),
            "income": rng.choice(["<=50K", ">50K"], n),
        }
    )


EXPECTED = {
    "record": (Kind.INTEGER, ID),
    "full_name": (Kind.TEXT, ID),
    "contact": (Kind.TEXT, ID),
    "phone": (Kind.TEXT, ID),
    "age": (Kind.INTEGER, QUASI),
    "birth_date": (Kind.DATETIME, QUASI),
    "workclass": (Kind.CATEGORY, QUASI),
    "fnlwgt": (Kind.INTEGER, Role.WEIGHT),
    "education-num": (Kind.ORDERED, QUASI),
    "sex": (Kind.CATEGORY, QUASI),
    "zip": (Kind.CATEGORY, ID),  # held by one person each
    "num_children": (Kind.CATEGORY, QUASI),
    "capital-gain": (Kind.INTEGER, SENSITIVE),
    "diagnosis": (Kind.CATEGORY, SENSITIVE),
    "religion": (Kind.CATEGORY, SENSITIVE),
    "height_cm": (Kind.DECIMAL, QUASI),
    "employed": (Kind.BOOLEAN, QUASI),
    "country": (Kind.CATEGORY, IGNORED),
    "notes": (Kind.TEXT, IGNORED),
    "empty": (Kind.CATEGORY, IGNORED),
    "privacy_level": (Kind.INTEGER, LEVEL),
    "income": (Kind.CATEGORY, TARGET),
}


def test_a_realistic_table() -> None:
    frame = census()
    found = {column.name: column for column in infer_columns(frame)}
    assert {name: (c.kind, c.role) for name, c in found.items()} == EXPECTED
    assert [name for name, column in found.items() if not column.reason] == []
    assert [g.column.name for g in guess_columns(frame) if g.needs_decision] == ["zip"]


@pytest.mark.parametrize("leave", [pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
def test_any_table_is_guessed(leave: Any) -> None:
    frame = pl.DataFrame({"sex": ["f", "m"] * 20, "age": list(range(20, 60))})
    assert infer_columns(leave(frame)) == infer_columns(frame)
    assert singling_out(leave(frame)).together == singling_out(frame).together


def test_no_reason_tells_a_cell() -> None:
    frame = census()
    cells = {str(v) for series in frame for v in series.to_list() if len(str(v)) > 3}
    for column in infer_columns(frame):
        assert not [cell for cell in cells if cell in column.reason], column.name


def one(name: str, values: list[object] | pl.Series) -> Column:
    other = pl.Series("other", range(len(values))) * 0.5
    return infer_columns(pl.DataFrame([pl.Series(name, values), other]))[0]


@pytest.mark.parametrize(
    ("name", "values", "role"),
    [
        ("patient_id", list(range(50)) * 4, Role.PERSON),  # some visits each
        ("store_id", list(range(30)) * 40, Role.PERSON),
        ("store_id", list(range(30)) * 80, QUASI),  # too many rows each for a person
        ("student_score", [i * i for i in range(40)], ID),  # to be decided
        ("anything", list(range(100, 140)), ID),  # a running number
        ("anything", [i * i for i in range(40)], ID),
        ("anything", [f"k{i}" for i in range(40)], ID),
        ("anything", [f"k{i % 7}" for i in range(40)], QUASI),
        ("remark", [f"since {i}" for i in range(5)], ID),  # few, but released as they are
        ("remark", ["a", "b", "c", "d"], QUASI),
        (
            "remark",
            [f"{i % 30} and so on, at some length, of somebody" for i in range(60)],
            IGNORED,
        ),
        ("trade", [f"{i % 9} and so on, at some length, of something" for i in range(60)], QUASI),
        ("own_telephone", ["yes", "no"] * 20, QUASI),
        ("x", ["DE89 3704 0044 0532 0130 00", "GB33 BUKB 2020 1555 5555 55"], ID),
        ("uid", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"] * 2 + ["x"], QUASI),
        ("level", [1, 2, 3, 3], LEVEL),
        ("level", [-1, 2, 3, 3], QUASI),
        ("education_level", [1, 2, 3, 3], QUASI),
        ("when", [datetime.date(2024, 1, d) for d in range(1, 29)], QUASI),
        ("void", [None, None], IGNORED),
        ("same", [1, 1, 1], IGNORED),
        ("same", [1, None, 1], QUASI),
    ],
)
def test_roles(name: str, values: list[object], role: Role) -> None:
    assert one(name, values).role is role


@pytest.mark.parametrize(
    "name",
    ["Surname", "First name", "PATIENT_NAME", "FIRSTNAME", "Name of patient", "NAME", "PatientName"]
    + ["Nachname", "Vorname", "Prénom", "Apellidos", "username", "family_names"],
)
def test_personal_names_are_identifiers_however_few(name: str) -> None:
    assert one(name, ["Smith", "Jones", "Meier"] * 20).role is ID
    assert one(name, [1, 2] * 20).role is QUASI  # whatever they count, they are no names
    assert one(name, [True, False] * 20).role is QUASI


@pytest.mark.parametrize("name", ["file name", "Artikelname", "first visit", "patient group"])
def test_names_of_things_are_none(name: str) -> None:
    assert one(name, ["a", "b", "c"] * 20).role is QUASI


def test_one_target_at_most() -> None:
    few, many = ["a", "b"] * 20, [i * 0.1 for i in range(40)]
    roles = {c.name: c.role for c in infer_columns(pl.DataFrame({"class": few, "label": few}))}
    assert roles == {"class": QUASI, "label": TARGET}
    assert infer_columns(pl.DataFrame({"a": few, "target": many}))[1].role is QUASI
    assert infer_columns(pl.DataFrame({"income": few, "z": few}))[0].role is SENSITIVE
    assert infer_columns(pl.DataFrame({"z": few, "income": few}))[1].role is TARGET
    assert infer_columns(pl.DataFrame({"z": few, "class": [0, 1] * 20}))[1].kind is Kind.CATEGORY


def test_counts() -> None:
    frame = pl.DataFrame({"x": [1.0, None, float("nan"), 2.0, 2.0], "t": ["a", "b", None, "", "a"]})
    counts = [(g.records, g.absent, g.distinct) for g in guess_columns(frame)]
    assert counts == [(5, 2, 2), (5, 2, 2)]


def test_categoricals_and_nested() -> None:
    assert one("t", pl.Series(["a", "b"] * 20, dtype=pl.Categorical)).kind is Kind.CATEGORY
    (nested,) = guess_columns(pl.DataFrame({"t": [[1], [1], None]}))
    assert (nested.column.role, nested.absent) == (IGNORED, 1)
    assert infer_columns(pl.DataFrame({"a": pl.Series([], dtype=pl.Int64)}))[0].role is IGNORED


@pytest.mark.slow
@given(st.lists(st.tuples(*[st.none() | st.integers(0, 3)] * 4), min_size=1, max_size=30))
def test_singling_out_counts_what_a_counter_counts(rows: list[tuple[int | None, ...]]) -> None:
    frame = pl.DataFrame(rows, schema=dict.fromkeys("abcd", pl.Int64), orient="row")
    found = {one.columns: one.unique for one in singling_out(frame).combinations}
    for size in (1, 2, 3):
        for columns in combinations("abcd", size):
            groups = frame.group_by(columns).len()
            unique = int((groups["len"] == 1).sum())
            assert found.get(columns, unique) == unique
    assert list(found) == sorted(found, key=len)


def test_singling_out_reports_what_adds_something_and_its_budget() -> None:
    frame = pl.DataFrame(
        {"a": range(100), "b": [0] * 50 + [1] * 50, "c": [*range(50)] * 2, "d": [0] * 100}
    )
    every = singling_out(frame)
    assert [one.columns for one in every.combinations] == [("a",), ("b", "c")]
    assert every.combinations[0].share == 1.0
    wide = pl.DataFrame({f"c{i}": np.arange(60) % (i + 2) for i in range(20)})
    some = singling_out(wide, budget=50)
    assert (some.examined, some.possible) == (50, 20 + 190 + 1140)
    assert singling_out(frame.clear()).combinations == ()
    assert singling_out(frame, ["b", "d"]).combinations == ()


def test_singling_out_with_more_keys_than_64_bits_hold() -> None:
    rng = np.random.default_rng(1)
    values = {name: rng.integers(0, 2**40, 5000) for name in "abc"}
    frame = pl.DataFrame(values).with_columns(pl.all() // 2**39)
    wide = pl.concat([frame, frame])
    assert singling_out(wide).combinations == ()


@pytest.mark.parametrize(
    "values, records, classes",
    [(2, 3, True), (10, 30, True), (11, 30, False), (50, 150, True), (51, 900, False)],
)
def test_numbers_are_classes_if_each_comes_often(values: int, records: int, classes: bool) -> None:
    numbers = pl.Series([place % values for place in range(records)])
    assert is_class(numbers) is classes
    assert is_class(numbers.cast(pl.Float64).extend(pl.Series([None, float("nan")]))) is classes
    assert not is_class(numbers + 0.5)
    assert is_class(numbers, Kind.CATEGORY)
    assert is_class(numbers.cast(pl.String))
    assert not is_class(numbers.cast(pl.Datetime("us")))


@pytest.mark.parametrize(
    ("name", "low", "role"),
    [
        ("anweight", 0.2, Role.WEIGHT),
        ("Hochrechnungsfaktor", 0.2, Role.WEIGHT),
        ("anweight", -1.0, Role.QUASI),
        ("weight", 0.2, Role.QUASI),  # of a body
        ("birth_weight", 0.2, Role.QUASI),
    ],
)
def test_survey_weights_are_named_so_and_not_below_zero(name: str, low: float, role: Role) -> None:
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"age": rng.integers(18, 90, 200), name: rng.uniform(low, 3, 200)})
    assert infer_columns(table)[1].role is role


def test_of_several_survey_weights_the_last_is_kept() -> None:
    weights = np.random.default_rng(0).uniform(0.2, 3, 200)
    table = pl.DataFrame({"dweight": weights, "pspwght": 2 * weights, "anweight": 3 * weights})
    assert [c.role for c in infer_columns(table)] == [Role.IGNORED, Role.IGNORED, Role.WEIGHT]


def test_of_many_numbers_one_that_a_single_record_has_makes_them_a_quantity() -> None:
    rings = pl.Series([age for age in range(1, 29) for _ in range(20)])
    assert is_class(rings)
    assert not is_class(rings.extend(pl.Series([29])))
    assert is_class(pl.Series([1, 2, 3] * 20 + [4]))  # a class of one, among few
