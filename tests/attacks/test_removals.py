"""Reconstruction of removed items: certain where others give them away, else a guess."""

from __future__ import annotations

import numpy as np
import pytest

from tulle import RuleHider
from tulle._attacks.rules import removed_items
from tulle.errors import DataError
from tulle.rules.containers import open_baskets
from tulle.rules.rule import Rule
from tulle.transactions import Transactions

RULES = [Rule("a -> b")]


def shop(rng: np.random.Generator, telling: bool) -> list[list[str]]:
    """Baskets in which b comes with t if it is telling, and with nothing if it is not."""
    baskets = []
    for _ in range(1500):
        b, noise = rng.random() < 0.5, np.flatnonzero(rng.random(12) < 0.3)
        basket = ["a", *(f"x{i}" for i in noise), *(["b"] if b else [])]
        if telling and b:
            basket.append("t")
        baskets.append(basket)
    return baskets + [["c"]] * 200


def attack(telling: bool, seed: int):
    original = open_baskets(shop(np.random.default_rng(seed), telling)).baskets
    hider = RuleHider(RULES, method="ra", min_support=400, random_state=seed)
    released = hider.fit_transform(original)
    assert isinstance(released, Transactions)
    return removed_items(original, released, RULES, np.random.default_rng(0))


def test_items_that_others_give_away_are_found() -> None:
    result = attack(telling=True, seed=0)
    assert result is not None
    assert result.rate > 0.9
    assert result.baseline < 0.6


def test_items_that_come_with_nothing_are_guessed() -> None:
    found = [attack(telling=False, seed=seed) for seed in range(4)]
    excess = [result.rate - result.baseline for result in found if result is not None]
    assert abs(float(np.mean(excess))) < 0.05


def test_nothing_removed_is_no_result_and_no_rule_an_error() -> None:
    baskets = open_baskets([["a", "b"], ["a"], ["b"]]).baskets
    assert removed_items(baskets, baskets, RULES, np.random.default_rng(0)) is None
    with pytest.raises(DataError):
        removed_items(baskets, baskets, [], np.random.default_rng(0))
