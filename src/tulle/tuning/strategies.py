"""Which group sizes to try: the papers' rule, a grid, or the approximate GCD alone.

A strategy asks ``utility(sizes)`` for sizes and says which one it settles on. The caller caches, so
that a size is condensed once however often it is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Utilities = Callable[[Sequence[int]], list[float]]


def rule_search(utilities: Utilities, low: int, high: int, gap: float) -> int:
    """Halves the range on a logarithmic scale (papers/001, Figure 6).

    As long as utility falls by more than ``gap`` (a share of that at the lower end) between the
    ends, the upper end comes down to the geometric middle; else the lower end goes up to it, for
    more privacy. The figure as printed never ends once the ends are neighbours, because rounding
    gives one of them back: that is where this search stops. It errs towards utility: a middle that
    is too large takes everything above the last good middle away.

    >>> rule_search(lambda sizes: [1.0 if size <= 60 else 0.5 for size in sizes], 10, 500, 0.05)
    26
    """
    if low >= high:
        utilities([low])
        return low
    while True:
        at_low, at_high = utilities([low, high])
        middle = round(math.sqrt(low * high))
        if middle in (low, high):
            return middle
        utilities([middle])
        if abs(at_low - at_high) > gap * abs(at_low):  # errors are scores below zero
            high = middle
        else:
            low = middle


def grid_sizes(low: int, high: int, count: int) -> list[int]:
    """``count`` sizes in equal ratios from ``low`` to ``high``, both ends among them.

    >>> grid_sizes(10, 1000, 3)
    [10, 100, 1000]
    """
    if count < 2 or low >= high:
        return [low]
    ratio = (high / low) ** (1 / (count - 1))
    return sorted({min(high, round(low * ratio**step)) for step in range(count)})


def trade_off(sizes: Sequence[int], utilities: Sequence[float], gap: float) -> int:
    """The largest size whose utility is within ``gap`` of the best: what a person would point at.

    >>> trade_off([10, 20, 40], [0.90, 0.89, 0.70], 0.05)
    20
    """
    best = max(utilities)
    return max(size for size, u in zip(sizes, utilities) if best - u <= gap * abs(best))
