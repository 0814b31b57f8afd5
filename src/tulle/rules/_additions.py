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

from tulle.errors import PrivacyError
from tulle.rules._classic import add_antecedent, algo1a, take_away
from tulle.rules._measures import MinedRules, side_effects
from tulle.rules._search import Impact, RemovalSearch, best
from tulle.rules._sensitive import Codes, EditedCounts, Edits, SensitiveRules, count_sets

_SHARES = (1.0, 0.75, 0.5, 0.25)  # of the rules, those that lose most others by removals first
_ROUNDS = 20  # an addition can bring another rule back, and so on; a plan that does not end is none


def best_adding(
    sensitive: SensitiveRules,
    before: MinedRules,
    impact: Impact,
    keep: Sequence[Codes],
    rng: np.random.Generator,
) -> Edits:
    """Return the edits, additions among them, that lose the fewest rules."""

    def harm(edits: Edits) -> tuple[int, float, float]:
        released = edits.apply(sensitive.baskets)
        broken = sum(n < before.minimum for n in count_sets(released, keep)) if keep else 0
        after = MinedRules.of(released, before.minimum, before.confidence)
        effects = side_effects(before, after, sensitive)
        return broken, effects["misses_cost"], effects["artifactual"]

    return min(_plans(sensitive, impact, rng), key=harm)


def _plans(sensitive: SensitiveRules, impact: Impact, rng: np.random.Generator) -> Iterator[Edits]:
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
    sensitive: SensitiveRules, impact: Impact, growing: list[int], rng: np.random.Generator
) -> Edits | None:
    """Plan removals for the other rules, then additions for the growing ones, until all hide."""
    others = [r for r in range(len(sensitive)) if r not in growing]
    edits = Edits.none(sensitive.baskets)
    if others:
        edits = RemovalSearch(sensitive.only(others), impact, rng).run(starts=2, rounds=60)
    counts = EditedCounts(sensitive, edits)
    for _ in range(_ROUNDS):
        visible = [r for r in range(len(sensitive)) if counts.visible(sensitive, r)]
        if not visible:
            return edits
        for r in visible:
            if r in growing:
                add_antecedent(sensitive, edits, r, partly=False)
            else:
                take_away(sensitive, edits, r, sensitive.consequent[r][0])
    return None
