"""Attacks on tables against slow, obvious versions of themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle._attacks.linkage import exact_copies, linkage, near_copies
from tulle._attacks.records import Records
from tulle._attacks.result import Scene
from tulle._attacks.singling_out import BINS, singling_out

Distance = Callable[[int, int], float]


def people(rng: np.random.Generator, count: int) -> Records:
    """Records of which many are alike: ties and twins are what goes wrong."""
    numbers = np.round(rng.normal(size=(count, 1)), 1)
    return Records(numbers, rng.integers(0, 3, (count, 2)), ("a",), ("c", "d"))


def tables(seed: int) -> tuple[Records, Records, Records]:
    rng = np.random.default_rng(seed)
    original, control, fresh = (people(rng, int(rng.integers(1, 15))) for _ in range(3))
    copied = original.take(np.arange(len(original) // 2))
    numbers, codes = (np.vstack([getattr(r, n) for r in (fresh, copied)]) for n in _PARTS)
    return original, Records(numbers, codes, ("a",), ("c", "d")), control


_PARTS = ("numbers", "codes")


def distance(left: Records, right: Records, known: Collection[str] = "acd") -> Distance:
    def between(i: int, j: int) -> float:
        square = (left.numbers[i, 0] - right.numbers[j, 0]) ** 2 if "a" in known else 0.0
        for place, name in enumerate("cd"):
            square += name in known and left.codes[i, place] != right.codes[j, place]
        return math.sqrt(square)

    return between


def spacings(some: Records, original: Records) -> list[float]:
    """How far the nearest other person in the data is from each of some people."""
    apart = distance(some, original)
    others = [[j for j in range(len(original)) if some is not original or j != i]
              for i in range(len(some))]  # fmt: skip
    return [min((apart(i, j) for j in js), default=math.inf) for i, js in enumerate(others)]


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
def test_copies_and_linkage_count_what_they_say(seed: int) -> None:
    original, release, control = tables(seed)
    rng = np.random.default_rng(seed)
    exact = exact_copies(Scene(original, release, control), rng)
    near = near_copies(Scene(original, release, control), rng)
    linked = linkage(Scene(original, release, control), rng, known=["a", "c"])
    found = [(r.successes, r.control_successes) for r in (exact, near, linked)]
    expected: list[list[int]] = [[], [], []]
    for some in (original, control):
        away, seen = distance(some, release), distance(some, release, "ac")
        room, rows = spacings(some, original), range(len(release))
        least = [min(away(i, j) for j in rows) for i in range(len(some))]
        links = [min(rows, key=lambda j, i=i: seen(i, j)) for i in range(len(some))]
        expected[0].append(sum(gap == 0 for gap in least))
        expected[1].append(sum(gap == 0 or gap < 0.1 * r for gap, r in zip(least, room)))
        own = (away(i, j) < 0.25 * room[i] for i, j in enumerate(links))
        expected[2].append(sum(own))
    assert found == [tuple(pair) for pair in expected]


@given(st.integers(0, 2**32 - 1))
def test_singling_out_counts_people_who_are_alone_here_and_there(seed: int) -> None:
    original, release, _ = tables(seed)
    low = min(0.0, float(original.numbers.min()))
    width = (max(0.0, float(original.numbers.max())) - low) / BINS or 1.0

    def combinations(records: Records) -> list[tuple[int, ...]]:
        parts = np.floor((records.numbers[:, 0] - low) / width + 0.5).astype(int)
        return [(part, *codes) for part, codes in zip(parts.tolist(), records.codes.tolist())]

    here, there = combinations(original), combinations(release)
    alone = [each for each in here if here.count(each) == 1]
    found = singling_out(Scene(original, release), np.random.default_rng(seed))
    if not alone:
        assert found is None
        return
    assert found is not None
    assert found.attempts == len(alone)
    assert found.successes == sum(there.count(each) == 1 for each in alone)
