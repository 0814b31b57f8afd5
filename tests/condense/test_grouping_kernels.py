"""The kernels of the groupings against slow and obvious ways of doing the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tests.reference.kernels import callable_part
from tests.reference.mdav import mdav_written_down
from tulle.condense.groupings import _exchange_kernels, _fast, group_records
from tulle.condense.groupings._exchange_kernels import GridCells
from tulle.condense.groupings._fast import (
    GroupingSearch,
    lay_out,
    nearest,
    read_out,
    refined,
    start,
)
from tulle.condense.groupings._repair import squared_error

measure = callable_part(_exchange_kernels.measure)
swap = callable_part(_exchange_kernels.swap)
best_swap = callable_part(_exchange_kernels.best_swap)
best_move = callable_part(_exchange_kernels.best_move)
trade_pair = callable_part(_exchange_kernels.trade)
exchange = callable_part(_exchange_kernels.exchange)
split = callable_part(_exchange_kernels.split)
dissolve = callable_part(_exchange_kernels.dissolve)
seeds = st.integers(0, 10**6)


def drawn(seed: int, n: int, d: int, top: int) -> tuple[np.ndarray, np.ndarray]:
    """Records, some alike, and levels of which some ask for much."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(n, d)) * rng.choice([1.0, 30.0], size=(n, 1), p=[0.95, 0.05])
    matrix[rng.random(n) < 0.2] = matrix[0]
    return matrix, rng.integers(1, top + 1, size=n)


def is_valid(groups: np.ndarray, levels: np.ndarray) -> bool:
    sizes = np.bincount(groups)
    return bool((sizes > 0).all() and (sizes[groups] >= levels).all())


@few(20)
@given(seeds, st.integers(2, 60), st.integers(2, 6))
def test_mdav_is_mdav_as_written_down(seed: int, n: int, k: int) -> None:
    matrix = np.random.default_rng(seed).normal(size=(n, 3))
    k = min(k, n)
    levels = np.full(n, k)
    expected = mdav_written_down(matrix, k)
    groups = group_records(matrix, levels, np.random.default_rng(0), method="mdav")
    assert ((groups[:, None] == groups) == (expected[:, None] == expected)).all()


@pytest.mark.guarantee
@few(20)
@given(seeds, st.integers(40, 300), st.integers(1, 5), st.integers(2, 9))
def test_large_groupings_are_valid_and_exchanges_never_add_error(
    seed: int, n: int, d: int, top: int
) -> None:
    matrix, levels = drawn(seed, n, d, top)
    rng = np.random.default_rng(seed)
    first = start(matrix, levels, rng)
    assert is_valid(first, levels)
    better = refined(matrix, levels, first, rng)
    assert is_valid(better, levels)
    assert squared_error(matrix, better) <= squared_error(matrix, first) * (1 + 1e-9)


def two_groups(seed: int, sizes: tuple[int, int], top: int) -> tuple[np.ndarray, GridCells]:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(sum(sizes), 3))
    levels = rng.integers(1, top + 1, size=len(matrix))
    groups = np.repeat([0, 1], sizes)
    return matrix, lay_out(matrix, levels, groups)


def error_of(matrix: np.ndarray, cells: GridCells) -> float:
    return squared_error(matrix, read_out(cells, len(matrix)))


def brute_gains(matrix: np.ndarray, cells: GridCells) -> tuple[float, float]:
    """The best gain of a swap and of a move from group 0 to group 1, by trying them all."""
    groups, before = read_out(cells, len(matrix)), error_of(matrix, cells)
    levels = np.empty(len(matrix), dtype=np.int64)
    for g in range(2):
        places = slice(cells.start[g], cells.start[g] + cells.size[g])
        levels[cells.rows[places]] = cells.levels[places]
    swap = move = 0.0
    for x in np.flatnonzero(groups == 0):
        moved = groups.copy()
        moved[x] = 1
        if (moved == 0).any() and is_valid(moved, levels):
            move = max(move, before - squared_error(matrix, moved))
        for y in np.flatnonzero(groups == 1):
            swapped = moved.copy()
            swapped[y] = 0
            if levels[x] <= cells.size[1] and levels[y] <= cells.size[0]:
                swap = max(swap, before - squared_error(matrix, swapped))
    return swap, move


