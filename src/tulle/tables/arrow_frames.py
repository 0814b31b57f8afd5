"""pyarrow tables and record batches, schema and all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from tulle.tables.frames import (
    Cells,
    Columns,
    Container,
    as_series,
    refuse_duplicates,
    refuse_unsupported,
)


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
