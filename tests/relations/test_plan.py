"""Rules in a release: what holds everywhere in the table holds everywhere in the release."""

from __future__ import annotations

import datetime as dt
import pickle

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.wards import RULES, hospital, impossible
from tests.examples import few
from tulle import ClassCondenser, Condenser
from tulle.errors import DataError, GateError, ParameterError
from tulle.guessing.columns import guess_columns
from tulle.table.schema import Column, Kind

pytestmark = pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")


@pytest.mark.slow
def test_no_row_of_a_release_is_impossible() -> None:
    table = hospital()
    assert not impossible(table)
    assert impossible(Condenser(k=10, rules=[], random_state=0).fit(table).sample())
    condenser = Condenser(k=10, rules=list(RULES), random_state=0).fit(table)
    release = condenser.sample()
    assert not impossible(release)
    assert release.schema == table.schema
    assert [one.rule for one in condenser.rules_] == list(RULES)
    assert not any(one.found or one.share_broken for one in condenser.rules_)
    assert condenser.broken_rules_ == {}


@pytest.mark.slow
def test_rules_are_found_without_being_given() -> None:
    table = hospital(2500)  # edges such as 'age < 15' rest on up to 1.5 k people of one age
    condenser = Condenser(k=10, random_state=0).fit(table)
    assert not impossible(condenser.sample())
    assert all(one.found for one in condenser.rules_)


@pytest.mark.slow
def test_rules_hold_class_by_class() -> None:
    table = hospital()
    rules = [*RULES, 'never diagnosis = "K35" and died = "yes"']
    table = table.filter((pl.col("diagnosis") != "K35") | (pl.col("died") == "no"))
    condenser = ClassCondenser(Condenser(rules=rules), k=10, random_state=0)
    X_new, y_new = condenser.fit_resample(table.drop("died"), table["died"])
    assert not impossible(X_new)
    assert not ((X_new["diagnosis"] == "K35") & (y_new == "yes")).any()
    assert len(condenser.rules_) == len(rules)


@pytest.mark.slow
def test_the_shape_survives_the_rules() -> None:
    table = hospital()
    release = Condenser(k=10, rules=list(RULES), random_state=0).fit(table).sample()
    for name in ("discharged", "weight", "bmi", "income"):
        assert abs(release[name].null_count() - table[name].null_count()) < 40
    for name in ("stay", "bmi", "total", "age"):
        assert release[name].mean() == pytest.approx(table[name].mean(), rel=0.06)
        assert release[name].std() == pytest.approx(table[name].std(), rel=0.15)
    assert abs((release["stay"] == 0).mean() - (table["stay"] == 0).mean()) < 0.04


# -- each kind of rule on random tables ---------------------------------------------------------


def _sums(rng: np.random.Generator, n: int) -> tuple[pl.DataFrame, str]:
    parts = {name: rng.gamma(2, 50, n).round(int(rng.integers(0, 3))) for name in "abc"}
    total = pl.Series(sum(parts.values())).round(2)
    return pl.DataFrame({**parts, "total": total}), "total = a + b + c"


def _order(rng: np.random.Generator, n: int) -> tuple[pl.DataFrame, str]:
    low = rng.integers(0, 5000, n)
    return pl.DataFrame({"low": low, "high": low + rng.poisson(3, n)}), "low <= high"


def _strict(rng: np.random.Generator, n: int) -> tuple[pl.DataFrame, str]:
    low = rng.normal(0, 100, n).round(1)
    return pl.DataFrame({"low": low, "high": (low + 0.1 + rng.random(n)).round(1)}), "high > low"


def _chain(rng: np.random.Generator, n: int) -> tuple[pl.DataFrame, str]:
    a = dt.datetime(2020, 1, 1)
    minutes = np.cumsum(rng.integers(0, [[90_000], [9000], [600]], (3, n)), axis=0)
    times = [[a + dt.timedelta(minutes=int(m)) for m in part] for part in minutes]
    return pl.DataFrame(dict(zip("abc", times, strict=True))), "a <= b <= c"


