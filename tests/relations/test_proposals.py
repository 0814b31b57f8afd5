"""Rules that are found: those that were built in, and hardly any others."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from benchmarks.wards import hospital
from tulle import Condenser
from tulle._relations.language import parse_rule
from tulle._relations.proposals import find_rules, propose_rules
from tulle._relations.values import Values, quantity
from tulle.table._encoder import TableEncoder


def proposals(table: pl.DataFrame, k: int = 10) -> dict[str, tuple[int, int]]:
    """Return the proposed rules with the records they speak of and the exceptions."""
    found = propose_rules(*_arguments(table, k))
    return {one.rule.text: (one.records, one.exceptions) for one in found}


def _arguments(table: pl.DataFrame, k: int):
    encoder = TableEncoder().fit(table)
    columns = {c.name: c for c in encoder.plain(table, k, np.random.default_rng(0))}
    return table, columns, k, None, {}


def test_the_rules_of_a_hospital_are_found() -> None:
    table = hospital(2000)
    found = proposals(table)
    discharged = table["discharged"].drop_nulls().len()
    assert found["stay = discharged - admitted"] == (discharged, 0)
    assert found["admitted <= discharged"] == (discharged, 0)
    assert found["age = years(born, admitted)"] == (2000, 0)
    assert found["bmi = 10000 * weight / height ** 2"] == (table["bmi"].drop_nulls().len(), 0)
    assert found["income is missing if age < 15"] == ((table["age"] < 15).sum(), 0)
    assert found['births = 0 if sex = "m"'] == ((table["sex"] == "m").sum(), 0)
    assert "diagnosis -> ward" in found
    sums = [text for text in found if text.startswith("total = ")]
    assert len(sums) == 1
    assert {"treatment", "drugs", "room"} <= set(sums[0].split())
    assert all(exceptions == 0 for _, exceptions in found.values())


def _computed(n: int = 600) -> tuple[pl.DataFrame, set[str]]:
    """Return a table whose columns were computed from others, and the formulas."""
    rng = np.random.default_rng(0)
    c, whole = pl.col, rng.integers
    base = pl.DataFrame(
        {
            "wage": rng.lognormal(2, 0.6, n).round(2),
            "exper": whole(0, 40, n),
            "sales": np.where(rng.random(n) < 0.2, 0, rng.gamma(2, 100, n).round()),
            "hours": whole(10, 60, n),
            "cases": whole(1, 900, n),
            "number": whole(1000, 9000, n),
            **{f"q{i}": whole(0, 5, n) for i in (1, 2, 3)},
            "wood": whole(0, 60, n),
            "field": whole(0, 40, n),
            **{name: whole(0, 2, n) for name in ("south", "union")},
            "temp": rng.normal(12, 8, n).round(1),
            "days": whole(1, 400, n),
        }
    )
    table = base.with_columns(
        lwage=c("wage").log().round(6),
        exper2=c("exper") ** 2,
        lsales=pl.when(c("sales") > 0).then(c("sales").log().round(5)).otherwise(0.0),
        more=c("sales").log1p().round(5),
        pay=(c("wage") * c("hours")).round(2),
        rate=(100 * c("cases") / c("number")).round(1),
        score=c("q1") + c("q2") + c("q3"),
        rest=100 - c("wood") - c("field"),
        south_hours=c("south") * c("hours"),
        both=c("south") * c("union"),
        fahrenheit=(1.8 * c("temp") + 32).round(2),
        again=c("days"),
        root=c("days").sqrt().round(4),
        every=(1000 / c("days")).round(3),
        first=pl.min_horizontal("cases", "sales"),
        last=pl.max_horizontal("days", "cases"),
    )
    return table, {
        "lwage = log(wage)",
        "exper2 = exper ** 2",
        "lsales = log(sales)",
        "more = log(1 + sales)",
        "pay = wage * hours",
        "rate = 100 * cases / number",
        "score = q1 + q2 + q3",
        "wood + field + rest = 100",
        "south_hours = hours * south",
        "both = south * union",
        "fahrenheit = 1.8 * temp + 32",
        "again = `days`",
        "root = sqrt(`days`)",
        "every = 1000 * 1 / `days`",
        "first = min(sales, cases)",
        "last = max(cases, `days`)",
    }


@pytest.mark.slow
def test_what_was_computed_is_found_and_nothing_else_is() -> None:
    table, formulas = _computed()
    assert set(proposals(table)) == formulas


@pytest.mark.slow
def test_what_was_centred_scaled_or_weighted_is_found_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    n = 500
    educ, age = (rng.integers(low, high, n).astype(float) for low, high in ((6, 21), (18, 70)))
    male, score = (rng.random(n) < 0.6) * 1.0, rng.normal(50, 10, n).round(2)
    centred = age - (age.mean() + 1 / 7)
    z = (score - score.mean()) / score.std()
    made = {"c_age": centred, "z": z, "inter": male * (educ - 14), "more": 2 * educ + 0.5 * age}
    table = pl.DataFrame({"educ": educ, "male": male, "age": age, "score": score} | made)
    found = proposals(table)
    assert {"inter = (educ - 14) * male", "more = 2 * educ + 0.5 * age"} <= found.keys()
    values = Values(table, dict.fromkeys(table.columns))
    for name, most in (("c_age", 0.0), ("z", 1e-14)):
        rule = next(
            parse_rule(text, table.columns) for text in found if text.startswith(f"{name} =")
        )
        formed = quantity(rule.parts[0].args[1], values)
        assert np.abs(formed - table[name].to_numpy()).max() <= most


def test_a_time_of_day_and_a_number_are_in_no_order() -> None:
    rng = np.random.default_rng(0)
    noon = pl.Series(rng.integers(9 * 60, 18 * 60, 400) * 60 * 10**9).cast(pl.Time)
    table = pl.DataFrame({"crop": rng.random(400).round(2) / 4, "seen": noon})
    assert proposals(table) == {}


@pytest.mark.slow
def test_columns_that_were_shuffled_get_no_formula() -> None:
    table, _ = _computed()
    for seed in range(5):
        shuffled = [column.shuffle(seed=seed * 100 + i) for i, column in enumerate(table)]
        assert proposals(pl.DataFrame(shuffled)) == {}


@pytest.mark.slow
def test_missing_values_do_not_hide_a_formula() -> None:
    table, formulas = _computed()
    rng = np.random.default_rng(1)
    holes = table.select(
        pl.when(pl.Series(rng.random(table.height) > 0.1)).then(name) for name in table.columns
    )
    assert {text for text in formulas if text.count("+") < 2} <= set(proposals(holes))


@pytest.mark.parametrize("always", [True, False])
def test_sets_of_columns_of_which_one_is_1_are_found(always: bool) -> None:
    rng = np.random.default_rng(0)
    industry = rng.choice(6 if always else 7, 1_000)
    dummies = {f"i{place}": (industry == place).astype(int) for place in range(6)}
    other = {name: rng.integers(0, 2, 1_000) for name in ("union", "married")}
    found = proposals(pl.DataFrame({"union": other["union"], **dummies, **other}))
    said = "one_of" if always else "at_most_one_of"
    assert set(found) == {f"{said}(i0, i1, i2, i3, i4, i5)"}


def test_rare_columns_of_a_set_stand_among_others_and_are_part_of_it() -> None:
    """Rare trades share no record with other rare columns either, by chance."""
    rng = np.random.default_rng(0)
    trade = rng.choice(6, 600, p=[0.02, 0.3, 0.03, 0.25, 0.01, 0.39])
    dummies = {f"i{place}": (trade == place).astype(int) for place in range(6)}
    rare = {name: (rng.random(600) < 0.02).astype(int) for name in ("ill", "abroad")}
    names = ["i0", "ill", "i1", "i2", "abroad", "i3", "i4", "i5"]
    found = proposals(pl.DataFrame({**dummies, **rare}).select(names))
    assert set(found) == {"one_of(i0, i1, i2, i3, i4, i5)"}


@pytest.mark.slow
def test_columns_that_have_nothing_to_do_with_each_other_get_no_rule() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        n = 1500
        table = pl.DataFrame(
            {
                **{f"x{i}": rng.normal(100, 10 + i, n).round(2) for i in range(4)},
                "count": rng.poisson(2, n),
                "amount": rng.lognormal(5, 1, n).round(2),
                "mostly_zero": np.where(rng.random(n) < 0.7, 0, rng.integers(1, 50, n)),
                "town": rng.choice(list("abcdef"), n, p=[0.4, 0.3, 0.15, 0.1, 0.03, 0.02]),
                "sex": rng.choice(["f", "m"], n),
                "gaps": pl.Series(rng.normal(size=n)).set(pl.Series(rng.random(n) < 0.3), None),
                "day": np.datetime64("2020-01-01") + rng.integers(0, 1000, n),
                "other_day": np.datetime64("2020-01-01") + rng.integers(0, 1000, n),
            }
        )
        assert proposals(table) == {}


@pytest.mark.slow
def test_a_boolean_that_only_some_ages_allow() -> None:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, 4_000)
    retired = (age > 60) & (rng.random(4_000) < 0.6)
    table = pl.DataFrame({"age": age, "retired": retired, "cost": rng.normal(size=4_000)})
    assert proposals(table) == {'retired = "false" if age < 61': ((age < 61).sum(), 0)}
    condenser = Condenser(k=10, random_state=0)
    release = condenser.fit_resample(table)
    assert [one.rule for one in condenser.rules_] == ['retired = "false" if age < 61']
    assert release.schema == table.schema
    assert not release.filter(pl.col("age") < 61)["retired"].any()


def test_few_exceptions_are_counted_and_many_refute() -> None:
    rng = np.random.default_rng(0)
    n = 4000
    low = rng.integers(0, 1000, n)
    high = low + rng.integers(0, 400, n)
    high[:3] = low[:3] - 20
    table = pl.DataFrame({"low": low, "high": high})
    assert proposals(table)["low <= high"] == (n, 3)
    rng = np.random.default_rng(0)
    assert not find_rules(*_arguments(table, 5), rng)  # 3 of k = 5 people are many
    assert [rule.text for rule in find_rules(*_arguments(table, 40), rng)] == ["low <= high"]
    high[:100] = low[:100] - 20
    assert "low <= high" not in proposals(pl.DataFrame({"low": low, "high": high}))


def test_dependencies_and_combinations() -> None:
    rng = np.random.default_rng(0)
    n = 3000
    code = rng.integers(0, 12, n)
    sex = rng.choice(["f", "m"], n)
    relation = np.where(rng.random(n) < 0.5, np.where(sex == "f", "wife", "husband"), "child")
    table = pl.DataFrame(
        {
            "code": [f"c{v}" for v in code],
            "sector": [f"s{v // 4}" for v in code],
            "sex": sex,
            "relation": relation,
        }
    )
    found = proposals(table)
    assert "code -> sector" in found
    assert "known(sex, relation)" in found
    assert not any(text.startswith("never") for text in found)


def test_what_is_missing_together() -> None:
    rng = np.random.default_rng(0)
    n = 2000
    asked = rng.random(n) < 0.4
    answers = {
        name: pl.Series(rng.normal(size=n)).set(pl.Series(~asked), None) for name in ("q1", "q2")
    }
    table = pl.DataFrame({"asked": np.where(asked, "yes", "no"), **answers})
    found = proposals(table)
    assert 'q1 is missing if asked = "no"' in found
    assert "q1 is missing if q2 is missing" in found


@pytest.mark.parametrize(("k", "enough"), [(10, True), (40, False)])
def test_a_rule_rests_on_enough_people(k: int, enough: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 900, (2, 35))
    table = pl.DataFrame({"a": a, "b": b, "total": a + b})
    assert ("total = a + b" in proposals(table, k)) == enough


def test_large_tables_are_searched_in_part_and_counted_in_full() -> None:
    rng = np.random.default_rng(0)
    n = 25_000
    low = rng.integers(0, 100_000, n)
    table = pl.DataFrame({"low": low, "high": low + rng.poisson(50, n)})
    assert proposals(table)["low <= high"] == (n, 0)


def _incomes(young: int) -> pl.DataFrame:
    """Return ages and classes: few below 25 have the second, from then on many have."""
    rng = np.random.default_rng(0)
    age = rng.integers(17, 60, 4_000)
    rich = (age >= 25) & (rng.random(4_000) < 0.5)
    rich[np.flatnonzero(age == 23)[:young]] = True
    return pl.DataFrame(
        {"age": age, "class": np.where(rich, ">50K", "<=50K"), "x": rng.random(4_000)}
    )


def test_the_edge_of_a_condition_rests_on_k_different_people() -> None:
    table = _incomes(4)
    edges = set()
    for seed in range(12):
        for rule in find_rules(*_arguments(table, 20), np.random.default_rng(seed)):
            edge = int(rule.text.rpartition("age < ")[2])
            beyond = table.filter((pl.col("age") <= edge) & (pl.col("class") == ">50K"))
            edges.add(edge)
            assert beyond.height >= 20
    assert edges


def test_rows_of_one_person_are_no_evidence() -> None:
    table = _incomes(0)
    arguments = [*_arguments(table, 20)]
    arguments[3] = np.where((table["age"] < 25).to_numpy(), 1, np.arange(4_000) + 2)
    assert not any("age <" in one.rule.text for one in propose_rules(*arguments))


@pytest.mark.slow
def test_one_person_does_not_decide_whether_a_rule_is_found() -> None:
    rng = np.random.default_rng(0)
    low = rng.integers(0, 1000, 800)
    high = low + rng.integers(0, 400, 800)
    found = []
    for exceptions in range(5):
        high[:exceptions] = low[:exceptions] - 20
        arguments = _arguments(pl.DataFrame({"low": low, "high": high}), 20)
        draws = [find_rules(*arguments, np.random.default_rng(seed)) for seed in range(60)]
        found.append(np.mean([bool(rules) for rules in draws]))
    assert found[0] == 1
    assert np.abs(np.diff(found)).max() < 0.25  # 2 in k, and chance


@pytest.mark.slow
def test_the_search_does_not_depend_on_chance() -> None:
    table = hospital(600)
    assert list(proposals(table)) == list(proposals(table))
