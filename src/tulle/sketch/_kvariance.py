"""k-variance anonymity: the number of components of a record, from its k nearest neighbours.

For a record i and a neighbour j the standard deviation of the estimated dot product, which uses
min(m_i, m_j) components, must reach a bound:

``definition``  sqrt(|x_i||x_j| - |x_i.x_j|), Definition 3 as printed; depends on the scale.
``gap``         |x_i||x_j| - |x_i.x_j|, the prose below it: the estimate cannot tell the neighbour
                from a record that points the same way. Free of scale; on counts much stricter.

So every pair limits min(m_i, m_j) to V / bound², V being the exact variance for one component.
Records are taken outliers first, and each gets the largest m that its pairs allow given the
others, until nothing changes. Two defects of the printed algorithm are repaired: a pair counts for
both its records, so that a later pass cannot break it; and no record gets more components than the
largest limit among its own pairs, or a record whose neighbours are all short would have no limit.
A pair of records with equal directions has no limit, so it does not count there: one duplicate
would otherwise free a record from all its other neighbours.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tulle.sketch._neighbours import Graph
from tulle.sketch._pairs import row_squares, variance_and_bound

CRITERIA = ("definition", "gap")
_SMALL = 20_000  # records up to which the plain loop is fast enough
_BLOCK = 32_768  # records whose pairs are looked at together
_NO_LIMIT = np.iinfo(np.int32).max

Limits = npt.NDArray[np.int64]


class Pairs(NamedTuple):
    """For each record i and its neighbours j: variance for one component, and squared bound."""

    neighbours: npt.NDArray[np.int32]
    variance: npt.NDArray[np.float64]
    squared_bound: npt.NDArray[np.float64]


def pairs_of(matrix: Any, graph: Graph, criterion: str) -> Pairs:
    """The directed pairs of the graph, with all that the condition needs."""
    rows = matrix.astype(np.float64)
    squares = row_squares(rows)
    variance, bound = np.empty((2, *graph.neighbours.shape))
    for start in range(0, len(squares), _BLOCK):
        block = slice(start, start + _BLOCK)
        some = rows[block]
        for place, others in enumerate(graph.neighbours[block].T):
            products = squares[block] * squares[others]
            found = variance_and_bound(some, rows[others], products, criterion)
            variance[block, place], bound[block, place] = found
    return Pairs(graph.neighbours, variance, bound)


def limits_of(pairs: Pairs) -> Limits:
    """The largest min(m_i, m_j) that each pair allows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        limits = np.floor(pairs.variance / pairs.squared_bound)
    limits[pairs.squared_bound == 0] = _NO_LIMIT
    whole = np.minimum(limits, _NO_LIMIT).astype(np.int64)
    # division rounds: the promise is (variance / m >= bound²), so it is tested as it stands
    broken = (whole < _NO_LIMIT) & (pairs.variance < whole * pairs.squared_bound)
    return whole - broken


def k_variance_lengths(pairs: Pairs, similarity: Any, most: Limits) -> Limits:
    """Components of each record, at most ``most[i]``; 0 means that it must be suppressed.

    ``similarity[i]`` is the cosine of record i and its k-th neighbour: the least similar first.
    """
    limits = limits_of(pairs)
    lengths = np.minimum(own_caps(limits), most)
    order = np.argsort(similarity, kind="stable")
    starts, others, both = _both_directions(pairs.neighbours, limits)
    if len(order) <= _SMALL:
        settle(order, starts, others, both, lengths.copy(), lengths)
    else:
        from tulle.sketch._kernels import settle_lengths

        settle_lengths(order, starts, others, both, lengths.copy(), lengths)
    return lengths


def own_caps(limits: Limits) -> Limits:
    """The largest limit among each record's own pairs that have one."""
    caps = np.where(limits < _NO_LIMIT, limits, -1).max(axis=1)
    return np.where(caps < 0, _NO_LIMIT, caps)


def settle(
    order: Any, starts: Any, others: Any, limits: Any, caps: Limits, lengths: Limits
) -> None:
    """Passes over the records until no length changes; the twin of the kernel."""
    changed = True
    while changed:
        changed = False
        for record in order.tolist():
            span = slice(starts[record], starts[record + 1])
            binding = limits[span][lengths[others[span]] > limits[span]]
            largest = min(int(caps[record]), int(binding.min(initial=_NO_LIMIT)))
            changed |= largest != lengths[record]
            lengths[record] = largest


def broken_pairs(pairs: Pairs, lengths: Limits) -> int:
    """How many directed pairs of released records break the condition."""
    common = np.minimum(lengths[:, None], lengths[pairs.neighbours])
    return int(np.sum((common > 0) & (pairs.variance < common * pairs.squared_bound)))


def _both_directions(neighbours: Any, limits: Limits) -> tuple[Any, Any, Any]:
    """Compressed rows: the pairs of each record, as first and as second."""
    n, k = neighbours.shape
    first = np.repeat(np.arange(n, dtype=np.int32), k)
    second = neighbours.reshape(-1)
    ends = np.concatenate([first, second])
    order = np.argsort(ends, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n))])
    others = np.concatenate([second, first])[order]
    return starts, others, np.concatenate([limits.reshape(-1).astype(np.int32)] * 2)[order]
