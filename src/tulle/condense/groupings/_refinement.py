"""Refinement of the groups of small inputs with NumPy alone, so that nobody waits for a compiler.

Groups are rows of members of one width, so that NumPy treats many of them at once. Those near each
other are matched at random into disjoint pairs; all pairs then take their best exchange at once.
With D the squared distances inside a pair of groups and S_A(x) the sum of D from x to the members
of A, the gain of swapping x in A with y in B is (S_A(x) - S_A(y) + D) / |A| + (S_B(y) - S_B(x) + D)
/ |B|; moving a member changes the error of each group, which is the sum of its D over twice its
size. At a temperature above zero the exchange is drawn with probability exp(gain / temperature)
against staying (heat bath), which leads out of poor local optima.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tulle._types import Floats, Ints
from tulle.condense.groupings._repair import squared, squared_error

_NEAR = 10  # records near a record, groups near a group


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
        lists = np.repeat(np.arange(len(self.sizes))[:, None], _NEAR, axis=1)
        nearest = nearest_rows(self.centres()[alive], _NEAR)
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
    neighbours = nearest_rows(matrix, _NEAR)
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
