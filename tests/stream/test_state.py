"""The state machine of streams, against the paper read plainly and against itself."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tests.reference import stream as reference
from tests.reference.stream_steps import PlainEngine, split, splits
from tulle._moments import GroupMoments
from tulle.errors import DataError, PrivacyError
from tulle.stream import _state as machine
from tulle.stream._groups import GroupArrays, StreamGroups, pack, unpack
from tulle.stream._state import History, StreamState


def feed(
    state: StreamState, records: np.ndarray, levels: np.ndarray, sizes: list[int]
) -> StreamState:
    start = 0
    while start < len(records):
        for size in sizes:
            part = slice(start, start + size)
            numbers = state.seen + np.arange(len(records[part]))
            state.absorb(records[part], levels[part], numbers)
            start += size
    return state


def first_group(records: np.ndarray, levels: np.ndarray) -> GroupMoments:
    return GroupMoments.of(records, np.zeros(len(records), dtype=np.int64), levels)


def totals(state: StreamState) -> tuple[Any, ...]:
    moments = state.groups.moments()
    return (
        moments.counts.sum(),
        moments.first_sums.sum(axis=0),
        reference.second_sums(moments).sum(axis=0),
        moments.level_sums.sum(),
    )


def same_bits(one: StreamState, two: StreamState) -> None:
    for left, right in zip(one.groups.view(), two.groups.view(), strict=True):
        np.testing.assert_array_equal(left, right)
    for left, right in zip(one.waiting, two.waiting, strict=True):
        np.testing.assert_array_equal(left.row, right.row)
        assert (left.level, left.number) == (right.level, right.number)
    assert one.seen == two.seen
    assert one.history == two.history


@st.composite
def streams(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Records with duplicates, drift and outliers; levels narrow or wide."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    dimensions = draw(st.integers(1, 5))
    count = draw(st.integers(20, 300))
    records = rng.normal(size=(count, dimensions))
    if draw(st.booleans()):
        records = np.round(records)
    if draw(st.booleans()):
        records += np.linspace(0, 50, count)[:, None]
    if draw(st.booleans()):
        records[rng.integers(count, size=3)] *= 1e6
    low = draw(st.integers(1, 6))
    levels = rng.integers(low, low + draw(st.integers(0, 20)) + 1, size=count)
    return records, levels.astype(np.int64)


@pytest.mark.slow
@given(streams(), st.booleans())
def test_agrees_with_the_paper_read_plainly(
    data: tuple[np.ndarray, np.ndarray], strict: bool
) -> None:
    records, levels = data
    # distances computed from raw sums differ in the last digits: no ties, no cancellation here
    records = records + np.random.default_rng(0).normal(size=records.shape)
    records = np.clip(records, -1e3, 1e3)
    state = feed(StreamState(records.shape[1], strict=strict), records, levels, [len(records)])
    plain = reference.Stream([], strict=strict)
    for record, level in zip(records, levels):
        plain.insert(record, int(level))
    moments = state.groups.moments()
    assert moments.counts.tolist() == [group.n for group in plain.groups]
    assert moments.level_sums.tolist() == [group.Ps for group in plain.groups]
    assert moments.levels.tolist() == [group.level for group in plain.groups]
    assert len(state.waiting) == len(plain.waiting)
    means = np.array([group.mean for group in plain.groups]).reshape(moments.means.shape)
    np.testing.assert_allclose(moments.means, means, rtol=1e-6, atol=1e-6)
    sums = np.array([group.Sc for group in plain.groups]).reshape(moments.scatters.shape)
    np.testing.assert_allclose(reference.second_sums(moments), sums, rtol=1e-6, atol=1e-3)


@st.composite
def deeds(draw: st.DrawFn) -> list[int]:
    """What happens to three streams: the next records go to one of them, or one takes another."""
    return draw(st.lists(st.integers(0, 5), min_size=1, max_size=25))


@pytest.mark.guarantee
@pytest.mark.slow
@given(streams(), st.booleans(), deeds())
def test_inserts_splits_and_merges_conserve_all_sums(
    data: tuple[np.ndarray, np.ndarray], strict: bool, happening: list[int]
) -> None:
    records, levels = data
    dimensions = records.shape[1]
    states = [StreamState(dimensions, strict=strict) for _ in range(3)]
    start = 0
    for deed in happening:
        if deed < 3:
            part = slice(start, start + 1 + 17 * deed)
            states[deed].absorb(records[part], levels[part], np.arange(len(records))[part])
            start = min(part.stop, len(records))
        else:
            taken = states[deed - 3]
            states[deed - 3] = StreamState(dimensions, strict=strict)
            states[(deed - 2) % 3].take_over(taken)
    waiting = [held.number for state in states for held in state.waiting]
    joined = np.setdiff1d(np.arange(start), waiting)
    count, first, second, level_sum = (sum(parts) for parts in zip(*map(totals, states)))
    scale = max(1.0, float(np.abs(records).max()))
    assert sum(state.seen for state in states) == start
    assert count == len(joined)
    assert level_sum == levels[joined].sum()
    np.testing.assert_allclose(first, records[joined].sum(axis=0), atol=1e-9 * scale * start)
    expected = records[joined].T @ records[joined]
    np.testing.assert_allclose(second, expected, rtol=1e-9, atol=1e-9 * scale**2 * start)
    for state in states:
        state.check()


@pytest.mark.guarantee
@pytest.mark.slow
@given(streams(), st.booleans())
def test_nothing_is_lost_and_few_wait(data: tuple[np.ndarray, np.ndarray], strict: bool) -> None:
    records, levels = data
    state = StreamState(records.shape[1], strict=strict)
    for row in range(len(records)):
        state.absorb(records[row : row + 1], levels[row : row + 1], np.array([row]))
        assert state.condensed + len(state.waiting) == state.seen == row + 1
        assert len(state.waiting) < levels.max()
        largest = max(state.groups.view().counts, default=0)
        assert all(held.level - 1 > largest for held in state.waiting)
    state.check()
    if strict:
        used = state.groups.view()
        assert (used.counts >= used.levels).all()


@pytest.mark.guarantee
@pytest.mark.slow
@given(streams(), st.lists(st.integers(1, 40), min_size=1, max_size=4))
@few(40)
def test_batches_and_single_records_give_the_same_bits(
    data: tuple[np.ndarray, np.ndarray], sizes: list[int]
) -> None:
    records, levels = data
    one_by_one = feed(StreamState(records.shape[1]), records, levels, [1])
    same_bits(one_by_one, feed(StreamState(records.shape[1]), records, levels, sizes))


@pytest.mark.slow
@given(streams(), st.booleans())
def test_compiled_and_plain_give_the_same_bits(
    data: tuple[np.ndarray, np.ndarray], strict: bool
) -> None:
    records, levels = data
    compiled = feed(StreamState(records.shape[1], strict=strict), records, levels, [50])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "Engine", PlainEngine)
        plain = feed(StreamState(records.shape[1], strict=strict), records, levels, [50])
    same_bits(plain, compiled)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["clusters", "isotropic", "duplicates", "drift", "wide levels"])
def test_index_finds_the_nearest_among_thousands(
    kind: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enough groups for a tree of several levels, many splits of its nodes and rebuilds."""
    count, dimensions = 15_000, 4
    records = rng.normal(size=(count, dimensions))
    levels = rng.integers(2, 4, size=count)
    if kind == "clusters":
        records = records * 0.05 + rng.normal(size=(30, dimensions))[rng.integers(30, size=count)]
    elif kind == "duplicates":
        records = np.round(records * 0.5)
    elif kind == "drift":
        records += np.linspace(0, 1000, count)[:, None]
    elif kind == "wide levels":
        levels = rng.integers(2, 40, size=count)
    states = []
    for engine in (machine.Engine, PlainEngine):
        monkeypatch.setattr(machine, "Engine", engine)
        state = StreamState(dimensions)
        state.start(first_group(records[:40], levels[:40]))
        states.append(feed(state, records[40:], levels[40:], [4_000]))
    same_bits(*states)
    assert len(states[0].groups) > (200 if kind in ("wide levels", "duplicates") else 3_000)


