"""Statistics of many groups at once: count, mean, scatter, levels.

The scatter is kept about each group's own mean (sum of outer products of the deviations), not as
raw sums of products, which cancel badly for data far from zero. The papers' sums follow from it.
Statistics add up exactly: two halves of the data merge by the pairwise update of Chan.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from tulle._threads import linear_algebra_on_one
from tulle._types import Floats, Ints


@dataclass(frozen=True)
class GroupMoments:
    """Summaries of ``g`` groups in ``d`` dimensions; no record can be read from them."""

    counts: Ints  # (g,)
    means: Floats  # (g, d)
    scatters: Floats  # (g, d, d), sums of outer products about the mean
    levels: Ints  # (g,), the largest level in each group
    level_sums: Ints  # (g,), the papers' Ps

    @classmethod
    def of(cls, matrix: Floats, groups: Ints, levels: Ints) -> GroupMoments:
        """Summarise the rows of ``matrix``; ``groups`` numbers them 0, 1, ... without gaps."""
        order = np.argsort(groups, kind="stable")
        counts = np.bincount(groups).astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
        ordered = matrix[order]
        means = np.add.reduceat(ordered, starts, axis=0) / counts[:, None]
        deviations = ordered - np.repeat(means, counts, axis=0)
        with linear_algebra_on_one:
            scatters = _scatters(deviations, counts, starts)
        return cls(
            counts,
            means,
            scatters,
            np.maximum.reduceat(levels[order], starts).astype(np.int64),
            np.add.reduceat(levels[order], starts).astype(np.int64),
        )

    @property
    def first_sums(self) -> Floats:
        """The papers' Fs, (g, d)."""
        return self.means * self.counts[:, None]

    @property
    def covariances(self) -> Floats:
        """The covariance of each group (divided by n, as in the papers), (g, d, d)."""
        return self.scatters / self.counts[:, None, None]

    @property
    def within(self) -> Floats:
        return np.einsum("gii->i", self.scatters)

    def stacked(self, other: GroupMoments) -> GroupMoments:
        pairs = ((getattr(self, part.name), getattr(other, part.name)) for part in fields(self))
        return GroupMoments(*map(np.concatenate, pairs))

    def merged(self, owners: Ints) -> GroupMoments:
        """Merge the groups of each owner into one; ``owners`` are numbered 0, 1, ... without
        gaps.
        """
        order = np.argsort(owners, kind="stable")
        starts = np.flatnonzero(np.diff(owners[order], prepend=-1))
        counts = np.add.reduceat(self.counts[order], starts)
        means = np.add.reduceat(self.first_sums[order], starts) / counts[:, None]
        offsets = self.means - means[owners]
        weighted = offsets * self.counts[:, None]
        scatters = self.scatters + weighted[:, :, None] * offsets[:, None, :]
        return GroupMoments(
            counts,
            means,
            np.add.reduceat(scatters[order], starts),
            np.maximum.reduceat(self.levels[order], starts),
            np.add.reduceat(self.level_sums[order], starts),
        )

    def without(self, part: GroupMoments) -> GroupMoments:
        """Return what is left of each group when a part of it is taken away; the levels stay."""
        counts = self.counts - part.counts
        means = (self.first_sums - part.first_sums) / counts[:, None]
        here, there = self.means - means, part.means - means
        scatters = self.scatters - part.scatters
        scatters += (here * self.counts[:, None])[:, :, None] * here[:, None, :]
        scatters -= (there * part.counts[:, None])[:, :, None] * there[:, None, :]
        return GroupMoments(counts, means, scatters, self.levels, self.level_sums - part.level_sums)

    def pooled(self) -> GroupMoments:
        """Merge all groups into one: the statistics of the whole data."""
        total = self.counts.sum()
        mean = self.counts @ self.means / total
        offsets = self.means - mean
        between = np.einsum("g,gi,gj->ij", self.counts.astype(float), offsets, offsets)
        return GroupMoments(
            np.array([total], dtype=np.int64),
            mean[None, :],
            (self.scatters.sum(axis=0) + between)[None],
            np.array([self.levels.max()], dtype=np.int64),
            np.array([self.level_sums.sum()], dtype=np.int64),
        )


def _scatters(deviations: Floats, counts: Ints, starts: Ints) -> Floats:
    """Compute scatter matrices by one stacked product per group size: few sizes, no loop over
    groups.
    """
    dimensions = deviations.shape[1]
    scatters = np.empty((len(counts), dimensions, dimensions))
    for size in np.unique(counts):
        of_size = np.flatnonzero(counts == size)
        chunk = max(1, 2_000_000 // max(1, int(size) * dimensions))
        for first in range(0, len(of_size), chunk):
            part = of_size[first : first + chunk]
            rows = starts[part][:, None] + np.arange(size)
            block = deviations[rows]  # (groups, size, d)
            scatters[part] = np.matmul(block.transpose(0, 2, 1), block)
    return scatters
