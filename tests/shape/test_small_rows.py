"""Few rows take NumPy, many take kernels: both give the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle._shape import trees
from tulle._shape._kernels import match
from tulle._shape.model import match_small
from tulle._shape.trees import Tree


@given(st.integers(1, 200), st.integers(1, 9), st.integers(1, 7), st.integers(0, 99))
def test_cells_are_handed_out_alike(n: int, n_cells: int, n_leaves: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn, leaves = rng.integers(n_cells, size=n), rng.integers(n_leaves, size=n)
    by_point = rng.permutation(n)
    wanted = match(drawn, n_cells, leaves, n_leaves, by_point)
    assert np.array_equal(match_small(drawn, leaves, by_point), wanted)


@pytest.mark.parametrize("seed", range(5))
def test_cells_are_drawn_alike(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    starts = np.array([0, 0, 3, 5])  # the root holds nothing itself
    counts = rng.integers(1, 6, 5)
    tree = Tree(
        np.array([0, -1, -1]), np.zeros((3, 32), np.uint8), np.array([1, 0, 0]),
        starts, rng.integers(4, size=5), np.r_[0, np.cumsum(counts)], 5,
    )  # fmt: skip
    leaves = rng.integers(1, 3, 300)
    few = tree.draw(leaves, np.random.default_rng(1))
    monkeypatch.setattr(trees, "FEW", 0)
    assert np.array_equal(tree.draw(leaves, np.random.default_rng(1)), few)
