from __future__ import annotations

from dataclasses import replace

import pytest

from tulle.errors import PrivacyError
from tulle.tuning.search import Limits, SizePoint, choose


def point(k: int, utility: float, risk: float = 0.0) -> SizePoint:
    return SizePoint(k, utility, 0.01, utility / 0.9, k / 100, k / 100, risk, 0.1)


CURVE = [point(10, 0.90, 0.2), point(20, 0.89, 0.1), point(40, 0.87, 0.04), point(80, 0.60)]


def test_grid_takes_the_largest_near_the_best() -> None:
    k, reason = choose(CURVE, None, 0.05, Limits())
    assert k == 40
    assert reason.startswith("k=40 because it is the largest size tried")


def test_the_reason_shows_the_interval_of_the_table_of_sizes() -> None:
    cut = replace(point(10, 0.9), privacy=1.0, interval=1.73)
    assert "interval 1.73 (uncut)" in choose([cut], None, 0.05, Limits())[1]


def test_rule_never_goes_beyond_where_it_ended_nor_below_the_gap() -> None:
    assert choose(CURVE, 20, 0.05, Limits())[0] == 20
    assert choose(CURVE, 80, 0.05, Limits())[0] == 40


def test_limits_bound_the_choice() -> None:
    assert choose(CURVE, None, 0.05, Limits(max_risk=0.05))[0] == 40
    assert choose(CURVE, None, 0.05, Limits(min_accuracy_ratio=0.98))[0] == 20


def test_impossible_limits_name_the_nearest() -> None:
    with pytest.raises(PrivacyError, match="4.*k=40"):
        choose(CURVE, None, 0.05, Limits(max_risk=0.01, min_accuracy_ratio=0.95))


def test_a_single_size_says_so() -> None:
    k, reason = choose(CURVE[:1], 10, 0.05, Limits())
    assert k == 10
    assert "only size" in reason


def test_what_could_not_be_measured_is_inside_no_limit() -> None:
    unknown = SizePoint(10, 0.5, 0.0, float("nan"), 0.3, 0.3, 0.0, 1.0)
    with pytest.raises(PrivacyError, match="1"):
        choose([unknown], None, 0.05, Limits(min_accuracy_ratio=0.9))
    assert "the original's is 0" in choose([unknown], None, 0.05, Limits())[1]
