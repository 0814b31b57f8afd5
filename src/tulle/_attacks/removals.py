"""Reconstruction of removed items: whose baskets were changed to hide a rule?

The *insider* knows which rules were hidden, and how many items were taken out for them. Somebody
from whose basket beer was removed still bought what beer drinkers buy: all baskets that hold the
rest of the rule are ranked by how much the other items speak for the missing one (naive Bayes,
learnt from the release itself), and the first ones are named, as many as were changed. Guessing is
to name as many at random among the same baskets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tulle._attacks.result import AttackResult
from tulle._types import Floats, Ints
from tulle.errors import DataError
from tulle.rules._sensitive import lookup
from tulle.rules.rule import Rule
from tulle.transactions import Transactions


def removed_items(
    original: Transactions,
    released: Transactions,
    hidden: Sequence[Rule],
    rng: np.random.Generator,
) -> AttackResult | None:
    """Name the baskets from which items were removed.

    ``original``, ``released``: the same baskets, in the same order, before and after. ``hidden``:
    the rules that were hidden. ``rng``: breaks ties. None if nothing was removed.
    """
    if not hidden:
        raise DataError("reconstruction needs at least one hidden rule")
    removed = successes = 0
    guessed = 0.0
    rules = lookup(original, [rule.items for rule in hidden])
    for item in sorted({item for items in rules for item in items}):
        rests = [set(items) - {item} for items in rules if item in items]
        holders = np.unique(np.concatenate([released.rows_with(tuple(rest)) for rest in rests]))
        candidates = np.setdiff1d(holders, released.rows_with((item,)))
        changed = np.intersect1d(candidates, original.rows_with((item,)))
        if not len(changed):
            continue
        scores = _scores(released, item)[candidates]
        order = np.lexsort((rng.random(len(candidates)), -scores))
        named = candidates[order[: len(changed)]]
        removed += len(changed)
        successes += len(np.intersect1d(named, changed))
        guessed += len(changed) ** 2 / len(candidates)
    if not removed:
        return None
    return AttackResult(
        "removed_items",
        removed,
        successes,
        guessed,
        story="An insider who knows the hidden rules, and how many items were removed for them, "
        "ranks the baskets that hold the rest of a rule by how much their other items speak for "
        "the missing one, and names the first. Right if the item was removed from that basket.",
    )


def _scores(baskets: Transactions, item: int) -> Floats:
    """Return the log odds of an item for each basket, from its other items."""
    with_item = np.zeros(len(baskets), dtype=bool)
    with_item[baskets.rows_with((item,))] = True
    inside = with_item[baskets.row_of]
    width = len(baskets.names)
    together: Ints = np.bincount(baskets.items[inside], minlength=width)
    alone: Ints = np.bincount(baskets.items[~inside], minlength=width)
    share = (together + 1) / (with_item.sum() + 2)
    elsewhere = (alone + 1) / ((~with_item).sum() + 2)
    weight = np.log(share / elsewhere) - np.log((1 - share) / (1 - elsewhere))
    weight[item] = 0.0
    scores = np.bincount(baskets.row_of, weights=weight[baskets.items], minlength=len(baskets))
    return np.asarray(scores, dtype=np.float64)
