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

_YEARS = range(1900, 2101)


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

    Numbers may be names if most of them are no values of their columns (items above zeros and
    ones), or if they are what people name columns by: years, hours, positions.
    """
    judged = [series for series in records if series.dtype not in (pl.String, pl.Null)]
    if not judged or not all(_is_value(series.name, series.dtype) for series in judged):
        return
    inside = sum(map(_within, judged))
    if 2 * inside >= len(judged) and not _number_columns(records, judged):
        raise _no_header(source)


def _number_columns(records: pl.DataFrame, judged: list[pl.Series]) -> bool:
    """Whether numbers that could be values are names: in steps, or years above what are none."""
    texts = [s for s in records if s.dtype == pl.String and s.null_count() < len(s)]
    if not all(series.dtype.is_numeric() for series in judged) or any(map(_occurs, texts)):
        return False
    numbers = [float(series.name) for series in judged]
    steps = {round(b - a, 9) for a, b in pairwise(numbers)}
    years = all(number in _YEARS for number in numbers)
    if steps == {1.0}:
        return True
    if len(steps) == 1 and len(numbers) > 2 and abs(min(steps)) > 0:  # two always have one step
        return years or bool(texts) or not all(map(_occurs, judged))
    return years and (bool(texts) or len(numbers) > 1) and not any(map(_holds_years, judged))


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


def _within(values: pl.Series) -> bool:
    """Whether the name lies among the values; a date or truth value above its like does."""
    if not values.dtype.is_numeric():
        return True
    low: Any = values.min()
    high: Any = values.max()
    return low is not None and bool(low <= float(values.name) <= high)


def _occurs(values: pl.Series) -> bool:
    """Whether the name is one of the values."""
    name = float(values.name) if values.dtype.is_numeric() else values.name
    return bool((values == name).any())


def _holds_years(values: pl.Series) -> bool:
    """Whether half of the values could be years of birth, say."""
    share: Any = values.is_between(_YEARS[0], _YEARS[-1]).mean()
    return share is not None and share >= 0.5
