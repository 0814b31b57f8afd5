"""How far rules must fall: exact at every border."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle import Rule, RuleHider
from tulle.errors import ParameterError, PrivacyError
from tulle.rules import association_rules, frequent_itemsets
from tulle.rules._sensitive import Thresholds, drawn_margins, is_hidden
from tulle.rules.rule import exact_share, support_count

BASKETS = [["a", "b"]] * 20 + [["a"], ["b"]] * 40 + [["c"]]


@pytest.mark.parametrize("share", [0.1 * 3, 0.7 - 0.4, "30%", 0.3, Fraction(3, 10)])
def test_floats_that_mean_the_same_are_the_same(share: Any) -> None:
    assert exact_share("test", "share", share) == Fraction(3, 10)
    assert support_count("test", share, 10) == 3


@given(st.integers(1, 200), st.integers(1, 200))
def test_a_share_of_baskets_is_its_count(count: int, n_baskets: int) -> None:
    if count <= n_baskets:
        assert support_count("test", count / n_baskets, n_baskets) == count


def test_rules_and_sets_at_exactly_the_threshold_are_mined() -> None:
    data = [["a", "b"]] * 3 + [["a"]] * 2 + [["c"]] * 5
    assert ["a", "b"] in frequent_itemsets(data, min_support=0.1 * 3)["itemset"].to_list()
    found = association_rules(data, min_support=0.3, min_confidence=0.1 * 6)
    rules = sorted(found.select("antecedent", "consequent").rows())
    assert rules == [(["a"], ["b"]), (["b"], ["a"])]


@pytest.mark.parametrize("tiny", [1e-12, "0.0000000001%"])
def test_a_tiny_support_is_more_than_none(tiny: Any) -> None:
    assert support_count("test", tiny, 1000) == 1


@pytest.mark.parametrize(
    "wrong", ["²", "", "%", "1/0%", "1e999%", "nan", -1, 0, "0", "0\x1e", "9" * 19]
)
def test_what_is_no_share_is_refused_in_words(wrong: Any) -> None:
    with pytest.raises(ParameterError, match="min_support"):
        support_count("test", wrong, 10)


@pytest.mark.guarantee
@pytest.mark.slow
@given(st.integers(1, 300), st.fractions(Fraction(1, 50), 1), st.fractions(0, Fraction(99, 100)))
def test_hidden_with_a_margin_is_below_that_share_of_the_threshold(
    n_baskets: int, share: Fraction, margin: Fraction
) -> None:
    share, margin = share.limit_denominator(1000), margin.limit_denominator(1000)
    rule, rng = Rule("a -> b"), np.random.default_rng(0)
    margins = drawn_margins("test", [rule], float(margin), rng)
    limit = Thresholds("test", float(share), margins=margins).of(rule, n_baskets, n_baskets)
    for support in (limit.support - 1, limit.support):
        below = Fraction(support, n_baskets) < share * (1 - margin)
        assert is_hidden(support, n_baskets, limit) == below


def test_a_margin_counts_from_the_threshold_and_not_from_the_next_basket() -> None:
    one = RuleHider("a -> b", min_support=0.1, margin=0.05, method="minfia", random_state=0)
    one.fit_transform(BASKETS)
    assert one.report_[0]["support_after"] < 0.1 * 0.95  # 9 of 101; 10 would be 0.099


@given(st.integers(1, 5000), st.integers(0, 2**32))
def test_random_margins_end_below_the_threshold_and_never_far_below(limit: int, seed: int) -> None:
    rules = [Rule([0], [i]) for i in range(1, 30)]
    margins = drawn_margins("test", rules, "random", np.random.default_rng(seed))
    thresholds = Thresholds("test", limit, 0.5, margins=margins)
    found = [thresholds.of(rule, 6000, 6000) for rule in rules]
    lowest = min(limit * 0.9, max(limit - 10, limit / 2))
    assert all(lowest <= one.support <= limit for one in found)
    assert all(one.confidence is not None and 0.25 < one.confidence <= 0.5 for one in found)
    if limit > 20:
        assert len({one.support for one in found}) > 5


# --- what a rule says itself ------------------------------------------------------------------


def after(rules: Any, **options: Any) -> dict[str, Any]:
    one = RuleHider(rules, method="swa", random_state=0, margin=0, **options)
    one.fit_transform(BASKETS)
    return one.report_[0]


def test_a_rule_with_thresholds_needs_no_others() -> None:
    assert after([Rule("a -> b", min_support=5)])["count_after"] == 4
    assert after([Rule("a -> b", disclosure=0.25)])["count_after"] == 5


def test_thresholds_of_a_rule_come_before_disclosure_of_all() -> None:
    found = after([Rule("a -> b", min_confidence=0.1)], disclosure=0.9, min_support=30)
    assert found["confidence_limit"] == 0.1
    assert found["support_limit"] == pytest.approx(30 / 101)
    assert after([Rule("a -> b", disclosure=0.9)], min_support=5)["count_after"] == 18


def test_a_rule_that_nothing_is_said_of_is_named() -> None:
    rules = [Rule("a -> b", min_support=5), Rule("b -> a")]
    with pytest.raises(ParameterError, match="'b -> a'"):
        after(rules)
    with pytest.raises(ParameterError, match="'a -> b'"):
        after([Rule("a -> b", min_confidence=0.1)], disclosure=0.5)


def test_disclosure_and_thresholds_of_one_rule_exclude_each_other() -> None:
    with pytest.raises(ParameterError):
        Rule("a -> b", disclosure=0.5, min_support=3)


# --- baskets that hold nothing ----------------------------------------------------------------


@pytest.mark.slow
def test_a_share_is_one_of_the_baskets_that_hold_anything() -> None:
    """Whoever drops the empty ones, as a table of pairs does, does not find the rule either."""
    data: list[list[str]] = [["a", "b"]] * 30 + [["a"]] * 10 + [["c"]] * 40 + [[]] * 20
    one = RuleHider("a -> b", min_support=0.2, random_state=0)
    released = [basket for basket in one.fit_transform(data) if basket]
    assert sum({"a", "b"} <= set(basket) for basket in released) < 0.2 * len(released)


def test_baskets_that_lose_everything_do_not_hide_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    from tulle.rules import hider
    from tulle.rules._sensitive import Edits

    def emptying(sensitive: Any, rng: Any) -> Edits:
        edits = Edits.none(sensitive.baskets)
        edits.kept[sensitive.baskets.row_of >= 29] = False  # 29 of 100, but of 29 that are left
        return edits

    monkeypatch.setitem(hider.SIMPLE, "naive", emptying)
    with pytest.raises(PrivacyError, match="1 of 1"):
        RuleHider("a -> b", method="naive", min_support=0.3).fit_transform(
            [["a", "b"]] * 40 + [["c"]] * 60
        )