def _product(rng: np.random.Generator, n: int) -> tuple[pl.DataFrame, str]:
    price, pieces = rng.gamma(3, 4, n).round(2), rng.integers(1, 20, n)
    amount = (price * pieces).round(1)
    return pl.DataFrame({"amount": amount, "price": price, "n": pieces}), "amount = price * n"


def _floor(rng: np.random.Generator, n: int) -> tuple[pl.DataFrame, str]:
    exact = rng.gamma(3, 10, n).round(2)
    return pl.DataFrame({"exact": exact, "whole": np.floor(exact).astype(int)}), "whole = exact"


def _dependency(rng: np.random.Generator, n: int) -> tuple[pl.DataFrame, str]:
    town, year = rng.integers(0, 4, n), rng.integers(0, 2, n)
    mayor = [f"m{(5 * t + 7 * y) % 11}" for t, y in zip(town, year, strict=True)]
    towns = [f"t{t}" for t in town]
    return pl.DataFrame({"town": towns, "year": year, "mayor": mayor}), "town, year -> mayor"


def _pairs(rng: np.random.Generator, n: int) -> tuple[pl.DataFrame, str]:
    a, b = rng.integers(0, 4, n), rng.integers(0, 4, n)
    b = np.where(a == b, (b + 1) % 4, b)
    table = pl.DataFrame({"a": [f"x{v}" for v in a], "b": [f"x{v}" for v in b]})
    return table, "a != b"


def _missing(rng: np.random.Generator, n: int) -> tuple[pl.DataFrame, str]:
    age = rng.integers(0, 90, n)
    pay = pl.Series(rng.normal(3000, 500, n).round())
    table = pl.DataFrame({"age": age, "pay": pay}).with_columns(
        pl.when(pl.col("age") > 15).then("pay")
    )
    return table, "pay is missing if age <= 15"


def _logarithm(rng: np.random.Generator, n: int) -> tuple[pl.DataFrame, str]:
    sales = np.where(rng.random(n) < 0.3, 0, rng.gamma(2, 90, n).round())
    logs = np.log(np.maximum(sales, 1)).round(5)  # the logarithm of 0 is written as 0
    return pl.DataFrame({"sales": sales, "lsales": logs}), "lsales = log(sales)"


def _square(rng: np.random.Generator, n: int) -> tuple[pl.DataFrame, str]:
    exper = np.minimum(rng.geometric(0.2, n), 25)
    return pl.DataFrame({"exper": exper, "exper2": exper**2}), "exper2 = exper^2"


def _indicator(rng: np.random.Generator, n: int) -> tuple[pl.DataFrame, str]:
    race = rng.choice(["b", "h", "w"], n, p=[0.2, 0.2, 0.6])
    return pl.DataFrame({"race": race, "black": race == "b"}), 'black = race == "b"'


def _one_hot(rng: np.random.Generator, n: int) -> tuple[pl.DataFrame, str]:
    place = rng.choice(4, n, p=[0.5, 0.3, 0.18, 0.02])
    table = pl.DataFrame({f"i{i}": (place == i).astype(int) for i in range(4)})
    return table, "one_of(i0, i1, i2, i3)"


def _interaction(rng: np.random.Generator, n: int) -> tuple[pl.DataFrame, str]:
    after, educ = rng.integers(0, 2, n), rng.integers(6, 19, n)
    table = pl.DataFrame({"after": after, "educ": educ, "after_educ": after * educ})
    return table, "after_educ = after * educ"


KINDS = (
    _logarithm,
    _square,
    _indicator,
    _one_hot,
    _interaction,
    _sums,
    _order,
    _strict,
    _chain,
    _product,
    _floor,
    _dependency,
    _pairs,
    _missing,
)


