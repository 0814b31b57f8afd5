"""What the rows of a person have in common, in a release of the table as it is."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tulle import Condenser, infer_columns
from tulle.condense._row_tables import find_order
from tulle.table.schema import Schema


def released(table: pl.DataFrame, k: int = 10) -> tuple[Condenser, pl.DataFrame]:
    condenser = Condenser(k, columns={table.columns[0]: "person"}, random_state=1).fit(table)
    return condenser, condenser.sample()


def families(n: int = 150) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 8, n)
    who = np.repeat(np.arange(n), sizes)
    born = np.concatenate([np.arange(1, size + 1) for size in sizes])
    height = rng.normal(170, 8, n)[who] + rng.normal(0, 4, len(who))
    return pl.DataFrame({"family": who, "childNum": born, "height": height.round(1)})


@pytest.mark.slow
def test_rows_that_are_numbered_in_each_family_are_numbered_in_the_release() -> None:
    _, table = released(families())
    places = pl.int_range(1, pl.len() + 1).over("family")
    assert table.select((pl.col("childNum") == places).all()).item()


@pytest.mark.slow
def test_items_of_which_everybody_has_one_row_each_stay_one_row_each() -> None:
    rng = np.random.default_rng(0)
    rows = [
        (unit, f"item {item}", f"question {item}", round(float(rng.normal(50 + 9 * item, 5)), 0))
        for unit in range(90)
        for item in range(6)
        if item < 5 or unit % 4 == 0  # the last is asked of a quarter
    ]
    table = pl.DataFrame(rows, schema=["unit", "item", "title", "rate"], orient="row")
    _, found = released(table[rng.permutation(table.height)])
    assert found.select("unit", "item").is_duplicated().sum() <= 0.02 * found.height
    title = found.select(pl.col("title").str.tail(1) == pl.col("item").str.tail(1))
    assert title.to_series().all()
    assert (found["item"] == "item 5").any()


def spells(n: int = 200) -> pl.DataFrame:
    """Return spells that begin where the one before ended, two rows each, under any name."""
    rng = np.random.default_rng(0)
    rows = []
    for who in range(n):
        begin, end = 0, 0
        for _ in range(int(rng.integers(1, 6))):
            begin, end = end, end + int(rng.gamma(2.0, 150)) + 5
            rows += [(who, begin, end, "a", 0), (who, begin, end, "b", 1)]
    names = ["who", "tbeg", "tfin", "way", "left"]
    return pl.DataFrame(rows, schema=names, orient="row")


@pytest.mark.slow
def test_a_time_without_a_name_gives_the_order_and_what_never_falls_does_not() -> None:
    table = spells()
    schema = Schema(infer_columns(table))
    assert find_order(table, schema, table["who"].to_numpy()) == ("tbeg",)
    condenser, found = released(table)
    assert any("in the order of 'tbeg'" in note for note in condenser.notes_)
    falls = found.select((pl.col("tbeg", "tfin").diff() < 0).over("who")).sum()
    assert falls.row(0) == (0, 0)
    pairs = found.group_by("who", "tbeg").agg(pl.col("tfin").n_unique())
    assert (pairs["tfin"] == 1).mean() >= 0.9


@pytest.mark.slow
def test_a_number_that_hardly_changes_in_a_person_hardly_changes_in_the_release() -> None:
    rng = np.random.default_rng(0)
    who, year = np.repeat(np.arange(150), 8), np.tile(np.arange(8), 150)
    late = year >= rng.integers(1, 20, 150)[who]
    weight = rng.integers(50, 110, 150)[who] + late * rng.integers(1, 6, 150)[who]
    table = pl.DataFrame({"who": who, "year": 2000 + year, "weight": weight})
    _, found = released(table)
    stays = (pl.col("weight") == pl.col("weight").shift(1)).over("who")
    same = [frame.select(stays.drop_nulls().mean()).item() for frame in (table, found)]
    assert abs(same[1] - same[0]) < 0.08


def test_a_table_in_which_hardly_anybody_has_two_rows_is_released_row_by_row() -> None:
    rng = np.random.default_rng(0)
    ring = np.r_[np.arange(400), [7, 9]]
    table = pl.DataFrame({"ring": ring, "x": rng.normal(size=402), "y": rng.normal(size=402)})
    condenser, found = released(table)
    assert found.columns == ["x", "y"]
    assert any("hardly anybody in column 'ring'" in note for note in condenser.notes_)
    assert condenser.groups_.people.min() >= 10


def test_what_differs_in_all_rows_of_a_person_by_chance_is_no_order() -> None:
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(60), 3)
    table = pl.DataFrame({"who": who, "income": rng.integers(0, 10**6, 180), "x": rng.random(180)})
    schema = Schema(infer_columns(table))
    assert find_order(table, schema, who) == ()


def test_two_columns_together_tell_the_rows_of_a_person_apart() -> None:
    rng = np.random.default_rng(0)
    who, row = np.repeat(np.arange(60), 8), np.tile(np.arange(8), 60)
    table = pl.DataFrame(
        {"who": who, "centre": 1 + row // 4, "visit": 1 + row % 4, "x": rng.normal(size=480)}
    ).sample(fraction=1, shuffle=True, seed=1)
    condenser, found = released(table)
    assert any("in the order of 'centre' and 'visit'" in note for note in condenser.notes_)
    assert found.n_unique(["who", "centre", "visit"]) == found.height


def test_few_people_who_all_have_the_same_days_have_them_in_the_release() -> None:
    rng = np.random.default_rng(0)
    who, day = np.repeat(np.arange(18), 10), np.tile(np.arange(10), 18)
    table = pl.DataFrame({"who": who, "day": day, "speed": rng.normal(300, 40, 180).round(2)})
    made = Condenser(10, columns={"who": "person"}, order=["day"], random_state=0).fit_resample(
        table
    )
    days = made.group_by("who").agg("day")["day"]
    assert days.to_list() == [list(range(10))] * 18
