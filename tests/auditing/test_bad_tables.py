"""audit() names what it cannot take."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tulle import audit
from tulle.errors import DataError, ParameterError, PolicyError, PrivacyError

GOOD = pl.DataFrame({"age": [30, 40, 50], "city": ["x", "y", "x"]})


@pytest.mark.parametrize(
    "release, message",
    [
        (GOOD.drop("city"), "lacks 1 column.*'city'"),
        (GOOD.with_columns(more=1), "lacks 1 column.*'more'"),
        (GOOD.clear(), "has 0 rows"),
        (GOOD.with_columns(pl.col("age").cast(pl.String)), "category"),
        (GOOD.with_columns(city=pl.Series([1, 2, 3])), "'city'"),
        (GOOD.with_columns(age=pl.Series([date(2020, 1, 1)] * 3)), "datetime"),
        (5, "cannot read"),
    ],
)
def test_a_release_that_cannot_be_compared_is_named(release: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        audit(GOOD, release)
    assert "30" not in str(caught.value)


def test_other_bad_input_is_named() -> None:
    with pytest.raises(DataError, match="has 0 rows"):
        audit(GOOD.clear(), GOOD)
    with pytest.raises(DataError, match="lacks 1"):
        audit(GOOD, GOOD, control=GOOD.drop("age"))
    with pytest.raises(PolicyError, match="'city'"):
        audit(GOOD, GOOD, policy={"citi": "sensitive"})
    with pytest.raises(PolicyError, match="'city'"):
        audit(GOOD, GOOD, policy={"city": "secret"})
    assert audit(GOOD, GOOD, policy={"age": "category"}, random_state=0).result["records"] == 3
    with pytest.raises(PolicyError):
        audit(GOOD, GOOD, policy=3)
    with pytest.raises(PolicyError, match="DataFrame"):
        audit(GOOD, GOOD, policy=GOOD)
    with pytest.raises(ParameterError, match="'city'"):
        audit(GOOD, GOOD, sensitive="city")
    empty = GOOD.with_columns(city=pl.Series([math.nan] * 3))
    assert audit(empty, GOOD, random_state=0).result["records"] == 3  # all missing fits any kind
    with pytest.raises(DataError):
        audit(GOOD, GOOD, policy={"age": "ignored", "city": "level"})
    with pytest.raises(PolicyError):
        audit(GOOD, GOOD, policy="nowhere.toml")
    for option in ("target", "sensitive"):
        with pytest.raises(ParameterError, match=f"'{option}' parameter of audit"):
            audit(GOOD, GOOD, **{option: "agee" if option == "target" else ["agee"]})
    with pytest.raises(ParameterError, match="'k'"):
        audit(GOOD, GOOD, k=1)
    with pytest.raises(ParameterError, match="'attempts'"):
        audit(GOOD, GOOD, attempts=0)
    with pytest.raises(ParameterError):
        audit(GOOD[["age"]], GOOD[["age"]], target="age")


def test_a_release_that_names_people_is_refused() -> None:
    named = GOOD.with_columns(name=pl.Series(["ann", "bob", "eve"]))
    policy = {"name": "identifier"}
    with pytest.raises(PrivacyError, match="'name'") as caught:
        audit(named, named, policy=policy)
    assert caught.value.exit_code == 1
    audit(named, GOOD, control=named[:1], policy=policy, random_state=0)  # the control stays here
    audit(named, named, policy={"name": "ignored"}, random_state=0)


@pytest.mark.slow
def test_a_control_of_members_would_hide_everything_and_is_refused(data: tuple) -> None:
    people, control = data
    with pytest.raises(DataError, match="350.*350 records"):
        audit(people, people, control=people)
    with pytest.raises(DataError, match="10.*360 records"):
        audit(people, people, control=np.vstack([control, people[:10]]))
    audit(people, people, control=np.vstack([control, people[:3]]), attempts=5)
    few = np.random.default_rng(0).integers(0, 3, (200, 2))
    audit(few, few, control=few[::-1], attempts=5)  # everybody has a twin: that says nothing


@pytest.mark.slow
def test_attempts_fall_only_where_tables_are_large() -> None:
    rng = np.random.default_rng(0)
    small, large = rng.normal(size=(1500, 2)), rng.normal(size=(100_000, 2))
    tried = [
        audit(table, table[:50], sensitive=[], random_state=0).to_dict()["attacks"]
        for table in (small, large)
    ]
    assert tried[0]["linkage"]["attempts"] == 1000
    assert tried[1]["linkage"]["attempts"] == 400
    assert tried[1]["exact_copies"]["attempts"] == 100_000


def test_pandas_index_and_plain_arrays_are_taken() -> None:
    frame = pd.DataFrame({"a": [1.5, 2.5, 9.0], "b": [1, 0, 1]}, index=[7, 8, 9])
    found = audit(frame, frame.iloc[::-1], random_state=0).verdict["privacy"]
    assert found["level"] in ("bad", "undecided")  # three people decide nothing
    rows = [[1, "a"], [2, "b"], [3, "a"]]
    assert audit(rows, rows, random_state=0).to_dict()["attacks"]["exact_copies"]["rate"] == 1


@pytest.mark.slow
def test_numbers_of_any_size_and_beyond_all_bounds() -> None:
    rng = np.random.default_rng(11)
    table = pl.DataFrame({"x": rng.normal(size=60), "c": rng.choice(["a", "b"], 60)})
    for size in (1e300, 1e-300):
        sized = table.with_columns(pl.col("x") * size)
        attacks = audit(sized, sized.reverse(), random_state=0).to_dict()["attacks"]
        assert attacks["linkage"]["rate"] == 1
    wild = table.with_columns(x=pl.Series([1e300, float("inf"), *[0.0] * 58]))
    for pair in ((table, wild), (wild, table)):
        audit(*pair, random_state=0).html()
    with pytest.raises(ParameterError, match="'estimator'"):
        audit(table, table, target="c", estimator=5)
