"""Mining of baskets that are never in memory together, in two passes.

An itemset that is frequent in all baskets is frequent, at the same share, in at least one block
of them. So each block is mined on its own; then what was found anywhere is counted everywhere
(Savasere, Omiecinski and Navathe, VLDB 1995). The result is that of mining the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tulle.errors import DataError
from tulle.rules._sensitive import count_sets
from tulle.rules.mine import Itemsets, mine
from tulle.rules.rule import Share, is_count, support_count, support_share
from tulle.transactions import Transactions

Names = tuple[Any, ...]  # of the items of a set, sorted
Blocks = Callable[[], Iterator[Transactions]]


class MinedItemsets(NamedTuple):
    """The frequent itemsets of some baskets."""

    itemsets: Itemsets
    names: Any  # of the items
    baskets: int
    data: Transactions | None = None  # the baskets, where they are in memory


@dataclass
class CandidateItemsets:
    """The itemsets that are frequent in some block, counted as far as they are."""

    baskets: int = 0
    items: set[Any] = field(default_factory=set)
    counts: dict[Names, int] = field(default_factory=dict)

    def add(self, found: CandidateItemsets) -> None:
        """Take in what was found in other baskets."""
        self.baskets += found.baskets
        self.items |= found.items
        for names, count in found.counts.items():
            self.counts[names] = self.counts.get(names, 0) + count


def mine_block(block: Transactions, share: Fraction) -> CandidateItemsets:
    found = mine(block, max(1, math.ceil(share * len(block))))
    indptr, codes = found.rows
    ends, flat = indptr.tolist(), block.names[codes].tolist()
    support = found.support.tolist()
    counts = {
        tuple(sorted(flat[ends[node] : ends[node + 1]])): support[node]
        for node in range(1, len(found))
    }
    return CandidateItemsets(len(block), set(block.names.tolist()), counts)


def count_block(block: Transactions, wanted: Sequence[Names]) -> list[int]:
    code = {name: place for place, name in enumerate(block.names.tolist())}
    return count_sets(block, [[code.get(name, -1) for name in names] for names in wanted])


def share_of(owner: str, min_support: Share, baskets: int) -> Fraction:
    """Return the least support as a share of the baskets, whether it is a share or a count."""
    return Fraction(support_count(owner, min_support, baskets), baskets)


def mine_blocks(blocks: Blocks, min_support: Share, owner: str = "mine") -> MinedItemsets:
    """Return the frequent itemsets of all blocks.

    ``blocks`` reads the same blocks in the same order each time: twice, and once more to count the
    baskets if the support is a number of them.
    """
    if is_count(min_support):
        share = share_of(owner, min_support, max(1, sum(len(block) for block in blocks())))
    else:
        share = support_share(owner, min_support)
    whole, known = CandidateItemsets(), []
    for block in blocks():
        found = mine_block(block, share)
        whole.add(found)
        known.append(found.counts.keys())
    refuse_empty(whole)
    for block, counted in zip(blocks(), known):
        missing = [names for names in whole.counts if names not in counted]
        for names, count in zip(missing, count_block(block, missing)):
            whole.counts[names] += count
    return settled(whole, support_count(owner, min_support, whole.baskets))


def refuse_empty(found: CandidateItemsets) -> None:
    if not found.baskets:
        raise DataError("the data contains no baskets")
    if not found.items:
        raise DataError("all baskets are empty: there is nothing to mine or to hide")


def settled(found: CandidateItemsets, minimum: int) -> MinedItemsets:
    """Return the sets that are frequent, as the miner of the whole returns them."""
    names = sorted(found.items)
    code = {name: place for place, name in enumerate(names)}
    sets = sorted(
        (
            (tuple(sorted(code[name] for name in held)), count)
            for held, count in found.counts.items()
            if count >= minimum
        ),
        key=lambda pair: (len(pair[0]), pair[0]),
    )
    node = {(): 0} | {codes: place for place, (codes, _) in enumerate(sets, 1)}
    rows = [(-1, -1, found.baskets)]
    rows += [(node[codes[:-1]], codes[-1], count) for codes, count in sets]
    parent, item, support = np.array(rows, dtype=np.int32).T
    itemsets = Itemsets(parent.copy(), item.copy(), support.copy())
    listed = np.array(names) if isinstance(names[0], int) else np.array(names, dtype=object)
    return MinedItemsets(itemsets, listed, found.baskets)
