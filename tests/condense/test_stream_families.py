"""Families shown anew: which group shown the groups of the stream are behind."""

from __future__ import annotations

import numpy as np
import pytest

from tulle.condense.stream.families import FEW, _nearest
from tulle.condense.stream.groups import Groups
from tulle.condense.stream.state import StreamState
from tulle.moments import GroupMoments


def groups_at(means: np.ndarray, families: np.ndarray) -> Groups:
    groups = Groups(means.shape[1])
    ones = np.ones(len(means), dtype=np.int64)
    groups.append(GroupMoments(ones, means, np.zeros((len(means), 2, 2)), ones, ones))
    groups.view().families[:] = families
    return groups


@pytest.mark.parametrize("seed", range(5))
def test_the_nearest_group_of_the_family_is_found(seed: int) -> None:
    """Among few by all pairs, among many by a tree."""
    rng = np.random.default_rng(seed)
    sizes = rng.permutation([1, 2, FEW, FEW + 1, 5 * FEW])
    families = rng.permutation(np.repeat(np.arange(5), sizes))
    owners = rng.integers(5, size=300)
    live, shown = rng.normal(size=(300, 2)), rng.normal(size=(len(families), 2))
    found = _nearest(groups_at(live, owners), owners, groups_at(shown, families))
    away = np.linalg.norm(live[:, None] - shown, axis=2)
    away[owners[:, None] != families] = np.inf
    np.testing.assert_array_equal(found, away.argmin(axis=1))


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
