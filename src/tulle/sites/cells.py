"""Cells as the text that is aliased or the number that is graded, and back.

Equal values must become equal text at every site, whatever type their files gave them: a 3 that
another site reads as 3.0 (because a neighbour is missing) or as "3" is the same category.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle.errors import DataError
from tulle.sites.columns import CLOCKS, WHOLE, Graded, ValueType

Floats = NDArray[np.float64]

_DTYPES: dict[ValueType, Any] = {
    ValueType.TEXT: pl.String,
    ValueType.BOOLEAN: pl.Boolean,
    ValueType.INTEGER: pl.Int64,
    ValueType.DECIMAL: pl.Float64,
    ValueType.DATE: pl.Date,
    ValueType.TIMESTAMP: pl.Datetime("us"),
    ValueType.TIME: pl.Time,
}
_DECIMALS = 12  # decoded numbers are tried with so many decimals, fewest first


def text_of(value: Any) -> str:
    """One value as text.

    >>> text_of(3), text_of(3.0), text_of("3"), text_of(True), text_of(dt.date(2020, 3, 1))
    ('3', '3', '3', 'true', '2020-03-01')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    if isinstance(value, dt.datetime):
        value = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        return value.isoformat()
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value)


def texts_of(values: pl.Series) -> list[str]:
    """Each of some distinct values as text."""
    dtype = values.dtype
    if dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum) or dtype.is_integer():
        return values.cast(pl.String).to_list()
    if dtype.is_decimal():
        values = values.cast(pl.Float64)
    return [text_of(value) for value in values.to_list()]


def present(series: pl.Series) -> pl.Series:
    """The column with NaN as missing."""
    return series.fill_nan(None) if series.dtype.is_float() else series


def from_text(texts: pl.Series, type: ValueType, dtype: Any = None) -> pl.Series:
    """Decoded text as the type it had; ``dtype`` is the type of the site's own table, if known."""
    wanted = dtype if dtype is not None else _DTYPES[type]
    if wanted == pl.Boolean:
        truths = texts.is_in(["true", "false"]) | texts.is_null()
        return texts == "true" if truths.all() else texts
    try:
        if wanted.is_temporal():
            return _moments(texts, wanted)
        return texts.cast(wanted)
    except (ValueError, pl.exceptions.PolarsError):
        # another site wrote its values another way: text holds them all
        return texts


def numbers_of(series: pl.Series, column: Graded) -> Floats:
    """The numbers that are graded; NaN where a value is missing."""
    series = _typed(series, column)
    if column.type in CLOCKS:
        return _ticks(series, column)
    if column.type is ValueType.DATE:
        series = series.cast(pl.Date).to_physical()
    found = series.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    if column.type in WHOLE:
        broken = int(np.count_nonzero(np.isfinite(found) & (found != np.round(found))))
        if broken:
            raise DataError(
                f"column '{column.name}' holds {broken} values that are no {column.type}s: agree "
                "on it as decimal"
            )
    return np.asarray(found, dtype=np.float64)


