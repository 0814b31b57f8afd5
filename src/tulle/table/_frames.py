"""Any table in, the same kind out.

:func:`enter` makes a polars frame of a pandas or polars DataFrame, a pyarrow Table or RecordBatch,
a NumPy array or a list of rows. The :class:`Exit` that comes with it puts other frames of such
columns (not the rows: those are synthesized) back into that kind of table, with its names, order
and types. Missing values stay what they were: null, or NaN. pandas needs no pyarrow for this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle.errors import DataError
from tulle.table._pandas import enter_pandas
from tulle.table._series import (
    frame_of,
    free_name,
    library_of,
    refuse_duplicates,
    refuse_extended,
    refuse_unsupported,
)

_ACCEPTED = "a pandas or polars DataFrame, a pyarrow Table, a 2-D NumPy array or a list of rows"


class Exit(Protocol):
    """Remembers what kind of table came in, but none of its rows.

    The types of categories hold values of the data: what leaves of an exit is what it makes.
    """

    @property
    def plain(self) -> bool:
        """Whether the input was an array or a list: without names or declared precision."""
        ...

    def leave(self, frame: pl.DataFrame) -> Any:
        """Return a frame as a table of that kind.

        Columns that came in get their type back; others, and those of another type, come in the
        type that is natural for that kind of table.
        """
        ...


def enter(X: Any) -> tuple[pl.DataFrame, Exit]:
    """Return any table as a frame, and the way back.

    >>> frame, exit = enter([[1, "a"], [2, "b"]])
    >>> frame.columns
    ['x0', 'x1']
    >>> exit.leave(frame)
    [[1, 'a'], [2, 'b']]
    """
    frame, exit = _enter(X)
    if not frame.width:
        rows = len(X) if hasattr(X, "__len__") else 0
        raise DataError(f"0 feature(s) (shape=({rows}, 0)) while a minimum of 1 is required.")
    return frame, exit


@dataclass(frozen=True, repr=False)
class ColumnExit:
    """Remembers what one column came in."""

    table: Exit
    kind: str  # "list", or the library
    inside: str  # its name in a frame
    name: Any = None  # as it was, if there was one
    chunked: bool = False

    def leave(self, series: pl.Series) -> Any:
        """Return a column of that kind."""
        table = self.table.leave(series.alias(self.inside).to_frame())
        if self.kind == "list":
            return [row[0] for row in table]
        if self.kind == "pandas":
            return table.iloc[:, 0].rename(self.name)
        if self.kind == "polars":
            return table.to_series(0).alias(self.name)
        if self.kind == "pyarrow":
            return table.column(0) if self.chunked else table.column(0).combine_chunks()
        return table[:, 0]


def enter_column(y: Any, name: str = "target") -> tuple[pl.Series, ColumnExit]:
    """Return one column (array, list, Series, pyarrow array) as a Series, and the way back."""
    family, kind = library_of(y), type(y).__name__
    own: Any = None
    if family == "pandas" and np.ndim(y) == 1:  # an Index, or an array of pandas' own, too
        import pandas as pd

        y = y if isinstance(y, pd.Series) else pd.Series(y)
        own = y.name
        frame, exit = enter(y.to_frame(name=name if own is None else own))
    elif family == "polars" and kind == "Series":
        own = y.name
        frame, exit = enter(y.alias(own or name).to_frame())
    elif family == "pyarrow" and kind != "Table":
        import pyarrow as pa

        frame, exit = enter(pa.table({name: y}))
    elif isinstance(y, list | tuple) and not (y and isinstance(y[0], list | tuple)):
        family = "list"
        frame, exit = enter([[value] for value in y] or np.empty((0, 1)))
        exit = exit if y else _RowsExit(exit)
    elif np.ndim(y) == 1:
        frame, exit = enter(np.asarray(y)[:, None])
    else:
        raise DataError(f"'{name}' must be one column. Got {np.ndim(y)} dimensions.")
    series = frame.to_series(0)
    way = ColumnExit(exit, family, series.name, own, kind == "ChunkedArray")
    named = family in ("pandas", "polars", "pyarrow")
    return series if named else series.alias(name), way


@dataclass(frozen=True, repr=False)
class Border:
    """The way back of a table and, where there is one, of its target: the last column."""

    table: Exit
    target: ColumnExit | None = None

    def leave(self, frame: pl.DataFrame) -> Any:
        """Return ``X``, or ``(X, y)`` where there is a target."""
        if self.target is None:
            return self.table.leave(frame)
        return self.table.leave(frame[:, :-1]), self.target.leave(frame.to_series(-1))

    def to_json(self) -> dict[str, Any]:
        """Return the kinds of containers as JSON; of frames only that they are frames."""
        target = None
        if self.target is not None:
            target = [self.target.kind, _exit_to_json(self.target.table)]
        return {"table": _exit_to_json(self.table), "target": target}

    @classmethod
    def from_json(cls, entries: dict[str, Any]) -> Border:
        """Return the border that :meth:`to_json` wrote; frames are those of polars."""
        if entries["target"] is None:
            return cls(_exit_from_json(entries["table"]))
        kind, dtype = entries["target"]
        target = ColumnExit(_exit_from_json(dtype), kind if dtype else "polars", "target", "")
        return cls(_exit_from_json(entries["table"]), target)

    def features(self, frame: pl.DataFrame) -> list[str]:
        """Return the names of the columns that are not the target."""
        return frame.columns if self.target is None else frame.columns[:-1]

    def plain(self, frame: pl.DataFrame) -> list[str]:
        """Return the columns whose numbers have no declared precision; a target's is kept."""
        return self.features(frame) if self.table.plain else []


