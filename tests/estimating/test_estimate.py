"""Answers of releases: copies as one, intervals from a ledger, and what cannot be answered."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

from tulle import DataError, GateError, ParameterError, error_ledger, estimate
from tulle.estimating.ledger import Errors, usual_questions, without_codes


def table(seed: int, n: int = 600, slope: float = 1.0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    group = rng.choice(["a", "b", "c"], n)
    y = slope * x + 0.5 * (group == "b") + rng.normal(size=n)
    flag = (rng.random(n) < 1 / (1 + np.exp(-x))).astype(int)
    return pl.DataFrame({"x": x, "y": y, "group": group, "flag": flag})


def fake(factor: float = 2.0, *, copies: int = 1, k: int = 10) -> dict[str, Any]:
    kinds = {"mean": {"factor": factor, "columns": {"y": factor + 1}}}
    return {"format": 1, "k": k, "copies": copies, "splits": 0, "kinds": kinds, "asked": {}}


def test_the_estimate_of_copies_is_their_mean() -> None:
    copies = [table(seed) for seed in range(4)]
    found = estimate(copies, "mean(y)")
    assert found["estimate"][0] == pytest.approx(np.mean([one["y"].mean() for one in copies]))
    within = np.mean([one["y"].var() / one.height for one in copies])
    assert found["standard_error"][0] == pytest.approx(within**0.5)


def test_without_a_ledger_there_is_no_interval() -> None:
    (row,) = estimate(table(0), "mean(y)").to_dicts()
    assert row["low"] is row["high"] is None
    assert "no error ledger" in row["note"]


def test_the_interval_is_as_wide_as_the_worst_of_its_columns() -> None:
    (plain,) = estimate(table(0), "mean(x)", ledger=fake()).to_dicts()
    assert plain["high"] - plain["estimate"] == pytest.approx(2 * plain["standard_error"])
    (wider,) = estimate(table(0), "mean(y)", ledger=fake()).to_dicts()
    assert wider["estimate"] - wider["low"] == pytest.approx(3 * wider["standard_error"])


def test_fewer_copies_than_were_measured_widen_the_interval() -> None:
    four = fake(copies=4)
    whole = estimate([table(seed) for seed in range(4)], "mean(x)", ledger=four)
    alone = estimate(table(0), "mean(x)", ledger=four)
    halves = [
        float((one["high"] - one["low"])[0] / 2 / one["standard_error"][0])
        for one in (whole, alone)
    ]
    assert halves[0] == pytest.approx(2)
    assert halves[1] == pytest.approx((4 + 1.96**2 * 0.75) ** 0.5)


def test_the_population_adds_the_sampling_error_of_the_original() -> None:
    (row,) = estimate(table(0), "mean(x)", ledger=fake(), population=True).to_dicts()
    half = (row["high"] - row["low"]) / 2 / row["standard_error"]
    assert half == pytest.approx((4 + 1.96**2) ** 0.5)


def test_totals_are_those_of_the_original_whatever_the_number_of_rows() -> None:
    release = table(0)
    (row,) = estimate(release, "total(y)", records=6_000).to_dicts()
    assert row["estimate"] == pytest.approx(10 * release["y"].sum())


@pytest.mark.parametrize(
    ("question", "ledger", "reason"),
    [
        ("mean(x) where x > 2.1", fake(), "fewer than 20 records"),
        ("mean(x)", fake(9.5), "off by more than 8 standard errors"),
        ("mean(x * 0)", fake(), "all records agree"),
        ("share(x > 0)", fake(), "too few estimates of this kind"),
    ],
)
def test_what_cannot_be_answered_is_not(question: str, ledger: Any, reason: str) -> None:
    (row,) = estimate(table(0), question, ledger=ledger).to_dicts()
    assert row["estimate"] is row["low"] is row["high"] is None
    assert row["note"].startswith("this cannot be answered from this release")
    assert reason in row["note"]


def test_what_has_no_numbers_at_all_is_an_error() -> None:
    for question, why in (
        ("ols(y ~ x + 2 * x)", "columns follow from each other"),
        ("mean(y) where x > 99", "no released record meets the condition"),
        ("mean(log(0 * y - 1))", "no released record has a value"),
    ):
        with pytest.raises(GateError, match=f"cannot be answered.*{why}"):
            estimate(table(0), question, ledger=fake())
    with pytest.raises(ParameterError, match="same columns"):
        estimate([table(0), table(0).drop("x")], "mean(y)")
    for broken in ({"format": 9}, {**fake(), "kinds": {"mean": 3}}, {**fake(), "k": "ten"}, []):
        with pytest.raises(DataError, match="not an error ledger"):
            estimate(table(0), "mean(y)", ledger=broken)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "question",
    [
        "share(group == 'd')",
        "mean(y) where x > 0 and group in ('a', 'd')",
        "logit(group == 'd' ~ x)",
        "ols(y ~ x) where group != 'd'",
    ],
)
def test_a_word_that_no_record_has_is_refused(question: str) -> None:
    with pytest.raises(ParameterError, match="no released record has 'd' in column 'group'"):
        estimate(table(0), question)
    estimate(table(0), question.replace("'d'", "'c'"))


# -- the ledger ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_ledger_of_an_honest_release_is_near_what_chance_gives() -> None:
    ledger = error_ledger(table(0, 3_000), table(1, 3_000), random_state=0)
    assert set(ledger["kinds"]) == {"mean", "share", "total", "quantile", "ols", "logit"}
    for found in ledger["kinds"].values():  # both tables are samples: sqrt(2) times 1.96
        assert 1.5 < found["factor"] < 4.5
    assert json.loads(json.dumps(ledger)) == ledger


@pytest.mark.slow
def test_a_release_that_loses_an_effect_has_a_wide_interval_that_covers_it() -> None:
    original, release = table(0, 2_000, slope=0.09), table(1, 2_000, slope=0.0)
    question = "ols(y ~ x + group)"
    ledger = error_ledger(original, release, random_state=0)
    truth = estimate(original, question).row(1, named=True)
    (found,) = estimate(release, question, ledger=ledger)[1:2].to_dicts()
    assert found["term"] == truth["term"] == "x"
    naive = 1.96 * found["standard_error"]
    assert abs(found["estimate"] - truth["estimate"]) > naive
    assert found["low"] <= truth["estimate"] <= found["high"]


@pytest.mark.slow
def test_named_questions_are_measured_on_their_own() -> None:
    original, release = table(0), table(1)
    question = "ols(y ~ x)"
    ledger = error_ledger(original, release, questions=[question], random_state=0)
    own = ledger["asked"][question]
    assert set(own) == {"(intercept)", "x"}
    assert all(factor * 2 == int(factor * 2) for factor in own.values())  # halves: not the error
    truth, found = estimate(original, question), estimate(release, question, ledger=ledger)
    inside = (found["low"] <= truth["estimate"]) & (truth["estimate"] <= found["high"])
    assert inside.all()


@pytest.mark.slow
def test_splits_are_of_nine_tenths_of_the_people() -> None:
    original = table(0, 400).with_columns(person=np.repeat(np.arange(100), 4))
    seen = []

    def make(part: pl.DataFrame) -> list[pl.DataFrame]:
        seen.append(part)
        return [part.drop("person")]

    release = original.drop("person")
    ledger = error_ledger(original, release, make, person="person", splits=2, k=5, random_state=0)
    assert ledger["splits"] == 2
    for part in seen:
        assert part["person"].n_unique() == 90
        assert part.height == 360


def test_nothing_is_measured_that_rests_on_fewer_than_k_people() -> None:
    """Of 200 rows 60 are one person's: what is said of her group rests on one."""
    rng = np.random.default_rng(0)
    n = 200
    group = np.where(np.arange(n) < 60, "hers", "others")
    person = np.where(np.arange(n) < 60, 0, np.arange(n))
    original = pl.DataFrame({"x": rng.normal(size=n) + 9 * (group == "hers"), "group": group})
    release = original.with_columns(x=rng.normal(size=n))
    questions = [q for q in usual_questions(release, 5, rng) if q.by == ("group",)]
    questions = [q for q in questions if q.kind == "mean"]
    counted, rows = Errors(5), Errors(5)
    counted.measure(original, [release], person, questions, [], whole=False)
    rows.measure(original, [release], None, questions, [], whole=False)
    assert max(counted.of_kind["mean"]) < 6 < max(rows.of_kind["mean"])


