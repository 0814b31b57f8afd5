"""Cells as the text that is aliased, and back.

Equal values must become equal text at every site, whatever type their files gave them: a 3 that
another site reads as 3.0 (because a neighbour is missing) or as "3" is the same category, midnight
is the date, and a boolean is the same as 0 and 1. Different values must become different text:
what Python would round (nanoseconds, many digits) is refused or kept whole.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl

from tulle._plurals import counted
from tulle.errors import DataError
from tulle.sites._columns import ValueType
from tulle.sites._numbers import DTYPES, zoned

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


def texts_of(values: pl.Series, type: ValueType = ValueType.TEXT) -> list[str]:
    """Return each of some distinct values as text; ``type`` is what was agreed on."""
    dtype = values.dtype
    if dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum) or dtype.is_integer():
        texts: list[str] = values.cast(pl.String).to_list()
    elif dtype == pl.Float32:
        texts = [text_of(value) for value in values.to_numpy()]
    else:
        values = _moments_of_python(values) if dtype.is_temporal() else values
        texts = [text_of(value) for value in values.to_list()]
    return _truths(values, texts) if type is ValueType.BOOLEAN else texts


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


def from_text(texts: pl.Series, type: ValueType, dtype: Any = None) -> pl.Series:
    """Convert decoded text back to its type; ``dtype`` is the type of the site's table, if known.

    Text stays text where that type does not hold it exactly: another site wrote it otherwise.
    """
    wanted = dtype if dtype is not None else DTYPES[type]
    if type is ValueType.BOOLEAN or wanted == pl.Boolean:
        return _from_truths(texts, wanted)
    try:
        read = _moments(texts, wanted) if wanted.is_temporal() else texts.cast(wanted)
    except (ValueError, pl.exceptions.PolarsError):
        return texts
    exact = not wanted.is_numeric() or texts_of(read.drop_nulls()) == texts.drop_nulls().to_list()
    return read if exact else texts


def _truths(values: pl.Series, texts: list[str]) -> list[str]:
    known = _TRUTHS if values.dtype in (pl.Boolean, pl.String) else _BITS
    strange = sum(text not in known for text in texts)
    if strange:
        raise DataError(
            f"column '{values.name}' was agreed on as boolean, but {strange} of its distinct "
            "values are neither true nor false: convert them, or agree on it as category"
        )
    return [known[text] for text in texts]


def _from_truths(texts: pl.Series, wanted: Any) -> pl.Series:
    if not (texts.is_in(list(_TRUTHS)) | texts.is_null()).all():
        return texts
    truths = texts == "true"
    return truths.cast(wanted) if wanted == pl.Boolean or wanted.is_numeric() else texts


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


def _moments(texts: pl.Series, wanted: Any) -> pl.Series:
    read = dt.time if wanted == pl.Time else dt.date if wanted == pl.Date else dt.datetime
    found = [None if text is None else read.fromisoformat(text) for text in texts]
    if not isinstance(wanted, pl.Datetime):
        return pl.Series(texts.name, found, dtype=wanted)
    return zoned(pl.Series(texts.name, found, dtype=pl.Datetime("us")), wanted)
