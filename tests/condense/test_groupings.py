"""Every grouping is valid for every record's level, and the papers' examples come out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tests.reference.construct_groups import construct_groups
from tulle._choices import GROUPINGS as METHODS
from tulle.condense._levels import check_people, feasible
from tulle.condense.groupings import group_records
from tulle.condense.groupings._fast import GroupingSearch
from tulle.condense.groupings._repair import squared_error
from tulle.errors import PrivacyError

_SOURCES = str(Path(__file__).parents[2] / "src")


def drawn(seed: int, n: int, d: int, top: int, alike: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(n, d))
    if alike:
        matrix = np.round(matrix)  # many duplicates
    return matrix, rng.integers(1, min(top, n) + 1, size=n)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@few(30)
@given(
    st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 4), st.integers(1, 12), st.booleans()
)
def test_groups_are_valid_for_every_level(
    method: str, seed: int, n: int, d: int, top: int, alike: bool
) -> None:
    matrix, levels = drawn(seed, n, d, top, alike)
    budget = 0.02 if method == "best" else None
    groups = group_records(
        matrix, levels, np.random.default_rng(seed), method=method, time_budget=budget
    )
    sizes = np.bincount(groups)
    assert (sizes > 0).all()
    assert (sizes[groups] >= levels).all()


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in METHODS if name != "best"])
def test_same_seed_same_groups(method: str) -> None:
    matrix, levels = drawn(3, 80, 3, 6, False)
    first, again = (
        group_records(matrix, levels, np.random.default_rng(1), method=method) for _ in range(2)
    )
    assert (first == again).all()


_RELEASE = """
import hashlib
import numpy as np
from tulle import (Condenser)
X = np.random.default_rng(0).normal(size=(900, 120))
for grouping in ("fast", "modified"):
    drawn = Condenser(200, grouping=grouping, random_state=1).fit_resample(X)
    print(hashlib.sha256(drawn.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_same_seed_same_release_on_any_number_of_threads() -> None:
    found = []
    for threads in "12":
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        run = subprocess.run(
            [sys.executable, "-c", _RELEASE],
            env={**os.environ, **dict.fromkeys(names, threads), "PYTHONPATH": _SOURCES},
            capture_output=True,
            check=True,
        )
        found.append(run.stdout.split())
    assert len(found[0]) == 2
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_search_that_is_cut_off_keeps_the_best_so_far(
    at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix, levels = drawn(3, 200, 3, 6, False)
    calls = -1_000_000

    def run(search: GroupingSearch, steps: int, hot: float, cold: float) -> None:
        nonlocal calls
        calls += 1
        if calls > at:  # the first call compiles
            raise KeyboardInterrupt
        whole(search, steps, hot, cold)

    whole = GroupingSearch.run
    monkeypatch.setattr(GroupingSearch, "run", run)
    start = group_records(matrix, levels, np.random.default_rng(1), method="fast")
    calls = -1_000_000 - calls  # the best grouping begins with the same
    found = group_records(
        matrix, levels, np.random.default_rng(1), method="best", time_budget=1e300
    )
    assert calls == at + 1
    assert squared_error(matrix, found) <= squared_error(matrix, start)


def test_outlier_of_figure_1_joins_the_smaller_group() -> None:
    threes = [[0, 0], [0, 1], [1, 0]]
    fours = [[10, 10], [10, 11], [11, 10], [11, 11], [2, 2]]
    matrix = np.array(threes + fours, dtype=float)
    levels = np.array([3] * 3 + [4] * 5)
    for seed in range(10):
        groups = group_records(matrix, levels, np.random.default_rng(seed), method="levels")
        assert len(set(groups[[0, 1, 2, 7]])) == 1
        assert sorted(np.bincount(groups)) == [4, 4]


def test_pair_of_figure_6_is_broken_up() -> None:
    """A pair of level 2 between two groups of three: each point goes to the nearer group."""
    threes = [[0, 0], [0, 1], [1, 0], [10, 10], [10, 11], [11, 10]]
    matrix = np.array([*threes, [0.9, 0.9], [9.9, 9.9]], dtype=float)
    levels = np.array([3] * 6 + [2] * 2)
    for seed in range(10):
        groups = group_records(matrix, levels, np.random.default_rng(seed), method="levels")
        assert len(set(groups[[0, 1, 2, 6]])) == len(set(groups[[3, 4, 5, 7]])) == 1
        assert sorted(np.bincount(groups)) == [4, 4]


@pytest.mark.slow
@given(st.integers(0, 10**6), st.integers(1, 50), st.integers(1, 8), st.integers(2, 3))
def test_construct_groups_is_the_papers(seed: int, n: int, top: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(n, d))
    levels = np.minimum(rng.integers(1, top + 1, size=n), n)
    groups = group_records(matrix, levels, np.random.default_rng(seed), method="levels")
    found = {frozenset(np.flatnonzero(groups == name).tolist()) for name in np.unique(groups)}
    assert found == construct_groups(matrix, levels, np.random.default_rng(seed))


def test_records_that_differ_by_rounding_only_are_one_place_for_k_means() -> None:
    rng = np.random.default_rng(0)
    matrix = np.repeat(rng.normal(size=(4, 2)), 50, axis=0)
    matrix *= 1 + 1e-16 * rng.integers(0, 9, (200, 1))
    groups = group_records(matrix, np.full(200, 5), rng, method="modified")
    assert squared_error(matrix, groups) < 1e-20


def test_invariant_is_checked_and_counted() -> None:
    with pytest.raises(PrivacyError, match="1 of 2 groups"):
        check_people(np.array([0, 0, 1]), np.array([2, 1, 2]))
    with pytest.raises(PrivacyError, match="n_samples=3 .*level=5, which 1"):
        feasible(np.array([1, 5, 4]), "error", "level")
