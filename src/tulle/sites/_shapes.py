"""The same kind of table out as came in, index and types kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from tulle.errors import DataError
from tulle.table._frames import Exit, as_record_batch, enter


@dataclass(frozen=True, repr=False)
class Shape:
    """What kind of table a site works with: its types, none of its rows."""

    example: str = ""
    exit: Exit | None = None
    dtypes: dict[str, Any] = field(default_factory=dict)

    def fits(self, kind: str, frame: pl.DataFrame) -> bool:
        """Whether decoded columns can be put back exactly as they came."""
        return (
            self.exit is not None
            and self.example == kind
            and all(self.dtypes.get(name) == dtype for name, dtype in frame.schema.items())
        )


def named_columns(
    X: Any, agreed: Sequence[str], given: Sequence[str] | None = None
) -> list[pl.Series]:
    """The columns of a table, under the names given for them, if any.

    Arrays and lists have no names: without given ones they must have the agreed columns, all of
    them and in that order, as ``transform`` gives them.
    """
    frame, exit = enter(X)
    if given is None and not exit.plain:
        return list(frame)
    names = agreed if given is None else given
    if len(names) != frame.width:
        raise DataError(
            f"the table has {frame.width} columns, and the names of {len(names)} are known: name "
            "its columns, or pass a frame"
        )
    return [column.alias(name) for column, name in zip(frame, names)]


def kind_of_table(X: Any) -> str:
    """The library and class of a table."""
    return f"{type(X).__module__.partition('.')[0]}.{type(X).__name__}"


def rebuild(X: Any, frame: pl.DataFrame, shape: Shape | None = None) -> Any:
    """A polars frame as the kind of table that X is; exactly as before if ``shape`` knows how."""
    kind = kind_of_table(X)
    if kind == "polars.DataFrame":
        return frame
    if shape is not None and shape.exit is not None and shape.fits(kind, frame):
        restored = shape.exit.leave(frame)
    elif kind.startswith("pyarrow."):
        restored = frame.to_arrow()
    elif kind.startswith("pandas."):
        restored = _to_pandas(frame)
    else:
        restored = _to_array(frame)
        return restored.tolist() if isinstance(X, list | tuple) else restored
    if kind == "pandas.DataFrame":
        labels = {str(label): label for label in X.columns}
        if not any(isinstance(label, tuple) for label in X.columns):
            restored.columns = [labels.get(name, name) for name in restored.columns]
        restored.index = X.index
    if kind == "pyarrow.RecordBatch" and hasattr(restored, "combine_chunks"):
        return as_record_batch(restored)
    return restored


def _to_pandas(frame: pl.DataFrame) -> Any:
    import pandas as pd

    return pd.DataFrame({series.name: _cells(series) for series in frame})


def _to_array(frame: pl.DataFrame) -> Any:
    if all(dtype.is_float() for dtype in frame.dtypes):
        return frame.to_numpy()
    cells = np.empty(frame.shape, dtype=object)
    for place, series in enumerate(frame):
        cells[:, place] = series.to_list()
    return cells


def _cells(series: pl.Series) -> Any:
    """One column as pandas likes it: no pyarrow needed."""
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
