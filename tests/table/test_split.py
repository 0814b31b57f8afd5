"""Splitting a table: people stay whole, classes stay even, seeds repeat it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tulle import split
from tulle.errors import DataError, ParameterError
from tulle.table.split import split_rows


def visits(n: int = 600, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "patient": rng.integers(0, n // 3, n),
            "age": rng.integers(0, 99, n),
            "dead": rng.random(n) < 0.05,
        }
    )


def test_a_tenth_by_default_in_the_old_order_and_nobody_lost() -> None:
    table = visits().with_row_index("row")
    members, control = split(table, random_state=1)
    assert control.height == 60
    assert members["row"].is_sorted()
    assert control["row"].is_sorted()
    assert sorted([*members["row"], *control["row"]]) == table["row"].to_list()


def test_the_same_seed_splits_alike_and_another_does_not() -> None:
    first, again, other = (split(visits(), random_state=seed)[1] for seed in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)


@pytest.mark.guarantee
@few(40)
@given(st.integers(0, 10_000), st.floats(0.05, 0.9))
def test_nobody_is_in_both_parts(seed: int, share: float) -> None:
    table = visits(90, seed)
    rows = split_rows(table, share, person="patient", target="dead", random_state=seed)
    people = table["patient"].to_numpy()
    assert not set(people[rows.members]) & set(people[rows.control])
    assert rows.controls == len(set(people[rows.control])) == max(1, round(share * rows.people))


@few(40)
@given(st.integers(0, 10_000), st.floats(0.05, 0.9))
def test_every_class_gives_its_share_rounded_down_or_up(seed: int, share: float) -> None:
    table = pl.DataFrame(
        {"y": np.random.default_rng(seed).choice(list("abc"), 80, p=[0.8, 0.15, 0.05])}
    )
    rows = split_rows(table, share, target="y", random_state=seed)
    part = len(rows.control) / 80  # what the share is in whole records
    outside = table[rows.control]["y"].to_list()
    for label in "abc":
        expected = part * (table["y"] == label).sum()
        assert abs(outside.count(label) - expected) < 1 + 1e-9


def test_a_quantity_is_spread_over_its_tenths() -> None:
    table = pl.DataFrame({"cost": np.random.default_rng(3).lognormal(size=1000)})
    _, control = split(table, target="cost", random_state=0)
    ranks = np.searchsorted(np.sort(table["cost"]), control["cost"]) // 100
    assert np.bincount(ranks, minlength=10).tolist() == [10] * 10


def test_rows_without_a_person_stay_with_the_members() -> None:
    table = pl.DataFrame({"patient": ["a", None, "b", None, "c"], "x": range(5)})
    for seed in range(5):
        members, control = split(table, 0.34, person="patient", random_state=seed)
        assert None not in control["patient"]
        assert members["patient"].null_count() == 2


def test_any_table_comes_out_as_it_came_in() -> None:
    frame = pd.DataFrame({"a": pd.Categorical(["x", "y"] * 10), "b": range(20)})
    members, control = split(frame, "20%", random_state=0)
    assert isinstance(control, pd.DataFrame)
    assert len(control) == 4
    assert members.dtypes.equals(frame.dtypes)
    assert split(np.arange(20.0).reshape(10, 2), 0.3, random_state=0)[1].shape == (3, 2)


@pytest.mark.parametrize("share", [0, 1, -0.1, "0%", "x"])
def test_a_share_that_leaves_a_part_empty_is_refused(share: object) -> None:
    with pytest.raises(ParameterError, match="share"):
        split(visits(), share)  # type: ignore[arg-type]


def test_mistakes_are_named() -> None:
    with pytest.raises(DataError, match="'patient'"):
        split(visits(), person="patientt")
    with pytest.raises(DataError, match="1 people or rows"):
        split(visits()[:1])
    with pytest.raises(DataError, match="empty"):
        split(visits().with_columns(patient=pl.lit(7)), person="patient")
