"""The arithmetic of an attack's result, against SciPy and by hand."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from tulle._attacks import NO_EVIDENCE, AttackResult, wilson
from tulle.errors import ParameterError


@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_agrees_with_scipy(counts: tuple[int, int]) -> None:
    successes, attempts = counts
    expected = binomtest(successes, attempts).proportion_ci(method="wilson")
    found = wilson(successes, attempts)
    assert found.low == pytest.approx(expected.low, abs=1e-12)
    assert found.high == pytest.approx(expected.high, abs=1e-12)


@given(st.integers(1, 500), st.integers(1, 500), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_every_figure_lies_where_it_must(n: int, m: int, a: float, b: float, c: float) -> None:
    result = AttackResult("x", n, int(a * n), b * n, int(c * m), m)
    assert 0 <= result.low <= result.rate <= result.high <= 1
    assert result.risk_interval.low <= result.rate - result.control <= result.risk_interval.high
    assert result.risk == max(0, result.rate - result.control)
    assert result.failed == (result.note == NO_EVIDENCE)
    json.dumps(result.to_dict(), allow_nan=False)


def test_risk_is_the_excess_over_the_control_and_else_over_guessing() -> None:
    assert AttackResult("x", 100, 50, 10, 20).risk == pytest.approx(0.3)
    assert AttackResult("x", 100, 50, 10).risk == pytest.approx(0.4)
    assert AttackResult("x", 100, 50, 10, 80).risk == 0
    assert AttackResult("x", 100, 50, 10, 10, control_attempts=50).risk == pytest.approx(0.3)


def test_attempts_that_hang_together_make_no_narrower_interval() -> None:
    clustered = AttackResult("x", 5000, 2500, 100, independent=50)
    assert clustered.rate == 0.5
    assert clustered.interval == pytest.approx(wilson(25, 50))
    assert clustered.to_dict()["independent"] == 50
    assert AttackResult("x", 5000, 2500, 100).to_dict()["independent"] == 5000
    with pytest.raises(ParameterError, match="independent=11"):
        AttackResult("x", 10, 5, 1, independent=11)


def test_an_attack_that_does_not_beat_guessing_says_so() -> None:
    assert AttackResult("x", 100, 10, 10).note == NO_EVIDENCE
    assert AttackResult("x", 100, 11, 10).failed  # within chance
    assert not AttackResult("x", 100, 60, 10).failed


def test_a_result_is_frozen_and_refuses_impossible_counts() -> None:
    result = AttackResult("x", 10, 1, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.successes = 3  # type: ignore[misc]
    for wrong in ((0, 0, 0), (10, 11, 0), (10, -1, 0), (10, 1, 11)):
        with pytest.raises(ParameterError, match="'x'"):
            AttackResult("x", *wrong)
    with pytest.raises(ParameterError, match="control_successes"):
        AttackResult("x", 10, 1, 1, 11)
