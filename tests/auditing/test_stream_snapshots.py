"""What two releases of a stream tell of the one record between them: samples that keep the
group means tell it exactly, snapshots do not."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from tulle import StreamCondenser
from tulle._attacks.snapshots import Snapshots, snapshots_by_fresh_rows, snapshots_by_totals

ARRIVALS = 40


@pytest.fixture(scope="module")
def stream() -> tuple[StreamCondenser, np.ndarray]:
    rng = np.random.default_rng(0)
    start = StreamCondenser(k=10, synthesis="mean", random_state=1)
    return start.partial_fit(rng.normal(size=(200, 3))), rng.normal(size=(ARRIVALS + 19, 3))


def pairs(stream: tuple, release: str) -> list[Snapshots]:
    start, newcomers = stream
    made = []
    for i in range(ARRIVALS):
        follower = copy.deepcopy(start)
        before = getattr(follower, release)()
        follower.partial_fit(newcomers[i : i + 1])
        after = getattr(follower, release)()
        made.append(Snapshots(before, after, (200, 201), newcomers[i], newcomers[ARRIVALS:]))
    return made


@pytest.mark.slow
def test_samples_that_keep_the_means_name_the_newcomer(stream: tuple) -> None:
    result = snapshots_by_totals(pairs(stream, "sample"), np.random.default_rng(2))
    assert result.rate > 0.9
    assert not result.failed


@pytest.mark.slow
@pytest.mark.parametrize("attack", [snapshots_by_totals, snapshots_by_fresh_rows])
def test_snapshots_do_not(attack, stream: tuple) -> None:
    assert attack(pairs(stream, "snapshot"), np.random.default_rng(2)).failed
