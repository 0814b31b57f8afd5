"""``best`` with leave to add items: rules may also fall because their antecedent grows.

A rule whose antecedent is given to more baskets loses confidence, and no itemset loses support:
few rules are lost, but some are invented, and the release says of people what is not true. Some
rules are hidden so, the others by the removals of ``best``; of several such plans, and of the
plan that adds nothing, the one with the fewest lost rules is taken, then with the fewest invented.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np

from tulle._types import Floats, Ints
from tulle.errors import PrivacyError
from tulle.rules._classic import algo1a, removals_needed
from tulle.rules._measures import Mined, side_effects
from tulle.rules._search import Impact, Search, best
from tulle.rules._sensitive import Codes, EditedCounts, Edits, Sensitive, count_sets

_SHARES = (1.0, 0.75, 0.5, 0.25)  # of the rules, those that lose most others by removals first
_ROUNDS = 20  # an addition can bring another rule back, and so on; a plan that does not end is none


def best_adding(
    sensitive: Sensitive,
    before: Mined,
    impact: Impact,
    keep: Sequence[Codes],
    rng: np.random.Generator,
) -> Edits:
    """Return the edits, additions among them, that lose the fewest rules."""

    def harm(edits: Edits) -> tuple[int, float, float]:
        released = edits.apply(sensitive.baskets)
        broken = sum(n < before.minimum for n in count_sets(released, keep)) if keep else 0
        after = Mined.of(released, before.minimum, before.confidence)
        effects = side_effects(before, after, sensitive)
        return broken, effects["misses_cost"], effects["artifactual"]

    return min(_plans(sensitive, impact, rng), key=harm)


def _plans(sensitive: Sensitive, impact: Impact, rng: np.random.Generator) -> Iterator[Edits]:
    yield best(sensitive, impact, rng)
    with suppress(PrivacyError):  # it fails where too few baskets hold a part of an antecedent
        yield algo1a(sensitive, rng)
    falls_by_confidence = [r for r, sure in enumerate(sensitive.confidence) if sure is not None]
    dear = sorted(falls_by_confidence, key=lambda r: -int(sensitive.quota[r]))
    for count in dict.fromkeys(round(share * len(dear)) for share in _SHARES):
        plan = _mixed(sensitive, impact, dear[:count], rng) if count else None
        if plan is not None:
            yield plan


def _mixed(
    sensitive: Sensitive, impact: Impact, growing: list[int], rng: np.random.Generator
) -> Edits | None:
    """Plan removals for the other rules, then additions for the growing ones, until all are
    hidden.
    """
    others = [r for r in range(len(sensitive)) if r not in growing]
    edits = Edits.none(sensitive.baskets)
    if others:
        edits = Search(sensitive.only(others), impact, rng).run(starts=2, rounds=60)
    counts = EditedCounts(sensitive, edits)
    for _ in range(_ROUNDS):
        visible = [r for r in range(len(sensitive)) if counts.visible(sensitive, r)]
        if not visible:
            return edits
        for r in visible:
            if r in growing:
                _grow_antecedent(sensitive, edits, r)
            else:
                _take_consequent(sensitive, edits, r)
    return None


def _grow_antecedent(sensitive: Sensitive, edits: Edits, r: int) -> None:
    """Add a rule's antecedent to baskets without its consequent, the least changed first."""
    counts = EditedCounts(sensitive, edits)
    left, sure = sensitive.antecedent[r], sensitive.confidence[r]
    assert sure is not None
    support, antecedent = len(counts.rows(sensitive.whole[r])), len(counts.rows(left))
    if sensitive.hidden(r, support, antecedent):
        return
    need = support * sure.denominator // sure.numerator + 1 - antecedent
    missing = np.full(len(sensitive.baskets), len(left))
    for item in left:
        missing[counts.rows([item])] -= 1
    missing[counts.rows(sensitive.consequent[r])] = 0  # they would support the whole rule
    lacking = np.flatnonzero(missing)
    order = np.lexsort((sensitive.baskets.lengths[lacking], missing[lacking]))
    _add(edits, counts, lacking[order][:need], left)


