"""Levels far from each other: no worse than condensing each tier apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle.condense.groupings import group_records
from tulle.condense.groupings._fast import tiers_of
from tulle.condense.groupings._repair import squared_error


@pytest.mark.parametrize(
    "levels, tiers",
    [
        ([3, 3, 3, 7, 7, 7, 7, 7, 7, 7], [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]),
        ([3, 3, 3, 6, 6, 6, 6, 6, 6], [0] * 9),  # twice as much is not more than twice
        ([3, 3, 3, 7, 7], [0] * 5),  # too few to stand alone: they join those below
        ([5, 5, 20, *[20] * 19], [0] * 22),  # the lowest are too few
        ([1, *[3] * 7, 9, 9], [0, *[1] * 9]),  # the highest join the middle
        ([4, 4, 4, 4], [0, 0, 0, 0]),
    ],
)
def test_levels_are_cut_where_they_more_than_double(levels, tiers):
    assert tiers_of(np.array(levels)).tolist() == tiers


@pytest.mark.guarantee
@given(st.lists(st.integers(1, 60), min_size=1, max_size=80))
def test_every_tier_can_stand_alone_where_all_together_can(levels):
    levels = np.array(levels)
    tiers = tiers_of(levels)
    assert np.unique(tiers).tolist() == list(range(tiers.max() + 1))
    if tiers.any():
        for tier in np.unique(tiers):
            inside = levels[tiers == tier]
            assert len(inside) >= inside.max()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_few_demanding_records_cost_no_more_than_condensed_apart(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((200, 4))
    levels = np.where(rng.random(200) < 0.25, 20, 3)
    together = group_records(matrix, levels, np.random.default_rng(seed), method="fast")
    apart = np.empty(200, dtype=np.int64)
    for number, level in enumerate((3, 20)):
        rows = levels == level
        part = group_records(matrix[rows], levels[rows], np.random.default_rng(seed), method="fast")
        apart[rows] = 1000 * number + part
    apart = np.unique(apart, return_inverse=True)[1]
    assert squared_error(matrix, together) <= 1.02 * squared_error(matrix, apart)
