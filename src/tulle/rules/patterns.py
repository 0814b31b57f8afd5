"""``PatternSanitizer``: share the rules that were mined instead of the baskets."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from tulle._checks import check_int
from tulle._types import Codes, Flags, Floats, Ints, Words
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.rules._sensitive import lookup
from tulle.rules.containers import open_baskets
from tulle.rules.mine import (
    Implications,
    Itemsets,
    as_given,
    hash_words,
    implications,
    mine,
    rules_frame,
)
from tulle.rules.rule import Rule, as_rules, confidence_share, support_count
from tulle.transactions import Transactions

Sets = dict[frozenset[int], int]  # itemset -> node
Pair = frozenset[int]


class PatternSanitizer(BaseEstimator):
    """Mine rules and leave out the sensitive ones, with whatever would give them away.

    Downright sanitizing (DSA): to leave a sensitive itemset out is not enough. Anyone who sees a
    larger set knows that the set is frequent (backward inference); anyone who sees all its subsets
    of one size guesses it (forward inference). So a pair of items is chosen in each sensitive set,
    the pair whose loss takes the fewest other sets with it, and every itemset that contains a
    chosen pair is left out.

    Parameters
    ----------
    rules
        Rules to hide, as for :class:`RuleHider`.
    min_support, min_confidence
        Thresholds of the mining.
    max_consequent
        Most items in a consequent; None for any number.

    Attributes
    ----------
    n_itemsets_, n_itemsets_shared_ : int
        Frequent itemsets found, and shared.
    n_rules_, n_rules_shared_ : int
        Rules found, and shared.
    side_effect_factor_ : float
        Share of the rules not to be hidden that were left out all the same.
    recovery_factor_ : float
        Share of the sensitive itemsets that inference regains: 0, or nothing is given back.

    Notes
    -----
    **What may leave**: the frame of rules; the attributes. Single items are always shared, so
    inference of a pair from its two items, which no sanitizing can prevent, is not counted.
    Not protected: supports and confidences of what is shared are exact. Of two items that are
    each in nearly all baskets they prove that the pair is frequent.

    Examples
    --------
    >>> baskets = [["bread", "milk", "beer"]] * 4 + [["bread", "milk"], ["milk"], ["beer"]]
    >>> sanitizer = PatternSanitizer(["bread -> beer"], min_support=3, min_confidence=0.5)
    >>> shared = sanitizer.fit_transform(baskets)
    >>> sorted(shared["antecedent"].to_list() + shared["consequent"].to_list())
    [['beer'], ['beer'], ['bread'], ['bread'], ['milk'], ['milk'], ['milk'], ['milk']]
    """

    def __init__(
        self,
        rules: Any,
        *,
        min_support: float | int | str = 0.01,
        min_confidence: float | str = 0.6,
        max_consequent: int | None = None,
    ) -> None:
        self.rules = rules
        self.min_support = min_support
        self.min_confidence = min_confidence
        self.max_consequent = max_consequent

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Mine the baskets and return the rules that may be shared.

        Parameters
        ----------
        X : baskets
            As for :func:`frequent_itemsets`.
        y : None
            Ignored.

        Returns
        -------
        DataFrame
            As :func:`association_rules` returns it.
        """
        name = type(self).__name__
        wanted = _wanted(self.rules)
        confidence = confidence_share(name, self.min_confidence)
        if self.max_consequent is not None:
            check_int(name, "max_consequent", self.max_consequent, 1)
        source = open_baskets(X)
        minimum = support_count(name, self.min_support, len(source.baskets))

        found = mine(source.baskets, minimum)
        sensitive = _sensitive_sets(source.baskets, wanted, minimum)
        shared = shareable(found, sensitive)
        _require_unrecoverable(found, shared, sensitive)

        every = implications(found, confidence, self.max_consequent)
        left = Implications(found, every.nodes[shared[every.whole]])
        self._store(found, shared, every, left, sensitive)
        frame = rules_frame(left, source.baskets.names, len(source.baskets))
        return as_given(frame, pandas=source.pandas)

    def _store(
        self,
        found: Itemsets,
        shared: Flags,
        every: Implications,
        left: Implications,
        sensitive: list[frozenset[int]],
    ) -> None:
        """Store the side-effect factor: (|R| - |R'| - |S|) / (|R| - |S|), S the rules on
        sensitive sets.
        """
        nodes = _nodes(found)
        own = np.isin(every.whole, [nodes[itemset] for itemset in sensitive])
        other = len(every) - int(own.sum())
        self.n_itemsets_ = len(found) - 1
        self.n_itemsets_shared_ = int(shared.sum()) - 1
        self.n_rules_, self.n_rules_shared_ = len(every), len(left)
        self.side_effect_factor_ = (other - len(left)) / other if other else 0.0
        self.recovery_factor_ = 0.0


