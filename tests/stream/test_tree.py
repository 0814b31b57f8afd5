"""The loops over lanes of the index against NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.kernels import callable_part
from tulle.stream import _tree
from tulle.stream._tree import LANES

measure = callable_part(_tree._measure)
bar = callable_part(_tree._bar)
least = callable_part(_tree._least)
oldest = callable_part(_tree._oldest)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), dimensions=st.integers(1, 40))
def test_distances_are_those_of_numpy(seed: int, dimensions: int) -> None:
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(3, dimensions, LANES)).astype(np.float32)
    high = low + rng.random(size=low.shape).astype(np.float32)
    record = rng.normal(size=dimensions).astype(np.float32)
    out = np.zeros(LANES, dtype=np.float32)
    for row in range(3):
        measure(low, low, row, record, out)
        offsets = low[row].astype(float) - record[:, None]
        np.testing.assert_allclose(out, (offsets**2).sum(axis=0), rtol=1e-5)
        measure(low, high, row, record, out)
        gaps = np.maximum(low[row].astype(float) - record[:, None], record[:, None] - high[row])
        np.testing.assert_allclose(
            out, (np.maximum(gaps, 0.0) ** 2).sum(axis=0), rtol=1e-5, atol=1e-12
        )


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_nearest_lane_is_the_oldest_of_equals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shown = rng.integers(0, 6, size=LANES).astype(np.float32)  # with ties
    sizes = rng.integers(-1, 4, size=(2, LANES)).astype(np.int32)
    ages = np.stack([rng.permutation(LANES) for _ in range(2)]).astype(np.int32)
    floor = np.float32(rng.integers(-1, 7))
    for row in range(2):
        for need in (0, 2, 4, 2**40):
            enough = np.flatnonzero(sizes[row] >= need)
            distances = shown.copy()
            bar(distances, sizes, row, need)
            nearest = least(distances)
            if not len(enough):
                assert nearest == np.inf
                continue
            assert nearest == shown[enough].min()
            limit = max(nearest, floor)
            ties = enough[shown[enough] <= limit]
            assert oldest(distances, limit, ages, row) == ties[ages[row, ties].argmin()]
