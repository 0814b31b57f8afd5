"""Shared names of array and path types, each defined once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Integers = NDArray[np.integer]
Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]
FilePath = str | os.PathLike[str]
# a table that goes out as it came in; lists come back as arrays
Container = TypeVar(
    "Container", bound="pl.DataFrame | pd.DataFrame | pa.Table | NDArray[np.generic]"
)
