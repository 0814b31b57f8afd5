"""Values that JSON can hold, JSON of strangers, and columns as text inside of it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl


def plain(value: Any) -> Any:
    """Return a value as JSON knows it: plain numbers and lists, and None for NaN and infinity.

    >>> plain({"loss": float("nan"), "sizes": (1, 2)})
    {'loss': None, 'sizes': [1, 2]}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):  # an array or a number of NumPy
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(text: str | bytes) -> Any:
    """Return what a text says that anybody may have written.

    Raises a plain ValueError for whatever is wrong with it: brackets nested by the thousand,
    numbers of thousands of digits, and a name given twice, of which readers see different values.
    """
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is given twice")
    return found


# Columns and their types. Values are plain JSON, so a file holds no more than its size says:
# Arrow IPC may be compressed, and a few bytes of it unfold into gigabytes.

_SIMPLE = (
    "Boolean", "Int8", "Int16", "Int32", "Int64", "Int128", "UInt8", "UInt16", "UInt32", "UInt64",
    "Float32", "Float64", "String", "Categorical", "Date", "Time", "Null", "Binary",
)  # fmt: skip


def dtype_to_json(dtype: pl.DataType) -> Any:
    """Return a type of polars: its name, or its name and what it is made of."""
    import polars as pl

    name = type(dtype).__name__
    if isinstance(dtype, pl.Datetime):
        return [name, dtype.time_unit, dtype.time_zone]
    if isinstance(dtype, pl.Duration):
        return [name, dtype.time_unit]
    if isinstance(dtype, pl.Decimal):
        return [name, dtype.precision, dtype.scale]
    if isinstance(dtype, pl.Enum):
        return [name, dtype.categories.to_list()]
    if isinstance(dtype, pl.List):
        return [name, dtype_to_json(_made(dtype.inner))]
    if name not in _SIMPLE:
        raise ValueError(f"columns of type {name} cannot be saved")
    return name


def dtype_from_json(entry: Any) -> pl.DataType:
    import polars as pl

    if isinstance(entry, str) and entry in _SIMPLE:
        found: pl.DataType = getattr(pl, entry)()
        return found
    name, *parts = entry
    if name == "List":
        return pl.List(dtype_from_json(*parts))
    if name not in ("Datetime", "Duration", "Decimal", "Enum"):
        raise ValueError
    made: pl.DataType = getattr(pl, name)(*parts)
    return made


def series_to_json(series: pl.Series) -> dict[str, Any]:
    """Return a column, with its name and its exact type."""
    import polars as pl

    dtype, values = series.dtype, series
    if dtype.is_temporal():
        values = series.to_physical()
    elif dtype.is_decimal() or dtype in (pl.Categorical, pl.Enum):
        values = series.cast(pl.String)
    return {"name": series.name, "type": dtype_to_json(dtype), "values": values.to_list()}


def series_from_json(entry: Mapping[str, Any]) -> pl.Series:
    import polars as pl

    name, dtype, values = entry["name"], dtype_from_json(entry["type"]), entry["values"]
    plain_type: pl.DataType = dtype
    if dtype.is_temporal():
        plain_type = pl.Int32() if dtype == pl.Date else pl.Int64()
    elif dtype.is_decimal() or dtype in (pl.Categorical, pl.Enum):
        plain_type = pl.String()
    return pl.Series(name, values, dtype=plain_type).cast(dtype)


def _made(dtype: Any) -> pl.DataType:
    """Return a type as an object: its class stands for the usual one."""
    made: pl.DataType = dtype() if isinstance(dtype, type) else dtype
    return made