def test_example_of_the_paper() -> None:
    records = np.random.default_rng(0).normal(size=(6, 3))
    groups = StreamGroups(3)
    groups.append(first_group(records[:5], np.array([2, 2, 2, 3, 5])))
    assert not splits(groups.arrays, 0, strict=False)  # 5 < 2 * 14 / 5
    groups = StreamGroups(3)
    groups.append(first_group(records, np.array([2, 2, 2, 3, 5, 3])))
    assert splits(groups.arrays, 0, strict=False)  # 6 >= 2 * 17 / 6
    assert not splits(groups.arrays, 0, strict=True)  # halves of 3 < 5
    state = StreamState(3)
    state.start(first_group(records[:5], np.array([2, 2, 2, 3, 5])))
    state.absorb(records[5:], np.array([3]), np.array([5]))
    assert state.groups.view().counts.tolist() == [3, 3]
    assert state.groups.view().level_sums.sum() == 17


def test_even_split_is_the_papers() -> None:
    rng = np.random.default_rng(1)
    records = rng.normal(size=(8, 3)) * [5, 1, 0.5]
    groups = StreamGroups(3)
    groups.append(first_group(records, np.full(8, 4)))
    before = groups.moments()
    values, vectors = np.linalg.eigh(before.covariances[0])
    split(groups, 0)
    after = groups.moments()
    step = np.sqrt(12 * values[-1]) / 4 * vectors[:, -1]
    distance = after.means[1] - after.means[0]
    np.testing.assert_allclose(np.abs(distance), np.abs(2 * step), rtol=1e-9)
    expected = np.sort([values[0], values[1], values[2] / 4])
    for half in after.covariances:
        np.testing.assert_allclose(np.linalg.eigvalsh(half), expected, rtol=1e-9)
    assert after.counts.tolist() == [4, 4]
    assert after.level_sums.tolist() == [16, 16]


