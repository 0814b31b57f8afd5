"""Values kept within a range without moving the means of their groups.

Cutting off what lies below 0 raises the mean of a skewed column (incomes, stays, gains). So each
group's values are shifted before they are cut, by as much as keeps the mean where it was.
"""

from __future__ import annotations

import numpy as np

from tulle.tables.quotas import Floats, Ints

_LARGE, _SMALLER = 1e290, 2.0**-60
_STEPS = 45  # halvings of the shift: to 14 digits of the range


def clip_keeping_means(
    values: Floats, groups: Ints, means: Floats, low: float, high: float
) -> Floats:
    """Values within ``[low, high]``; groups that are cut get their mean, within that range.

    >>> values, groups = np.array([-2.0, 2.0, 3.0]), np.array([0, 0, 0])
    >>> clip_keeping_means(values, groups, np.array([1.0]), 0.0, 10.0)
    array([0., 1., 2.])
    """
    outside = (values < low) | (values > high)
    if not outside.any():
        return values
    touched = np.zeros(len(means), dtype=bool)
    touched[groups[outside]] = True
    rows = np.flatnonzero(touched[groups])
    place = (np.cumsum(touched) - 1)[groups[rows]]
    clipped = values.copy()
    wanted = np.clip(means[touched], low, high)
    # sums and differences of the largest numbers there are would overflow: in smaller units
    unit = _SMALLER if max(abs(low), abs(high)) > _LARGE else 1.0
    small = np.nan_to_num(values[rows] * unit)
    shifted = _shifted(small, place, wanted * unit, low * unit, high * unit)
    clipped[rows] = np.clip(shifted / unit, low, high)
    return clipped


def _shifted(values: Floats, place: Ints, wanted: Floats, low: float, high: float) -> Floats:
    """Finds each group's shift by halving: the clipped mean grows with the shift."""
    sizes = np.bincount(place)
    order = np.argsort(place, kind="stable")
    starts = np.cumsum(sizes) - sizes
    down = low - np.maximum.reduceat(values[order], starts)  # all cut to `low`
    up = high - np.minimum.reduceat(values[order], starts)  # all cut to `high`
    for _ in range(_STEPS):
        middle = (down + up) / 2
        means = np.bincount(place, weights=np.clip(values + middle[place], low, high)) / sizes
        above = means > wanted
        up = np.where(above, middle, up)
        down = np.where(above, down, middle)
    return np.clip(values + ((down + up) / 2)[place], low, high)
