"""pandas tables, column by column, without pyarrow."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle.errors import DataError, TulleError
from tulle.tables.frames import (
    Cells,
    Columns,
    Container,
    as_series,
    refuse_duplicates,
    refuse_extended,
    refuse_unsupported,
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
