"""Questions of one battery, words in an order, and codes of a system."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tulle import Condenser
from tulle.guessing.columns import guess_columns, infer_columns
from tulle.table._words import places_on_scale
from tulle.table.schema import Column, Kind

K = 10


def battery(rng: np.random.Generator, rows: int = 1400) -> pl.DataFrame:
    """Four answers from 0 to 10 that go together; in two of them 8 is as popular as 5."""
    trust = rng.normal(size=rows)
    columns = {}
    for name, heap in (("imbgeco", 8), ("imueclt", 0), ("imwbcnt", 0), ("lrscale", 8)):
        answer = np.clip(np.rint(5 + 2.2 * (0.78 * trust + 0.63 * rng.normal(size=rows))), 0, 10)
        heaped = (answer == 7) & (heap > 0) & (rng.random(rows) < 0.7)
        columns[name] = np.where(heaped, heap, answer).astype(int)
    return pl.DataFrame(columns)


def test_questions_of_one_battery_have_one_kind_and_keep_their_correlation():
    table = battery(np.random.default_rng(2))
    columns = infer_columns(table)
    assert {column.kind for column in columns} == {Kind.ORDERED}
    asked = [column.name for column in columns if column.reason.startswith("a question like")]
    assert asked == ["imbgeco", "lrscale"]  # which alone would be codes
    release = Condenser(k=K, columns=columns, random_state=1).fit(table).sample()
    for first, second in (("imbgeco", "imwbcnt"), ("imueclt", "lrscale")):
        before, after = (np.corrcoef(t[first], t[second])[0, 1] for t in (table, release))
        assert before == pytest.approx(0.6, abs=0.05)
        assert after == pytest.approx(before, abs=0.05)


def test_columns_that_are_only_numbered_are_no_battery():
    rng = np.random.default_rng(3)
    answers = 1 + rng.binomial(4, 0.5, 900)
    codes = rng.choice([1, 2, 3, 4, 5], 900, p=[0.4, 0.05, 0.3, 0.05, 0.2])
    alike = pl.DataFrame({"q1": answers, "q2": codes})
    assert [g.column.kind for g in guess_columns(alike)] == [Kind.ORDERED] * 2
    others = alike.with_columns(q3=pl.Series(rng.normal(size=900)), q4=pl.Series(codes % 2))
    assert [g.column.kind for g in guess_columns(others)][:2] == [Kind.ORDERED, Kind.CATEGORY]


ORDERS = {
    "load": ["low", "medium", "high"],
    "how_often": ["never", "rarely", "sometimes", "often", "always"],
    "agree": ["strongly disagree", "disagree", "neutral", "agree", "strongly agree"],
    "Monat": ["Januar", "Februar", "März", "April", "Mai", "Juni", "Oktober", "Dezember"],
    "day": ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"],
    "shirt": ["S", "M", "L", "XL"],
    "grade": ["F", "D", "C", "B", "A"],
    "age_group": ["<18", "18-24", "25-34", "35-64", "65+"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ORDERS)
def test_words_in_an_order_are_ordered(name):
    rng = np.random.default_rng(4)
    table = pl.DataFrame({name: rng.choice(ORDERS[name], 500), "z": rng.normal(size=500)})
    column = infer_columns(table)[0]
    assert column.kind is Kind.ORDERED
    assert "words in an order" in column.reason
    condenser = Condenser(k=K, columns=[column, Column("z", Kind.DECIMAL)], random_state=1)
    release = condenser.fit(table).sample()
    assert set(release[name]) == set(ORDERS[name])
    places = places_on_scale(ORDERS[name])
    assert places == sorted(places)


def test_the_order_of_words_carries_a_relation():
    rng = np.random.default_rng(5)
    steps = ["low", "medium", "high"]
    place = rng.integers(0, 3, 1000)
    table = pl.DataFrame({"z": place + 0.7 * rng.normal(size=1000), "load": np.array(steps)[place]})
    release = Condenser(k=K, columns=infer_columns(table), random_state=1).fit(table).sample()
    before, after = (
        np.corrcoef(t["z"], [steps.index(word) for word in t["load"]])[0, 1]
        for t in (table, release)
    )
    assert after == pytest.approx(before, abs=0.05)


@pytest.mark.parametrize(
    "values",
    [["S", "M", "D"], ["a", "b", "c"], ["red", "low", "high"], ["1. single", "2. married"]],
)
def test_letters_and_other_words_are_no_scale(values):
    table = pl.DataFrame({"x": np.random.default_rng(1).choice(values, 300)})
    assert infer_columns(table)[0].kind is Kind.CATEGORY


def test_words_for_no_value_stand_next_to_a_scale():
    rng = np.random.default_rng(6)
    table = pl.DataFrame({"x": rng.choice(["low", "medium", "high", "unknown"], 400)})
    column = infer_columns(table)[0]
    assert (column.kind, column.missing) == (Kind.ORDERED, ("unknown",))
    table = pl.DataFrame({"x": rng.choice(["none", "low", "high"], 400)})
    assert infer_columns(table)[0].missing == ()  # a step of the scale


def test_rare_codes_of_a_system_are_merged_into_their_beginnings():
    rng = np.random.default_rng(7)
    codes = [f"{chapter}.{digit}" for chapter in ("J45", "I10", "E11") for digit in range(10)]
    rare = [f"A{place}.{digit}" for place in range(10, 19) for digit in range(2)]
    table = pl.DataFrame({"icd": [*rng.choice(codes, 200), *rare], "z": rng.normal(size=218)})
    found = guess_columns(table)[0]
    assert (found.column.kind, found.column.hierarchy) == (Kind.CATEGORY, (3, 1))
    assert found.column.role.released
    release = Condenser(k=K, columns=infer_columns(table), random_state=1).fit(table).sample()
    shown = set(release["icd"])
    assert {"J45", "I10", "E11"} <= shown
    assert "A" in shown
    assert not shown & set(rare)
