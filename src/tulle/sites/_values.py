"""Cells as the number that is graded or the text that is aliased, and back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl

from tulle._plurals import counted
from tulle._types import Floats
from tulle.errors import DataError, ParameterError
from tulle.sites._columns import ROUNDS_BACK, Graded
from tulle.table.schema import Kind

_MOMENTS: dict[str, Any] = {"date": pl.Date, "timestamp": pl.Datetime("us")}
_DTYPES: dict[Kind, Any] = {
    Kind.BOOLEAN: pl.Boolean,
    Kind.INTEGER: pl.Int64,
    Kind.DECIMAL: pl.Float64,
    Kind.DATETIME: pl.Datetime("us"),
}  # of the values of a kind; of all others text
_DECIMALS = 12  # decoded numbers are tried with so many decimals, fewest first


def is_number(value: Any) -> bool:
    """Return whether something is a number and not a boolean."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def numbers_of(series: pl.Series, column: Graded) -> Floats:
    """Return the numbers that are graded; NaN where a value is missing."""
    series = _typed(series, column)
    if column.ticks:
        return _ticks(series, column)
    if column.moment:
        series = _local(series).cast(pl.Date).to_physical()
    found = series.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    if column.whole:
        broken = int(np.count_nonzero(np.isfinite(found) & (found != np.round(found))))
        if broken:
            raise DataError(
                f"column '{column.name}' holds {counted(broken, 'value')} not of type "
                f"{column.type}: agree on it as decimal"
            )
    return np.asarray(found, dtype=np.float64)


