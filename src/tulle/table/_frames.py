"""Any table in, the same kind out.

:func:`enter` makes a polars frame of a pandas or polars DataFrame, a pyarrow Table or RecordBatch,
a NumPy array or a list of rows. The :class:`Exit` that comes with it puts other frames of such
columns (not the rows: those are synthesized) back into that kind of table, with its names, order
and types. Missing values stay what they were: null, or NaN. pandas needs no pyarrow for this.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle.errors import DataError, TulleError

_UNSUPPORTED = ("Binary", "Object", "Unknown", "Int128", "UInt128")
_ACCEPTED = "a pandas or polars DataFrame, a pyarrow Table, a 2-D NumPy array or a list of rows"


class Exit(Protocol):
    """Remembers what kind of table came in, but none of its rows.

    The types of categories hold values of the data: what leaves of an exit is what it makes.
    """

    @property
    def plain(self) -> bool:
        """Return whether the input was an array or a list: no names, and numbers of no declared
        precision.
        """
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
    family, kind = _family(y), type(y).__name__
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


def frame_of(columns: Sequence[pl.Series]) -> pl.DataFrame:
    """Return a frame of some columns, of which one may have no name."""
    frame = pl.DataFrame(columns)
    if not all(series.name for series in columns):  # polars would make one up
        frame.columns = [series.name for series in columns]
    return frame


def check_length(y: pl.Series, records: int) -> None:
    """Refuse a target that does not have one entry for each record."""
    if len(y) != records:
        raise DataError(
            f"y has {len(y)} entries, but X has {records} records: inconsistent numbers of samples"
        )


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name for one more column, which no other has."""
    while name in taken:
        name = f"{name} (target)"
    return name


def keep_index(table: Any, X: Any) -> Any:
    """Return a table with the index of ``X``, where both have one: the rows are the same."""
    if _family(X) == "pandas":
        table.index = X.index
    return table


def to_polars(X: Any) -> pl.DataFrame:
    """Return any table as a polars DataFrame; one of polars as it is, whatever its types."""
    return X if isinstance(X, pl.DataFrame) else enter(X)[0]


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


def _family(X: Any) -> str:
    """Return the library that an object comes from, without importing any."""
    return type(X).__module__.partition(".")[0]


def _enter(X: Any) -> tuple[pl.DataFrame, Exit]:
    family, kind = _family(X), type(X).__name__
    if family == "pandas" and kind == "DataFrame":
        return _enter_pandas(X)
    if family == "polars" and kind == "DataFrame":
        for name, dtype in zip(X.columns, X.dtypes):
            _refuse_unsupported(name, dtype)
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


def _refuse_unsupported(name: str, dtype: Any) -> None:
    """Refuse column types that do not hold one single value per row."""
    if dtype.is_nested() or str(dtype).partition("(")[0] in _UNSUPPORTED:
        raise DataError(
            f"column '{name}' has type {dtype}, which is not supported: split it into plain "
            "columns (numbers, text, categories, dates) or leave it out"
        )


def _refuse_extended(name: str, dtype: np.dtype[Any]) -> None:
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


def _refuse_duplicates(names: Iterable[Any]) -> None:
    """Refuse tables in which a column name is not unique."""
    seen: set[str] = set()
    for name in map(str, names):
        if name in seen:
            raise DataError(f"the column name '{name}' appears more than once: rename one")
        seen.add(name)


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
        """Return the type of the array, wider if it came for part of the data only: a stream's
        begin.
        """
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
    _refuse_extended("x0", X.dtype)
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
    _refuse_unsupported(name, series.dtype)
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

    _refuse_duplicates(X.schema.names)
    columns = []
    for field in X.schema:
        if pa.types.is_decimal256(field.type):  # polars would panic
            _refuse_unsupported(field.name, pl.Object())
        array = X.column(field.name)
        if pa.types.is_dictionary(field.type) and not _is_text(field.type.value_type):
            array = array.cast(field.type.value_type)
        series = pl.Series(field.name, array)
        _refuse_unsupported(field.name, series.dtype)
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


# pandas tables, column by column, without pyarrow.

_OBJECT_KINDS: dict[str, Any] = {
    "string": pl.String,
    "boolean": pl.Boolean,
    "integer": pl.Int64,
    "date": pl.Date,
    "datetime": pl.Datetime("us"),
    "time": pl.Time,
    "timedelta": pl.Duration("us"),
    "decimal": None,  # polars finds the scale
    "empty": pl.Null,
}


