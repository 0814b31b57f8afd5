"""The state of the search for the best groups, around its kernels."""

from __future__ import annotations

import numpy as np

from tulle.condense.groupings._bench_kernels import MOST, Bench, Chains
from tulle.condense.groupings._large import kernel_seed, nearest
from tulle.condense.groupings._search_kernels import search
from tulle.moments import Floats, Ints

NEAR, MOST_NEAR = 12, 60  # records from which a walk to other groups goes on
ROOM, MOST_ROOM = 120, 2_000  # records that are taken apart together, at least and at most


class Search:
    """A grouping that :meth:`run` changes by ruin and recreate."""

    def __init__(
        self, matrix: Floats, levels: Ints, groups: Ints, rng: np.random.Generator
    ) -> None:
        count = int(groups.max()) + 1
        spare = count // 10 + 8
        self.matrix, self.levels = matrix, levels
        # beyond the twice as many that a natural cluster may have
        width = int(np.clip(2.5 * float(np.median(levels)), NEAR, MOST_NEAR))
        self.near, _ = nearest(matrix, np.arange(len(matrix)), width, rng)
        self.chains = _chained(groups, count + spare)
        self.free = np.zeros(count + spare, dtype=np.int64)
        self.free[:spare] = np.arange(count, count + spare)
        self.empty = spare
        self.bench = _bench(min(max(ROOM, 4 * int(levels.max())), MOST_ROOM), matrix.shape[1])
        self.least = 1e-11 * (1.0 + float(np.abs(matrix).max()) ** 2)
        self.state = kernel_seed(rng)
        self.run(0, 1.0, 1.0)  # compiles

    def run(self, steps: int, hot: float, cold: float) -> None:
        """Some steps while the temperature falls."""
        self.empty = search(
            self.matrix,
            self.levels,
            self.chains,
            self.near,
            self.bench,
            self.free,
            self.empty,
            steps,
            hot,
            cold,
            self.least,
            self.state,
        )

    def groups(self) -> Ints:
        """The group of each record."""
        return self.chains.group.copy()


def _chained(groups: Ints, room: int) -> Chains:
    order = np.argsort(groups, kind="stable")
    ends = np.append(groups[order][1:] != groups[order][:-1], True)
    after = np.full(len(groups), -1, dtype=np.int64)
    after[order[:-1]] = np.where(ends[:-1], -1, order[1:])
    first = np.full(room, -1, dtype=np.int64)
    first[groups[order[::-1]]] = order[::-1]
    size = np.bincount(groups, minlength=room).astype(np.int64)
    return Chains(first, after, size, groups.astype(np.int64).copy())


def _bench(room: int, d: int) -> Bench:
    def counts(length: int) -> Ints:
        return np.zeros(length, dtype=np.int64)

    return Bench(
        rows=counts(room),
        levels=counts(room),
        before=counts(room),
        label=counts(room),
        points=np.zeros((d, room)),
        apart=np.zeros((room, room)),
        sums=np.zeros((MOST, room)),
        size=counts(MOST),
        need=counts(MOST),
        total=np.zeros(MOST),
        chosen=counts(2 * MOST),
    )
