"""Ranges of numbers between snapshots: what is held back must not show as an extreme value."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tulle import SecretKey, StreamCondenser
from tulle.stream._groups import Scaling
from tulle.stream._snapshots import Arrivals, Means, Range, next_ranges, seen_ranges
from tulle.table._encoder import TableEncoder
from tulle.table._frames import to_polars
from tulle.table.schema import Column, Kind

EPOCH = dt.date(2020, 1, 1)


def as_floats(values: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({"x": values.astype(float)})


def as_decimals(values: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({"x": np.round(values.astype(float), 1)})


def as_integers(values: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({"x": np.rint(values).astype(int)})


def as_dates(values: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({"x": [EPOCH + dt.timedelta(days=int(day)) for day in np.rint(values)]})


KINDS = pytest.mark.parametrize("as_table", [as_floats, as_decimals, as_integers, as_dates])


def stream_of(table: Any, **options: Any) -> StreamCondenser:
    return StreamCondenser(**{"k": 10, "random_state": 0} | options).partial_fit(table)


def cut_at_both_ends(
    as_table: Any, rng: np.random.Generator
) -> tuple[pl.DataFrame, StreamCondenser]:
    """Groups are made by z, so each spans the range of x, and draws from it are cut there."""
    x, z = rng.uniform(-20, 20, size=400), rng.normal(size=400)
    records = as_table(x).with_columns(z=pl.Series(z))
    return records, stream_of(records, synthesis="normal", weights={"x": 0.05})


def within(drawn: pl.DataFrame, records: pl.DataFrame, column: str = "x") -> bool:
    """Whether what a snapshot shows lies in the range of these records."""
    low, high = records[column].min(), records[column].max()
    return bool(drawn[column].drop_nulls().is_between(low, high).all())


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("extreme", [27, -27])
def test_an_extreme_newcomer_shows_only_with_enough_others(
    as_table: Any, extreme: int, rng: np.random.Generator, tmp_path: Path
) -> None:
    def newcomers(count: int) -> pl.DataFrame:
        return as_table(np.full(count, extreme)).with_columns(z=pl.lit(0.0))

    records, stream = cut_at_both_ends(as_table, rng)
    first = stream.snapshot()["x"]
    ends = first.min(), first.max()  # of k records or more, not of the first and the last
    assert within(first.to_frame(), records)
    stream.partial_fit(newcomers(1))
    second = stream.snapshot()["x"]
    assert (second.min(), second.max()) == ends
    assert stream.last_change_.held_back == 1
    stream.save(tmp_path / "state")
    loaded = StreamCondenser.load(tmp_path / "state")
    for going_on in (stream, loaded):
        going_on.partial_fit(newcomers(3))
        third = going_on.snapshot()["x"]
        assert (third.min(), third.max()) == ends
        assert going_on.last_change_.held_back == 4
        going_on.partial_fit(newcomers(30))
        assert not within(going_on.snapshot(), records)
        assert going_on.last_change_.held_back == 0
    assert loaded.snapshot().equals(stream.snapshot())


@pytest.mark.slow
@KINDS
def test_snapshots_do_not_depend_on_values_that_are_held_back(
    as_table: Any, rng: np.random.Generator
) -> None:
    seed = int(rng.integers(1_000))
    shown = []
    for held_back in (0, 27, 500, -4_000):
        _, stream = cut_at_both_ends(as_table, np.random.default_rng(seed))
        stream.snapshot()
        stream.partial_fit(as_table(np.full(40, 60)).with_columns(z=pl.lit(4.0)))
        stream.partial_fit(as_table(np.array([held_back])).with_columns(z=pl.lit(-4.0)))
        shown.append(stream.snapshot())
        assert stream.last_change_.changed > 0
        assert stream.last_change_.held_back == 1
    assert all(shown[0].equals(other) for other in shown[1:])


@pytest.mark.slow
@KINDS
def test_a_drift_is_followed_by_the_means_of_groups(
    as_table: Any, rng: np.random.Generator
) -> None:
    records = as_table(rng.normal(0, 20, size=200))
    stream = stream_of(records, synthesis="mean")
    largest = [stream.snapshot()["x"].max()]
    for step in range(1, 9):
        stream.partial_fit(as_table(rng.normal(100 * step, 20, size=57)))
        stream.partial_fit(as_table(np.array([-100_000])))  # alone on the other side
        shown = stream.snapshot()
        assert stream.last_change_.held_back >= step
        assert shown["x"].min() >= records["x"].min()
        largest.append(shown["x"].max())
        published = stream._fitted.states[None].published.shown.view()
        mean = published.counts @ published.means / published.counts.sum()
        expected = mean * stream._fitted.encoder.scales_ + stream._fitted.location
        drawn = stream._fitted.encoder.encode(to_polars(shown)).mean(axis=0)
        np.testing.assert_allclose(drawn, expected, atol=1.0)
    assert largest == sorted(set(largest))


def followed(
    values: list[Any], before: Range, newcomers: list[float], means: list[list[float]]
) -> Range:
    """The next range of a column like these values, when one family with ten newcomers is shown."""
    encoder = TableEncoder().fit(pl.DataFrame({"x": values}))
    tens = np.full(len(means), 10)
    arrived = Arrivals(
        Means(np.array([newcomers]) / encoder.scales_, tens[:1], tens[:1], tens[:1]),
        Means(np.array(means) / encoder.scales_, tens, tens, tens),
        np.zeros(len(means), dtype=np.int64),
    )
    units = Scaling(np.zeros(len(encoder.scales_)), encoder.scales_)
    return next_ranges(encoder, [before], [arrived], units)[0]


@pytest.mark.parametrize(
    ("values", "expected"),
    [([-90, 90], 13), ([-90.5, 90.5, 0.0], 12.4), ([-90 / 7, 90.0, 0.0], 12.34)],
)
def test_ranges_are_rounded_outward_to_the_precision_of_the_column(
    values: list[Any], expected: float
) -> None:
    known = Range(-2, 2, (-2, 2))
    above = followed(values, known, [9.0], [[0.0], [12.34], [-12.34]])
    assert above == pytest.approx((-2, expected, None))
    below = followed(values, known, [-9.0], [[0.0], [12.34], [-12.34]])
    assert below == pytest.approx((-expected, 2, None))


def test_a_range_is_extended_only_if_enough_newcomers_lie_outside() -> None:
    known = Range(0, 4, (0, 4))
    # a split takes a group for uniform: the mean of a half can lie where no record was
    assert followed([0, 4, 90], known, [3.9], [[4.5], [-0.5], [2.0]]) == known
    assert followed([0, 4, 90], known, [4 + 1e-12], [[4 + 1e-12]]) == known  # the last digits
    assert followed([0, 4, 90], known, [5.0], [[4.5], [-0.5]]) == Range(0, 5, None)
    missing, fill = [0, 4, 90, None], 94 / 3
    one_of_ten = [0.1 * 80 + 0.9 * fill, 0.9]
    assert followed(missing, known, one_of_ten, [[80.0, 0.0]]) == known
    assert followed(missing, known, [80.0, 0.0], [one_of_ten]) == known
    assert followed(missing, known, [80.0, 0.0], [[80.0, 0.0], one_of_ten]) == Range(0, 80, None)


@pytest.mark.slow
def test_what_no_record_was_is_not_shown(rng: np.random.Generator) -> None:
    """The mean of half a group can lie beyond all values: a split takes a group for uniform."""
    counts = rng.poisson(0.3, size=400) * rng.integers(1, 40, size=400)
    stream = stream_of(pl.DataFrame({"x": counts[:200], "z": rng.normal(size=200)}))
    stream.snapshot()
    for start in range(200, 400, 25):
        part = slice(start, start + 25)
        stream.partial_fit(pl.DataFrame({"x": counts[part], "z": rng.normal(size=25)}))
        assert stream.snapshot()["x"].min() >= 0


def test_a_third_value_shows_only_with_enough_others(rng: np.random.Generator) -> None:
    def table(values: list[int], z: float = 0.0) -> pl.DataFrame:
        return pl.DataFrame({"x": values, "z": [z] * len(values)})

    both = pl.DataFrame({"x": 4 * rng.integers(0, 2, size=300), "z": rng.normal(size=300)})
    stream = stream_of(both, weights={"x": 0.05})  # groups hold both values
    assert set(stream.snapshot()["x"]) == {0, 4}
    stream.partial_fit(table([9]))
    assert set(stream.snapshot()["x"]) == {0, 4}
    assert stream.last_change_.held_back == 1
    assert set(stream.sample()["x"]) > {0, 4}
    stream.partial_fit(table([9] * 60)).partial_fit(table([-30], z=5.0))
    shown = stream.snapshot()["x"]
    assert stream.last_change_.held_back > 0
    assert shown.min() == 0  # -30 is one record
    assert shown.max() >= 5  # the others are enough, and their mean is no mean of 0 and 4


@pytest.mark.slow
def test_a_first_snapshot_is_a_sample(rng: np.random.Generator) -> None:
    records = rng.normal(size=(3_000, 2))
    np.testing.assert_array_equal(stream_of(records).snapshot(), stream_of(records).sample())


@pytest.mark.slow
def test_ranges_are_those_of_a_sample_when_nothing_is_held_back(rng: np.random.Generator) -> None:
    stream = stream_of(rng.normal(size=(200, 2)))
    stream.snapshot()
    stream.partial_fit(rng.normal(size=(3_000, 2)) * 2)
    stream.snapshot()
    assert stream.last_change_.held_back == 0
    assert stream._fitted.shown_ranges == seen_ranges(stream._fitted.encoder)


def test_missing_values_targets_and_public_bounds(rng: np.random.Generator) -> None:
    bounds = [Column("b", Kind.DECIMAL, bounds=(-5_000.0, 5_000.0))]
    values = rng.normal(0, 20, size=(300, 2))
    table = pl.DataFrame({"a": values[:, 0], "b": values[:, 1]}).with_columns(
        a=pl.when(pl.Series(rng.random(300) < 0.3)).then(None).otherwise(pl.col("a"))
    )
    stream = StreamCondenser(k=10, columns=bounds, random_state=0)
    stream.partial_fit(table, values.sum(axis=1))
    stream.snapshot()
    # the only value among newcomers that are enough: its group is shown, its value no range
    alone = pl.DataFrame({"a": [900.0] + [None] * 30, "b": [0.0] * 31})
    stream.partial_fit(alone, np.zeros(31))
    stream.partial_fit(pl.DataFrame({"a": [0.0], "b": [4_000.0]}), [1e4])
    shown, target = stream.snapshot()
    assert stream.last_change_.changed > 0
    assert stream.last_change_.held_back > 0
    assert within(shown, table, "a")
    assert np.max(target) <= values.sum(axis=1).max()
    assert (stream._fitted.encoder._codecs[1].low, len(stream._fitted.shown_ranges)) == (-5_000, 2)


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0, 40])
def test_merged_streams_have_shown_the_ranges_of_both(shift: int, rng: np.random.Generator) -> None:
    records = [as_dates(rng.normal(at, 10, size=200)) for at in (0, shift, 500)]
    *parts, silent = (stream_of(table) for table in records)
    assert parts[0].merge(parts[1])._fitted.shown_ranges is None
    for part in parts:
        part.snapshot()
        part.partial_fit(as_dates(np.array([-4_000, 4_000])))
    for first, second in (parts, parts[::-1]):
        merged = first.merge(second)
        lows, highs = zip(*(_shown_days(part) for part in parts), strict=True)
        assert _shown_days(merged) == (min(lows), max(highs))
        assert within(merged.snapshot(), pl.concat(records[:2]))
        assert merged.last_change_.held_back == 4
    whole = parts[0].merge(silent).snapshot()  # one without a snapshot is shown whole
    assert within(whole, pl.concat([records[0], records[2]]))
    assert whole["x"].max() > records[2]["x"].min()


def _shown_days(stream: StreamCondenser) -> tuple[float, float]:
    low, high, _ = stream._fitted.shown_ranges[0]
    origin = stream._fitted.encoder._codecs[0].origin
    return low + origin, high + origin


# -- records that wait ----------------------------------------------------------------------------


@pytest.mark.slow
@KINDS
def test_those_who_wait_show_in_no_range(
    as_table: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    """From the first snapshot on, whether they came among the first or later, saved or not."""
    values = np.concatenate([[900, -900], rng.uniform(-20, 20, size=398)])
    levels = np.full(400, 5)
    levels[:2] = 500  # more than there are: they wait
    table, key = as_table(values), SecretKey.generate()
    stream = StreamCondenser(k=5, init_size=100, synthesis="normal", random_state=0)
    stream.partial_fit(table[:100], levels=levels[:100])
    stream.partial_fit(as_table(np.array([7_000])), levels=[600])
    assert stream.n_waiting_ == 3
    stream.partial_fit(table[100:], levels=levels[100:])
    stream.save(tmp_path / "state", key=key)
    for going_on in (stream, StreamCondenser.load(tmp_path / "state", key=key)):
        for shown in (going_on.snapshot(), going_on.sample(5_000)):
            assert within(shown, table[2:])
        # a group of their own: now the range reaches those of whom there are enough
        going_on.partial_fit(as_table(np.full(597, 900)), levels=np.full(597, 600))
        assert going_on.n_waiting_ == 0
        codec = going_on._fitted.encoder._codecs[0]
        since = codec.origin - (EPOCH - dt.date(1970, 1, 1)).days if as_table is as_dates else 0
        assert -25 < codec.low + since < -10
        assert 700 < codec.high + since < 1_000


@pytest.mark.slow
def test_two_values_stay_two_if_the_third_waits() -> None:
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"x": [*rng.choice([0, 4], size=99), 9], "z": rng.normal(size=100)})
    stream = StreamCondenser(k=5, init_size=100, random_state=0)
    stream.partial_fit(table, levels=[5] * 99 + [300])
    assert set(stream.sample()["x"]) == {0, 4}


@pytest.mark.slow
def test_a_column_may_have_no_value_but_those_who_wait() -> None:
    x = [7.5, *[None] * 99]
    table = pl.DataFrame({"x": x, "z": np.arange(100.0)})
    stream = StreamCondenser(k=5, init_size=100, random_state=0)
    stream.partial_fit(table, levels=[300] + [5] * 99)
    assert stream.sample()["x"].null_count() == 99
    stream.partial_fit(pl.DataFrame({"x": [2.5] * 40, "z": [50.0] * 40}))
    assert set(stream.sample(2_000)["x"]) == {None, 2.5}


@pytest.mark.slow
@pytest.mark.parametrize("swapped", [False, True])
def test_those_who_wait_in_either_of_two_merged_streams_do_not_show(swapped: bool) -> None:
    rng = np.random.default_rng(0)
    parts = []
    for seed, extreme in enumerate((900.0, -900.0)):
        X = np.concatenate([[extreme], rng.uniform(0, 10, size=199)])[:, None]
        stream = StreamCondenser(k=5, random_state=seed)
        parts.append(stream.partial_fit(X, levels=[300] + [5] * 199))
    merged = parts[swapped].merge(parts[not swapped])
    assert [held.number for held in merged._fitted.held.records] == [0, 200]
    assert 0 <= merged.snapshot().min() <= merged.snapshot().max() <= 10
    merged.partial_fit(np.full((298, 1), 5.0), levels=np.full(298, 300))
    assert merged.n_waiting_ == 0
    codec = merged._fitted.encoder._codecs[0]
    assert 0 <= codec.low <= codec.high <= 10  # one record on either side is not enough
