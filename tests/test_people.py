"""Different people, counted key by key."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle._people import distinct_people

FAR = 2**62


@given(
    st.lists(st.tuples(st.integers(-1, 6), st.sampled_from([-FAR, 0, 1, 2, 3, FAR])), max_size=60),
    st.integers(0, 40),
)
def test_people_are_counted_as_sets_would(rows: list[tuple[int, int]], more: int) -> None:
    size = 7 + more  # keys that nobody has
    keys = np.array([key for key, _ in rows], dtype=np.int64)
    people = np.array([person for _, person in rows], dtype=np.int64)
    wanted = [len({person for key, person in rows if key == one}) for one in range(size)]
    assert distinct_people(keys, people, size).tolist() == wanted


@pytest.mark.parametrize("size", [3, 5_000])
def test_rows_of_one_person_count_once(size: int) -> None:
    people = np.repeat(np.arange(1_000), 6)
    keys = np.tile([0, 0, 1, 2, 2, -1], 1_000)
    assert distinct_people(keys, people, size)[:3].tolist() == [1_000, 1_000, 1_000]
    assert distinct_people(keys, None, size)[:3].tolist() == [2_000, 1_000, 2_000]
