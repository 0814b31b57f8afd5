"""The default grouping: a good start, then exchanges of members until little is gained.

The loss is below MDAV's, in time that grows about linearly. Small inputs take NumPy alone and
never wait for a compiler; which way is taken depends on the number of records only, so that a
seed gives the same groups on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tulle._threads import cores, in_order
from tulle._types import Floats, Ints
from tulle.condense._cuts import grow_cuts
from tulle.condense.groupings._cell_kernels import Cells
from tulle.condense.groupings._repair import set_aside, squared, squared_error

if TYPE_CHECKING:
    from tulle.condense.groupings._cell_kernels import Cells


SMALL = 3_000  # records up to which NumPy alone is used
MEDIUM = 30_000  # records up to which groups then look wider and longer
LARGE = 200_000  # records beyond which space is cut into cells, each grouped on its own
CELL = 100_000
WIDE, _WIDE_GAIN = 20, 0.01
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
    groups[rows] = number + _in_cells(matrix[rows], levels[rows], rng)
    return groups


def _in_cells(matrix: Floats, levels: Ints, rng: np.random.Generator) -> Ints:
    """Group many records cell by cell of space, on all cores: borders cost next to nothing.

    Each cell has a seed of its own, so that the number of threads changes nothing.
    """
    if len(matrix) <= LARGE:
        return search_open(matrix, levels, rng)
    drawn = matrix[np.sort(rng.choice(len(matrix), LARGE, replace=False))]
    cuts = grow_cuts(drawn, len(matrix), CELL, 4 * int(levels.max()))
    leaves = cuts.locate(matrix)
    highest = np.zeros(cuts.leaves, dtype=np.int64)
    np.maximum.at(highest, leaves, levels)
    cells = cuts.joined(np.bincount(leaves, minlength=cuts.leaves), highest)[leaves]
    order = np.argsort(cells, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(cells[order])) + 1)
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
    spreads = _spreads(matrix, levels, weights)
    group = _grouped_large if len(matrix) > SMALL else _grouped_small
    found = [group(matrix, levels, spread, rng) for spread in spreads]
    if tiers.any():
        found.append(_apart(matrix, levels, tiers, rng, group))
    lowest = min(found, key=lambda groups: squared_error(matrix, groups)) if found[1:] else found[0]
    return _looked_wider(matrix, levels, lowest, rng)


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


def _apart(
    matrix: Floats, levels: Ints, tiers: Ints, rng: np.random.Generator, group: Method
) -> Ints:
    """Group each tier separately: often best for a few demanding records among others."""
    groups = np.empty(len(matrix), dtype=np.int64)
    number = 0
    for tier in range(int(tiers.max()) + 1):
        rows = np.flatnonzero(tiers == tier)
        part = np.ascontiguousarray(matrix[rows])
        groups[rows] = number + group(part, levels[rows], part, rng)
        number = int(groups[rows].max()) + 1
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def _grouped_large(matrix: Floats, levels: Ints, spread: Floats, rng: np.random.Generator) -> Ints:

    return refine_large(matrix, levels, start(spread, levels, rng), rng)


def _looked_wider(matrix: Floats, levels: Ints, groups: Ints, rng: np.random.Generator) -> Ints:
    """Exchange members with more of the groups around, where time does not matter."""

    if not SMALL < len(matrix) <= MEDIUM:
        return groups
    return refine_large(matrix, levels, groups, rng, WIDE, _WIDE_GAIN)


def _grouped_small(matrix: Floats, levels: Ints, spread: Floats, rng: np.random.Generator) -> Ints:
    from tulle.condense.groupings._papers import mdav_small

    return refine_small(matrix, levels, mdav_small(spread, levels), rng)


def _spreads(matrix: Floats, levels: Ints, weights: tuple[float, ...]) -> list[Floats]:
    """Return the records as the starts see them: with level columns of different weight."""
    if (levels == levels[0]).all():
        return [matrix]
    step = _usual_reach(matrix, round(float(levels.mean())))
    column = step * np.log2(levels)[:, None]
    return [np.hstack([matrix, weight * column]) for weight in weights]


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


# Grouping of large inputs with compiled kernels. The outermost records are grouped first, as MDAV
# would: an outlier's true partners are not among the neighbours of a group with its centre in the
# crowd. The rest is cut across its widest direction into blocks, MDAV groups each block, and
# groups near each other exchange members.

BLOCK = 500  # records of a block at least
WORK = 5_000_000  # distances that MDAV may take: as long as it lasts, blocks are larger
PEELED = 0.05  # share of the records that are grouped from outside
OUTER = 0.3  # share among which their partners are looked for
PEEL_WORK = 400  # distances a record while peeling, at most
_NEAR_LARGE = 9  # groups that may exchange members with a group
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


def _reach_out(cells: Cells, near: Ints) -> None:
    """Give the worst groups lists of the groups nearest to their members."""
    from tulle.condense.groupings._restructure_kernels import reach_out

    alive = np.flatnonzero(cells.size)
    numbers = np.repeat(alive, cells.size[alive])
    slots = np.arange(len(numbers)) - np.searchsorted(numbers, numbers) + cells.start[numbers]
    errors = np.bincount(numbers, cells.own[slots]) / np.maximum(np.bincount(numbers), 1)
    bad = alive[errors[alive] > OUTLYING * np.median(errors[alive])]
    most = int(REACH_WORK / (len(numbers) * cells.centres.shape[1]))
    reach_out(cells, bad[np.argsort(-errors[bad], kind="stable")[:most]], near)


def refine_large(
    matrix: Floats,
    levels: Ints,
    groups: Ints,
    rng: np.random.Generator,
    width: int = _NEAR_LARGE,
    enough: float = _SMALLEST_GAIN,
) -> Ints:
    """Exchange members between groups near each other, and dissolve and split groups."""
    from tulle.condense.groupings._exchange_kernels import sweep
    from tulle.condense.groupings._neighbour_kernels import explore, relist
    from tulle.condense.groupings._restructure_kernels import restructure

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


def lay_out(matrix: Floats, levels: Ints, groups: Ints) -> Cells:
    """Lay out groups with their records together, room to double, and some empty groups to split
    into.
    """
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
    for j, column in enumerate(matrix[order].T):
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
    return Cells(data, rows, demands, start, room, size, need, centres, own, scratch)


def read_out(cells: Cells, n: int) -> Ints:
    """Return the group of each record, numbered without gaps."""
    groups = np.empty(n, dtype=np.int64)
    alive = np.flatnonzero(cells.size)
    size = cells.size[alive]
    slots = np.repeat(cells.start[alive] - (np.cumsum(size) - size), size) + np.arange(n)
    groups[cells.rows[slots]] = np.repeat(np.arange(len(alive)), size)
    return groups


# Groups as rows of members of one width, so that NumPy treats many of them at once.

_NEAR_SMALL = 10  # records near a record, groups near a group


class PaddedGroups:
    """Rows of members, padded with the number of a row of zeros."""

    def __init__(self, matrix: Floats, levels: Ints, groups: Ints) -> None:
        n = len(matrix)
        self.nobody = n
        self.points = np.vstack([matrix, np.zeros((1, matrix.shape[1]))])
        self.levels = np.append(levels, 0)
        self.sizes = np.bincount(groups).astype(np.int64)
        order = np.argsort(groups, kind="stable")
        member = np.arange(n) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        self.members = np.full((len(self.sizes), 2 * int(self.sizes.max()) + 2), n)
        self.members[groups[order], member] = order
        self.lowest = int(levels.min())
        self.least = 1e-11 * (1.0 + float(np.abs(matrix).max(initial=0.0)) ** 2)

    def labels(self) -> Ints:
        """Return the group of each record."""
        groups = np.empty(self.nobody + 1, dtype=np.int64)
        groups[self.members] = np.arange(len(self.members))[:, None]
        return groups[:-1]

    def alive(self) -> Ints:
        """Return the groups that have members."""
        return np.flatnonzero(self.sizes)

    def centres(self) -> Floats:
        """Return the mean of each group."""
        widest = int(self.sizes.max())
        sums = self.points[self.members[:, :widest]].sum(axis=1)
        return sums / np.maximum(self.sizes, 1)[:, None]

    def near(self) -> Ints:
        """Return the nearest groups of each group; the group itself where there are too few."""
        alive = self.alive()
        lists = np.repeat(np.arange(len(self.sizes))[:, None], _NEAR_SMALL, axis=1)
        nearest = nearest_rows(self.centres()[alive], _NEAR_SMALL)
        lists[alive, : nearest.shape[1]] = alive[nearest]
        return lists

    def remove(self, groups: Ints, places: Ints) -> Ints:
        """Take one member out of each of some groups; the last one takes its place."""
        last = self.sizes[groups] - 1
        gone = self.members[groups, places]
        self.members[groups, places] = self.members[groups, last]
        self.members[groups, last] = self.nobody
        self.sizes[groups] = last
        return gone

    def add(self, groups: Ints, rows: Ints) -> None:
        """Put one record into each of some groups."""
        self.members[groups, self.sizes[groups]] = rows
        self.sizes[groups] += 1


def nearest_rows(points: Floats, width: int) -> Ints:
    """Return the nearest other rows of each row, in no order; fewer columns if there are fewer
    rows.
    """
    width = min(width, len(points) - 1)
    found = np.empty((len(points), max(width, 0)), dtype=np.int64)
    squares = np.einsum("ij,ij->i", points, points)
    step = max(1, 200_000 // max(points.size, 1))  # products too small to start threads for
    for low in range(0, len(points) if width > 0 else 0, step):
        some = np.arange(low, min(low + step, len(points)))
        apart = squares - 2.0 * points[some] @ points.T
        apart[some - low, some] = np.inf
        found[some] = np.argpartition(apart, width - 1, axis=1)[:, :width]
    return found


# Groups dissolved into others and split in two, for small inputs with NumPy alone. Exchanges keep
# the number of groups; this changes it where that lowers the error.


def restructure(state: PaddedGroups, neighbours: Ints) -> None:
    """Dissolve groups whose members fit better elsewhere, and split those that can be split."""
    near = state.near()
    for group in np.flatnonzero(_dissolving_may_gain(state, near, neighbours)):
        _dissolve(state, int(group), near[group], neighbours)
    needs = state.levels[state.members].max(axis=1)
    for group in np.flatnonzero(state.sizes >= 2 * np.maximum(needs, 1)):
        _split(state, int(group))


def _dissolving_may_gain(state: PaddedGroups, near: Ints, neighbours: Ints) -> NDArray[np.bool_]:
    """Return whether an upper bound of the gain, with every member alone in the best group, is
    positive.

    Members look at the groups near their own and at those of the records near them: the centre
    of a group that bridges two clusters is near neither.
    """
    groups, points = state.labels(), state.points[:-1]
    centres, levels = state.centres(), state.levels[:-1]
    own = points - centres[groups]
    gains = np.einsum("ij,ij->i", own, own)
    cheapest = np.full(len(points), np.inf)
    for host in (*near[groups].T, *groups[neighbours].T):
        size = state.sizes[host]
        away = points - centres[host]
        cost = np.einsum("ij,ij->i", away, away) * (size / (size + 1.0))
        cost[(host == groups) | (size == 0) | (levels > size + 1)] = np.inf
        cheapest = np.minimum(cheapest, cost)
    total = np.bincount(groups, gains - cheapest, minlength=len(state.sizes))
    return (state.sizes > 1) & (total > state.least)


def _dissolve(state: PaddedGroups, group: int, near: Ints, neighbours: Ints) -> None:
    rows = state.members[group, : state.sizes[group]].copy()
    hosts = np.union1d(near, state.labels()[neighbours[rows]])
    hosts = hosts[(hosts != group) & (state.sizes[hosts] > 0)]
    if len(hosts) == 0:
        return
    sizes = state.sizes[hosts].copy()
    centres = state.points[state.members[hosts]].sum(axis=1) / sizes[:, None]
    points = state.points[rows]
    gain = float(((points - points.mean(axis=0)) ** 2).sum())
    chosen = np.empty(len(rows), dtype=np.int64)
    for number, point in enumerate(points):
        cost = ((centres - point) ** 2).sum(axis=1) * sizes / (sizes + 1.0)
        full = sizes >= state.members.shape[1] - 1
        cost[full | (state.levels[rows[number]] > sizes + 1)] = np.inf
        best = int(cost.argmin())
        gain -= float(cost[best])
        if gain <= state.least:
            return
        sizes[best] += 1
        centres[best] += (point - centres[best]) / sizes[best]
        chosen[number] = best
    state.members[group] = state.nobody
    state.sizes[group] = 0
    for row, host in zip(rows, hosts[chosen]):
        state.add(np.array([host]), np.array([row]))


def _split(state: PaddedGroups, group: int) -> None:
    """Split off the member farthest from the mean with its nearest until they are a valid group."""
    empty = np.flatnonzero(state.sizes == 0)
    rows = state.members[group, : state.sizes[group]].copy()
    points = state.points[rows]
    seed = points[((points - points.mean(axis=0)) ** 2).sum(axis=1).argmax()]
    order = rows[((points - seed) ** 2).sum(axis=1).argsort(kind="stable")]
    needs = np.maximum.accumulate(state.levels[order])
    size = int(np.argmax(np.arange(1, len(order) + 1) >= np.maximum(needs, 1))) + 1
    rest = order[size:]
    if len(rest) < max(1, int(state.levels[rest].max(initial=1))):
        return
    if len(empty):
        fresh = int(empty[0])
    else:
        fresh = len(state.sizes)
        row = np.full((1, state.members.shape[1]), state.nobody)
        state.members = np.vstack([state.members, row])
        state.sizes = np.append(state.sizes, 0)
    for target, chosen in ((fresh, order[:size]), (group, rest)):
        state.members[target] = state.nobody
        state.members[target, : len(chosen)] = chosen
        state.sizes[target] = len(chosen)


# Members of large groups traded many at once, for small inputs with NumPy alone. In large groups
# one member hardly moves the mean, and exchanges one by one take more rounds than there are.

MANY = 32  # members of groups that trade
_TRADING_SWEEPS = 10  # over all pairs of groups near each other, at most


def trade_all(state: PaddedGroups) -> None:
    """Trade between large groups near each other, as long as the error falls."""
    large = set(np.flatnonzero(state.sizes >= MANY).tolist())  # swaps leave sizes as they are
    for _ in range(_TRADING_SWEEPS if len(large) > 1 else 0):
        near = state.near()
        pairs = {(min(a, b), max(a, b)) for a in large for b in near[a].tolist()}
        able = [(a, b) for a, b in sorted(pairs) if a != b and {a, b} <= large]
        if not sum(trade(state, a, b) for a, b in able):
            return


def trade(state: PaddedGroups, a: int, b: int) -> int:
    """Swap the members that lean most to the other group, as long as both together gain.

    A swap gains at least what the two lean to each other's group. Returns how many were swapped.
    """
    total = 0
    while True:
        of_a, leans_a = _leaning(state, a, b)
        of_b, leans_b = _leaning(state, b, a)
        most = min(len(of_a), len(of_b))
        count = int((leans_a[:most] + leans_b[:most] > state.least).sum())
        if count == 0:
            return total
        x, y = of_a[:count], of_b[:count]
        state.members[a, x], state.members[b, y] = state.members[b, y], state.members[a, x]
        total += count


def _leaning(state: PaddedGroups, a: int, b: int) -> tuple[Ints, Floats]:
    """Return the members of a that may be in b, nearest to b first, and by how much they lean."""
    rows, others = (state.members[group, : state.sizes[group]] for group in (a, b))
    points = state.points[rows]
    leans = squared(points, points.mean(axis=0))
    leans -= squared(points, state.points[others].mean(axis=0))
    leans[state.levels[rows] > state.sizes[b]] = -np.inf
    order = np.argsort(-leans, kind="stable")
    return order, leans[order]


# Refinement of small inputs with NumPy alone, so that nobody waits for a compiler. Groups that
# are near each other are matched at random into disjoint pairs; all pairs then take their best
# exchange at once. With D the squared distances inside a pair of groups and S_A(x) the sum of D
# from x to the members of A, the gain of * swapping x in A with y in B is (S_A(x) - S_A(y) + D) /
# |A| + (S_B(y) - S_B(x) + D) / |B|, * moving a member changes the error of each group, which is
# the sum of its D over twice its size. At a temperature above zero the exchange is drawn with
# probability exp(gain / temperature) against staying (heat bath), which leads out of poor local
# optima.

HOT, COLD = 0.8, 0.03  # first and last temperature, as shares of a record's mean error
ROUNDS = 600  # of cooling from there; fewer begin colder
_ROUNDS = 60  # rounds for each group: beyond, a few groups only move to and fro
GREEDY = 30


def refine_small(matrix: Floats, levels: Ints, groups: Ints, rng: np.random.Generator) -> Ints:
    """Return a grouping with at most the error of the valid one given: cooling, then greedy rounds.

    Large groups trade first: a start that is far off would lose groups to be dissolved that it
    never gets back.
    """
    if groups.max() == 0:
        return groups
    state = PaddedGroups(matrix, levels, groups)
    trade_all(state)
    groups = state.labels()
    before = squared_error(matrix, groups)
    neighbours = nearest_rows(matrix, _NEAR_SMALL)
    restructure(state, neighbours)
    rounds = _rounds(len(matrix), float(levels.mean()))
    hot = HOT * min(1.0, rounds / ROUNDS)
    for temperature in before / len(matrix) * np.geomspace(hot, COLD, rounds):
        exchange_all(state, matched(state, neighbours, rng), float(temperature), rng)
    for _ in range(2):
        restructure(state, neighbours)
        trade_all(state)
        for _ in range(GREEDY):
            exchange_all(state, matched(state, neighbours, rng), 0.0, rng)
    found = state.labels()
    return found if squared_error(matrix, found) < before else groups


def _rounds(n: int, level: float) -> int:
    """Return the number of rounds: small groups need more, few groups fewer; large inputs pay
    more for each.
    """
    rounds = np.clip(2000 / level, 100, ROUNDS) * min(2.0, 1500 / n)
    return int(min(rounds, _ROUNDS * n / level))


def matched(state: PaddedGroups, neighbours: Ints, rng: np.random.Generator) -> Ints:
    """Return disjoint pairs of groups: each proposes that of a record near one of its members.

    Where proposals meet, the first is kept.
    """
    proposer = rng.permutation(state.alive())
    member = (rng.random(len(proposer)) * state.sizes[proposer]).astype(np.int64)
    record = state.members[proposer, member]
    close = neighbours[record, rng.integers(neighbours.shape[1], size=len(record))]
    partner = state.labels()[close]
    pairs = np.stack([proposer, partner], axis=1)[proposer != partner]
    first = np.empty(len(state.sizes), dtype=np.int64)
    first[pairs[::-1].ravel()] = np.repeat(np.arange(len(pairs))[::-1], 2)
    mine = first[pairs] == np.arange(len(pairs))[:, None]
    return pairs[mine.all(axis=1)]


def exchange_all(
    state: PaddedGroups, pairs: Ints, temperature: float, rng: np.random.Generator
) -> None:
    """Apply the best or a drawn exchange in every pair, pairs of about the same size together."""
    if len(pairs) == 0:
        return
    room = state.members.shape[1]
    pairs = pairs[(state.sizes[pairs] < room).all(axis=1)]
    scale = np.frexp(state.sizes[pairs].max(axis=1).astype(np.float64))[1] // 2
    for size in np.unique(scale):
        some = pairs[scale == size]
        gains, width = pair_gains(state, some)
        if temperature > 0.0:
            drawn = gains / temperature + rng.gumbel(size=gains.shape)
            best = drawn.argmax(axis=1)
            taken = drawn[np.arange(len(some)), best] > rng.gumbel(size=len(some))
        else:
            best = gains.argmax(axis=1)
            taken = gains[np.arange(len(some)), best] > state.least
        apply_exchanges(state, some[taken], best[taken], width)


def pair_gains(state: PaddedGroups, pairs: Ints) -> tuple[Floats, int]:
    """Compute the gains of all swaps (width x width), then of moves out and back, in one row per
    pair.

    Moves are left out where all groups are as small as they may be.
    """
    count, sizes = len(pairs), state.sizes[pairs]
    width = int(sizes.max())
    rows = state.members[pairs, :width].reshape(count, 2 * width)
    there = rows < state.nobody
    points = state.points[rows]
    gram = points @ points.swapaxes(1, 2)
    squares = gram.reshape(count, -1)[:, :: 2 * width + 1]
    apart = squares[:, :, None] + squares[:, None, :] - 2.0 * gram
    sums = (apart * there[:, None, :]).reshape(count, 2 * width, 2, width).sum(axis=3)
    shares = 1.0 / sizes
    lean = np.einsum("pis,ps->pi", sums, shares * (1.0, -1.0))
    swaps = lean[:, :width, None] - lean[:, None, width:]
    swaps += apart[:, :width, width:] * shares.sum(axis=1)[:, None, None]
    levels = state.levels[rows]
    fits = there & (levels <= np.repeat(sizes[:, ::-1], width, axis=1))
    swaps[~(fits[:, :width, None] & fits[:, None, width:])] = -np.inf
    gains = swaps.reshape(count, -1)
    if (sizes <= state.lowest).all():
        return gains, width
    own = np.where(there[:, :width], sums[:, :width, 0], 0.0).sum(axis=1)
    other = np.where(there[:, width:], sums[:, width:, 1], 0.0).sum(axis=1)
    pair_sums = np.stack([own, other], axis=1)
    out = _move_gains(sums[:, :width], pair_sums, sizes, levels[:, :width])
    back = _move_gains(sums[:, width:, ::-1], pair_sums[:, ::-1], sizes[:, ::-1], levels[:, width:])
    return np.concatenate([gains, out, back], axis=1), width


def _move_gains(sums: Floats, pair_sums: Floats, sizes: Ints, levels: Ints) -> Floats:
    """Compute the gains of moving each member of the first group of a pair to the second.

    Minus infinity where the group left behind or the record that joins would be in too small a
    group; padding has level 0.
    """
    own, other = pair_sums.T[:, :, None]
    size, size_other = sizes.T[:, :, None]
    left = np.maximum(size - 1, 1)
    after = (own - 2.0 * sums[:, :, 0]) / left + (other + 2.0 * sums[:, :, 1]) / (size_other + 1)
    gains = 0.5 * (own / size + other / size_other - after)
    top = levels.max(axis=1, keepdims=True)
    is_top = levels == top
    second = np.where(is_top, 0, levels).max(axis=1, keepdims=True)
    alone = is_top & (is_top.sum(axis=1, keepdims=True) == 1)
    rest = np.where(alone, second, top)
    legal = (levels > 0) & (size > 1) & (rest < size) & (levels <= size_other + 1)
    return np.where(legal, gains, -np.inf)


def apply_exchanges(state: PaddedGroups, pairs: Ints, chosen: Ints, width: int) -> None:
    """Swap and move members; ``chosen`` indexes the gains as :func:`pair_gains` lays them out."""
    squares = width * width
    swap = chosen < squares
    a, b = pairs[swap].T
    x, y = np.divmod(chosen[swap], width)
    state.members[a, x], state.members[b, y] = state.members[b, y], state.members[a, x]
    for first, low in ((0, squares), (1, squares + width)):
        moved = (chosen >= low) & (chosen < low + width)
        source, target = pairs[moved, first], pairs[moved, 1 - first]
        state.add(target, state.remove(source, chosen[moved] - low))