def enter_with_target(X: Any, y: Any) -> tuple[pl.DataFrame, Border]:
    """Return a table, and the target ``y`` as its last column if there is one."""
    frame, exit = enter(X)
    if y is None:
        return frame, Border(exit)
    series, way = enter_column(y)
    check_length(series, frame.height)
    name = free_name(series.name, frame.columns)
    return frame_of([*frame, series.alias(name)]), Border(exit, way)


def _exit_to_json(exit: Exit) -> list[str]:
    """Return the type of an array, and whether it was a list of rows; nothing for frames."""
    if isinstance(exit, _RowsExit):
        return [*_exit_to_json(exit.array), "rows"]
    return [exit.dtype.str] if isinstance(exit, _ArrayExit) else []


def _exit_from_json(entries: list[str]) -> Exit:
    if not entries:
        return _PolarsExit()
    array = _ArrayExit(np.dtype(entries[0]))
    return _RowsExit(array) if entries[1:] else array


def check_length(y: pl.Series, records: int) -> None:
    if len(y) != records:
        raise DataError(
            f"y has {len(y)} entries, but X has {records} records: inconsistent numbers of samples"
        )


def to_polars(X: Any) -> pl.DataFrame:
    """Return any table as a polars DataFrame; one of polars as it is, whatever its types."""
    return X if isinstance(X, pl.DataFrame) else enter(X)[0]


def _enter(X: Any) -> tuple[pl.DataFrame, Exit]:
    family, kind = library_of(X), type(X).__name__
    if family == "pandas" and kind == "DataFrame":
        return enter_pandas(X)
    if family == "polars" and kind == "DataFrame":
        for name, dtype in zip(X.columns, X.dtypes):
            refuse_unsupported(name, dtype)
        return X, _PolarsExit()
    if family == "pyarrow" and kind in ("Table", "RecordBatch"):
        return _enter_arrow(X)
    if isinstance(X, list | tuple):
        frame, exit = _enter_array(_rows_to_array(X))
        return frame, _RowsExit(exit)
    if kind == "LazyFrame":
        raise DataError("the table is lazy: call .collect() first")
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise DataError("sparse data is not supported: pass X.toarray(), or use a Sketcher")
    if hasattr(X, "__array__"):
        masked = isinstance(X, np.ma.MaskedArray)
        return _enter_array(X if masked else np.asarray(X))
    raise DataError(f"cannot read a {kind} as a table: pass {_ACCEPTED}")


