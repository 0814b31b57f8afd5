from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tests.reference import rules as slow
from tulle.rules import RuleHider, choose_rules
from tulle.rules import _classes as classes
from tulle.rules._search import Impact
from tulle.rules._sensitive import MinedRules
from tulle.transactions import Transactions

OTHERS = ["swa", "iga", "minfia", "maxfia", "naive", "rra", "ra", "algo1b", "algo2a", "algo2b"]


def shop(seed: int, n: int = 400, n_items: int = 9) -> list[list[int]]:
    """Baskets with habits: some items go together."""
    rng = np.random.default_rng(seed)
    baskets = slow.random_baskets(rng, n, n_items, 0.15)
    habits = [[0, 1, 2], [3, 4], [1, 5, 6], [2, 4, 7]]
    return [
        sorted({*basket, *habits[rng.integers(len(habits))]}) if rng.random() < 0.6 else basket
        for basket in baskets
    ]


@pytest.mark.slow
@given(data=st.data())
@few(25)
def test_walks_agree_with_counting(data: Any) -> None:
    baskets = Transactions.from_lists(shop(1, 40, 7))
    before = MinedRules.of(baskets, 4, Fraction(1, 2))
    one = Impact(baskets, before, np.zeros(len(before.keys), dtype=bool))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    kept = rng.random(len(baskets.items)) < 0.8
    rows = np.flatnonzero(rng.random(len(baskets)) < 0.7)
    old = [set(basket) for basket in baskets.take(rows).to_lists()]
    new = [set(basket) for basket in baskets.keeping(kept).take(rows).to_lists()]
    names = baskets.names.tolist()
    sets = [{names[code] for code in one.itemsets.codes(node)} for node in range(len(one.itemsets))]
    lost = [sum(s <= a and not s <= b for a, b in zip(old, new)) for s in sets]
    weight = rng.random(len(sets))
    items = np.array([0, 2, 3])
    costs = [
        [
            sum(w for s, w in zip(sets, weight) if names[item] in s and s <= basket)
            for item in items.tolist()
        ]
        for basket in new
    ]
    place = one.place
    assert one.lost(kept, rows)[place].tolist() == lost
    own = np.empty_like(weight)
    own[place] = weight
    assert np.allclose(one.costs(kept, rows, own, items), costs)
    assert one.support[place].tolist() == one.itemsets.support.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("seed_", [0, 1, 2])
def test_best_loses_no_more_rules_than_any_other_method(seed_: int) -> None:
    baskets = shop(10 + seed_)
    thresholds: dict[str, Any] = {"min_support": 12, "min_confidence": 0.5}
    chosen = choose_rules(baskets, 5, **thresholds, random_state=seed_)
    lost = {}
    for method in ["best", *OTHERS]:
        hider = RuleHider(chosen, method=method, random_state=0, **thresholds)
        hider.fit_transform(baskets)
        assert hider.hiding_failure_ == 0
        lost[method] = hider.misses_cost_
    assert lost["best"] == min(lost.values()), lost


@pytest.mark.slow
def test_disclosure_works_for_best_too() -> None:
    baskets = shop(4)
    hider = RuleHider(["0 -> 1"], disclosure=0.5, min_support=12, min_confidence=0.5)
    hider.fit_transform(baskets)
    line = hider.report_[0]
    assert line["count_after"] == line["count_before"] - -(-line["count_before"] // 2)


def test_rules_that_are_hidden_already_cost_nothing() -> None:
    baskets = shop(5)
    hider = RuleHider(["0 -> 1"], min_support=399, min_confidence=0.5, random_state=0)
    assert [set(b) for b in hider.fit_transform(baskets)] == [set(b) for b in baskets]
    assert hider.dif_ == 0
    assert hider.n_transactions_touched_ == 0


def test_many_candidates_are_cut_to_the_shortest_and_still_hide() -> None:
    from tulle.rules._search import CandidateBaskets
    from tulle.rules._sensitive import SensitiveRules, Thresholds

    baskets = Transactions.from_lists(shop(6))
    rules = choose_rules(baskets, 3, min_support=12, min_confidence=0.5, random_state=1)
    sensitive = SensitiveRules.find(baskets, rules, Thresholds("test", disclosure=0.95))
    few = CandidateBaskets.of(sensitive, most=30)
    every = CandidateBaskets.of(sensitive)
    assert set(few.rows) < set(every.rows)
    for r, rows in enumerate(sensitive.rows):
        inside = np.isin(rows, few.rows)
        assert inside.sum() >= sensitive.quota[r]
        assert few.count(few.has, r) == every.count(every.has, r)


def test_classes_cost_what_walks_cost() -> None:
    baskets = Transactions.from_lists(shop(1, 60, 7))
    before = MinedRules.of(baskets, 4, Fraction(1, 2))
    one = Impact(baskets, before, np.zeros(len(before.keys), dtype=bool))
    rng = np.random.default_rng(0)
    kept = rng.random(len(baskets.items)) < 0.97  # most baskets are as they came
    rows, items = np.arange(3, 50), np.array([0, 2, 3])
    weight = rng.random(len(one.support))
    walked = one.costs(kept, rows, weight, items)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classes, "_STEP", 10**6)
        one.expect(rows, items)
    assert one.classes is not None
    assert np.allclose(one.costs(kept, rows, weight, items), walked, rtol=1e-5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classes, "_STEP", 0)
        one.expect(rows, items)
    assert one.classes is None
