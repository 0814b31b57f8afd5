"""Tertius and Predictive Apriori against their definitions, written out with fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tests.reference import rules as slow
from tulle.rules import _rankings as rankings
from tulle.rules.mine import Implications, implications, mine
from tulle.transactions import Transactions

BASKETS = st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=2, max_size=14)


def mined(baskets: list[set[int]]) -> tuple[Transactions, Implications]:
    data = Transactions.from_lists([sorted(basket) for basket in baskets])
    return data, implications(mine(data, 1), Fraction(0))


def sides(rules: Implications, data: Transactions) -> list[tuple[frozenset[int], frozenset[int]]]:
    sets = rules.itemsets
    names = data.names
    return [
        (frozenset(names[sets.codes(left)].tolist()), frozenset(names[sets.codes(right)].tolist()))
        for _, left, right in rules.nodes.tolist()
    ]


def confirmation(baskets: list[set[int]], body: Any, head: Any) -> float:
    """Flach and Lachiche: what is missing of the expected counter-instances, normalised."""
    n = len(baskets)
    expected = slow.support(baskets, body) / n * (1 - slow.support(baskets, head) / n)
    wrong = (slow.support(baskets, body) - slow.support(baskets, body | head)) / n
    room = math.sqrt(expected) - expected
    return (expected - wrong) / room if room > 0 else 0.0


@pytest.mark.slow
@given(BASKETS, st.integers(1, 4))
@few(30)
def test_tertius_takes_all_rules_of_the_highest_values(baskets: list[set[int]], best: int) -> None:
    data, rules = mined(baskets)
    every = [
        (body, head)
        for body, head in slow.rules(baskets, 1, Fraction(0), 1)
        if len(body | head) <= 4
    ]
    values = {pair: round(confirmation(baskets, *pair), 12) for pair in every}
    found, confirmed = rankings.confirmed(rules, len(data), best)
    if not every:
        assert len(found) == 0
        return
    least = sorted(set(values.values()), reverse=True)[:best][-1]
    near = {pair for pair, value in values.items() if value >= least - 1e-9}
    assert set(sides(found, data)) <= near
    assert {pair for pair, value in values.items() if value > least + 1e-9} <= set(
        sides(found, data)
    )
    assert np.allclose(confirmed, [values[pair] for pair in sides(found, data)])
    assert (np.diff(confirmed) <= 1e-12).all()


def test_expected_accuracy_is_the_mean_over_the_prior() -> None:
    rng = np.random.default_rng(0)
    prior = rng.dirichlet(np.ones(rankings._CELLS))
    true = (np.arange(rankings._CELLS) + 0.5) / rankings._CELLS
    for applied, right in [(1, 1), (10, 9), (40, 40), (30, 0)]:
        likely = [math.comb(applied, right) * c**right * (1 - c) ** (applied - right) for c in true]
        wanted = float(np.sum(true * likely * prior) / np.sum(likely * prior))
        found = rankings._expected(np.array([[applied, right]], dtype=float), prior)
        assert found[0] == pytest.approx(wanted)


def test_a_rule_seen_often_is_expected_to_be_right_more_often() -> None:
    prior = np.full(rankings._CELLS, 1 / rankings._CELLS)
    few_, many = rankings._expected(np.array([[2.0, 2.0], [200.0, 200.0]]), prior)
    assert few_ == pytest.approx(3 / 4, abs=0.01)  # Laplace: (right + 1) / (applied + 2)
    assert many > 0.99


@pytest.mark.slow
@given(BASKETS)
@few(15)
def test_predictive_apriori_repeats_no_more_general_rule(baskets: list[set[int]]) -> None:
    data, rules = mined(baskets)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rankings, "_DRAWS", 50)
        found, accuracy = rankings.predictive(rules, data, 12, np.random.default_rng(1))
    pairs = sides(found, data)
    assert len(pairs) <= 12
    assert (np.diff(accuracy) <= 1e-8).all()
    for place, (body, head) in enumerate(pairs):
        assert not any(left <= body and right >= head for left, right in pairs[:place])