@pytest.mark.slow
@few(30)
@given(st.sampled_from(KINDS), st.integers(0, 10**6), st.sampled_from([5, 10]), st.booleans())
def test_what_holds_in_the_table_holds_in_the_release(kind, seed, k, holes) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(200, 300))
    table, rule = kind(rng, n)
    table = table.with_columns(pl.Series("noise", rng.normal(size=n)))
    if holes and kind is not _missing:
        name = str(rng.choice([c for c in table.columns if c != "noise"]))
        gone = pl.Series(rng.random(n) < 0.15)
        table = table.with_columns(pl.when(~gone).then(name).alias(name))
    condenser = Condenser(k=k, rules=[rule], random_state=seed).fit(table)
    release = condenser.sample()
    assert condenser.rules_[0].share_broken == 0
    assert condenser.broken_rules_ == {}
    assert release.schema == table.schema
    assert _count(rule, release) == 0
    if kind is _logarithm and not holes:
        assert (release.filter(pl.col("sales") == 0)["lsales"] == 0).all()
    for name in table.columns:  # what was missing is missing about as often
        assert abs(release[name].null_count() - table[name].null_count()) <= 0.2 * n


def _count(rule: str, release: pl.DataFrame) -> int:
    """Count broken rows in plain polars, as somebody else would."""
    c = pl.col
    wrong = {
        "total = a + b + c": (c("total") - c("a") - c("b") - c("c")).abs() > 0.005
        if "total" in release.columns
        else None,
        "low <= high": c("low") > c("high"),
        "high > low": c("low") >= c("high"),
        "a <= b <= c": (c("a") > c("b")) | (c("b") > c("c")),
        "amount = price * n": (c("amount") - c("price") * c("n")).abs() > 0.0501,
        "whole = exact": c("exact").floor() != c("whole"),
        "a != b": c("a") == c("b"),
        "lsales = log(sales)": (c("sales") > 0) & ((c("lsales") - c("sales").log()).abs() > 6e-6),
        "exper2 = exper^2": c("exper2") != c("exper") ** 2,
        'black = race == "b"': c("black") != (c("race") == "b"),
        "one_of(i0, i1, i2, i3)": pl.sum_horizontal(c("^i\\d$"), ignore_nulls=False) != 1,
        "after_educ = after * educ": c("after_educ") != c("after") * c("educ"),
        "pay is missing if age <= 15": (c("age") <= 15) & c("pay").is_not_null(),
    }
    if "->" in rule:
        known = release.drop_nulls().filter(~pl.any_horizontal(c("town", "mayor") == "other"))
        return int((known.group_by("town", "year").agg(c("mayor").n_unique())["mayor"] > 1).sum())
    return int(release.select(wrong[rule].fill_null(False).sum()).item())


# -- rules that do not hold, or cannot ----------------------------------------------------------


@pytest.mark.slow
def test_a_rule_that_many_break_is_kept_in_every_row_and_that_is_said() -> None:
    rng = np.random.default_rng(0)
    n = 3000
    low = rng.integers(0, 5000, n)
    away = np.where(rng.random(n) < 0.1, -rng.poisson(4, n) - 1, rng.poisson(4, n))
    total = np.where(rng.random(n) < 0.2, low + 7, low)
    table = pl.DataFrame({"low": low, "high": low + away, "same": total})
    table = table.with_columns(
        a=pl.Series(rng.choice(["x", "y"], n)), b=pl.Series(rng.choice(["x", "y"], n, p=[0.9, 0.1]))
    )
    rules = ["low <= high", "same = low", "never a = 'x' and b = 'y'"]
    condenser = Condenser(k=10, rules=rules, random_state=0).fit(table)
    release = condenser.sample()
    shares = [one.share_broken for one in condenser.rules_]
    assert shares == pytest.approx([0.1, 0.2, 0.05], abs=0.02)
    assert (release["low"] <= release["high"]).all()
    assert (release["low"] == release["same"]).all()
    assert not ((release["a"] == "x") & (release["b"] == "y")).any()
    assert condenser.broken_rules_ == {}
    assert all(any(rule in note for note in condenser.notes_) for rule in rules)


