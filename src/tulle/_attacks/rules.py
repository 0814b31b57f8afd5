"""Recovery: which rules were hidden in these baskets?

Hiding takes a rule below the thresholds of mining, and cheap hiding takes it only just below. The
*competitor* mines the release with thresholds that are a tenth lower, and looks at the rules that
appear then: both their sides are frequent, only the rule is missing. The nearer a rule stays to its
threshold, the more it is suspected. Right if a hidden rule is found, or is among the first
suspects, of whom there are as many as rules were hidden. Guessing means naming as many at random
among all rules at the lowered thresholds; the control is how often a rule that just misses the
thresholds, and that nobody hid, is suspected.

The *counter of steps* knows how rules are hidden: with one more basket the rule would be found
again. With one margin for all rules, they all stop one step below the same level, and the margin
need not be known to find it: it is the level at which too many rules stop. Every rule that stops
there is suspected.

*Removed items*: The *insider* knows which rules were hidden, and how many items were taken out for
them. Somebody from whose basket beer was removed still bought what beer drinkers buy: all baskets
that hold the rest of the rule are ranked by how much the other items speak for the missing one
(naive Bayes, learnt from the release itself), and the first ones are named, as many as were
changed. Guessing is to name as many at random among the same baskets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tulle._attacks.result import AttackResult
from tulle._types import Codes, Flags, Floats, Ints, Words
from tulle.errors import DataError
from tulle.rules._sensitive import lookup
from tulle.rules.mine import Implications, hash_words, implications, mine
from tulle.rules.rule import Rule
from tulle.transactions import Transactions

GAP = Fraction(1, 10)  # by which the competitor lowers the thresholds
_DEEPEST = Fraction(1, 4)  # the margins that the counter of steps tries,
_FINE = 0.005  # as fine as this,
_NEAR = 10  # each compared with so many levels on both sides
_MIX = np.uint64(0x9E3779B97F4A7C15)


def rule_recovery(
    released: Transactions,
    hidden: Sequence[Rule],
    min_support: int,
    min_confidence: Fraction,
    rng: np.random.Generator,
) -> AttackResult:
    """Look for hidden rules among those that just miss the thresholds.

    ``released``: the baskets that are shared; items that the rules name are known to them.
    ``hidden``: the rules that were hidden. ``min_support``, ``min_confidence``: the thresholds that
    they were hidden at: a number of baskets, and a share.
    """
    found, secrets = _mined(released, hidden, min_support, min_confidence, GAP)
    strength = _strength(found, min_support, float(min_confidence))
    secret = np.isin(_keys(found), secrets)
    shows = strength >= 1
    candidates = np.flatnonzero(~shows & _sides_frequent(found, min_support))
    order = np.lexsort((rng.random(len(candidates)), -strength[candidates]))
    suspects = candidates[order[: len(secrets)]]
    innocent = int((~secret[candidates]).sum())
    return AttackResult(
        "rule_recovery",
        len(secrets),
        int((secret & shows).sum() + secret[suspects].sum()),
        min(1.0, len(secrets) / max(1, len(found))) * int(secret.sum()),
        int((~secret[suspects]).sum()) if innocent else None,
        innocent or None,
        story="A competitor mines the release with thresholds that are a tenth lower and "
        "suspects the rules that come nearest to the true ones, as many as were hidden. "
        "Right if a suspect was hidden, or if a hidden rule is still found; the control "
        "is how often a rule that nobody hid is suspected.",
        details={"rules that just miss the thresholds": len(candidates)},
    )


def rule_steps(
    released: Transactions, hidden: Sequence[Rule], min_support: int, min_confidence: Fraction
) -> AttackResult:
    """Look for hidden rules one step below the level where too many rules stop.

    ``released``: the baskets that are shared; items that the rules name are known to them.
    ``hidden``: the rules that were hidden. ``min_support``, ``min_confidence``: the thresholds that
    they were hidden at: a number of baskets, and a share.
    """
    found, secrets = _mined(released, hidden, min_support, min_confidence, _DEEPEST)
    missing = np.flatnonzero(_strength(found, min_support, float(min_confidence)) < 1)
    support = found.itemsets.support
    whole, antecedent = support[found.whole[missing]], support[found.antecedent[missing]]
    secret = np.isin(_keys(found)[missing], secrets)
    levels = np.arange(round(_DEEPEST / _FINE)) * _FINE
    stops = np.array(
        [
            _one_step_below(whole, antecedent, *_limits(min_support, min_confidence, level))
            for level in levels
        ]
    ).reshape(len(levels), -1)
    level = _crowded(stops.sum(axis=1, dtype=np.float64))
    suspects = stops[level]
    innocent = int((~secret).sum())
    return AttackResult(
        "rule_steps",
        len(secrets),
        int((secret & suspects).sum()),
        float(secret.sum()) * int(suspects.sum()) / max(1, len(missing)),
        int((~secret & suspects).sum()) if innocent else None,
        innocent or None,
        story="A competitor looks for the level, at the thresholds or up to a quarter below them, "
        "one step below which too many rules stop, and suspects all that stop there. Right if a "
        "suspect was hidden; the control is how often a rule that nobody hid is suspected.",
        details={
            "rules suspected": int(suspects.sum()),
            "of them hidden": int((secret & suspects).sum()),
            "level, as a share of the thresholds": float(1 - levels[level]),
        },
    )


def _limits(min_support: int, min_confidence: Fraction, margin: float) -> tuple[int, float]:
    """Return the support and the confidence below which a rule with a margin is hidden."""
    return math.ceil(round(min_support * (1 - margin), 9)), float(min_confidence) * (1 - margin)


def _one_step_below(whole: Codes, antecedent: Codes, limit: int, sure: float) -> Flags:
    """Return which rules one more basket would take to the limit, by support or by confidence."""
    confident = whole >= sure * antecedent
    by_support = (whole == limit - 1) & confident
    more = (whole + 1 >= sure * antecedent) | (whole + 1 >= sure * (antecedent + 1))
    return np.asarray(by_support | ((whole >= limit) & ~confident & more))


def _crowded(counts: Floats) -> int:
    """Return the level at which most rules stop, compared with the levels around it."""
    around = [
        np.median(np.delete(counts[max(0, i - _NEAR) : i + _NEAR + 1], min(i, _NEAR)))
        for i in range(len(counts))
    ]
    return int(np.argmax((counts - np.array(around)) / np.sqrt(np.array(around) + 1)))


def _strength(found: Implications, min_support: int, min_confidence: float) -> Floats:
    """Compute how near each rule comes to the thresholds: 1 or more reaches them."""
    support = found.itemsets.support.astype(np.float64)
    whole, antecedent = support[found.whole], support[found.antecedent]
    by_support = whole / min_support
    if not min_confidence:
        return by_support
    return np.minimum(by_support, whole / antecedent / min_confidence)


def _sides_frequent(found: Implications, min_support: int) -> NDArray[np.bool_]:
    support = found.itemsets.support
    return np.asarray(
        (support[found.antecedent] >= min_support) & (support[found.consequent] >= min_support)
    )


def _keys(found: Implications) -> Words:
    hashes = found.itemsets.hashes
    return _mixed(hashes[found.whole], hashes[found.antecedent])


def _mined(
    released: Transactions,
    hidden: Sequence[Rule],
    min_support: int,
    min_confidence: Fraction,
    deeper: Fraction,
) -> tuple[Implications, Words]:
    """Mine below the thresholds, by a share of them; return the rules and the hidden ones' keys."""
    if not hidden:
        raise DataError("rule recovery needs at least one hidden rule")
    longest = max(len(rule.consequent) for rule in hidden)
    low = max(1, math.ceil(min_support * (1 - deeper)))
    itemsets = mine(released, low)
    found = implications(itemsets, min_confidence * (1 - deeper), longest)
    return found, np.unique(_keys_of(released, hidden))


def _keys_of(baskets: Transactions, rules: Sequence[Rule]) -> Words:
    words = hash_words(len(baskets.names))
    sides = lookup(baskets, [side for rule in rules for side in (rule.antecedent, rule.consequent)])
    hashed = np.array([np.bitwise_xor.reduce(words[list(codes)]) for codes in sides])
    left, right = hashed[::2], hashed[1::2]
    return _mixed(left ^ right, left)


def _mixed(whole: Words, antecedent: Words) -> Words:
    with np.errstate(over="ignore"):
        return whole * _MIX + antecedent


def removed_items(
    original: Transactions, released: Transactions, hidden: Sequence[Rule], rng: np.random.Generator
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
