"""Heaps: numbers that many people share, such as 40 hours or an income of 0.

A release that smooths them away, or piles records onto a value that nobody has, makes rows that
look wrong at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tulle._types import Floats

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
