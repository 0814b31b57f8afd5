"""Values that JSON can hold, JSON of strangers, and columns as text inside of it."""

from __future__ import annotations

import base64
import io
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

    Raises a plain ValueError for whatever is wrong with it: brackets nested by the thousand and
    numbers of thousands of digits included.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def series_to_text(series: pl.Series) -> str:
    """Return a column with its exact type as text."""
    buffer = io.BytesIO()
    series.to_frame().write_ipc(buffer)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def series_from_text(text: str) -> pl.Series:
    """Return the column that :func:`series_to_text` wrote."""
    import polars as pl

    return pl.read_ipc(io.BytesIO(base64.b64decode(text))).to_series(0)
