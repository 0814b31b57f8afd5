"""How exact the values of a column are: decimals of numbers, and units of points in time."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tulle._people import people_among
from tulle._types import Floats, Ints

EXACT = 2**53  # whole numbers up to here are exact as floats
_DIGITS = 1e-12  # relative: what a file may cut from the seventeen digits of a float
_DECIMALS = 13  # with so many a float is as it comes
_DECIMALS_OF_SINGLES = 6
_DAY = 86_400


def tick_sizes(dtype: Any) -> list[int]:
    """Return days, hours, minutes, seconds ... in the physical unit of a polars type, coarsest
    first.
    """
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
