"""Condensed groups as the synthesis keeps them: a count and a mean each, and one covariance.

Records are points: the coordinates of their cells. Pseudo-records are drawn about the mean of
their group with a covariance that is shrunk towards the pooled one within groups, here all the
way: a group of ``n`` records has only ``n - 1`` directions of its own, and anyone who knows the
plane that these span knows its records. The pooled covariance rests on everybody.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tulle._types import Floats, Ints


@dataclass(frozen=True)
class CondensedGroups:
    """Groups of at least ``k`` people each, by their statistics."""

    counts: Ints  # (g,), how often pseudo-records belong to each
    means: Floats  # (g, d)
    factor: Floats  # (d, d), its square is the pooled covariance within groups

    def choose(self, n: int, rng: np.random.Generator) -> Ints:
        """Return the group of each of ``n`` pseudo-records, in random order, by their counts."""
        shares = self.counts / self.counts.sum()
        wanted = np.floor(np.cumsum(shares) * n + rng.random())
        wanted[-1] = n
        sizes = np.diff(np.minimum(wanted, n), prepend=0).astype(np.int64)
        return rng.permutation(np.repeat(np.arange(len(sizes)), sizes))

    def draw(self, groups: Ints, rng: np.random.Generator) -> Floats:
        """Return a point for each pseudo-record about the mean of its group."""
        noise = rng.standard_normal((len(groups), len(self.factor)))
        return np.asarray(self.means[groups] + noise @ self.factor)


def condense(
    points: Floats, groups: Ints, rng: np.random.Generator | None = None
) -> CondensedGroups:
    """Keep the statistics of groups; with ``rng``, counts drawn once from the true ones."""
    counts = np.bincount(groups)
    sums = [np.bincount(groups, weights=column) for column in points.T]
    means: Floats = np.stack(sums, axis=1) / counts[:, None]
    inner = points - means[groups]
    values, vectors = np.linalg.eigh(inner.T @ inner / len(points))
    factor = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    if rng is not None:
        counts = rng.multinomial(len(points), counts / len(points))
    return CondensedGroups(counts, means, factor)
