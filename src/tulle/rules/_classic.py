"""Two-scan algorithms with fixed victims: Naive, MinFIA, MaxFIA, RRA, RA and IGA.

One skeleton: for each rule, its baskets in the order of their conflict degree; the first so many
of them lose the victim, if it is still there. The algorithms differ in victim and order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np

from tulle._types import Ints
from tulle.errors import PrivacyError
from tulle.rules._sensitive import EditedCounts, Edits, SensitiveRules
from tulle.rules._window import slide
from tulle.transactions.baskets import _among

# Given a rule's number and its chosen rows: for each row, the item that goes.
Choice = Callable[[int, Ints], Ints]


def minfia(sensitive: SensitiveRules, rng: np.random.Generator) -> Edits:
    """Remove the rule's rarest item."""
    return _remove(sensitive, _constant([_rarest(sensitive, items) for items in sensitive.whole]))


def maxfia(sensitive: SensitiveRules, rng: np.random.Generator) -> Edits:
    """Remove the rule's most frequent item."""
    counts = sensitive.baskets.counts
    most = [max(items, key=lambda item: (counts[item], -item)) for items in sensitive.whole]
    return _remove(sensitive, _constant(most))


def rra(sensitive: SensitiveRules, rng: np.random.Generator) -> Edits:
    """Remove the items in turn: the next item of the rule for each next basket."""
    return _remove(
        sensitive,
        lambda r, rows: np.resize(np.array(sensitive.whole[r], dtype=np.int64), len(rows)),
    )


def ra(sensitive: SensitiveRules, rng: np.random.Generator) -> Edits:
    """Remove an item at random."""
    return _remove(
        sensitive, lambda r, rows: rng.choice(np.array(sensitive.whole[r]), size=len(rows))
    )


def iga(sensitive: SensitiveRules, rng: np.random.Generator) -> Edits:
    """Remove the item that the rule shares with its group; crowded baskets first.

    Rules that share an item form a group, and each rule ends in one group.
    """
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
    victims = [label.get(r, _rarest(sensitive, items)) for r, items in enumerate(sensitive.whole)]
    return _remove(sensitive, _constant(victims), crowded_first=True)


def naive(sensitive: SensitiveRules, rng: np.random.Generator) -> Edits:
    """Remove all items of the rule; the most frequent stays if a basket holds nothing else."""
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


def _rarest(sensitive: SensitiveRules, items: tuple[int, ...]) -> int:
    return min(items, key=lambda item: (sensitive.baskets.counts[item], item))


def _constant(victims: list[int]) -> Choice:
    return lambda r, rows: np.full(len(rows), victims[r], dtype=np.int64)


def _chosen(sensitive: SensitiveRules, r: int, crowded_first: bool = False) -> Ints:
    rows = sensitive.rows[r]
    degree = sensitive.degree[rows]
    order = np.argsort(-degree if crowded_first else degree, kind="stable")
    return rows[order][: sensitive.quota[r]]


def _remove(sensitive: SensitiveRules, victims: Choice, *, crowded_first: bool = False) -> Edits:
    baskets, edits = sensitive.baskets, Edits.none(sensitive.baskets)
    for r, items in enumerate(sensitive.whole):
        rows = _chosen(sensitive, r, crowded_first)
        chosen = victims(r, rows)
        for item in items:
            edits.kept[baskets.cells_at(rows[chosen == item], item)] = False
    return edits


# Algorithms 1.a, 1.b, 2.a and 2.b of Verykios and others: rule by rule, stopping in time. Each
# takes the shortest supporting baskets first and stops as soon as the rule's support or
# confidence is below its threshold. A rule hidden by confidence can come back when a later
# removal lowers its antecedent's support, so all end with verify-and-repair: rules that came back
# are treated again until none is left. Every round takes away at least one item, so this ends.

Step = Callable[[SensitiveRules, Edits, int], None]


def algo1a(sensitive: SensitiveRules, rng: np.random.Generator) -> Edits:
    """Increase the antecedent's support: add its missing items to baskets that hold some of it.

    The only algorithm that adds items: the release then says of people what is not true.
    """
    return _until_hidden(sensitive, range(len(sensitive)), _add_antecedent)


def algo1b(sensitive: SensitiveRules, rng: np.random.Generator) -> Edits:
    """Remove the rarest item of the consequent."""
    return _until_hidden(
        sensitive,
        range(len(sensitive)),
        lambda s, edits, r: take_away(s, edits, r, _rarest_left(s, edits, s.consequent[r])),
    )


def algo2a(sensitive: SensitiveRules, rng: np.random.Generator) -> Edits:
    """Remove the rarest item of the rule."""
    return _until_hidden(
        sensitive,
        range(len(sensitive)),
        lambda s, edits, r: take_away(s, edits, r, _rarest_left(s, edits, s.whole[r])),
    )


def algo2b(sensitive: SensitiveRules, rng: np.random.Generator) -> Edits:
    """Hide the rules' itemsets by support, large and frequent ones first, by their top item."""
    support = [len(rows) for rows in sensitive.rows]
    order = sorted(range(len(sensitive)), key=lambda r: (-len(sensitive.whole[r]), -support[r], r))

    def step(s: SensitiveRules, edits: Edits, r: int) -> None:
        counts = _item_counts(s, edits, s.whole[r])
        item = max(s.whole[r], key=lambda code: (counts[code], -code))
        take_away(s, edits, r, item, by_confidence=False)

    return _until_hidden(sensitive, order, step)


