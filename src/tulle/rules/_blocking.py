"""Blocking: cells become unknown instead of false, so that the release tells no lie.

Supports and confidences become intervals: the ends are those of all ways to fill the open cells
in. A rule is hidden when the lower end of one of them is below its threshold (``"lower"``); and so
that a receiver who takes open cells for empty ones does not find it either, confidence is taken
among baskets that surely hold the antecedent, which is stricter. ``"middle"``, the reading of the
survey (002, section 5.1), asks that the middle of the interval is below the threshold as well: what
a receiver expects who fills each open cell in by the toss of a coin.

A mark only where an item was would say "it was here": for every cell that is blocked, a cell where
the basket lacks the item is blocked too. It should be in a basket that holds the rest of the rule,
where a mark would say most; but there it raises the upper end as much as the blocked cell lowers
the lower one, and the middle stays where it was. So ``"middle"`` puts it in baskets that hold the
least of the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np

from tulle._types import Ints
from tulle.errors import PrivacyError
from tulle.rules._classic import removals_needed
from tulle.rules._sensitive import Codes, Edits, HidingLimit, SensitiveRules, is_hidden
from tulle.transactions import Transactions

Holders = Callable[[Codes], Ints]  # the baskets that hold all of some items


def blocking(
    sensitive: SensitiveRules, rng: np.random.Generator, *, interval: str = "middle"
) -> Edits:
    """Block items of the shortest supporting baskets until every rule is uncertain enough."""
    edits = Edits.none(sensitive.baskets)
    edits.blocked = np.zeros(len(sensitive.baskets.items), dtype=bool)
    need = _needed_by_middle if interval == "middle" else _needed
    rules = range(len(sensitive))
    while visible := [r for r in rules if need(sensitive, edits, r).by_either]:
        blocked = [_block_rule(sensitive, edits, r, need) for r in visible]
        if not any(blocked):  # nothing is left to block: the release will be refused
            break
        if interval == "middle":  # decoys raise upper ends
            _place_decoys(sensitive, edits, rng, likest=False)
    if interval == "lower":
        _place_decoys(sensitive, edits, rng, likest=True)
    return edits


class RuleBounds(NamedTuple):
    """What can be said of a rule if some cells are open."""

    lower: int  # support if the open cells are empty,
    upper: int  # if they are full
    least: Fraction  # the lowest confidence of all ways to fill them in,
    most: Fraction  # the highest
    holders: int  # of the antecedent, where confidence is lowest

    def below_middle(self, limit: HidingLimit) -> bool:
        if self.lower + self.upper < 2 * limit.support:
            return True
        return limit.confidence is not None and self.least + self.most < 2 * limit.confidence


def interval_of(
    antecedent: Codes, consequent: Codes, sure: Holders, possible: Holders
) -> RuleBounds:
    """Compute the interval of a rule from the baskets that surely or possibly hold items."""
    whole = antecedent + consequent
    lower, upper, holds = sure(whole), possible(whole), sure(antecedent)
    least = np.union1d(holds, np.setdiff1d(possible(antecedent), sure(consequent)))
    most = np.union1d(holds, upper)
    return RuleBounds(
        len(lower),
        len(upper),
        Fraction(len(lower), max(1, len(least))),
        Fraction(len(upper), max(1, len(most))),
        len(least),
    )


def refuse_middles(sensitive: SensitiveRules, released: Transactions) -> None:
    """Raise an error if the middle of a rule's interval in a release is not below its limits."""
    assert released.unknown is not None
    open_ = released.unknown
    filled = released.adding(open_.row_of, open_.items)
    seen = [
        str(sensitive.rules[r])
        for r, sides in enumerate(zip(sensitive.antecedent, sensitive.consequent))
        if not interval_of(*sides, released.rows_with, filled.rows_with).below_middle(
            sensitive.limits[r]
        )
    ]
    if seen:
        raise PrivacyError(
            f"method 'blocking' left the middle of the interval of {len(seen)} of "
            f"{len(sensitive)} rules above their thresholds ({'; '.join(seen)}): nothing is "
            "released; use the lower interval (--interval) or another method (--method best)"
        )


class _Needed(NamedTuple):
    """How many more of the baskets that surely support a rule have to become uncertain."""

    by_support: int
    by_either: int


