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
        ({"plain": "ab"}, "'plain' must be a list of column names"),
        ({"plain": 5}, "'plain' must be a list of column names"),
        ({"alias": "age"}, "'alias' must be a list"),
        ({"joint": ["ab"]}, "pairs of two different columns"),
        ({"joint": 5}, "pairs of two different columns"),
        ({"categories": {"a": "Flu"}}, "'categories' needs a list for column 'a'"),
        ({"categories": {"a": 5}}, "'categories' needs a list for column 'a'"),
        ({"categories": {"a": ["x", None]}}, "lists a missing value for column 'a'"),
        ({"categories": {"smoker": ["yes", "no"]}}, "'smoker' are true and false"),
        ({"ranges": 5}, "'ranges' must be a mapping"),
        ({"ranges": {**RANGES, "age": 5}}, r"'ranges' needs \(low, high\) for column 'age'"),
        ({"ranges": {**RANGES, "age": (1, 2, 3)}}, r"needs \(low, high\)"),
        ({"ranges": {**RANGES, "age": (0, 10**400)}}, "must be a number"),
        ({"ranges": {**RANGES, "weight": (-1e308, 1e308)}}, "'weight': its range is too wide"),
        ({"ranges": {**RANGES, "weight": (0.0, 5e-324)}}, "'weight': its range is too narrow"),
        ({"ranges": {**RANGES, "seen": ("08:00", "2020-01-01")}}, "mixes times of day and dates"),
        ({"ranges": {**RANGES, "a": (0, 3)}}, "'ranges' are for numbers and dates, not for 'a'"),
        ({"ranges": {**RANGES, "seen": ("1900", "2020")}}, "'1900' is not a date such as"),
        ({"limits": {"age": 5}}, "'limits' needs a list for column 'age'"),
        ({"limits": {"age": []}}, "'limits' needs a list for column 'age'"),
        ({"limits": {"a": [1, 2]}}, "'limits' are for numbers and dates, not for 'a'"),
        ({"limits": {"age": [0, 9, 20]}, "values": {"age": [1.5, 2.7]}}, "increasing integers"),
        ({"limits": {"age": [0, 9, 20]}, "values": {"age": ["x", 2]}}, "increasing integers"),
        ({"split": {"a": 0.001}}, r"split\['a'\].*\[0.015625, 1\]"),
        # two ways for one column: which of them was meant to protect it?
        ({"plain": ["a"], "categories": {"a": ["x"]}}, "'a' cannot be in both"),
        ({"plain": ["a"], "split": {"a": 0.1}}, "'a' cannot be in both"),
        ({"plain": ["a"], "joint": [("a", "b")]}, "'a' cannot be in both 'joint' and 'plain'"),
        ({"plain": ["age"], "alias": ["age"]}, "'age' cannot be in both"),
        ({"alias": ["age"], "limits": {"age": [0, 9]}}, "'age' cannot be in both"),
        ({"categories": {"a": ["x"]}, "split": {"a": 0.1}}, "'a' cannot be in both"),
        # what stays at home has no way out
        ({"joint": [("patient", "a")]}, "'patient', which does not go out"),
        ({"plain": ["patient"]}, "'plain' names 'patient', which does not go out: .* identifier"),
        ({"alias": ["patient"]}, "'alias' names 'patient', which does not go out"),
        ({"split": {"patient": 0.1}}, "'split' names 'patient', which does not go out"),
        ({"joint": [("a", "b"), ("b", "smoker")]}, "one pair of 'joint' only"),
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
    with pytest.raises(ParameterError, match="'ward_2' is named like an alias of 'ward'"):
        SiteAgreement.create(schema, categories={"ward": ["A", "B", "C"]})


@pytest.mark.parametrize("schema", [None, 5, "age", {}])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(ParameterError, match="schema must be"):
        SiteAgreement.create(schema)
