"""Algorithms 1.a, 1.b, 2.a and 2.b of Verykios and others: rule by rule, stopping in time.

Each takes the shortest supporting baskets first and stops as soon as the rule's support or
confidence is below its threshold. A rule hidden by confidence can come back when a later removal
lowers its antecedent's support, so all end with verify-and-repair: rules that came back are
treated again until none is left. Every round takes away at least one item, so this ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np

from tulle.errors import PrivacyError
from tulle.rules.counts import EditedCounts
from tulle.rules.edits import Edits
from tulle.rules.itemsets import Longs
from tulle.rules.sensitive import Sensitive

Step = Callable[[Sensitive, Edits, int], None]


def algo1a(sensitive: Sensitive, rng: np.random.Generator) -> Edits:
    """Raises the antecedent's support: adds its missing items to baskets that hold some of it.

    The only algorithm that adds items: the release then says of people what is not true.
    """
    return _until_hidden(sensitive, range(len(sensitive)), _add_antecedent)


def algo1b(sensitive: Sensitive, rng: np.random.Generator) -> Edits:
    """Takes the rarest item of the consequent away."""
    return _until_hidden(
        sensitive,
        range(len(sensitive)),
        lambda s, edits, r: _take_away(s, edits, r, _rarest(s, edits, s.consequent[r])),
    )


def algo2a(sensitive: Sensitive, rng: np.random.Generator) -> Edits:
    """Takes the rarest item of the rule away."""
    return _until_hidden(
        sensitive,
        range(len(sensitive)),
        lambda s, edits, r: _take_away(s, edits, r, _rarest(s, edits, s.whole[r])),
    )


def algo2b(sensitive: Sensitive, rng: np.random.Generator) -> Edits:
    """Hides the rules' itemsets by support, large and frequent ones first, by their top item."""
    support = [len(rows) for rows in sensitive.rows]
    order = sorted(range(len(sensitive)), key=lambda r: (-len(sensitive.whole[r]), -support[r], r))

    def step(s: Sensitive, edits: Edits, r: int) -> None:
        counts = _item_counts(s, edits, s.whole[r])
        item = max(s.whole[r], key=lambda code: (counts[code], -code))
        _take_away(s, edits, r, item, by_confidence=False)

    return _until_hidden(sensitive, order, step)


def removals_needed(
    support: int, antecedent: int, limit: int, sure: Fraction | None, *, lowers_antecedent: bool
) -> int:
    """How many supporting baskets must lose an item until the rule is hidden.

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


def _until_hidden(sensitive: Sensitive, order: Iterable[int], step: Step) -> Edits:
    edits = Edits.none(sensitive.baskets)
    counts = EditedCounts(sensitive, edits)
    pending = list(order)
    while pending:
        for r in pending:
            step(sensitive, edits, r)
        pending = [r for r in pending + [*range(len(sensitive))] if counts.visible(sensitive, r)]
        pending = list(dict.fromkeys(pending))
    return edits


def _take_away(
    sensitive: Sensitive, edits: Edits, r: int, item: int, *, by_confidence: bool = True
) -> None:
    counts = EditedCounts(sensitive, edits)
    rows = counts.rows(sensitive.whole[r])
    need = removals_needed(
        len(rows),
        len(counts.rows(sensitive.antecedent[r])),
        int(sensitive.limit[r]),
        sensitive.confidence[r] if by_confidence else None,
        lowers_antecedent=item in sensitive.antecedent[r],
    )
    cells = sensitive.baskets.cells_at(_shortest(sensitive, edits, rows)[:need], item)
    edits.kept[cells] = False


def _shortest(sensitive: Sensitive, edits: Edits, rows: Longs) -> Longs:
    starts = sensitive.baskets.indptr
    gone = np.concatenate(([0], np.cumsum(~edits.kept)))
    length = (starts[rows + 1] - gone[starts[rows + 1]]) - (starts[rows] - gone[starts[rows]])
    return rows[np.argsort(length, kind="stable")]


def _item_counts(sensitive: Sensitive, edits: Edits, items: Iterable[int]) -> dict[int, int]:
    cells = {item: sensitive.baskets.cells(item) for item in items}
    return {item: int(edits.kept[places].sum()) for item, places in cells.items()}


def _rarest(sensitive: Sensitive, edits: Edits, items: tuple[int, ...]) -> int:
    counts = _item_counts(sensitive, edits, items)
    return min(items, key=lambda item: (counts[item], item))


def _add_antecedent(sensitive: Sensitive, edits: Edits, r: int) -> None:
    sure = sensitive.confidence[r]
    counts = EditedCounts(sensitive, edits)
    left = sensitive.antecedent[r]
    support, antecedent = len(counts.rows(sensitive.whole[r])), len(counts.rows(left))
    if sensitive.hidden(r, support, antecedent):
        return
    if sure is None:
        raise PrivacyError("algo1a hides by confidence: give min_confidence, not disclosure")
    need = support * sure.denominator // sure.numerator + 1 - antecedent
    held = np.zeros(len(sensitive.baskets), dtype=np.int64)
    for item in left:
        held[counts.rows([item])] += 1
    held[counts.rows(sensitive.consequent[r])] = 0  # they would support the whole rule
    partly = np.flatnonzero((held > 0) & (held < len(left)))
    if len(partly) < need:
        raise PrivacyError(
            f"algo1a cannot hide '{sensitive.rules[r]}': {need} baskets must be given its "
            f"antecedent, but only {len(partly)} hold a part of it and not the consequent; "
            "use another method"
        )
    chosen = partly[np.lexsort((sensitive.baskets.lengths[partly], -held[partly]))][:need]
    for item in left:
        lacking = np.setdiff1d(chosen, counts.rows([item]))
        edits.added_rows = np.concatenate((edits.added_rows, lacking))
        edits.added_items = np.concatenate((edits.added_items, np.full(len(lacking), item)))