@pytest.mark.slow
@few(25)
@given(seeds, st.tuples(st.integers(2, 8), st.integers(2, 8)), st.integers(1, 2))
def test_best_swap_and_move_are_the_best_of_all(
    seed: int, sizes: tuple[int, int], top: int
) -> None:
    matrix, cells = two_groups(seed, sizes, top)
    best_of_swaps, best_of_moves = brute_gains(matrix, cells)
    measure(cells, 0, 1, cells.scratch[0])
    measure(cells, 1, 0, cells.scratch[1])
    found, _, _ = best_swap(cells, 0, 1, 0.0)
    assert found == pytest.approx(best_of_swaps, abs=1e-9)
    found, _ = best_move(cells, 0, 1, cells.scratch[0], 0.0)
    assert found == pytest.approx(best_of_moves, abs=1e-9)


@pytest.mark.slow
@few(25)
@given(seeds, st.sampled_from([(5, 7), (40, 60), (300, 280)]), st.integers(1, 5))
def test_an_exchange_gains_what_it_says(seed: int, sizes: tuple[int, int], top: int) -> None:
    matrix, cells = two_groups(seed, sizes, top)
    before = error_of(matrix, cells)
    gain = exchange(cells, 0, 1, 1e-12)
    assert before - error_of(matrix, cells) == pytest.approx(gain, abs=1e-8 * before)
    assert gain > 0
    for g in range(2):
        rows = cells.rows[cells.start[g] : cells.start[g] + cells.size[g]]
        centre = matrix[rows].mean(axis=0)
        assert cells.centres[g] == pytest.approx(centre)
        own = cells.own[cells.start[g] : cells.start[g] + cells.size[g]]
        assert own == pytest.approx(((matrix[rows] - centre) ** 2).sum(axis=1))
        assert cells.need[g] <= cells.size[g]


@pytest.mark.slow
def test_many_traded_at_once_are_about_as_good_as_one_by_one() -> None:
    rng = np.random.default_rng(0)
    matrix = np.concatenate([rng.normal(size=(100, 3)), rng.normal(size=(100, 3)) + 2])
    groups = rng.permutation(np.repeat([0, 1], 100))
    levels = np.full(200, 100)
    traded, one_by_one = (lay_out(matrix, levels, groups) for _ in range(2))
    trade_pair(traded, 0, 1, 1e-12)
    while True:
        measure(one_by_one, 0, 1, one_by_one.scratch[0])
        measure(one_by_one, 1, 0, one_by_one.scratch[1])
        _, x, y = best_swap(one_by_one, 0, 1, 1e-12)
        if x < 0:
            break
        swap(one_by_one, 0, x, 1, y)
    assert error_of(matrix, traded) <= 1.02 * error_of(matrix, one_by_one)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k"), [(1000, 100), (1200, 300)])
