"""The nearest records, compiled: the scan stops adding up where the best is passed already."""

from __future__ import annotations

import numpy as np

from tulle._jit import kernel
from tulle._types import Codes, Floats, Ints


@kernel
def scan(
    target_numbers: Floats,
    target_codes: Codes,
    numbers: Floats,
    codes: Codes,
    mismatch: float,
    rows: Ints,
    squares: Floats,
) -> None:
    """Fill ``rows`` and ``squares`` (m, k) with the k nearest of each target, nearest first."""
    width, marks, count = numbers.shape[1], codes.shape[1], rows.shape[1]
    for target in range(target_numbers.shape[0]):
        best_rows, best = rows[target], squares[target]
        best[:] = np.inf
        for row in range(numbers.shape[0]):
            limit, square = best[count - 1], 0.0
            for i in range(marks):
                if target_codes[target, i] != codes[row, i]:
                    square += mismatch
                    if square >= limit:
                        break
            if square >= limit:
                continue
            for i in range(width):
                gap = target_numbers[target, i] - numbers[row, i]
                square += gap * gap
                if square >= limit:
                    break
            if square >= limit:
                continue
            place = count - 1
            while place > 0 and best[place - 1] > square:
                best[place], best_rows[place] = best[place - 1], best_rows[place - 1]
                place -= 1
            best[place], best_rows[place] = square, row
