"""The index of a stream, what it must hold at every moment; and the axis of a split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tests.reference import stream_steps as steps
from tests.reference.kernels import callable_part
from tulle._moments import GroupMoments
from tulle.stream import _index as tree
from tulle.stream import _kernels
from tulle.stream._engines import NOBODY, Engine, Event
from tulle.stream._groups import StreamGroups, pack
from tulle.stream._kernels import LEAVES, ROOT, SEATS

longest_axis = callable_part(_kernels._longest_axis)


def _check(engine: Engine) -> None:
    """Every group is in one lane, and in every box on its way to the root."""
    index, groups = engine.tree, engine.groups.view()
    assert index.used[: index.marks[LEAVES]].sum() == len(engine.groups)
    for group in range(len(engine.groups)):
        leaf, lane = divmod(int(index.home[group]), SEATS)
        assert lane < index.used[leaf] < SEATS
        assert index.ids[leaf, lane] == group
        assert index.sizes[leaf, lane] == groups.counts[group]
        point = index.points[leaf, :, lane]
        known = point[: len(index.origin)]
        np.testing.assert_array_equal(known, np.float32(groups.means[group] - index.origin))
        child, (node, slot) = ~leaf, index.leaf_parent[leaf]
        while node >= 0:
            assert slot < index.fill[node]
            assert index.children[node, slot] == child
            assert np.all(index.low[node, :, slot] <= point)
            assert np.all(index.high[node, :, slot] >= point)
            assert index.largest[node, slot] >= index.sizes[leaf, lane]
            assert index.oldest[node, slot] <= group
            child, (node, slot) = node, index.node_parent[node]
        assert child == index.marks[ROOT]
    empty = np.arange(SEATS) >= index.used[: index.marks[LEAVES], None]
    assert np.all(index.sizes[: index.marks[LEAVES]][empty] == -1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mixed", "drifting", "repeated"])
def test_every_group_is_in_the_boxes_above_it(kind: str) -> None:
    rng = np.random.default_rng(1)
    records = rng.normal(size=(30_000, 3)) * [1.0, 5.0, 0.1]
    if kind == "drifting":
        records += np.linspace(0, 40, len(records))[:, None]
    if kind == "repeated":
        records = records[rng.integers(50, size=len(records))]
    levels = rng.integers(2, 7, size=len(records))
    groups = StreamGroups(3)
    groups.append(GroupMoments.of(records[:40], np.arange(40) // 10, levels[:40]))
    engine = Engine(groups, strict=False)
    for start in range(40, len(records), 7_490):
        part = slice(start, start + 7_490)
        assert engine.absorb(records[part], levels[part], 0, NOBODY)[1] is Event.DONE
        _check(engine)
    assert len(groups) > 32 * SEATS  # nodes were split too


@pytest.mark.slow
@few(40)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 300),
    leaves=st.integers(1, 40),
    decimals=st.integers(0, 6),
)
def test_packing_cuts_across_the_widest_axis(
    seed: int, count: int, leaves: int, decimals: int
) -> None:
    rng = np.random.default_rng(seed)
    leaves = min(leaves, count)
    scales = np.exp([0.0, 0.3, 0.5])  # no two axes are equally wide by chance
    points = (rng.normal(size=(count, 3)).round(decimals) * scales).astype(np.float32)
    order, edges = tree._halved(points, leaves)
    expected = _halves(points, np.arange(count), leaves)
    assert edges.tolist() == [0, *np.cumsum([len(leaf) for leaf in expected])]
    np.testing.assert_array_equal(order, np.concatenate(expected))


def _halves(points: np.ndarray, rows: np.ndarray, leaves: int) -> list[np.ndarray]:
    """Of each leaf the rows; sorted by value, then by age, and cut in proportion."""
    if leaves == 1:
        return [rows]
    lower = (leaves + 1) // 2
    along = points[rows, points[rows].astype(np.float64).var(axis=0).argmax()]
    first = np.zeros(len(rows), dtype=bool)
    first[np.lexsort((rows, along))[: len(rows) * lower // leaves]] = True
    return _halves(points, rows[first], lower) + _halves(points, rows[~first], leaves - lower)


@pytest.mark.slow
def test_boxes_hold_nothing_but_where_their_groups_have_been() -> None:
    rng = np.random.default_rng(2)
    side = np.where(rng.random(30_000) < 0.5, -50.0, 50.0)
    records = rng.normal(size=(30_000, 3)) + side[:, None]
    levels = rng.integers(2, 7, size=len(records))
    groups = StreamGroups(3)
    labels = (side[:40] > 0).astype(np.int64)
    groups.append(GroupMoments.of(records[:40], labels, levels[:40]))
    engine = Engine(groups, strict=False)
    for start in range(40, len(records), 1_000):
        part = slice(start, start + 1_000)
        assert engine.absorb(records[part], levels[part], 0, NOBODY)[1] is Event.DONE
        index = engine.tree
        for leaf in range(index.marks[LEAVES]):
            points = index.points[leaf, :3, : index.used[leaf]]
            node, slot = index.leaf_parent[leaf]
            for one_side in (-1.0, 1.0):
                if np.all(points * one_side > 0.0):
                    assert np.all(index.low[node, :3, slot] * one_side > 0.0)
                    assert np.all(index.high[node, :3, slot] * one_side > 0.0)


@pytest.mark.slow
@given(seed=st.integers(0, 2**32 - 1), dimensions=st.integers(1, 12), rank=st.integers(0, 12))
def test_the_longest_axis_is_the_first_eigenvector(seed: int, dimensions: int, rank: int) -> None:
    rng = np.random.default_rng(seed)
    spread = rng.normal(size=(rank, dimensions)) * 10.0 ** rng.integers(-6, 7)
    covariance = spread.T @ spread
    variance, axis = steps.longest_axis(pack(covariance), dimensions)
    assert np.linalg.norm(axis) == pytest.approx(1.0)
    assert axis[np.argmax(np.abs(axis))] > 0.0
    assert variance == pytest.approx(np.linalg.eigvalsh(covariance)[-1], rel=1e-9)
    np.testing.assert_allclose(
        covariance @ axis, variance * axis, atol=1e-5 * max(variance, 1e-300)
    )
    work = tree.scratch(dimensions)
    work.matrices[0] = covariance
    assert longest_axis(work) == variance
    np.testing.assert_array_equal(work.axis, axis)


def test_a_group_without_extent_has_an_axis_too() -> None:
    variance, axis = steps.longest_axis(np.zeros(6), 3)
    assert variance == 0.0
    np.testing.assert_array_equal(axis, [1.0, 0.0, 0.0])


def test_equal_eigenvalues_give_one_of_their_vectors() -> None:
    variance, axis = steps.longest_axis(pack(np.eye(4)), 4)
    assert variance == pytest.approx(1.0)
    assert np.linalg.norm(axis) == pytest.approx(1.0)
