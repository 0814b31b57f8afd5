"""Blocking: cells become unknown instead of false, so that the release tells no lie.

Supports become intervals. A rule is hidden when the lower end of its support or of its
confidence is below the threshold; and so that a receiver who takes open cells for empty ones does
not find it either, confidence is taken among baskets that surely hold the antecedent, which is
stricter. A mark only where an item was would say "it was here": for every cell that is blocked, a
cell where the basket lacks the item is blocked too, first in baskets that hold the rest of the
rule, where a mark would say most.
"""

from __future__ import annotations

import numpy as np

from tulle.rules.edits import Edits
from tulle.rules.impact import Floats
from tulle.rules.itemsets import Longs
from tulle.rules.sensitive import Sensitive
from tulle.rules.verykios import removals_needed


def blocking(sensitive: Sensitive, rng: np.random.Generator) -> Edits:
    """Blocks items of the shortest supporting baskets until every rule is uncertain enough."""
    baskets = sensitive.baskets
    edits = Edits.none(baskets)
    edits.blocked = np.zeros(len(baskets.items), dtype=bool)
    while visible := _visible(sensitive, edits.blocked):
        for r in visible:
            _block_rule(sensitive, edits.blocked, r)
    _add_decoys(sensitive, edits, rng)
    return edits


def sure_rows(sensitive: Sensitive, blocked: np.ndarray, items: tuple[int, ...]) -> Longs:
    """Baskets that hold all of some items beyond doubt."""
    rows = sensitive.baskets.rows_with(items)
    for item in items:
        rows = rows[~blocked[sensitive.baskets.cells_at(rows, item)]]
    return rows


def _visible(sensitive: Sensitive, blocked: np.ndarray) -> list[int]:
    """Rules that can still be mined: blocking for one rule can bring another one back."""
    return [
        r for r in range(len(sensitive)) if not sensitive.hidden(r, *_sure(sensitive, blocked, r))
    ]


def _sure(sensitive: Sensitive, blocked: np.ndarray, r: int) -> tuple[int, int]:
    whole, left = sensitive.whole[r], sensitive.antecedent[r]
    return len(sure_rows(sensitive, blocked, whole)), len(sure_rows(sensitive, blocked, left))


def _block_rule(sensitive: Sensitive, blocked: np.ndarray, r: int) -> None:
    """The cheaper of: the rule's top item for support, the consequent's for confidence."""
    baskets = sensitive.baskets
    rows = sure_rows(sensitive, blocked, sensitive.whole[r])
    counts = _sure(sensitive, blocked, r)
    limit, sure = int(sensitive.limit[r]), sensitive.confidence[r]
    by_support = removals_needed(*counts, limit, None, lowers_antecedent=False)
    by_either = removals_needed(*counts, limit, sure, lowers_antecedent=False)
    items = sensitive.whole[r] if by_support <= by_either else sensitive.consequent[r]
    victim = max(items, key=lambda item: (baskets.counts[item], -item))
    order = np.argsort(baskets.lengths[rows], kind="stable")
    blocked[baskets.cells_at(rows[order][:by_either], victim)] = True


def _add_decoys(sensitive: Sensitive, edits: Edits, rng: np.random.Generator) -> None:
    """Opens as many empty cells of each item, where a basket holds most of a rule with it."""
    baskets = sensitive.baskets
    assert edits.blocked is not None
    blocked = np.bincount(baskets.items[edits.blocked], minlength=len(baskets.names))
    for item in np.flatnonzero(blocked).tolist():
        likeness = _likeness(sensitive, item)
        likeness[baskets.row_of[baskets.cells(item)]] = -1.0
        order = np.lexsort((rng.random(len(baskets)), -likeness))
        lacking = len(baskets) - int(baskets.counts[item])
        chosen = np.sort(order[: min(int(blocked[item]), lacking)])
        edits.open_rows = np.concatenate((edits.open_rows, chosen))
        edits.open_items = np.concatenate((edits.open_items, np.full(len(chosen), item)))


def _likeness(sensitive: Sensitive, item: int) -> Floats:
    """For each basket, how much of the rest of a rule with the item it holds, at most."""
    baskets = sensitive.baskets
    most = np.zeros(len(baskets))
    for items in (whole for whole in sensitive.whole if item in whole):
        held = np.zeros(len(baskets))
        for other in set(items) - {item}:
            held[baskets.row_of[baskets.cells(other)]] += 1
        most = np.maximum(most, held / (len(items) - 1))
    return most