def removals_needed(
    support: int, antecedent: int, limit: int, sure: Fraction | None, *, lowers_antecedent: bool
) -> int:
    """Return how many supporting baskets must lose an item until the rule is hidden.

    If the item belongs to the antecedent, each removal lowers that support too, and with it what
    confidence gains: (support - n) / (antecedent - n) instead of (support - n) / antecedent.

    >>> removals_needed(80, 100, 50, Fraction(3, 5), lowers_antecedent=False)
    21
    >>> removals_needed(80, 100, 10, Fraction(3, 5), lowers_antecedent=True)
    51
    """
    by_support = max(0, support - limit + 1)
    if sure is None:
        return by_support
    over = support * sure.denominator - sure.numerator * antecedent
    if over < 0:
        return 0
    gain = sure.denominator - (sure.numerator if lowers_antecedent else 0)
    return by_support if gain == 0 else min(by_support, over // gain + 1)


def _until_hidden(sensitive: SensitiveRules, order: Iterable[int], step: Step) -> Edits:
    edits = Edits.none(sensitive.baskets)
    counts = EditedCounts(sensitive, edits)
    pending = list(order)
    while pending:
        for r in pending:
            step(sensitive, edits, r)
        pending = [r for r in pending + [*range(len(sensitive))] if counts.visible(sensitive, r)]
        pending = list(dict.fromkeys(pending))
    return edits


def take_away(
    sensitive: SensitiveRules, edits: Edits, r: int, item: int, *, by_confidence: bool = True
) -> None:
    """Remove an item from the shortest baskets that support a rule and always had the item."""
    counts = EditedCounts(sensitive, edits)
    rows = counts.rows(sensitive.whole[r])
    need = removals_needed(
        len(rows),
        len(counts.rows(sensitive.antecedent[r])),
        int(sensitive.limit[r]),
        sensitive.confidence[r] if by_confidence else None,
        lowers_antecedent=item in sensitive.antecedent[r],
    )
    baskets, gone = sensitive.baskets, np.concatenate(([0], np.cumsum(~edits.kept)))
    rows = rows[_among(rows, baskets.row_of[baskets.cells(item)])]
    ends = baskets.indptr[rows], baskets.indptr[rows + 1]
    left = (ends[1] - gone[ends[1]]) - (ends[0] - gone[ends[0]])
    shortest = rows[np.argsort(left, kind="stable")][:need]
    edits.kept[baskets.cells_at(shortest, item)] = False


def _item_counts(sensitive: SensitiveRules, edits: Edits, items: Iterable[int]) -> dict[int, int]:
    cells = {item: sensitive.baskets.cells(item) for item in items}
    return {item: int(edits.kept[places].sum()) for item, places in cells.items()}


def _rarest_left(sensitive: SensitiveRules, edits: Edits, items: tuple[int, ...]) -> int:
    counts = _item_counts(sensitive, edits, items)
    return min(items, key=lambda item: (counts[item], item))


def _add_antecedent(sensitive: SensitiveRules, edits: Edits, r: int) -> None:
    """Give a rule's antecedent to baskets that hold some of it and not its consequent.

    Those that lack least come first.
    """
    counts = EditedCounts(sensitive, edits)
    left, sure = sensitive.antecedent[r], sensitive.confidence[r]
    support, antecedent = len(counts.rows(sensitive.whole[r])), len(counts.rows(left))
    if sensitive.hidden(r, support, antecedent):
        return
    if sure is None:
        raise PrivacyError("algo1a hides by confidence: give min_confidence, not disclosure")
    need = support * sure.denominator // sure.numerator + 1 - antecedent
    missing = np.full(len(sensitive.baskets), len(left))
    for item in left:
        missing[counts.rows([item])] -= 1
    missing[counts.rows(sensitive.consequent[r])] = 0  # they would support the whole rule
    lacking = np.flatnonzero((missing > 0) & (missing < len(left)))
    if len(lacking) < need:
        raise PrivacyError(
            f"algo1a cannot hide '{sensitive.rules[r]}': {need} baskets must be given its "
            f"antecedent, but only {len(lacking)} hold a part of it and not the consequent; "
            "use another method"
        )
    order = np.lexsort((sensitive.baskets.lengths[lacking], missing[lacking]))
    for item in left:
        new = np.setdiff1d(lacking[order][:need], counts.rows([item]))
        edits.added_rows = np.concatenate((edits.added_rows, new))
        edits.added_items = np.concatenate((edits.added_items, np.full(len(new), item)))


# SWA on the sensitive rules of baskets in memory; the algorithm itself is in ``_window.py``.


def swa(
    sensitive: SensitiveRules,
    rng: np.random.Generator,
    *,
    window: int | None = None,
    victim: str = "transaction",
    lookahead: str = "always",
) -> Edits:
    """Remove from the shortest baskets of each window the item that most sensitive rules share."""
    kept = slide(
        sensitive.baskets,
        sensitive.whole,
        [limit.leaving for limit in sensitive.limits],
        window=window or len(sensitive.baskets),
        victim=victim,
        lookahead=lookahead,
        seed=int(rng.integers(2**63)),
    )
    return Edits(kept)


CLASSICAL: dict[str, Callable[[SensitiveRules, np.random.Generator], Edits]] = {
    method.__name__: method
    for method in (algo1b, algo2a, algo2b, minfia, maxfia, iga, naive, rra, ra, swa)
}
