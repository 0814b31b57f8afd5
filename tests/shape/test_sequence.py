"""Rows of people: what a regression carries from row to row ends where people end."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tulle import Condenser
from tulle._shape.sequence import _folded
from tulle.table.schema import Column, Kind, Role


def test_what_lies_beyond_an_end_is_turned_back() -> None:
    values = np.array([-0.2, 0.1, 1.3, 2.0, 9.0])
    assert _folded(values, 0.0, 2.0).tolist() == [0.2, 0.1, 1.3, 2.0, 0.0]


@pytest.mark.slow
def test_skewed_numbers_of_a_panel_pile_up_at_no_end() -> None:
    rng = np.random.default_rng(0)
    who, farm = np.repeat(np.arange(170), 6), np.repeat(rng.normal(size=170), 6)
    size = np.exp(-1.5 + farm + rng.normal(0, 0.2, len(who))).round(3)
    table = pl.DataFrame({"id": who, "size": size, "labour": (size * 700 + 80).round()})
    columns = [Column("id", Kind.INTEGER, Role.PERSON)]
    columns += [Column(name, Kind.DECIMAL) for name in ("size", "labour")]
    release = Condenser(k=10, columns=columns, random_state=0).fit(table).sample()
    for name in ("size", "labour"):
        commonest = release[name].value_counts()["count"].max()
        assert commonest <= 2 * table[name].value_counts()["count"].max()
