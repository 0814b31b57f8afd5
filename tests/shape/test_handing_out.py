"""Cells that were drawn for a leaf go to its rows in the order of their points."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tulle._shape._kernels import match


@given(st.integers(1, 200), st.integers(1, 9), st.integers(1, 7), st.integers(0, 99))
def test_the_smallest_cells_go_to_the_first_points_of_a_leaf(
    n: int, n_cells: int, n_leaves: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    drawn, leaves = rng.integers(n_cells, size=n), rng.integers(n_leaves, size=n)
    by_point = rng.permutation(n)
    wanted = np.empty_like(drawn)
    rows = by_point[np.argsort(leaves[by_point], kind="stable")]
    wanted[rows] = drawn[np.lexsort((drawn, leaves))]
    assert np.array_equal(match(drawn, n_cells, leaves, n_leaves, by_point), wanted)
