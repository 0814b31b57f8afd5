"""Shadow attackers: sure of a plain leak, no better than luck without one, better with time."""

from __future__ import annotations

import numpy as np
import pytest

from tulle._attacks.membership import area_under_curve
from tulle._attacks.shadows import _ATTACKERS, _areas, challenge_result, steps

SECONDS = np.full(24, 2.0)


def rounds(leak: float, seed: int, own: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Traces of 30 targets in 24 rounds: noise, what is usual for each, and a leak in the first."""
    rng = np.random.default_rng(seed)
    inside = rng.random((24, 30)) < 0.5
    seen = rng.normal(size=(24, 30, 5)) + own * rng.normal(size=(30, 5))
    seen[..., 0] += leak * inside
    return seen, inside


def test_a_plain_leak_is_told_almost_surely() -> None:
    seen, inside = rounds(6.0, 0)
    *_, (last, scores) = steps(seen, inside, SECONDS, np.random.default_rng(1))
    assert last.area > 0.98
    assert 0.4 < last.control < 0.6
    result = challenge_result(scores, inside, 24)
    assert result.rate > 0.9 > 0.2 > (result.control or 0)
    assert (result.attempts, result.details["releases"]) == (30, 24)


@pytest.mark.slow
def test_without_a_leak_it_is_luck() -> None:
    lucky, excess = 0, []
    for seed in range(40):
        seen, inside = rounds(0.0, seed)
        *_, (last, _) = steps(seen, inside, SECONDS, np.random.default_rng(seed))
        excess.append(last.area - last.control)
        lucky += last.low > last.control + 0.02
    assert abs(np.mean(excess)) < 0.02
    assert lucky <= 2


def test_a_leak_behind_what_is_usual_is_learnt_with_time() -> None:
    seen, inside = rounds(1.0, 2, own=3.0)
    found = [step for step, _ in steps(seen, inside, SECONDS, np.random.default_rng(1))]
    assert [step.releases for step in found] == [0, 2, 4, 8, 16, 18]
    assert [step.seconds for step in found] == [2 * (step.releases + 1) for step in found]
    assert found[0].attacker == next(iter(_ATTACKERS))
    assert found[-1].area > found[0].area + 0.05
    assert found[-1].low > 0.6 > found[-1].control
    assert all(step.low <= step.area <= step.high for step in found)


def test_who_was_never_out_is_not_counted() -> None:
    seen, inside = rounds(6.0, 3)
    inside[:, :10] = True
    *_, (last, scores) = steps(seen, inside, SECONDS, np.random.default_rng(1))
    assert challenge_result(scores, inside, 24).attempts == 20
    assert last.area > 0.9


@pytest.mark.parametrize("name", _ATTACKERS)
def test_every_attacker_scores_each_target_of_each_round(name: str) -> None:
    seen, inside = rounds(1.0, 4)
    scores = _ATTACKERS[name](seen[:16], inside[:16], seen[16:])
    assert scores.shape == (8, 30)
    assert np.isfinite(scores).all()


def test_areas_are_those_of_each_target_alone() -> None:
    seen, inside = rounds(1.0, 5)
    scores = np.round(seen[..., 0])  # with ties
    expected = [area_under_curve(s[i], s[~i]) for s, i in zip(scores.T, inside.T)]
    assert _areas(scores, inside).tolist() == pytest.approx(expected)