@dataclass(frozen=True, repr=False)
class _PandasExit:
    labels: dict[str, Any]  # text name -> the label as it came (perhaps a number or a tuple)
    dtypes: dict[str, Any]
    types: dict[str, pl.DataType]
    nulls: dict[str, Any]  # what an object column writes for a missing value
    column_names: Any  # the names of the column index
    plain = False

    def leave(self, frame: pl.DataFrame) -> Any:
        import pandas as pd

        columns = [
            _to_pandas(series, self.dtypes[series.name], self.nulls.get(series.name))
            if self._holds(series)
            else pd.Series(_natural_pandas(series))
            for series in frame
        ]
        table = pd.concat(columns, axis=1) if columns else pd.DataFrame()
        labels = [self.labels.get(name, name) for name in frame.columns]
        if all(isinstance(label, tuple) for label in labels) and labels:
            table.columns = pd.MultiIndex.from_tuples(labels, names=self.column_names)
        else:
            table.columns = pd.Index(labels, name=self.column_names[0])
        return table

    def _holds(self, series: pl.Series) -> bool:
        """Return whether a column has its original type, and no null that this type cannot hold."""
        dtype = self.dtypes.get(series.name)
        simple = isinstance(dtype, np.dtype) and dtype.kind in "biu"
        same = self.types.get(series.name) == series.dtype
        return same and not (simple and series.null_count())


def _enter_pandas(X: Any) -> tuple[pl.DataFrame, Exit]:
    _refuse_duplicates(X.columns)
    columns = []
    nulls: dict[str, Any] = {}
    for place, label in enumerate(X.columns):
        name, series = str(label), X.iloc[:, place]
        columns.append(_from_pandas(name, series))
        if series.dtype == np.dtype(object):
            missing = series[series.isna()]
            nulls[name] = _null_of(missing.iloc[0] if len(missing) else None)
    labels = {str(label): label for label in X.columns}
    dtypes = {str(label): X.dtypes.iloc[place] for place, label in enumerate(X.columns)}
    frame = frame_of(columns)
    return frame, _PandasExit(labels, dtypes, dict(frame.schema), nulls, list(X.columns.names))


def _from_pandas(name: str, series: Any) -> pl.Series:
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        _refuse_extended(name, dtype)
        return pl.Series(name, series.to_numpy(copy=True))  # polars shares the memory
    convert = _converter(dtype)
    if convert is None:
        raise DataError(
            f"column '{name}' has type {dtype}, which is not supported: convert it with "
            ".astype(...) to numbers, text, categories or dates, or leave it out"
        )
    try:
        column = convert(name, series)
    except TulleError:
        raise
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        raise _mixture(name) from None  # whose words quote a cell
    _refuse_unsupported(name, column.dtype)
    return column


def _converter(dtype: Any) -> Callable[[str, Any], pl.Series] | None:
    import pandas as pd

    if isinstance(dtype, pd.CategoricalDtype):
        return _from_categorical
    if isinstance(dtype, pd.ArrowDtype):
        return _from_arrow
    if isinstance(dtype, pd.StringDtype) or dtype == np.dtype(object):
        return _from_objects
    if isinstance(dtype, pd.DatetimeTZDtype) or getattr(dtype, "kind", "") in ("M", "m"):
        return _from_times
    if type(dtype).__module__.startswith("pandas.core.arrays") and dtype.kind in "biuf":
        return _from_nullable
    return None


def _from_nullable(name: str, series: Any) -> pl.Series:
    plain = series.dtype.numpy_dtype
    empty = series.isna().to_numpy()
    values = series.array.to_numpy(dtype=plain, na_value=plain.type(0), copy=True)
    return with_nulls(pl.Series(name, values), empty)


def _from_categorical(name: str, series: Any) -> pl.Series:
    words = [str(category) for category in series.dtype.categories]
    if len(set(words)) < len(words):
        raise DataError(
            f"column '{name}' has categories that differ in type but look alike as text: convert "
            "the column to text first"
        )
    codes = series.cat.codes.to_numpy().astype(np.int64)
    domain = pl.Series(name, words, dtype=pl.String)
    picked = domain.gather(with_nulls(pl.Series(codes), codes < 0))
    return picked.cast(pl.Enum(words))


def _from_arrow(name: str, series: Any) -> pl.Series:
    import pyarrow as pa

    array = pa.array(series)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
        return pl.Series(name, array).cast(pl.Categorical)
    return pl.Series(name, array)


def _from_times(name: str, series: Any) -> pl.Series:
    dtype = series.dtype
    unit: Any = getattr(dtype, "unit", None) or np.datetime_data(dtype)[0]
    empty = series.isna().to_numpy()
    ticks = np.array(series.astype("int64")) if not empty.any() else _ticks(series, empty)
    if unit == "s":
        unit, ticks = "ms", ticks * 1000
    if dtype.kind == "m":
        kind: Any = pl.Duration(unit)
    else:
        kind = pl.Datetime(unit, _zone(getattr(dtype, "tz", None)))
    return with_nulls(pl.Series(name, ticks), empty).cast(kind)


