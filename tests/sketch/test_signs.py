"""Signs: right arithmetic, four-wise independent, from the key alone."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle.keys import SecretKey
from tulle.sketch.sketcher import (
    PRIME,
    coefficients,
    multiply,
    number_points,
    sign_table,
    term_points,
)

KEY = SecretKey(b"a key for tests, never for data!")
elements = st.integers(0, PRIME - 1) | st.sampled_from([0, 1, 2**32 - 1, 2**32, PRIME - 1])


@given(st.lists(st.tuples(elements, elements), min_size=1, max_size=20))
def test_multiply_equals_python_integers(pairs):
    a, b = (np.array(side, np.uint64) for side in zip(*pairs))
    assert multiply(a, b).tolist() == [x * y % PRIME for x, y in pairs]


def test_sign_table_equals_the_polynomial_in_python_integers():
    points = [0, 1, 2, 999, 2**40 + 7, PRIME - 1]
    polynomials = coefficients(KEY, 0, 40)
    table = sign_table(polynomials, np.array(points, np.uint64))
    for j, (a, b, c, d) in enumerate(polynomials.tolist()):
        values = [(a + b * x + c * x**2 + d * x**3) % PRIME for x in points]
        assert table[:, j].tolist() == [2 * (value & 1) - 1 for value in values]


def test_coefficients_of_a_component_do_not_depend_on_how_many_are_asked():
    whole = coefficients(KEY, 0, 300)
    assert np.array_equal(coefficients(KEY, 100, 270), whole[100:270])
    assert whole.max() < PRIME
    assert len(np.unique(whole)) == whole.size


@pytest.mark.slow
def test_products_of_up_to_four_signs_average_to_zero():
    table = sign_table(coefficients(KEY, 0, 4000), np.arange(6, dtype=np.uint64)).astype(float)
    for size in (1, 2, 3, 4):
        for columns in combinations(range(6), size):
            mean = table[list(columns)].prod(axis=0).mean()
            assert abs(mean) < 4.5 / np.sqrt(4000)


def test_another_key_gives_other_signs_and_other_points():
    other = SecretKey(b"another key, not for data either")
    points = np.arange(500, dtype=np.uint64)
    same = sign_table(coefficients(KEY, 0, 20), points) == sign_table(
        coefficients(other, 0, 20), points
    )
    assert 0.47 < same.mean() < 0.53
    assert not set(term_points(KEY, ["a", "b"]).tolist()) & set(
        term_points(other, ["a", "b"]).tolist()
    )


def test_points_of_numbered_columns_are_keyed():
    points = number_points(KEY, np.arange(10_000))
    assert len(set(points.tolist())) == 10_000
    assert points.max() < PRIME
    assert np.array_equal(number_points(KEY, np.array([7, 3])), points[[7, 3]])
    other = number_points(SecretKey(b"another key, not for data either"), np.arange(10_000))
    assert not set(points.tolist()) & set(other.tolist())
    steps = np.diff(points.astype(np.int64))  # a known sign tells nothing of the next column
    assert abs(np.corrcoef(steps[:-1], steps[1:])[0, 1] + 0.5) < 0.05


def test_terms_have_their_own_points_whatever_else_is_asked():
    together = term_points(KEY, ["cat", "hat", "", "\ud800"])
    assert len(set(together.tolist())) == 4
    assert term_points(KEY, ["hat"])[0] == together[1]
    assert len(term_points(KEY, [])) == 0