@dataclass(frozen=True, repr=False)
class _PolarsExit:
    plain = False

    def leave(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame


# NumPy arrays and lists of rows, whose columns have no names.


@dataclass(frozen=True, repr=False)
class _ArrayExit:
    dtype: np.dtype[Any]
    plain = True

    def leave(self, frame: pl.DataFrame) -> NDArray[Any]:
        # an array is kept by column or by row, as it comes: rows are what most readers want
        array = np.empty(frame.shape, dtype=self._holding(frame))
        for place, series in enumerate(frame):
            array[:, place] = series.to_list() if array.dtype == object else series.to_numpy()
        return array

    def _holding(self, frame: pl.DataFrame) -> np.dtype[Any]:
        """Return the type of the array, wider if only the beginning of a stream came in it."""
        kind, types = self.dtype.kind, frame.dtypes
        if kind == "U" and all(dtype == pl.String for dtype in types):
            longest: list[Any] = [series.str.len_chars().max() or 1 for series in frame]
            return np.dtype(f"U{max(self.dtype.itemsize // 4, *longest)}")
        if kind in "biuf" and all(dtype.is_numeric() or dtype == pl.Boolean for dtype in types):
            return np.result_type(self.dtype, *(series.to_numpy().dtype for series in frame))
        if kind in "mM" and all(dtype.is_temporal() for dtype in types):
            return self.dtype
        return np.dtype(object)


@dataclass(frozen=True, repr=False)
class _RowsExit:
    array: Exit
    plain = True

    def leave(self, frame: pl.DataFrame) -> list[list[Any]]:
        rows: list[list[Any]] = self.array.leave(frame).tolist()
        return rows


def _enter_array(X: NDArray[Any]) -> tuple[pl.DataFrame, Exit]:
    """Enter a 2-D array: its columns are x0, x1, ..."""
    if isinstance(X, np.ma.MaskedArray):
        raise DataError("masked arrays are not supported: use NaN for missing values")
    if X.dtype.names is not None or X.dtype.kind in "VS":
        raise DataError("structured and bytes arrays are not supported: pass a DataFrame")
    if X.dtype.kind == "c":
        raise DataError("Complex data not supported: pass real and imaginary parts as columns")
    refuse_extended("x0", X.dtype)
    if X.ndim != 2:
        raise DataError(
            f"Expected a 2-D array, got {X.ndim} dimension(s). Reshape your data: "
            "X.reshape(-1, 1) if it has one column, X.reshape(1, -1) if it is one record."
        )
    rows, width = X.shape
    if X.dtype.kind in "biuf":
        # One Series cut into columns: making one for each would take longer than condensing them.
        # A copy, since polars shares the memory of an array, which its owner may use again.
        whole = pl.Series(X.flatten(order="F"))
        columns = [whole.slice(place * rows, rows).alias(f"x{place}") for place in range(width)]
    else:
        columns = [_inferred(f"x{place}", X[:, place]) for place in range(width)]
    return pl.DataFrame(columns), _ArrayExit(X.dtype)


def _inferred(name: str, values: NDArray[Any]) -> pl.Series:
    """Return a column of objects, texts or time stamps as a Series of one type."""
    if values.dtype.kind in "mM":
        unit = np.datetime_data(values.dtype)[0]
        fine = unit if unit in ("D", "ms", "us", "ns") else "ms"
        return pl.Series(name, values.astype(f"{values.dtype.kind}8[{fine}]"))
    try:
        series = pl.Series(name, values.tolist(), strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        try:  # numbers of several types (1, 2.5): one type of number
            return pl.Series(name, values.astype(np.float64))
        except (TypeError, ValueError):
            raise DataError(
                f"column '{name}' mixes values of several types: each column's argument must "
                "be a string, a number, a date or missing"
            ) from None
    refuse_unsupported(name, series.dtype)
    return series


def _rows_to_array(X: Sequence[Any]) -> NDArray[Any]:
    try:
        array = np.array(X)
        if array.dtype.kind not in "biuf":
            array = np.array(X, dtype=object)
    except ValueError:
        raise DataError("the rows of the list differ in length") from None
    if array.ndim == 2 and array.dtype.kind == "f":
        # columns of whole numbers stay whole where the array as a whole could not
        mixed = np.array(X, dtype=object)
        return mixed if any(isinstance(value, int) for value in mixed.flat) else array
    return array


# pyarrow tables and record batches, schema and all.


@dataclass(frozen=True, repr=False)
class _ArrowExit:
    schema: Any
    types: dict[str, pl.DataType]
    batch: bool
    plain = False

    def leave(self, frame: pl.DataFrame) -> Any:
        import pyarrow as pa

        arrays, fields = [], []
        for series in frame:
            array, field = series.to_arrow(), pa.field(series.name, series.to_arrow().type)
            if self.types.get(series.name) == series.dtype:
                field = self.schema.field(series.name)
                array = _cast_arrow(array, field.type)
            arrays.append(array)
            fields.append(field)
        table = pa.table(arrays, schema=pa.schema(fields, metadata=self.schema.metadata))
        return as_record_batch(table) if self.batch else table


def as_record_batch(table: Any) -> Any:
    """Return a pyarrow Table as one RecordBatch."""
    import pyarrow as pa

    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _enter_arrow(X: Any) -> tuple[pl.DataFrame, Exit]:
    import pyarrow as pa

    refuse_duplicates(X.schema.names)
    columns = []
    for field in X.schema:
        if pa.types.is_decimal256(field.type):  # polars would panic
            refuse_unsupported(field.name, pl.Object())
        array = X.column(field.name)
        if pa.types.is_dictionary(field.type) and not _is_text(field.type.value_type):
            array = array.cast(field.type.value_type)
        series = pl.Series(field.name, array)
        refuse_unsupported(field.name, series.dtype)
        columns.append(series)
    frame = frame_of(columns)
    return frame, _ArrowExit(X.schema, dict(frame.schema), type(X).__name__ == "RecordBatch")


def _cast_arrow(array: Any, wanted: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_dictionary(wanted):
        plain = array.cast(wanted.value_type)
        encoded = plain.dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            encoded.indices.cast(wanted.index_type), encoded.dictionary, ordered=wanted.ordered
        )
    return array.cast(wanted)


def _is_text(arrow_type: Any) -> bool:
    import pyarrow as pa

    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_kind(arrow_type) for is_kind in kinds)
