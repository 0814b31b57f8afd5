"""What hiding cost: rules mined before and after at the same thresholds, compared.

Rules are those with one item in the consequent. 0/0 is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tulle._types import Flags, Words
from tulle.rules._sensitive import SensitiveRules
from tulle.rules.mine import Implications, hash_words, mine_rules
from tulle.transactions import Transactions


@dataclass(frozen=True, eq=False)
class MinedRules:
    """The rules of baskets at some thresholds, each with a key that other baskets share."""

    rules: Implications
    keys: Words
    minimum: int
    confidence: Fraction

    @classmethod
    def of(
        cls, baskets: Transactions, minimum: int, confidence: Fraction, support_of: str = "rule"
    ) -> MinedRules:
        """Mine the rules with one item in the consequent."""
        found = mine_rules(baskets, minimum, confidence, 1, support_of)
        hashes = found.itemsets.hashes
        keys = _mixed(hashes[found.whole], hashes[found.antecedent])
        return cls(found, keys, minimum, confidence)

    def sensitive(self, sensitive: SensitiveRules) -> Flags:
        words = hash_words(len(sensitive.baskets.names))
        whole = np.array([_xor(words, items) for items in sensitive.whole])
        left = np.array([_xor(words, items) for items in sensitive.antecedent])
        return np.isin(self.keys, _mixed(whole, left))

    def containing(self, sensitive: SensitiveRules) -> Flags:
        """Return which of the rules may fall, for their set contains a sensitive one."""
        itemsets = self.rules.itemsets
        indptr, codes = itemsets.rows
        owner = np.repeat(np.arange(len(itemsets)), np.diff(indptr))
        contains = np.zeros(len(itemsets), dtype=bool)
        for items in sensitive.whole:
            held = np.bincount(owner[np.isin(codes, items)], minlength=len(itemsets))
            contains |= held == len(items)
        return contains[self.rules.whole]


def side_effects(
    before: MinedRules, after: MinedRules, sensitive: SensitiveRules
) -> dict[str, float]:
    """Compute misses cost, also of rules that need not fall, and artifactual patterns."""
    spared = ~before.sensitive(sensitive)
    avoidable = spared & ~before.containing(sensitive)
    lost = ~np.isin(before.keys, after.keys)
    new = ~np.isin(after.keys, before.keys)
    return {
        "misses_cost": _share(lost & spared, spared),
        "misses_cost_avoidable": _share(lost & avoidable, avoidable),
        "artifactual": _share(new, np.ones_like(new)),
    }


def changed_share(before: Transactions, after: Transactions) -> float:
    """Compute dif: item occurrences that differ or are blocked, as a share of all there were."""
    width = max(len(before.names), 1)
    old = before.row_of * width + before.items
    new = after.row_of * width + after.items
    return len(np.setxor1d(old, new, assume_unique=True)) / len(old)


def _share(part: Flags, whole: Flags) -> float:
    total = int(np.count_nonzero(whole))
    return int(np.count_nonzero(part)) / total if total else 0.0


def _xor(words: Words, items: tuple[int, ...]) -> np.uint64:
    return np.bitwise_xor.reduce(words[list(items)])


def _mixed(whole: Words, antecedent: Words) -> Words:
    with np.errstate(over="ignore"):
        return whole * np.uint64(0x9E3779B97F4A7C15) + antecedent
