"""``PatternSanitizer``: share the rules that were mined instead of the baskets."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from tulle._checks import check_int
from tulle._types import Flags
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.rules._sensitive import lookup
from tulle.rules.containers import open_baskets
from tulle.rules.mine import Implications, Itemsets, as_given, implications, mine, rules_frame
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
    chosen pair is left out. Where the exact supports of what is left still prove that a sensitive
    set is frequent, more of its pairs are chosen.

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
    n_proved_by_items_ : int
        Sensitive itemsets that the supports of their single items alone prove to be frequent.

    Notes
    -----
    **What may leave**: the frame of rules; the attributes. Single items are always shared, so
    inference of a set from its single items, which no sanitizing can prevent, is not counted as
    recovery: of two items that are each in nearly all baskets, exact supports prove that the pair
    is frequent. ``n_proved_by_items_`` tells how often; hide these rules in the baskets
    (:class:`RuleHider`).

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
        wishes = as_rules(self.rules)
        alone = (rule.has_thresholds or rule.disclosure is not None for rule in wishes.rules)
        if wishes.keep or any(alone):
            raise ParameterError(
                "PatternSanitizer removes rules entirely: for thresholds of single rules, or "
                "itemsets to keep, use RuleHider"
            )
        confidence = confidence_share(name, self.min_confidence)
        if self.max_consequent is not None:
            check_int(name, "max_consequent", self.max_consequent, 1)
        source = open_baskets(X)
        minimum = support_count(name, self.min_support, len(source.baskets))

        found = mine(source.baskets, minimum)
        sensitive = _sensitive_sets(source.baskets, wishes.rules, minimum)
        shared = shareable(found, sensitive, minimum)
        if recovered(found, shared, sensitive):
            raise PrivacyError("a sensitive itemset can still be inferred: nothing is shared")

        every = implications(found, confidence, self.max_consequent)
        left = Implications(found, every.nodes[shared[every.whole]])
        nodes = _nodes(found)
        # (|R| - |R'| - |S|) / (|R| - |S|), S the rules on sensitive sets
        own = np.isin(every.whole, [nodes[itemset] for itemset in sensitive])
        other = len(every) - int(own.sum())
        self.side_effect_factor_ = (other - len(left)) / other if other else 0.0
        self.recovery_factor_ = 0.0
        self.n_itemsets_ = len(found) - 1
        self.n_itemsets_shared_ = int(shared.sum()) - 1
        self.n_rules_, self.n_rules_shared_ = len(every), len(left)
        self.n_proved_by_items_ = len(proved(found, nodes, shared, sensitive, minimum))
        frame = rules_frame(left, source.baskets.names, len(source.baskets))
        return as_given(frame, pandas=source.pandas)


def shareable(found: Itemsets, sensitive: list[frozenset[int]], minimum: int) -> Flags:
    """Return which itemsets may be shared: those that hold no chosen pair.

    Pairs are chosen one after another: the one that covers most sensitive sets for each other
    itemset that goes with it. Then more pairs of the sets that supports still prove.
    """
    member = _members(found)
    shared = np.ones(len(found), dtype=bool)
    open_ = list(dict.fromkeys(sensitive))
    nodes = _nodes(found)
    while open_:
        best = _cheapest(open_, member, shared)
        shared[_contains(member, best)] = False
        open_ = [itemset for itemset in open_ if not best <= itemset]
    while open_ := [
        itemset
        for itemset in proved(found, nodes, shared, sensitive, minimum)
        if any(shared[nodes[frozenset(pair)]] for pair in combinations(itemset, 2))
    ]:
        shared[_contains(member, _cheapest(open_, member, shared))] = False
    return shared


def _cheapest(sets: list[frozenset[int]], member: dict[int, Flags], shared: Flags) -> Pair:
    """Return the pair that covers most of some sets for each shared itemset that goes with it."""
    pairs = sorted({frozenset(p) for s in sets for p in combinations(s, 2)}, key=sorted)
    price = {pair: int((_contains(member, pair) & shared).sum()) for pair in pairs}
    cover = {pair: sum(pair <= itemset for itemset in sets) for pair in pairs}
    return min((pair for pair in pairs if price[pair]), key=lambda one: price[one] / cover[one])


def proved(
    found: Itemsets, nodes: Sets, shared: Flags, sensitive: list[frozenset[int]], minimum: int
) -> list[frozenset[int]]:
    """Return the sensitive sets of which the exact supports of shared sets prove enough support."""
    known = []
    for itemset in sensitive:
        held = {part: nodes[part] for part in _parts(itemset) if shared[nodes[part]]}
        supports = {part: int(found.support[node]) for part, node in held.items()}
        if least_support(itemset, supports) >= minimum:
            known.append(itemset)
    return known


def least_support(wanted: frozenset[int], supports: dict[frozenset[int], int]) -> int:
    """Compute the least support that a set can have, given those of some of its subsets.

    Two parts X and Y meet in the baskets of what they have in common, so at least
    |X| + |Y| - |X and Y| baskets hold both; and so on, from small parts to large ones.

    >>> known = {frozenset(): 100, frozenset("a"): 60, frozenset("ab"): 50, frozenset("ac"): 40}
    >>> least_support(frozenset("abc"), known)
    30
    """
    least: dict[frozenset[int], int] = {}
    most: dict[frozenset[int], int] = {}
    for part in _parts(wanted):
        if part in supports:
            least[part] = most[part] = supports[part]
            continue
        smaller = [one for one in least if one < part]
        most[part] = min(most[one] for one in smaller)
        bounds = [
            least[one] + least[other] - most[one & other]
            for one, other in combinations(smaller, 2)
            if one | other == part
        ]
        least[part] = max([0, *bounds])
    return least[wanted]


def _parts(itemset: frozenset[int]) -> list[frozenset[int]]:
    """Return all subsets, small ones first."""
    sizes = range(len(itemset) + 1)
    return [frozenset(part) for size in sizes for part in combinations(sorted(itemset), size)]


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
