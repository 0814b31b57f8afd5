"""States (a category, true or false, missing) given to records so that each group keeps its counts.

A pseudo-record has a score for each state of a column. Alone, it takes the state with the highest
score. In a group, the states are handed out by quota: a group in which three of ten records were
missing gives three of its ten pseudo-records the missing state, those with the highest score.
All groups at once: the only loop is over the states.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tulle._types import Floats, Ints


@dataclass(frozen=True)
class Grouped:
    """The groups of the rows that are being decoded."""

    groups: Ints  # (n,)
    sizes: Ints  # (g,), rows to decode in each group
    means: Floats  # (g, d), the means of the group's original records
    rng: np.random.Generator

    @classmethod
    def of(
        cls, matrix: Floats, groups: Ints, means: Floats | None, rng: np.random.Generator
    ) -> Grouped:
        """Return groups, with the means of the rows where the groups' own are not given."""
        if means is None:
            sizes = np.bincount(groups).astype(np.int64)
            sums = [np.bincount(groups, weights=column) for column in matrix.T]
            means = np.stack(sums, axis=1) / np.maximum(sizes, 1)[:, None]
        return cls(groups, np.bincount(groups, minlength=len(means)).astype(np.int64), means, rng)

    def of_rows(self, kept: NDArray[np.bool_]) -> Grouped:
        groups = self.groups[kept]
        sizes = np.bincount(groups, minlength=len(self.means)).astype(np.int64)
        return Grouped(groups, sizes, self.means, self.rng)

    def part(self, place: slice) -> Grouped:
        """Return the same groups, seen by the dimensions of one column."""
        return Grouped(self.groups, self.sizes, self.means[:, place], self.rng)


def choose_states(
    scores: Sequence[Floats], shares: Sequence[Floats], grouped: Grouped | None
) -> Ints:
    """Return the state of each record: by quota inside groups, by the highest score otherwise.

    ``scores`` holds one array over the records for each state, ``shares`` one array over the
    groups (not looked at without groups).
    """
    if grouped is None:
        return highest(scores)
    counts = allot(np.stack(shares, axis=1), grouped.sizes, grouped.rng)
    return assign(scores, grouped.groups, counts, grouped.rng)


def highest(scores: Sequence[Floats]) -> Ints:
    """Return the state with the highest score, without stacking the scores."""
    best = scores[0].copy()
    states = np.zeros(len(best), dtype=np.int64)
    for state, score in enumerate(scores[1:], start=1):
        higher = score > best
        states[higher] = state
        best[higher] = score[higher]
    return states


def allot(shares: Floats, sizes: Ints, rng: np.random.Generator) -> Ints:
    """Return whole counts for each group, proportional to its shares, that add up to its size.

    Fractions are rounded at random without bias (systematic rounding): a share of 2.4 becomes 2
    or 3, and 2.4 on average.

    >>> allot(np.array([[0.3, 0.7]]), np.array([10]), np.random.default_rng(0))
    array([[3, 7]])
    """
    shares = np.maximum(shares, 0.0)
    totals = shares.sum(axis=1, keepdims=True)
    shares = np.divide(
        shares, totals, out=np.full_like(shares, 1 / shares.shape[1]), where=totals > 0
    )
    wanted = np.round(np.cumsum(shares * sizes[:, None], axis=1), 9)
    wanted[:, -1] = sizes
    cut = np.floor(wanted + rng.random(len(sizes))[:, None])
    cut[:, -1] = sizes
    return np.diff(np.minimum(cut, sizes[:, None]), axis=1, prepend=0).astype(np.int64)


def assign(scores: Sequence[Floats], groups: Ints, counts: Ints, rng: np.random.Generator) -> Ints:
    """Give each group's states to its records with the highest scores, rarest state first."""
    commonest = counts.argmax(axis=1)
    states = commonest[groups].astype(np.int64)  # what is left over at the end
    free = np.ones(len(groups), dtype=bool)
    for state in np.argsort(counts.sum(axis=0), kind="stable"):
        quota = np.where(commonest == state, 0, counts[:, state])
        rows = np.flatnonzero(free & (quota[groups] > 0))
        if not len(rows):
            continue
        rng.shuffle(rows)  # equal scores are settled by chance, not by place
        chosen = _leaders(rows, scores[state], groups, quota)
        states[chosen] = state
        free[chosen] = False
    return states


def _leaders(rows: Ints, score: Floats, groups: Ints, quota: Ints) -> Ints:
    """Return, of each group's rows, as many as its quota, with the highest scores."""
    rows = rows[np.lexsort((-score[rows], groups[rows]))]
    group = groups[rows]
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    place = np.arange(len(rows)) - np.repeat(starts, np.diff(np.r_[starts, len(rows)]))
    return rows[place < quota[group]]


def among_present(
    values: Floats, absent: Floats, mean: Floats, absent_share: Floats, fill: float, groups: Ints
) -> Floats:
    """Return values as the records that have one would show them.

    Where a value is absent its dimension holds ``fill``, which pulls the group's mean towards
    it. The regression of the value on the absence score undoes that exactly: its slope is
    ``fill - mean of those present``. Records with no absence keep their value as it is.
    """
    slope = fill - mean_present(mean, absent_share, fill)
    return values - slope[groups] * absent


def mean_present(mean: Floats, absent_share: Floats, fill: float) -> Floats:
    """Return the mean, for each group, of the records that have a value."""
    return (mean - absent_share * fill) / np.maximum(1.0 - absent_share, 1e-12)


# Values kept within a range without moving the means of their groups. Cutting off what lies below
# 0 raises the mean of a skewed column (incomes, stays, gains). So each group's values are shifted
# before they are cut, by as much as keeps the mean where it was.

_LARGE, _SMALLER = 1e290, 2.0**-60
_STEPS = 45  # halvings of the shift: to 14 digits of the range


def clip_keeping_means(
    values: Floats, groups: Ints, means: Floats, low: float, high: float
) -> Floats:
    """Clip values to ``[low, high]``; groups that are cut get their mean, within that range.

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
    """Find each group's shift by halving: the clipped mean grows with the shift."""
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


# Drawn numbers as values that occur: whole ones, or one of the only two there are. Rounding each
# to the nearest would lose what is rare: where one in twenty has a 1, every draw is nearer to 0,
# and no 1 is left. So values are rounded by turns, as many up as keeps the means.


def round_keeping_means(values: Floats, grouped: Grouped | None) -> Floats:
    """Round to whole numbers next to the values; the sum of each group moves by less than one.

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
    """Return ``low`` or ``high``; each group gets as many of both as its mean stands for."""
    if grouped is None:
        return np.where(values >= (low + high) / 2, high, low)
    unit = 1.0 if math.isfinite(high - low) else 0.5  # the difference may be beyond all numbers
    share = np.clip((means * unit - low * unit) / (high * unit - low * unit), 0.0, 1.0)
    return np.where(choose_states([-values, values], [1 - share, share], grouped), high, low)
