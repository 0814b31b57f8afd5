"""The names of columns, and a first line that is a record instead.

A record that is taken for the header is lost, and its cells are published: as names of columns, in
messages, policies and manifests.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import polars as pl

from tulle.errors import DataError
from tulle.io._text_types import ALL, ColumnGuess
from tulle.table._series import refuse_patterns

SEPARATORS = ",;\t|"
MOST_COLUMNS = 10_000


def separator_of(header: str, record: str | None) -> str:
    """Return what separates the fields, judged by the header and the first record.

    It is the separator that both have equally often; failing that, the most frequent one of the
    header that the record has too; failing that, there is one column. A header alone decides by
    itself.

    >>> separator_of("size;weight, kg", "1,80;80,5")
    ';'
    """
    names, values = _unquoted(header), _unquoted(record or "")
    if record is None:
        return max(SEPARATORS, key=names.count)
    shared = [mark for mark in SEPARATORS if mark in names and mark in values]
    equal = [mark for mark in shared if names.count(mark) == values.count(mark)]
    return max(equal or shared or ",", key=names.count)


def _unquoted(text: str) -> str:
    return "".join(text.split('"')[::2])


def refuse_no_header(source: str, header: str) -> None:
    """Raise if a first line is JSON or ends with a lone CR."""
    if "\r" in _unquoted(header):
        raise DataError(
            f"{source}: the lines end with a lone CR: save the file with LF line endings"
        )
    try:
        value = json.loads(header)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict | list):
        raise DataError(f"{source}: the first line is JSON, not names of columns: is it NDJSON?")


def column_names(source: str, header: Iterable[str | None]) -> list[str]:
    """Return the names of columns: the unnamed (an index that pandas wrote) get one."""
    header = list(header)
    refuse_wide(source, len(header))
    named = [n if n and n.strip() else f"column_{i}" for i, n in enumerate(header, 1)]
    refuse_doubled(source, named)
    return named


def refuse_title(source: str, header: Iterable[str | None], filled: Iterable[bool]) -> None:
    """Raise if several columns have values and no name.

    One may be an index that pandas wrote; more are below a title.
    """
    unnamed = [
        number
        for number, (name, has_values) in enumerate(zip(header, filled, strict=True), 1)
        if has_values and not (name and name.strip())
    ]
    if len(unnamed) > 1:
        raise DataError(
            f"{source}: {len(unnamed)} columns, the first of them column {unnamed[0]}, have values "
            "but no name: a table begins with one line of names, without a title above it"
        )


def refuse_wide(source: str, count: int) -> None:
    """Raise for more columns than can be looked at in reasonable time."""
    if count > MOST_COLUMNS:
        raise DataError(
            f"{source}: has {count:,} columns, more than {MOST_COLUMNS:,}: leave some out, or give "
            "one row per entry"
        )


def refuse_doubled(source: str, names: list[str]) -> None:
    """Raise if a name occurs twice, or reads like a pattern: it cannot be given one role."""
    refuse_patterns(names)
    doubled = sorted(name for name, count in Counter(names).items() if count > 1)
    if any(_number(name) is not None for name in doubled):
        raise _no_header(source)  # it may be a record, whose cells are not shown
    if doubled:
        shown = ", ".join(f"'{name}'" for name in doubled[:5])
        raise DataError(f"{source}: the column name {shown} occurs twice: rename one of them")


def refuse_record(source: str, records: pl.DataFrame) -> None:
    """Raise if the names are values like those below them.

    They are, if every column that is not text is named by a value of its type, and at least half
    of these names lie within the range of their columns. Numbers in steps are names after all.
    """
    judged = [series for series in records if series.dtype not in (pl.String, pl.Null)]
    if not judged or not all(_is_value(series.name, series.dtype) for series in judged):
        return
    if 2 * sum(map(_within, judged)) >= len(judged) and not _in_steps(judged):
        raise _no_header(source)


def _in_steps(judged: list[pl.Series]) -> bool:
    """Tell whether the names count up or down by one, or three or more go up in equal steps."""
    if len(judged) < 2 or not all(series.dtype.is_numeric() for series in judged):
        return False
    first, *others = {round(b - a, 9) for a, b in pairwise(float(s.name) for s in judged)}
    return not others and (abs(first) == 1 or (first > 0 and len(judged) > 2))


def _no_header(source: str) -> DataError:
    return DataError(
        f"{source}: the first line looks like a record: a table begins with the names of its "
        "columns. Put them before it, or rename columns whose name is a number"
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_value(name: str, dtype: pl.DataType) -> bool:
    """Tell whether a name could stand in a column of this type."""
    if dtype.is_numeric():
        return _number(name) is not None
    guess = ColumnGuess(ALL)
    guess.update(pl.Series([name]))
    return guess.result is not None and guess.result.dtype.base_type() == dtype.base_type()


def _within(values: pl.Series) -> bool:
    """Tell whether the name lies among the values, as a date or boolean above others does."""
    if not values.dtype.is_numeric():
        return True
    low: Any = values.min()
    high: Any = values.max()
    return low is not None and bool(low <= float(values.name) <= high)