@pytest.mark.slow
def test_the_ledger_holds_no_estimate_of_the_original() -> None:
    """Another original with the same relation to its release gives nearly the same ledger."""
    one = error_ledger(table(0), table(1), random_state=0)
    moved = [table(seed).with_columns(pl.col("x", "y") + 1_000) for seed in (0, 1)]
    other = error_ledger(*moved, random_state=0)
    assert one["kinds"]["mean"]["factor"] == pytest.approx(
        other["kinds"]["mean"]["factor"], abs=0.2
    )


# -- survey weights ------------------------------------------------------------------------------


def weighted(seed: int, n: int = 600) -> pl.DataFrame:
    rng = np.random.default_rng(seed + 100)
    return table(seed, n).with_columns(w=2 + pl.col("x").tanh() + pl.Series(rng.random(n)))


def test_the_ledger_measures_weighted_estimates() -> None:
    original, release = weighted(0, 2_000), weighted(1, 2_000)
    ledger = error_ledger(original, release, weight="w", questions=["mean(x)"], random_state=0)
    assert ledger["weight"] == "w"
    assert not any("w" in kind["columns"] for kind in ledger["kinds"].values())
    (found,) = estimate(release, "mean(x)", ledger=ledger, weight="w").to_dicts()
    true = float((original["x"] * original["w"]).sum() / original["w"].sum())
    assert found["low"] <= true <= found["high"]
    assert abs(true - float(original["x"].mean())) > 0.1  # type: ignore[arg-type]


