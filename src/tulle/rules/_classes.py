"""What removals from untouched baskets cost, by classes of itemsets.

In dense data thousands of itemsets are held by exactly the same baskets. They form a class: which
basket holds it is one column of a matrix of booleans, and what its sets weigh for each item one row
of another matrix. The costs of all removals are then one product of matrices, many times faster
than walks over the tree of itemsets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tulle._types import Codes, Floats, Ints, Words
from tulle.rules.mine import Itemsets, hash_words
from tulle.transactions import Transactions

_MOST_CELLS = 30_000_000  # of the matrix of booleans: 120 MB
_STEP = 150  # multiplications that take the time of one step of a walk


@dataclass(frozen=True, eq=False)
class ItemsetClasses:
    """Classes of itemsets, for some baskets and some items that may be removed."""

    place: Ints  # of each basket among the rows of ``held``
    held: npt.NDArray[np.float32]  # [basket, class]
    owner: Ints  # for each pair of an itemset and an item that may be removed: the itemset,
    cell: Ints  # and its class and the item as one number
    n_items: int

    @classmethod
    def of(
        cls, baskets: Transactions, itemsets: Itemsets, rows: Ints, items: Ints
    ) -> ItemsetClasses | None:
        """Return the classes; None where walks over the few sets of a basket are faster."""
        steps = float(itemsets.support.sum()) * len(rows) / len(baskets)
        most = min(_MOST_CELLS, int(_STEP * steps) // max(len(items), 1)) // max(len(rows), 1)
        found = _classify(baskets, itemsets, rows, most)
        if found is None:
            return None
        numbers, bits = found
        held = np.unpackbits(bits.view(np.uint8), axis=1, count=len(rows)).T
        indptr, codes = itemsets.rows
        column = np.full(len(baskets.names), -1, dtype=np.int64)
        column[items] = np.arange(len(items))
        removable = np.flatnonzero(column[codes] >= 0)
        owner = np.repeat(np.arange(len(itemsets)), np.diff(indptr))[removable]
        place = np.full(len(baskets), -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        return cls(
            place,
            np.ascontiguousarray(held, dtype=np.float32),
            owner,
            numbers[owner] * len(items) + column[codes[removable]],
            len(items),
        )

    def costs(self, rows: Ints, weight: Floats) -> Floats:
        """Compute the weight of the sets that go with each item of some untouched baskets."""
        n_classes = self.held.shape[1]
        weights = np.bincount(self.cell, weight[self.owner], n_classes * self.n_items)
        table = weights.reshape(n_classes, self.n_items).astype(np.float32)
        return (self.held[self.place[rows]] @ table).astype(np.float64)


def _classify(
    baskets: Transactions, itemsets: Itemsets, rows: Ints, most: int
) -> tuple[Ints, Words] | None:
    """Return the class of each itemset, and the baskets of each class as bits; None if too many.

    Level by level: the baskets of a set are those of its parent that hold one item more.
    """
    frequent = np.unique(itemsets.item[1:])
    rank = np.searchsorted(frequent, itemsets.item)
    holders = _holders(baskets, rows, frequent)
    width = len(holders)
    numbers = np.zeros(len(itemsets), dtype=np.int64)
    bits = np.full((1, holders.shape[1]), np.uint64(2**64 - 1))  # all hold the empty set
    known = {int(_hashed(bits)[0]): 0}
    for size in range(1, int(itemsets.sizes.max(initial=0)) + 1):
        nodes = np.flatnonzero(itemsets.sizes == size)
        pairs = numbers[itemsets.parent[nodes]] * width + rank[nodes]
        pairs, pair_of = np.unique(pairs, return_inverse=True)
        if len(pairs) > 4 * most:
            return None
        grown = bits[pairs // width] & holders[pairs % width]
        before = len(known)
        class_of = np.array([known.setdefault(h, len(known)) for h in _hashed(grown).tolist()])
        _, first = np.unique(class_of, return_index=True)
        bits = np.concatenate((bits, grown[first[class_of[first] >= before]]))
        numbers[nodes] = class_of[pair_of]
        if len(known) > most:
            return None
    return numbers, bits


def _holders(baskets: Transactions, rows: Ints, items: Codes) -> Words:
    """Return, for each of some items, which of some baskets hold it: a row of bits."""
    some = baskets.take(rows)
    held = np.zeros((len(items), 64 * -(-len(rows) // 64)), dtype=bool)
    for place, item in enumerate(items.tolist()):
        held[place, some.row_of[some.cells(item)]] = True
    return np.packbits(held, axis=1).view(np.uint64)


def _hashed(bits: Words) -> Words:
    with np.errstate(over="ignore"):
        return ((bits ^ (bits >> np.uint64(29))) * hash_words(bits.shape[1])).sum(axis=1)
