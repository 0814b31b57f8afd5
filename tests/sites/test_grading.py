from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle.errors import ParameterError
from tulle.sites._columns import (
    TOP,
    GradeScale,
    cut,
    equal_scale,
    grade,
    is_code,
    scale,
    uneven_scale,
    ungrade,
)

TABLE_3 = scale([15, 30, 45, 60, 75, 90], [1, 2, 3, 4, 5])


def test_table_3_of_the_paper_with_five_groups() -> None:
    actual = np.array([30.0, 40, 70, 25, 15, 58, 73, 37, 90])
    printed = [2, 2.667, 4.667, 1.667, 1, 3.867, 4.867, 2.467, 5.999]
    codes = grade(actual, TABLE_3)
    assert codes.round(3).tolist() == printed
    assert np.corrcoef(actual, codes)[0, 1] == pytest.approx(1, abs=1e-6)


@st.composite
def scales(draw: st.DrawFn) -> GradeScale:
    widths = draw(st.lists(st.floats(0.01, 1e4), min_size=1, max_size=8))
    start = draw(st.floats(-1e5, 1e5))
    steps = draw(st.lists(st.integers(1, 4), min_size=len(widths), max_size=len(widths)))
    first = draw(st.integers(-5, 5))
    return scale(start + np.cumsum([0.0, *widths]), first + np.cumsum(steps))


@pytest.mark.guarantee
@pytest.mark.slow
@given(scales(), st.lists(st.floats(0, 1), min_size=2, max_size=40))
def test_codes_increase_and_lead_back(by: GradeScale, shares: list[float]) -> None:
    low, high = by.limits[0], by.limits[-1]
    numbers = np.unique(np.clip(low + np.array(shares) * (high - low), low, high))
    codes = grade(numbers, by)
    assert is_code(codes, by).all()
    assert (np.diff(codes) >= 0).all()
    apart = np.diff(numbers) > 1e-9 * (high - low)
    assert (np.diff(codes)[apart] > 0).all()
    assert np.abs(ungrade(codes, by) - numbers).max() <= 1e-9 * max(1.0, np.abs(by.limits).max())


@given(scales())
def test_nothing_is_lost_near_the_top(by: GradeScale) -> None:
    low, high = by.limits[-2], by.limits[-1]
    numbers = high - (high - low) * np.array([2e-3, 1e-3, 9e-4, 1e-5, 1e-8, 0])
    codes = grade(numbers, by)
    assert (np.diff(codes) > 0).all()
    assert codes[-1] == by.values[-1] + TOP
    assert ungrade(codes, by) == pytest.approx(numbers, rel=1e-9, abs=1e-9 * (high - low))
    assert ungrade(codes, by)[-1] == high


def test_neighbours_of_a_limit_stay_in_their_group() -> None:
    below, at = np.nextafter(30.0, 0), 30.0
    codes = grade(np.array([below, at]), TABLE_3)
    assert codes[0] < 2 == codes[1]


def test_missing_stays_missing() -> None:
    codes = grade(np.array([np.nan, 20]), TABLE_3)
    assert np.isnan(codes[0])
    assert np.isnan(ungrade(codes, TABLE_3)[0])
    assert is_code(codes, TABLE_3).all()


def test_equal_groups_are_a_straight_line_without_the_ends_of_the_range(
    rng: np.random.Generator,
) -> None:
    drawn = equal_scale(0, 100, 5, rng.random(12), whole=False)
    numbers = np.linspace(0, 100, 101)
    codes = grade(numbers, drawn)
    assert np.abs(np.diff(codes, 2)).max() < 1e-12
    assert codes.min() > drawn.values[0]
    assert codes.max() < drawn.values[-1] + _BEND


_BEND = 0.998


@given(st.integers(-1000, 1000), st.integers(1, 10**6), st.integers(1, 12), st.integers(0, 99))
def test_whole_numbers_have_codes_that_single_precision_holds(
    low: int, width: int, groups: int, seed: int
) -> None:
    uniforms = np.random.default_rng(seed).random(2 * groups + 2)
    drawn = equal_scale(low, low + width, groups, uniforms, whole=True)
    numbers = low + np.unique(np.linspace(0, width, 300).round())
    codes = grade(numbers, drawn)
    assert (codes.astype(np.float32) == codes).all()
    assert (ungrade(codes, drawn) == numbers).all()
    assert (np.diff(codes) * np.diff(drawn.limits)[0] == np.diff(numbers)).all()


def test_uneven_groups_hide_the_scale_but_keep_the_order(rng: np.random.Generator) -> None:
    drawn = uneven_scale(0, 100, 5, rng.random(12))
    assert len(drawn.values) == 5
    scale(drawn.limits, drawn.values.astype(int))
    codes = grade(np.linspace(0, 100, 101), drawn)
    assert (np.diff(codes) > 0).all()
    assert np.abs(np.diff(codes, 2)).max() > 0.01


@given(scales(), st.floats(0, 1), st.floats(0, 1))
def test_a_threshold_splits_numbers_as_it_split_their_codes(
    by: GradeScale, share: float, place: float
) -> None:
    low, high = by.limits[0], by.limits[-1]
    numbers = np.concatenate([np.linspace(low, high, 50), by.limits])
    codes = grade(numbers, by)
    threshold = float(by.values[0] - 1 + share * (np.ptp(by.values) + 3))
    number, strict = cut(threshold, by)
    told = numbers < number if strict else numbers <= number
    # closer than floating point can tell, a number may fall on either side of its own threshold
    far = np.abs(codes - threshold) > 1e-9
    assert ((codes <= threshold) == told)[far].all()


def test_thresholds_between_groups_become_strict() -> None:
    uneven = scale([0, 10, 100], [3, 7])
    assert cut(4.0, uneven) == (10.0, True)
    assert cut(6.999, uneven) == (10.0, True)
    assert cut(7.0, uneven) == (10.0, False)
    assert cut(2.0, uneven) == (0.0, True)
    assert cut(99.0, uneven) == (100.0, False)
    assert not is_code(np.array([5.0, 2.0, 7.9999, 8.0]), uneven).any()


@pytest.mark.parametrize(
    ("limits", "values", "words"),
    [
        ([1], [], "two or more"),
        ([1, 1], [1], "increase"),
        ([0, 1, 2], [1], "2 groups"),
        ([0, 1, 2], [1, 1], "increasing integers"),
        ([0, 1, 2], [1, 2.5], "increasing integers"),
        ([0, np.inf], [1], "finite"),
    ],
)
def test_bad_scales_are_refused(limits: list[float], values: list[int], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        scale(limits, values, "age")
