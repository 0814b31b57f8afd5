"""Drawn numbers as values that occur: whole ones, or one of the only two there are.

Rounding each to the nearest would lose what is rare: where one in twenty has a 1, every draw is
nearer to 0, and no 1 is left. So values are rounded by turns, as many up as keeps the means.
"""

from __future__ import annotations

import math

import numpy as np

from tulle.tables.quotas import Floats, Grouped, choose_states


def round_keeping_means(values: Floats, grouped: Grouped | None) -> Floats:
    """Whole numbers next to the values; the sum of each group moves by less than one.

    >>> groups = np.zeros(10, dtype=int)
    >>> grouped = Grouped.of(np.full((10, 1), 0.3), groups, None, np.random.default_rng(0))
    >>> round_keeping_means(np.full(10, 0.3), grouped).sum()
    np.float64(3.0)
    """
    if grouped is None:
        return np.rint(values)
    down = np.floor(values)
    order = np.argsort(grouped.groups, kind="stable")
    rest = np.round(values - down, 9)[order]  # what is whole but for the last digits stays
    turns = np.floor(np.cumsum(rest) + grouped.rng.random())
    rounded = np.empty_like(values)
    rounded[order] = down[order] + np.diff(turns, prepend=0.0)
    return rounded


def one_of_two(
    values: Floats, means: Floats, grouped: Grouped | None, low: float, high: float
) -> Floats:
    """``low`` or ``high``; each group gets as many of both as its mean stands for."""
    if grouped is None:
        return np.where(values >= (low + high) / 2, high, low)
    unit = 1.0 if math.isfinite(high - low) else 0.5  # the difference may be beyond all numbers
    share = np.clip((means * unit - low * unit) / (high * unit - low * unit), 0.0, 1.0)
    return np.where(choose_states([-values, values], [1 - share, share], grouped), high, low)
