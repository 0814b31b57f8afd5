"""Refinement of small inputs with NumPy alone, so that nobody waits for a compiler.

Groups that are near each other are matched at random into disjoint pairs; all pairs then take
their best exchange at once. With D the squared distances inside a pair of groups and S_A(x) the
sum of D from x to the members of A, the gain of

* swapping x in A with y in B is (S_A(x) - S_A(y) + D) / |A| + (S_B(y) - S_B(x) + D) / |B|,
* moving a member changes the error of each group, which is the sum of its D over twice its size.

At a temperature above zero the exchange is drawn with probability exp(gain / temperature)
against staying (heat bath), which leads out of poor local optima.
"""

from __future__ import annotations

import numpy as np

from tulle.condense.groupings._dissolving import restructure
from tulle.condense.groupings._padded import NEAR, PaddedGroups, nearest_rows
from tulle.condense.groupings._trading import trade_all
from tulle.condense.groupings.repair import squared_error
from tulle.moments import Floats, Ints

HOT, COLD = 0.8, 0.03  # first and last temperature, as shares of a record's mean error
ROUNDS = 600  # of cooling from there; fewer begin colder
ENOUGH = 60  # rounds for each group: beyond, a few groups only move to and fro
GREEDY = 30


def refine_small(matrix: Floats, levels: Ints, groups: Ints, rng: np.random.Generator) -> Ints:
    """A grouping with at most the error of the valid one that came: cooling, then greedy rounds.

    Large groups trade first: a start that is far off would lose groups to be dissolved that it
    never gets back.
    """
    if groups.max() == 0:
        return groups
    state = PaddedGroups(matrix, levels, groups)
    trade_all(state)
    groups = state.labels()
    before = squared_error(matrix, groups)
    neighbours = nearest_rows(matrix, NEAR)
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
    """Small groups need more rounds, few groups fewer; large inputs pay more for each."""
    rounds = np.clip(2000 / level, 100, ROUNDS) * min(2.0, 1500 / n)
    return int(min(rounds, ENOUGH * n / level))


def matched(state: PaddedGroups, neighbours: Ints, rng: np.random.Generator) -> Ints:
    """Disjoint pairs of groups: each proposes that of a record near one of its members.

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
    """The best or a drawn exchange in every pair; pairs of about the same size at a time."""
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
    """Gains of all swaps (width x width), then of moves out and back, in one row for each pair.

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
    """Gains of moving each member of the first group of a pair to the second.

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
    """Swaps and moves members; ``chosen`` counts as the gains of :func:`pair_gains` lie."""
    squares = width * width
    swap = chosen < squares
    a, b = pairs[swap].T
    x, y = np.divmod(chosen[swap], width)
    state.members[a, x], state.members[b, y] = state.members[b, y], state.members[a, x]
    for first, low in ((0, squares), (1, squares + width)):
        moved = (chosen >= low) & (chosen < low + width)
        source, target = pairs[moved, first], pairs[moved, 1 - first]
        state.add(target, state.remove(source, chosen[moved] - low))
