"""Frequent itemsets as a tree of nodes, and the two ways to mine them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tulle.errors import DataError
from tulle.transactions import Transactions

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
_FEW_CELLS = 100_000
_FEW_SETS = 10_000


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
        if kernels_are_loaded():
            from tulle.rules._mining_kernels import set_sizes

            return set_sizes(self.parent)
        sizes = np.zeros(len(self), dtype=np.int64)
        ancestor = np.arange(len(self))
        while (ancestor > 0).any():
            sizes += ancestor > 0
            ancestor = np.maximum(self.parent[ancestor], 0)
        return sizes

    @cached_property
    def rows(self) -> tuple[Longs, Ints]:
        """All sets as compressed rows of ascending codes."""
        indptr = np.concatenate(([0], np.cumsum(self.sizes)))
        if len(self) > _FEW_SETS or kernels_are_loaded():
            from tulle.rules._mining_kernels import fill_rows

            codes = np.empty(indptr[-1], dtype=np.int32)
            fill_rows(self.parent, self.item, indptr, codes)
            return indptr, codes
        return indptr, self._rows_small(indptr)

    def _rows_small(self, indptr: Longs) -> Ints:
        """The twin of the kernel."""
        owner = np.repeat(np.arange(len(self)), self.sizes)
        flat = np.empty(indptr[-1], dtype=np.int64)
        nodes = np.flatnonzero(self.sizes)
        place = indptr[nodes]
        while len(nodes):
            flat[place] = self.item[nodes]
            above = self.parent[nodes].astype(np.int64)
            nodes, place = above[above > 0], place[above > 0] + 1
        width = int(flat.max(initial=0)) + 1
        return (np.sort(owner * width + flat) % width).astype(np.int32)

    @cached_property
    def hashes(self) -> npt.NDArray[np.uint64]:
        """A hash of each set: the exclusive or of its items' words."""
        indptr, codes = self.rows
        if len(codes) == 0:
            return np.zeros(len(self), dtype=np.uint64)
        words = hash_words(int(codes.max()) + 1)
        hashes = np.bitwise_xor.reduceat(words[codes], np.minimum(indptr[:-1], len(codes) - 1))
        hashes[self.sizes == 0] = 0
        return hashes

    def codes(self, node: int) -> Ints:
        """The items of one set, ascending."""
        indptr, flat = self.rows
        return flat[indptr[node] : indptr[node + 1]]


def mine(baskets: Transactions, minimum: int) -> Itemsets:
    """All itemsets in at least ``minimum`` baskets, the empty set among them.

    Small data do not wait for a compiler, but use the kernels if they are there already; so that
    this makes no difference, few sets are put into one order.
    """
    if len(baskets.items) > _FEW_CELLS:
        return mine_large(baskets, minimum)
    found = None
    if not kernels_are_loaded():
        found = mine_small(baskets, minimum, most=_FEW_SETS)
    if found is None:
        found = mine_large(baskets, minimum)
    return canonical(found) if len(found) <= _FEW_SETS else found


def kernels_are_loaded() -> bool:
    """Whether this process has paid for the compiler already."""
    return "tulle.rules._mining_kernels" in sys.modules


def canonical(found: Itemsets) -> Itemsets:
    """The same sets in an order, and with parents, that depend on nothing but the sets.

    Small sets come first; a set's parent is the set without its last item.
    """
    indptr, codes = found.rows
    hashes = found.hashes
    order = np.argsort(hashes)
    order = order[np.argsort(found.sizes[order], kind="stable")]
    item = np.append(codes, -1)[indptr[1:] - 1].astype(np.int32)
    item[0] = -1
    by_hash = np.argsort(hashes[order])
    words = hash_words(int(codes.max(initial=0)) + 1)
    wanted = hashes[order][1:] ^ words[item[order][1:]]
    above = by_hash[np.searchsorted(hashes[order], wanted, sorter=by_hash)]
    parent = np.concatenate(([-1], above)).astype(np.int32)
    return Itemsets(parent, item[order], found.support[order])


def hash_words(n_items: int) -> npt.NDArray[np.uint64]:
    """Random words for the items, to hash sets; always the same ones, they hide nothing."""
    return np.random.default_rng(0x7E11E).integers(0, 2**64, size=n_items, dtype=np.uint64)


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
