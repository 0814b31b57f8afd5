"""Recovery of hidden rules: certain on baskets that hide nothing, hopeless on unrelated ones."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tulle import RuleHider, choose_rules
from tulle._attacks.rules import rule_recovery, rule_steps
from tulle.errors import DataError
from tulle.rules.containers import open_baskets
from tulle.rules.rule import Rule

SECRET = [Rule("a -> b"), Rule("c, d -> e")]
HALF = Fraction(1, 2)


def shop(rng: np.random.Generator, count: int = 2000) -> list[list[str]]:
    """Baskets in which the secrets hold, among many items that go together a little."""
    baskets = []
    for _ in range(count):
        basket = {f"x{i}" for i in np.flatnonzero(rng.random(14) < 0.3)}
        if rng.random() < 0.4:
            basket |= {"a", "b"} if rng.random() < 0.8 else {"a"}
        if rng.random() < 0.3:
            basket |= {"c", "d", "e"} if rng.random() < 0.8 else {"c", "d"}
        baskets.append(sorted(basket))
    return [basket for basket in baskets if basket]


def attack(baskets: object, seed: int = 0):
    opened = open_baskets(baskets).baskets
    return rule_recovery(opened, SECRET, 100, HALF, np.random.default_rng(seed))


def test_rules_that_still_show_are_all_found() -> None:
    result = attack(shop(np.random.default_rng(0)))
    assert result.rate == 1
    assert result.baseline < 0.2
    assert result.control is None or result.control < 0.2


def test_unrelated_baskets_tell_nothing() -> None:
    rng = np.random.default_rng(1)
    names = np.array([*"abcde", *(f"x{i}" for i in range(14))])
    unrelated = [names[rng.random(19) < 0.3].tolist() or ["a"] for _ in range(2000)]
    found = [attack(unrelated, seed) for seed in range(5)]
    assert all(result.failed for result in found)


@pytest.mark.slow
def test_rules_hidden_by_a_hair_are_suspected_and_a_margin_helps() -> None:
    baskets = shop(np.random.default_rng(2))
    rates = {}
    for margin in (0.0, 0.3):
        hider = RuleHider(
            [str(rule) for rule in SECRET],
            min_support=100,
            min_confidence=0.5,
            margin=margin,
            random_state=0,
        )
        rates[margin] = attack(hider.fit_transform(baskets)).rate
    assert rates[0.0] == 1
    assert rates[0.3] == 0


def pairs_of_items(rng: np.random.Generator) -> list[list[int]]:
    """Pairs of items that are bought together more or less often, on both sides of 100 times."""
    pairs = [(i, j) for i in range(25) for j in range(i)]
    counts = rng.integers(40, 180, size=len(pairs))
    return [list(pair) for pair, count in zip(pairs, counts) for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("margin", [0.0, 0.05, 0.1, "random"])
def test_rules_at_one_level_are_found_and_rules_at_random_ones_are_not(margin: float | str) -> None:
    baskets = open_baskets(pairs_of_items(np.random.default_rng(0))).baskets
    hits, guessed, hidden = 0.0, 0.0, 0
    for seed in range(4):
        secret = choose_rules(baskets, 15, min_support=100, min_confidence=0, random_state=seed)
        hider = RuleHider(secret, min_support=100, margin=margin, method="ra", random_state=seed)
        found = rule_steps(hider.fit_transform(baskets), hider.rules, 100, Fraction(0))
        hits, guessed = hits + found.successes, guessed + found.baseline * found.attempts
        hidden += found.attempts
        assert found.details["of them hidden"] == found.successes
    if margin == "random":
        assert hits < guessed + 2 * guessed**0.5 + 1
        assert hits < hidden / 5
    else:
        assert hits > 0.9 * hidden
        assert guessed < 0.4 * hidden


def test_an_attack_by_steps_on_baskets_without_rules_finds_nothing() -> None:
    baskets = open_baskets([["a"]] * 50 + [["b"]] * 50 + [["a", "b"]]).baskets
    found = rule_steps(baskets, [Rule("a -> b")], 20, HALF)
    assert (found.attempts, found.successes) == (1, 0)
    with pytest.raises(DataError, match="at least one hidden rule"):
        rule_steps(baskets, [], 10, HALF)


def test_the_same_seed_gives_the_same_and_nothing_hidden_is_an_error() -> None:
    baskets = shop(np.random.default_rng(3), 300)
    assert attack(baskets).to_dict() == attack(baskets).to_dict()
    with pytest.raises(DataError):
        rule_recovery(open_baskets(baskets).baskets, [], 10, HALF, np.random.default_rng(0))