def test_a_demanding_record_waits_for_a_group_that_can_hold_it() -> None:
    rng = np.random.default_rng(2)
    records = rng.normal(size=(12, 2))
    levels = np.array([4] * 6 + [9] + [4] * 5)
    state = StreamState(2)
    state.start(first_group(records[:6], levels[:6]))
    state.absorb(records[6:7], levels[6:7], np.array([6]))
    assert (len(state.waiting), state.condensed) == (1, 6)
    state.absorb(records[7:9], levels[7:9], np.array([7, 8]))
    # the group has reached 8 members: the waiting record joins before the group may split
    assert (len(state.waiting), state.condensed) == (0, 9)


@pytest.mark.slow
@pytest.mark.parametrize("level", [100, 2**31, 2**32 + 5, 2**53])
def test_a_level_may_be_larger_than_any_group(level: int) -> None:
    state = StreamState(2)
    state.start(first_group(np.eye(2).repeat(3, axis=0), np.full(6, 4)))
    state.absorb(np.zeros((1, 2)), np.array([level]), np.array([6]))
    assert (len(state.waiting), state.condensed) == (1, 6)


def test_waiting_records_form_a_group_of_their_own() -> None:
    records = np.random.default_rng(3).normal(size=(5, 2))
    state = feed(StreamState(2), records[:4], np.full(4, 5), [1])
    assert (len(state.waiting), len(state.groups)) == (4, 0)
    feed(state, records[4:], np.full(1, 5), [1])
    assert (len(state.waiting), len(state.groups)) == (0, 1)
    assert state.groups.view().counts.tolist() == [5]


@pytest.mark.slow
def test_history_is_bounded_and_shows_drift() -> None:
    rng = np.random.default_rng(4)
    records = rng.normal(size=(9_000, 2))
    records[5_000:] += 10
    state = feed(StreamState(2), records, np.full(9_000, 50), [2_500])
    rows = state.history.rows
    assert [row.seen for row in rows] == list(range(1_000, 9_001, 1_000))
    assert rows[3].drift < 0.5 < 9 < rows[-1].drift
    for step in range(1, 401):
        state.history.note(10_000 + step, np.array([10**6 * step]), np.zeros((1, 2)), 0)
    assert 100 < len(state.history.rows) <= 257


def test_history_tells_no_single_record() -> None:
    history = History()
    record = np.array([[0.123, -2.5]])
    history.note(1_000, np.array([1]), record, 999)
    assert history.rows == []
    history.note(2_000, np.array([1_500]), record, 500)
    history.note(3_000, np.array([1_501]), record, 1_499)
    assert len(history.rows) == 1
    assert all(value % 10.0 == 0.0 for value in history.total)