def shareable(found: Itemsets, sensitive: list[frozenset[int]]) -> Flags:
    """Return which itemsets may be shared: those that hold no chosen pair.

    Pairs are chosen one after another: the one that covers most sensitive sets for each other
    itemset that goes with it.
    """
    member = _members(found)
    shared = np.ones(len(found), dtype=bool)
    open_ = list(dict.fromkeys(sensitive))
    while open_:
        pairs = sorted({frozenset(p) for s in open_ for p in combinations(s, 2)}, key=sorted)
        price = {pair: _contains(member, pair) & shared for pair in pairs}
        cover = {pair: sum(pair <= itemset for itemset in open_) for pair in pairs}
        best = min(pairs, key=lambda pair: int(price[pair].sum()) / cover[pair])
        shared &= ~price[best]
        open_ = [itemset for itemset in open_ if not best <= itemset]
    return shared


def recovered(
    found: Itemsets, shared: Flags, sensitive: list[frozenset[int]]
) -> list[frozenset[int]]:
    """Return the sensitive sets that an attacker regains, guessing again from what was guessed.

    A set is known if it is shared or has a known superset (backward), and guessed if, for some
    size from 2 up, all its subsets of that size are known (forward).
    """
    nodes = _nodes(found)
    known = {itemset for itemset, node in nodes.items() if shared[node]}
    by_size = sorted(nodes, key=len)
    grew = True
    while grew:
        grew = False
        for itemset in by_size:
            if itemset in known or len(itemset) < 3:
                continue
            sizes = range(2, len(itemset))
            if any(all(frozenset(s) in known for s in combinations(itemset, k)) for k in sizes):
                known.update(frozenset(s) for k in sizes for s in combinations(itemset, k))
                known.add(itemset)
                grew = True
    return [itemset for itemset in sensitive if any(itemset <= other for other in known)]


def _wanted(given: Any) -> list[Rule]:
    found = as_rules(given)
    if found.keep or any(r.has_thresholds or r.disclosure is not None for r in found.rules):
        raise ParameterError(
            "PatternSanitizer removes rules entirely: for thresholds of single rules, or itemsets "
            "to keep, use RuleHider"
        )
    return found.rules


def _require_unrecoverable(found: Itemsets, shared: Flags, sensitive: list[frozenset[int]]) -> None:
    if recovered(found, shared, sensitive):
        raise PrivacyError("a sensitive itemset can still be inferred: nothing is shared")


def _sensitive_sets(baskets: Transactions, rules: list[Rule], minimum: int) -> list[frozenset[int]]:
    found = [frozenset(items) for items in lookup(baskets, [rule.items for rule in rules])]
    rare = [
        str(rule)
        for rule, items in zip(rules, found)
        if len(baskets.rows_with(sorted(items))) < minimum
    ]
    if rare:
        raise DataError(
            f"{len(rare)} rules are below min_support and would not be shared anyway: "
            + "; ".join(rare)
        )
    return found


def _nodes(found: Itemsets) -> Sets:
    return {frozenset(found.codes(node).tolist()): node for node in range(len(found))}


def _members(found: Itemsets) -> dict[int, Flags]:
    """Return, for each item, which sets hold it."""
    indptr, codes = found.rows
    owner = np.repeat(np.arange(len(found)), np.diff(indptr))
    member = {}
    for item in np.unique(codes).tolist():
        mask = np.zeros(len(found), dtype=bool)
        mask[owner[codes == item]] = True
        member[item] = mask
    return member


def _contains(member: dict[int, Flags], pair: Pair) -> Flags:
    first, second = pair
    return member[first] & member[second]


# What removals from untouched baskets cost, by classes of itemsets. In dense data thousands of
# itemsets are held by exactly the same baskets. They form a class: which basket holds it is one
# column of a matrix of booleans, and what its sets weigh for each item one row of another
# matrix. The costs of all removals are then one product of matrices, many times faster than walks
# over the tree of itemsets.

_MOST_CELLS = 30_000_000  # of the matrix of booleans: 120 MB
_STEP = 150  # multiplications that take the time of one step of a walk


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes of itemsets, for some baskets and some items that may be removed."""

    place: Ints  # of each basket among the rows of ``held``
    held: npt.NDArray[np.float32]  # [basket, class]
    owner: Ints  # for each pair of an itemset and an item that may be removed: the itemset,
    cell: Ints  # and its class and the item as one number
    n_items: int

    @classmethod
    def of(
        cls, baskets: Transactions, itemsets: Itemsets, rows: Ints, items: Ints
    ) -> Classes | None:
        """Return the classes; None where baskets hold so few sets that walks over them are
        faster.
        """
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
        """Compute, for each of some untouched baskets and each item, the weight of the sets that
        go.
        """
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
