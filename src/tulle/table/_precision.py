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


def emptiest(places: Ints, size: int) -> int:
    """Return the place on a circle around which the fewest are."""
    apart = np.abs(np.arange(size)[:, None] - (np.arange(size) + 0.5))
    near = np.exp(-np.minimum(apart, size - apart) / 2)
    return int((near @ np.bincount(places, minlength=size)).argmin())


def even_cycle(
    places: Ints, size: int, people: Ints | None, enough: float, *, gaps: bool = False
) -> tuple[float, ...]:
    """Return the share of records before each place on a circle, such as the hours of the day.

    Nothing if it would rest on too few people; with ``gaps``, nothing if no place is empty. Places
    are taken together, round the circle from the emptiest one, until enough people are in them, if
    it can be without a gap; those of the few beyond, and the rarest, are as empty ones: with its
    neighbours, an hour that two people have would be one of many. These keep a trace, so that a
    clock that shows them can be read.
    """
    common = ~_are_rarest(places, size, people, enough)
    first = emptiest(places, size)
    places = (places[common] - first) % size
    people = None if people is None else people[common]
    for parted in (True, False):
        shares = _taken_together(places, size, people, enough, parted=parted) / max(len(places), 1)
        if shares.sum() >= 1 - _FEW and not (gaps and shares.all()):
            before = np.r_[0.0, np.cumsum(np.roll(shares, first) + _TRACE)]
            return tuple((before / before[-1]).tolist())
    return ()


def empty_places(cycle: Sequence[float]) -> Flags:
    """Tell which places have no more than a trace in an :func:`even_cycle`."""
    return np.diff(cycle) < 2 * _TRACE


def _are_rarest(places: Ints, size: int, people: Ints | None, enough: float) -> Flags:
    """Tell which records are at the rarest places: of a few people each, and few all together."""
    held, counts = distinct_people(places, people, size), np.bincount(places, minlength=size)
    rare = [at for at in np.argsort(counts, kind="stable").tolist() if held[at] < enough / 4]
    within = np.cumsum(counts[rare]) <= _RAREST * len(places)
    return np.isin(places, np.array(rare, dtype=np.int64)[within])


def _taken_together(
    places: Ints, size: int, people: Ints | None, enough: float, *, parted: bool
) -> Floats:
    """Return the records at each place, evenly among places that are taken together.

    ``parted``: neither an empty place is in between, nor one that has enough people of its own.
    """
    counts, shares, first = np.bincount(places, minlength=size), np.zeros(size), 0
    for at in np.flatnonzero(counts).tolist():
        alone = people_among(places == at, people) >= enough
        if parted and (alone or not counts[at - 1]):
            first = at
        if alone or people_among((places >= first) & (places <= at), people) >= enough:
            first += int(np.flatnonzero(counts[first:])[0])
            shares[first : at + 1] = counts[first : at + 1].mean()
            first = at + 1
    return shares


# Days as a model takes them: on an even week and an even year, days of the week and months that
# hardly anybody has take up no room.

YEAR = 365.25  # days


def months_of(days: Floats) -> tuple[Floats, Floats]:
    """Return the years since 1970, and the months since January, with their part that is over."""
    month = np.floor(days).astype("datetime64[D]").astype("datetime64[M]")
    begin, end = (one.astype("datetime64[D]").astype(np.float64) for one in (month, month + 1))
    years, months = np.divmod(month.astype(np.int64), 12)
    return years.astype(np.float64), months + (days - begin) / (end - begin)


def to_even_days(days: Floats, week: Sequence[float], year: Sequence[float]) -> Floats:
    """Return days since 1970 on an even week, an even year, or both."""
    if week:
        weeks, rest = np.divmod(days + 3, 7)  # from Monday on
        days = 7 * (weeks + np.interp(rest, np.arange(8), week)) - 3
    if year:
        years, months = months_of(days)
        days = YEAR * (years + np.interp(months, np.arange(13), year))
    return days


def from_even_days(days: Floats, week: Sequence[float], year: Sequence[float]) -> Floats:
    """Return the days of what :func:`to_even_days` gave."""
    if year:
        years = np.floor(days / YEAR)
        months = 12 * years + np.interp(days / YEAR - years, year, np.arange(13))
        month = np.floor(months).astype(np.int64).astype("datetime64[M]")
        begin, end = (one.astype("datetime64[D]").astype(np.float64) for one in (month, month + 1))
        days = begin + (months - np.floor(months)) * (end - begin)
    if week:
        weeks, rest = np.divmod((days + 3) / 7, 1.0)
        days = 7 * weeks + np.interp(rest, week, np.arange(8)) - 3
    return days
