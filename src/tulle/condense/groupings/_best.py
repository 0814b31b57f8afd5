"""The search for the best groups that a time budget allows.

Starts from the default grouping and improves it by ruin and recreate with cooling. The plan of
work follows from the size of the input and the budget alone, at a speed that usual machines
exceed: there a seed and a budget always give the same groups. The clock only cuts the work short
on a slow or busy machine, as Ctrl-C does. The search cools down several times, each time for
longer, and keeps the best, so that a cut never costs more than what came last.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from tulle import _progress as progress
from tulle._types import Floats, Ints
from tulle.condense.groupings._bench_kernels import MOST, Bench, Chains
from tulle.condense.groupings._fast import kernel_seed, nearest, search_open
from tulle.condense.groupings._repair import set_aside, squared_error
from tulle.condense.groupings._search_kernels import search

BUDGET = 10.0  # seconds, if none is given
LONGEST = 1e9  # seconds: thirty years
PLANNED = 0.35  # share of the budget that the planned work takes on a usual machine
CYCLES = (1, 3, 9)  # how the work is shared among coolings
HOT, COLD = 1.0, 0.05  # first and last temperature, as shares of a record's mean error
CHUNK = 0.1  # seconds between two looks at the clock


def best(
    matrix: Floats, levels: Ints, rng: np.random.Generator, *, time_budget: float | None = None
) -> Ints:
    """Return the grouping with the lowest squared error found within ``time_budget`` seconds of
    search (10 by default).

    The time for the start, which is the default grouping, and for compiling comes on top.
    """
    matrix = np.ascontiguousarray(matrix, dtype=np.float64)
    groups, number = set_aside(matrix, levels)
    rows = np.flatnonzero(groups < 0)
    start = search_open(matrix[rows], levels[rows], rng)
    if start.max() > 0:
        budget = BUDGET if time_budget is None else min(time_budget, LONGEST)
        start = _improved(matrix[rows], levels[rows], start, rng, budget)
    groups[rows] = number + start
    return groups


def _improved(
    matrix: Floats, levels: Ints, start: Ints, rng: np.random.Generator, budget: float
) -> Ints:
    """Return the best of the start and of the end of each cooling."""

    found, first = start, squared_error(matrix, start)
    least = first
    cost = step_seconds(start, matrix.shape[1])
    planned = PLANNED * budget / cost
    with suppress(KeyboardInterrupt), progress.bar("searching", planned) as advance:
        search = GroupingSearch(matrix, levels, start, rng)
        deadline = time.monotonic() + budget
        for share in CYCLES:
            steps = int(planned * share / sum(CYCLES))
            chunk = max(1, round(CHUNK / cost))
            finished = _cool(search, steps, chunk, least / len(matrix), deadline, advance)
            error = squared_error(matrix, search.groups())
            if error < least:
                found, least = search.groups(), error
            advance(0, note=f"loss {100 * least / first:.1f}% of the start's" if first else "")
            if not finished:
                break
    return found


def _cool(
    search: GroupingSearch,
    steps: int,
    chunk: int,
    usual: float,
    deadline: float,
    advance: Callable[..., None],
) -> bool:
    """Run one cooling, chunk by chunk; return false if the clock or the user cut it short.

    ``usual`` is the mean error of a record, by which temperatures are measured.
    """
    chunks = steps // chunk + 1
    done, hot = 0, usual * HOT
    try:
        while done < chunks:
            if time.monotonic() >= deadline:
                return False
            done += 1
            cold = usual * HOT * (COLD / HOT) ** (done / chunks)
            search.run(min(chunk, steps), hot, cold)
            steps -= min(chunk, steps)
            hot = cold
            advance(chunk)
    except KeyboardInterrupt:
        return False
    return True


def step_seconds(groups: Ints, d: int) -> float:
    """Estimate the seconds per step on a usual machine: the square of the records taken apart."""
    sizes = np.bincount(groups)
    records = min(4.5 * float(sizes[groups].mean()), 150.0)
    return 1.5e-6 + 1e-8 * records**2 * (1.0 + 0.1 * d)


# The state of the search for the best groups, around its kernels.

NEAR, MOST_NEAR = 12, 60  # records from which a walk to other groups goes on
ROOM, MOST_ROOM = 120, 2_000  # records that are taken apart together, at least and at most


class GroupingSearch:
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
        """Run some steps while the temperature falls."""
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
        """Return the group of each record."""
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
