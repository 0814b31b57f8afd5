"""A linear part of everybody: how each column leans on the columns before, as one more feature.

Trees cut along one column at a time; a sum of many small effects takes more leaves than there are
people for. A ridge regression over everybody sees such a sum at once, and rests on nobody in
particular. Its score for each column, cut into steps, is a feature among others, which trees use
where it explains more than a column does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tulle._shape.columns import weigh_people
from tulle._types import Floats, Ints, Singles

STEPS = 64  # that a score is cut into, at the quantiles of a normal distribution
_RIDGE = 0.01  # at least, in variances of a column
_MOST_COLUMNS = 32  # that trees of one column split on, besides its score
_MOST = 3  # scores of a category: one for each of its commonest values


@dataclass(frozen=True)
class Scores:
    """What each cell of a column adds to the scores of the columns after it."""

    tables: list[Singles]  # (cells, scores), of each column
    starts: Ints  # (columns + 1,), the scores of each column lie one after the other

    def none(self, n: int) -> Singles:
        """Return the scores of ``n`` rows of which nothing is known yet."""
        return np.zeros((n, int(self.starts[-1])), dtype=np.float32)

    def add(self, scores: Singles, place: int, cells: Ints) -> None:
        """Add what the cells of one column say of the columns after it."""
        later = int(self.starts[place + 1])
        scores[:, later:] += self.tables[place][:, later:][cells]

    def features(self, scores: Singles, place: int) -> NDArray[np.uint8]:
        """Return the finished scores of a column in steps, (rows, scores of the column)."""
        own = scores[:, self.starts[place] : self.starts[place + 1]]
        return np.searchsorted(_edges(), own).astype(np.uint8)


def fit_scores(
    coordinates: Sequence[Floats], moments: Floats, n: int, ordered: Sequence[bool]
) -> Scores:
    """Regress each column on all before it, in the coordinates of their cells.

    One triangular factor of everybody's second moments holds the regressions of all columns.
    """
    from scipy.linalg import cholesky, solve_triangular

    ends, moments = np.cumsum([one.shape[1] for one in coordinates]), moments.copy()
    moments[np.diag_indices(len(moments))] += _RIDGE + len(moments) / n
    factor = cholesky(moments, lower=True)
    wanted = [1 if one else min(_MOST, c.shape[1]) for one, c in zip(ordered, coordinates)]
    wanted[0] = 0  # nothing is known before the first
    starts = np.cumsum([0, *wanted])
    weights = np.zeros((len(moments), int(starts[-1])))
    for place in range(1, len(wanted)):
        known = int(ends[place - 1])
        rows = factor[known : known + wanted[place], :known]
        found = solve_triangular(factor[:known, :known], rows.T, lower=True, trans="T")
        spread = np.sqrt(np.maximum((found * (moments[:known, :known] @ found)).sum(0), 1e-12))
        weights[:known, starts[place] : starts[place + 1]] = found / spread
    parts = np.split(weights, ends[:-1])
    return Scores([(c @ w).astype(np.float32) for c, w in zip(coordinates, parts)], starts)


def telling_columns(coordinates: Sequence[Floats], moments: Floats) -> list[Ints]:
    """Return for each column the columns before it that say most about it, a few dozen at most.

    What the others add to them is in the scores.
    """
    starts = np.cumsum([0, *(one.shape[1] for one in coordinates)])[:-1]
    shared = np.add.reduceat(np.add.reduceat(moments**2, starts, axis=0), starts, axis=1)
    own = np.sqrt(np.maximum(np.diag(shared), 1e-12))
    shared = shared / own[:, None] / own
    return [
        np.sort(np.argsort(-row[:place], kind="stable")[:_MOST_COLUMNS])
        for place, row in enumerate(shared)
    ]


def second_moments(
    coordinates: Sequence[Floats], cells: Sequence[Ints], people: Ints | None = None
) -> Floats:
    """Return the second moments of the coordinates of all columns; everybody counts once."""
    points = np.hstack([one[codes] for one, codes in zip(coordinates, cells)])
    if people is not None:
        points *= np.sqrt(weigh_people(people, len(points)))[:, None]
    many = len(points) if people is None else len(np.unique(people))
    return np.asarray(points.T @ points / many)


def _edges() -> Singles:
    from scipy.special import ndtri

    return np.asarray(ndtri(np.arange(1, STEPS) / STEPS), dtype=np.float32)
