"""Values that JSON can hold, and columns as text inside of it."""

from __future__ import annotations

import base64
import io
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


def series_to_text(series: pl.Series) -> str:
    """Return a column with its exact type as text."""
    buffer = io.BytesIO()
    series.to_frame().write_ipc(buffer)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def series_from_text(text: str) -> pl.Series:
    """Return the column that :func:`series_to_text` wrote."""
    import polars as pl

    return pl.read_ipc(io.BytesIO(base64.b64decode(text))).to_series(0)
