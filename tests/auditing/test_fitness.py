"""Fitness for use and who is at risk, in audits of tables of which the answer is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from tulle import Column, DataError, Kind, Policy, Role, audit
from tulle._attacks.records import nearest
from tulle._attacks.result import Scene
from tulle.auditing import _fitness as fitness_module
from tulle.auditing._fitness import celled
from tulle.auditing._learning import _split
from tulle.auditing._measures import associations
from tulle.auditing._people import in_register, linkability, linkage_known
from tulle.auditing._tables import align, align_made


def people(rows: int, seed: int) -> pl.DataFrame:
    """Towns in their states, hours with a heap, an end after the begin, an income of adults."""
    rng = np.random.default_rng(seed)
    town, age = rng.integers(0, 9, rows), rng.integers(1, 80, rows)
    begin = rng.uniform(0, 100, rows).round(1)
    pay = np.where(age < 15, np.nan, rng.normal(1000 + 20 * age, 100))
    return pl.DataFrame(
        {
            "town": [f"t{t}" for t in town],
            "state": [f"s{t // 3}" for t in town],
            "hours": np.where(rng.random(rows) < 0.5, 40, rng.integers(1, 60, rows)),
            "age": age,
            "pay": pay,
            "begin": begin,
            "end": begin + rng.exponential(5, rows).round(1),
        }
    ).with_columns(pl.col("pay").fill_nan(None))


def spoilt(table: pl.DataFrame) -> pl.DataFrame:
    """Every column shuffled on its own, the heap smoothed away, a pile made of another value."""
    rng = np.random.default_rng(9)
    shuffled = pl.DataFrame([column.shuffle(seed=i) for i, column in enumerate(table)])
    hours = rng.integers(1, 60, table.height)
    hours[: table.height // 5] = 0
    return shuffled.with_columns(pl.Series("hours", hours))


@pytest.fixture(scope="module")
def tables() -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    return people(1200, 0), people(1200, 1), people(300, 2)


@pytest.fixture(scope="module")
def good(tables: Any) -> dict[str, Any]:
    return audit(*tables, random_state=0, attempts=200).to_dict()


@pytest.fixture(scope="module")
def bad(tables: Any) -> dict[str, Any]:
    return audit(tables[0], spoilt(tables[0]), tables[2], random_state=0, attempts=200).to_dict()


def test_fresh_people_are_fit_for_use(good: dict[str, Any]) -> None:
    found = good["metrics"]
    assert found["rules_broken"] == found["odd_values"] == found["heaps_piled"] == 0
    assert found["heaps_kept"] > 0.9
    assert found["k_marginal"] > 750
    assert found["equivalent_subsample"] > 0.25
    assert found["propensity_auc"] < 0.6
    assert found["missing_patterns"] < 0.1
    assert found["regression_kept"] > 0.8
    assert found["cluster_error"] < 1.2


def test_a_spoilt_release_is_not(good: dict[str, Any], bad: dict[str, Any]) -> None:
    better, worse = good["metrics"], bad["metrics"]
    assert worse["rules_broken"] > 0.6
    assert worse["rules_broken_control"] == 0
    assert worse["heaps_kept_min"] < 0.1 < 0.8 < better["heaps_kept_min"]
    assert worse["heaps_piled"] == pytest.approx(0.2, abs=0.02)
    assert worse["k_marginal"] < better["k_marginal"] - 100
    assert worse["equivalent_subsample"] < better["equivalent_subsample"]
    assert worse["propensity_auc"] > 0.8
    assert worse["unseen_pairs"] > 0.5
    assert worse["regression_kept"] < better["regression_kept"]
    assert worse["cluster_error"] > better["cluster_error"]


def test_the_worst_column_and_the_broken_relations_come_first(bad: dict[str, Any]) -> None:
    blocks = next(s for s in bad["sections"] if s["id"] == "fitness")["blocks"]
    columns = next(b for b in blocks if b["type"] == "table" and b["columns"][0] == "column")
    scores = [row[1] for row in columns["rows"]]
    assert scores == sorted(scores)
    assert columns["rows"][0][0] == "hours"
    laws = next(b for b in blocks if b["type"] == "table" and b["columns"][0] == "relation")
    told = {row[0]: row[1] for row in laws["rows"]}
    assert told["'state' follows from 'town'"] == pytest.approx(2 / 3, abs=0.06)
    assert told["whether 'pay' is missing follows from 'age'"] > 0.2
    assert told["'begin' is never larger than 'end'"] > 0.3


@pytest.mark.slow
def test_a_copy_is_matched_and_tells_who_is_at_risk(tables: Any) -> None:
    found = audit(tables[0], tables[0], tables[2], random_state=0, attempts=200).to_dict()
    metrics = found["metrics"]
    assert metrics["unique_matches"] == metrics["equivalent_subsample"] == 1
    assert metrics["unique_matches_control"] == 0
    assert metrics["disco_control"] < 0.05
    assert metrics["k_marginal"] == 1000
    assert metrics["disco"] > 0.9
    assert metrics["replicated_uniques"] > 0.99
    assert metrics["copied_combinations"] == metrics["epsilon_risk"] == 1
    assert metrics["dcr_share"] > 0.55  # of the people only as many count as were kept out
    assert metrics["nnaa"] == 0
    assert metrics["nnaa_privacy_loss"] > 0.05
    assert metrics["proximity_breach"] > 0.9 > 0.5 > metrics["proximity_breach_control"]
    assert metrics["divergence_breach"] < 0.1  # of most people only their own record is like them
    assert metrics["nearer_excess"] == metrics["nearer_excess_apart"] > 0.4
    rows = next(s for s in found["sections"] if s["id"] == "people")["blocks"][0]["rows"]
    assert [row[0] for row in rows] == ["everybody", "the tenth that stands most apart"]
    assert found["attacks"]["linkability"]["rate"] == 1


@pytest.mark.slow
def test_without_a_control_nobody_is_said_to_be_at_risk(tables: Any) -> None:
    found = audit(tables[0], tables[1], random_state=0, attempts=50).to_dict()
    assert not [s for s in found["sections"] if s["id"] == "people"]
    assert "nearer_excess" not in found["metrics"]
    assert "the original" in found["provenance"]["distinguishability"]


def test_halves_are_joined_as_a_double_loop_joins_them(tables: Any) -> None:
    aligned = align(tables[0], spoilt(tables[0]), tables[2], None)
    scene = Scene(aligned.original, aligned.release, aligned.control, 5000)
    result = linkability(scene, np.random.default_rng(0))
    halves = aligned.original.columns[::2], aligned.original.columns[1::2]
    for records, count in (
        (aligned.original, result.successes),
        (aligned.control, result.control_successes),
    ):
        near = [nearest(records.only(h), aligned.release.only(h)).rows[:, 0] for h in halves]
        assert count == sum(int(a) == int(b) for a, b in zip(*near))
    one = align(tables[0].select("age"), tables[1].select("age"), None, None)
    assert linkability(Scene(one.original, one.release), np.random.default_rng(0)) is None


@pytest.mark.slow
def test_a_register_finds_the_people_who_are_in_it(tables: Any) -> None:
    members, control = tables[0], tables[2]
    shared = ["town", "age", "begin", "pay"]
    register = pl.concat([members.head(100), control.head(50)]).select(shared)
    register = pl.concat([register, register.head(10)])  # two entries are no certain match
    aligned = align(members, members, control, None)
    found = in_register(aligned, register.with_columns(name=pl.lit("Jane")))
    assert found.columns == ("town", "age", "pay", "begin")
    assert found.rows == 160
    assert found.original.tolist() == list(range(10, 100))
    assert found.control.tolist() == list(range(50))
    scene = Scene(aligned.original, aligned.release, aligned.control)
    result = linkage_known(scene, np.random.default_rng(0), register=found)
    assert (result.attempts, result.successes) == (90, 90)
    assert (result.control_attempts, result.control_successes) == (50, 0)
    audited = audit(members, members, control, known=register, random_state=0, attempts=50)
    assert audited.to_dict()["attacks"]["linkage_known"]["rate"] == 1
    strangers = register.with_columns(pl.col("age") + 500)
    nobody = audit(members, members, control, known=strangers, random_state=0, attempts=50)
    assert "linkage_known" not in nobody.to_dict()["attacks"]
    with pytest.raises(DataError, match="7"):
        audit(members, members, known=pl.DataFrame({"other": [1]}), random_state=0)


def test_cells_of_words_numbers_and_gaps() -> None:
    left = pl.DataFrame({"a": ["x", None, "y"], "n": [1.0, None, 2.0], "b": [True, False, None]})
    cells = celled(align(left, left.reverse(), None, None))
    assert cells.names == ("a", "n", "b")
    assert cells.original.tolist() == [[1, 1, 2], [0, 0, 1], [2, 2, 0]]
    assert (cells.release == cells.original[::-1]).all()
    assert cells.sizes == (3, 3, 3)


@pytest.mark.slow
def test_rules_of_the_policy_are_held_against_the_release() -> None:
    original = pl.DataFrame({"low": [1, 2, 3] * 40, "high": [2, 4, 9] * 40, "word": ["a"] * 120})
    release = original.with_columns(pl.when(pl.int_range(120) < 30).then(0).otherwise("high")
                                    .alias("high"))  # fmt: skip
    columns = [
        Column("low", Kind.INTEGER),
        Column("high", Kind.INTEGER),
        Column("word", Kind.CATEGORY),
    ]
    policy = Policy(columns, rules=("low <= high",))
    found = audit(original, release, policy=policy, random_state=0, attempts=20).to_dict()
    assert found["metrics"]["stated_rules_broken"] == 0.25
    section = next(s for s in found["sections"] if s["id"] == "stated-rules")
    assert section["blocks"][0]["rows"] == [["low <= high", 0.25]]
    assert found["verdict"]["use"]["level"] == "bad"
    none = audit(original, release, policy=Policy(columns, rules=()), random_state=0, attempts=20)
    assert "stated_rules_broken" not in none.to_dict()["metrics"]


@pytest.mark.slow
def test_a_table_that_is_measured_on_samples_is_attacked_whole(
    tables: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitness_module, "MOST_RECORDS", 100)
    found = audit(tables[0], tables[0], tables[2], random_state=0, attempts=50).to_dict()
    assert found["metrics"]["disco"] > 0.9
    assert found["metrics"]["proximity_breach"] > 0.9


def test_subgroups_of_whole_numbers_are_named_where_samples_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fitness_module, "MOST_RECORDS", 100)
    table = people(200, 0).select("pay", floor=pl.col("age") % 3)
    found = audit(table, table, random_state=0, attempts=20, k=5).to_dict()
    fit = next(section for section in found["sections"] if section["id"] == "fitness")
    groups = next(b for b in fit["blocks"] if b.get("title", "").startswith("Subgroups"))
    assert {row["label"] for row in groups["rows"]} == {"floor: 0", "floor: 1", "floor: 2"}


def test_a_model_is_tested_on_other_people() -> None:
    who = np.repeat(np.arange(40), 3)
    table = pl.DataFrame({"person": who, "x": np.arange(120.0)})
    columns = [Column("person", Kind.INTEGER, Role.PERSON), Column("x", Kind.DECIMAL)]
    tables = align_made(table, table.drop("person"), None, columns)
    train, test = _split(tables, np.random.default_rng(0))
    assert len(np.unique(test[0].people)) == 12
    assert not set(train[0].people.tolist()) & set(test[0].people.tolist())


def test_effects_of_what_hardly_anybody_has_are_not_judged() -> None:
    rng = np.random.default_rng(0)
    x, rare = rng.normal(size=400), np.where(rng.random(400) < 0.03, 1.0, 0.0)
    table = pl.DataFrame({f"y{n}": x + 9 * rare + rng.normal(size=400) for n in range(3)})
    table = table.with_columns(x=pl.Series(x), rare=pl.Series(rare))
    other = table.with_columns(rare=pl.Series(rng.permutation(rare)))
    found, _ = fitness_module._effects(align(table, other, None, None), rng)
    assert found["effects_lost"] == 0
    common = table.with_columns(rare=pl.Series((rng.random(400) < 0.4).astype(float)))
    common = common.with_columns(pl.col(f"y{n}") + 9 * pl.col("rare") for n in range(3))
    lost = common.with_columns(rare=pl.Series(rng.permutation(common["rare"].to_numpy())))
    found, told = fitness_module._effects(align(common, lost, None, None), rng)
    assert found["effects_lost"] > 0.2
    assert "rare" in str(told)


def test_survey_weights_are_judged_by_what_they_are_for_and_not_by_looks() -> None:
    """They were calibrated: none of them is a value that the original has."""
    table = people(600, 0).with_columns(weight=pl.Series(np.tile([0.5, 1.0, 1.5], 200)))
    release = people(600, 1).with_columns(weight=pl.Series(np.tile([0.503, 1.007, 1.511], 200)))
    policy = [Column("weight", Kind.DECIMAL, Role.WEIGHT)]
    found = audit(table, release, policy=policy, random_state=0).to_dict()["metrics"]
    assert found["propensity_auc"] < 0.65
    assert found["heaps_kept_min"] > 0.7
    assert found["weighted_difference"] < 0.2


def test_a_column_in_another_scale_is_no_cause_of_its_own() -> None:
    rng = np.random.default_rng(0)
    age, school = rng.uniform(20, 60, 600), rng.normal(size=600)
    wage = np.exp(1 + 0.03 * age + 0.3 * school + rng.normal(0, 0.3, 600))
    table = pl.DataFrame({"age": age, "school": school, "wage": wage, "lwage": np.log(wage)})
    repeated = fitness_module._repeated(align(table, table, None, None).original)
    assert repeated == ["lwage"]
    # what is left of the effects is what an analyst asks for: age and school on wage, and back
    found, _ = fitness_module._effects(align(table, table, None, None), rng)
    assert found["effects_lost"] == 0


def test_associations_are_those_of_what_many_people_have() -> None:
    """A town of one person, and two numbers of which a few have both, say nothing of a release."""
    rng = np.random.default_rng(0)
    state = rng.choice(["a", "b"], 500)
    town = np.where(state == "a", "x", "y").astype(object)
    town[:6], state[:6] = [f"t{i}" for i in range(6)], [f"s{i}" for i in range(6)]
    some = np.where(np.arange(500) < 20, rng.normal(size=500), np.nan)
    table = pl.DataFrame({"state": state, "town": town.astype(str), "x": some, "y": -some})
    table = table.with_columns(pl.col("x", "y").fill_nan(None))
    shuffled = table.with_columns(pl.col("y").reverse())
    found = associations(align(table, shuffled, None, None))
    place = found.names.index
    assert np.isnan(found.original[place("x"), place("y")])
    kept = table.with_columns(
        pl.when(pl.col("town").str.starts_with("t"))
        .then(pl.lit("x"))
        .otherwise("town")
        .alias("town"),
        pl.when(pl.col("state").str.starts_with("s"))
        .then(pl.lit("a"))
        .otherwise("state")
        .alias("state"),
    )
    both = associations(align(table, kept, None, None))
    names = place("state"), place("town")
    assert abs(both.original[names] - both.release[names]) < 0.3


def test_what_one_outlier_makes_of_an_association_no_release_has_to_keep() -> None:
    rng = np.random.default_rng(5)
    table = pl.DataFrame(rng.normal(size=(900, 3)), schema=["x", "y", "z"])
    typo = pl.DataFrame({"x": [60.0], "y": [60.0], "z": [0.0]})
    found = audit(pl.concat([table[:299], typo]), table[300:600], random_state=0)
    assert found.result["metrics"]["correlation_difference_max"] > 0.8
    assert found.result["chance"]["correlation_difference_max"] > 0.8
    lost = [text for text in found.verdict["use"]["details"] if "association" in text.lower()]
    assert not lost
    kept = table[:300].with_columns(y=pl.col("x") + 0.3 * pl.col("y"))
    found = audit(kept, kept.with_columns(pl.col("y").shuffle(seed=1)), random_state=0)
    assert found.result["chance"]["correlation_difference_max"] < 0.2
    assert found.verdict["use"]["level"] == "bad"
