"""From records and lengths to zero-padded sketches; only non-zero entries cost work."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tulle.keys import SecretKey
from tulle.sketch._signs import Points, coefficients, sign_table

_WORK_FOR_KERNEL = 1e8  # additions from which the compiled path pays for its start
_TABLE = 1 << 24  # signs held at once


def build(matrix: Any, points: Points, lengths: Any, key: SecretKey) -> npt.NDArray[Any]:
    """The first ``lengths[i]`` components of each record, zeros after them."""
    width = max(1, int(lengths.max(initial=0)))
    values = np.zeros((matrix.shape[0], width), matrix.dtype)
    occurring = np.flatnonzero(np.bincount(matrix.indices, minlength=matrix.shape[1]))
    if not len(occurring):
        return values
    column_of = np.zeros(matrix.shape[1], np.int32)
    column_of[occurring] = np.arange(len(occurring), dtype=np.int32)
    columns = column_of[matrix.indices]
    work = float(np.diff(matrix.indptr) @ lengths)
    add = _add_by_scipy if work < _WORK_FOR_KERNEL else _add_by_kernel
    step = int(np.clip(_TABLE // len(occurring), 8, 256))
    for first in range(0, width, step):
        polynomials = coefficients(key, first, min(first + step, width))
        table = sign_table(polynomials, points[occurring])
        add(matrix.indptr, columns, matrix.data, table, lengths, first, values)
    return values


def _add_by_scipy(
    indptr: Any, columns: Any, data: Any, table: Any, lengths: Any, first: int, out: Any
) -> None:
    from scipy.sparse import csr_array

    rows = csr_array((data, columns, indptr), shape=(len(lengths), len(table)))
    part = rows @ table.astype(data.dtype)
    components = np.arange(first, first + table.shape[1])
    part[components >= lengths[:, None]] = 0
    out[:, first : first + table.shape[1]] = part


def _add_by_kernel(
    indptr: Any, columns: Any, data: Any, table: Any, lengths: Any, first: int, out: Any
) -> None:
    from tulle.sketch._kernels import add_signs

    add_signs(indptr.astype(np.int64), columns, data, table, lengths, first, out)
