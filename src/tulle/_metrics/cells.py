"""Columns cut into cells, alike in all tables: what marginals of several columns are counted in.

Numbers of more than 20 different values are cut at 18 quantiles of the original, as NIST's scores
do it, so that there are at most 19 cells and one for missing values. Other values are cells of
their own.

*NIST's k-marginal score*: do combinations of k columns occur as often as they did? For each set of
k columns the shares of all combinations of cells are compared; the mean of the sums of absolute
differences, L1, is between 0 and 2, and the score is (2 - L1) x 500: 1000 for equal shares, 0 if
nothing is in common. A sample of the original loses points too: the share of the records that
scores as the release does is the *equivalent subsample*.

*Subgroups*: is the release as good for each kind of people?
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from tulle._metrics.marginals import total_variation
from tulle._types import Codes, Floats, Integers, Ints

MOST_VALUES = 20  # different numbers that are not cut


@dataclass(frozen=True)
class Cells:
    """Tables with the same columns, each value as the number of its cell."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]  # cells of each column; they are numbered from 0
    tables: tuple[Codes, ...]  # (n, p) each, the original first

    @property
    def original(self) -> Codes:
        """The cells of the original."""
        return self.tables[0]

    @property
    def release(self) -> Codes:
        """The cells of the release."""
        return self.tables[1]


def number_cells(values: Sequence[Floats]) -> list[Codes]:
    """Cut the numbers of each table at quantiles of the first; NaN is a cell of its own, 0.

    >>> [cells.tolist() for cells in number_cells([np.array([5.0, 7.0, np.nan]), np.array([7.0])])]
    [[1, 2, 0], [2]]
    """
    known = [part[~np.isnan(part)] for part in values]
    edges = np.unique(np.concatenate(known))
    if len(np.unique(known[0])) > MOST_VALUES:
        cuts = np.percentile(known[0], np.arange(0, 100, 100 / 19), method="higher")
        both = np.concatenate(known[:2])
        edges = np.unique([both.min(), *np.unique(cuts)[1:], both.max()])[1:-1]
    places = [np.searchsorted(edges, part, side="left") + 1 for part in values]
    return [np.where(np.isnan(part), 0, at).astype(np.int32) for part, at in zip(values, places)]


def joined(tables: Sequence[Integers], sizes: Sequence[int], columns: Sequence[int]) -> list[Ints]:
    """Return a number for each combination of some columns, alike in all tables."""
    keys: list[Ints] = [np.zeros(len(table), np.int64) for table in tables]
    ends = np.cumsum([len(table) for table in tables])[:-1]
    total = 1
    for column in columns:
        total *= sizes[column]
        keys = [key * sizes[column] + table[:, column] for key, table in zip(keys, tables)]
        if total > 2**20:  # the product of many sizes would not fit an integer
            _, numbers = np.unique(np.concatenate(keys), return_inverse=True)
            keys = np.split(numbers.ravel().astype(np.int64), ends)
            total = int(numbers.max(initial=0)) + 1
    return keys


SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8)
_MOST_KEYS = 4_000_000  # counted in an array; beyond that by sorting


def sets_of(columns: int, k: int, most: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Choose sets of k columns: all, or ``most`` of them at random."""
    k = min(k, columns)
    if columns <= 60:
        every = list(combinations(range(columns), k))
        if len(every) <= most:
            return every
        return [every[i] for i in np.sort(rng.choice(len(every), most, replace=False))]
    drawn = {tuple(np.sort(rng.choice(columns, k, replace=False)).tolist()) for _ in range(most)}
    return sorted(drawn)


def differences(
    original: Integers, release: Integers, sizes: Sequence[int], sets: Sequence[tuple[int, ...]]
) -> Floats:
    """Return the L1 difference of each set of columns, between 0 and 2.

    >>> left, right = np.array([[0, 0], [1, 1]]), np.array([[0, 1], [1, 1]])
    >>> differences(left, right, (2, 2), [(0, 1), (0,)]).tolist()
    [1.0, 0.0]
    """
    return np.array([_difference(*joined((original, release), sizes, some)) for some in sets])


def score(differences: Floats) -> float:
    """Return NIST's score of L1 differences: 1000 is perfect."""
    return float((2 - differences.mean()) * 500)


def by_column(differences: Floats, sets: Sequence[tuple[int, ...]], columns: int) -> Floats:
    """Return the score of the sets that each column is in; NaN if it is in none."""
    total, count = np.zeros(columns), np.zeros(columns)
    for value, some in zip(differences, sets):
        total[list(some)] += value
        count[list(some)] += 1
    with np.errstate(invalid="ignore"):
        return np.asarray((2 - total / count) * 500)


def equivalent_share(
    cells: Cells, sets: Sequence[tuple[int, ...]], found: float, rng: np.random.Generator
) -> float:
    """Return the share of the original that, drawn at random, has the score ``found``.

    ``found`` is of the same ``sets``. Between the shares that are tried it is interpolated; below
    the smallest it is 0.
    """
    original, records = cells.original, len(cells.original)
    order = rng.permutation(records)
    shares = [share for share in SHARES if share * records >= 1]
    scores = [
        score(differences(original, original[order[: round(s * records)]], cells.sizes, sets))
        for s in shares
    ]
    rising = np.maximum.accumulate([0.0, *scores, 1000.0])
    return float(np.interp(found, rising, [0.0, *shares, 1.0]))


def _difference(original: Ints, release: Ints) -> float:
    top = int(max(original.max(initial=0), release.max(initial=0))) + 1
    if top > _MOST_KEYS:
        _, numbers = np.unique(np.concatenate([original, release]), return_inverse=True)
        original, release = numbers[: len(original)], numbers[len(original) :]
        top = int(numbers.max()) + 1
    before = np.bincount(original, minlength=top) / len(original)
    after = np.bincount(release, minlength=top) / len(release)
    return float(np.abs(before - after).sum())


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
