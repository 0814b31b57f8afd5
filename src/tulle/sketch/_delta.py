"""delta-anonymity: the number of components of a record, from the record alone.

The estimate of attribute k from r components has variance (|x|² - x_k²) / r, which must be delta
or more for every k: r is the *largest* whole number that allows it (the printed 'smallest' would
always be 1). A record with one non-zero entry has variance 0 and no r at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Lengths = npt.NDArray[np.int64]


def spread(matrix: Any) -> npt.NDArray[np.float64]:
    """min over k of |x|² - x_k², summed without the largest entry, so that nothing cancels."""
    squares = matrix.data.astype(np.float64) ** 2
    starts = matrix.indptr[:-1][np.diff(matrix.indptr) > 0]
    result = np.zeros(matrix.shape[0])
    if len(starts) == 0:
        return result
    largest = np.maximum.reduceat(squares, starts)
    counts = np.diff(matrix.indptr)
    row_of = np.repeat(np.arange(len(starts)), counts[counts > 0])
    at_top = np.flatnonzero(squares == largest[row_of])
    first_of_row = at_top[np.unique(row_of[at_top], return_index=True)[1]]
    squares[first_of_row] = 0.0
    result[counts > 0] = np.add.reduceat(squares, starts)
    return result


def delta_lengths(matrix: Any, delta: float, max_components: int) -> Lengths:
    """Components of each record; 0 means that the record must be suppressed."""
    room = spread(matrix)
    lengths = np.minimum(np.floor(room / delta), max_components).astype(np.int64)
    # division rounds: the promise is (room / r >= delta), so it is tested as it stands
    broken = (lengths > 0) & (room < lengths * delta)
    return lengths - broken


def broken_records(matrix: Any, lengths: Lengths, delta: float) -> int:
    """How many records with these lengths break the promise."""
    return int(np.sum((lengths > 0) & (spread(matrix) < lengths * delta)))
