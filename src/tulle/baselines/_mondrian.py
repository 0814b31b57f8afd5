"""Multidimensional generalisation: cut the table in two, again and again, as long as it may be.

Mondrian (LeFevre, DeWitt and Ramakrishnan 2006), except that of all columns the one is cut that
leaves the narrowest halves, and that categories lie in an order in which neighbours are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tulle._types import Flags, Floats, Ints

_TRIED = 5  # places of a cut, from the middle outwards, before a column is given up


@dataclass(frozen=True, eq=False)
class Axis:
    """One column to generalise: the rank of each record's value, and where the ranks lie."""

    ranks: Ints
    places: Floats  # of each rank, from 0 to 1; missing lies one width away from all values

    def width(self, low: int, high: int) -> float:
        """Return the share of the column that a stretch of ranks covers."""
        return min(1.0, float(self.places[high] - self.places[low]))


class Region(NamedTuple):
    """Records that will look alike, and for each column the first and last rank of their values."""

    rows: Ints
    low: list[int]
    high: list[int]


def cut(axes: list[Axis], enough: Callable[[Ints], bool]) -> list[Region]:
    """Return the regions: as many cuts as ``enough`` allows, which judges the rows of a half."""
    ranks = np.column_stack([axis.ranks for axis in axes])
    done, pending = [], [np.arange(len(ranks))]
    while pending:
        rows = pending.pop()
        halves = _best_cut(rows, axes, ranks, enough)
        if halves is None:
            inside = ranks[rows]
            done.append(Region(rows, inside.min(axis=0).tolist(), inside.max(axis=0).tolist()))
        else:
            pending += halves
    return done


def loss(regions: list[Region], axes: list[Axis]) -> float:
    """Return the mean share of a column that a released value covers: 0 for exact, 1 for any."""
    total = sum(
        len(rows) * sum(axis.width(a, b) for axis, a, b in zip(axes, low, high))
        for rows, low, high in regions
    )
    return total / (sum(len(region.rows) for region in regions) * len(axes))


def _best_cut(
    rows: Ints, axes: list[Axis], ranks: Ints, enough: Callable[[Ints], bool]
) -> list[Ints] | None:
    """Return the two halves that are narrowest together, if there are any."""
    best, least = None, np.inf
    inside = ranks[rows]
    for column in inside.T:
        for left in _halved(column):
            halves = [rows[left], rows[~left]]
            if all(enough(half) for half in halves):
                width = _spread(inside[left], axes) + _spread(inside[~left], axes)
                if width < least:
                    best, least = halves, width
                break
    return best


def _halved(values: Ints) -> Iterator[Flags]:
    """Yield the rows on one side of a cut, cuts nearest to the middle first."""
    there, counts = np.unique(values, return_counts=True)
    uneven = np.abs(np.cumsum(counts)[:-1] - len(values) / 2)
    for place in np.argsort(uneven, kind="stable")[:_TRIED]:
        yield values <= there[place]


def _spread(ranks: Ints, axes: list[Axis]) -> float:
    """Return how much of all columns some records cover, times their number."""
    low, high = ranks.min(axis=0).tolist(), ranks.max(axis=0).tolist()
    return len(ranks) * sum(axis.width(a, b) for axis, a, b in zip(axes, low, high))
