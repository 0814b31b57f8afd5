"""NumPy arrays and lists of rows, whose columns have no names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle.errors import DataError
from tulle.tables.frames import Cells, Columns, Container, refuse_extended, refuse_unsupported


@dataclass(frozen=True)
class ArrayTable:
    dtype: np.dtype[Any]

    def restore(self, columns: Mapping[str, Cells]) -> NDArray[Any]:
        rows = len(next(iter(columns.values()))) if columns else 0
        # an array is kept by column or by row, as it comes: rows are what most readers want
        array = np.empty((rows, len(columns)), dtype=self._holding(columns))
        for place, cells in enumerate(columns.values()):
            if self.dtype == object and not isinstance(cells, np.ndarray):
                array[:, place] = cells.to_list()
            else:
                array[:, place] = np.asarray(cells)
        return array

    def _holding(self, columns: Mapping[str, Cells]) -> np.dtype[Any]:
        """The type of the array, wider if it came for part of the data only: a stream's begin."""
        if self.dtype.kind == "U":
            longest = [cells.str.len_chars().max() or 1 for cells in columns.values()]
            return np.dtype(f"U{max(self.dtype.itemsize // 4, *longest)}")
        if self.dtype.kind in "biuf":
            return np.result_type(self.dtype, *(cells.dtype for cells in columns.values()))
        return self.dtype


@dataclass(frozen=True)
class RowList:
    array: Container

    def restore(self, columns: Mapping[str, Cells]) -> list[list[Any]]:
        rows: list[list[Any]] = self.array.restore(columns).tolist()
        return rows


def open_array(X: NDArray[Any]) -> tuple[Columns, Container]:
    """The columns of a 2-D array (x0, x1, ...), and the way back."""
    if isinstance(X, np.ma.MaskedArray):
        raise DataError("masked arrays are not supported: use NaN for missing values")
    if X.dtype.names is not None or X.dtype.kind in "VS":
        raise DataError("structured and bytes arrays are not supported: pass a DataFrame")
    if X.dtype.kind == "c":
        raise DataError("Complex data not supported: pass real and imaginary parts as columns")
    refuse_extended("x0", X.dtype)
    if X.ndim != 2:
        raise DataError(
            f"Expected a 2-D array, got {X.ndim} dimension(s). Reshape your data: "
            "X.reshape(-1, 1) if it has one column, X.reshape(1, -1) if it is one record."
        )
    columns: Columns = {f"x{place}": X[:, place] for place in range(X.shape[1])}
    if X.dtype.kind not in "biuf":
        columns = {name: _infer(name, values) for name, values in columns.items()}
    return columns, ArrayTable(X.dtype)


def open_rows(X: Sequence[Any]) -> tuple[Columns, Container]:
    """The columns of a list of rows, and the way back."""
    columns, container = open_array(_rows_to_array(X))
    return columns, RowList(container)


def _infer(name: str, values: NDArray[Any]) -> Cells:
    """A column of objects, texts or time stamps as a Series of one type."""
    if values.dtype.kind in "mM":
        unit = np.datetime_data(values.dtype)[0]
        fine = unit if unit in ("D", "ms", "us", "ns") else "ms"
        return pl.Series(name, values.astype(f"{values.dtype.kind}8[{fine}]"))
    try:
        series = pl.Series(name, values.tolist(), strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        try:  # numbers of several types (1, 2.5): one array of numbers
            return values.astype(np.float64)
        except (TypeError, ValueError):
            raise DataError(
                f"column '{name}' mixes values of several types: each column's argument must "
                "be a string, a number, a date or missing"
            ) from None
    refuse_unsupported(name, series.dtype)
    return series


def _rows_to_array(X: Sequence[Any]) -> NDArray[Any]:
    try:
        array = np.array(X)
        if array.dtype.kind not in "biuf":
            array = np.array(X, dtype=object)
    except ValueError:
        raise DataError("the rows of the list differ in length") from None
    if array.ndim == 2 and array.dtype.kind == "f":
        # columns of whole numbers stay whole where the array as a whole could not
        mixed = np.array(X, dtype=object)
        return mixed if any(isinstance(value, int) for value in mixed.flat) else array
    return array
