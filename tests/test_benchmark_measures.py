"""What the benchmarks of the default release measure: a copy is caught, other people are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import (
    bench_holdout,
    bench_ingredients,
    bench_midst,
    judged_measures,
    judged_tables,
    results,
)
from benchmarks.tabsyn_judge import typed

pytestmark = pytest.mark.slow


def people(rng: np.random.Generator, count: int) -> pd.DataFrame:
    age = rng.integers(20, 80, count)
    return pd.DataFrame(
        {
            "age": age,
            "income": np.exp(rng.normal(age / 40, 1)),
            "job": rng.choice(["cook", "clerk", None], count),
            "ill": rng.random(count) < age / 100,
        }
    )


@pytest.fixture
def three_tables(rng: np.random.Generator) -> list[pd.DataFrame]:
    return [people(rng, 300) for _ in range(3)]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_members_of_a_copy_are_found_and_of_other_people_are_not(three_tables) -> None:
    other, members, strangers = three_tables
    truth = np.arange(300) < 150
    for release, low, high in ((members, 0.75, 1.0), (other, 0.4, 0.6)):
        (made, own, others), numeric = judged_measures.as_numbers([release, members, strangers])
        asked = np.vstack([own[:150], others[:150]])
        scores = judged_measures.distances(made, others[150:], asked, numeric)
        for score in scores.values():
            assert low <= judged_measures.caught(truth, score)[0] <= high


def test_cells_keep_missing_values_apart(three_tables) -> None:
    (table,), numeric = judged_measures.as_numbers(three_tables[:1])
    table[:5, 0] = np.nan
    (cells,) = judged_measures.in_cells([table], table, numeric, 6)
    assert set(cells[:5, 0]) == {7}
    assert cells[5:, 0].max() < 7


def test_a_release_of_the_people_themselves_is_as_accurate_as_can_be(three_tables) -> None:
    members, strangers, other = three_tables
    assert bench_holdout.accuracy(members, members) == (1, 1)
    assert bench_holdout.dcr_share(members, strangers, members) > 0.98
    assert 0.4 < bench_holdout.dcr_share(members, strangers, other) < 0.6


def test_results_of_other_versions_are_kept(monkeypatch, tmp_path: Path, capsys) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setattr(judged_tables, "RESULTS", tmp_path)
    for label, score in (("before", 0.5), ("after", 0.6), ("after", 0.7)):
        judged_tables.write_versions("t", "T", ["table", "score"], [["a", score]], label, False)
    text = (tmp_path / "t.md").read_text()
    assert "| before | a | 0.500 |" in text
    assert "| after | a | 0.700 |" in text
    assert "0.600" not in text


def test_each_ingredient_that_is_taken_out_changes_the_release(rng: np.random.Generator) -> None:
    table = people(rng, 1500).assign(age=lambda t: t.age + rng.normal(size=len(t)).round(1))
    made = {}
    for name, (values, more) in bench_ingredients.VARIANTS.items():
        with bench_ingredients.setting(values):
            made[name] = judged_tables.release(table, 5, 0, **more)
    default = made.pop("the default")
    assert not [name for name, other in made.items() if other.equals(default)]


def transactions(rng: np.random.Generator, count: int, first: int) -> pd.DataFrame:
    numbers = {name: rng.normal(size=count).round(3) for name in bench_midst.NUMBERS}
    texts = {name: rng.integers(0, 4, count) for name in bench_midst.TEXTS}
    ids = {"trans_id": first + np.arange(count), "account_id": rng.integers(0, 40, count)}
    return pd.DataFrame(ids | numbers | texts)


def test_transactions_of_a_copy_are_named_and_of_another_set_are_not(rng) -> None:
    members, strangers, population = (transactions(rng, 300, first) for first in (0, 300, 600))
    truth = np.arange(600) < 300
    asked = pd.concat([members, strangers], ignore_index=True)
    target = bench_midst.Target(members, asked, truth, population)
    sight = bench_midst.Sight(target)
    copy = bench_midst.by_each(sight.signals(members, 0, deep=False), truth)
    other = transactions(rng, 300, 900)
    null = bench_midst.by_each(sight.signals(other, 0, deep=False), truth)
    assert copy[:2] == [1, 1]
    assert max(null) < 0.2


def test_the_ensemble_names_those_who_leave_a_trace_in_shadows(rng) -> None:
    inside = rng.random((24, 200)) < 0.5
    usual = rng.normal(0, 3, (220, 2))  # what each candidate looks like anywhere

    def seen(chosen: np.ndarray) -> np.ndarray:
        trace = np.r_[chosen, np.zeros(20)][:, None]
        return usual + rng.normal(0, 0.5, (220, 2)) + trace

    shadows = np.array([seen(chosen) for chosen in inside])
    truth = rng.random(200) < 0.5
    named = bench_midst.ensemble(shadows, inside)
    score, null = (named(seen(who)) for who in (truth, truth * 0))
    assert bench_midst.caught(score, truth) > 0.7
    assert bench_midst.caught(null, truth) < 0.2


def test_codes_are_written_alike_where_one_is_missing() -> None:
    whole = typed(pd.DataFrame({"code": [1, 2], "size": [1, 2]}), ["size"])
    holed = typed(pd.DataFrame({"code": [1, 2, None], "size": [1, 2, 3]}), ["size"])
    assert list(whole["code"]) == list(holed["code"])[:2] == ["1", "2"]
