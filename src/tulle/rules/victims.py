"""Two-scan algorithms with fixed victims: Naive, MinFIA, MaxFIA, RRA, RA and IGA.

One skeleton: for each rule, its baskets in the order of their conflict degree; the first so many
of them lose the victim, if it is still there. The algorithms differ in victim and order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tulle.rules.edits import Edits
from tulle.rules.itemsets import Longs
from tulle.rules.sensitive import Sensitive

# Given a rule's number and its chosen rows: for each row, the item that goes.
Choice = Callable[[int, Longs], Longs]


def minfia(sensitive: Sensitive, rng: np.random.Generator) -> Edits:
    """The victim is the rule's rarest item."""
    return _remove(sensitive, _constant([_rarest(sensitive, items) for items in sensitive.whole]))


def maxfia(sensitive: Sensitive, rng: np.random.Generator) -> Edits:
    """The victim is the rule's most frequent item."""
    counts = sensitive.baskets.counts
    most = [max(items, key=lambda item: (counts[item], -item)) for items in sensitive.whole]
    return _remove(sensitive, _constant(most))


def rra(sensitive: Sensitive, rng: np.random.Generator) -> Edits:
    """Victims in turn: the next item of the rule for each next basket."""
    return _remove(
        sensitive,
        lambda r, rows: np.resize(np.array(sensitive.whole[r], dtype=np.int64), len(rows)),
    )


def ra(sensitive: Sensitive, rng: np.random.Generator) -> Edits:
    """Victims at random."""
    return _remove(
        sensitive, lambda r, rows: rng.choice(np.array(sensitive.whole[r]), size=len(rows))
    )


def iga(sensitive: Sensitive, rng: np.random.Generator) -> Edits:
    """The victim is the item that the rule shares with its group; crowded baskets first."""
    return _remove(sensitive, _constant(group_labels(sensitive)), crowded_first=True)


def naive(sensitive: Sensitive, rng: np.random.Generator) -> Edits:
    """All items of the rule go; of a basket that holds nothing else, the most frequent stays."""
    baskets, edits = sensitive.baskets, Edits.none(sensitive.baskets)
    left = baskets.lengths.copy()
    for r, items in enumerate(sensitive.whole):
        order = sorted(items, key=lambda item: (baskets.counts[item], -item))
        rows = _chosen(sensitive, r)
        for item in order:
            cells = baskets.cells_at(rows, item)
            goes = edits.kept[cells] & (left[rows] > 1)
            edits.kept[cells[goes]] = False
            left[rows[goes]] -= 1
    return edits


def group_labels(sensitive: Sensitive) -> list[int]:
    """IGA's victims: rules that share an item form a group, each rule ends in one group."""
    counts = sensitive.baskets.counts
    members: dict[int, set[int]] = {}
    for r, items in enumerate(sensitive.whole):
        for item in items:
            members.setdefault(item, set()).add(r)
    groups = {item: rules for item, rules in members.items() if len(rules) > 1}
    order = sorted(groups, key=lambda item: (-len(groups[item]), counts[item], item))
    for place, item in enumerate(order):
        for other in order[place + 1 :]:
            # the earlier group is larger, or equally large with the rarer label, unless it shrank
            stays, leaves = sorted(
                (item, other), key=lambda label: (-len(groups[label]), counts[label], label)
            )
            groups[leaves] -= groups[stays]
    label = {r: item for item in order for r in groups[item]}
    return [label.get(r, _rarest(sensitive, items)) for r, items in enumerate(sensitive.whole)]


def _rarest(sensitive: Sensitive, items: tuple[int, ...]) -> int:
    return min(items, key=lambda item: (sensitive.baskets.counts[item], item))


def _constant(victims: list[int]) -> Choice:
    return lambda r, rows: np.full(len(rows), victims[r], dtype=np.int64)


def _chosen(sensitive: Sensitive, r: int, crowded_first: bool = False) -> Longs:
    rows = sensitive.rows[r]
    degree = sensitive.degree[rows]
    order = np.argsort(-degree if crowded_first else degree, kind="stable")
    return rows[order][: sensitive.quota[r]]


def _remove(sensitive: Sensitive, victims: Choice, *, crowded_first: bool = False) -> Edits:
    baskets, edits = sensitive.baskets, Edits.none(sensitive.baskets)
    for r, items in enumerate(sensitive.whole):
        rows = _chosen(sensitive, r, crowded_first)
        chosen = victims(r, rows)
        for item in items:
            edits.kept[baskets.cells_at(rows[chosen == item], item)] = False
    return edits
