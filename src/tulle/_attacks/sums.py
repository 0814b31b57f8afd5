"""Sums on the grid: do released rows add up to what people's numbers add up to?

Numbers are written with so many decimals, so the sum of a few people's lies on the grid of these
decimals. Rows drawn for a group with exactly the group's mean add up to that very sum, though none
of them lies on the grid itself: rows that do so together name a group, and in a group of few people
the originals follow. The *adder* takes a released row and looks among its nearest rows for some
that add up to a point of the grid in every column.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np

from tulle._attacks.nearest import nearest
from tulle._attacks.records import Records, chosen
from tulle._attacks.result import AttackResult
from tulle._types import Floats, Ints

LARGEST = 9  # rows that are added up
_WINDOWS = {1: 100, 2: 80, 3: 28, 4: 20}  # nearest rows that half of them are taken from
_TOLERANCE = 1e-6  # of the last decimal
_CHANCE = 1e-3  # sums that lie on the grid by chance, for each row and number of rows


def sums_on_grid(
    release: Floats,
    records: Records,
    units: Floats,
    rng: np.random.Generator,
    *,
    attempts: int = 60,
) -> AttackResult | None:
    """Look for released rows that add up to a point of the grid, though none lies on it.

    ``release`` (n, p): numbers in their own units, NaN where missing. ``records``: the same
    release, for distances. ``units`` (p,): what the numbers of each column of the original are
    multiples of, or 0. None if no column of the original has a grid.
    """
    complete = np.isfinite(release).all(axis=1)
    if not (units > 0).any() or complete.sum() < 3:
        return None
    release, records = release[complete], records.take(np.flatnonzero(complete))
    rows = chosen(len(release), attempts, rng)
    parts = _fractions(release, units)
    hits = np.zeros(len(rows), dtype=bool)
    if parts.shape[1]:
        numbers = Records.of_numbers(records.numbers)
        near = nearest(numbers.take(rows), numbers, _WINDOWS[1] + 1).rows
        for place, row in enumerate(rows.tolist()):
            hits[place] = _adds_up(parts[row], parts[near[place][near[place] != row]])
    return AttackResult(
        "sums_on_grid",
        len(rows),
        int(hits.sum()),
        0.0,
        story=f"Someone adds a released row to up to {LARGEST - 1} of those next to it. Right if "
        "they add up to a number with as few decimals as people's numbers have, in every column, "
        "though the rows have more: they are one group then, and their sum is that of its people.",
        details={"columns finer than the original": int(parts.shape[1])},
    )


def _fractions(release: Floats, units: Floats) -> Floats:
    """Return what lies beyond the grid, in the columns that are finer and exact enough."""
    steps = release[:, units > 0] / units[units > 0]
    parts = steps - np.floor(steps)
    off = np.minimum(parts, 1 - parts) > 1e-3
    exact = np.abs(steps).max(axis=0) * np.finfo(float).eps * LARGEST < _TOLERANCE / 4
    # on a grid that is only finer, sums of any rows are often on the coarser one
    many = np.array([len(np.unique(part.round(6))) > len(part) / 2 for part in parts.T], dtype=bool)
    fine = parts[:, (off.mean(axis=0) > 0.5) & exact & many]
    return np.asarray(fine[:, :8])


def _adds_up(own: Floats, near: Floats) -> bool:
    """Tell whether a row and some of those near it add up to a point of the grid."""
    for size in range(2, min(LARGEST, len(near) + 1) + 1):
        first, second = (size - 1) // 2, size - 1 - (size - 1) // 2
        window = min(_WINDOWS[second], len(near))
        left, right = _choices(window, first), _choices(window, second)
        if len(left) * len(right) * (2 * _TOLERANCE) ** near.shape[1] > _CHANCE:
            return False
        if _matches(own, near, left, right):
            return True
    return False


def _matches(own: Floats, near: Floats, left: Ints, right: Ints) -> bool:
    """Meet in the middle: sums of the first half against what the second half lacks."""
    have = (own + near[left].sum(axis=1)) % 1.0
    lack = (-near[right].sum(axis=1)) % 1.0
    order = np.argsort(lack[:, 0], kind="stable")
    sorted_lack = lack[order, 0]
    for turn in (-1.0, 0.0, 1.0):  # fractions just below 1 are next to those just above 0
        low = np.searchsorted(sorted_lack, have[:, 0] + turn - _TOLERANCE)
        high = np.searchsorted(sorted_lack, have[:, 0] + turn + _TOLERANCE)
        counts = high - low
        if not counts.any():
            continue
        first = np.repeat(np.arange(len(have)), counts)
        within = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
        second = order[np.repeat(low, counts) + within]
        gaps = np.abs(have[first] - lack[second])
        fits = (np.minimum(gaps, 1 - gaps) <= _TOLERANCE).all(axis=1)
        for a, b in zip(left[first[fits]], right[second[fits]]):
            if not set(a.tolist()) & set(b.tolist()):
                return True
    return False


@cache
def _choices(count: int, size: int) -> Ints:
    chosen_rows = list(combinations(range(count), size))
    return np.array(chosen_rows, dtype=np.int64).reshape(len(chosen_rows), size)