def _needed(sensitive: SensitiveRules, edits: Edits, r: int) -> _Needed:
    limit = sensitive.limits[r]
    support = len(sure_rows(sensitive, edits, sensitive.whole[r]))
    antecedent = len(sure_rows(sensitive, edits, sensitive.antecedent[r]))
    if is_hidden(support, antecedent, limit):
        return _Needed(0, 0)
    return _fall(support, antecedent, limit)


def _needed_by_middle(sensitive: SensitiveRules, edits: Edits, r: int) -> _Needed:
    """Count by the middle: a cell that becomes unknown lowers the lower end, not the upper one."""
    needed, limit = _needed(sensitive, edits, r), sensitive.limits[r]

    def possible(items: Codes) -> Ints:
        baskets = sensitive.baskets
        held = np.zeros(len(baskets), dtype=np.int64)
        for item in items:
            held[baskets.row_of[baskets.cells(item)]] += 1
            held[edits.open_rows[edits.open_items == item]] += 1
        return np.flatnonzero(held == len(items))

    found = interval_of(
        sensitive.antecedent[r],
        sensitive.consequent[r],
        partial(sure_rows, sensitive, edits),
        possible,
    )
    if found.below_middle(limit):
        return needed
    sure = None if limit.confidence is None else 2 * limit.confidence - found.most
    apart = HidingLimit(2 * limit.support - found.upper, sure, limit.leaving)
    more = _fall(found.lower, found.holders, apart)
    return _Needed(*map(max, needed, more))


def _fall(support: int, antecedent: int, limit: HidingLimit) -> _Needed:
    counts = (support, antecedent, limit.support)
    return _Needed(
        removals_needed(*counts, None, lowers_antecedent=False),
        removals_needed(*counts, limit.confidence, lowers_antecedent=False),
    )


def sure_rows(sensitive: SensitiveRules, edits: Edits, items: Codes) -> Ints:
    assert edits.blocked is not None
    rows = sensitive.baskets.rows_with(items)
    for item in items:
        rows = rows[~edits.blocked[sensitive.baskets.cells_at(rows, item)]]
    return rows


def _block_rule(
    sensitive: SensitiveRules, edits: Edits, r: int, need: Callable[..., _Needed]
) -> bool:
    """Block the rule's top item to lower support, or the consequent's to lower confidence.

    Whatever needs fewer cells; return whether any was left to block.
    """
    baskets = sensitive.baskets
    assert edits.blocked is not None
    needed = need(sensitive, edits, r)
    items = sensitive.whole[r]
    if needed.by_support > needed.by_either:
        items = sensitive.consequent[r]
    victim = max(items, key=lambda item: (baskets.counts[item], -item))
    rows = sure_rows(sensitive, edits, sensitive.whole[r])
    order = np.argsort(baskets.lengths[rows], kind="stable")
    cells = baskets.cells_at(rows[order][: needed.by_either], victim)
    edits.blocked[cells] = True
    return len(cells) > 0


def _place_decoys(
    sensitive: SensitiveRules, edits: Edits, rng: np.random.Generator, *, likest: bool
) -> None:
    """Block as many empty cells of each item, where a basket holds most (or least) of a rule."""
    baskets = sensitive.baskets
    assert edits.blocked is not None
    blocked = np.bincount(baskets.items[edits.blocked], minlength=len(baskets.names))
    rows, items = [], []
    for item in np.flatnonzero(blocked).tolist():
        likeness = np.zeros(len(baskets))  # how much of the rest of a rule a basket holds, at most
        for whole in (whole for whole in sensitive.whole if item in whole):
            held = np.zeros(len(baskets))
            for other in set(whole) - {item}:
                held[baskets.row_of[baskets.cells(other)]] += 1
            likeness = np.maximum(likeness, held / (len(whole) - 1))
        likeness *= 1 if likest else -1
        likeness[baskets.row_of[baskets.cells(item)]] = -np.inf
        order = np.lexsort((rng.random(len(baskets)), -likeness))
        lacking = len(baskets) - int(baskets.counts[item])
        rows.append(np.sort(order[: min(int(blocked[item]), lacking)]))
        items.append(np.full(len(rows[-1]), item))
    edits.open_rows = np.concatenate([*rows, np.empty(0, dtype=np.int64)])
    edits.open_items = np.concatenate([*items, np.empty(0, dtype=np.int64)])