def test_records_without_any_group_wait_until_they_form_one() -> None:
    rng = np.random.default_rng(0)
    state = StreamState(2)
    state.absorb(rng.normal(size=(1_200, 2)), np.full(1_200, 10), 5_000 + np.arange(1_200))
    assert len(state.groups) > 60
    state.check()


def test_absurd_values_and_damaged_states_are_refused() -> None:
    state = StreamState(2)
    with pytest.raises(DataError):
        state.absorb(np.array([[1e16, 0.0]]), np.array([2]), np.array([0]))
    with pytest.raises(DataError):
        state.absorb(np.array([[np.nan, 0.0]]), np.array([2]), np.array([0]))
    feed(state, np.zeros((5, 2)), np.full(5, 2), [5])
    state.seen += 1
    with pytest.raises(PrivacyError, match="damaged"):
        state.check()
    strict = StreamState(2, strict=True)
    strict.start(first_group(np.zeros((3, 2)), np.full(3, 5)))
    with pytest.raises(PrivacyError, match="1 group"):
        strict.check()


@pytest.mark.slow
@given(streams(), st.lists(st.integers(1, 60), min_size=1, max_size=5))
def test_snapshots_change_by_valid_groups_of_newcomers_only(
    data: tuple[np.ndarray, np.ndarray], sizes: list[int]
) -> None:
    records, levels = data
    state, start = StreamState(records.shape[1]), 0
    while start < len(records):
        for size in sizes:
            part = slice(start, start + size)
            state.absorb(records[part], levels[part], np.arange(len(records))[part])
            start += size
            before = state.published
            lineage = state.groups.view().families.copy()
            counts, largest = state.groups.view().counts, state.groups.view().levels
            published, _, change = state.publish()
            assert published.view().counts.sum() + change.held_back == state.condensed
            if before is None:
                continue
            kept = {row.tobytes() for row in published.view().means}
            for family in range(len(before)):
                members = lineage == family
                fresh = counts[members].sum() - before.behind.view().counts[family]
                shown_again = before.shown.view().means[family].tobytes() in kept
                assert shown_again or fresh >= largest[members].max()


class Watcher:
    """Keeps all snapshots of a state, and which groups of one come from which of an earlier one."""

    def __init__(self) -> None:
        self.shown: list[StreamGroups] = []
        self.ways: list[list[np.ndarray]] = []  # of each group, its heirs in the next snapshot

    def look(self, state: StreamState) -> None:
        known = 0 if state.published is None else len(state.published)
        shown = copy.deepcopy(state.publish()[0])
        families = shown.view().families
        self.ways.append([np.flatnonzero(families == row) for row in range(known)])
        self.shown.append(shown)

    def pairs(self) -> Iterator[tuple[GroupArrays, GroupArrays]]:
        """Each group of each snapshot, with all that has come of it in each later one."""
        for first, shown in enumerate(self.shown):
            heirs = [np.array([row]) for row in range(len(shown))]
            for later in range(first + 1, len(self.shown)):
                way = self.ways[later]
                heirs = [np.concatenate([way[row] for row in rows]) for rows in heirs]
                for row, rows in enumerate(heirs):
                    yield (
                        GroupArrays._make(array[[row]] for array in shown.view()),
                        GroupArrays._make(array[rows] for array in self.shown[later].view()),
                    )


@pytest.mark.guarantee
@pytest.mark.slow
@given(streams(), st.lists(st.integers(1, 60), min_size=1, max_size=5), st.booleans())
@few(40)
def test_any_two_snapshots_differ_by_valid_groups_of_newcomers(
    data: tuple[np.ndarray, np.ndarray], sizes: list[int], merged: bool
) -> None:
    """Whatever split, waited, or was merged in between, and however many snapshots there are."""
    records, levels = data
    watcher, state, start = Watcher(), StreamState(records.shape[1]), 0
    for turn, size in enumerate([30, *sizes, *sizes, *sizes]):
        part = slice(start, start + size)
        state.absorb(records[part], levels[part], np.arange(len(records))[part])
        start += size
        if merged and turn == 2:  # with a stream that has shown nothing yet
            state.take_over(feed(StreamState(records.shape[1]), records + 3, levels, [50]))
        watcher.look(state)
    for before, after in watcher.pairs():
        newcomers = after.counts.sum() - before.counts.sum()
        if newcomers:
            assert newcomers >= after.levels.max()
        else:
            np.testing.assert_array_equal(before.means, after.means)
            np.testing.assert_array_equal(before.scatters, after.scatters)


