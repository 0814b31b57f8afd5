"""Results in frames and series: cells, names and labels decoded, the kind kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tulle.sites.like import rebuild
from tulle.tables.frames import to_polars

Decode = Callable[..., Any]  # of anything, and of the name of the column that it stands in
Distinct = Callable[[Iterable[Any]], list[Any]]


def decode_frame(found: Any, decode: Decode, distinct: Distinct) -> Any:
    """A frame, series or index of pandas, polars or pyarrow; anything else of them as it is."""
    library, kind = type(found).__module__.partition(".")[0], type(found).__name__
    if library == "pandas":
        return _decode_pandas(found, decode, distinct)
    if kind == "Series":
        return _decode_series(found, decode)
    if not (hasattr(found, "columns") and hasattr(found, "shape")):
        return found
    import polars as pl

    frame = to_polars(found) if library == "pyarrow" else found
    decoded = [_decode_series(series, decode) for series in frame]
    names = distinct(frame.columns)
    return rebuild(found, pl.DataFrame([s.alias(n) for s, n in zip(decoded, names)]))


def _decode_series(series: Any, decode: Decode) -> Any:
    import polars as pl

    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype != pl.String and not series.dtype.is_nested():
        return series
    return pl.Series(series.name, [decode(cell, series.name) for cell in series.to_list()])


def _decode_pandas(found: Any, decode: Decode, distinct: Distinct) -> Any:
    import pandas as pd

    if isinstance(found, pd.Index):
        return found.map(decode) if _holds_text(found) else found
    if isinstance(found, pd.Series):
        cells = [decode(cell, found.name) for cell in found] if _holds_text(found) else found.array
        return pd.Series(_objects(cells), index=decode(found.index), name=found.name)
    if not isinstance(found, pd.DataFrame):
        return found
    decoded = found.copy()
    for place, name in enumerate(found.columns):
        if _holds_text(found.iloc[:, place]):
            cells = [decode(cell, name) for cell in found.iloc[:, place]]
            decoded.isetitem(place, _objects(cells))
    decoded.index = decode(found.index)
    if not isinstance(found.columns, pd.MultiIndex):
        decoded.columns = pd.Index(distinct(found.columns), name=found.columns.name)
    else:
        decoded.columns = decode(found.columns)
    return decoded


def _holds_text(values: Any) -> bool:
    return getattr(values, "nlevels", 1) > 1 or values.dtype.kind == "O"


def _objects(cells: Any) -> Any:
    if not isinstance(cells, list):
        return cells
    found = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        found[place] = cell
    return found
