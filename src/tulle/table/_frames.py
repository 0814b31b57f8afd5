"""Any table in, the same kind out.

pandas, polars and pyarrow tables, NumPy arrays and lists of rows open into named columns: a NumPy
array where the values are plain numbers or truth values, a polars Series for everything else. The
container that comes with the columns puts others like them (not the rows: those are released
anew) back into the kind of table that came in, with its names, order and types. pandas needs no
pyarrow for this.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from tulle.errors import DataError, TulleError

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

    return isinstance(container, ArrayTable | RowList)


def _family(X: Any) -> str:
    """The library that an object comes from, without importing any."""
    return type(X).__module__.partition(".")[0]


def _open(X: Any) -> tuple[Columns, Container]:

    family, kind = _family(X), type(X).__name__
    if family == "pandas" and kind == "DataFrame":
        return open_pandas(X)
    if family == "polars" and kind == "DataFrame":
        return _open_polars(X)
    if family == "pyarrow" and kind in ("Table", "RecordBatch"):
        return open_arrow(X)
    if isinstance(X, list | tuple):
        return open_rows(X)
    if kind == "LazyFrame":
        raise DataError("the table is lazy: call .collect() first")
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise DataError("sparse data is not supported: pass X.toarray(), or use a Sketcher")
    if hasattr(X, "__array__"):
        masked = isinstance(X, np.ma.MaskedArray)
        return open_array(X if masked else np.asarray(X))
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


# NumPy arrays and lists of rows, whose columns have no names.


@dataclass(frozen=True)
class ArrayTable:
    dtype: np.dtype[Any]

    def restore(self, columns: Mapping[str, Cells]) -> NDArray[Any]:
        rows = len(next(iter(columns.values()))) if columns else 0
        # an array is kept by column or by row, as it comes: rows are what most readers want
        array = np.empty((rows, len(columns)), dtype=self._holding(columns))
        for place, cells in enumerate(columns.values()):
            if self.dtype == object and not isinstance(cells, np.ndarray):
                array[:, place] = cells.to_list()
            else:
                array[:, place] = np.asarray(cells)
        return array

    def _holding(self, columns: Mapping[str, Cells]) -> np.dtype[Any]:
        """The type of the array, wider if it came for part of the data only: a stream's begin."""
        if self.dtype.kind == "U":
            longest = [cells.str.len_chars().max() or 1 for cells in columns.values()]
            return np.dtype(f"U{max(self.dtype.itemsize // 4, *longest)}")
        if self.dtype.kind in "biuf":
            return np.result_type(self.dtype, *(cells.dtype for cells in columns.values()))
        return self.dtype


@dataclass(frozen=True)
class RowList:
    array: Container

    def restore(self, columns: Mapping[str, Cells]) -> list[list[Any]]:
        rows: list[list[Any]] = self.array.restore(columns).tolist()
        return rows


def open_array(X: NDArray[Any]) -> tuple[Columns, Container]:
    """The columns of a 2-D array (x0, x1, ...), and the way back."""
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
    columns: Columns = {f"x{place}": X[:, place] for place in range(X.shape[1])}
    if X.dtype.kind not in "biuf":
        columns = {name: _infer(name, values) for name, values in columns.items()}
    return columns, ArrayTable(X.dtype)


def open_rows(X: Sequence[Any]) -> tuple[Columns, Container]:
    """The columns of a list of rows, and the way back."""
    columns, container = open_array(_rows_to_array(X))
    return columns, RowList(container)


def _infer(name: str, values: NDArray[Any]) -> Cells:
    """A column of objects, texts or time stamps as a Series of one type."""
    if values.dtype.kind in "mM":
        unit = np.datetime_data(values.dtype)[0]
        fine = unit if unit in ("D", "ms", "us", "ns") else "ms"
        return pl.Series(name, values.astype(f"{values.dtype.kind}8[{fine}]"))
    try:
        series = pl.Series(name, values.tolist(), strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        try:  # numbers of several types (1, 2.5): one array of numbers
            return values.astype(np.float64)
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


@dataclass(frozen=True)
class _Arrow:
    schema: Any
    batch: bool

    def restore(self, columns: Mapping[str, Cells]) -> Any:
        fields = [self.schema.field(name) for name in columns]
        arrays = [
            _cast_arrow(as_series(field.name, columns[field.name]).to_arrow(), field.type)
            for field in fields
        ]
        table = pa.table(arrays, schema=pa.schema(fields, metadata=self.schema.metadata))
        if not self.batch:
            return table
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def open_arrow(X: Any) -> tuple[Columns, Container]:
    """The columns of a pyarrow Table or RecordBatch, and the way back."""
    refuse_duplicates(X.schema.names)
    columns: Columns = {}
    for field in X.schema:
        if pa.types.is_decimal256(field.type):  # polars would panic
            refuse_unsupported(field.name, pl.Object())
        array = X.column(field.name)
        if pa.types.is_dictionary(field.type) and not _is_text(field.type.value_type):
            array = array.cast(field.type.value_type)
        series = pl.Series(field.name, array)
        refuse_unsupported(field.name, series.dtype)
        columns[field.name] = series
    return columns, _Arrow(X.schema, type(X).__name__ == "RecordBatch")


def _cast_arrow(array: Any, wanted: Any) -> Any:
    if pa.types.is_dictionary(wanted):
        plain = array.cast(wanted.value_type)
        encoded = plain.dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            encoded.indices.cast(wanted.index_type), encoded.dictionary, ordered=wanted.ordered
        )
    return array.cast(wanted)


def _is_text(arrow_type: Any) -> bool:
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


