"""How exact numbers are: what nobody could have is not drawn, and what many have is not merged."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tulle import Condenser
from tulle.table._precision import common_tens


def test_zeros_that_all_but_a_few_people_end_with() -> None:
    scores = np.arange(480.0, 800, 10)
    assert common_tens(scores, None, 1) == 1
    assert common_tens(scores * 100, None, 1) == 3
    assert common_tens(np.r_[scores, 655], None, 2) == 1  # one person is too few to decide
    assert common_tens(np.r_[scores, 655], None, 1) == 0
    assert common_tens(np.tile([0.0, 100], 50), None, 1) == 0  # two numbers are no scale
    owners = np.r_[np.arange(len(scores)), 99, 99, 99]
    assert common_tens(np.r_[scores, 655, 651, 652], owners, 2) == 1


@pytest.mark.parametrize("unit", [10, 1000])
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
