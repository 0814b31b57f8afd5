"""The default grouping and the best: a good start, improved until little more is gained.

The loss is below MDAV's, in time that grows about linearly. Groups near each other exchange
members; few records are then searched by ruin and recreate with cooling. How much is done depends
on the number of records and their levels only, so that a seed gives the same groups on every
machine; the best grouping searches on for the time that it is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from tulle import _progress as progress
from tulle._threads import cores, in_order
from tulle._types import Floats, Ints
from tulle.condense.groupings._repair import set_aside, squared_error

if TYPE_CHECKING:
    from tulle.condense.groupings._exchange_kernels import GridCells
    from tulle.condense.groupings._search_kernels import Bench, Chains

SMALL = 3_000  # records up to which there is time for a search
MEDIUM = 30_000  # records up to which groups then look wider and longer
LARGE = 200_000  # records beyond which space is cut into cells, each grouped on its own
CELL = 100_000
WIDE, _WIDE_GAIN = 20, 0.01
WEIGHTS = (0.5, 2.0)  # of the column of levels that keeps demanding records together
SAMPLE = 64


def fast(matrix: Floats, levels: Ints, rng: np.random.Generator) -> Ints:
    """Start and exchanges; with levels from several starts, of which the lowest error is kept.

    Neither mixing all levels nor keeping them apart is safe: each can cost twice the other. So
    the start sees one more column, the logarithm of the level, with different weights; and where
    levels fall into tiers far from each other, one start takes each tier apart. The choice among
    them looks at the squared error and at nothing else.
    """
    matrix = np.ascontiguousarray(matrix, dtype=np.float64)
    groups, number = set_aside(matrix, levels)
    if not number:
        return _in_cells(matrix, levels, rng)
    rows = np.flatnonzero(groups < 0)
    groups[rows] = number + _in_cells(matrix[rows], levels[rows], rng)
    return groups


def _in_cells(matrix: Floats, levels: Ints, rng: np.random.Generator) -> Ints:
    """Group many records cell by cell of space, on all cores: borders cost next to nothing.

    Each cell has a seed of its own, so that the number of threads changes nothing.
    """
    if len(matrix) <= LARGE:
        return search_open(matrix, levels, rng)
    rows = np.arange(len(matrix))
    members = np.split(
        rows, _blocks(matrix, rows, max(CELL, 4 * int(levels.max())), 1, 8, rng)[:-1]
    )
    seeds = rng.integers(2**63, size=len(members))

    def work(place: int) -> Ints:
        rows = members[place]
        own = np.random.default_rng(seeds[place])
        return search_open(np.ascontiguousarray(matrix[rows]), levels[rows], own)

    groups, number = np.empty(len(matrix), dtype=np.int64), 0
    for rows, found in zip(members, in_order(work, range(len(members)), cores())):
        groups[rows] = number + found
        number += int(found.max()) + 1
    return groups


def search_open(matrix: Floats, levels: Ints, rng: np.random.Generator) -> Ints:
    """Return the grouping with the lowest error of several starts; for records with few
    duplicates.
    """
    tiers = tiers_of(levels)
    weights = WEIGHTS[-1:] if tiers.any() else WEIGHTS
    column = _level_column(matrix, levels)
    if column is None:
        found = [_grouped(matrix, levels, matrix, rng)]
    else:  # one at a time: each is as large as the matrix
        found = [_grouped(matrix, levels, np.hstack([matrix, w * column]), rng) for w in weights]
    if tiers.any():
        found.append(_apart(matrix, levels, tiers, rng))
    lowest = min(found, key=lambda groups: squared_error(matrix, groups)) if found[1:] else found[0]
    if not SMALL < len(matrix) <= MEDIUM:
        return lowest
    return refined(matrix, levels, lowest, rng, WIDE, _WIDE_GAIN)


def tiers_of(levels: Ints) -> Ints:
    """Return the tier of each record: levels are cut where they more than double.

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


def _apart(matrix: Floats, levels: Ints, tiers: Ints, rng: np.random.Generator) -> Ints:
    """Group each tier separately: often best for a few demanding records among others."""
    groups = np.empty(len(matrix), dtype=np.int64)
    number = 0
    for tier in range(int(tiers.max()) + 1):
        rows = np.flatnonzero(tiers == tier)
        part = np.ascontiguousarray(matrix[rows])
        groups[rows] = number + _grouped(part, levels[rows], part, rng)
        number = int(groups[rows].max()) + 1
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def _grouped(matrix: Floats, levels: Ints, spread: Floats, rng: np.random.Generator) -> Ints:
    """Start where the records lie by ``spread``, and improve the groups."""
    groups = refined(matrix, levels, start(spread, levels, rng), rng)
    return groups if len(matrix) > SMALL else _searched(matrix, levels, groups, rng)


