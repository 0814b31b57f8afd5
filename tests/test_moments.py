from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.stream import second_sums
from tulle._moments import GroupMoments


def draw(seed: int, n: int, d: int, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(groups), rng.integers(groups, size=n)])
    return (
        rng.normal(size=(len(labels), d)) * 3 + 1e6,
        rng.permutation(labels),
        rng.integers(1, 9, size=len(labels)),
    )


@pytest.mark.guarantee
@given(st.integers(0, 10**6), st.integers(0, 40), st.integers(1, 5), st.integers(1, 6))
def test_moments_equal_those_of_each_group_taken_apart(seed: int, n: int, d: int, g: int) -> None:
    matrix, groups, levels = draw(seed, n, d, g)
    found = GroupMoments.of(matrix, groups, levels)
    for group in range(g):
        rows = matrix[groups == group]
        assert found.counts[group] == len(rows)
        assert found.levels[group] == levels[groups == group].max()
        assert found.level_sums[group] == levels[groups == group].sum()
        np.testing.assert_allclose(found.means[group], rows.mean(axis=0), rtol=1e-12)
        expected = np.cov(rows.T, bias=True).reshape(d, d) if len(rows) > 1 else np.zeros((d, d))
        np.testing.assert_allclose(found.covariances[group], expected, atol=1e-6)


@pytest.mark.guarantee
@given(st.integers(0, 10**6))
def test_halves_pool_to_the_whole(seed: int) -> None:
    matrix, groups, levels = draw(seed, 30, 3, 4)
    whole = GroupMoments.of(matrix, np.zeros(len(matrix), dtype=int), levels)
    parts = GroupMoments.of(matrix, groups, levels)
    pooled = parts.stacked(parts).pooled()
    assert pooled.counts[0] == 2 * whole.counts[0]
    np.testing.assert_allclose(pooled.means, whole.means, rtol=1e-12)
    np.testing.assert_allclose(pooled.scatters, 2 * whole.scatters, rtol=1e-6, atol=1e-5)
    assert pooled.level_sums[0] == 2 * levels.sum()


def test_the_papers_sums_follow() -> None:
    matrix = np.array([[1.0, 2.0], [3.0, 5.0], [10.0, 0.0]])
    found = GroupMoments.of(matrix, np.array([0, 0, 1]), np.array([2, 1, 1]))
    np.testing.assert_allclose(found.first_sums, [[4, 7], [10, 0]])
    np.testing.assert_allclose(second_sums(found)[0], matrix[:2].T @ matrix[:2])
    np.testing.assert_allclose(found.within, [2.0, 4.5])
