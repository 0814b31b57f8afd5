"""The groups of a stream: growing arrays of count, mean, scatter and levels.

One row per group, in order of creation; a group's number never changes, which makes "the oldest of
equally near groups" a definition that does not depend on any index. The scatter (sum of outer
products about the mean) is symmetric, so only its upper triangle is kept, row by row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tulle._moments import GroupMoments
from tulle._types import Floats, Ints
from tulle.table._codecs import Affine

UNPUBLISHED = -1
# A covariance is squared so often to find its longest axis, or until this much of it lies there.
SQUARINGS = 32  # enough for eigenvalues that differ by a billionth
CONVERGED = 1.0 - 1e-8  # the other eigenvalues are below 1e-8 now, 1e-16 after this squaring
_LINE = 8  # whole numbers in a line of the cache


class Scaling(NamedTuple):
    """The natural units of encoded columns, and the standard ones in which groups are kept."""

    location: Floats  # (d,)
    scales: Floats  # (d,)

    @classmethod
    def standard_ones(cls, dimensions: int) -> Scaling:
        return cls(np.zeros(dimensions), np.ones(dimensions))

    def standard(self, rows: Floats) -> Floats:
        """Return records in natural units as the groups see them."""
        standard: Floats = (rows - self.location) / self.scales
        return standard

    def natural(self, records: Floats) -> Floats:
        return records * self.scales + self.location

    def way(self, natural: Affine, new: Scaling) -> Affine:
        """Convert a map between natural units to one between the standard ones."""
        shift = self.location @ natural.linear + natural.shift - new.location
        return Affine(self.scales[:, None] * natural.linear / new.scales, shift / new.scales)


class GroupArrays(NamedTuple):
    """The arrays themselves, as the kernels see them; rows beyond the size are spare."""

    counts: Ints  # (capacity,)
    people: Ints  # (capacity,), different people at least; the counts, unless people have several
    means: Floats  # (capacity, d)
    scatters: Floats  # (capacity, d (d + 1) / 2), upper triangles
    levels: Ints  # (capacity,), the largest level that ever joined
    level_sums: Ints  # (capacity,), the paper's Ps
    families: Ints  # (capacity,), the published group a group descends from


class StreamGroups:
    """A list of groups that grows by doubling; all statistics in standardised units."""

    def __init__(self, dimensions: int, capacity: int = 64) -> None:
        self.dimensions = dimensions
        self.size = 0
        self.arrays = _empty(dimensions, capacity)

    def __len__(self) -> int:
        return self.size

    @property
    def capacity(self) -> int:
        return len(self.arrays.counts)

    def reserve(self, wanted: int) -> None:
        """Grow the arrays, at least twofold, until ``wanted`` groups fit."""
        if wanted <= self.capacity:
            return
        larger = _empty(self.dimensions, max(wanted, 2 * self.capacity))
        for new, old in zip(larger, self.arrays, strict=True):
            new[: self.size] = old[: self.size]
        self.arrays = larger

    def append(self, moments: GroupMoments, people: Ints | None = None) -> None:
        """Add finished groups, not yet part of any published snapshot.

        ``people`` are fewer than the records where people have several.
        """
        first, last = self.size, self.size + len(moments.counts)
        self.reserve(last)
        self.arrays.counts[first:last] = moments.counts
        self.arrays.people[first:last] = moments.counts if people is None else people
        self.arrays.means[first:last] = moments.means
        self.arrays.scatters[first:last] = pack(moments.scatters)
        self.arrays.levels[first:last] = moments.levels
        self.arrays.level_sums[first:last] = moments.level_sums
        self.arrays.families[first:last] = UNPUBLISHED
        self.size = last

    def taken(self, rows: Ints) -> StreamGroups:
        other = StreamGroups(self.dimensions, capacity=max(1, len(rows)))
        other.size = len(rows)
        for new, old in zip(other.arrays, self.arrays, strict=True):
            new[: len(rows)] = old[rows]
        return other

    def extend(self, other: StreamGroups) -> None:
        """Add groups of another list, with the families that it names."""
        first, last = self.size, self.size + len(other)
        self.reserve(last)
        for mine, theirs in zip(self.arrays, other.view(), strict=True):
            mine[first:last] = theirs
        self.size = last

    def moved(self, way: Affine) -> StreamGroups:
        """Return the same groups in other dimensions, of the same families."""
        moments = way.moved(self.moments())
        other = StreamGroups(len(way.shift), capacity=max(64, self.size))
        other.append(moments)
        other.view().families[:] = self.view().families
        return other

    def view(self) -> GroupArrays:
        """Return the rows in use, without copying."""
        return GroupArrays._make(array[: self.size] for array in self.arrays)

    def moments(self) -> GroupMoments:
        used = self.view()
        return GroupMoments(
            used.counts.copy(),
            used.means.copy(),
            unpack(used.scatters, self.dimensions),
            used.levels.copy(),
            used.level_sums.copy(),
        )


def pack(matrices: Floats) -> Floats:
    rows, columns = triangle(matrices.shape[-1])
    return matrices[..., rows, columns]


def unpack(packed: Floats, dimensions: int) -> Floats:
    rows, columns = triangle(dimensions)
    matrices = np.empty((*packed.shape[:-1], dimensions, dimensions))
    matrices[..., rows, columns] = packed
    matrices[..., columns, rows] = packed
    return matrices


def triangle(dimensions: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(dimensions)


def _empty(dimensions: int, capacity: int) -> GroupArrays:
    """Allocate arrays; the whole numbers of a group lie in one line of the processor's cache."""
    entries = dimensions * (dimensions + 1) // 2
    numbers = np.zeros((capacity, _LINE), dtype=np.int64)
    numbers[:, 4] = UNPUBLISHED
    sums = np.zeros((capacity, -(-(dimensions + entries) // _LINE) * _LINE))
    return GroupArrays(
        numbers[:, 0],
        numbers[:, 1],
        sums[:, :dimensions],
        sums[:, dimensions : dimensions + entries],
        numbers[:, 2],
        numbers[:, 3],
        numbers[:, 4],
    )
