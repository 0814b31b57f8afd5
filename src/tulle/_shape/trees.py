"""Small forests whose leaves hold at least so many people, drawn from instead of predicted with.

A forest says how the cells of one column are distributed, given the cells of the columns before.
Each of its trees is grown on two thirds of the people, and a split must explain several times
what a split of noise would: what only these people show is not learnt. The leaves then count
everybody, and how often each cell occurs in a leaf is drawn by lot, once. Splits are borders
between cells, so a threshold is never one person's value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tulle._people import Owners
from tulle._random import spawn
from tulle._shape.cells import Cells
from tulle._shape.diversity import Diversity, tally
from tulle._types import Flags, Floats, Ints

MOST_CELLS = 256  # of a column that trees split on
FEW = 50_000  # rows that are sorted on one thread
TREES = 10  # of a column; their lots average out, and no person shapes all of them
_GROWN_ON = 2 / 3  # of the people, each tree on others
_EVIDENCE = 3.0, 10.0  # times what a split of noise explains: at least, and at most
_LEAVES = 125  # that a tree could have, for each of these times: more of them try more splits
_OF_SEVERAL = 1.0, 4.0  # where people have several rows: what serves people kept apart is taken
_UNSURE = 3  # times k people: so many or fewer hold a category that is rare
_ROUNDS = 8  # of capping what one person counts


@dataclass(frozen=True)
class Tree:
    """The distribution of a column's cells, given those of other columns."""

    split: Ints  # (nodes,), the column that a node splits on, -1 in a leaf
    goes_left: NDArray[np.uint8]  # (nodes, 32), one bit for each cell
    left: Ints  # the node that follows is the one on the right
    starts: Ints  # (nodes + 1,), where the cells of each leaf begin
    cells: Ints  # the cells that occur in a leaf
    rises: Ints  # (len(cells) + 1,), running total of how often
    fewest: int  # people in a leaf, at least

    def tallied(self, size: int) -> Floats:
        """Return how often each of so many cells occurs in each leaf, (leaves, cells)."""
        held = np.diff(self.starts)
        counts = np.zeros((len(held), size))
        counts[np.repeat(np.arange(len(held)), held), self.cells] = np.diff(self.rises)
        return counts[held > 0]

    def leaves(self, features: NDArray[np.uint8]) -> Ints:
        return leaves_of(features, self.split, self.goes_left, self.left)

    def draw(self, leaves: Ints, rng: np.random.Generator) -> Ints:
        """Return a cell for each row from its leaf: the rows of a leaf get its cells evenly."""
        first, last = self.rises[self.starts[leaves]], self.rises[self.starts[leaves + 1]]
        level = _even(leaves, len(self.split), rng)
        member = first + np.floor(level * (last - first)).astype(np.int64)
        place = np.searchsorted(self.rises, member, side="right") - 1
        place = np.minimum(place, self.starts[leaves + 1] - 1)
        return self.cells[np.minimum(place, len(self.cells) - 1)]


