"""pandas tables to polars and back, column by column, without pyarrow."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle.errors import DataError, TulleError
from tulle.table._series import (
    frame_of,
    library_of,
    refuse_duplicates,
    refuse_extended,
    refuse_unsupported,
    with_nulls,
)

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
class PandasExit:
    labels: dict[str, Any]  # text name -> the label as it came (perhaps a number or a tuple)
    dtypes: dict[str, Any]
    types: dict[str, pl.DataType]
    nulls: dict[str, Any]  # what an object column writes for a missing value
    column_names: Any  # the names of the column index
    plain = False

    def leave(self, frame: pl.DataFrame) -> Any:
        import pandas as pd

        columns = [
            to_pandas(series, self.dtypes[series.name], self.nulls.get(series.name))
            if self._holds(series)
            else pd.Series(natural_pandas(series))
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


def enter_pandas(X: Any) -> tuple[pl.DataFrame, PandasExit]:
    refuse_duplicates(X.columns)
    columns = []
    nulls: dict[str, Any] = {}
    for place, label in enumerate(X.columns):
        name, series = str(label), X.iloc[:, place]
        columns.append(from_pandas(name, series))
        if series.dtype == np.dtype(object):
            missing = series[series.isna()]
            nulls[name] = null_of(missing.iloc[0] if len(missing) else None)
    labels = {str(label): label for label in X.columns}
    dtypes = {str(label): X.dtypes.iloc[place] for place, label in enumerate(X.columns)}
    frame = frame_of(columns)
    return frame, PandasExit(labels, dtypes, dict(frame.schema), nulls, list(X.columns.names))


def from_pandas(name: str, series: Any) -> pl.Series:
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        refuse_extended(name, dtype)
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
    refuse_unsupported(name, column.dtype)
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
    """Return the zone's name if polars knows it; fixed offsets are UTC until the way back."""
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


def null_of(found: Any) -> Any:
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


def to_pandas(series: pl.Series, dtype: Any, null: Any) -> Any:
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


def natural_pandas(series: pl.Series) -> Any:
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


def keep_index(table: Any, X: Any) -> Any:
    """Return a table with the index of ``X``, where both have one: the rows are the same."""
    if library_of(X) == "pandas":
        table.index = X.index
    return table
