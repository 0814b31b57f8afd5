"""Reading item numbers, byte by byte, and sorting baskets."""

from __future__ import annotations

from typing import Any

import numpy as np

from tulle._jit import kernel

SHORT = 64  # codes: longer rows are sorted before they are inserted


@kernel
def parse_numbers(data: Any, limit: int, values: Any, ends: Any) -> Any:
    """Fill in the values and the number of values at each line's end.

    Returns (values, lines, empty lines, tokens that are not numbers, negative ones, numbers
    above the limit).
    """
    count, lines, empty, wrong, negative, huge = 0, 0, 0, 0, 0, 0
    at_line_start = 0
    value, state = 0, 0  # state: 0 between tokens, 1 digits, 2 a token that is not a number
    for place in range(len(data) + 1):
        byte = data[place] if place < len(data) else 10
        if byte >= 48 and byte <= 57:
            if state == 0:
                value, state = 0, 1
            if value <= limit:
                value = value * 10 + (byte - 48)
            continue
        if byte != 32 and (byte < 9 or byte > 13):
            if byte == 45 and state == 0:
                negative += 1
            elif state != 2:
                wrong += 1
            state = 2
            continue
        if state == 1:
            if value > limit:
                huge += 1
            values[count] = min(value, limit)
            count += 1
        elif state == 2:
            count += 1
        state = 0
        if byte == 10 and (place < len(data) or (place > 0 and data[place - 1] != 10)):
            empty += count == at_line_start
            ends[lines] = count
            lines += 1
            at_line_start = count
    return count, lines, empty, wrong, negative, huge


@kernel
def sort_rows(indptr: Any, items: Any) -> Any:
    """Sort the codes of each row and leave out repeated ones, in place; return where rows end.

    Rows are short, mostly, and in some order already: insertion is the fastest way then.
    """
    n_rows = len(indptr) - 1
    ends = np.zeros(n_rows + 1, dtype=np.int64)
    filled = 0
    for row in range(n_rows):
        begin = filled
        if indptr[row + 1] - indptr[row] > SHORT:
            items[indptr[row] : indptr[row + 1]] = np.sort(items[indptr[row] : indptr[row + 1]])
        for cell in range(indptr[row], indptr[row + 1]):
            code = items[cell]
            place = filled
            while place > begin and items[place - 1] > code:
                place -= 1
            if place > begin and items[place - 1] == code:
                continue
            for moved in range(filled, place, -1):
                items[moved] = items[moved - 1]
            items[place] = code
            filled += 1
        ends[row + 1] = filled
    return ends
