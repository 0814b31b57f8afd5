"""Trees: every leaf holds enough people, and the best split is the best one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tulle._shape._kernels import grow
from tulle._shape.cells import fit_cells
from tulle._shape.columns import CategoryColumn, NumberColumn
from tulle._shape.trees import fit_tree


def made(seed: int, n: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.integers(0, 6, (n, 3)).astype(np.uint8)
    target = (features[:, 0] // 2 + (rng.random(n) < 0.3) * rng.integers(0, 3, n)) % 3
    return features, target.astype(np.int64), rng.choice([1.0, 0.5, 0.25], n)


def best_first_split(
    features: np.ndarray, states: np.ndarray, people: np.ndarray, least: float
) -> float:
    """Return the Gini gain of the best threshold, by trying all of them."""
    best = 0.0
    n = len(states)

    def purity(rows: np.ndarray) -> float:
        return float((np.bincount(states[rows], minlength=3) ** 2).sum() / rows.sum())

    for column in features.T:
        for cut in range(5):
            left = column <= cut
            if min(people[left].sum(), people[~left].sum()) >= least - 1e-9:
                best = max(best, purity(left) + purity(~left) - purity(np.ones(n, bool)))
    return best


@given(st.integers(0, 2**16), st.sampled_from([5, 20, 60]))
@few(25)
def test_the_first_split_is_the_best_and_leaves_hold_people(seed: int, least: int) -> None:
    features, states, people = made(seed)
    (split, _), goes_left, leaf = grow(
        features, np.full(3, 6), np.ones(3, bool), states, 3, np.zeros(400), people, float(least)
    )
    held = np.bincount(leaf, weights=people)
    assert held[held > 0].min() >= least - 1e-9
    wanted = best_first_split(features, states, people, least)
    if split[0] >= 0:
        rows = goes_left[0][features[:, split[0]]]
        found = sum(
            (np.bincount(states[part], minlength=3) ** 2).sum() / part.sum()
            for part in (rows, ~rows)
        ) - (np.bincount(states) ** 2).sum() / len(states)
        assert np.isclose(found, wanted)
    else:
        assert wanted < 1e-3


@given(st.integers(0, 2**16))
@few(15)
def test_leaves_hold_different_people_not_rows(seed: int) -> None:
    features, target, _ = made(seed)
    person = np.random.default_rng(seed).integers(0, 80, 400)
    people = 1 / np.bincount(person)[person]
    column = CategoryColumn("a", target, 3)
    cells, codes = fit_cells(column, 5, people, np.random.default_rng(0), exact=True)
    tree = fit_tree(features, np.full(3, 6), np.ones(3, bool), cells, codes, people, 10)
    leaves = tree.leaves(features)
    for leaf in np.unique(leaves):
        assert len(np.unique(person[leaves == leaf])) >= 10


def test_unordered_columns_are_split_by_what_they_say() -> None:
    rng = np.random.default_rng(0)
    features = rng.integers(0, 8, (800, 1)).astype(np.uint8)
    target = np.isin(features[:, 0], [1, 4, 6]).astype(np.int64)
    cells, codes = fit_cells(CategoryColumn("a", target, 2), 5, np.ones(800), rng, exact=True)
    tree = fit_tree(features, np.array([8]), np.zeros(1, bool), cells, codes, np.ones(800), 20)
    assert (tree.split < 0).sum() == 2
    assert (tree.draw(tree.leaves(features), rng) == target).all()


def test_draws_follow_the_proportions_of_the_leaf() -> None:
    rng = np.random.default_rng(0)
    features = rng.integers(0, 4, (1000, 1)).astype(np.uint8)
    values = np.round(features[:, 0] * 100 + rng.normal(0, 20, 1000))
    column = NumberColumn("x", values, 0)
    cells, codes = fit_cells(column, 10, np.ones(1000), rng, exact=True)
    tree = fit_tree(features, np.array([4]), np.ones(1, bool), cells, codes, np.ones(1000), 20)
    leaves = tree.leaves(features)
    drawn = tree.draw(leaves, rng)
    for leaf in np.unique(leaves):
        before = np.bincount(codes[leaves == leaf], minlength=cells.size)
        after = np.bincount(drawn[leaves == leaf], minlength=cells.size)
        assert (before == after).all()


def test_one_column_is_one_leaf() -> None:
    rng = np.random.default_rng(0)
    cells, codes = fit_cells(
        CategoryColumn("a", rng.integers(0, 3, 100), 3), 5, np.ones(100), rng, exact=True
    )
    none = np.zeros((100, 0), np.uint8)
    nothing = np.zeros(0, np.int64)
    tree = fit_tree(none, nothing, nothing.astype(bool), cells, codes, np.ones(100), 5)
    assert len(tree.split) == 1
    assert set(tree.draw(np.zeros(1000, np.int64), rng)) == {0, 1, 2}


@pytest.mark.slow
def test_totals_drawn_once_do_not_average_to_the_true_ones() -> None:
    rng = np.random.default_rng(0)
    column = CategoryColumn("a", np.repeat([0, 1, 2], [300, 150, 50]), 3)
    cells, codes = fit_cells(column, 5, np.ones(500), rng, exact=True)
    none, nothing = np.zeros((500, 0), np.uint8), np.zeros(0, np.int64)

    def totals(seed: int) -> np.ndarray:
        own = np.random.default_rng(seed)
        tree = fit_tree(none, nothing, nothing.astype(bool), cells, codes, np.ones(500), 5, own)
        drawn = tree.draw(np.zeros(500_000, np.int64), own)
        return np.bincount(drawn, minlength=3) / 1000

    found = np.array([totals(seed) for seed in range(40)])
    np.testing.assert_allclose(found.mean(axis=0), [300, 150, 50], atol=8)
    spread = np.sqrt(500 * np.array([0.6 * 0.4, 0.3 * 0.7, 0.1 * 0.9]))
    np.testing.assert_allclose(found.std(axis=0), spread, rtol=0.4)
