"""How exact the values of a column are: decimals of numbers, units and hours of points in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from tulle._people import distinct_people, people_among
from tulle._types import Flags, Floats, Ints

EXACT = 2**53  # whole numbers up to here are exact as floats
_DIGITS = 1e-12  # relative: what a file may cut from the seventeen digits of a float
_DECIMALS = 13  # with so many a float is as it comes
_DECIMALS_OF_SINGLES = 6
# what people round to: tens, fives, quarters of a hundred, pairs; and how many values it must leave
_STEPS = sorted((10**tens * part for tens in range(6) for part in (2, 5, 10, 25)), reverse=True)
_SEVERAL_ROUND = 5
_DAY = 86_400
HOUR = 3600 * 10**9  # nanoseconds, in which times of day are counted
HOURS = np.arange(25.0)
_TRACE = 1e-6  # of the records: what an empty hour counts
_RAREST = 0.02  # of the records: those at hours that hardly anybody has
_FEW = 0.05  # of the records: those at hours that are not kept


def tick_sizes(dtype: Any) -> list[int]:
    """Return days, hours, minutes ... in the unit of a polars type, coarsest first."""
    if dtype == pl.Date:
        return [1]
    second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[getattr(dtype, "time_unit", None) or "ns"]
    whole = [_DAY * second, 3600 * second, 60 * second, second]
    return whole + [second // 10**digits for digits in (3, 6, 9) if second >= 10**digits]


def in_singles(values: Floats, people: Ints | None = None, few: float = 1) -> bool:
    """Tell whether doubles hold numbers of single precision, but for ``few`` people.

    Programs that store 0.91 in four bytes export 0.9100000262260437. Numbers of few decimals, which
    may be exact in four bytes too, are not meant.
    """
    for part, owners in ((values[:100], None), (values, people)):
        with np.errstate(over="ignore"):
            away = np.abs(part - part.astype(np.float32))
        if people_among(~(away <= _DIGITS * np.abs(part)), owners) >= max(few, 1):
            return False
    long = np.round(values, _DECIMALS - 1) != values
    return people_among(long, people) >= max(few, 1)


def as_decimals(series: pl.Series) -> pl.Series:
    """Return numbers of single precision as the decimals that they stand for: 0.91."""
    return series.cast(pl.Float32).cast(pl.String).cast(pl.Float64)


def decimals_of(values: Floats, dtype: Any) -> int | None:
    """Return the number of decimals that no value exceeds, or None for floats as they come."""
    scale = getattr(dtype, "scale", None)
    if scale is not None:
        return int(scale)
    if not len(values):
        return None
    largest = float(np.abs(values).max())
    single = dtype == pl.Float32 or in_singles(values)
    kept = values.astype(np.float32) if single else values
    for decimals in range(_DECIMALS_OF_SINGLES if single else _DECIMALS):
        if largest * 10**decimals >= EXACT:
            return None
        # most columns of floats fail on their first few values: look at those first
        for part in (kept[:100], kept):
            rounded = np.round(part.astype(np.float64), decimals)
            if not (rounded.astype(part.dtype) == part).all():
                break
        else:
            return decimals
    return None


def common_decimals(values: Floats, people: Ints | None, few: float, dtype: Any) -> int | None:
    """Return the decimals that suffice for all values but those of fewer than ``few`` people.

    None for floats as they come. If it took all values, the one person with a finer number, or with
    one too large to have decimals, would show in every row of a release.
    """
    single = dtype == pl.Float32
    kept = values.astype(np.float32) if single else values
    for decimals in range(_DECIMALS_OF_SINGLES if single else _DECIMALS):
        same = np.round(kept.astype(np.float64), decimals).astype(kept.dtype) == kept
        same &= np.abs(values) < EXACT / 10.0**decimals
        if people_among(~same, people) < few:
            return decimals_of(values[same], dtype)
    return decimals_of(values, dtype)


def common_step(units: Floats, people: Ints | None, few: float) -> int:
    """Find of how many units all values are multiples, but those of fewer than ``few`` people."""
    for step in _STEPS:
        round_ones = units % step == 0
        several = len(np.unique(units[round_ones])) >= _SEVERAL_ROUND
        if several and people_among(~round_ones, people) < few:
            return step
    return 1


def looks_coded(values: Floats, k: int) -> bool:
    """Tell whether whole numbers look like codes, between which there is nothing.

    Nearly all people hold a value that ``k`` people hold, even leaving aside the commonest value
    (many columns are mostly 0), and most numbers in between do not occur: industry codes, not
    ages.
    """
    present = values[np.isfinite(values)]
    if not len(present) or (present != np.round(present)).any():
        return False
    distinct, counts = np.unique(present, return_counts=True)
    common = counts >= k
    most = counts.max()
    if common.sum() < 3 or counts[common].sum() - most < 0.9 * (len(present) - most):
        return False
    held = distinct[common]
    return bool(len(held) < 0.5 * (held[-1] - held[0] + 1))


def emptiest_hour(ticks: Ints) -> int:
    """Return the hour around which the fewest times of day lie, in nanoseconds."""
    counts = np.bincount(ticks // HOUR % 24, minlength=24)
    apart = np.abs(HOURS[:24, None] - (HOURS[None, :24] + 0.5))
    near = np.exp(-np.minimum(apart, 24 - apart) / 2)
    return int((near @ counts).argmin()) * HOUR


def hours_of_day(hours: Floats, people: Ints | None, enough: float) -> tuple[float, ...]:
    """Return the share of records before each hour; nothing if it would rest on too few people.

    Hours are taken together, round the clock from the emptiest one, until enough people are in
    them, if it can be without a gap; those of the few beyond, and the rarest, are as empty ones:
    with its neighbours, an hour that two people have would be one of many. These keep a trace, so
    that a clock that shows them can be read.
    """
    places = np.clip(hours.astype(np.int64), 0, 23)
    common = ~_are_rarest(places, people, enough)
    first = emptiest_hour(places * HOUR) // HOUR
    places = (places[common] - first) % 24
    people = None if people is None else people[common]
    for parted in (True, False):
        shares = _taken_together(places, people, enough, parted=parted) / max(len(places), 1)
        if shares.sum() >= 1 - _FEW:
            before = np.r_[0.0, np.cumsum(np.roll(shares, first) + _TRACE)]
            return tuple((before / before[-1]).tolist())
    return ()


def empty_hours(clock: Sequence[float]) -> Flags:
    """Tell which hours have no more than a trace on a clock of :func:`hours_of_day`."""
    return np.diff(clock) < 2 * _TRACE


def _are_rarest(places: Ints, people: Ints | None, enough: float) -> Flags:
    """Tell which records are at the rarest hours: of a few people each, and few all together."""
    held, counts = distinct_people(places, people, 24), np.bincount(places, minlength=24)
    rare = [hour for hour in np.argsort(counts, kind="stable").tolist() if held[hour] < enough / 4]
    within = np.cumsum(counts[rare]) <= _RAREST * len(places)
    return np.isin(places, np.array(rare, dtype=np.int64)[within])


def _taken_together(places: Ints, people: Ints | None, enough: float, *, parted: bool) -> Floats:
    """Return the records of each hour, evenly among hours that are taken together.

    ``parted``: neither an empty hour is in between, nor one that has enough people of its own.
    """
    counts, shares, first = np.bincount(places, minlength=24), np.zeros(24), 0
    for hour in np.flatnonzero(counts).tolist():
        alone = people_among(places == hour, people) >= enough
        if parted and (alone or not counts[hour - 1]):
            first = hour
        if alone or people_among((places >= first) & (places <= hour), people) >= enough:
            first += int(np.flatnonzero(counts[first:])[0])
            shares[first : hour + 1] = counts[first : hour + 1].mean()
            first = hour + 1
    return shares
