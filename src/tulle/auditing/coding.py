"""One column of two or three tables: its kind, and its values as numbers or codes.

Numbers are scaled, and categories coded, alike in all tables and by the original.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tulle.attacks.records import Floats
from tulle.errors import DataError
from tulle.tables.kinds import kind_of
from tulle.tables.schema import Kind

NUMBERS = (Kind.INTEGER, Kind.DECIMAL)
_FAR = 1e60  # standard deviations: fourth powers of this, and sums of them, are still numbers
_CLOCKS = {pl.Time: "time of day", pl.Duration: "duration"}  # compared in seconds


@dataclass(frozen=True)
class Coded:
    """One column in each of the tables."""

    name: str
    numbers: list[Floats] | None  # scaled, missing ones at the middle
    codes: list[Any] | None  # categories; or beside numbers, 1 where one is missing
    unit: tuple[float, float] | None = None
    domain: pl.Series | None = None


def shared_kind(name: str, parts: Mapping[str, pl.Series]) -> Kind:
    """One kind for a column; whole and decimal numbers go together, an empty column with any."""
    filled = {which: part for which, part in parts.items() if part.null_count() < len(part)}
    words = {which: _kind_word(part) for which, part in filled.items()}
    distinct = set(words.values())
    if not distinct:
        return Kind.CATEGORY
    if distinct <= set(NUMBERS):
        return Kind.INTEGER if all(map(_is_whole, filled.values())) else Kind.DECIMAL
    if len(distinct) > 1:
        told = ", ".join(f"{word} in the {which}" for which, word in words.items())
        raise DataError(
            f"column '{name}' holds different kinds of values: {told}. Convert it, so that it has "
            "one type everywhere"
        )
    word = distinct.pop()
    return Kind.DECIMAL if word in _CLOCKS.values() else Kind(word)


def _kind_word(series: pl.Series) -> str:
    return _CLOCKS.get(series.dtype.base_type(), kind_of(series).value)


def _is_whole(series: pl.Series) -> bool:
    """Whether numbers are whole, in whichever type they come."""
    if series.dtype.is_integer():
        return True
    numbers = series.cast(pl.Float64).drop_nulls()
    return bool((numbers.is_finite() & (numbers.round() == numbers)).all())


def coded(name: str, kind: Kind, series: list[pl.Series]) -> Coded:
    """The values of a column in each of the tables, the original's first."""
    if kind not in (*NUMBERS, Kind.DATETIME):
        return _coded_categories(name, series)
    if all(getattr(part.dtype, "time_zone", None) for part in series):
        # moments, not what the clocks of different zones showed
        series = [part.dt.convert_time_zone("UTC") for part in series]
    return _coded_numbers(name, [_as_floats(part) for part in series])


def _as_floats(series: pl.Series) -> Floats:
    """Numbers as they are, dates in microseconds, durations and times of the day in seconds."""
    if series.dtype == pl.Time:
        series = series.cast(pl.Int64) / 1e9
    elif isinstance(series.dtype, pl.Duration):
        series = series.dt.total_microseconds() / 1e6
    elif series.dtype.is_temporal():
        series = series.cast(pl.Datetime("us")).dt.replace_time_zone(None).to_physical()
    return series.cast(pl.Float64).to_numpy().astype(np.float64)


def _coded_numbers(name: str, values: list[Floats]) -> Coded:
    centre, scale = _centre_and_scale(values[0][np.isfinite(values[0])])
    missing = [~np.isfinite(part) for part in values]
    numbers = [
        np.clip(np.where(gone, 0.0, part / scale - centre / scale), -_FAR, _FAR)
        for part, gone in zip(values, missing)
    ]
    codes = missing if any(gone.any() for gone in missing) else None
    return Coded(name, numbers, codes, unit=(centre, scale))


def _centre_and_scale(known: Floats) -> tuple[float, float]:
    """Mean and standard deviation (1 if there is none), of numbers of any size."""
    size = float(np.abs(known).max(initial=0.0))
    if size == 0:
        return 0.0, 1.0
    spread = float((known / size).std()) * size  # squares of the largest would be infinite
    return float((known / size).mean()) * size, spread if spread > 0 else 1.0


def _coded_categories(name: str, series: list[pl.Series]) -> Coded:
    words = [_as_words(part) for part in series]
    domain = pl.concat([part.drop_nulls() for part in words]).unique().sort()
    places = pl.Series(np.arange(1, len(domain) + 1, dtype=np.int32))
    codes = [
        part.replace_strict(domain, places, default=None, return_dtype=pl.Int32)
        .fill_null(0)
        .to_numpy()
        if len(domain)
        else np.zeros(len(part), np.int32)
        for part in words
    ]
    return Coded(name, None, codes, domain=pl.concat([pl.Series([""]), domain]))


def _as_words(series: pl.Series) -> pl.Series:
    """Categories in words; of numbers 7 and 7.0 are one."""
    words = series.cast(pl.String)
    if not (series.dtype.is_float() or series.dtype.is_decimal()) or not _is_whole(series):
        return words
    return series.cast(pl.Int64, strict=False).cast(pl.String).fill_null(words)
