"""Two releases around one arrival: exact totals name the newcomer, fresh draws do not."""

from __future__ import annotations

import numpy as np
import pytest

from tulle._attacks.snapshots import Snapshots, snapshots_by_fresh_rows, snapshots_by_totals
from tulle.errors import DataError, ParameterError

ATTACKS = [snapshots_by_totals, snapshots_by_fresh_rows]


def pairs(rng: np.random.Generator, kind: str, count: int = 60) -> list[Snapshots]:
    made = []
    for _ in range(count):
        people, newcomer = rng.standard_normal((40, 3)), rng.standard_normal(3)
        decoys = rng.standard_normal((19, 3))
        before, after = people, np.vstack([people, newcomer])
        if kind == "unrelated":
            before, after = rng.standard_normal((40, 3)), rng.standard_normal((41, 3))
        made.append(Snapshots(before, after, (40, 41), newcomer, decoys))
    return made


@pytest.mark.parametrize("attack", ATTACKS)
def test_snapshots_of_the_data_themselves_name_the_newcomer(attack) -> None:
    rng = np.random.default_rng(1)
    result = attack(pairs(rng, "copy"), rng)
    assert result.rate == 1
    assert result.baseline == pytest.approx(1 / 20)


@pytest.mark.parametrize("attack", ATTACKS)
def test_snapshots_of_other_people_do_not_beat_guessing(attack) -> None:
    rng = np.random.default_rng(2)
    assert attack(pairs(rng, "unrelated"), rng).failed


def test_nothing_new_means_a_guess() -> None:
    rng = np.random.default_rng(3)
    same = [pair._replace(after=pair.before) for pair in pairs(rng, "copy")]
    assert snapshots_by_fresh_rows(same, rng).failed


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_pairs_and_no_candidates_are_refused(attack) -> None:
    rng = np.random.default_rng(4)
    with pytest.raises(ParameterError, match="pair"):
        attack([], rng)
    lonely = pairs(rng, "copy", 1)[0]._replace(decoys=np.empty((0, 3)))
    with pytest.raises(DataError, match="candidates"):
        attack([lonely], rng)
