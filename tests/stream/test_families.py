"""Families shown again: which group shown the groups of the stream are behind."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import KDTree

from tulle import StreamCondenser
from tulle._moments import GroupMoments
from tulle.stream._groups import StreamGroups
from tulle.stream._snapshots import _nearest
from tulle.stream._state import StreamState


def groups_at(means: np.ndarray, families: np.ndarray) -> StreamGroups:
    groups = StreamGroups(means.shape[1])
    ones = np.ones(len(means), dtype=np.int64)
    groups.append(GroupMoments(ones, means, np.zeros((len(means), 2, 2)), ones, ones))
    groups.view().families[:] = families
    return groups


@pytest.mark.parametrize("seed", range(5))
def test_the_nearest_group_of_the_family_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.permutation([1, 2, 16, 17, 80])
    families = rng.permutation(np.repeat(np.arange(5), sizes))
    owners = rng.integers(5, size=300)
    live, shown = rng.normal(size=(300, 2)), rng.normal(size=(len(families), 2))
    found = _nearest(groups_at(live, owners), owners, groups_at(shown, families))
    away = np.linalg.norm(live[:, None] - shown, axis=2)
    away[owners[:, None] != families] = np.inf
    np.testing.assert_array_equal(found, away.argmin(axis=1))


@pytest.mark.slow
def test_a_stream_may_grow_a_thousandfold_between_two_snapshots() -> None:
    rng = np.random.default_rng(0)
    state = StreamState(2)
    first = rng.normal(size=(3, 2))
    state.start(GroupMoments.of(first, np.zeros(3, dtype=np.int64), np.full(3, 2)))
    state.publish()
    state.absorb(rng.normal(size=(3_000, 2)), np.full(3_000, 2), np.arange(3_000))
    shown, _, change = state.publish()
    assert (change.changed, change.held_back) == (1, 0)
    assert len(shown) > 1_000
    assert shown.view().counts.sum() == 3_003
    assert len(np.unique(state.groups.view().families)) > 500  # they stand behind many of them


@pytest.mark.slow
def test_many_snapshots_go_on_looking_like_the_stream() -> None:
    """What is shown is made of sums over newcomers, time and again, and stays near the records."""
    rng = np.random.default_rng(0)
    centres = 6 * rng.normal(size=(20, 3))
    stream, records = StreamCondenser(k=10, random_state=0), []
    for _ in range(40):
        records.append(centres[rng.integers(20, size=150)] + rng.normal(size=(150, 3)) / 2)
        shown = stream.partial_fit(records[-1]).snapshot()
    near = KDTree(np.concatenate(records))
    away, at_best = (near.query(drawn)[0].mean() for drawn in (shown, stream.sample()))
    assert away < 1.25 * at_best
    published = stream._fitted.states[None].published
    assert (published.behind.view().counts == 0).mean() < 0.15  # few can get no newcomers any more


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
def test_rounding_does_not_pile_up_over_many_snapshots(strict: bool) -> None:
    """Also where a column is constant, in all records or in most, and far from zero."""
    rng = np.random.default_rng(1)
    state = StreamState(3, strict=strict)
    came = 0
    for turn in range(80):
        records = np.full((20, 3), 1e6 / 3)
        records[:, 1] = rng.choice([0.1, 0.1, 7.0], size=20)
        records[:, 2] = rng.normal(size=20)
        state.absorb(records, rng.choice([3, 5], size=20), np.arange(came, came + 20))
        came += 20
        shown, _, change = state.publish()
        moments = shown.moments()
        assert moments.counts.sum() + change.held_back + len(state.waiting) == came, turn
        np.testing.assert_allclose(moments.means[:, 0], 1e6 / 3, rtol=1e-12)
        values = np.linalg.eigvalsh(moments.covariances)
        assert values.min() > -1e-9
        assert np.all(np.abs(moments.covariances[:, 0, 0]) < 1e-12)
    assert not (strict and change.small)
