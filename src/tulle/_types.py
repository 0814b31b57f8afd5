"""Shared names of array and path types, each defined once."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Integers = NDArray[np.integer]
Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]
FilePath = str | os.PathLike[str]