def _level_column(matrix: Floats, levels: Ints) -> Floats | None:
    """Return the column of levels that the starts see, (n, 1); None where all are the same."""
    if (levels == levels[0]).all():
        return None
    step = _usual_reach(matrix, round(float(levels.mean())))
    return np.asarray(step * np.log2(levels)[:, None])


def _usual_reach(matrix: Floats, size: int) -> float:
    """Return the median distance of a sample of records to their ``size``-th nearest record."""
    place = min(size, len(matrix)) - 1
    step = max(1, len(matrix) // SAMPLE)
    reaches = []
    for point in matrix[::step]:
        offsets = matrix - point
        away = np.einsum("ij,ij->i", offsets, offsets)
        reaches.append(np.partition(away, place)[place])
    return float(np.sqrt(np.median(reaches)))


# The start, and exchanges among many records. The outermost records are grouped first, as MDAV
# would: an outlier's true partners are not among the neighbours of a group with its centre in the
# crowd. The rest is cut across its widest direction into blocks, MDAV groups each block, and
# groups near each other exchange members.

BLOCK = 500  # records of a block at least
WORK = 5_000_000  # distances that MDAV may take: as long as it lasts, blocks are larger
PEELED = 0.05  # share of the records that are grouped from outside
OUTER = 0.3  # share among which their partners are looked for
PEEL_WORK = 400  # distances a record while peeling, at most
_NEAR = 9  # groups that may exchange members with a group
FIRST = 4  # groups in the first sweep, when everything is still moving
OUTLYING = 10.0  # times the usual error of a member: groups that reach out, the worst first
REACH_WORK = 100_000_000  # operations that this may take
WHOLE = 1500  # up to this many groups all pairs are compared
LEAF, TREES = 40, 2  # beyond, those that share a leaf of some random trees
_SWEEPS = 20
_SMALLEST_GAIN = 0.05  # a sweep that gains less than this share of the first is the last


def start(matrix: Floats, levels: Ints, rng: np.random.Generator) -> Ints:
    """Build a valid grouping: peeled from outside, cut into blocks, MDAV in each."""
    from tulle.condense.groupings._start_kernels import mdav_block

    groups, number = _peel(matrix, levels)
    rows = np.flatnonzero(groups < 0)
    unit = int(levels[0]) if (levels == levels[0]).all() else 1
    affordable = int(WORK * levels.mean() / len(levels))
    ends = _blocks(matrix, rows, max(BLOCK, 4 * int(levels.max()), affordable), unit, 8, rng)
    for low, high in zip([0, *ends[:-1]], ends):
        block = rows[low:high]
        columns = np.ascontiguousarray(matrix[block].T)
        number = mdav_block(columns, levels[block], block.copy(), number, groups)
    return groups


def _peel(matrix: Floats, levels: Ints) -> tuple[Ints, int]:
    from tulle.condense.groupings._start_kernels import peel

    n = len(matrix)
    groups = np.full(n, -1, dtype=np.int64)
    if n < 8 * int(levels.max()):
        return groups, 0
    offsets = matrix - matrix.mean(axis=0)
    radii = np.sqrt(np.einsum("ij,ij->i", offsets, offsets))
    outer = np.flatnonzero(radii >= np.quantile(radii, 1.0 - OUTER))
    order = outer[np.argsort(-radii[outer], kind="stable")]
    columns = np.ascontiguousarray(offsets[order].T)
    peeled = np.full(len(order), -1, dtype=np.int64)
    number = peel(columns, radii[order], levels[order], int(PEELED * n), PEEL_WORK * n, peeled)
    groups[order] = peeled
    return groups, int(number)


def _blocks(
    points: Floats, rows: Ints, leaf: int, unit: int, rounds: int, rng: np.random.Generator
) -> Ints:
    """Reorder the rows into blocks and return the end of each."""
    from tulle.condense.groupings._start_kernels import cut_blocks

    ends = np.empty(len(rows) // leaf + 2, dtype=np.int64)
    return ends[: cut_blocks(points, rows, leaf, unit, rounds, kernel_seed(rng), ends)]


def kernel_seed(rng: np.random.Generator) -> np.ndarray:
    """Return the state of the kernels' generator: one word, not zero."""
    return rng.integers(1, 2**63, size=1, dtype=np.uint64)


def nearest(
    centres: Floats, alive: Ints, width: int, rng: np.random.Generator
) -> tuple[Ints, Floats]:
    """Return the nearest groups of each group with their squared distances, -1 where there are
    none.
    """
    from tulle.condense.groupings._neighbour_kernels import compare_blocks, explore

    near = np.full((len(centres), width), -1, dtype=np.int64)
    far = np.full(near.shape, np.inf)
    if len(alive) <= WHOLE:
        compare_blocks(centres, alive, np.array([len(alive)]), near, far)
        return near, far
    for _ in range(TREES):
        rows = alive.copy()
        ends = _blocks(centres, rows, LEAF, 1, 1, rng)
        compare_blocks(centres, rows, ends, near, far)
    explore(centres, near, far, width)
    return near, far


def _reach_out(cells: GridCells, near: Ints) -> None:
    """Give the worst groups lists of the groups nearest to their members."""
    from tulle.condense.groupings._exchange_kernels import reach_out

    alive = np.flatnonzero(cells.size)
    numbers = np.repeat(alive, cells.size[alive])
    slots = np.arange(len(numbers)) - np.searchsorted(numbers, numbers) + cells.start[numbers]
    errors = np.bincount(numbers, cells.own[slots]) / np.maximum(np.bincount(numbers), 1)
    bad = alive[errors[alive] > OUTLYING * np.median(errors[alive])]
    most = int(REACH_WORK / (len(numbers) * cells.centres.shape[1]))
    reach_out(cells, bad[np.argsort(-errors[bad], kind="stable")[:most]], near)


def refined(
    matrix: Floats,
    levels: Ints,
    groups: Ints,
    rng: np.random.Generator,
    width: int = _NEAR,
    enough: float = _SMALLEST_GAIN,
) -> Ints:
    """Exchange members between groups near each other, and dissolve and split groups."""
    from tulle.condense.groupings._exchange_kernels import restructure, sweep
    from tulle.condense.groupings._neighbour_kernels import explore, relist

    cells = lay_out(matrix, levels, groups)
    near, far = nearest(cells.centres, np.flatnonzero(cells.size), width, rng)
    changed = np.zeros(len(near), dtype=np.int64)
    least = 1e-12 * (1.0 + float(np.abs(matrix).max()) ** 2)
    first = 0.0
    for turn in range(_SWEEPS):
        gain = sweep(cells, near, width if turn else FIRST, changed, turn, least)
        if turn % 3 == 0:
            _reach_out(cells, near)
            empty = np.flatnonzero(cells.size == 0)
            free = np.concatenate([empty, np.empty(len(near) - len(empty), dtype=np.int64)])
            gain += restructure(cells, near, changed, turn, least, free, len(empty))
        first = max(first, gain)
        if gain <= enough * first:
            break
        if turn % 2 == 1:
            relist(cells.centres, cells.size, near, far)
            explore(cells.centres, near, far, width // 2)
    return read_out(cells, len(matrix))


# A grouping laid out for the kernels, and back.


def lay_out(matrix: Floats, levels: Ints, groups: Ints) -> GridCells:
    """Lay out groups with their records together, room to double, and some empty groups to split
    into.
    """
    from tulle.condense.groupings._exchange_kernels import GridCells

    d = matrix.shape[1]
    taken = np.bincount(groups).astype(np.int64)
    spare = len(taken) // 10 + 8
    usual = int(np.median(taken))
    size = np.concatenate([taken, np.zeros(spare, dtype=np.int64)])
    room = np.concatenate([taken, np.full(spare, usual)])
    room *= 2  # a natural cluster may have nearly twice as many members as a group needs
    room += -room % 4  # four are looked at together
    start = np.concatenate([[0], np.cumsum(room)[:-1]]).astype(np.int64)
    order = np.argsort(groups, kind="stable")
    group = groups[order]
    member = np.arange(len(order)) - np.repeat(np.cumsum(taken) - taken, taken)
    data = np.zeros(d * int(room.sum()))
    centres = np.zeros((len(size), d))
    away = np.zeros(len(order))
    first = d * start[group] + member
    for j in range(d):
        column = matrix[order, j]
        data[first + j * room[group]] = column
        centres[: len(taken), j] = np.bincount(group, column) / taken
        away += (column - centres[group, j]) ** 2
    rows = np.full(int(room.sum()), -1, dtype=np.int64)
    rows[start[group] + member] = order
    demands = np.zeros(len(rows), dtype=np.int64)
    demands[start[group] + member] = levels[order]
    need = np.zeros(len(size), dtype=np.int64)
    np.maximum.at(need, group, levels[order])
    own = np.zeros(len(rows))
    own[start[group] + member] = away
    scratch = np.empty((3, int(room.max())))
    return GridCells(data, rows, demands, start, room, size, need, centres, own, scratch)


def read_out(cells: GridCells, n: int) -> Ints:
    """Return the group of each record, numbered without gaps."""
    groups = np.empty(n, dtype=np.int64)
    alive = np.flatnonzero(cells.size)
    size = cells.size[alive]
    slots = np.repeat(cells.start[alive] - (np.cumsum(size) - size), size) + np.arange(n)
    groups[cells.rows[slots]] = np.repeat(np.arange(len(alive)), size)
    return groups


# The search: a few groups near each other are taken apart and their records grouped again.
# Temperatures are measured by the mean error of a record.

HOT, COLD = 1.0, 0.05  # first and last temperature
STAGES = 20  # of cooling, for few records
VISITS, FEWEST_VISITS, MOST_VISITS = 800, 6, 40  # steps for a group, times the highest level

NEAR, MOST_NEAR = 12, 60  # records from which a walk to other groups goes on
ROOM, MOST_ROOM = 120, 2_000  # records that are taken apart together, at least and at most


def _searched(matrix: Floats, levels: Ints, groups: Ints, rng: np.random.Generator) -> Ints:
    """Search for better groups of few records, large ones for a shorter time: they cost more."""
    if groups.max() == 0:
        return groups
    before = squared_error(matrix, groups)
    visits = np.clip(VISITS / levels.max(), FEWEST_VISITS, MOST_VISITS)
    steps = int(visits * len(matrix) / levels.mean()) // STAGES + 1
    search = GroupingSearch(matrix, levels, groups, rng)
    temperatures = before / len(matrix) * np.geomspace(HOT, COLD, STAGES + 1)
    for hot, cold in zip(temperatures[:-1].tolist(), temperatures[1:].tolist()):
        search.run(steps, hot, cold)
    found = search.groups()
    return found if squared_error(matrix, found) < before else groups


class GroupingSearch:
    """A grouping that :meth:`run` changes by ruin and recreate."""

    def __init__(
        self, matrix: Floats, levels: Ints, groups: Ints, rng: np.random.Generator
    ) -> None:
        from tulle.condense.groupings._search_kernels import search

        self.search = search
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
        self.bench = _bench(min(max(ROOM, 3 * int(levels.max())), MOST_ROOM), matrix.shape[1])
        self.least = 1e-11 * (1.0 + float(np.abs(matrix).max()) ** 2)
        self.state = kernel_seed(rng)
        self.run(0, 1.0, 1.0)  # compiles

    def run(self, steps: int, hot: float, cold: float) -> None:
        """Run some steps while the temperature falls."""
        self.empty = self.search(
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
        return self.chains.group.copy()


def _chained(groups: Ints, room: int) -> Chains:
    from tulle.condense.groupings._search_kernels import Chains

    order = np.argsort(groups, kind="stable")
    ends = np.append(groups[order][1:] != groups[order][:-1], True)
    after = np.full(len(groups), -1, dtype=np.int64)
    after[order[:-1]] = np.where(ends[:-1], -1, order[1:])
    first = np.full(room, -1, dtype=np.int64)
    first[groups[order[::-1]]] = order[::-1]
    size = np.bincount(groups, minlength=room).astype(np.int64)
    return Chains(first, after, size, groups.astype(np.int64).copy())


def _bench(room: int, d: int) -> Bench:
    from tulle.condense.groupings._search_kernels import MOST, Bench

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


# The best groups that a time budget allows: the default grouping, cooled again and again. The plan
# of work follows from the size of the input and the budget alone, at a speed that usual machines
# exceed: there a seed and a budget always give the same groups. The clock only cuts the work short
# on a slow or busy machine, as Ctrl-C does. Each cooling takes longer than the one before, and the
# best end is kept, so that a cut never costs more than what came last.

BUDGET = 10.0  # seconds, if none is given
LONGEST = 1e9  # seconds: thirty years
PLANNED = 0.35  # share of the budget that the planned work takes on a usual machine
CYCLES = (1, 3, 9)  # how the work is shared among coolings
PAUSE = 0.1  # seconds between two looks at the clock


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
            chunk = max(1, round(PAUSE / cost))
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
