"""Pseudo-data: the moments of each group, against a loop that draws one group at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tulle._moments import GroupMoments
from tulle.condense._synthesis import count_degenerate, synthesize
from tulle.errors import DataError, ParameterError, PrivacyError


def _moments(n: int, d: int, sizes: list[int], seed: int = 0) -> GroupMoments:
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(d, d))
    matrix = rng.normal(size=(n, d)) @ mixing + 100
    groups = np.repeat(np.arange(len(sizes)), sizes)
    return GroupMoments.of(matrix, groups, np.ones(n, dtype=np.int64))


def _again(matrix, groups):
    return GroupMoments.of(matrix, groups, np.ones(len(groups), dtype=np.int64))


def test_every_group_emits_as_many_records_as_it_holds():
    moments = _moments(30, 3, [3, 7, 20])
    matrix, groups = synthesize(moments, np.random.default_rng(0))
    assert matrix.shape == (30, 3)
    assert np.bincount(groups).tolist() == [3, 7, 20]


@pytest.mark.parametrize("distribution", ["uniform", "normal"])
def test_moments_are_right_on_average(distribution):
    moments = _moments(60, 3, [20, 40])
    many = np.array([40_000, 40_000])
    matrix, groups = synthesize(
        moments, np.random.default_rng(1), distribution=distribution, sizes=many
    )
    drawn = _again(matrix, groups)
    spread = np.sqrt(np.einsum("gii->gi", moments.covariances))
    np.testing.assert_allclose(drawn.means, moments.means, atol=0.05 * spread.max())
    scale = spread[:, :, None] * spread[:, None, :]
    assert (np.abs(drawn.covariances - moments.covariances) / scale).max() < 0.03


def test_uniform_stays_within_its_range_along_each_eigenvector():
    moments = _moments(50, 3, [50])
    matrix, _ = synthesize(moments, np.random.default_rng(2), sizes=np.array([5000]))
    values, vectors = np.linalg.eigh(moments.covariances[0])
    along = (matrix - moments.means[0]) @ vectors
    assert (np.abs(along) <= np.sqrt(3 * values) + 1e-9).all()
    assert (np.abs(along).max(axis=0) > 0.97 * np.sqrt(3 * values)).all()


@pytest.mark.guarantee
@few(40)
@given(
    st.lists(st.integers(1, 12).filter(lambda size: size != 2), min_size=1, max_size=6),
    st.integers(1, 7),
    st.integers(0, 99),
    st.sampled_from(["uniform", "normal"]),
)
def test_exact_moments_are_exact_for_any_sizes(sizes, d, seed, distribution):
    moments = _moments(sum(sizes), d, sizes, seed)
    matrix, groups = synthesize(
        moments, np.random.default_rng(seed), distribution=distribution, exact=True
    )
    drawn = _again(matrix, groups)
    np.testing.assert_allclose(drawn.means, moments.means, rtol=1e-9)
    scale = 1 + np.abs(moments.covariances).max()
    np.testing.assert_allclose(drawn.covariances, moments.covariances, atol=1e-7 * scale)


def test_exact_moments_need_more_records_than_rank():
    moments = _moments(20, 5, [20])
    with pytest.raises(DataError, match="1 group.*exact_moments=False"):
        synthesize(moments, np.random.default_rng(0), exact=True, sizes=np.array([5]))


def test_groups_with_no_more_records_than_dimensions_stay_in_their_plane():
    rng = np.random.default_rng(3)
    records = rng.normal(size=(4, 10))
    moments = GroupMoments.of(records, np.zeros(4, dtype=np.int64), np.ones(4, dtype=np.int64))
    matrix, _ = synthesize(moments, rng, sizes=np.array([50]))
    assert np.isfinite(matrix).all()
    plane = records[1:] - records[0]
    offsets = matrix - records[0]
    fitted = offsets @ np.linalg.pinv(plane) @ plane
    np.testing.assert_allclose(fitted, offsets, atol=1e-10)


def test_mean_repeats_the_mean():
    moments = _moments(30, 3, [10, 20])
    matrix, groups = synthesize(moments, np.random.default_rng(0), distribution="mean")
    np.testing.assert_array_equal(matrix, moments.means[groups])


def test_records_that_are_alike_come_again_and_are_counted():
    records = np.repeat([[0.1, 1e9], [0.3, 5.0]], 7, axis=0)
    groups = np.repeat([0, 1], 7)
    moments = GroupMoments.of(records, groups, np.ones(14, dtype=np.int64))
    assert count_degenerate(moments) == 2
    matrix, _ = synthesize(moments, np.random.default_rng(0))
    np.testing.assert_allclose(matrix, records, rtol=1e-12)
    assert count_degenerate(_moments(10, 2, [5, 5])) == 0
    assert count_degenerate(_moments(3, 2, [1, 1, 1])) == 0  # alone is another matter


def test_chunks_and_empty_groups_change_nothing(monkeypatch):
    moments = _moments(200, 3, [5] * 40)
    sizes = np.arange(40) % 6
    monkeypatch.setattr("tulle.condense._synthesis._CELLS", 40)
    matrix, groups = synthesize(moments, np.random.default_rng(0), sizes=sizes)
    assert np.bincount(groups, minlength=40).tolist() == sizes.tolist()
    assert np.isfinite(matrix).all()


def test_same_seed_same_records():
    moments = _moments(30, 3, [10, 20])
    first, second = (synthesize(moments, np.random.default_rng(9))[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_an_unknown_distribution_is_named():
    with pytest.raises(ParameterError, match="'uniform'"):
        synthesize(_moments(3, 2, [3]), np.random.default_rng(0), distribution="unifrom")


def test_exact_moments_never_give_two_records_back():
    pairs = _moments(20, 3, [2] * 10)
    with pytest.raises(PrivacyError, match="10 groups"):
        synthesize(pairs, np.random.default_rng(0), exact=True)
    more, _ = synthesize(pairs, np.random.default_rng(0), exact=True, sizes=np.full(10, 3))
    assert len(more) == 30
    alike = GroupMoments.of(np.ones((2, 3)), np.zeros(2, dtype=np.int64), np.full(2, 2))
    synthesize(alike, np.random.default_rng(0), exact=True)  # counted as degenerate
