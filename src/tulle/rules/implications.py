"""Association rules as rows of node numbers: set, antecedent, consequent."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np

from tulle.errors import DataError
from tulle.rules.itemsets import Ints, Itemsets, hash_words, kernels_are_loaded

_FEW_SETS = 5_000
_SHORT = 8
MOST_RULES = 1 << 27  # 1.6 GB of nodes


@dataclass(frozen=True, eq=False)
class Implications:
    """Rules antecedent -> consequent; each row is three nodes of the itemsets."""

    itemsets: Itemsets
    nodes: Ints

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def whole(self) -> Ints:
        """Node of antecedent and consequent together."""
        return self.nodes[:, 0]

    @property
    def antecedent(self) -> Ints:
        """Node of the antecedent."""
        return self.nodes[:, 1]

    @property
    def consequent(self) -> Ints:
        """Node of the consequent."""
        return self.nodes[:, 2]


def implications(
    itemsets: Itemsets, confidence: Fraction, longest_consequent: int | None = None
) -> Implications:
    """All rules of frequent itemsets with enough confidence."""
    longest = longest_consequent or len(itemsets)
    few = len(itemsets) <= _FEW_SETS and itemsets.sizes.max(initial=0) <= _SHORT
    if not few:
        return rules_large(itemsets, confidence, longest)
    found = (rules_large if kernels_are_loaded() else rules_small)(itemsets, confidence, longest)
    keys = found.consequent.astype(np.int64) * len(itemsets) + found.antecedent
    return Implications(itemsets, found.nodes[np.argsort(keys)])  # the same order from both


def rules_large(itemsets: Itemsets, confidence: Fraction, longest: int) -> Implications:
    """By the kernel."""
    from tulle.rules._implication_kernels import hash_sets
    from tulle.rules._implication_kernels import implications as kernel

    words = hash_words(int(itemsets.item.max(initial=0)) + 1)
    hashes, table = hash_sets(itemsets.parent, itemsets.item, words)
    try:
        nodes = kernel(
            itemsets.parent,
            itemsets.item,
            itemsets.support,
            words,
            hashes,
            table,
            confidence.numerator,
            confidence.denominator,
            longest,
            MOST_RULES,
        )
    except MemoryError:
        raise DataError(
            f"there are more than {MOST_RULES:,} rules: raise min_support or min_confidence, or "
            "bound max_consequent"
        ) from None
    return Implications(itemsets, nodes)


def rules_small(itemsets: Itemsets, confidence: Fraction, longest: int) -> Implications:
    """By a dictionary of all sets."""
    indptr, flat = itemsets.rows
    ends, codes = indptr.tolist(), flat.tolist()
    sets = [tuple(codes[start:end]) for start, end in pairwise(ends)]
    node_of = {itemset: node for node, itemset in enumerate(sets)}
    support = itemsets.support.tolist()
    found = []
    for node, itemset in enumerate(sets):
        for size in range(1, min(len(itemset), longest + 1)):
            for consequent in combinations(itemset, size):
                rest = tuple(code for code in itemset if code not in consequent)
                antecedent = node_of[rest]
                if (
                    support[node] * confidence.denominator
                    >= confidence.numerator * support[antecedent]
                ):
                    found.append((node, antecedent, node_of[consequent]))
    return Implications(itemsets, np.array(found, dtype=np.int32).reshape(-1, 3))
