from __future__ import annotations

import numpy as np
import pytest

from tulle._random import as_generator, coarse_count, seed_policy, spawn
from tulle.errors import ParameterError


def test_none_does_not_follow_the_process_seed() -> None:
    np.random.seed(0)  # noqa: NPY002
    first = as_generator(None).integers(2**60)
    np.random.seed(0)  # noqa: NPY002
    assert as_generator(None).integers(2**60) != first


def test_seed_generator_and_random_state_are_accepted() -> None:
    assert as_generator(3).integers(2**60) == as_generator(np.int64(3)).integers(2**60)
    owned = np.random.default_rng(1)
    assert as_generator(owned) is owned
    legacy = [as_generator(np.random.RandomState(5)).integers(2**60) for _ in range(2)]
    assert legacy[0] == legacy[1]


@pytest.mark.parametrize("wrong", [-1, 1.5, "seed", True])
def test_other_things_are_refused(wrong: object) -> None:
    with pytest.raises(ParameterError, match="random_state"):
        as_generator(wrong)  # type: ignore[arg-type]


def test_spawned_generators_differ_and_repeat() -> None:
    first = [g.integers(2**60) for g in spawn(as_generator(0), 5)]
    again = [g.integers(2**60) for g in spawn(as_generator(0), 5)]
    assert first == again
    assert len(set(first)) == 5


def test_one_person_more_changes_a_coarse_count_once_in_k() -> None:
    said = {count: {coarse_count(count, 10) for _ in range(300)} for count in (0, 9, 10, 15)}
    assert said[0] == {"fewer than 10"}
    assert said[9] == {"fewer than 10", "about 10"}
    assert said[10] == {"about 10"}
    assert said[15] == {"about 10", "about 20"}


def test_manifest_says_where_the_seed_came_from_only() -> None:
    assert seed_policy(None) == "operating system"
    assert seed_policy(12345) == "given"
