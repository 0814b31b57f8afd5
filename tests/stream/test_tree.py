"""The loops over lanes of the index against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tests.reference.kernels import callable_part
from tulle._moments import GroupMoments
from tulle.stream import _kernels
from tulle.stream._groups import StreamGroups
from tulle.stream._index import build, scratch
from tulle.stream._kernels import LANES, MANY, SEATS

measure_means = callable_part(_kernels._measure_means)
measure_boxes = callable_part(_kernels._measure_boxes)
least = callable_part(_kernels._least)
oldest = callable_part(_kernels._oldest)


@pytest.mark.slow
@few(40)
@given(seed=st.integers(0, 2**32 - 1), dimensions=st.integers(1, 40))
def test_distances_are_those_of_numpy(seed: int, dimensions: int) -> None:
    rng = np.random.default_rng(seed)
    groups = StreamGroups(dimensions)
    means = rng.normal(size=(40, dimensions))
    groups.append(GroupMoments.of(means, np.arange(40), np.ones(40, dtype=np.int64)))
    tree = build(groups)
    exact = rng.normal(size=dimensions)
    record = scratch(dimensions).y
    record[:dimensions] = exact - tree.origin
    seats, lanes = np.zeros(SEATS, dtype=np.float32), np.zeros(LANES, dtype=np.float32)
    measure_means(tree.points, 0, record, seats)
    used = tree.used[0]
    offsets = means[tree.ids[0, :used]] - exact
    np.testing.assert_allclose(seats[:used], (offsets**2).sum(axis=1), rtol=1e-4)
    root, fill = tree.marks[0], tree.fill[tree.marks[0]]
    measure_boxes(tree, root, record, lanes)
    low, high = tree.low[root].astype(float), tree.high[root].astype(float)
    gaps = np.maximum(np.maximum(low - record[:, None], record[:, None] - high), 0.0)
    np.testing.assert_allclose(lanes[:fill], (gaps**2).sum(axis=0)[:fill], rtol=1e-4, atol=1e-12)


@pytest.mark.slow
@given(seed=st.integers(0, 2**32 - 1))
def test_the_nearest_lane_is_the_oldest_of_equals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shown = rng.integers(0, 6, size=LANES).astype(np.float32)  # with ties
    sizes = rng.integers(-1, 4, size=(2, LANES)).astype(np.int32)
    ages = np.stack([rng.permutation(LANES) for _ in range(2)]).astype(np.int32)
    floor = np.float32(rng.integers(-1, 7))
    for row in range(2):
        for need in np.array([0, 2, 4, MANY], dtype=np.int32):
            enough = np.flatnonzero(sizes[row] >= need)
            distances = shown.copy()
            nearest = least(distances, sizes, row, need)
            if not len(enough):
                assert nearest == np.inf
                continue
            assert nearest == shown[enough].min()
            limit = max(nearest, floor)
            ties = enough[shown[enough] <= limit]
            assert oldest(distances, limit, ages, row) == ties[ages[row, ties].argmin()]
