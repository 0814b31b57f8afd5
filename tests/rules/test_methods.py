"""Every hiding method against a literal transcription of its definition, on small data."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.reference import rules as slow
from tulle._choices import LOOKAHEADS, VICTIMS
from tulle.errors import PrivacyError
from tulle.rules import _classic as verykios
from tulle.rules import _classic as victims
from tulle.rules._blocking import blocking, interval_of, refuse_middles, sure_rows
from tulle.rules._sensitive import Edits, SensitiveRules, Thresholds
from tulle.rules._window import slide
from tulle.rules.hider import RuleHider
from tulle.rules.rule import Rule
from tulle.transactions import Transactions

RNG = np.random.default_rng(0)
SURE = Fraction(3, 5)
N_ITEMS = 6


@st.composite
def problems(draw: Any) -> tuple[list[set[int]], SensitiveRules]:
    """Baskets, and rules that some but not all of them support."""
    baskets = draw(
        st.lists(st.sets(st.integers(0, N_ITEMS - 1), min_size=1), min_size=4, max_size=16)
    )
    sides = st.tuples(
        st.sets(st.integers(0, N_ITEMS - 1), min_size=1, max_size=2),
        st.sets(st.integers(0, N_ITEMS - 1), min_size=1, max_size=2),
    )
    wanted = draw(st.lists(sides, min_size=1, max_size=4))
    rules = [
        Rule(sorted(left), sorted(right - left))
        for left, right in wanted
        if right - left and 0 < slow.support(baskets, left | right) < len(baskets)
    ]
    assume(rules)
    least = draw(st.integers(1, 5))
    psi = draw(st.sampled_from([None, 0.0, 0.25, 0.5, 1.0]))
    limits = Thresholds("test", least, None if psi is not None else 0.6, psi)
    return baskets, SensitiveRules.find(coded(baskets), rules, limits)


def coded(baskets: list[set[int]]) -> Transactions:
    rows = np.repeat(np.arange(len(baskets)), [len(basket) for basket in baskets])
    items = np.array([item for basket in baskets for item in basket], dtype=np.int64)
    return Transactions.from_pairs(rows, items, len(baskets), np.arange(N_ITEMS))


def result(sensitive: SensitiveRules, edits: Edits) -> list[set[int]]:
    return [set(basket) for basket in edits.apply(sensitive.baskets).to_lists()]


def all_hidden(sensitive: SensitiveRules, baskets: list[set[int]]) -> bool:
    return all(
        slow.is_hidden(baskets, (a, b), limit, sure)
        for a, b, limit, sure in zip(
            sensitive.antecedent, sensitive.consequent, sensitive.limit, sensitive.confidence
        )
    )


@pytest.mark.guarantee
@pytest.mark.slow
@given(problems(), st.integers(1, 20), st.sampled_from(VICTIMS), st.sampled_from(LOOKAHEADS))
def test_swa(problem: Any, size: int, scope: str, lookahead: str) -> None:
    baskets, sensitive = problem
    leaving = [limit.leaving for limit in sensitive.limits]
    kept = slide(
        sensitive.baskets, sensitive.whole, leaving, window=size, victim=scope,
        lookahead=lookahead, seed=7,
    )  # fmt: skip
    expected = slow.swa(baskets, sensitive.whole, leaving, size, scope, 7, lookahead)
    assert result(sensitive, Edits(kept)) == expected
    assert all_hidden(sensitive, expected)


def test_disclosure_is_a_share_of_each_window() -> None:
    """Of one basket and of two, half is one each; two thirds of them would be one and two."""
    baskets = [{0, 1}, {2}, {0, 1}, {0, 1}]
    limits = Thresholds("test", disclosure=0.5)
    sensitive = SensitiveRules.find(coded(baskets), [Rule([0], [1])], limits)
    leaving = [limit.leaving for limit in sensitive.limits]
    assert leaving == [Fraction(1, 2)]
    kept = slide(sensitive.baskets, sensitive.whole, leaving, window=2)
    assert slow.support(result(sensitive, Edits(kept)), [0, 1]) == 1


@pytest.mark.guarantee
@pytest.mark.slow
@pytest.mark.parametrize("method", ["naive", "minfia", "maxfia", "rra", "iga"])
@given(problem=problems())
def test_two_scan_methods(method: str, problem: Any) -> None:
    baskets, sensitive = problem
    got = result(sensitive, getattr(victims, method)(sensitive, RNG))
    assert got == slow.two_scans(baskets, sensitive.whole, sensitive.quota, method)
    assert all(got), "no basket is emptied"
    assert all_hidden(sensitive, got)


@pytest.mark.slow
@given(problems())
def test_random_victims_are_one_item_of_the_rule_each(problem: Any) -> None:
    baskets, sensitive = problem
    got = result(sensitive, victims.ra(sensitive, np.random.default_rng(1)))
    assert all_hidden(sensitive, got)
    gone = sum(len(old - new) for old, new in zip(baskets, got))
    assert gone <= sensitive.quota.sum()
    same = result(sensitive, victims.ra(sensitive, np.random.default_rng(1)))
    assert got == same


@pytest.mark.guarantee
@pytest.mark.slow
@pytest.mark.parametrize("method", ["algo1b", "algo2a", "algo2b"])
@given(problem=problems())
def test_verykios_removals(method: str, problem: Any) -> None:
    baskets, sensitive = problem
    got = result(sensitive, getattr(verykios, method)(sensitive, RNG))
    rules = list(zip(sensitive.antecedent, sensitive.consequent))
    sure = sensitive.confidence[0]
    assert got == slow.verykios(baskets, rules, sensitive.limit, sure, method)
    assert all_hidden(sensitive, got)


@pytest.mark.guarantee
@given(problems())
def test_algo1a_only_adds_until_confidence_falls(problem: Any) -> None:
    baskets, sensitive = problem
    try:
        got = result(sensitive, verykios.algo1a(sensitive, RNG))
    except PrivacyError:
        return  # too few baskets hold a part of the antecedent
    assert all(old <= new for old, new in zip(baskets, got))
    assert all_hidden(sensitive, got)


def test_algo1a_adds_to_the_fullest_baskets_as_few_as_needed() -> None:
    baskets = [{0, 1, 2}] * 3 + [{0, 3}] * 3 + [{4}]
    rules = [Rule([0, 1], [2])]
    sensitive = SensitiveRules.find(coded(baskets), rules, Thresholds("test", 1, 0.6))
    got = result(sensitive, verykios.algo1a(sensitive, RNG))
    assert sum(old != new for old, new in zip(baskets, got)) == 3  # 3 / 5 is not below 60 %
    assert slow.support(got, [0, 1]) == 6


def test_algo1a_needs_no_confidence_where_nothing_is_to_be_done() -> None:
    sensitive = SensitiveRules.find(coded([{0, 1}, {2}]), [Rule([0], [1])], Thresholds("test", 2))
    assert result(sensitive, verykios.algo1a(sensitive, RNG)) == [{0, 1}, {2}]


def test_decoys_are_where_a_mark_would_say_most() -> None:
    """Marks in baskets that hold the rest of the rule are half true, as far as there are any."""
    baskets = [{0, 1, 2}] * 6 + [{0, 1}] * 5 + [{3}] * 20
    sensitive = SensitiveRules.find(coded(baskets), [Rule([0, 1], [2])], Thresholds("test", 3, 0.4))
    edits = blocking(sensitive, np.random.default_rng(2), interval="lower")
    assert edits.blocked is not None
    assert set(edits.open_rows.tolist()) <= {*range(6, 11)}
    assert len(edits.open_rows) == np.count_nonzero(edits.blocked) == 2


def apply_blocking(edits: Any, sensitive: Any, baskets: Any) -> tuple[Any, list[Any], list[Any]]:
    """Return the release, what is sure in each basket and what is open; neither is a lie."""
    released = edits.apply(sensitive.baskets)
    assert released.unknown is not None
    sure = [set(basket) for basket in released.to_lists()]
    open_ = [set(basket) for basket in released.unknown.to_lists()]
    for old, certain, unknown in zip(baskets, sure, open_):
        assert certain <= old <= certain | unknown
        assert not certain & unknown
    return released, sure, open_


@pytest.mark.guarantee
@pytest.mark.slow
@given(problems())
def test_blocking_makes_rules_uncertain_and_tells_no_lie(problem: Any) -> None:
    baskets, sensitive = problem
    edits = blocking(sensitive, np.random.default_rng(2))
    _, sure, open_ = apply_blocking(edits, sensitive, baskets)
    for a, b, limit, least in zip(
        sensitive.antecedent, sensitive.consequent, sensitive.limit, sensitive.confidence
    ):
        lower = slow.support(sure, a + b)
        for holders in (sure, [c | u for c, u in zip(sure, open_)]):
            upper = slow.support(holders, a)
            assert lower < limit or (least is not None and lower < least * upper)
    assert edits.blocked is not None
    for r, items in enumerate(sensitive.whole):
        rows = sure_rows(sensitive, edits, items).tolist()
        assert rows == [row for row, basket in enumerate(sure) if set(items) <= basket], r
    for item in range(N_ITEMS):
        ones = sum(item in old for old, unknown in zip(baskets, open_) if item in unknown)
        zeros = sum(item not in old for old, unknown in zip(baskets, open_) if item in unknown)
        lacking = sum(item not in old for old in baskets)
        assert zeros == min(ones, lacking)


CELLS = st.sampled_from(["sure", "open", "none"])


@given(st.lists(st.lists(CELLS, min_size=4, max_size=4), min_size=1, max_size=4))
def test_intervals_are_those_of_all_ways_to_fill_cells_in(cells: list[list[str]]) -> None:
    sure = [{i for i, cell in enumerate(row) if cell == "sure"} for row in cells]
    open_ = [{i for i, cell in enumerate(row) if cell == "open"} for row in cells]
    assume(sum(map(len, open_)) <= 8)
    filled = [a | b for a, b in zip(sure, open_)]
    rule = ((0, 1), (2,))
    found = interval_of(*rule, coded(sure).rows_with, coded(filled).rows_with)
    assert found[:4] == slow.intervals(sure, open_, rule)


@pytest.mark.slow
@given(problems())
def test_blocking_by_the_middle(problem: Any) -> None:
    """The middle of an interval ends below the threshold, by brute force, or is refused."""
    baskets, sensitive = problem
    edits = blocking(sensitive, np.random.default_rng(2), interval="middle")
    released, sure, open_ = apply_blocking(edits, sensitive, baskets)
    assume(sum(map(len, open_)) <= 10)
    below = []
    for a, b, limit, least in zip(
        sensitive.antecedent, sensitive.consequent, sensitive.limit, sensitive.confidence
    ):
        low, high, worst, best = slow.intervals(sure, open_, (a, b))
        sure_enough = least is not None and worst + best < 2 * least
        below.append(low + high < 2 * limit or sure_enough)
    if all(below):
        refuse_middles(sensitive, released)
    else:
        with pytest.raises(PrivacyError, match=f"{below.count(False)} of .*--method best"):
            refuse_middles(sensitive, released)


def test_the_middle_asks_for_more_than_the_lower_end() -> None:
    baskets = [["bread", "beer"]] * 8 + [["bread"]] * 2 + [["milk"]] * 20
    changed = {}
    for interval in ("lower", "middle"):
        hider = RuleHider(
            ["bread -> beer"], method="blocking", min_support=3, min_confidence=0.6, margin=0,
            interval=interval, random_state=0,
        )  # fmt: skip
        hider.fit_transform(baskets)
        changed[interval] = hider.report_[0]["confidence_after"]
    assert changed == {"lower": 0.5, "middle": 0.3}  # (0.3 + 0.8) / 2 is below 0.6


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 40), st.booleans())
def test_removals_needed_is_the_least_number(
    support: int, extra: int, limit: int, lowers: bool
) -> None:
    antecedent = support + extra
    need = verykios.removals_needed(support, antecedent, limit, SURE, lowers_antecedent=lowers)

    def hidden(n: int) -> bool:
        left = antecedent - (n if lowers else 0)
        return support - n < limit or support - n < SURE * left

    assert hidden(need)
    assert need == 0 or not hidden(need - 1)
