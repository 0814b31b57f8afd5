"""The default grouping: a good start, then exchanges of members until little is gained.

The loss is below MDAV's, in time that grows about linearly. Small inputs take NumPy alone and
never wait for a compiler; which way is taken depends on the number of records only, so that a
seed gives the same groups on every machine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tulle.condense.groupings.duplicates import set_aside
from tulle.condense.groupings.repair import squared_error
from tulle.moments import Floats, Ints

SMALL = 3_000  # records up to which NumPy alone is used
MEDIUM = 30_000  # records up to which groups then look wider and longer
WIDE, ENOUGH = 20, 0.01
WEIGHTS = (0.5, 2.0)  # of the column of levels that keeps demanding records together
SAMPLE = 64
Method = Callable[[Floats, Ints, Floats, np.random.Generator], Ints]


def fast(matrix: Floats, levels: Ints, rng: np.random.Generator) -> Ints:
    """Start and exchanges; with levels from several starts, of which the lowest error is kept.

    Neither mixing all levels nor keeping them apart is safe: each can cost twice the other. So
    the start sees one more column, the logarithm of the level, with different weights; and where
    levels fall into tiers far from each other, one start takes each tier apart. The choice among
    them looks at the squared error and at nothing else.
    """
    matrix = np.ascontiguousarray(matrix, dtype=np.float64)
    groups, number = set_aside(matrix, levels)
    rows = np.flatnonzero(groups < 0)
    groups[rows] = number + search_open(matrix[rows], levels[rows], rng)
    return groups


def search_open(matrix: Floats, levels: Ints, rng: np.random.Generator) -> Ints:
    """The lowest error of several starts; for records without large heaps of duplicates."""
    tiers = tiers_of(levels)
    weights = WEIGHTS[-1:] if tiers.any() else WEIGHTS
    spreads = _spreads(matrix, levels, weights)
    group = _grouped_large if len(matrix) > SMALL else _grouped_small
    found = [group(matrix, levels, spread, rng) for spread in spreads]
    if tiers.any():
        found.append(_apart(matrix, levels, tiers, rng, group))
    lowest = min(found, key=lambda groups: squared_error(matrix, groups)) if found[1:] else found[0]
    return _looked_wider(matrix, levels, lowest, rng)


def tiers_of(levels: Ints) -> Ints:
    """The tier of each record: levels are cut where they more than double.

    A tier with fewer records than its highest level joins the one below, the lowest the one above.
    """
    values = np.unique(levels)
    cuts: list[int] = []
    ceiling = int(values[-1]) + 1
    for cut in values[1:][values[1:] > 2 * values[:-1]][::-1].tolist():
        inside = levels[(levels >= cut) & (levels < ceiling)]
        if len(inside) >= inside.max():
            cuts.insert(0, cut)
            ceiling = cut
    below = levels[levels < ceiling]
    if cuts and len(below) < below.max():
        del cuts[0]
    return np.searchsorted(cuts, levels, side="right").astype(np.int64)


def _apart(
    matrix: Floats, levels: Ints, tiers: Ints, rng: np.random.Generator, group: Method
) -> Ints:
    """Each tier in groups of its own: what a few demanding records among others often want."""
    groups = np.empty(len(matrix), dtype=np.int64)
    number = 0
    for tier in range(int(tiers.max()) + 1):
        rows = np.flatnonzero(tiers == tier)
        part = np.ascontiguousarray(matrix[rows])
        groups[rows] = number + group(part, levels[rows], part, rng)
        number = int(groups[rows].max()) + 1
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def _grouped_large(matrix: Floats, levels: Ints, spread: Floats, rng: np.random.Generator) -> Ints:
    from tulle.condense.groupings._large import refine_large, start

    return refine_large(matrix, levels, start(spread, levels, rng), rng)


def _looked_wider(matrix: Floats, levels: Ints, groups: Ints, rng: np.random.Generator) -> Ints:
    """Where time is no matter, members are exchanged with more of the groups around."""
    from tulle.condense.groupings._large import refine_large

    if not SMALL < len(matrix) <= MEDIUM:
        return groups
    return refine_large(matrix, levels, groups, rng, WIDE, ENOUGH)


def _grouped_small(matrix: Floats, levels: Ints, spread: Floats, rng: np.random.Generator) -> Ints:
    from tulle.condense.groupings._small import refine_small
    from tulle.condense.groupings.farthest import mdav_small

    return refine_small(matrix, levels, mdav_small(spread, levels), rng)


def _spreads(matrix: Floats, levels: Ints, weights: tuple[float, ...]) -> list[Floats]:
    """The records as the starts see them: with columns of levels of different weight."""
    if (levels == levels[0]).all():
        return [matrix]
    step = _usual_reach(matrix, round(float(levels.mean())))
    column = step * np.log2(levels)[:, None]
    return [np.hstack([matrix, weight * column]) for weight in weights]


def _usual_reach(matrix: Floats, size: int) -> float:
    """The median distance of a sample of records to their ``size``-th nearest record."""
    place = min(size, len(matrix)) - 1
    step = max(1, len(matrix) // SAMPLE)
    reaches = []
    for point in matrix[::step]:
        offsets = matrix - point
        away = np.einsum("ij,ij->i", offsets, offsets)
        reaches.append(np.partition(away, place)[place])
    return float(np.sqrt(np.median(reaches)))