def _ticks(series: pl.Series, column: Graded) -> Floats:
    """Time stamps in whole ticks, counted in whole numbers so that nothing is rounded."""
    unit = getattr(series.dtype, "time_unit", "ns")
    fine = series.to_physical().cast(pl.Int64) * (1000 if unit == "ms" else 1)
    tick = column.tick * (1000 if unit == "ns" else 1)
    broken = int((fine % tick != 0).sum())
    if broken:
        raise DataError(
            f"column '{column.name}' holds {broken} values finer than {column.tick:,} "
            "microseconds, the finest that codes over its range can tell: truncate them, or agree "
            "on a narrower range"
        )
    return np.asarray((fine // tick).cast(pl.Float64).fill_null(float("nan")).to_numpy())


def from_numbers(
    numbers: Floats, missing: pl.Series, column: Graded, dtype: Any = None
) -> pl.Series:
    """Decoded numbers as the type they had; null where ``missing`` is true."""
    if column.type not in WHOLE:
        numbers = snap(numbers, column.tolerance)
    series = pl.Series(column.name, numbers)
    if column.type is ValueType.TIMESTAMP:
        ticks = series.fill_nan(None).cast(pl.Int64) * column.tick
        moments = ticks.cast(pl.Datetime("us"))
        decoded = _zoned(moments, dtype) if isinstance(dtype, pl.Datetime) else moments
    elif column.type is ValueType.TIME:
        decoded = (series.fill_nan(None).cast(pl.Int64) * (1000 * column.tick)).cast(pl.Time)
    elif column.type is ValueType.DATE:
        days = series.fill_nan(None).cast(pl.Int32).cast(pl.Date)
        decoded = _zoned(days.cast(pl.Datetime("us")), dtype) if _is_stamp(dtype) else days
    else:
        wanted = dtype if dtype is not None and dtype.is_numeric() else _DTYPES[column.type]
        decoded = (series if wanted.is_float() else series.fill_nan(None)).cast(wanted)
    return decoded.zip_with(~missing, pl.Series([None], dtype=decoded.dtype)).alias(column.name)


def snap(numbers: Floats, tolerance: float) -> Floats:
    """Numbers with the fewest decimals that floating point cannot tell from the given ones.

    >>> snap(np.array([0.30000000000000016, 7.000000000000001]), 1e-15).tolist()
    [0.3, 7.0]
    """
    result = numbers.copy()
    left = np.flatnonzero(np.isfinite(numbers))
    for decimals in range(_DECIMALS + 1):
        if not left.size or tolerance * 20 >= 10.0**-decimals:
            break
        rounded = np.round(numbers[left], decimals)
        near = np.abs(rounded - numbers[left]) <= tolerance
        result[left[near]] = rounded[near]
        left = left[~near]
    return result


def _typed(series: pl.Series, column: Graded) -> pl.Series:
    """The column as numbers or moments of the agreed type."""
    type, dtype = column.type, series.dtype
    if dtype == pl.Null:
        return series.cast(_DTYPES[type])
    if dtype == pl.String:
        return _parsed(series, column)
    if type in (ValueType.INTEGER, ValueType.DECIMAL):
        fits = dtype.is_numeric()
    elif type is ValueType.TIME:
        fits = dtype == pl.Time
    else:
        fits = dtype == pl.Date or isinstance(dtype, pl.Datetime)
    if not fits:
        raise DataError(
            f"column '{column.name}' was agreed on as {type}, and the table holds "
            f"{dtype.base_type()}"
        )
    if type is ValueType.DATE and isinstance(dtype, pl.Datetime):
        late = int((series.dt.time() != dt.time(0)).sum())
        if late:
            raise DataError(
                f"column '{column.name}' was agreed on as date, and {late} values have a time of "
                "day: agree on a range with times (2020-01-01T00:00)"
            )
    return (
        series.cast(pl.Datetime("us"))
        if type is ValueType.TIMESTAMP and dtype == pl.Date
        else series
    )


def _parsed(series: pl.Series, column: Graded) -> pl.Series:
    type = column.type
    if type is ValueType.DATE:
        read = series.str.to_date("%Y-%m-%d", strict=False)
    elif type is ValueType.TIMESTAMP:
        read = series.str.to_datetime(strict=False, time_unit="us")
    elif type is ValueType.TIME:
        read = series.str.to_time("%H:%M:%S%.f", strict=False)
    else:
        read = series.cast(pl.Float64, strict=False)
    unread = read.null_count() - series.null_count()
    if unread:
        raise DataError(f"column '{column.name}': {unread} values cannot be read as {type}")
    return read


def _moments(texts: pl.Series, wanted: Any) -> pl.Series:
    read = dt.time if wanted == pl.Time else dt.date if wanted == pl.Date else dt.datetime
    found = [None if text is None else read.fromisoformat(text) for text in texts]
    if not isinstance(wanted, pl.Datetime):
        return pl.Series(texts.name, found, dtype=wanted)
    return _zoned(pl.Series(texts.name, found, dtype=pl.Datetime("us")), wanted)


def _is_stamp(dtype: Any) -> bool:
    return isinstance(dtype, pl.Datetime)


def _zoned(moments: pl.Series, dtype: pl.Datetime) -> pl.Series:
    """Moments in UTC as those of a type with or without a zone."""
    if dtype.time_zone is not None:
        moments = moments.dt.replace_time_zone("UTC").dt.convert_time_zone(dtype.time_zone)
    return moments.cast(dtype)
