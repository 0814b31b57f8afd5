from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tulle import SiteAgreement
from tulle.errors import ParameterError
from tulle.table.schema import Column, Kind, Role

SCHEMA = [
    Column("patient", Kind.TEXT, Role.IDENTIFIER),
    Column("a", Kind.CATEGORY),
    Column("b", Kind.CATEGORY),
    Column("smoker", Kind.BOOLEAN),
    Column("age", Kind.INTEGER),
    Column("weight", Kind.DECIMAL),
    Column("seen", Kind.DATETIME),
]
RANGES = {"age": (0, 120), "weight": (0.0, 500.0), "seen": ("2020-01-01", "2021-01-01")}


def make(**choices: Any) -> SiteAgreement:
    return SiteAgreement.create(SCHEMA, **{"ranges": RANGES, **choices})


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        # a word is no list: its letters could be columns, and would go out plain
        ({"plain": "ab"}, "'plain'"),
        ({"plain": 5}, "'plain'"),
        ({"alias": "age"}, "'alias'"),
        ({"categories": {"a": "Flu"}}, "'categories'.*'a'"),
        ({"categories": {"a": 5}}, "'categories'.*'a'"),
        ({"categories": {"a": ["x", None]}}, "'a'"),
        ({"categories": {"smoker": ["yes", "no"]}}, "'smoker'"),
        ({"ranges": 5}, "'ranges'"),
        ({"ranges": {**RANGES, "age": 5}}, "'ranges'.*'age'"),
        ({"ranges": {**RANGES, "age": (1, 2, 3)}}, r"needs \(low, high\)"),
        ({"ranges": {**RANGES, "age": (0, 10**400)}}, "number"),
        ({"ranges": {**RANGES, "weight": (-1e308, 1e308)}}, "'weight'"),
        ({"ranges": {**RANGES, "weight": (0.0, 5e-324)}}, "'weight'"),
        ({"ranges": {**RANGES, "seen": ("08:00", "2020-01-01")}}, "date"),
        ({"ranges": {**RANGES, "a": (0, 3)}}, "'ranges'.*'a'"),
        ({"ranges": {**RANGES, "seen": ("1900", "2020")}}, "'1900'"),
        ({"limits": {"age": 5}}, "'limits'.*'age'"),
        ({"limits": {"age": []}}, "'limits'.*'age'"),
        ({"limits": {"a": [1, 2]}}, "'limits'.*'a'"),
        ({"limits": {"age": [0, 9, 20]}, "values": {"age": [1.5, 2.7]}}, "increasing integers"),
        ({"limits": {"age": [0, 9, 20]}, "values": {"age": ["x", 2]}}, "increasing integers"),
        ({"split": {"a": 0.001}}, r"'a'.*0\.015625.*1"),
        # two ways for one column: which of them was meant to protect it?
        ({"plain": ["a"], "categories": {"a": ["x"]}}, "'a'"),
        ({"plain": ["a"], "split": {"a": 0.1}}, "'a'"),
        ({"plain": ["age"], "alias": ["age"]}, "'age'"),
        ({"alias": ["age"], "limits": {"age": [0, 9]}}, "'age'"),
        ({"categories": {"a": ["x"]}, "split": {"a": 0.1}}, "'a'"),
        # what stays at home has no way out
        ({"plain": ["patient"]}, "'plain'.*'patient'"),
        ({"alias": ["patient"]}, "'alias'.*'patient'"),
        ({"split": {"patient": 0.1}}, "'split'.*'patient'"),
    ],
)
def test_choices_of_wrong_shape_or_against_each_other_are_refused(
    choices: dict[str, Any], words: str
) -> None:
    with pytest.raises(ParameterError, match=words):
        make(**choices)


def test_choices_may_come_as_arrays_and_be_combined() -> None:
    agreement = make(
        limits={"age": np.array([0, 60, 120])},
        values={"age": np.array([2, 5])},
        alias=["weight"],
        split={"weight": 0.1},
    )
    assert agreement["age"].values == (2, 5)  # type: ignore[union-attr]
    assert agreement["weight"].split == 0.1  # type: ignore[union-attr]


def test_a_range_with_a_time_at_either_end_is_one_of_time_stamps() -> None:
    for ends in (("2020-01-01", "2021-01-01T12:00"), ("2020-01-01T12:00", "2021-01-01")):
        assert make(ranges={**RANGES, "seen": ends})["seen"].type == "timestamp"


def test_columns_named_like_aliases_of_a_table_are_refused() -> None:
    schema = {"ward": "category", "ward_2": "category"}
    SiteAgreement.create(schema)
    with pytest.raises(ParameterError, match="'ward_2'.*'ward'"):
        SiteAgreement.create(schema, categories={"ward": ["A", "B", "C"]})


@pytest.mark.parametrize("schema", [None, 5, "age", {}])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(ParameterError, match="schema"):
        SiteAgreement.create(schema)