@dataclass(frozen=True)
class Forest:
    """The distribution of a column's cells given others, as the mean of trees."""

    trees: tuple[Tree, ...]

    @property
    def fewest(self) -> int:
        """How many people the smallest leaf holds at least."""
        return min(tree.fewest for tree in self.trees)

    def draw(self, features: NDArray[np.uint8], rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Return a cell for each row from a tree by lot, and the leaf that it came from."""
        n, first = len(features), 0
        cells, leaves = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        turn = rng.permutation(n) % len(self.trees)
        for place, tree in enumerate(self.trees):
            rows = np.flatnonzero(turn == place)
            own = tree.leaves(features[rows])
            cells[rows] = tree.draw(own, rng)
            leaves[rows] = first + own
            first += len(tree.split)
        return cells, leaves


def fit_forest(
    features: NDArray[np.uint8],
    sizes: Ints,
    ordered: Flags,
    target: Cells,
    cells: Ints,
    owners: Owners,
    least: int,
    rng: np.random.Generator,
    *,
    k: int,
    exact: bool = False,
    demand: Diversity | None = None,
    most: int | None = None,
    view: tuple[Ints, Floats] | None = None,
    trees: int = TREES,
    grown_on: float | None = None,
) -> Forest:
    """Grow trees for the cells of a column, on the cells (``features``) of others.

    ``sizes`` says how many cells these have, and ``ordered`` whether they have an order. Every leaf
    holds ``least`` people, and nobody is more than one part in ``k`` of it. ``rng`` chooses who
    each tree is grown on, at most ``most`` rows, and draws how often each cell occurs in a leaf,
    once and for all: however many rows are drawn later, they never tell the true totals. ``exact``
    grows one tree on everybody, whose leaves keep them. Splits that lead to a leaf that does not
    meet the ``demand`` are taken back. ``view`` is what trees see of each cell of the target, a
    state and its place in an order, if not what the cells themselves say.
    """
    features = np.ascontiguousarray(features)
    whole = np.bincount(cells, minlength=target.size).astype(np.float64)
    share = 1.0 if exact else grown_on or _GROWN_ON
    times = _times(cells, target, owners, k, rng)
    seen = (target.as_states(), target.order()) if view is None else view
    grown = partial(
        _grow, features, sizes, ordered, seen, cells, owners, least=least, most=most,
        grown_on=share,
    )  # fmt: skip
    if owners.people is None:
        evidence = float(np.clip(owners.weights.sum() / (2 * k * _LEAVES), *_EVIDENCE))
    else:
        evidence = _of_several(grown, features, cells, owners, share, rng)

    def fitted(own: np.random.Generator) -> Tree:
        split, left, goes_left = grown(evidence=evidence, rng=own)
        leaf = leaves_of(features, split, goes_left, left)
        split, leaf = _hold_enough(split, left, leaf, owners, least)
        if demand is not None:
            split, leaf = _take_back(demand, split, left, leaf, cells, whole)
        held = cells if exact else _drawn_again(cells, leaf, len(split), owners, k, times, own)
        if demand is not None:  # what is drawn can be less diverse than what it was drawn from
            split, leaf = _take_back(demand, split, left, leaf, held, whole)
        return _counted(split, goes_left, left, leaf, held, target.size, owners)

    return Forest(tuple(fitted(own) for own in spawn(rng, 1 if exact else trees)))


def _of_several(
    grown: Callable[..., tuple[Ints, Ints, NDArray[np.uint8]]],
    features: NDArray[np.uint8],
    cells: Ints,
    owners: Owners,
    grown_on: float,
    rng: np.random.Generator,
) -> float:
    """Return the evidence whose tree says best what people hold whom it was not grown on.

    Rows of one person are alike, and how much so nobody knows beforehand: with four times the
    evidence that rows alone would need, long sequences of many people are learnt too coarsely, and
    with once that of a few people too finely.
    """
    seed = int(rng.integers(2**63))
    apart = owners.turns(np.random.default_rng(seed)) >= grown_on
    size, found = int(cells.max(initial=0)) + 1, _OF_SEVERAL[-1]
    if not apart.any() or apart.all() or not features.shape[1]:
        return found
    best, weights, among = -np.inf, owners.weights, ~apart
    overall = np.bincount(cells[among], weights[among], size) / max(weights[among].sum(), 1e-12)
    for evidence in _OF_SEVERAL[::-1]:  # of two that serve alike, the coarser
        own = np.random.default_rng(seed)  # grown on the same people
        split, left, goes_left = grown(evidence=evidence, rng=own)
        leaf = leaves_of(features, split, goes_left, left)
        pairs, place = np.unique(leaf[among] * size + cells[among], return_inverse=True)
        wanted = leaf[apart] * size + cells[apart]
        at = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
        held = np.where(pairs[at] == wanted, np.bincount(place, weights[among])[at], 0.0)
        totals = np.bincount(leaf[among], weights[among], len(split))[leaf[apart]]
        chances = (held + overall[cells[apart]]) / (totals + 1)  # one person more, like all
        told = float(weights[apart] @ np.log(np.maximum(chances, 1e-9)))
        if told > best:
            best, found = told, evidence
    return found


def _grow(
    features: NDArray[np.uint8],
    sizes: Ints,
    ordered: Flags,
    view: tuple[Ints, Floats],
    cells: Ints,
    owners: Owners,
    least: int,
    most: int | None,
    grown_on: float,
    evidence: float,
    rng: np.random.Generator,
) -> tuple[Ints, Ints, NDArray[np.uint8]]:
    """Return the splits of one tree, their left children and which cells go left, in bits."""
    some = np.flatnonzero(owners.turns(rng) < grown_on)[:most]
    several = owners.people is not None
    if owners.people is not None:  # the rows of a person follow each other
        some = some[np.argsort(owners.people[some], kind="stable")]
    chosen = owners.take(some)
    share = chosen.n_people() / max(owners.n_people(), 1)
    # by lot, a tree of a tiny table may be grown on nobody; rows of a person may go both ways
    fewest = (1 if several else 2) * least * share
    if features.shape[1] == 0 or not share or chosen.n_people() < fewest:
        return np.array([-1]), np.zeros(1, np.int64), np.zeros((1, MOST_CELLS // 8), np.uint8)
    from tulle._shape._kernels import grow

    states, ranks = view
    (split, left), goes_left, _ = grow(
        features[some],
        sizes,
        ordered,
        states[cells[some]],
        int(states.max()) + 1,
        ranks[cells[some]],
        chosen.numbered(),
        float(least * share),
        evidence,
        several=several,
    )
    return split, left, np.packbits(goes_left, axis=1)


def leaves_of(
    features: NDArray[np.uint8], split: Ints, goes_left: NDArray[np.uint8], left: Ints
) -> Ints:
    if len(split) == 1:
        return np.zeros(len(features), dtype=np.int64)
    from tulle._shape._kernels import follow

    leaves: Ints = follow(features, split, goes_left, left)
    return leaves


def _hold_enough(
    split: Ints, left: Ints, leaf: Ints, owners: Owners, least: int
) -> tuple[Ints, Ints]:
    """Undo splits that leave fewer people of the whole table than every leaf must hold."""
    split = split.copy()
    if owners.people is None:  # children add up to their parent
        # lists: a step of this loop is a few numbers, and arrays of two are slow
        held = np.bincount(leaf, weights=owners.weights, minlength=len(split)).tolist()
        places, inner = left.tolist(), (split >= 0).tolist()
        for node in range(len(split) - 1, -1, -1):  # children have higher numbers than parents
            if inner[node]:
                first, second = held[places[node]], held[places[node] + 1]
                held[node] = first + second
                if min(first, second) < least:
                    split[node] = -1
        return split, _ends(split, left)[leaf]
    inner = np.flatnonzero(split >= 0)
    parent = np.zeros(len(split), dtype=np.int64)
    parent[left[inner]] = parent[left[inner] + 1] = inner
    while True:
        end = _ends(split, left)
        held = owners.holders(end[leaf], len(split))
        leaves = (end == np.arange(len(split))) & (split < 0)
        small = np.flatnonzero(leaves & (held < least))
        small = small[small > 0]
        if not len(small):
            return split, end[leaf]
        split[parent[small]] = -1


def _take_back(
    demand: Diversity, split: Ints, left: Ints, leaf: Ints, cells: Ints, whole: Floats
) -> tuple[Ints, Ints]:
    """Undo splits until every leaf meets a demand, and return the splits and the rows' leaves."""
    split, counts = split.copy(), tally(leaf, cells)
    nodes, width = counts.shape
    counts = np.pad(counts, ((0, len(split) - nodes), (0, len(whole) - width)))
    for node in range(len(split) - 1, -1, -1):
        if split[node] < 0:
            continue
        sides = left[node] + np.arange(2)
        counts[node] = counts[sides].sum(axis=0)
        if ((split[sides] < 0) & demand.falls_short(counts[sides], whole)).any():
            split[node] = -1
    return split, _ends(split, left)[leaf]


def _ends(split: Ints, left: Ints) -> Ints:
    """Return the leaf in which whatever reached each node ends now that splits were undone."""
    end, places, inner = list(range(len(split))), left.tolist(), (split >= 0).tolist()
    for node, place in enumerate(places):  # downward: whatever hangs below a leaf ends there
        if place and (not inner[node] or end[node] != node):
            end[place] = end[place + 1] = end[node]
    return np.array(end)


def _drawn_again(
    cells: Ints,
    leaf: Ints,
    nodes: int,
    owners: Owners,
    k: int,
    times: Ints,
    rng: np.random.Generator,
) -> Ints:
    """Return for each row the cell of a row of the same leaf, by lot with replacement.

    A row is so many ``times`` among those that are drawn from; in a leaf that nobody would be left
    in, once.
    """
    times = np.where(np.bincount(leaf, times, nodes)[leaf] > 0, times, 1)
    order = _by_leaf(leaf, nodes)
    if owners.people is None:
        order = np.repeat(order, times[order])
        counts = np.bincount(leaf[order], minlength=nodes)
        begin = np.cumsum(counts) - counts
        place = begin[leaf] + np.floor(rng.random(len(leaf)) * counts[leaf]).astype(np.int64)
        return cells[order[place]]
    shares = times * capped(leaf, nodes, owners.people, k)
    totals = np.bincount(leaf, weights=shares, minlength=nodes)
    begin = np.cumsum(totals) - totals
    reached = np.cumsum(shares[order])
    place = np.searchsorted(reached, begin[leaf] + rng.random(len(leaf)) * totals[leaf], "right")
    first = np.searchsorted(leaf[order], np.arange(nodes))  # rounding must not leave the leaf
    last = np.searchsorted(leaf[order], np.arange(nodes), side="right") - 1
    return cells[order[np.clip(place, first[leaf], last[leaf])]]


def _times(cells: Ints, target: Cells, owners: Owners, k: int, rng: np.random.Generator) -> Ints:
    """Return how often each row counts in all trees of a column: once, or by lot never or twice.

    The lots of ten trees average out, which leaves a rare category's total too exact to hide one
    person in. So who holds one of up to ``3 k`` people counts never or twice; the more people hold
    it, the fewer of them.
    """
    if target.ordered:
        return np.ones(len(cells), dtype=np.int64)
    held = np.maximum(owners.holders(cells, target.size), 1)
    part = (np.minimum(1.0, _UNSURE * k / held) / 2)[cells]
    turns = owners.turns(rng)
    return 1 + (turns >= 1 - part).astype(np.int64) - (turns < part)


def capped(leaf: Ints, nodes: int, people: Ints | None, k: int) -> Floats:
    """Return what each row counts in its leaf, so that nobody is more than one part in ``k``."""
    if people is None:
        return np.ones(len(leaf))
    width = int(people.max(initial=0)) + 1
    _, pair, rows = np.unique(leaf * width + people, return_inverse=True, return_counts=True)
    own = rows[pair].astype(float)  # rows of the person in the leaf
    shares = np.ones(len(leaf))
    for _ in range(_ROUNDS):  # what is cut off one makes the part of others larger
        totals = np.bincount(leaf, weights=shares, minlength=nodes)
        shares = np.minimum(shares, totals[leaf] / (k * own))
    totals = np.bincount(leaf, weights=shares, minlength=nodes)
    over = np.bincount(leaf, weights=shares * own * k > totals[leaf] + 1e-6, minlength=nodes)
    return np.where(over[leaf] > 0, 1 / own, shares)


def _counted(
    split: Ints,
    goes_left: NDArray[np.uint8],
    left: Ints,
    leaf: Ints,
    cells: Ints,
    size: int,
    owners: Owners,
) -> Tree:
    """Return the tree with how often each cell occurs in its leaves, without what was undone.

    A survey of 400 columns has 4,000 trees: short numbers halve what they take.
    """
    some = np.flatnonzero(_ends(split, left) == np.arange(len(split)))
    new = np.zeros(len(split), dtype=np.int64)
    new[some] = np.arange(len(some))
    split, left, leaf = split[some], new[left[some]], new[leaf]
    pairs, counts = _tallied(leaf * size + cells, len(split) * size)
    starts = np.searchsorted(pairs, np.arange(len(split) + 1) * size)
    held = owners.holders(leaf, len(split))[split < 0]
    rises = np.r_[0, np.cumsum(counts)]
    return Tree(
        _short(split), goes_left[some], _short(left), _short(starts), _short(pairs % size),
        _short(rises), int(held.min()),
    )  # fmt: skip


def _short(numbers: NDArray[Any]) -> NDArray[Any]:
    return numbers.astype(np.int32)


def _tallied(pairs: Ints, possible: int) -> tuple[Ints, Ints]:
    """Return the different numbers and how often each occurs: counting is faster than sorting."""
    if possible > 16 * len(pairs):
        return np.unique(pairs, return_counts=True)
    counts = np.bincount(pairs)
    found = np.flatnonzero(counts)
    return found, counts[found]


def _even(leaves: Ints, nodes: int, rng: np.random.Generator) -> Floats:
    """Return levels in [0, 1) that lie evenly in each leaf, in random order."""
    order = rng.permutation(len(leaves))
    order = order[_by_leaf(leaves[order], nodes)]
    counts = np.bincount(leaves, minlength=nodes)
    begin = np.cumsum(counts) - counts
    place = np.arange(len(leaves)) - begin[leaves[order]]
    levels = np.empty(len(leaves))
    levels[order] = (place + rng.random(nodes)[leaves[order]]) / counts[leaves[order]]
    return levels


def _by_leaf(leaves: Ints, nodes: int) -> Ints:
    """Return the rows sorted by leaf; NumPy sorts short numbers by counting, many times faster."""
    short = leaves.astype(np.uint16) if nodes <= 2**16 else leaves
    return np.argsort(short, kind="stable")
