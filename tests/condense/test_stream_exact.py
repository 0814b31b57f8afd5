"""The index against a linear search, record by record, on a hundred thousand records."""

from __future__ import annotations

import numpy as np

from tests.reference.stream_brute import absorb
from tulle.condense.stream.engines import NOBODY, Event, TreeEngine
from tulle.condense.stream.groups import Groups
from tulle.condense.stream.steps import COINCIDENT
from tulle.moments import GroupMoments


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

    indexed = Groups(dimensions)
    indexed.append(start)
    engine = TreeEngine(indexed, strict=False)
    done = engine.absorb(records[first:], levels[first:], 0, NOBODY)
    assert done == (count - first, Event.DONE, -1)

    linear = Groups(dimensions, capacity=10_000)
    linear.append(start)
    tie = COINCIDENT * dimensions
    linear.size = absorb(linear.arrays, records[first:], levels[first:], 10, tie)
    assert len(linear) == len(indexed) > 3_500
    for one, other in zip(indexed.view(), linear.view(), strict=True):
        np.testing.assert_array_equal(one, other)
