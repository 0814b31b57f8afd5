from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.reference import rules as slow
from tests.rules.test_best import shop
from tulle import PatternSanitizer, Rule, rules
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.rules import patterns

BASKETS = shop(0)


def shared_sets(frame: Any) -> set[frozenset[Any]]:
    sides = zip(frame["antecedent"], frame["consequent"])
    return {frozenset(a) | frozenset(b) for a, b in sides}


@pytest.mark.guarantee
@pytest.mark.slow
@given(
    st.lists(st.sets(st.integers(0, 5), min_size=2), min_size=6, max_size=16),
    st.lists(st.sets(st.integers(0, 5), min_size=2, max_size=4), min_size=1, max_size=3),
)
def test_no_inference_regains_a_sensitive_set(
    baskets: list[set[int]], wanted: list[set[int]]
) -> None:
    frequent = slow.itemsets(baskets, 2)
    secret = [frozenset(items) for items in wanted if frozenset(items) in frequent]
    assume(secret)
    asked = [(sorted(items)[:1], sorted(items)[1:]) for items in secret]
    one = PatternSanitizer(asked, min_support=2, min_confidence=0)
    shared = shared_sets(one.fit_transform([sorted(basket) for basket in baskets]))
    for itemset in secret:
        assert not any(itemset <= other for other in shared)  # backward
        for size in range(2, len(itemset)):  # forward
            assert not all(frozenset(s) in shared for s in combinations(itemset, size))
    # what is shared is closed: a rule's parts are shared with it
    for itemset in shared:
        smaller = combinations(itemset, len(itemset) - 1)
        assert all(frozenset(s) in shared for s in smaller if len(s) > 1)
    assert one.recovery_factor_ == 0
    assert one.n_itemsets_ == len(frequent)
    known = {items: slow.support(baskets, items) for items in shared}
    known |= {items: count for items, count in frequent.items() if len(items) == 1}
    known[frozenset()] = len(baskets)
    certain = [items for items in secret if patterns.least_support(items, known) >= 2]
    # proved by single items alone, or not at all
    assert not any(other <= items for items in certain for other in shared)
    assert one.n_proved_by_items_ == len(certain)
    assert 0 <= one.side_effect_factor_ <= 1


def test_only_as_much_as_needed_is_left_out() -> None:
    every = rules.association_rules(BASKETS, min_support=12, min_confidence=0.5)
    one = PatternSanitizer(["0, 1 -> 2"], min_support=12, min_confidence=0.5)
    shared = one.fit_transform(BASKETS)
    assert one.n_rules_ == every.height
    assert one.n_rules_shared_ == shared.height
    sets = [frozenset(a) | frozenset(b) for a, b in zip(every["antecedent"], every["consequent"])]
    losses = [sum(set(pair) <= itemset for itemset in sets) for pair in combinations((0, 1, 2), 2)]
    assert every.height - shared.height <= max(losses)
    own = sum(itemset == {0, 1, 2} for itemset in sets)
    lost = every.height - shared.height - own
    assert one.side_effect_factor_ == pytest.approx(lost / (every.height - own))


def test_measures_of_shared_rules_are_those_of_the_data() -> None:
    one = PatternSanitizer(["0 -> 2"], min_support=12, min_confidence=0.5)
    shared = one.fit_transform(BASKETS)
    first = shared.row(0, named=True)
    sets = [set(basket) for basket in BASKETS]
    count = slow.support(sets, first["antecedent"] + first["consequent"])
    assert first["count"] == count
    assert first["confidence"] == pytest.approx(count / slow.support(sets, first["antecedent"]))


def test_the_attack_finds_what_naive_removal_leaves() -> None:
    from tulle.rules.mine import mine
    from tulle.transactions import Transactions

    found = mine(Transactions.from_lists([[0, 1, 2]] * 3), 2)
    secret = [frozenset({0, 1, 2})]
    only_the_set = np.array([len(found.codes(node)) < 3 for node in range(len(found))])
    assert patterns.recovered(found, only_the_set, secret) == secret
    assert patterns.recovered(found, patterns.shareable(found, secret, 2), secret) == []


def test_nothing_is_shared_if_a_secret_set_can_still_be_inferred(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patterns, "shareable", lambda found, *_: np.ones(len(found), dtype=bool))
    with pytest.raises(PrivacyError):
        PatternSanitizer(["0 -> 2"], min_support=12, min_confidence=0.5).fit_transform(BASKETS)


@given(
    st.lists(st.sets(st.integers(0, 3)), min_size=1, max_size=12),
    st.sets(st.sets(st.integers(0, 3), min_size=1, max_size=3).map(frozenset)),
)
def test_the_least_support_is_never_more_than_the_support(
    baskets: list[set[int]], shared: set[frozenset[int]]
) -> None:
    whole = frozenset(range(4))
    known = {items: slow.support(baskets, items) for items in {*shared, frozenset()}}
    assert patterns.least_support(whole, known) <= slow.support(baskets, whole)


def test_supports_that_would_prove_a_set_are_left_out() -> None:
    """0 and 1 are together in 9 of 10 baskets with 0, and 0 and 2 too: 8 of them hold all three."""
    baskets = [[0, 1, 2]] * 8 + [[0, 1], [0, 2]] + [[3]] * 30
    one = PatternSanitizer(["0, 1 -> 2"], min_support=3, min_confidence=0)
    shared = shared_sets(one.fit_transform(baskets))
    assert len(shared & {frozenset(pair) for pair in combinations((0, 1, 2), 2)}) <= 1
    assert one.n_proved_by_items_ == 0


def test_pandas_in_pandas_out() -> None:
    wide = pd.DataFrame({str(n): [n in basket for basket in BASKETS] for n in range(9)})
    one = PatternSanitizer(["0 -> 1"], min_support=12, min_confidence=0.5)
    assert isinstance(one.fit_transform(wide), pd.DataFrame)


def test_wrong_wishes() -> None:
    with pytest.raises(DataError, match="min_support"):
        PatternSanitizer(["0 -> 1"], min_support=399).fit_transform(BASKETS)
    with pytest.raises(DataError, match="'wine'"):
        PatternSanitizer(["0 -> wine"], min_support=12).fit_transform(BASKETS)
    for rule in (Rule("0 -> 1", disclosure=0.5), Rule("0 -> 1", min_support=3)):
        with pytest.raises(ParameterError, match="RuleHider"):
            PatternSanitizer([rule], min_support=12).fit_transform(BASKETS)
    with pytest.raises(ParameterError, match="max_consequent"):
        PatternSanitizer(["0 -> 1"], max_consequent=0).fit_transform(BASKETS)
