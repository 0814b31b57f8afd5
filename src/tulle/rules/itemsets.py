"""Frequent itemsets as a tree of nodes, and the two ways to mine them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tulle.errors import DataError
from tulle.transactions import Transactions

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
_FEW_CELLS = 200_000
_FEW_SETS = 20_000


@dataclass(frozen=True, eq=False)
class Itemsets:
    """Frequent itemsets: node i is the set of its parent and one item more.

    Node 0 is the empty set; parents come before their children.
    """

    parent: Ints
    item: Ints
    support: Ints

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def sizes(self) -> Longs:
        """Number of items in each set."""
        sizes = np.zeros(len(self), dtype=np.int64)
        ancestor = np.arange(len(self))
        while (ancestor > 0).any():
            sizes += ancestor > 0
            ancestor = np.maximum(self.parent[ancestor], 0)
        return sizes

    @cached_property
    def rows(self) -> tuple[Longs, Ints]:
        """All sets as compressed rows of ascending codes."""
        sizes = self.sizes
        indptr = np.concatenate(([0], np.cumsum(sizes)))
        owner = np.repeat(np.arange(len(self)), sizes)
        flat = np.empty(indptr[-1], dtype=np.int64)
        nodes = np.flatnonzero(sizes)
        place = indptr[nodes]
        while len(nodes):
            flat[place] = self.item[nodes]
            above = self.parent[nodes].astype(np.int64)
            nodes, place = above[above > 0], place[above > 0] + 1
        width = int(flat.max(initial=0)) + 1
        keys = np.sort(owner * width + flat)
        return indptr, (keys % width).astype(np.int32)

    def codes(self, node: int) -> Ints:
        """The items of one set, ascending."""
        indptr, flat = self.rows
        return flat[indptr[node] : indptr[node + 1]]


def mine(baskets: Transactions, minimum: int) -> Itemsets:
    """All itemsets in at least ``minimum`` baskets, the empty set among them."""
    if len(baskets.items) <= _FEW_CELLS:
        found = mine_small(baskets, minimum, most=_FEW_SETS)
        if found is not None:
            return found
    return mine_large(baskets, minimum)


def mine_large(baskets: Transactions, minimum: int) -> Itemsets:
    """By the kernels: bit sets over all baskets, or over each item's own baskets."""
    from tulle.rules import _mining_kernels as kernels

    order = _frequent_ascending(baskets, minimum)
    rank = np.full(len(baskets.names), -1, dtype=np.int32)
    rank[order] = np.arange(len(order))
    heads = np.concatenate(([0], np.cumsum(baskets.counts[order])))
    dense = 24 * heads[-1] > len(order) * len(baskets)
    work = kernels.mine_dense if dense else kernels.mine_sparse
    try:
        nodes = work(baskets.indptr, baskets.items, rank, heads, minimum)
    except MemoryError:
        raise DataError(
            f"more than {kernels.MOST_SETS:,} itemsets are frequent: raise min_support"
        ) from None
    item = np.append(order, -1)[nodes[:, 1]].astype(np.int32)  # -1 of the root finds the end
    return Itemsets(nodes[:, 0], item, nodes[:, 2])


def mine_small(baskets: Transactions, minimum: int, most: int | None = None) -> Itemsets | None:
    """By Python's long integers as bit sets; None as soon as there are too many sets."""
    order = _frequent_ascending(baskets, minimum)
    level = []
    for code in order.tolist():
        held = np.zeros(len(baskets), dtype=bool)
        held[baskets.row_of[baskets.cells(code)]] = True
        level.append((code, int.from_bytes(np.packbits(held).tobytes())))
    nodes = [(-1, -1, len(baskets))]
    pending = [(0, level)]
    while pending:
        parent, extensions = pending.pop()
        for place, (code, bits) in enumerate(extensions):
            nodes.append((parent, code, bits.bit_count()))
            both = ((other, bits & more) for other, more in extensions[place + 1 :])
            longer = [(other, common) for other, common in both if common.bit_count() >= minimum]
            if longer:
                pending.append((len(nodes) - 1, longer))
        if most is not None and len(nodes) > most:
            return None
    table = np.array(nodes, dtype=np.int32)
    return Itemsets(table[:, 0], table[:, 1], table[:, 2])


def _frequent_ascending(baskets: Transactions, minimum: int) -> Longs:
    frequent = np.flatnonzero(baskets.counts >= minimum)
    return frequent[np.argsort(baskets.counts[frequent], kind="stable")]
