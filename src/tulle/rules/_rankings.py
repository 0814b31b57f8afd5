"""The best rules by two measures other than confidence, as WEKA's miners rank them.

Tertius (Flach and Lachiche, 2001) takes the rules that their data confirm most; Predictive Apriori
(Scheffer, 2001) those that will be right most often on other baskets, for a rule seen ten times is
known less well than one seen a thousand times.
"""

from __future__ import annotations

import math

import numpy as np

from tulle._types import Floats
from tulle.rules.mine import Implications
from tulle.transactions import Transactions

_LITERALS = 4  # of a rule that Tertius looks at, as in WEKA
_DRAWS = 1_000  # random rules of each length that the prior is learnt from
_CELLS = 200  # of the confidence, for the prior
_BLOCK = 5_000  # rules looked at together


def confirmed(rules: Implications, baskets: int, best: int) -> tuple[Implications, Floats]:
    """Return the rules with the highest values of confirmation, and their values.

    ``best`` counts values, so that rules that are confirmed equally are all in. Heads have one
    item.
    """
    sets = rules.itemsets
    short = (sets.sizes[rules.whole] <= _LITERALS) & (sets.sizes[rules.consequent] == 1)
    rules = Implications(sets, rules.nodes[short])
    support = sets.support / baskets
    expected = support[rules.antecedent] * (1 - support[rules.consequent])
    wrong = support[rules.antecedent] - support[rules.whole]
    room = np.sqrt(expected) - expected
    values = np.divide(expected - wrong, room, out=np.zeros(len(rules)), where=room > 0)
    known = np.unique(values.round(12))[::-1][:best]
    chosen = np.flatnonzero(values.round(12) >= known[-1]) if len(known) else np.arange(0)
    chosen = chosen[np.argsort(-values[chosen], kind="stable")]
    return Implications(sets, rules.nodes[chosen]), values[chosen]


def predictive(
    rules: Implications, data: Transactions, best: int, rng: np.random.Generator
) -> tuple[Implications, Floats]:
    """Return the rules with the highest expected accuracy, and it.

    A rule that says no more than one with fewer conditions, which is as accurate, is left out.
    """
    sets = rules.itemsets
    prior = _prior(data, int(sets.sizes.max(initial=0)), rng)
    counts = np.stack([sets.support[rules.antecedent], sets.support[rules.whole]], axis=1)
    kinds, place = np.unique(counts, axis=0, return_inverse=True)
    accuracy = _expected(kinds.astype(np.float64), prior)[place.reshape(-1)]
    few = sets.sizes[rules.antecedent]
    held = sets.support[rules.whole]
    order = np.lexsort((-sets.sizes[rules.whole], few, -held, -accuracy.round(9)))
    chosen: list[int] = []
    said: list[tuple[set[int], set[int]]] = []
    for rule in order.tolist():
        if len(chosen) == best:
            break
        body = set(sets.codes(rules.antecedent[rule]).tolist())
        head = set(sets.codes(rules.consequent[rule]).tolist())
        if not any(left <= body and right >= head for left, right in said):
            chosen.append(rule)
            said.append((body, head))
    return Implications(sets, rules.nodes[chosen]), accuracy[chosen]


def _expected(counts: Floats, prior: Floats) -> Floats:
    """Return the mean of the true accuracy, given how often each rule applied and was right."""
    true = (np.arange(_CELLS) + 0.5) / _CELLS
    found = np.empty(len(counts))
    with np.errstate(divide="ignore"):
        usual = np.log(prior)
    for start in range(0, len(counts), _BLOCK):
        applied, right = counts[start : start + _BLOCK, :1], counts[start : start + _BLOCK, 1:]
        likely = usual + right * np.log(true) + (applied - right) * np.log1p(-true)
        weight = np.exp(likely - likely.max(axis=1, keepdims=True))
        found[start : start + _BLOCK] = weight @ true / weight.sum(axis=1)
    return found


def _prior(data: Transactions, longest: int, rng: np.random.Generator) -> Floats:
    """Return how usual each accuracy is among all rules: of each length some are drawn."""
    items = len(data.names)
    by_count = np.argsort(-data.counts, kind="stable").astype(np.int32)  # whatever they are called
    prior = np.full(_CELLS, 1e-9)  # no accuracy is impossible
    for size in range(2, min(longest, items) + 1):
        found = []  # confidences of random rules of a length, of those that apply at all
        for _ in range(_DRAWS):
            drawn = by_count[rng.choice(items, size, replace=False)]
            body = data.rows_with(drawn[: rng.integers(1, size)])
            if len(body):
                found.append(len(data.rows_with(drawn)) / len(body))
        if found:
            seen = np.array(found)
            shares = np.bincount(np.minimum((seen * _CELLS).astype(int), _CELLS - 1), None, _CELLS)
            prior += math.comb(items, size) * (2.0**size - 2) * shares / len(seen)
    return prior / prior.sum()
