"""A fitted encoder as JSON, for states that outlive a process.

Numbers are written so that they read back bit by bit; types and domains of columns as Arrow IPC.
No row is in it, but the range and the domain of each column are: it is for the owner of the data.
"""

from __future__ import annotations

import base64
import io
from dataclasses import fields
from typing import Any

import numpy as np
import polars as pl

from tulle.errors import DataError
from tulle.tables.array_frames import ArrayTable, RowList
from tulle.tables.categories import BooleanCodec, CategoryCodec
from tulle.tables.encoder import TableEncoder
from tulle.tables.frames import Container, PolarsTable
from tulle.tables.numbers import NumberCodec
from tulle.tables.schema import Column, Kind, Role

_CODECS: dict[str, type[Any]] = {
    codec.__name__: codec for codec in (NumberCodec, CategoryCodec, BooleanCodec)
}


def encoder_to_json(encoder: TableEncoder) -> dict[str, Any]:
    """Everything that encoding and decoding need, as plain JSON values."""
    return {
        "names": encoder._names,
        "container": _container_to_json(encoder._container),
        "codecs": [
            {"codec": type(codec).__name__}
            | {part.name: _to_json(getattr(codec, part.name)) for part in fields(codec)}  # type: ignore[arg-type]
            for codec in encoder._codecs
        ],
        "columns": [
            [column.name, column.kind.value, column.role.value, column.weight, column.bounds]
            for column in encoder.columns_
        ],
    }


def encoder_from_json(entries: dict[str, Any]) -> TableEncoder:
    """The encoder again; tables come back as polars frames, arrays as arrays."""
    encoder = TableEncoder()
    try:
        codecs = [_codec_from_json(codec) for codec in entries["codecs"]]
        columns = {
            name: Column(name, Kind(kind), Role(role), weight, tuple(bounds) if bounds else None)
            for name, kind, role, weight, bounds in entries["columns"]
        }
        container = _container_from_json(entries["container"])
        encoder._store(entries["names"], container, codecs, columns)
    except (KeyError, TypeError, ValueError, AttributeError, pl.exceptions.PolarsError):
        # whose words may quote the domain of a column
        raise DataError("the saved encoder cannot be read: it is of another version") from None
    return encoder


def _codec_from_json(entries: dict[str, Any]) -> Any:
    kind = _CODECS[entries["codec"]]
    return kind(**{name: _from_json(value) for name, value in entries.items() if name != "codec"})


def _to_json(value: Any) -> Any:
    if isinstance(value, Kind):
        return {"kind": value.value}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return {"tuple": list(value)}
    if isinstance(value, np.dtype):
        return {"dtype": value.str}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": value.dtype.str}
    if isinstance(value, pl.Series):
        return {"series": _as_ipc(value)}
    if isinstance(value, pl.DataType) or (
        isinstance(value, type) and issubclass(value, pl.DataType)
    ):
        return {"type": _as_ipc(pl.Series("type", [], dtype=value))}
    return value


def _from_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "kind" in value:
        return Kind(value["kind"])
    if "tuple" in value:
        return tuple(value["tuple"])
    if "array" in value:
        return np.array(value["array"], dtype=value["dtype"])
    if "dtype" in value:
        return np.dtype(value["dtype"])
    if "series" in value:
        return _from_ipc(value["series"])
    return _from_ipc(value["type"]).dtype


def _as_ipc(series: pl.Series) -> str:
    buffer = io.BytesIO()
    series.to_frame().write_ipc(buffer)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _from_ipc(text: str) -> pl.Series:
    return pl.read_ipc(io.BytesIO(base64.b64decode(text))).to_series(0)


def _container_to_json(container: Container) -> dict[str, str]:
    if isinstance(container, RowList):
        return {"rows": _container_to_json(container.array)["array"]}
    return (
        {"array": container.dtype.str} if isinstance(container, ArrayTable) else {"frame": "polars"}
    )


def _container_from_json(entries: dict[str, str]) -> Container:
    if "array" in entries:
        return ArrayTable(np.dtype(entries["array"]))
    if "rows" in entries:
        return RowList(ArrayTable(np.dtype(entries["rows"])))
    return PolarsTable()
