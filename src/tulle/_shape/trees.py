"""Trees whose leaves hold at least so many people, drawn from instead of predicted with.

A tree says how the cells of one column are distributed, given the cells of the columns before.
Splits are borders between cells, so a threshold is never one person's value; a leaf keeps how
often each cell occurs among its people and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tulle._shape.cells import Cells
from tulle._shape.diversity import Diversity, tally
from tulle._types import Floats, Ints

MOST_CELLS = 256  # of a column that trees split on
FEW = 50_000  # rows for which NumPy is fast enough not to wait for a compiler


@dataclass(frozen=True)
class Tree:
    """The distribution of a column's cells, given those of other columns."""

    split: Ints  # (nodes,), the column that a node splits on, -1 in a leaf
    goes_left: NDArray[np.uint8]  # (nodes, 32), one bit for each cell
    left: Ints  # the node that follows is the one on the right
    starts: Ints  # (nodes + 1,), where the cells of each leaf begin
    cells: Ints  # the cells that occur in a leaf
    rises: Ints  # (len(cells) + 1,), running total of how often

    @property
    def smallest(self) -> int:
        """Return how many rows the smallest leaf was made of."""
        ends = np.flatnonzero(np.diff(self.starts))
        sizes = self.rises[self.starts[ends + 1]] - self.rises[self.starts[ends]]
        return int(sizes.min(initial=self.rises[-1]))

    def tallied(self, size: int) -> Floats:
        """Return how often each of so many cells occurs in each leaf, (leaves, cells)."""
        held = np.diff(self.starts)
        counts = np.zeros((len(held), size))
        counts[np.repeat(np.arange(len(held)), held), self.cells] = np.diff(self.rises)
        return counts[held > 0]

    def leaves(self, features: NDArray[np.uint8]) -> Ints:
        """Return the leaf that each row ends in, as the number of its node."""
        if len(self.split) == 1:
            return np.zeros(len(features), dtype=np.int64)
        from tulle._shape._kernels import follow

        leaves: Ints = follow(np.ascontiguousarray(features), self.split, self.goes_left, self.left)
        return leaves

    def draw(self, leaves: Ints, rng: np.random.Generator) -> Ints:
        """Return a cell for each row from its leaf: the rows of a leaf get its cells evenly."""
        first, last = self.rises[self.starts[leaves]], self.rises[self.starts[leaves + 1]]
        level = _even(leaves, len(self.split), rng)
        member = first + np.floor(level * (last - first)).astype(np.int64)
        if len(self.split) == 1 or len(leaves) <= FEW:
            place = np.searchsorted(self.rises, member, side="right") - 1
            place = np.minimum(place, self.starts[leaves + 1] - 1)
        else:
            from tulle._shape._kernels import pick

            place = pick(self.rises, self.starts, leaves, member)
        return self.cells[np.minimum(place, len(self.cells) - 1)]


def fit_tree(
    features: NDArray[np.uint8],
    sizes: Ints,
    ordered: NDArray[np.bool_],
    target: Cells,
    cells: Ints,
    people: Floats,
    least: int,
    rng: np.random.Generator | None = None,
    demand: Diversity | None = None,
    most: int | None = None,
) -> Tree:
    """Grow a tree for the cells of a column, on the cells of others.

    Parameters
    ----------
    features : ndarray (n, p)
        The cells of the columns that are known.
    sizes, ordered : ndarray (p,)
        How many cells these have, and whether they have an order.
    target, cells
        The column to model and the cell of each row.
    people : ndarray (n,)
        What each row counts: 1 over the number of rows of its person.
    least : int
        People in every leaf.
    rng : numpy Generator, optional
        Draws how often each cell occurs in a leaf, once and for all, from how often it does:
        however many rows are drawn from the tree later, they never tell the true totals.
    demand : Diversity, optional
        What the column's values must look like in every leaf: splits that lead to another are
        taken back.
    most : int, optional
        Rows that the tree is grown on, the first ones; its leaves then count all rows.
    """
    if features.shape[1] == 0 or people.sum() < 2 * least:
        leaf = np.zeros(len(cells), dtype=np.int64)
        split, goes_left = np.array([-1]), np.zeros((1, MOST_CELLS), dtype=np.bool_)
        left = np.zeros(1, dtype=np.int64)
    else:
        from tulle._shape._kernels import follow, grow

        states = target.as_states()
        some = slice(most)
        (split, left), goes_left, leaf = grow(
            np.ascontiguousarray(features[some]),
            sizes,
            ordered,
            states[cells[some]],
            int(states.max()) + 1,
            target.order()[cells[some]],
            people[some],
            float(least),
        )
        if len(leaf) < len(cells):
            others = np.ascontiguousarray(features[most:])
            leaf = np.r_[leaf, follow(others, split, np.packbits(goes_left, axis=1), left)]
    whole = np.bincount(cells, minlength=target.size).astype(np.float64)
    if demand is not None:
        split, leaf = _take_back(demand, split, left, leaf, cells, whole)
    if rng is not None:
        cells = _drawn_again(cells, leaf, len(split), rng)
        if demand is not None:  # what is drawn can be less diverse than what it was drawn from
            split, leaf = _take_back(demand, split, left, leaf, cells, whole)
    pairs, counts = _counted(leaf * target.size + cells, len(split) * target.size)
    starts = np.searchsorted(pairs, np.arange(len(split) + 1) * target.size)
    rises = np.r_[0, np.cumsum(counts)]
    packed = np.packbits(goes_left, axis=1)
    return Tree(split, packed, left, starts, pairs % target.size, rises)


def _counted(pairs: Ints, possible: int) -> tuple[Ints, Ints]:
    """Return the different numbers and how often each occurs: counting is faster than sorting."""
    if possible > 16 * len(pairs):
        return np.unique(pairs, return_counts=True)
    counts = np.bincount(pairs)
    found = np.flatnonzero(counts)
    return found, counts[found]


def _take_back(
    demand: Diversity, split: Ints, left: Ints, leaf: Ints, cells: Ints, whole: Floats
) -> tuple[Ints, Ints]:
    """Undo splits until every leaf meets a demand, and return the splits and the rows' leaves.

    Children have higher numbers than their parents, so that going backward is going upward.
    """
    split, counts = split.copy(), tally(leaf, cells)
    nodes, width = counts.shape
    counts = np.pad(counts, ((0, len(split) - nodes), (0, len(whole) - width)))
    end = np.arange(len(split))
    for node in range(len(split) - 1, -1, -1):
        if split[node] < 0:
            continue
        sides = left[node] + np.arange(2)
        counts[node] = counts[sides].sum(axis=0)
        if ((split[sides] < 0) & demand.falls_short(counts[sides], whole)).any():
            split[node] = -1
    for node in range(len(split)):  # downward: whatever hangs below a leaf ends there
        if left[node] and (split[node] < 0 or end[node] != node):
            end[left[node]] = end[left[node] + 1] = end[node]
    return split, end[leaf]


def _drawn_again(cells: Ints, leaf: Ints, nodes: int, rng: np.random.Generator) -> Ints:
    """Return for each row the cell of a row of the same leaf, by lot with replacement."""
    order = _by_leaf(leaf, nodes)
    counts = np.bincount(leaf, minlength=nodes)
    begin = np.cumsum(counts) - counts
    place = begin[leaf] + np.floor(rng.random(len(leaf)) * counts[leaf]).astype(np.int64)
    return cells[order[place]]


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
