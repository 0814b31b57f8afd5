"""Columns and frames of polars: what several modules ask of them, and what none accepts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle.errors import DataError

if TYPE_CHECKING:
    from tulle.table.schema import Kind

_UNSUPPORTED = ("Binary", "Object", "Unknown", "Int128", "UInt128")


def frame_of(columns: Sequence[pl.Series]) -> pl.DataFrame:
    """Return a frame of some columns, of which one may have no name."""
    frame = pl.DataFrame(columns)
    if not all(series.name for series in columns):  # polars would make one up
        frame.columns = [series.name for series in columns]
    return frame


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name for one more column, which no other has."""
    while name in taken:
        name = f"{name} (target)"
    return name


def is_missing(series: pl.Series) -> NDArray[np.bool_]:
    """Return which values are missing. Asking polars plans a query: too long for one record."""
    if not series.null_count():
        return np.zeros(len(series), dtype=bool)
    return series.is_null().to_numpy()


def filled(series: pl.Series, value: Any) -> NDArray[Any]:
    """Return the values as an array, with ``value`` for those that are missing."""
    return (series.fill_null(value) if series.null_count() else series).to_numpy()


def with_nulls(series: pl.Series, empty: NDArray[np.bool_]) -> pl.Series:
    """Return a column with null where it is ``empty``."""
    if not empty.any():
        return series
    return series.zip_with(pl.Series(~empty), pl.Series([None], dtype=series.dtype))


def library_of(X: Any) -> str:
    """Return the library that an object comes from, without importing any."""
    return type(X).__module__.partition(".")[0]


def person_names(series: pl.Series) -> pl.Series:
    """Return the names of people as text: 7 and 7.0 are one person, and so is a name with a space.

    Examples
    --------
    >>> person_names(pl.Series([7.0, None, 7.5])).to_list()
    ['7', None, '7.5']
    """
    texts = series.cast(pl.String).str.strip_chars()
    if not (series.dtype.is_float() or series.dtype.is_decimal()):
        return texts
    whole = series.cast(pl.Int64, strict=False)
    same = (whole.cast(series.dtype) == series).fill_null(False)
    return whole.cast(pl.String).zip_with(same, texts)


_MOST_CLASSES = 50  # numbers with more different values than that are a quantity
_SURELY_CLASSES = 10  # of so many whole numbers one may stand for one record


def is_class(series: pl.Series, kind: Kind | None = None) -> bool:
    """Return whether a target names classes: the one answer to this question.

    Text, categories and booleans do, and what is declared to be of such a ``kind``. Whole numbers
    do if there are two of them, or if at most 50 are different and each stands for three records
    on average; so do floats that are all whole. More than ten numbers of which a record has one
    alone are a quantity: nobody calls that a class.

    >>> is_class(pl.Series([0, 1, 1, 0])), is_class(pl.Series([30_000, 41_500, 52_250]))
    (True, False)
    """
    if kind in ("category", "ordered", "boolean", "text"):
        return True
    present = series.drop_nulls()
    if present.dtype.is_float():
        present = present.drop_nans()
        if not (present == present.round()).all():
            return False
    elif not present.dtype.is_integer():
        return present.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Boolean)
    sizes = present.value_counts()["count"]
    if len(sizes) > _SURELY_CLASSES and sizes.min() == 1:
        return False
    return len(sizes) <= 2 or (len(sizes) <= _MOST_CLASSES and 3 * len(sizes) <= len(present))


def is_opaque(dtype: pl.DataType) -> bool:
    """Return whether cells are lists, objects or bytes, which are never released."""
    return dtype.is_nested() or dtype in (pl.Binary, pl.Object)


def refuse_unsupported(name: str, dtype: Any) -> None:
    """Refuse column types that do not hold one single value per row."""
    if dtype.is_nested() or str(dtype).partition("(")[0] in _UNSUPPORTED:
        raise DataError(
            f"column '{name}' has type {dtype}, which is not supported: split it into plain "
            "columns (numbers, text, categories, dates) or leave it out"
        )


def refuse_extended(name: str, dtype: np.dtype[Any]) -> None:
    """Refuse numbers with more digits than the floating point that all work is done in."""
    if dtype.kind == "f" and dtype.itemsize > 8:
        raise DataError(
            f"column '{name}' has type {dtype}, which is not supported: convert it with "
            ".astype('float64')"
        )


def refuse_patterns(names: Iterable[str]) -> None:
    """Refuse names that polars takes for patterns of names: it would choose other columns."""
    for name in names:
        if name == "*" or (name.startswith("^") and name.endswith("$")):
            raise DataError(f"the column name '{name}' looks like a pattern: rename it")


def refuse_duplicates(names: Iterable[Any]) -> None:
    """Refuse tables in which a column name is not unique."""
    seen: set[str] = set()
    for name in map(str, names):
        if name in seen:
            raise DataError(f"the column name '{name}' appears more than once: rename one")
        seen.add(name)