def test_a_ledger_says_nothing_of_estimates_with_other_weights() -> None:
    release = weighted(0)
    (row,) = estimate(release, "mean(y)", ledger=fake(), weight="w").to_dicts()
    assert row["estimate"] is None
    assert "weight none" in row["note"]
    (plain,) = estimate(release, "mean(y)", ledger=fake(), weight="").to_dicts()
    assert plain["low"] is not None
    with pytest.raises(ParameterError, match="no column 'v' of weights"):
        estimate(release, "mean(y)", weight="v")


def test_weighted_totals_do_not_grow_with_the_records_of_the_original() -> None:
    release = weighted(0)
    (row,) = estimate(release, "total(y)", records=6_000, weight="w").to_dicts()
    assert row["estimate"] == pytest.approx((release["y"] * release["w"]).sum())


def test_a_ledger_does_not_say_how_far_out_somebody_lies() -> None:
    rng = np.random.default_rng(0)
    plain = rng.normal(40_000, 8_000, 600).round()
    ledgers = []
    for last in (plain[-1], 5e7):
        table = pl.DataFrame({"income": [*plain[:-1], last], "age": rng.integers(18, 80, 600)})
        release = pl.DataFrame({"income": rng.permutation(plain), "age": table["age"]})
        ledgers.append(error_ledger(table, release, questions=["mean(income)"], random_state=0))
    assert ledgers[0]["asked"]["mean(income)"] == ledgers[1]["asked"]["mean(income)"]


def test_codes_of_a_policy_are_missing_in_whole_and_in_other_numbers() -> None:
    frame = pl.DataFrame({"age": [30, 9999, 41], "cost": [1.5, -1.0, 9999.0]})
    blank = without_codes(frame, {"age": [9999, 0.5, "k.A."], "cost": [9999, -1], "gone": [1]})
    assert blank["age"].to_list() == [30, None, 41]
    assert blank["cost"].to_list() == [1.5, None, None]