def test_a_dependency_gives_no_pair_that_the_table_has_not() -> None:
    rng = np.random.default_rng(0)
    exper = np.minimum(rng.geometric(0.25, 1_200), 19)  # the largest are rare
    table = pl.DataFrame({"exper": exper, "code": (exper * 7919) % 1_000, "x": rng.random(1_200)})
    release = Condenser(k=20, rules=["exper -> code"], random_state=0).fit(table).sample()
    assert release.join(table, ["exper", "code"], "anti").height == 0


@pytest.mark.slow
def test_pairs_are_known_if_k_different_people_have_them() -> None:
    rng = np.random.default_rng(0)
    person, n = np.repeat(np.arange(300), 4), 1_200
    ward = rng.choice(["a", "b"], n)
    icu = (np.arange(n) % 4 == 0) & (person < 60)  # 60 people, in one of four rows each
    code = np.where(icu, "sepsis", np.where(ward == "a", "heart", "lung"))
    table = pl.DataFrame({"person": person, "ward": np.where(icu, "icu", ward), "code": code})
    condenser = Condenser(20, rules=["known(ward, code)"], columns={"person": "person"})
    condenser.set_params(random_state=0).fit(table)
    (known,) = condenser._rule_plan.known.values()
    assert sorted(known.rows()) == [("a", "heart"), ("b", "lung"), ("icu", "sepsis")]


def test_what_few_people_break_nobody_breaks_in_the_release() -> None:
    rng = np.random.default_rng(0)
    low = rng.integers(0, 5000, 1000)
    high = low + rng.poisson(4, 1000)
    high[:3] = low[:3] - 100
    table = pl.DataFrame({"low": low, "high": high})
    release = Condenser(k=10, rules=["low <= high"], random_state=0).fit(table).sample()
    assert (release["low"] <= release["high"]).all()


@pytest.mark.slow
def test_what_cannot_be_kept_is_refused_unless_it_is_accepted() -> None:
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"a": rng.gamma(2, 50, 300), "b": rng.gamma(2, 50, 300)})
    table = table.with_columns(area=pl.col("a") * pl.col("b"))
    papers = Condenser(k=10, synthesis="uniform", rules=["area = a * b"], random_state=0)
    with pytest.raises(GateError, match=r"of 300 released records .*'area = a \* b'") as caught:
        papers.fit(table).sample()
    assert caught.value.exit_code == 1
    papers.set_params(accept_broken_rules=True).fit(table).sample()
    assert papers.broken_rules_["area = a * b"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["number", "category"])