def _ticks(series: pl.Series, column: Graded) -> Floats:
    """Convert time stamps to whole ticks, in integer arithmetic so that nothing is rounded."""
    unit = series.dtype.time_unit  # type: ignore[attr-defined]
    fine = series.to_physical().cast(pl.Int64) * (1000 if unit == "ms" else 1)
    tick = column.tick * (1000 if unit == "ns" else 1)
    broken = int((fine % tick != 0).sum())
    if broken:
        raise DataError(
            f"column '{column.name}' holds {counted(broken, 'value')} finer than {column.tick:,} "
            "microseconds, the finest step that codes over its range can represent: truncate "
            "them, or agree on a narrower range"
        )
    return np.asarray((fine // tick).cast(pl.Float64).fill_null(float("nan")).to_numpy())


def from_numbers(
    numbers: Floats, missing: pl.Series, column: Graded, dtype: Any = None
) -> pl.Series:
    """Convert decoded numbers back to their type; null where ``missing`` is true.

    ``dtype`` is the type of the site's own table, taken if it holds the values of all sites.
    """
    series = pl.Series(column.name, numbers)
    if column.moment:
        decoded = _moments(series.fill_nan(None).cast(pl.Int64), column, dtype)
    else:
        if not column.whole:
            series = pl.Series(column.name, snap(numbers, column.tolerance))
        decoded = _numbers(series, column, dtype)
    return decoded.zip_with(~missing, pl.Series([None], dtype=decoded.dtype)).alias(column.name)


def _numbers(series: pl.Series, column: Graded, dtype: Any) -> pl.Series:
    whole, room = column.whole, 0.0 if column.whole else 2 * column.tolerance
    if dtype is not None and dtype.is_numeric() and (room < ROUNDS_BACK or not dtype.is_integer()):
        held = (series.round() if dtype.is_integer() else series).cast(dtype, strict=False)
        moved = (held.cast(pl.Float64) - series).abs() > room
        if not ((moved | held.is_null()) & series.is_not_nan()).any():
            return held
    return series.fill_nan(None).cast(pl.Int64) if whole else series


def _moments(ticks: pl.Series, column: Graded, dtype: Any) -> pl.Series:
    if column.moment == "date":
        days = ticks.cast(pl.Int32).cast(pl.Date)
        if not isinstance(dtype, pl.Datetime):
            return days
        local = days.cast(pl.Datetime("us"))  # a site that stores dates as midnights, local time
        if dtype.time_zone is not None:
            local = local.dt.replace_time_zone(
                dtype.time_zone, ambiguous="earliest", non_existent="null"
            )
            if local.null_count() > days.null_count():  # clocks were put forward at midnight
                return days
        return local.cast(dtype)
    moments = (ticks * column.tick).cast(pl.Datetime("us"))
    if not isinstance(dtype, pl.Datetime):
        return moments
    held = zoned(moments, dtype)
    fine = held.dt.epoch("us") != moments.dt.epoch("us")
    return zoned(moments, pl.Datetime("us", dtype.time_zone)) if fine.any() else held


def snap(numbers: Floats, tolerance: float) -> Floats:
    """Return numbers with the fewest decimals that floating point cannot tell from the given ones.

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
    moment, dtype = column.moment, series.dtype
    if dtype == pl.Null:
        return series.cast(_MOMENTS.get(moment, _DTYPES[column.kind]))
    if dtype == pl.String:
        return _parsed(series, column)
    dated = dtype == pl.Date or isinstance(dtype, pl.Datetime)
    if not (dated if moment else dtype.is_numeric()):
        raise DataError(
            f"column '{column.name}' was agreed on as {column.type}, but the table holds "
            f"{dtype.base_type()}"
        )
    if moment == "date" and isinstance(dtype, pl.Datetime):
        late = int((_local(series).dt.time() != dt.time(0)).sum())
        if late:
            raise DataError(
                f"column '{column.name}' was agreed on as date, but "
                f"{counted(late, 'value', 'have')} a time of day: agree on a range with times "
                "(2020-01-01T00:00)"
            )
    return series.cast(pl.Datetime("us")) if moment == "timestamp" and dtype == pl.Date else series


def _parsed(series: pl.Series, column: Graded) -> pl.Series:
    if column.moment == "date":
        read = series.str.to_date("%Y-%m-%d", strict=False)
    elif column.moment == "timestamp":
        read = _stamps(series)
    else:
        read = series.cast(pl.Float64, strict=False)
    unread = read.null_count() - series.null_count()
    if unread:
        raise DataError(
            f"column '{column.name}': {counted(unread, 'value')} cannot be read as {column.type}"
        )
    return read


def _stamps(series: pl.Series) -> pl.Series:
    try:
        return series.str.to_datetime(strict=False, time_unit="us")
    except pl.exceptions.ComputeError:  # not one of them looks like a time stamp
        return pl.Series(series.name, [None] * len(series), dtype=pl.Datetime("us"))


def _local(series: pl.Series) -> pl.Series:
    """Return time stamps in local (wall clock) time; anything else unchanged."""
    if isinstance(series.dtype, pl.Datetime) and series.dtype.time_zone is not None:
        return series.dt.replace_time_zone(None)
    return series


def zoned(moments: pl.Series, dtype: pl.Datetime) -> pl.Series:
    """Convert moments in UTC to those of a type with or without a zone."""
    if dtype.time_zone is not None:
        moments = moments.dt.replace_time_zone("UTC").dt.convert_time_zone(dtype.time_zone)
    return moments.cast(dtype)


# Dates and time stamps as numbers: days and microseconds.

_EPOCH = dt.date(1970, 1, 1)
_START = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_HELD = {
    "date": ((dt.date.min - _EPOCH).days, (dt.date.max - _EPOCH).days),
    "timestamp": (
        (dt.datetime.min - _START) // _MICROSECOND,
        (dt.datetime.max - _START) // _MICROSECOND,
    ),
}


def moment_of_end(value: Any) -> str:
    """Return what kind of moment the end of a public range is.

    >>> moment_of_end("2020-03-01"), moment_of_end("2020-03-01 12:00")
    ('date', 'timestamp')
    """
    return "timestamp" if isinstance(_moment(value), dt.datetime) else "date"


def moment_of_ends(ends: Sequence[Any]) -> str:
    """Return what holds all ends: dates next to time stamps are midnights.

    >>> moment_of_ends(["2020-03-01", "2020-04-01 12:00"])
    'timestamp'
    """
    return max(map(moment_of_end, ends), default="date")


def as_number(value: Any, of: str) -> int:
    """Return the days since 1970 of a date, or microseconds since 1970 (UTC).

    >>> as_number("1970-01-03", "date"), as_number("1970-01-01T00:01", "timestamp")
    (2, 60000000)
    """
    moment = _moment(value)
    if of == "date":
        return ((moment.date() if isinstance(moment, dt.datetime) else moment) - _EPOCH).days
    if not isinstance(moment, dt.datetime):
        moment = dt.datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is not None:
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    return (moment - _START) // _MICROSECOND


def as_moment(number: float, of: str) -> dt.date | dt.datetime:
    """Convert a number back; one with a fraction becomes the date it falls in.

    >>> as_moment(2.5, "date"), as_moment(60000000, "timestamp")
    (datetime.date(1970, 1, 3), datetime.datetime(1970, 1, 1, 0, 1))
    """
    lowest, highest = _HELD[of]
    number = min(max(number, lowest), highest)  # secret margins reach beyond the calendar
    if of == "date":
        return _EPOCH + dt.timedelta(days=number // 1)
    return _START + dt.timedelta(microseconds=number)


def _moment(value: Any) -> dt.date | dt.datetime:
    if isinstance(value, dt.date):  # a datetime is a date
        return value
    text = str(value).strip()
    for kind in (dt.date, dt.datetime):
        with suppress(ValueError):
            return kind.fromisoformat(text)
    raise ParameterError(f"{text!r} is not a date such as 2020-03-01 or 2020-03-01T12:00")


# Texts. Equal values must become equal text at every site, whatever type their files gave them: a 3
# that another site reads as 3.0 (because a neighbour is missing) or as "3" is the same category,
# midnight is the date, and a boolean is the same as 0 and 1. Different values must become different
# text: what Python would round (nanoseconds, many digits) is refused or kept whole.

_TRUTHS = {"true": "true", "false": "false"}
_BITS = {"1": "true", "0": "false"}


def text_of(value: Any) -> str:
    """Return one value as text.

    >>> text_of(3), text_of(3.0), text_of("3"), text_of(True), text_of(dt.date(2020, 3, 1))
    ('3', '3', '3', 'true', '2020-03-01')
    >>> text_of(Decimal("2.50")), text_of(2.5), text_of(dt.datetime(2020, 3, 1))
    ('2.5', '2.5', '2020-03-01')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        # the fewest digits that tell the number, also of single precision
        return str(int(value)) if float(value).is_integer() else str(value)
    if isinstance(value, Decimal):  # as another site's floats are, if that is exact
        near = float(value)
        exact = Decimal(repr(near)) == value
        return text_of(near) if exact else format(value.normalize(), "f")
    if isinstance(value, dt.datetime):
        value = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        return (value if value.time() != dt.time(0) else value.date()).isoformat()
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value)


def texts_of(values: pl.Series, kind: Kind = Kind.TEXT) -> list[str]:
    """Return each of some distinct values as text; ``kind`` is what was agreed on."""
    dtype = values.dtype
    if dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum) or dtype.is_integer():
        texts: list[str] = values.cast(pl.String).to_list()
    elif dtype == pl.Float32:
        texts = [text_of(value) for value in values.to_numpy()]
    else:
        values = _moments_of_python(values) if dtype.is_temporal() else values
        texts = [text_of(value) for value in values.to_list()]
    if kind is not Kind.BOOLEAN:
        return texts
    known = _TRUTHS if dtype in (pl.Boolean, pl.String) else _BITS
    strange = sum(text not in known for text in texts)
    if strange:
        raise DataError(
            f"column '{values.name}' was agreed on as boolean, but {strange} of its distinct "
            "values are neither true nor false: convert them, or agree on it as category"
        )
    return [known[text] for text in texts]


