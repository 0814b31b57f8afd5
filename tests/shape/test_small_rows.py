"""Few rows take NumPy, many take kernels: both give the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tulle._shape._kernels import match
from tulle._shape.model import match_small


@given(st.integers(1, 200), st.integers(1, 9), st.integers(1, 7), st.integers(0, 99))
def test_cells_are_handed_out_alike(n: int, n_cells: int, n_leaves: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn, leaves = rng.integers(n_cells, size=n), rng.integers(n_leaves, size=n)
    by_point = rng.permutation(n)
    wanted = match(drawn, n_cells, leaves, n_leaves, by_point)
    assert np.array_equal(match_small(drawn, leaves, by_point), wanted)