@dataclass(frozen=True)
class _Pandas:
    labels: dict[str, Any]  # text name -> the label as it came (perhaps a number or a tuple)
    dtypes: dict[str, Any]
    nulls: dict[str, Any]  # what an object column writes for a missing value
    column_names: Any  # the names of the column index

    def restore(self, columns: Mapping[str, Cells]) -> Any:
        import pandas as pd

        series = [
            _to_pandas(cells, self.dtypes[name], self.nulls.get(name))
            for name, cells in columns.items()
        ]
        frame = pd.concat(series, axis=1) if series else pd.DataFrame()
        labels = [self.labels[name] for name in columns]
        if all(isinstance(label, tuple) for label in labels) and labels:
            frame.columns = pd.MultiIndex.from_tuples(labels, names=self.column_names)
        else:
            frame.columns = pd.Index(labels, name=self.column_names[0])
        return frame


def open_pandas(X: Any) -> tuple[Columns, Container]:
    """The columns of a pandas DataFrame, and the way back."""
    refuse_duplicates(X.columns)
    columns: Columns = {}
    nulls: dict[str, Any] = {}
    for place, label in enumerate(X.columns):
        name, series = str(label), X.iloc[:, place]
        columns[name] = _from_pandas(name, series)
        if series.dtype == np.dtype(object):
            missing = series[series.isna()]
            nulls[name] = _null_of(missing.iloc[0] if len(missing) else None)
    labels = {str(label): label for label in X.columns}
    dtypes = {str(label): X.dtypes.iloc[place] for place, label in enumerate(X.columns)}
    return columns, _Pandas(labels, dtypes, nulls, list(X.columns.names))


def _from_pandas(name: str, series: Any) -> Cells:
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        refuse_extended(name, dtype)
        return series.to_numpy()
    convert = _converter(dtype)
    if convert is None:
        raise DataError(
            f"column '{name}' has type {dtype}, which is not supported: convert it with "
            ".astype(...) to numbers, text, categories or dates, or leave it out"
        )
    try:
        cells = convert(name, series)
    except TulleError:
        raise
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        raise _mixture(name) from None  # whose words quote a cell
    if isinstance(cells, pl.Series):
        refuse_unsupported(name, cells.dtype)
    return cells


def _converter(dtype: Any) -> Callable[[str, Any], Cells] | None:
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
    values = series.array.to_numpy(dtype=plain, na_value=plain.type(0))
    return _with_nulls(pl.Series(name, values), empty)


def _from_categorical(name: str, series: Any) -> pl.Series:
    words = [str(category) for category in series.dtype.categories]
    if len(set(words)) < len(words):
        raise DataError(
            f"column '{name}' has categories that differ in type but read alike: "
            "convert the column to text first"
        )
    codes = series.cat.codes.to_numpy().astype(np.int64)
    domain = pl.Series(name, words, dtype=pl.String)
    picked = domain.gather(_with_nulls(pl.Series(codes), codes < 0))
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
    ticks = series.astype("int64").to_numpy() if not empty.any() else _ticks(series, empty)
    if unit == "s":
        unit, ticks = "ms", ticks * 1000
    if dtype.kind == "m":
        kind: Any = pl.Duration(unit)
    else:
        kind = pl.Datetime(unit, _zone(getattr(dtype, "tz", None)))
    return _with_nulls(pl.Series(name, ticks), empty).cast(kind)


def _ticks(series: Any, empty: NDArray[np.bool_]) -> NDArray[np.int64]:
    values: NDArray[np.int64] = series.array.asi8.copy()
    values[empty] = 0
    return values


def _zone(zone: Any) -> str | None:
    """The zone's name if polars knows it; fixed offsets become UTC, the way back restores them."""
    from zoneinfo import available_timezones

    if zone is None:
        return None
    return str(zone) if str(zone) in available_timezones() else "UTC"


def _from_objects(name: str, series: Any) -> Cells:
    import pandas as pd

    kind = pd.api.types.infer_dtype(series, skipna=True)
    empty = series.isna().to_numpy()
    if kind in ("floating", "mixed-integer-float"):
        return series.mask(empty, np.nan).astype("float64").to_numpy()
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
    """Whether some points in time have a time zone and others have none."""
    times = [value for value in values if isinstance(value, datetime.datetime)]
    return len({value.tzinfo is None for value in times}) > 1


def _null_of(found: Any) -> Any:
    """The word for missing that a column of objects uses."""
    import pandas as pd

    known = found is None or found is pd.NA or found is pd.NaT
    return found if known else np.nan


def _mixture(name: str) -> DataError:
    return DataError(
        f"column '{name}' mixes values of several types, or holds some that no type of 64 bits or "
        "text does: each column's argument must be a string, a number, a date or missing"
    )


def _with_nulls(series: pl.Series, empty: NDArray[np.bool_]) -> pl.Series:
    if not empty.any():
        return series
    return series.zip_with(pl.Series(~empty), pl.Series([None], dtype=series.dtype))


def _to_pandas(cells: Cells, dtype: Any, null: Any) -> Any:
    import pandas as pd

    if isinstance(cells, np.ndarray) and dtype == np.dtype(object):
        return pd.Series([null if cell != cell else cell for cell in cells.tolist()], dtype=object)
    if isinstance(cells, np.ndarray):
        return pd.Series(cells, dtype=dtype)
    series = as_series("", cells)
    if isinstance(dtype, pd.ArrowDtype):
        return pd.Series(pd.array(series.to_arrow().to_pylist(), dtype=dtype))
    if isinstance(dtype, pd.CategoricalDtype):
        codes = series.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        return pd.Series(pd.Categorical.from_codes(codes, dtype=dtype))
    if isinstance(dtype, pd.DatetimeTZDtype) or getattr(dtype, "kind", "") in ("M", "m"):
        return _to_times(series, dtype)
    if dtype == np.dtype(object):
        values = [null if value is None else value for value in series.to_list()]
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
