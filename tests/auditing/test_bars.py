"""The bars of a column: labels that can be told apart, round edges, nobody's own value."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle.auditing._pictures import histogram
from tulle.auditing._tables import align

K = 10


def labels(values: Any) -> list[str]:
    table = pl.DataFrame({"x": values})
    return [row["label"] for row in histogram(align(table, table, None, None), "x", K)]


@pytest.mark.parametrize(
    "values, first, last",
    [
        (1_000_001 + np.arange(300) % 3, "1000001", "1000003"),
        (1e9 + np.arange(300) / 100, "below 1000000000.2", "1000000002.8 and up"),
        ([*[0] * 250, *[1] * 40, *range(2, 12)], "0", "2 and more"),
        ([*[0] * 280, *range(1, 21)], "below 1", "10 and up"),
        ([0.0] * 299 + [123_456.7], "0 and more", "0 and more"),
        ([date(2020, 1, 1 + i % 9) for i in range(300)], "below 2020-01-02", "2020-01-08 and up"),
        (
            [datetime(2020, 1, 1, i % 24, i % 60) for i in range(288)],
            "below 2020-01-01 02:00",
            "2020-01-01 22:00 and up",
        ),
        (
            [datetime(2020, 1, 1) + timedelta(seconds=i / 10) for i in range(300)],
            "below 2020-01-01 00:00:02",
            "2020-01-01 00:00:28 and up",
        ),
        ([time(i % 24, 30) for i in range(288)], "below 5000", "80000 and up"),
        ([timedelta(hours=i % 30) for i in range(300)], "below 10000", "100000 and up"),
        (["(others)", "(missing)", " ", None] * 75, '" "', "(missing)"),
        (np.arange(15) + 0.25, "(any)", "(any)"),
        (np.arange(300) % 30 * 5e-324, "below 1e-300", "below 1e-300"),
    ],
)
def test_labels_say_what_is_in_a_bar(values: Any, first: str, last: str) -> None:
    found = labels(values)
    assert (found[0], found[-1]) == (first, last)
    assert len(set(found)) == len(found)


@pytest.mark.guarantee
@given(
    st.lists(st.floats(-1e300, 1e300) | st.integers(-40, 40).map(float), min_size=1, max_size=60),
    st.integers(2, 12),
)
def test_outer_bars_hold_k_released_records_and_all_records_are_in_bars(
    values: list[float], k: int
) -> None:
    release = pl.DataFrame({"x": values})
    original = pl.DataFrame({"x": [-1e305, *values, 1e305]})
    rows = histogram(align(original, release, None, None), "x", k)
    assert sum(row["release"] for row in rows) == pytest.approx(1)
    if len(values) >= k:
        assert min(rows[0]["released"], rows[-1]["released"]) >= k
    assert len({row["label"] for row in rows}) == len(rows)
