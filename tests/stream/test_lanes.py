"""The vector code of the index against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from tulle.stream import _lanes
from tulle.stream._lanes import LANES


@njit
def _point_distances(points: Any, leaf: int, record: Any, out: Any) -> None:
    _lanes.point_distances(points, leaf, record, out)


@njit
def _box_distances(low: Any, high: Any, node: int, record: Any, out: Any) -> None:
    _lanes.box_distances(low, high, node, record, out)


@njit
def _within(distances: Any, limit: Any, sizes: Any, row: int, need: int) -> int:
    return _lanes.within(distances, limit, sizes, row, need)


@njit
def _nearest(distances: Any, floor: Any, sizes: Any, row: int, need: int) -> int:
    return _lanes.nearest(distances, floor, sizes, row, need)


@njit
def _lowest(lanes: int) -> int:
    return _lanes.lowest(lanes)


@njit
def _highest(lanes: int) -> int:
    return _lanes.highest(lanes)


def _bits(flags: np.ndarray) -> int:
    return sum(1 << lane for lane in np.flatnonzero(flags).tolist())


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), dimensions=st.integers(1, 40))
def test_distances_are_those_of_numpy(seed: int, dimensions: int) -> None:
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(3, dimensions, LANES)).astype(np.float32)
    high = low + rng.random(size=low.shape).astype(np.float32)
    record = rng.normal(size=dimensions).astype(np.float32)
    out = np.zeros(LANES, dtype=np.float32)
    for row in range(3):
        _point_distances(low, row, record, out)
        offsets = low[row].astype(float) - record[:, None]
        np.testing.assert_allclose(out, (offsets**2).sum(axis=0), rtol=1e-5)
        _box_distances(low, high, row, record, out)
        gaps = np.maximum(low[row].astype(float) - record[:, None], record[:, None] - high[row])
        np.testing.assert_allclose(
            out, (np.maximum(gaps, 0.0) ** 2).sum(axis=0), rtol=1e-5, atol=1e-12
        )


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_sets_of_lanes_are_those_of_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    distances = rng.integers(0, 6, size=LANES).astype(np.float32)  # with ties
    sizes = rng.integers(-1, 4, size=(2, LANES)).astype(np.int32)
    limit = np.float32(rng.integers(-1, 7))
    need = int(rng.integers(0, 5))
    for row in range(2):
        enough = sizes[row] >= need
        found = _within(distances, limit, sizes, row, need)
        assert found == _bits((distances <= limit) & enough)
        raised = np.where(enough, np.maximum(distances, limit), np.inf)
        found = _nearest(distances, limit, sizes, row, need)
        assert found == _bits((raised == raised.min()) & enough)
        for many in (2**31, 2**32, 2**40):  # members: no group has them
            assert _within(distances, limit, sizes, row, need + many) == 0
            assert _nearest(distances, limit, sizes, row, need + many) == 0
        if found:
            assert _lowest(found) == (found & -found).bit_length() - 1
            assert _highest(found) == found.bit_length() - 1