def _add(edits: Edits, counts: EditedCounts, rows: Ints, items: Codes) -> None:
    for item in items:
        new = np.setdiff1d(rows, counts.rows([item]))
        edits.added_rows = np.concatenate((edits.added_rows, new))
        edits.added_items = np.concatenate((edits.added_items, np.full(len(new), item)))


def _take_consequent(sensitive: Sensitive, edits: Edits, r: int) -> None:
    """Remove an item of a rule's consequent from the shortest baskets that always had it."""
    counts = EditedCounts(sensitive, edits)
    rows, item = counts.rows(sensitive.whole[r]), sensitive.consequent[r][0]
    antecedent = len(counts.rows(sensitive.antecedent[r]))
    need = removals_needed(
        len(rows),
        antecedent,
        int(sensitive.limit[r]),
        sensitive.confidence[r],
        lowers_antecedent=False,
    )
    cells = sensitive.baskets.cells(item)
    cells = cells[edits.kept[cells] & np.isin(sensitive.baskets.row_of[cells], rows)]
    lengths = sensitive.baskets.lengths[sensitive.baskets.row_of[cells]]
    edits.kept[cells[np.argsort(lengths, kind="stable")][:need]] = False


# Blocking: cells become unknown instead of false, so that the release tells no lie. Supports
# become intervals. A rule is hidden when the lower end of its support or of its confidence is
# below the threshold; and so that a receiver who takes open cells for empty ones does not find it
# either, confidence is taken among baskets that surely hold the antecedent, which is stricter. A
# mark only where an item was would say "it was here": for every cell that is blocked, a cell
# where the basket lacks the item is blocked too, first in baskets that hold the rest of the rule,
# where a mark would say most.


def blocking(sensitive: Sensitive, rng: np.random.Generator) -> Edits:
    """Block items of the shortest supporting baskets until every rule is uncertain enough."""
    baskets = sensitive.baskets
    edits = Edits.none(baskets)
    edits.blocked = np.zeros(len(baskets.items), dtype=bool)
    while visible := _visible(sensitive, edits.blocked):
        for r in visible:
            _block_rule(sensitive, edits.blocked, r)
    _add_decoys(sensitive, edits, rng)
    return edits


def sure_rows(sensitive: Sensitive, blocked: np.ndarray, items: tuple[int, ...]) -> Ints:
    """Return the baskets that certainly hold all of some items."""
    rows = sensitive.baskets.rows_with(items)
    for item in items:
        rows = rows[~blocked[sensitive.baskets.cells_at(rows, item)]]
    return rows


def _visible(sensitive: Sensitive, blocked: np.ndarray) -> list[int]:
    """Return the rules that can still be mined: blocking for one rule can bring another one
    back.
    """
    return [
        r for r in range(len(sensitive)) if not sensitive.hidden(r, *_sure(sensitive, blocked, r))
    ]


def _sure(sensitive: Sensitive, blocked: np.ndarray, r: int) -> tuple[int, int]:
    whole, left = sensitive.whole[r], sensitive.antecedent[r]
    return len(sure_rows(sensitive, blocked, whole)), len(sure_rows(sensitive, blocked, left))


def _block_rule(sensitive: Sensitive, blocked: np.ndarray, r: int) -> None:
    """Choose the cheaper of: the rule's top item for support, the consequent's for confidence."""
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
    """Block as many empty cells of each item, where a basket holds most of a rule with it."""
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
    """Return, for each basket, how much of the rest of a rule with the item it holds, at most."""
    baskets = sensitive.baskets
    most = np.zeros(len(baskets))
    for items in (whole for whole in sensitive.whole if item in whole):
        held = np.zeros(len(baskets))
        for other in set(items) - {item}:
            held[baskets.row_of[baskets.cells(other)]] += 1
        most = np.maximum(most, held / (len(items) - 1))
    return most
