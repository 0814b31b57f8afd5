"""Measures against SciPy, scikit-learn, NumPy and small tables worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance
from scipy.stats.contingency import association as scipy_association
from sklearn.datasets import load_diabetes, load_iris
from sklearn.neighbors import KNeighborsClassifier

from tulle._metrics.covariance import association, covariance_compatibility, spread_behind
from tulle._metrics.marginals import (
    interval_width,
    interval_widths,
    range_coverage,
    total_variation,
    wasserstein,
)
from tulle._metrics.models import Lesson, propensity, train_on_release
from tulle.auditing._pictures import group_facts, group_section

values = st.lists(st.integers(-20, 20), min_size=1, max_size=30)


@given(values, values)
def test_wasserstein_agrees_with_scipy(left: list[int], right: list[int]) -> None:
    first, second = np.array(left, dtype=float), np.array(right, dtype=float)
    expected = wasserstein_distance(first, second)
    assert wasserstein(first, second) == pytest.approx(expected, abs=1e-9)


@given(values, values)
def test_total_variation_is_a_distance_between_shares(left: list[int], right: list[int]) -> None:
    found = total_variation(np.array(left), np.array(right))
    names = set(left) | set(right)
    expected = sum(abs(left.count(v) / len(left) - right.count(v) / len(right)) for v in names) / 2
    assert found == pytest.approx(expected)
    assert total_variation(np.array(left), np.array(left)) == 0


def test_range_coverage_of_constant_and_disjoint_columns() -> None:
    five = np.array([5.0, 5.0])
    assert range_coverage(five, five) == 1
    assert range_coverage(five, np.array([4.0])) == 0
    assert range_coverage(np.array([0.0, 1.0]), np.array([2.0, 3.0])) == 0


def test_covariance_compatibility_by_hand() -> None:
    original = np.array([[0.0, 0.0], [2.0, 1.0]])
    opposite = np.array([[0.0, 1.0], [2.0, 0.0]])
    entries, changed = np.array([1.0, 0.5, 0.25]), np.array([1.0, -0.5, 0.25])
    expected = np.corrcoef(entries, changed)[0, 1]
    assert covariance_compatibility(original, opposite) == pytest.approx(expected)
    assert math.isnan(covariance_compatibility(original[:, :1], original[:, :1]))


def test_association_agrees_with_the_textbook_for_each_pair_of_kinds() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(200, 2))
    codes = np.column_stack([rng.integers(0, 3, 200), rng.integers(0, 4, 200)])
    codes[:, 1] = np.where(rng.random(200) < 0.5, codes[:, 0], codes[:, 1])
    found = association(numbers, codes)
    assert found[0, 1] == pytest.approx(np.corrcoef(numbers.T)[0, 1])
    table = np.zeros((3, 4), dtype=int)
    np.add.at(table, (codes[:, 0], codes[:, 1]), 1)
    assert found[2, 3] == pytest.approx(scipy_association(table))
    between = sum(
        (codes[:, 0] == c).sum() * (numbers[codes[:, 0] == c, 0].mean() - numbers[:, 0].mean()) ** 2
        for c in range(3)
    )
    assert found[0, 2] == pytest.approx(np.sqrt(between / 200 / numbers[:, 0].var()))
    assert (found == found.T).all()
    assert found[3, 3] == pytest.approx(1)


def test_association_with_a_constant_column_is_unknown() -> None:
    found = association(np.ones((5, 1)), np.zeros((5, 1), dtype=int))
    assert np.isnan(found).all()
    assert association(np.empty((5, 0)), np.arange(5)[:, None]).shape == (1, 1)


def test_missing_numbers_are_left_out_pair_by_pair() -> None:
    rng = np.random.default_rng(1)
    numbers = rng.normal(size=(300, 3)) + 1e6
    numbers[:, 1] += numbers[:, 0]
    codes = (numbers[:, :1] > 1e6).astype(int)
    numbers[rng.random((300, 3)) < 0.4] = np.nan
    numbers[:, 2] = np.where(np.isnan(numbers[:, 2]), np.nan, 7.1)  # constant where it is known
    found = association(numbers, codes)
    both = ~np.isnan(numbers[:, :2]).any(axis=1)
    assert found[0, 1] == pytest.approx(np.corrcoef(numbers[both, :2].T)[0, 1])
    there = ~np.isnan(numbers[:, 1])
    alone = association(numbers[there, 1:2], codes[there])
    assert found[1, 3] == pytest.approx(alone[0, 1])
    assert np.isnan(found[2]).all()
    assert np.isnan(association(np.full((4, 1), np.nan), np.arange(4)[:, None])[0]).all()


def test_many_categories_and_few_give_the_same_measure() -> None:
    rng = np.random.default_rng(2)
    few = rng.integers(0, 4, (500, 2))
    names = np.unique(rng.integers(0, 1000, 4)) * 37
    assert association(np.empty((500, 0)), names[few]) == pytest.approx(
        association(np.empty((500, 0)), few)
    )
    wide = np.column_stack([np.arange(500), rng.integers(0, 90, 500)])  # more pairs than a table
    table = np.zeros((500, 90), dtype=int)
    np.add.at(table, (wide[:, 0], wide[:, 1]), 1)
    table = table[:, table.any(axis=0)]
    assert association(np.empty((500, 0)), wide)[0, 1] == pytest.approx(scipy_association(table))


@pytest.mark.parametrize("few", [1, 3, 20])
def test_the_spread_of_a_column_rests_on_those_who_differ(few: int) -> None:
    rng = np.random.default_rng(3)
    rare = (np.arange(5000) < few).astype(float)
    numbers = np.column_stack([rare * 1e9, rng.normal(size=5000), np.zeros(5000)])
    behind = spread_behind(numbers, rare[:, None].astype(int))
    assert behind[[0, 2, 3]].tolist() == [few, 5000, few]
    assert behind[1] > 1500


def test_interval_width_is_relative_to_the_range() -> None:
    rng = np.random.default_rng(0)
    original = np.column_stack([np.linspace(0, 100, 4001), np.ones(4001)])
    moved = original + np.column_stack([rng.uniform(-10, 10, 4001), np.zeros(4001)])
    widths = interval_widths(original, moved)
    assert widths[0] == pytest.approx(0.19, abs=0.005)
    assert math.isnan(widths[1])
    assert interval_width(original, moved) == widths[0]
    assert interval_width(original, original) == 0
    part = interval_widths(original[2000:], moved[2000:], extent=np.array([100.0, 0.0]))
    assert part[0] == pytest.approx(0.19, abs=0.005)  # of the whole range, though half is looked at
    holes = np.where(rng.random(original.shape) < 0.5, np.nan, original)
    assert interval_widths(holes, moved, extent=np.array([100.0, 0.0]))[0] == pytest.approx(
        widths[0], abs=0.005
    )


def test_a_copy_trains_as_well_as_the_original_and_noise_does_not() -> None:
    iris = load_iris()
    rng = np.random.default_rng(0)
    order = rng.permutation(150)
    train, test = order[:100], order[100:]
    original, held = (Lesson(iris.data[some], iris.target[some]) for some in (train, test))
    one = KNeighborsClassifier(1)
    same = train_on_release(original, original, held, estimator=one)
    assert same[0] == same[1] == one.fit(*original).score(*held)
    noise = Lesson(rng.permutation(original[0]), original[1])
    before, after = train_on_release(original, noise, held, estimator=one)
    assert after < 0.8 * before
    before, after = train_on_release(original, original, held)
    assert after == before
    single = Lesson(original[0], np.zeros(100, dtype=int))
    assert train_on_release(original, single, held)[1] == np.mean(held[1] == 0)


def test_numbers_are_scored_by_r2() -> None:
    sugar = load_diabetes()
    part = Lesson(sugar.data[:300], sugar.target[:300])
    held = Lesson(sugar.data[300:], sugar.target[300:])
    scores = train_on_release(part, part, held, classes=False)
    assert scores[0] == scores[1]
    flat = Lesson(part[0], np.full(300, part[1][0]))
    assert train_on_release(part, flat, held, classes=False)[1] <= 0


@pytest.mark.slow
def test_propensity_tells_strangers_and_not_brothers() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(600, 3)), rng.normal(size=(600, 3))
    brothers = propensity(left, right, np.random.default_rng(1))
    assert brothers.auc == pytest.approx(0.5, abs=0.06)
    strangers = propensity(left, right + 3, np.random.default_rng(1))
    assert strangers.auc > 0.99
    assert strangers.pmse > 0.2
    assert propensity(left[:1], right[:1], rng).auc == 0.5
    twins = propensity(left, left[::-1], np.random.default_rng(1))
    assert twins.auc == pytest.approx(0.5, abs=0.01)
    alike = np.ones((5, 2))
    assert propensity(alike, alike, rng).auc == 0.5


@pytest.mark.slow
def test_propensity_does_not_learn_people_by_heart() -> None:
    """Whoever has rows in two folds is recognised in one by those in the other."""
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(150), 4)
    visits = rng.normal(size=(150, 3))[who] + rng.normal(0, 0.01, (600, 3))
    fresh = rng.normal(size=(600, 3))
    assert propensity(visits, fresh, np.random.default_rng(1)).auc > 0.7
    by_person = propensity(visits, fresh, np.random.default_rng(1), people=who)
    assert by_person.auc == pytest.approx(0.5, abs=0.06)
    copied = propensity(visits, visits[::-1], np.random.default_rng(1), people=who)
    assert copied.auc == pytest.approx(0.5, abs=0.01)
    moved = propensity(visits, fresh + 1, np.random.default_rng(1), people=who)
    assert moved.auc > 0.85
    few = rng.integers(0, 2, (600, 2)).astype(float)  # everybody shares records with everybody
    rare = np.where(rng.random((600, 2)) < 0.2, 1.0, 0.0)
    assert propensity(few, rare, np.random.default_rng(1), people=who).auc > 0.65


def test_groups_by_size_and_level() -> None:
    assert group_facts([4, 6])["undersized_groups"] == 0
    _, chart = group_section([4, 4, 6], [3, 3, 5])["blocks"]
    assert chart["rows"] == [
        {"size": 4, "level": 3, "groups": 2, "count": 8},
        {"size": 6, "level": 5, "groups": 1, "count": 6},
    ]
