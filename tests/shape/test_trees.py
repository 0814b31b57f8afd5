"""Trees: every leaf holds enough people, and the best split is the best one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tulle._columns import CategoryColumn, NumberColumn
from tulle._people import Owners
from tulle._shape._kernels import grow
from tulle._shape.cells import fit_cells
from tulle._shape.trees import Forest, capped, fit_forest


def made(seed: int, n: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.integers(0, 6, (n, 3)).astype(np.uint8)
    target = (features[:, 0] // 2 + (rng.random(n) < 0.3) * rng.integers(0, 3, n)) % 3
    person = np.sort(rng.integers(0, rng.choice([n // 8, n // 2, 4 * n]), n))
    return features, target.astype(np.int64), np.where(person % 7 == 0, -1, person)


def people_in(person: np.ndarray) -> int:
    """Return how many different people there are; -1 is nobody."""
    return len({*person.tolist()} - {-1})


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
            if min(people_in(people[left]), people_in(people[~left])) >= least:
                best = max(best, purity(left) + purity(~left) - purity(np.ones(n, bool)))
    return best


@given(st.integers(0, 2**16), st.sampled_from([5.0, 20.0, 60.0]))
@few(25)
def test_the_first_split_is_the_best_and_leaves_hold_people(seed: int, least: float) -> None:
    features, states, people = made(seed)
    (split, _), goes_left, leaf = grow(
        features,
        np.full(3, 6),
        np.ones(3, bool),
        states,
        3,
        np.zeros(400),
        people,
        float(least),
        1e-6,
        several=True,
    )
    if split[0] >= 0:
        assert min(people_in(people[leaf == one]) for one in np.unique(leaf)) >= least
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


@given(st.integers(0, 2**16), st.floats(0.5, 8))
@few(25)
def test_a_split_explains_as_many_times_what_noise_does_as_is_asked(
    seed: int, evidence: float
) -> None:
    features, states, people = made(seed)
    noise = 400 - (np.bincount(states) ** 2).sum() / 400
    (split, _), _, _ = grow(
        features, np.full(3, 6), np.ones(3, bool), states, 3, np.zeros(400), people, 20.0, evidence,
        several=True,
    )  # fmt: skip
    wanted = best_first_split(features, states, people, 20)
    assert (split[0] >= 0) == (wanted > evidence * noise / 400)


@pytest.mark.parametrize(("rows", "nodes"), [(900, 25), (12_000, 2)])
def test_noise_is_split_the_less_the_more_leaves_there_could_be(rows: int, nodes: int) -> None:
    """Grown to the end, a tree of 900 rows had about 60 nodes, and one of 12,000 about 900."""
    rng = np.random.default_rng(0)
    features, target = rng.integers(0, 6, (rows, 4)).astype(np.uint8), rng.integers(0, 3, rows)
    forest = grown(features, CategoryColumn("a", target, 3), 10, rng=rng)
    assert np.mean([len(tree.split) for tree in forest.trees]) < nodes


def grown(
    features: np.ndarray,
    column: CategoryColumn | NumberColumn,
    least: int,
    *,
    people: np.ndarray | None = None,
    rng: np.random.Generator,
    ordered: bool = True,
    exact: bool = False,
) -> Forest:
    owners = Owners.of(people, len(features))
    cells, codes = fit_cells(column, 5, owners, rng, exact=True)
    sizes = np.full(features.shape[1], 8)
    flags = np.full(features.shape[1], ordered)
    return fit_forest(features, sizes, flags, cells, codes, owners, least, rng, k=5, exact=exact)


@given(st.integers(0, 2**16))
@few(15)
def test_leaves_hold_different_people_not_rows(seed: int) -> None:
    features, target, _ = made(seed)
    rng = np.random.default_rng(seed)
    person = rng.integers(0, 80, 400)
    forest = grown(features, CategoryColumn("a", target, 3), 10, people=person, rng=rng)
    fewest = []
    for tree in forest.trees:
        leaves = tree.leaves(features)
        fewest += [len(np.unique(person[leaves == leaf])) for leaf in np.unique(leaves)]
        # nothing is kept of splits that were undone: every leaf has people, and two hang together
        assert ((np.diff(tree.starts) > 0) == (tree.split < 0)).all()
        assert len(tree.split) == 2 * int((tree.split < 0).sum()) - 1
    assert min(fewest) == forest.fewest >= 10


@given(st.integers(0, 2**16), st.integers(2, 6))
@few(25)
def test_nobody_is_more_than_one_part_in_k_of_a_leaf(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    person = np.where(rng.random(300) < 0.6, 0, rng.integers(0, 40, 300))  # one has most rows
    leaf = rng.integers(0, 3, 300)
    shares = capped(leaf, 3, person, k)
    for one in range(3):
        own = np.bincount(person[leaf == one], weights=shares[leaf == one])
        assert own.max() <= own.sum() / k + 1e-6


def test_unordered_columns_are_split_by_what_they_say() -> None:
    rng = np.random.default_rng(0)
    features = rng.integers(0, 8, (800, 1)).astype(np.uint8)
    target = np.isin(features[:, 0], [1, 4, 6]).astype(np.int64)
    forest = grown(features, CategoryColumn("a", target, 2), 20, rng=rng, ordered=False)
    assert all((tree.split < 0).sum() == 2 for tree in forest.trees)
    assert (forest.draw(features, rng)[0] == target).all()


def test_draws_follow_the_proportions_of_the_leaf() -> None:
    rng = np.random.default_rng(0)
    features = rng.integers(0, 4, (1000, 1)).astype(np.uint8)
    values = np.round(features[:, 0] * 100 + rng.normal(0, 20, 1000))
    owners = Owners.of(None, 1000)
    cells, codes = fit_cells(NumberColumn("x", values, 0), 10, owners, rng, exact=True)
    forest = fit_forest(
        features, np.array([4]), np.ones(1, bool), cells, codes, owners, 20, rng, k=10, exact=True
    )
    for tree in forest.trees:
        leaves = tree.leaves(features)
        drawn = tree.draw(leaves, rng)
        for leaf in np.unique(leaves):
            before = np.bincount(codes[leaves == leaf], minlength=cells.size)
            after = np.bincount(drawn[leaves == leaf], minlength=cells.size)
            assert (before == after).all()


def test_one_column_is_one_leaf() -> None:
    rng = np.random.default_rng(0)
    none = np.zeros((100, 0), np.uint8)
    forest = grown(none, CategoryColumn("a", rng.integers(0, 3, 100), 3), 5, rng=rng)
    assert all(len(tree.split) == 1 for tree in forest.trees)
    assert set(forest.draw(np.zeros((1000, 0), np.uint8), rng)[0]) == {0, 1, 2}


@pytest.mark.slow
def test_totals_drawn_once_do_not_average_to_the_true_ones() -> None:
    column = CategoryColumn("a", np.repeat([0, 1, 2], [300, 150, 50]), 3)
    none = np.zeros((500, 0), np.uint8)

    def totals(seed: int) -> np.ndarray:
        own = np.random.default_rng(seed)
        drawn, _ = grown(none, column, 5, rng=own).draw(np.zeros((100_000, 0), np.uint8), own)
        return np.bincount(drawn, minlength=3) / 200

    found = np.array([totals(seed) for seed in range(40)])
    np.testing.assert_allclose(found.mean(axis=0), [300, 150, 50], atol=4)
    # ten lots average out: a tenth of the variance of one; in addition 3 k people of each category
    # count never or twice
    shares, unsure = np.array([0.6, 0.3, 0.1]), np.minimum([300, 150, 50], 3 * 5)
    lots = 500 * shares * (1 - shares) / 10
    twice = (1 - shares) ** 2 * unsure + shares**2 * (unsure.sum() - unsure)
    np.testing.assert_allclose(found.std(axis=0), np.sqrt(lots + twice), rtol=0.4)


def test_a_rare_total_varies_as_in_one_draw_and_hides_one_person() -> None:
    """The attacker who knows everybody else sums up such totals, over all columns."""
    column = CategoryColumn("a", np.repeat([0, 1], [488, 12]), 2)
    none = np.zeros((500, 0), np.uint8)

    def rare(seed: int) -> float:
        forest = grown(none, column, 5, rng=np.random.default_rng(seed))
        return float(np.mean([tree.tallied(2)[0, 1] for tree in forest.trees]))

    found = np.array([rare(seed) for seed in range(200)])
    assert abs(found.mean() - 12) < 1
    assert found.std() > 0.8 * np.sqrt(12)  # ten averaged lots alone: 0.3