def _ticks(series: Any, empty: NDArray[np.bool_]) -> NDArray[np.int64]:
    values: NDArray[np.int64] = series.array.asi8.copy()
    values[empty] = 0
    return values


def _zone(zone: Any) -> str | None:
    """Return the zone's name if polars knows it; fixed offsets become UTC, the way back restores
    them.
    """
    from zoneinfo import available_timezones

    if zone is None:
        return None
    return str(zone) if str(zone) in available_timezones() else "UTC"


def _from_objects(name: str, series: Any) -> pl.Series:
    import pandas as pd

    kind = pd.api.types.infer_dtype(series, skipna=True)
    empty = series.isna().to_numpy()
    if kind in ("floating", "mixed-integer-float"):
        return pl.Series(name, series.mask(empty, np.nan).astype("float64").to_numpy())
    values = [None if is_empty else value for value, is_empty in zip(series, empty)]
    if kind not in _OBJECT_KINDS or _some_with_a_zone(values):
        raise _mixture(name)
    if any(getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0) for value in values):
        raise DataError(
            f"column '{name}' holds times finer than a microsecond as objects: convert it with "
            "pd.to_datetime or pd.to_timedelta"
        )
    return pl.Series(name, values, dtype=_OBJECT_KINDS[kind])


def _some_with_a_zone(values: list[Any]) -> bool:
    """Return whether some points in time have a time zone and others have none."""
    times = [value for value in values if isinstance(value, datetime.datetime)]
    return len({value.tzinfo is None for value in times}) > 1


def _null_of(found: Any) -> Any:
    """Return the word for missing that a column of objects uses."""
    import pandas as pd

    known = found is None or found is pd.NA or found is pd.NaT
    return found if known else np.nan


def _mixture(name: str) -> DataError:
    return DataError(
        f"column '{name}' mixes values of several types, or holds values that neither a 64-bit "
        "type nor text can hold: each column's argument must be a string, a number, a date or "
        "missing"
    )


def _to_pandas(series: pl.Series, dtype: Any, null: Any) -> Any:
    import pandas as pd

    if isinstance(dtype, pd.ArrowDtype):
        return pd.Series(pd.array(series.to_arrow().to_pylist(), dtype=dtype))
    if isinstance(dtype, pd.CategoricalDtype):
        codes = series.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        return pd.Series(pd.Categorical.from_codes(codes, dtype=dtype))
    if isinstance(dtype, pd.DatetimeTZDtype) or getattr(dtype, "kind", "") in ("M", "m"):
        return _to_times(series, dtype)
    if dtype == np.dtype(object):
        values = [null if value is None or value != value else value for value in series.to_list()]
        return pd.Series(values, dtype=object)
    if isinstance(dtype, np.dtype):
        return pd.Series(series.to_numpy(), dtype=dtype)
    return pd.Series(pd.array(series.to_list(), dtype=dtype))


def _to_times(series: pl.Series, dtype: Any) -> Any:
    import pandas as pd

    unit = series.dtype.time_unit  # type: ignore[attr-defined]
    kind = "m" if dtype.kind == "m" else "M"
    ticks = series.to_physical().fill_null(np.iinfo(np.int64).min).to_numpy()
    times = pd.Series(ticks.view(f"{kind}8[{unit}]"))
    if isinstance(dtype, pd.DatetimeTZDtype):
        times = times.dt.tz_localize("UTC")
    return times.astype(dtype)


def _natural_pandas(series: pl.Series) -> Any:
    """Return a column as pandas likes it; no pyarrow needed."""
    import pandas as pd

    if series.dtype == pl.String or isinstance(series.dtype, pl.Categorical | pl.Enum):
        return np.array(series.cast(pl.String).to_list() or [], dtype=object)
    if series.dtype.is_integer() and series.null_count():
        return pd.array(series.to_list(), dtype="Int64")
    if series.dtype == pl.Boolean and series.null_count():
        return pd.array(series.to_list(), dtype="boolean")
    if series.dtype in (pl.Date, pl.Time):
        return np.array(series.to_list() or [], dtype=object)
    if isinstance(series.dtype, pl.Datetime) and series.dtype.time_zone:
        naive = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_numpy()
        return pd.Series(naive).dt.tz_localize("UTC").dt.tz_convert(series.dtype.time_zone)
    return series.to_numpy()