def test_large_groups_of_small_inputs_are_as_tight_as_those_of_large_ones(n: int, k: int) -> None:
    matrix, levels = np.random.default_rng(0).normal(size=(n, 5)), np.full(n, k)
    small = group_records(matrix, levels, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    large = refined(matrix, levels, start(matrix, levels, rng), rng)
    assert is_valid(small, levels)
    assert squared_error(matrix, small) < 1.01 * squared_error(matrix, large)


@pytest.mark.slow
def test_splitting_and_dissolving_gain_what_they_say() -> None:
    rng = np.random.default_rng(1)
    matrix = np.concatenate([rng.normal(size=(6, 2)), rng.normal(size=(6, 2)) + 50])
    cells = lay_out(matrix, np.full(12, 3), np.zeros(12, dtype=np.int64))
    before = error_of(matrix, cells)
    gain = split(cells, 0, 1)
    assert before - error_of(matrix, cells) == pytest.approx(gain)
    assert sorted(cells.size[:2]) in ([3, 9], [6, 6])

    bridge = np.concatenate([matrix, [[0.0, 0.0], [50.0, 50.0]]])
    cells = lay_out(bridge, np.full(14, 2), np.repeat([0, 1, 2], [6, 6, 2]))
    before = error_of(bridge, cells)
    near = np.array([0, 1])
    gain = dissolve(cells, 2, near, np.empty(2, int), np.empty((2, 2)), 1e-12)
    assert cells.size[:3].tolist() == [7, 7, 0]
    assert before - error_of(bridge, cells) == pytest.approx(gain)


def test_worst_groups_reach_the_groups_nearest_to_their_members() -> None:
    centres = np.array([[0.0, 0.0], [100.0, 0.0], [50.0, 1.0], [200.0, 0.0]])
    groups = np.repeat(np.arange(4), 4)
    matrix = centres[groups] + np.random.default_rng(0).normal(size=(16, 2)) * 0.01
    matrix[8:12, 0] = [0.0, 0.1, 100.0, 100.1]  # the third group bridges the first and the second
    cells = lay_out(matrix, np.full(16, 4), groups)
    near = np.full((len(cells.size), 3), -1)
    _exchange_kernels.reach_out(cells, np.array([2]), near)
    assert near[2].tolist() == [0, 1, -1]


def test_the_nearest_groups_are_the_nearest() -> None:
    centres = np.random.default_rng(0).normal(size=(200, 3))
    near, far = nearest(centres, np.arange(200), 5, np.random.default_rng(0))
    apart = ((centres[:, None] - centres) ** 2).sum(axis=-1)
    np.fill_diagonal(apart, np.inf)
    assert (near == np.argsort(apart, axis=1)[:, :5]).all()
    assert far == pytest.approx(np.sort(apart, axis=1)[:, :5])


def test_random_trees_find_most_of_the_nearest_groups() -> None:
    centres = np.random.default_rng(0).normal(size=(2000, 3))
    near, _ = nearest(centres, np.arange(2000), 5, np.random.default_rng(0))
    apart = ((centres[:200, None] - centres) ** 2).sum(axis=-1)
    apart[np.arange(200), np.arange(200)] = np.inf
    true = np.argsort(apart, axis=1)[:, :5]
    found = sum(len(set(a) & set(b)) for a, b in zip(near[:200].tolist(), true.tolist()))
    assert found >= 0.9 * true.size


@pytest.mark.guarantee
@pytest.mark.slow
@few(15)
@given(seeds, st.integers(30, 200), st.integers(2, 9))
def test_the_search_for_the_best_groups_stays_valid(seed: int, n: int, top: int) -> None:
    matrix, levels = drawn(seed, n, 2, top)
    rng = np.random.default_rng(seed)
    search = GroupingSearch(matrix, levels, start(matrix, levels, rng), rng)
    search.run(300, 1.0, 0.01)
    groups = np.unique(search.groups(), return_inverse=True)[1]
    assert is_valid(groups, levels)


@pytest.mark.slow
@pytest.mark.parametrize("top", [8, 60])
def test_beyond_small_inputs_groups_are_valid_and_better_than_mdav(top: int) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(4000, 4)) + 5 * rng.integers(4, size=(4000, 1))
    same = np.full(4000, top)
    errors = [
        squared_error(matrix, group_records(matrix, same, rng, method=method))
        for method in ("fast", "mdav")
    ]
    assert errors[0] < 0.95 * errors[1]
    mixed = np.where(rng.random(4000) < 0.1, top, 3)
    first, again = (group_records(matrix, mixed, np.random.default_rng(5)) for _ in range(2))
    assert is_valid(first, mixed)
    assert (first == again).all()


@pytest.mark.slow
@pytest.mark.parametrize("n", [400, 3200])
@pytest.mark.parametrize("k", [3, 8])
def test_natural_clusters_of_up_to_twice_the_size_are_found(n: int, k: int) -> None:
    rng = np.random.default_rng(k)
    sizes = rng.integers(k, 2 * k, size=n // k)
    clusters = np.repeat(np.arange(len(sizes)), sizes)[:n]
    clusters[clusters == clusters[-1]] = 0  # the last one was cut short
    matrix = 10 * rng.normal(size=(len(sizes), 6))[clusters] + rng.normal(size=(n, 6))
    groups = group_records(matrix, np.full(n, k), rng)
    assert squared_error(matrix, groups) <= 1.3 * squared_error(matrix, clusters)


def test_space_is_cut_into_cells_that_hold_their_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fast, "LARGE", 500)
    monkeypatch.setattr(_fast, "CELL", 100)
    matrix, levels = drawn(1, 1_500, 4, 9)
    whole = squared_error(
        matrix, group_records(matrix, levels, np.random.default_rng(2), method="mdav")
    )
    found = []
    for threads in (1, 2):
        monkeypatch.setattr(_fast, "cores", lambda count=threads: count)
        found.append(group_records(matrix, levels, np.random.default_rng(2)))
    assert is_valid(found[0], levels)
    assert (found[0] == found[1]).all()
    assert squared_error(matrix, found[0]) < 1.1 * whole
