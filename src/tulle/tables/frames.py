"""Any table in, the same kind out.

pandas, polars and pyarrow tables, NumPy arrays and lists of rows open into named columns: a NumPy
array where the values are plain numbers or truth values, a polars Series for everything else. The
container that comes with the columns puts others like them (not the rows: those are released
anew) back into the kind of table that came in, with its names, order and types. pandas needs no
pyarrow for this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tulle.errors import DataError

if TYPE_CHECKING:
    import polars as pl

Cells = Any  # one column: NDArray (numbers, truth values) or pl.Series
Columns = dict[str, Cells]

_UNSUPPORTED = ("Binary", "Object", "Unknown", "Int128", "UInt128")
_ACCEPTED = "a pandas or polars DataFrame, a pyarrow Table, a 2-D NumPy array or a list of rows"


class Container(Protocol):
    """Remembers what kind of table came in, but none of its rows."""

    def restore(self, columns: Mapping[str, Cells]) -> Any:
        """A table of that kind from some of its columns, by name."""
        ...


def open_table(X: Any) -> tuple[Columns, Container]:
    """The columns of any table, and the container to put others like them into.

    >>> columns, container = open_table([[1, "a"], [2, "b"]])
    >>> list(columns)
    ['x0', 'x1']
    >>> container.restore(columns)
    [[1, 'a'], [2, 'b']]
    """
    columns, container = _open(X)
    if not columns:
        rows = len(X) if hasattr(X, "__len__") else 0
        raise DataError(f"0 feature(s) (shape=({rows}, 0)) while a minimum of 1 is required.")
    return columns, container


def open_column(y: Any, name: str = "target") -> tuple[Columns, Container]:
    """One column (array, list, Series, pyarrow array) opened as a table of one column."""
    family = _family(y)
    if family == "pandas" and np.ndim(y) == 1:  # an Index, or an array of pandas' own, too
        import pandas as pd

        y = y if isinstance(y, pd.Series) else pd.Series(y)
        columns, container = open_table(y.to_frame(name=name if y.name is None else y.name))
    elif family == "polars" and type(y).__name__ == "Series":
        columns, container = open_table(y.alias(y.name or name).to_frame())
    elif family == "pyarrow" and type(y).__name__ != "Table":
        import pyarrow as pa

        columns, container = open_table(pa.table({name: y}))
    elif isinstance(y, list | tuple) and not (y and isinstance(y[0], list | tuple)):
        columns, container = open_table([[value] for value in y] or np.empty((0, 1)))
    elif np.ndim(y) == 1:
        columns, container = open_table(np.asarray(y)[:, None])
    else:
        raise DataError(f"'{name}' must be one column. Got {np.ndim(y)} dimensions.")
    return columns, _OneColumn(container, isinstance(y, list | tuple), y)


def to_polars(X: Any) -> pl.DataFrame:
    """Any table as a polars DataFrame."""
    import polars as pl

    if isinstance(X, pl.DataFrame):
        return X
    columns, _ = open_table(X)
    return pl.DataFrame({name: as_series(name, cells) for name, cells in columns.items()})


def as_series(name: str, cells: Cells) -> pl.Series:
    """One column as a polars Series."""
    import polars as pl

    return cells if isinstance(cells, pl.Series) else pl.Series(name, cells)


def is_missing(series: pl.Series) -> NDArray[np.bool_]:
    """Which values are missing. Asking polars for it plans a query: too long for one record."""
    if not series.null_count():
        return np.zeros(len(series), dtype=bool)
    return series.is_null().to_numpy()


def filled(series: pl.Series, value: Any) -> NDArray[Any]:
    """The values as an array, with ``value`` for those that are missing."""
    return (series.fill_null(value) if series.null_count() else series).to_numpy()


def count_rows(columns: Columns) -> int:
    """The number of rows of an opened table."""
    return len(next(iter(columns.values())))


def take_rows(X: Any, rows: NDArray[Any]) -> Any:
    """Some rows of a table or a column, in the order asked for, in the same container."""
    family = _family(X)
    if family == "pandas":
        return X.iloc[rows].reset_index(drop=True)
    if family == "pyarrow":
        return X.take(rows)
    if isinstance(X, list | tuple):
        return [X[row] for row in rows.tolist()]
    return X[rows]


def stack_rows(tables: Sequence[Any]) -> Any:
    """Tables (or columns) of one kind, one below the other."""
    first = tables[0]
    if len(tables) == 1:
        return first
    family = _family(first)
    if family == "pandas":
        import pandas as pd

        return pd.concat(tables, ignore_index=True)
    if family == "polars":
        import polars as pl

        return pl.concat(tables)
    if family == "pyarrow":
        import pyarrow as pa

        batches = isinstance(first, pa.RecordBatch)
        return pa.concat_batches(tables) if batches else pa.concat_tables(tables)
    if isinstance(first, list):
        return [row for table in tables for row in table]
    return np.concatenate(tables)


def is_plain(container: Container) -> bool:
    """Whether a table came as a NumPy array or a list: numbers without a declared precision."""
    from tulle.tables.array_frames import ArrayTable, RowList

    return isinstance(container, ArrayTable | RowList)


def _family(X: Any) -> str:
    """The library that an object comes from, without importing any."""
    return type(X).__module__.partition(".")[0]


def _open(X: Any) -> tuple[Columns, Container]:
    from tulle.tables import array_frames

    family, kind = _family(X), type(X).__name__
    if family == "pandas" and kind == "DataFrame":
        from tulle.tables.pandas_frames import open_pandas

        return open_pandas(X)
    if family == "polars" and kind == "DataFrame":
        return _open_polars(X)
    if family == "pyarrow" and kind in ("Table", "RecordBatch"):
        from tulle.tables.arrow_frames import open_arrow

        return open_arrow(X)
    if isinstance(X, list | tuple):
        return array_frames.open_rows(X)
    if kind == "LazyFrame":
        raise DataError("the table is lazy: call .collect() first")
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise DataError("sparse data is not supported: pass X.toarray(), or use a Sketcher")
    if hasattr(X, "__array__"):
        masked = isinstance(X, np.ma.MaskedArray)
        return array_frames.open_array(X if masked else np.asarray(X))
    raise DataError(f"cannot read a {kind} as a table: pass {_ACCEPTED}")


class PolarsTable:
    def restore(self, columns: Mapping[str, Cells]) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame({name: as_series(name, cells) for name, cells in columns.items()})


def _open_polars(X: pl.DataFrame) -> tuple[Columns, Container]:
    columns: Columns = {}
    for series in X:
        refuse_unsupported(series.name, series.dtype)
        columns[series.name] = series
    return columns, PolarsTable()


def refuse_unsupported(name: str, dtype: Any) -> None:
    """Refuses column types that hold no single value a row."""
    if dtype.is_nested() or str(dtype).partition("(")[0] in _UNSUPPORTED:
        raise DataError(
            f"column '{name}' has type {dtype}, which is not supported: split it into plain "
            "columns (numbers, text, categories, dates) or leave it out"
        )


def refuse_extended(name: str, dtype: np.dtype[Any]) -> None:
    """Refuses numbers with more digits than the floating point that all work is done in."""
    if dtype.kind == "f" and dtype.itemsize > 8:
        raise DataError(
            f"column '{name}' has type {dtype}, which is not supported: convert it with "
            ".astype('float64')"
        )


def refuse_patterns(names: Iterable[str]) -> None:
    """Refuses names that polars takes for patterns of names: it would choose other columns."""
    for name in names:
        if name == "*" or (name.startswith("^") and name.endswith("$")):
            raise DataError(f"the column name '{name}' reads like a pattern of names: rename it")


def refuse_duplicates(names: Iterable[Any]) -> None:
    """Refuses tables in which a column name is not unique."""
    seen: set[str] = set()
    for name in map(str, names):
        if name in seen:
            raise DataError(f"the column name '{name}' appears more than once: rename one")
        seen.add(name)


class _OneColumn:
    def __init__(self, table: Container, listed: bool, example: Any) -> None:
        self.table = table
        self.listed = listed
        self.family = _family(example)
        self.chunked = type(example).__name__ == "ChunkedArray"
        self.unnamed = self.family in ("pandas", "polars") and not example.name

    def restore(self, columns: Mapping[str, Cells]) -> Any:
        table = self.table.restore(columns)
        if self.listed:
            rows = table if isinstance(table, list) else table.tolist()
            return [row[0] for row in rows]
        if self.family == "pandas":
            return table.iloc[:, 0].rename(None) if self.unnamed else table.iloc[:, 0]
        if self.family == "polars":
            series = table.to_series(0)
            return series.alias("") if self.unnamed else series
        if self.family == "pyarrow":
            return table.column(0) if self.chunked else table.column(0).combine_chunks()
        return table[:, 0]
