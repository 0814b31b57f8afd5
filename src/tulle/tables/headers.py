"""The names of columns, and a first line that is a record instead.

A record that is taken for the header is lost, and its cells are published: as names of columns, in
messages, policies and manifests.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import polars as pl

from tulle.errors import DataError
from tulle.tables.frames import refuse_patterns
from tulle.tables.text_types import ALL, ColumnGuess


def refuse_doubled(source: str, names: list[str]) -> None:
    """A column name that occurs twice cannot be given one role; nor can a pattern of names."""
    refuse_patterns(names)
    doubled = sorted(name for name, count in Counter(names).items() if count > 1)
    if any(_number(name) is not None for name in doubled):
        raise _no_header(source)  # it may be a record, whose cells are not told
    if doubled:
        shown = ", ".join(f"'{name}'" for name in doubled[:5])
        raise DataError(f"{source}: the column name {shown} occurs twice: rename one of them")


def refuse_record(source: str, records: pl.DataFrame) -> None:
    """Refuses names that are values like those below them, in every column that is not text.

    Numbers in counted order (years, or 0, 1, 2 as pandas writes them) may be names, and so may
    numbers most of which are no values of their columns (items above zeros and ones).
    """
    judged = [series for series in records if series.dtype not in (pl.String, pl.Null)]
    if not judged or not all(_is_value(series.name, series.dtype) for series in judged):
        return
    numbers = {series.name: _number(series.name) for series in judged if series.dtype.is_numeric()}
    found = [number for number in numbers.values() if number is not None]
    counted = len(found) > 1 and all(b - a == 1 for a, b in pairwise(found))
    inside = sum(_within(records[name], number) for name, number in numbers.items())
    if not counted and (2 * inside >= len(numbers)):
        raise _no_header(source)


def _no_header(source: str) -> DataError:
    return DataError(
        f"{source}: the first line looks like a record: a table begins with the names of its "
        "columns. Put them before it, or rename columns that are named by a number"
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_value(name: str, dtype: pl.DataType) -> bool:
    """Whether a name could stand in a column of this type."""
    if dtype.is_numeric():
        return _number(name) is not None
    guess = ColumnGuess(ALL)
    guess.update(pl.Series([name]))
    return guess.result is not None and guess.result.dtype.base_type() == dtype.base_type()


def _within(values: pl.Series, number: Any) -> bool:
    low, high = values.min(), values.max()
    return low is not None and bool(low <= number <= high)
