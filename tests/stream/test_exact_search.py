"""The index against a linear search: a long stream, and records that are hard to tell apart."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tests.reference import stream_steps as steps
from tests.reference.stream_brute import absorb
from tulle._moments import GroupMoments
from tulle.stream import _index as tree
from tulle.stream._engines import COINCIDENT, NOBODY, Engine, Event
from tulle.stream._groups import StreamGroups
from tulle.stream._kernels import search

pytestmark = pytest.mark.slow


def test_every_record_of_a_long_stream_joins_its_nearest_group() -> None:
    rng = np.random.default_rng(0)
    count, dimensions = 100_000, 10
    centres = rng.normal(size=(20, dimensions)) * 3
    mixing = rng.normal(size=(20, dimensions, dimensions)) * 0.8 ** np.arange(dimensions)
    which = rng.integers(20, size=count)
    noise = rng.normal(size=(count, dimensions))
    records = centres[which] + np.einsum("ni,nij->nj", noise, mixing[which])
    records /= records.std(axis=0)
    levels = rng.integers(16, 21, size=count)
    first = 400  # in groups of 40, so that at no time all groups are too small for somebody
    start = GroupMoments.of(records[:first], np.arange(first) // 40, levels[:first])

    indexed = StreamGroups(dimensions)
    indexed.append(start)
    engine = Engine(indexed, strict=False)
    done = engine.absorb(records[first:], levels[first:], 0, NOBODY)
    assert done == (count - first, Event.DONE, -1)

    linear = StreamGroups(dimensions, capacity=10_000)
    linear.append(start)
    tie = COINCIDENT * dimensions
    work = tree.scratch(dimensions)
    linear.size = absorb(linear.arrays, work, records[first:], levels[first:], 10, tie)
    assert len(linear) == len(indexed) > 3_500
    for one, other in zip(indexed.view(), linear.view(), strict=True):
        np.testing.assert_array_equal(one, other)


@numba.njit
def _search(index: Any, groups: Any, work: Any, record: Any, need: int, tie: float) -> int:
    return search(index, groups, work, record, need, tie)


@pytest.mark.parametrize("kind", ["spread", "lattice", "far from zero", "in the middle", "equal"])
@few(25)
@given(
    seed=st.integers(0, 2**32 - 1),
    dimensions=st.integers(1, 12),
    count=st.sampled_from([1, 7, 60, 400, 2_000]),  # up to several levels of the index
    power=st.integers(-6, 6),
)
def test_rounding_never_decides(
    kind: str, seed: int, dimensions: int, count: int, power: int
) -> None:
    """Equal and nearly equal distances, seen from where single precision cannot tell them."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(count, dimensions))
    records = rng.normal(size=(30, dimensions))
    if kind == "lattice":
        means, records = np.rint(means * 2), np.rint(records * 4) / 2
    if kind == "far from zero":
        means, records = means * 1e-3 + 1e4, records * 1e-3 + 1e4
        means[0] = 0.0
    if kind == "in the middle":
        pairs = rng.integers(count, size=(2, 30))
        records = means[pairs].mean(axis=0) + records * 10.0 ** rng.integers(-17, -5, size=(30, 1))
    if kind == "equal":
        means = means[rng.integers(count, size=count) // 8]
        records[:20] = means[rng.integers(count, size=20)] + records[:20] * 1e-6
    scale = 10.0**power
    groups = _groups_at(means * scale, rng.integers(1, 6, size=count))
    engine = Engine(groups, strict=False)
    joining = np.ascontiguousarray(np.tile(records, (20, 1)) * scale)
    for feed in (joining[:0], joining):  # packed, then moved and split
        engine.absorb(feed, np.ones(len(feed), dtype=np.int64), 0, NOBODY)
        arrays, tie = groups.arrays, COINCIDENT * dimensions
        for record in records * scale:
            for need in (0, 4, 6):
                found = _search(engine.tree, arrays, engine.work, record, need, tie)
                assert found == steps.nearest(groups, record, need)


def _groups_at(means: Any, sizes: Any) -> StreamGroups:
    groups = StreamGroups(means.shape[1])
    labels = np.repeat(np.arange(len(means)), sizes)
    groups.append(GroupMoments.of(means[labels], labels, np.ones(len(labels), dtype=np.int64)))
    groups.arrays.means[: len(means)] = means
    return groups
