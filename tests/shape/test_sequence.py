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


@pytest.fixture(scope="module")
def tests_and_values() -> tuple[pl.DataFrame, pl.DataFrame]:
    """A long table of three tests, each around a level of its own, and a release of it."""
    rng = np.random.default_rng(0)
    who, test = np.repeat(np.arange(300), 6), np.tile([0, 1, 2], 600)
    level = rng.normal(size=(300, 3))[who, test]
    value = np.array([140.0, 13.5, 95.0])[test] + np.array([2.5, 1.0, 30.0])[test] * (
        0.9 * level + 0.4 * rng.normal(size=len(who))
    )
    names = np.array(["sodium", "haemoglobin", "creatinine"])[test]
    table = pl.DataFrame({"id": who, "test": names, "value": value.round(1)})
    columns = [Column("id", Kind.INTEGER, Role.PERSON), Column("test", Kind.CATEGORY)]
    columns += [Column("value", Kind.DECIMAL)]
    return table, Condenser(k=10, columns=columns, order=[], random_state=0).fit_resample(table)


def test_numbers_of_several_kinds_keep_their_scales(
    tests_and_values: tuple[pl.DataFrame, pl.DataFrame],
) -> None:
    table, release = tests_and_values
    for name in ("sodium", "haemoglobin", "creatinine"):
        own, new = (one.filter(pl.col("test") == name)["value"] for one in (table, release))
        assert new.is_between(own.min(), own.max()).all()
        assert abs(new.std() / own.std() - 1) < 0.2


def test_a_person_keeps_a_level_in_each_kind_of_number(
    tests_and_values: tuple[pl.DataFrame, pl.DataFrame],
) -> None:
    _, release = tests_and_values
    twice = release.with_columns(at=pl.int_range(pl.len()).over("id", "test"))
    twice = twice.filter(pl.col("at") < 2).pivot(on="at", index=["id", "test"], values="value")
    for _, part in twice.drop_nulls().group_by("test"):
        assert np.corrcoef(part["0"], part["1"])[0, 1] > 0.5  # .8 in the data
