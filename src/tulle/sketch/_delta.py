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
    counts = np.diff(matrix.indptr)
    result, filled = np.zeros(matrix.shape[0]), counts > 0
    starts = matrix.indptr[:-1][filled]
    if len(starts) == 0:
        return result
    largest = np.maximum.reduceat(squares, starts)
    at_top = np.flatnonzero(squares == np.repeat(largest, counts[filled]))
    squares[at_top[np.searchsorted(at_top, starts)]] = 0.0  # the first one of each row
    result[filled] = np.add.reduceat(squares, starts)
    return result


def delta_lengths(matrix: Any, delta: float, max_components: int) -> Lengths:
    """Components of each record; 0 means that the record must be suppressed."""
    room = spread(matrix)
    with np.errstate(over="ignore"):  # beyond all numbers is beyond max_components too
        lengths = np.minimum(np.floor(room / delta), max_components).astype(np.int64)
    # division rounds: the promise is (room / r >= delta), so it is tested as it stands
    broken = (lengths > 0) & (room < lengths * delta)
    return lengths - broken


def broken_records(matrix: Any, lengths: Lengths, delta: float) -> int:
    """How many records with these lengths break the promise."""
    return int(np.sum((lengths > 0) & (spread(matrix) < lengths * delta)))