def present(series: pl.Series) -> pl.Series:
    """Return a column that can be aliased, with NaN as missing."""
    refuse_durations(series)
    return series.fill_nan(None) if series.dtype.is_float() else series


def refuse_durations(series: pl.Series) -> None:
    """Raise for durations: they have no moment and no number that sites would agree on."""
    if isinstance(series.dtype, pl.Duration):
        raise DataError(
            f"column '{series.name}' holds durations: convert them to a number of hours or days"
        )


def from_text(texts: pl.Series, kind: Kind, dtype: Any = None) -> pl.Series:
    """Convert decoded text back to its type; ``dtype`` is the type of the site's table, if known.

    Text stays text where that type does not hold it exactly: another site wrote it otherwise.
    """
    wanted = _DTYPES.get(kind, pl.String) if dtype is None else dtype
    if kind is Kind.BOOLEAN or wanted == pl.Boolean:
        if not (texts.is_in(list(_TRUTHS)) | texts.is_null()).all():
            return texts
        truths = texts == "true"
        return truths.cast(wanted) if wanted == pl.Boolean or wanted.is_numeric() else texts
    try:
        read = _read_moments(texts, wanted) if wanted.is_temporal() else texts.cast(wanted)
    except (ValueError, pl.exceptions.PolarsError):
        return texts
    exact = not wanted.is_numeric() or texts_of(read.drop_nulls()) == texts.drop_nulls().to_list()
    return read if exact else texts


def _moments_of_python(values: pl.Series) -> pl.Series:
    """Return moments that Python can hold: in UTC, in microseconds, in the years 1 to 9999."""
    if values.dtype == pl.Time or getattr(values.dtype, "time_unit", "") == "ns":
        fine = int((values.to_physical() % 1000 != 0).sum())
        if fine:
            raise DataError(
                f"column '{values.name}' holds {counted(fine, 'value')} finer than microseconds: "
                "truncate them"
            )
    if values.dtype == pl.Time:
        return values
    if isinstance(values.dtype, pl.Datetime) and values.dtype.time_zone is not None:
        values = values.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    far = int((~values.dt.year().is_between(1, 9999)).sum())
    if far:
        raise DataError(
            f"column '{values.name}' holds {counted(far, 'value')} outside the years 1 to 9999"
        )
    return values


def _read_moments(texts: pl.Series, wanted: Any) -> pl.Series:
    read = dt.time if wanted == pl.Time else dt.date if wanted == pl.Date else dt.datetime
    found = [None if text is None else read.fromisoformat(text) for text in texts]
    if not isinstance(wanted, pl.Datetime):
        return pl.Series(texts.name, found, dtype=wanted)
    return zoned(pl.Series(texts.name, found, dtype=pl.Datetime("us")), wanted)
