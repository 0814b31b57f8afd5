"""The same kind of table out as came in, index and types kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from tulle.errors import DataError
from tulle.table._frames import Exit, enter
from tulle.table._pandas import keep_index


def named_columns(
    X: Any, agreed: Sequence[str], given: Sequence[str] | None = None
) -> list[pl.Series]:
    """Return the columns of a table, under the names given for them, if any.

    Arrays and lists have no names: without given ones they must have the agreed columns, all of
    them and in that order, as ``transform`` gives them.
    """
    frame, exit = enter(X)
    if given is None and not exit.plain:
        return list(frame)
    names = agreed if given is None else given
    if len(names) != frame.width:
        raise DataError(
            f"the table has {frame.width} columns, but {len(names)} names are known: name its "
            "columns, or pass a frame"
        )
    return [column.alias(name) for column, name in zip(frame, names)]


def rebuild(X: Any, frame: pl.DataFrame, home: Exit | None = None) -> Any:
    """Convert a polars frame to the container of X, in the types of ``home`` if that is alike."""
    if isinstance(X, pl.DataFrame):
        return frame
    exit = enter(X)[1]
    alike = home is not None and type(home) is type(exit)
    return keep_index((home if alike and home else exit).leave(frame), X)
