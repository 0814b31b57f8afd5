"""Blocking: cells become unknown instead of false, so that the release tells no lie.

Supports become intervals. A rule is hidden when the lower end of its support, or of its
confidence (sure supporters of the rule among possible holders of the antecedent), is below the
threshold. A mark only where an item was would say "it was here": for every cell that is
blocked, a cell where the basket lacks the item is blocked too.
"""

from __future__ import annotations

import numpy as np

from tulle.rules.edits import Edits
from tulle.rules.itemsets import Longs
from tulle.rules.sensitive import Sensitive
from tulle.rules.verykios import removals_needed


def blocking(sensitive: Sensitive, rng: np.random.Generator) -> Edits:
    """Blocks items of the shortest supporting baskets until every rule is uncertain enough."""
    baskets = sensitive.baskets
    edits = Edits.none(baskets)
    edits.blocked = np.zeros(len(baskets.items), dtype=bool)
    for r in range(len(sensitive)):
        _block_rule(sensitive, edits.blocked, r)
    _add_decoys(sensitive, edits, rng)
    return edits


def sure_rows(sensitive: Sensitive, blocked: np.ndarray, items: tuple[int, ...]) -> Longs:
    """Baskets that hold all of some items beyond doubt."""
    rows = sensitive.baskets.rows_with(items)
    for item in items:
        rows = rows[~blocked[sensitive.baskets.cells_at(rows, item)]]
    return rows


def _block_rule(sensitive: Sensitive, blocked: np.ndarray, r: int) -> None:
    """The cheaper of: the rule's top item until support falls, the consequent's until confidence.

    A blocked item keeps the upper end of the antecedent's support, so no rule comes back.
    """
    baskets = sensitive.baskets
    rows = sure_rows(sensitive, blocked, sensitive.whole[r])
    possible = len(baskets.rows_with(sensitive.antecedent[r]))
    limit, sure = int(sensitive.limit[r]), sensitive.confidence[r]
    by_support = removals_needed(len(rows), possible, limit, None, lowers_antecedent=False)
    by_either = removals_needed(len(rows), possible, limit, sure, lowers_antecedent=False)
    items = sensitive.whole[r] if by_support <= by_either else sensitive.consequent[r]
    victim = max(items, key=lambda item: (baskets.counts[item], -item))
    order = np.argsort(baskets.lengths[rows], kind="stable")
    blocked[baskets.cells_at(rows[order][:by_either], victim)] = True


def _add_decoys(sensitive: Sensitive, edits: Edits, rng: np.random.Generator) -> None:
    baskets = sensitive.baskets
    assert edits.blocked is not None
    blocked = np.bincount(baskets.items[edits.blocked], minlength=len(baskets.names))
    rows, items = [], []
    for item in np.flatnonzero(blocked).tolist():
        lacking = np.setdiff1d(np.arange(len(baskets)), baskets.row_of[baskets.cells(item)])
        chosen = rng.choice(lacking, size=min(int(blocked[item]), len(lacking)), replace=False)
        rows.append(np.sort(chosen))
        items.append(np.full(len(chosen), item))
    if rows:
        edits.open_rows, edits.open_items = np.concatenate(rows), np.concatenate(items)