def test_what_follows_from_a_missing_value_is_missing(kind: str) -> None:
    rng = np.random.default_rng(0)
    code = rng.integers(0, 900, 1500)
    industry = pl.Series(
        "industry", code if kind == "number" else [f"i{c // 60:02d}" for c in code]
    )
    table = pl.DataFrame(
        {"industry": industry, "sector": code // 180, "age": rng.normal(size=1500)}
    )
    jobless = pl.Series(rng.random(1500) < 0.4)
    names = ("industry", "sector")
    table = table.with_columns(pl.when(~jobless).then(pl.col(name)).alias(name) for name in names)
    release = Condenser(k=10, rules=["industry -> sector"], random_state=0).fit(table).sample()
    missing = release["industry"].is_null()
    assert 450 < missing.sum() < 750
    assert (release["sector"].is_null() == missing).all()


def test_rules_that_cannot_be_meant_are_refused() -> None:
    table = pl.DataFrame({"a": np.arange(40.0), "b": np.arange(40.0)})
    with pytest.raises(ParameterError, match="position 3"):
        Condenser(rules=["a ~ b"]).fit(table)
    with pytest.raises(ParameterError, match="must be a list of texts"):
        Condenser(rules="a <= b").fit(table)


def test_a_rule_about_a_column_that_is_not_released_is_noted() -> None:
    table = pl.DataFrame({"a": np.arange(40.0), "b": np.arange(40.0), "c": np.arange(40.0) % 7})
    condenser = Condenser(k=5, rules=["a <= b"], columns={"a": "ignored"}, random_state=0).fit(
        table
    )
    assert condenser.rules_ == []
    assert any("'a <= b'" in note for note in condenser.notes_)


@pytest.mark.slow
def test_derivations_that_need_each_other_do_not_go_round_in_a_circle() -> None:
    rng = np.random.default_rng(0)
    code = rng.integers(0, 9, 400)
    start = rng.integers(0, 4000, 400)
    days = rng.integers(0, 9, 400)
    table = pl.DataFrame(
        {"code": [f"c{v}" for v in code], "number": code * 10, "start": start, "days": days}
    ).with_columns(end=pl.col("start") + pl.col("days"))
    rules = [
        "code -> number",
        "number -> code",
        "end = start + days",
        "start = end - days",
        "days = end - start",
        "start <= end",
    ]
    condenser = Condenser(k=8, rules=rules, random_state=0).fit(table)
    release = condenser.sample()
    assert condenser.broken_rules_ == {}
    assert (release["end"] - release["start"] == release["days"]).all()


def test_entries_of_a_dependency_rest_on_k_people() -> None:
    rng = np.random.default_rng(0)
    town = np.r_[np.repeat(np.arange(8), 40), np.arange(100, 130)]  # 30 towns of one person
    table = pl.DataFrame({"town": town, "mayor": 7000 + town, "x": rng.normal(size=len(town))})
    rules = ["town -> mayor"]
    release = Condenser(k=20, rules=rules, random_state=0).fit(table).sample()
    assert set(release["mayor"]) <= {7000 + v for v in range(8)}


@pytest.mark.slow
def test_the_same_seed_gives_the_same_release_and_pickles_draw() -> None:
    table = hospital(400)
    first, second = (Condenser(k=10, random_state=3).fit(table) for _ in range(2))
    again = pickle.loads(pickle.dumps(second))
    assert first.sample().equals(again.sample())


@pytest.mark.slow
def test_merged_condensers_keep_their_rules() -> None:
    table = hospital(800)
    rules = ["stay = discharged - admitted", "admitted <= discharged"]
    parts = [Condenser(k=10, rules=rules, random_state=i).fit(table[i::2]) for i in range(2)]
    release = parts[0].merge(parts[1]).sample()
    wrong = impossible(release)
    assert "stay" not in wrong
    assert "discharged before admitted" not in wrong
    assert [one.rule for one in parts[0].merge(parts[1]).rules_] == rules


@pytest.mark.slow
def test_rules_hold_where_people_have_several_rows() -> None:
    table = hospital(600).with_columns(person=pl.int_range(600) // 2)
    columns = {"person": "person"}
    condenser = Condenser(k=10, rules=list(RULES), columns=columns, random_state=0).fit(table)
    assert not impossible(condenser.sample())


@pytest.mark.slow
def test_numbers_and_dates_that_are_written_as_text() -> None:
    table = hospital(800)
    texts = table.select(
        pl.col("admitted", "discharged").dt.strftime("%d.%m.%Y"),
        "stay",
        *(_euros(table[name]) for name in ("treatment", "drugs", "room", "total")),
    ).with_columns(
        pl.col("discharged").fill_null("open"),
        drugs=pl.when(pl.int_range(800) % 9 > 0).then("drugs").otherwise(pl.lit("n/a")),
    )
    money = {name: Column(name, Kind.DECIMAL) for name in ("treatment", "room", "total")}
    columns = [
        Column("admitted", Kind.DATETIME),
        Column("discharged", Kind.DATETIME, missing=("open",)),
        Column("drugs", Kind.DECIMAL, missing=("n/a",)),
        *money.values(),
    ]
    rules = ["stay = discharged - admitted", "total = treatment + drugs + room", "drugs < 9999"]
    condenser = Condenser(k=10, rules=rules, columns=columns, random_state=0).fit(texts)
    release = condenser.sample()
    assert condenser.broken_rules_ == {}
    assert release["discharged"].is_in(["open"]).sum() == pytest.approx(24, abs=20)
    assert release["drugs"].is_in(["n/a"]).sum() == pytest.approx(89, abs=35)
    days = [release[name].str.to_date("%d.%m.%Y", strict=False) for name in release.columns[:2]]
    assert ((days[1] - days[0]).dt.total_days() == release["stay"]).all()
    total, *parts = (_read(release[name]) for name in ("total", "treatment", "drugs", "room"))
    away = (total - parts[0] - parts[1] - parts[2]).abs().drop_nulls()
    assert len(away) > 600
    assert away.max() < 0.005


def _euros(series: pl.Series) -> pl.Series:
    texts = [f"{value:,.2f} €".translate(str.maketrans(",.", ".,")) for value in series]
    return pl.Series(series.name, texts)


def _read(series: pl.Series) -> pl.Series:
    plain = series.str.replace_all("[. €]", "").str.replace(",", ".", literal=True)
    return plain.cast(pl.Float64, strict=False)


def test_a_rule_needs_columns_of_the_right_kind() -> None:
    table = pl.DataFrame({"a": ["x", "y"] * 30, "b": np.arange(60) % 9})
    with pytest.raises((ParameterError, DataError), match="'soon'"):
        Condenser(k=5, rules=["b < 'soon'"]).fit(table)


@pytest.mark.slow
@pytest.mark.parametrize("code", ["N", "k.A."])
def test_a_column_that_writes_missing_as_a_code_keeps_doing_so(code: str) -> None:
    rng = np.random.default_rng(0)
    age, income = rng.integers(0, 90, 1200), rng.lognormal(10, 1, 1200).astype(int)
    gone = (age < 15) | (rng.random(1200) < 0.03)
    texts = np.where(gone, code, income.astype(str))
    table = pl.DataFrame({"age": age, "income": texts, "sex": rng.choice(["m", "f"], 1200)})
    columns = [guess.column for guess in guess_columns(table)]
    condenser = Condenser(10, columns=columns, rules=["income is missing if age < 15"])
    release = condenser.set_params(random_state=0).fit_resample(table)
    assert release["income"].null_count() == 0
    assert (release.filter(pl.col("age") < 15)["income"] == code).all()
    assert not condenser.broken_rules_


@pytest.mark.slow
def test_what_a_formula_computes_is_missing_for_nobody_if_it_is_in_the_table() -> None:
    """Where the formula has no value, the column has one of its own in every record."""
    rng = np.random.default_rng(0)
    rate, hours = rng.integers(1, 9, 900).astype(float), rng.integers(1, 40, 900).astype(float)
    gone = rng.random(900) < 0.3
    pay = np.where(gone, rng.integers(1, 300, 900), rate * hours)
    table = pl.DataFrame({"rate": rate, "hours": hours, "pay": pay, "gone": gone})
    table = table.with_columns(pl.when(~pl.col("gone")).then("hours").alias("hours")).drop("gone")
    for seed in range(3):
        condenser = Condenser(k=10, random_state=seed).fit(table)
        assert any(one.rule == "pay = rate * hours" for one in condenser.rules_)
        assert condenser.sample(3000)["pay"].null_count() == 0


@pytest.mark.slow
def test_a_distance_leads_neither_below_what_there_is_nor_to_one_persons_decimals() -> None:
    """Of three times of which one is the first of the others, as people who are lost have them."""
    rng = np.random.default_rng(0)
    end = rng.gamma(1.5, 700, 1200).round() + 1
    first = np.where(rng.random(1200) < 0.5, end, (end * rng.random(1200)).round())
    other = np.where(rng.random(1200) < 0.5, end, (end * rng.random(1200)).round())
    both = np.maximum(first, other)
    first[0] = first[0] + 0.03 if first[0] < both[0] else first[0] - 0.03
    table = pl.DataFrame({"first": first, "other": other, "both": both, "end": end})
    release = Condenser(k=10, random_state=0).fit(table).sample(3000)
    assert all(release[name].min() >= 0 for name in release.columns)
    assert (release["first"] != release["first"].round()).mean() < 0.01
    assert (release["first"] <= release["both"]).all()
