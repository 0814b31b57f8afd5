"""Statistics of two parts, joined without their records, are those of the whole."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

from tulle._moments import GroupMoments
from tulle.errors import DataError
from tulle.table._encoder import TableEncoder


def _part(n: int, seed: int, words: list[str], start: dt.datetime, *, holes: bool) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    missing = rng.random(n) < (0.3 if holes else 0)
    times = [start + dt.timedelta(hours=int(hour)) for hour in rng.integers(0, 900, n)]
    return pl.DataFrame(
        {
            "number": pl.Series(np.where(missing, None, rng.normal(seed, 2, n)).tolist()).cast(
                pl.Float64
            ),
            "word": pl.Series(np.where(missing, None, rng.choice(words, n)).tolist()).cast(
                pl.String
            ),
            "flag": pl.Series(np.where(missing, None, rng.random(n) < 0.4).tolist()).cast(
                pl.Boolean
            ),
            "time": times,
        }
    )


def _merged(first, second):
    return TableEncoder().fit(first).merge(TableEncoder().fit(second))


def _moments(matrix):
    whole = np.zeros(len(matrix), dtype=np.int64)
    return GroupMoments.of(matrix, whole, np.ones(len(matrix), dtype=np.int64))


@pytest.mark.parametrize("holes", [(False, False), (True, True), (True, False), (False, True)])
def test_joined_statistics_are_those_of_the_whole(holes):
    parts = [
        _part(60, 1, ["a", "b"], dt.datetime(2020, 1, 1), holes=holes[0]),
        _part(80, 2, ["b", "c", "d"], dt.datetime(2021, 3, 4, 5, 30), holes=holes[1]),
    ]
    encoders = [TableEncoder().fit(part) for part in parts]
    joined, *ways = encoders[0].merge(encoders[1])
    moved = [
        way.moved(_moments(encoder.encode(part)))
        for way, encoder, part in zip(ways, encoders, parts)
    ]
    together = moved[0].stacked(moved[1]).pooled()
    matrix = joined.encode(pl.concat(parts))
    np.testing.assert_allclose(together.means[0], matrix.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(
        together.covariances[0], np.cov(matrix.T, bias=True), rtol=1e-8, atol=1e-7
    )


def test_scales_of_the_whole_follow_from_its_variances():
    parts = [
        _part(60, 1, ["a", "b"], dt.datetime(2020, 1, 1), holes=False),
        _part(80, 2, ["a", "b"], dt.datetime(2020, 1, 1), holes=False),
    ]
    first, second = (TableEncoder(weights={"word": 2}).fit(part) for part in parts)
    joined, *_ = first.merge(second)
    both = pl.concat(parts)
    joined.rescale(joined.encode(both).var(axis=0))
    whole = TableEncoder(weights={"word": 2}).fit(both)
    order = [joined.feature_names_.index(name) for name in whole.feature_names_]
    np.testing.assert_allclose(joined.scales_[order], whole.scales_)
    assert joined.decode(joined.encode(both)).equals(both)


def test_ranges_and_precision_hold_both_parts():
    first, second = (
        TableEncoder().fit(pl.DataFrame({"a": values})) for values in ([1.5, 2.0], [0.25, 1.0])
    )
    joined, *_ = first.merge(second)
    assert joined.decode(np.array([[-5.0], [9.0], [1.254]]))["a"].to_list() == [0.25, 2.0, 1.25]


def test_what_cannot_be_joined_is_said():
    number, word = pl.DataFrame({"a": [1, 2]}), pl.DataFrame({"a": ["x", "y"]})
    with pytest.raises(DataError):
        _merged(number, word)
    many = [pl.DataFrame({"a": [f"{part}{place % 40}" for place in range(200)]}) for part in "pq"]
    with pytest.raises(DataError, match="'a'"):
        _merged(*many)
    same, *ways = _merged(many[0], many[0])
    assert all(np.array_equal(way.linear, np.eye(len(way.shift))) for way in ways)
    assert len(same.feature_names_) == 32
    kinds = [
        pl.DataFrame({"a": ["x", "y"]}, schema={"a": kind})
        for kind in (pl.Enum(["x", "y"]), pl.String)
    ]
    with pytest.raises(DataError):
        _merged(*kinds)
