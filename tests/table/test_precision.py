"""How exact numbers are: what nobody could have is not drawn, and what many have is not merged."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tulle import Condenser
from tulle.table._precision import common_step, looks_coded


def test_steps_of_all_but_a_few_people() -> None:
    scores = np.arange(480.0, 800, 10)
    assert common_step(scores, None, 1) == 10
    assert common_step(scores * 100, None, 1) == 1000
    assert common_step(np.arange(5.0, 200, 5), None, 1) == 5
    assert common_step(np.r_[scores, 655], None, 2) == 10  # one person is too few to decide
    assert common_step(np.r_[scores, 655], None, 1) == 5
    assert common_step(np.tile([0.0, 100], 50), None, 1) == 1  # two numbers are no scale
    owners = np.r_[np.arange(len(scores)), 99, 99, 99]
    assert common_step(np.r_[scores, 655, 651, 652], owners, 2) == 10


@pytest.mark.parametrize("unit", [5, 10, 1000])
def test_the_tails_of_numbers_in_tens_are_no_heap(unit: int) -> None:
    rng = np.random.default_rng(0)
    scores = (np.clip(rng.normal(63, 6, 600), 45, 80).round() * unit).astype(int)
    table = pl.DataFrame({"sat": scores, "age": rng.integers(17, 30, 600)})
    release = Condenser(k=10, random_state=0).fit(table).sample()
    assert (release["sat"] % unit == 0).all()
    most = [frame["sat"].value_counts()["count"].max() for frame in (table, release)]
    assert most[1] <= 1.6 * most[0]
    tails = [(frame["sat"] <= 52 * unit).mean() for frame in (table, release)]
    assert tails[1] == pytest.approx(tails[0], abs=0.03)


def test_halves_stay_halves() -> None:
    rng = np.random.default_rng(1)
    table = pl.DataFrame({"hours": np.clip(rng.normal(20, 6, 500), 1, 60).round() / 2})
    release = Condenser(k=10, random_state=0).fit(table).sample()
    assert (release["hours"] * 2 == (release["hours"] * 2).round()).all()


def test_codes_are_told_from_numbers() -> None:
    rng = np.random.default_rng(0)
    assert looks_coded(rng.choice([1070.0, 2290.0, 4170.0, 8190.0], 500), 20)
    assert not looks_coded(np.round(rng.uniform(18, 80, 5000)), 20)
    assert not looks_coded(rng.normal(size=500), 20)
    gains = np.where(rng.random(5000) < 0.9, 0.0, np.round(rng.gamma(2, 3000, 5000)))
    assert not looks_coded(gains, 20)