@pytest.mark.guarantee
@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(1, 40), st.booleans())
def test_snapshots_depend_on_newcomers_through_their_sums_only(
    seed: int, level: int, coming: int, strict: bool
) -> None:
    """In which order they came, when a group split and whom each half took does not show."""
    rng = np.random.default_rng(seed)
    known = rng.normal(size=(2 * level - 1, 3)) * [1.0, 2.0, 4.0]  # one more, and it splits
    newcomers = rng.normal(size=(coming, 3)) * [1.0, 2.0, 4.0]
    shown = []
    for order in (np.arange(coming), rng.permutation(coming)):
        state = StreamState(3, strict=strict)
        state.start(first_group(known, np.full(len(known), level)))
        state.publish()
        feed(state, newcomers[order], np.full(coming, level), [1])
        before = totals(state)
        groups, _, change = state.publish()
        for part, other in zip(totals(state), before, strict=True):
            np.testing.assert_allclose(part, other, rtol=1e-9, atol=1e-9)
        assert change.held_back == (0 if coming >= level else coming)
        state.check()
        view = groups.view()
        assert (change.small, change.smallest) == (
            (view.counts < view.levels).sum(),
            view.counts.min(),
        )
        assert not (strict and change.small)
        place = np.lexsort(view.means.T)
        shown.append([view.counts[place], view.means[place], view.scatters[place]])
    for part, other in zip(*shown, strict=True):
        np.testing.assert_allclose(part, other, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@given(streams())
@few(40)
def test_newcomers_are_averaged_exactly_whatever_has_split(
    data: tuple[np.ndarray, np.ndarray],
) -> None:
    records, levels = data
    half = len(records) // 2
    state = feed(StreamState(records.shape[1]), records[:half], levels[:half], [half])
    before = state.publish()[0].view().counts.sum()
    waited = [held.row for held in state.waiting]
    feed(state, records[half:], levels[half:], [7])
    shown, (newcomers, groups, families), _ = state.publish()
    came = np.vstack([records[half:], *waited])
    scale = max(1.0, float(np.abs(records).max()))
    assert (newcomers.counts >= newcomers.levels).all()
    assert (newcomers.means <= came.max(axis=0) + 1e-9 * scale).all()
    assert (newcomers.means >= came.min(axis=0) - 1e-9 * scale).all()
    assert sorted(set(families)) == list(range(len(newcomers.counts)))
    assert newcomers.counts.sum() == shown.view().counts.sum() - before
    assert {row.tobytes() for row in groups.means} <= {row.tobytes() for row in shown.view().means}


def test_merging_streams_adds_their_sums_and_lets_waiting_records_join() -> None:
    rng = np.random.default_rng(5)
    records = rng.normal(size=(120, 3))
    levels = np.full(120, 6)
    left = feed(StreamState(3), records[:60], levels[:60], [60])
    right = feed(StreamState(3), records[60:], levels[60:], [60])
    demanding = np.array([50])
    left.absorb(np.ones((1, 3)), demanding, np.array([60]))
    assert len(left.waiting) == 1
    right.start(first_group(rng.normal(size=(49, 3)), np.full(49, 50)))
    expected = [a + b for a, b in zip(totals(left), totals(right))]
    left.take_over(right)
    assert (left.seen, len(left.waiting)) == (170, 0)
    assert totals(left)[0] == expected[0] + 1
    np.testing.assert_allclose(totals(left)[1], expected[1] + 1, atol=1e-9)
    left.check()


def test_packed_triangles_unpack() -> None:
    matrix = np.arange(9.0).reshape(3, 3)
    symmetric = matrix + matrix.T
    np.testing.assert_array_equal(unpack(pack(symmetric), 3), symmetric)
