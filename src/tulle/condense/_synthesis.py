"""Pseudo-data: new records with the mean and covariance of each group.

Along each eigenvector of a group's covariance, coordinates are drawn independently with the
eigenvalue as variance (papers 000 and 001: uniformly), rotated back and added to the mean. All
groups of one size are drawn together, some ten thousand at a time: no loop over groups, and
memory beyond the result stays at a few megabytes. Cost: one ``d x d`` eigendecomposition a group.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tulle._checks import check_choice
from tulle._choices import DISTRIBUTIONS
from tulle._moments import GroupMoments
from tulle._threads import linear_algebra_on_one
from tulle._types import Floats, Ints
from tulle.errors import DataError, PrivacyError

_CELLS = 2_000_000  # numbers drawn, or entries of covariances factored, at a time


def synthesize(
    moments: GroupMoments,
    rng: np.random.Generator,
    *,
    distribution: str = "uniform",
    exact: bool = False,
    sizes: Ints | None = None,
) -> tuple[Floats, Ints]:
    """Draw records for every group; return them and the group of each, in ascending order.

    ``distribution`` is that of the coordinates along the eigenvectors ("mean" repeats the group's
    mean). ``exact`` gives each group's records exactly its mean and covariance, not only on
    average. This needs more records than the covariance's rank, which always holds where ``sizes``
    are None: as many as each group holds. Groups of two are refused: no other two records have
    their mean and covariance.
    """
    check_choice("synthesize", "distribution", distribution, DISTRIBUTIONS)
    counts = moments.counts if sizes is None else np.asarray(sizes, dtype=np.int64)
    groups = np.repeat(np.arange(len(counts)), counts)
    if distribution == "mean":
        return np.repeat(moments.means, counts, axis=0), groups

    with linear_algebra_on_one:
        return _drawn(moments, counts, rng, distribution, exact), groups


def _drawn(
    moments: GroupMoments, counts: Ints, rng: np.random.Generator, distribution: str, exact: bool
) -> Floats:
    """Return the records of all groups, one group after the other."""
    matrix = np.empty((int(counts.sum()), moments.means.shape[1]))
    starts = np.cumsum(counts) - counts
    chunk = max(1, min(10_000, _CELLS // max(1, matrix.shape[1] ** 2)))
    for first in range(0, len(counts), chunk):
        part = slice(first, first + chunk)
        factors = _factors(moments.scatters[part], moments.counts[part])
        if exact:
            _require_rank(factors, counts[part])
            _refuse_copies(factors, moments.counts[part], counts[part])
        for few in _batches(counts[part], matrix.shape[1]):
            size = int(counts[part][few[0]])
            drawn = _draw(factors[few], size, distribution, exact, rng)
            drawn += moments.means[part][few][:, None, :]
            _place(drawn, starts[part][few], matrix)
    return matrix


def leave_grid(column: Floats, groups: Ints, unit: float, rng: np.random.Generator) -> None:
    """Move the exact sums of groups off the grid of the column's decimals, in place.

    The sum of people's numbers is a multiple of the last decimal, and so is, of its square, the
    group's size times the sum of squares about the mean. Released rows of which this were true
    could be recognised as a group. Both are moved by up to one step of their grid at random: the
    mean by less than the last decimal over the group's size.
    """
    sizes = np.maximum(np.bincount(groups), 1)
    means = np.bincount(groups, weights=column) / sizes
    inner = column - means[groups]
    squares = np.bincount(groups, weights=inner**2)
    shift = rng.uniform(-1, 1, len(sizes)) * unit / sizes
    with np.errstate(divide="ignore", invalid="ignore"):
        stretch = rng.uniform(-1, 1, len(sizes)) * unit**2 / (sizes * squares)
    # rows that are all alike, or nearly, have no squares to recognise them by
    stretch = np.where(np.isfinite(stretch), np.clip(stretch, -0.01, 0.01), 0.0)
    column += shift[groups] + inner * stretch[groups]


def count_degenerate(moments: GroupMoments) -> int:
    """Count groups of two or more identical records: their records come out as they went in."""
    squares = np.einsum("gii->gi", moments.scatters)
    return count_alike(moments.counts, moments.means, squares)


def count_alike(counts: Ints, means: Floats, squares: Floats) -> int:
    """Count groups of two or more identical records; ``squares`` are sums about the mean."""
    rounding = (1e-12 * (1.0 + np.abs(means))) ** 2
    alike = (squares / counts[:, None] <= rounding).all(axis=1)
    return int((alike & (counts > 1)).sum())


def _factors(scatters: Floats, counts: Ints) -> Floats:
    """Return matrices F with F'F = covariance, (g, d, d); rows are eigenvectors times
    deviations.
    """
    values, vectors = np.linalg.eigh(scatters / counts[:, None, None])
    dimensions = values.shape[1]
    # n records span n - 1 dimensions: what eigh shows beyond that, or below its own rounding
    # (negative values too), is zero
    noise = 4 * dimensions * np.finfo(float).eps * np.maximum(values[:, -1:], 0.0)
    beyond = np.arange(dimensions)[::-1] >= (counts - 1)[:, None]
    values[(values <= noise) | beyond] = 0.0
    return (vectors * np.sqrt(values)[:, None, :]).transpose(0, 2, 1)


def _draw(
    factors: Floats, size: int, distribution: str, exact: bool, rng: np.random.Generator
) -> Floats:
    """Draw deviations from the mean for groups of one size, (groups, size, d)."""
    shape = (len(factors), size, factors.shape[2])
    if distribution == "normal":
        coordinates = rng.standard_normal(shape)
    else:
        coordinates = rng.random(shape)
        coordinates -= 0.5
        coordinates *= np.sqrt(12.0)
    if exact:
        coordinates = _standardised(coordinates, factors)
    return coordinates @ factors


def _place(drawn: Floats, starts: Ints, matrix: Floats) -> None:
    """Write the records of some groups where their rows begin."""
    groups, size, dimensions = drawn.shape
    if starts[-1] - starts[0] == (groups - 1) * size:  # neighbours: one block
        matrix[starts[0] : starts[0] + groups * size] = drawn.reshape(-1, dimensions)
    else:
        matrix[starts[:, None] + np.arange(size)] = drawn


def _standardised(coordinates: Floats, factors: Floats) -> Floats:
    """Return the nearest coordinates whose mean is 0 and whose covariance is 1, in each group.

    Nearest by the polar decomposition, over the dimensions that the group spans.
    """
    spanned = (factors != 0).any(axis=2)
    coordinates = coordinates * spanned[:, None, :]
    coordinates -= coordinates.mean(axis=1, keepdims=True)
    left, _, right = np.linalg.svd(coordinates, full_matrices=False)
    return np.sqrt(coordinates.shape[1]) * (left @ right)


def _require_rank(factors: Floats, sizes: Ints) -> None:
    ranks = (factors != 0).any(axis=2).sum(axis=1)
    short = int(((sizes > 0) & (sizes <= ranks)).sum())
    if short:
        raise DataError(
            f"exact moments need more records than dimensions spanned, but {short} groups would "
            "emit fewer: draw as many records as were condensed (n_samples=None) or more, or "
            "set exact_moments=False"
        )


def _refuse_copies(factors: Floats, held: Ints, sizes: Ints) -> None:
    """Refuse groups of two different records, the only two with their mean and covariance."""
    differ = (factors != 0).any(axis=(1, 2))
    copied = int((differ & (held == 2) & (sizes == 2)).sum())
    if copied:
        raise PrivacyError(
            f"{copied} groups have two records, and two records with exactly their mean and "
            "covariance are these records themselves: ask for groups of at least 3, or set "
            "exact_moments=False"
        )


def _batches(sizes: Ints, dimensions: int) -> Iterator[Ints]:
    """Yield groups of equal size, as many at a time as fit into memory."""
    for size in np.unique(sizes[sizes > 0]).tolist():
        same = np.flatnonzero(sizes == size)
        step = max(1, _CELLS // (size * dimensions))
        yield from (same[first : first + step] for first in range(0, len(same), step))


# Only a measurement needs pairs (paper 001's interval): they live as long as it does, and a fitted
# condenser keeps neither groups nor records.
class Pairs:
    """Watches a fit and draws one pseudo-record for each record, at random within its group.

    Standardised columns, so that classes and parts of a table can be looked at together.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._originals: list[Floats] = []
        self._released: list[Floats] = []

    def __call__(self, matrix: Floats, groups: Ints, moments: GroupMoments) -> None:
        released, released_groups = synthesize(moments, self._rng)
        shuffled = self._rng.permutation(len(groups))
        order = shuffled[np.argsort(groups[shuffled], kind="stable")]
        self._originals.append(matrix[order])
        self._released.append(released[np.argsort(released_groups, kind="stable")])

    def together(self) -> tuple[Floats, Floats]:
        """Return all records and, row by row, their counterparts."""
        return np.concatenate(self._originals), np.concatenate(self._released)


def fit_paired(
    condenser: Any, X: Any, y: Any, levels: Any, rng: np.random.Generator
) -> Pairs | None:
    """Fit a condenser and pair its records; None for a stream, which has no list of members."""
    if hasattr(condenser, "partial_fit"):
        condenser.fit(X, y, levels)
        return None
    pairs = Pairs(rng)
    condenser._fit(X, y, levels, watch=pairs)
    return pairs
