"""Single columns: how far a distribution moved, what became of its heaps, how blurred values are.

*Heaps* are numbers that many people share, such as 40 hours or an income of 0. A release that
smooths them away, or piles records onto a value that nobody has, makes rows that look wrong at
once.

*Interval*: It compares an original with one counterpart for each of its records. Which counterpart
is the caller's choice: a released record of its group drawn at random (the privacy measure of paper
001), or, when nothing is known of groups, the nearest released record (the attacker's best, a lower
bound).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tulle._types import Floats, Integers


def wasserstein(original: Floats, released: Floats) -> float:
    """Compute the area between two distribution functions: the cost of moving one into the other.

    >>> wasserstein(np.array([0.0, 1.0]), np.array([3.0, 4.0]))
    3.0
    """
    edges = np.sort(np.concatenate([original, released]))
    first = np.searchsorted(np.sort(original), edges[:-1], side="right") / len(original)
    second = np.searchsorted(np.sort(released), edges[:-1], side="right") / len(released)
    return float(np.abs(first - second) @ np.diff(edges))


def total_variation(original: Integers, released: Integers) -> float:
    """Compute half the sum of the differences of shares: 0 if equal, 1 for nothing in common.

    >>> total_variation(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]))
    0.25
    """
    _, numbers = np.unique(np.concatenate([original, released]), return_inverse=True)
    top = int(numbers.max()) + 1
    first = np.bincount(numbers[: len(original)], minlength=top) / len(original)
    second = np.bincount(numbers[len(original) :], minlength=top) / len(released)
    return float(np.abs(first - second).sum() / 2)


def range_coverage(original: Floats, released: Floats) -> float:
    """Compute the share of the original's range that the release spans.

    >>> range_coverage(np.array([0.0, 10.0]), np.array([2.0, 7.0]))
    0.5
    """
    low, high = float(original.min()), float(original.max())
    if low == high:
        return float(bool((released == low).any()))
    covered = min(high, float(released.max())) - max(low, float(released.min()))
    return max(0.0, covered) / (high - low)


LEAST = 0.05  # share of the records that a value needs to be a heap


class Heaps(NamedTuple):
    """What became of the heaps of a column; shares are of the records with a value."""

    share: float  # of the original's records that are on a heap
    kept: float | None  # of that share, what lies on the same heaps in the release; None: no heap
    piled: float  # the most that one value gained, where it was less than half as common before


def heaps(original: Floats, released: Floats, least: float = LEAST) -> Heaps:
    """Compare the heaps of two columns of numbers without missing values.

    >>> before = np.array([0.0] * 60 + [*range(1, 41)])
    >>> heaps(before, np.array([0.0] * 30 + [99.0] * 70))
    Heaps(share=0.6, kept=0.5, piled=0.7)
    """
    if not len(original) or not len(released):
        return Heaps(0.0, None, 0.0)
    values, numbers = np.unique(np.concatenate([original, released]), return_inverse=True)
    counts = [
        np.bincount(part, minlength=len(values)) / len(part)
        for part in np.split(numbers.ravel(), [len(original)])
    ]
    before, after = counts
    on = before >= least
    share = float(before[on].sum())
    # of few records, chance takes some from a heap, and piles up others
    fewness = 1 / len(original) + 1 / len(released)
    lost = before - after > 2 * np.sqrt(before * (1 - before) * fewness)
    kept = float(np.where(lost, after, before)[on].sum()) / share if on.any() else None
    new = (after >= least) & (before < after / 2)
    new &= after - before > 4 * np.sqrt(after * fewness)
    return Heaps(share, kept, float((after - before)[new].max(initial=0.0)))


def interval_widths(
    original: Floats, counterparts: Floats, share: float = 0.95, *, extent: Floats | None = None
) -> Floats:
    """Compute the width of the central interval of (original - counterpart) over the range.

    ``extent`` is the range of each column; that of ``original``, unless it is a sample. The
    larger, the less a released value says of an original one; above 1 is possible, as in the
    paper. Values that are missing (NaN) on one side are left out. NaN for a constant column.
    """
    if extent is None:
        extent = original.max(axis=0) - original.min(axis=0)
    tail = (1 - share) / 2
    widths = [_central(gaps[~np.isnan(gaps)], tail) for gaps in (original - counterparts).T]
    return np.asarray(np.array(widths) / np.where(extent > 0, extent, np.nan))


def _central(gaps: Floats, tail: float) -> float:
    low, high = np.quantile(gaps, [tail, 1 - tail]) if len(gaps) else (np.nan, np.nan)
    return float(high - low)


def interval_width(
    original: Floats, counterparts: Floats, share: float = 0.95, *, extent: Floats | None = None
) -> float:
    """Compute the privacy measure of paper 001: the mean of :func:`interval_widths`, at most 1.

    An interval wider than the range of its column says no more than the range itself.

    >>> interval_width(np.array([[0.0], [1.0]]), np.array([[5.0], [-5.0]]))
    1.0
    """
    widths = interval_widths(original, counterparts, share, extent=extent)
    known = np.minimum(widths[~np.isnan(widths)], 1.0)
    return float(known.mean()) if len(known) else float("nan")
