"""Graded grouping: numbers to codes that keep their order and hide their scale.

The range is cut into k groups with limits ``L[0] < L[1] < ... < L[k]``; group i has a whole number
``V[i]``, increasing. A number x of group i becomes ``V[i] + (x - L[i]) / (L[i+1] - L[i])``. A limit
between two groups belongs to the upper one. The overall maximum becomes ``V[k-1] + 0.999``, and so
that nothing near it is lost or overtakes it, the last 0.2 % of the last group are squeezed into
what remains below 0.999: the codes stay strictly increasing and invertible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tulle.errors import ParameterError

Floats = NDArray[np.float64]

TOP = 0.999  # the share of the overall maximum
_BEND = 0.998  # from here on the last group is squeezed
_SLOPE = (TOP - _BEND) / (1.0 - _BEND)


class Scale(NamedTuple):
    """The secret of one graded column: the limits and the numbers of the groups."""

    limits: Floats
    values: Floats


def scale(limits: Sequence[float], values: Sequence[int], column: str = "column") -> Scale:
    """Checked limits and group numbers."""
    edges = np.asarray(limits, dtype=np.float64)
    numbers = np.asarray(values, dtype=np.float64)
    if edges.ndim != 1 or len(edges) < 2 or not np.isfinite(edges).all():
        raise ParameterError(f"column '{column}': cut points must be two or more finite numbers")
    if (np.diff(edges) <= 0).any():
        raise ParameterError(f"column '{column}': cut points must increase")
    if len(numbers) != len(edges) - 1:
        raise ParameterError(
            f"column '{column}': {len(edges) - 1} groups need as many group numbers, "
            f"got {len(numbers)}"
        )
    whole = np.isfinite(numbers).all() and (numbers == np.round(numbers)).all()
    if not whole or (np.diff(numbers) < 1).any() or np.abs(numbers).max() > 1e6:
        raise ParameterError(
            f"column '{column}': group numbers must be increasing integers within 1,000,000"
        )
    return Scale(edges, numbers)


def grade(numbers: Floats, by: Scale) -> Floats:
    """Codes of numbers inside the limits; NaN stays NaN.

    >>> table3 = scale([15, 30, 45, 60, 75, 90], [1, 2, 3, 4, 5])
    >>> grade(np.array([30.0, 40, 70, 25, 15, 58, 73, 37, 90]), table3).round(3).tolist()
    [2.0, 2.667, 4.667, 1.667, 1.0, 3.867, 4.867, 2.467, 5.999]
    """
    last = len(by.values) - 1
    group = np.clip(np.searchsorted(by.limits, numbers, side="right") - 1, 0, last)
    low = by.limits[group]
    share = (numbers - low) / (by.limits[group + 1] - low)
    squeezed = _BEND + (share - _BEND) * _SLOPE
    share = np.where((group == last) & (share > _BEND), squeezed, share)
    # rounding must lift no code into the next group, nor above the maximum's
    ceiling = np.nextafter(by.values + 1.0, -np.inf)
    ceiling[-1] = by.values[-1] + TOP
    codes = np.minimum(by.values[group] + share, ceiling[group])
    return np.where(numbers == by.limits[-1], ceiling[-1], codes)


def ungrade(codes: Floats, by: Scale) -> Floats:
    """Numbers of codes; a code between two groups gives the limit between them.

    >>> uneven = scale([0, 10, 100], [3, 7])
    >>> ungrade(np.array([3.5, 5.0, 7.5, 99.0]), uneven).tolist()
    [5.0, 10.0, 55.0, 100.0]
    """
    last = len(by.values) - 1
    group = np.clip(np.searchsorted(by.values, codes, side="right") - 1, 0, last)
    share = codes - by.values[group]
    spread = _BEND + (share - _BEND) / _SLOPE
    share = np.where((group == last) & (share > _BEND), spread, share)
    low, high = by.limits[group], by.limits[group + 1]
    numbers = np.clip(low + np.clip(share, 0.0, 1.0) * (high - low), low, high)
    return np.where(codes >= by.values[-1] + TOP, by.limits[-1], numbers)


def is_code(codes: Floats, by: Scale) -> NDArray[np.bool_]:
    """Which numbers lie where :func:`grade` puts its codes (NaN does)."""
    last = len(by.values) - 1
    group = np.clip(np.searchsorted(by.values, codes, side="right") - 1, 0, last)
    share = codes - by.values[group]
    # a hair of room above 0.999 for miners that print fewer digits
    room = np.where(group == last, TOP + 1e-9, 1.0)
    return np.isnan(codes) | ((share >= 0.0) & (share <= room))


def cut(code: float, by: Scale) -> tuple[float, bool]:
    """Where a threshold lies in the original scale, and whether it became strict.

    ``code <= t`` means ``x <= number`` (not strict) or ``x < number`` (strict). The second happens
    between two groups, because a limit belongs to the group above it, and below the first group.

    >>> uneven = scale([0, 10, 100], [3, 7])
    >>> cut(3.5, uneven), cut(5.0, uneven), cut(7.0, uneven)
    ((5.0, False), (10.0, True), (10.0, False))
    """
    number = float(ungrade(np.array([code]), by)[0])
    if code < by.values[0]:
        return number, True
    group = int(np.searchsorted(by.values, code, side="right")) - 1
    between = group < len(by.values) - 1 and code - by.values[group] >= 1.0
    return number, bool(between)


def equal_scale(low: float, high: float, groups: int, uniforms: Floats, *, whole: bool) -> Scale:
    """Groups of equal width over a range with secret margins; numbers in steps of one.

    The codes are a straight line of the numbers, so that every miner finds the same. The margins
    keep the ends of the public range from showing as the first and the last code. Whole numbers
    get groups whose width is a power of two (about as many groups as asked): their codes are then
    exact in binary, single precision included, and so is every midpoint a miner takes of them.
    """
    start, end = _with_margins(low, high, uniforms)
    first = 1.0 + int(uniforms[2] * groups)
    if not whole:
        numbers = first + np.arange(groups, dtype=np.float64)
        return Scale(np.linspace(start, end, groups + 1), numbers)
    width = 2.0 ** max(0, round(math.log2((high - low) / groups)))
    start = math.floor(start)
    needed = math.ceil((end + 1 - start) / width)
    places = np.arange(needed + 1, dtype=np.float64)
    return Scale(start + width * places, first + places[:-1])


def uneven_scale(low: float, high: float, groups: int, uniforms: Floats) -> Scale:
    """Groups of secret, unequal width; numbers in secret steps of one to three.

    The codes keep the order and nothing else: miners that look at order find the same.
    """
    start, end = _with_margins(low, high, uniforms)
    widths = 0.25 - np.log1p(-uniforms[2 : groups + 2] * (1 - 1e-9))
    edges = start + (end - start) * np.concatenate([[0.0], np.cumsum(widths) / widths.sum()])
    edges[-1] = end
    steps = 1.0 + np.floor(3.0 * uniforms[groups + 2 : 2 * groups + 2])
    return Scale(edges, np.cumsum(steps))


def _with_margins(low: float, high: float, uniforms: Floats) -> tuple[float, float]:
    before, after = 0.02 + 0.18 * uniforms[:2]
    return low - float(before) * (high - low), high + float(after) * (high - low)
