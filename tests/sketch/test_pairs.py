"""Variance and bound of pairs against exact fractions, where differences lose their digits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tulle import SecretKey, Sketcher
from tulle.sketch._neighbours import row_squares, variance_and_bound

KEY = SecretKey(b"a key for tests, never for data!")


def exact(x, y):
    """V, |x|²|y|² - (x.y)², |x|²|y|² and |x.y| of two records, without any rounding."""
    x, y = ([Fraction(value) for value in record.tolist()] for record in (x, y))
    squares = sum(a * a for a in x) * sum(b * b for b in y)
    dot = sum(a * b for a, b in zip(x, y))
    shared = sum((a * b) ** 2 for a, b in zip(x, y))
    return squares + dot**2 - 2 * shared, squares - dot**2, squares, abs(dot)


def computed(x, y, criterion):
    rows = [csr_array(record[None]) for record in (x, y)]
    squares = row_squares(rows[0]) * row_squares(rows[1])
    return [float(found[0]) for found in variance_and_bound(*rows, squares, criterion)]


def pair(seed):
    """Two records of an awkward kind: dominated by a column, nearly parallel, nearly opposite."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, int(rng.integers(2, 6))))
    kind = seed % 5
    if kind == 0:
        x[0] = y[0] = 10.0 ** rng.integers(3, 12)
    elif kind == 1:
        y = x * rng.normal() * (1 + 10.0 ** -rng.integers(2, 9) * rng.normal(size=len(x)))
    elif kind == 2:
        x[0] = y[0] = 1e6
        y[1:] = -x[1:] * (1 + 10.0 ** -rng.integers(1, 12) * rng.normal(size=len(x) - 1))
    elif kind == 3:
        x, y = np.round(x * 10.0 ** rng.integers(0, 9)), np.round(y * 10.0 ** rng.integers(0, 9))
        x[0] = y[0] = 7.0
    else:
        x[1:] *= rng.random(len(x) - 1) < 0.5
        y[:-1] *= rng.random(len(x) - 1) < 0.5
    return x, y


@pytest.mark.guarantee
@pytest.mark.slow
@given(st.integers(0, 100_000))
def test_variance_is_never_overstated_and_the_gap_never_understated(seed):
    x, y = pair(seed)
    true_variance, defect, squares, dot = map(float, exact(x, y))
    gap = defect / (np.sqrt(squares) + dot)
    variance, bound = computed(x, y, "definition")
    assert variance <= true_variance * (1 + 1e-9) + 1e-28 * squares
    assert bound >= gap * (1 - 1e-4) - 1e-24 * np.sqrt(squares)
    assert variance >= true_variance * (1 - 1e-6) - 1e-13 * squares
    assert bound <= gap * (1 + 1e-4) + 1e-24 * np.sqrt(squares)
    assert computed(x, y, "gap")[1] == pytest.approx(bound**2, rel=1e-9)


@pytest.mark.parametrize("large", [1e3, 1e6, 1e7, 1e9])
@pytest.mark.parametrize("criterion", ["definition", "gap"])
def test_a_dot_product_that_is_known_exactly_is_not_released(large, criterion):
    # (A r + s)(A r - s) = A² - 1 whatever the signs: no component hides that they differ
    X = np.array([[large, 1.0, 0.0], [large, -1.0, 0.0], [0.0, 1.0, 5.0]])
    S = Sketcher("k-variance", k=1, criterion=criterion, key=KEY).fit(X).transform(X)
    assert S.lengths[:2].tolist() == [0, 0]


def test_records_that_share_nothing_may_have_one_component_of_the_gap():
    # the root of |x|²|y|² is rounded up for some: those were suppressed, the others were not
    sizes = [4, 5, 3, 7, 10, 6]
    X = np.zeros((len(sizes), sum(sizes)))
    for row, (size, end) in enumerate(zip(sizes, np.cumsum(sizes))):
        X[row, end - size : end] = 1
    S = Sketcher("k-variance", k=2, criterion="gap", key=KEY).fit(X).transform(X)
    assert S.lengths.tolist() == [1] * len(sizes)


def test_small_records_that_are_nearly_parallel_keep_their_bound():
    X = np.array([[1, 1, 1e-7], [1, 1, 0], [1, 0, 3]]) * 1e-8
    V, defect, squares, dot = map(float, exact(X[0], X[1]))
    assert defect / (np.sqrt(squares) + dot) > V  # not even one component
    S = Sketcher("k-variance", k=1, key=KEY).fit(X).transform(X)
    assert S.lengths[:2].tolist() == [0, 0]
