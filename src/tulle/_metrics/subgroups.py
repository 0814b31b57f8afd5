"""Subgroups: is the release as good for each kind of people?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tulle._metrics.cells import Cells
from tulle._metrics.marginals import total_variation
from tulle._types import Floats


class Subgroup(NamedTuple):
    """The people who have one value in one column."""

    column: int
    cell: int
    people: int


def subgroups(cells: Cells, columns: list[int], least: int, most: int) -> list[Subgroup]:
    """List the values that at least ``least`` people have, the most common first."""
    found = []
    for column in columns:
        counts = np.bincount(cells.original[:, column], minlength=cells.sizes[column])
        values = np.flatnonzero((counts >= least) & (counts < len(cells.original)))
        found += [Subgroup(column, int(cell), int(counts[cell])) for cell in values]
    return sorted(found, key=lambda group: -group.people)[:most]


class SubgroupDistance(NamedTuple):
    """How far the other columns of a subgroup moved: mean total variation, 0 to 1."""

    group: Subgroup
    released: int  # records of the release in the subgroup
    distance: float  # 1 if there are none
    by_chance: float  # between two samples of these sizes from the same people


def marginals_within(cells: Cells, groups: list[Subgroup]) -> Iterator[SubgroupDistance]:
    """Compare each other column within each subgroup."""
    for group in groups:
        original, release = (t[t[:, group.column] == group.cell] for t in cells.tables[:2])
        others = [i for i in range(len(cells.names)) if i != group.column]
        if not len(release) or not others:
            yield SubgroupDistance(group, len(release), float(not len(release)), 0.0)
            continue
        moved = [total_variation(original[:, i], release[:, i]) for i in others]
        shares = [np.bincount(original[:, i]) / len(original) for i in others]
        chance = [by_chance(part, len(original), len(release)) for part in shares]
        yield SubgroupDistance(group, len(release), float(np.mean(moved)), float(np.mean(chance)))


def by_chance(shares: Floats, first: int, second: int) -> float:
    """Return the total variation to expect between two samples of people with these shares."""
    variances = shares * (1 - shares) * (1 / first + 1 / second)
    return float(np.sqrt(2 / np.pi * variances).sum() / 2)


class Line(NamedTuple):
    """A straight line through points, by least squares."""

    slope: float
    error: float  # the standard error of the slope


def line(x: Floats, y: Floats) -> Line | None:
    """Fit a line; None if there are fewer than three points or x does not vary.

    >>> line(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0]))
    Line(slope=2.0, error=0.0)
    """
    known = ~(np.isnan(x) | np.isnan(y))
    x, y = x[known], y[known]
    spread = float(((x - x.mean()) ** 2).sum()) if len(x) else 0.0
    if len(x) < 3 or spread == 0:
        return None
    slope = float((x - x.mean()) @ (y - y.mean())) / spread
    rest = y - y.mean() - slope * (x - x.mean())
    return Line(slope, float(np.sqrt(rest @ rest / (len(x) - 2) / spread)))
