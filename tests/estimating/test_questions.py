"""Questions in one line of text, and what a table answers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tulle import ParameterError
from tulle.estimating._questions import INTERCEPT, Figure, Key, answer, parse_question


@pytest.fixture(scope="module")
def wages() -> pl.DataFrame:
    rng = np.random.default_rng(2)
    n = 800
    educ = rng.integers(8, 18, n)
    sex = rng.choice(["f", "m"], n)
    lwage = 0.1 * educ + 0.3 * (sex == "m") + rng.normal(0, 0.4, n)
    return pl.DataFrame(
        {
            "educ": educ,
            "sex": sex,
            "lwage": lwage,
            "day-off": rng.integers(0, 2, n),
            "region": pl.Series(rng.choice(["north", "south", "west"], n)).cast(pl.Categorical),
            "gap": np.where(rng.random(n) < 0.1, np.nan, lwage),
        }
    ).with_columns(pl.col("gap").fill_nan(None))


def only(answers: dict[Key, Figure]) -> Figure:
    (found,) = answers.values()
    return found


def test_a_mean_by_two_columns_where_something_holds(wages: pl.DataFrame) -> None:
    asked = parse_question("mean(lwage) by sex, region where educ >= 12", wages)
    found = answer(asked, wages)
    some = wages.filter(pl.col("educ") >= 12)
    assert len(found) == 6
    for (sex, region), part in some.group_by("sex", "region"):
        one = found[Key((sex, region), "lwage")]
        assert one.value == pytest.approx(part["lwage"].mean())
        assert one.variance == pytest.approx(part["lwage"].var() / part.height)
        assert one.records == part.height


def test_missing_values_are_left_out(wages: pl.DataFrame) -> None:
    found = only(answer(parse_question("mean(gap)", wages), wages))
    assert found.value == pytest.approx(wages["gap"].mean())
    assert found.records == wages.height - wages["gap"].null_count()


def test_shares_of_a_condition_and_of_each_value(wages: pl.DataFrame) -> None:
    one = only(answer(parse_question("share(educ < 10 or sex == 'f')", wages), wages))
    holds = (wages["educ"] < 10) | (wages["sex"] == "f")
    assert one.value == pytest.approx(holds.mean())
    each = answer(parse_question("share(region)", wages), wages)
    assert [key.term for key in each] == ["region = north", "region = south", "region = west"]
    assert sum(found.value for found in each.values()) == pytest.approx(1)
    ones = only(answer(parse_question("share(`day-off`)", wages), wages))
    assert ones.value == pytest.approx(wages["day-off"].mean())


def test_a_total_of_a_group_has_the_chance_of_its_size(wages: pl.DataFrame) -> None:
    found = answer(parse_question("total(educ) by sex", wages), wages)
    women = wages.filter(pl.col("sex") == "f")["educ"]
    one = found[Key(("f",), "educ")]
    assert one.value == women.sum()
    assert one.variance > len(women) * women.var()


def test_quantiles(wages: pl.DataFrame) -> None:
    nine = only(answer(parse_question("quantile(exp(lwage), 0.9)", wages), wages))
    assert nine.value == pytest.approx(np.quantile(np.exp(wages["lwage"]), 0.9))
    median = only(answer(parse_question("median(lwage)", wages), wages))
    assert median.value == pytest.approx(wages["lwage"].median())
    heap = only(answer(parse_question("median(`day-off`)", wages), wages))
    assert heap.variance > 0  # though it stays where it is when the order moves


def test_least_squares_is_that_of_the_textbook(wages: pl.DataFrame) -> None:
    found = answer(parse_question("ols(lwage ~ educ + educ ** 2 + sex)", wages), wages)
    assert [key.term for key in found] == [INTERCEPT, "educ", "educ ** 2", "sex = m"]
    educ = wages["educ"].to_numpy().astype(float)
    X = np.column_stack([np.ones(len(educ)), educ, educ**2, (wages["sex"] == "m").to_numpy()])
    y = wages["lwage"].to_numpy()
    inverse = np.linalg.inv(X.T @ X)
    values = inverse @ X.T @ y
    errors = y - X @ values
    covariance = inverse @ (X.T * errors**2) @ X @ inverse * len(y) / (len(y) - 4)
    np.testing.assert_allclose([one.value for one in found.values()], values, rtol=1e-6)
    variances = [one.variance for one in found.values()]
    np.testing.assert_allclose(variances, np.diag(covariance), rtol=1e-6)


def test_a_logit_is_where_the_likelihood_is_flat(wages: pl.DataFrame) -> None:
    found = answer(parse_question("logit(sex == 'm' ~ lwage)", wages), wages)
    b = np.array([one.value for one in found.values()])
    X = np.column_stack([np.ones(wages.height), wages["lwage"].to_numpy()])
    y = (wages["sex"] == "m").to_numpy()
    np.testing.assert_allclose(X.T @ (y - 1 / (1 + np.exp(-X @ b))), 0, atol=1e-6)
    assert b[1] > 0


def test_what_cannot_be_told_apart_has_no_answer(wages: pl.DataFrame) -> None:
    twice = parse_question("ols(lwage ~ educ + 2 * educ)", wages)
    assert answer(twice, wages) == {}
    certain = parse_question("logit(educ > 12 ~ educ)", wages)
    assert answer(certain, wages) == {}


def test_numbers_of_groups_are_the_same_text_as_whole_numbers_and_decimals(
    wages: pl.DataFrame,
) -> None:
    decimals = wages.with_columns(pl.col("day-off").cast(pl.Float64))
    asked = "mean(educ) by day-off"
    found = [set(answer(parse_question(asked, one), one)) for one in (wages, decimals)]
    assert found[0] == found[1] == {Key(("0",), "educ"), Key(("1",), "educ")}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "begins with one of mean"),
        ("average(educ)", "'average' is not known"),
        ("mean(educ", "does not close"),
        ("mean(educ) per sex", "after the bracket"),
        ("mean(educ) where", "after the bracket"),
        ("mean(edduc)", "no column 'edduc'.*'educ'"),
        ("mean(educ) by regio", "no column 'regio'.*'region'"),
        ("mean(educ) by lwage", "more than 50 values"),
        ("quantile(educ)", "an order between 0 and 1"),
        ("quantile(educ, 90)", "an order between 0 and 1"),
        ("ols(lwage)", "takes a formula"),
        ("ols(sex ~ educ)", "column 'sex' holds words"),
        ("logit(sex ~ educ)", "column 'sex' holds words"),
        ("ols(lwage ~ educ +)", "position"),
        ("share(educ)) by sex", "after the bracket"),
        ("mean(educ) by sex where", "after the bracket"),
        ("mean(educ) by where educ > 2", "after the bracket"),
        ("mean(educ) by", "after the bracket"),
        ("share(educ)", r"share\(educ <= 30\)"),
        ("mean(sex)", r"column 'sex' holds words.*share\(sex\)"),
        ("median(region)", r"column 'region' holds words.*share\(region\)"),
    ],
)
def test_an_error_names_what_is_wrong(wages: pl.DataFrame, text: str, problem: str) -> None:
    with pytest.raises(ParameterError, match=problem) as refused:
        parse_question(text, wages)
    assert refused.value.parameter == "question"


def test_brackets_and_words_inside_quotes_do_not_count() -> None:
    frame = pl.DataFrame({"town": ["a) by where", "b"] * 30, "x": [1.0, 2.0] * 30})
    asked = parse_question("mean(x) where town == 'a) by where'", frame)
    assert only(answer(asked, frame)).value == 1.0


def test_a_target_that_follows_from_the_terms_has_no_answer(wages: pl.DataFrame) -> None:
    assert answer(parse_question("ols(lwage ~ educ + lwage)", wages), wages) == {}


# -- survey weights ------------------------------------------------------------------------------


def weighted_table() -> pl.DataFrame:
    rng = np.random.default_rng(5)
    x, count = rng.normal(size=300), rng.integers(1, 5, 300)
    y = 0.7 * x + rng.normal(size=300)
    flag = (rng.random(300) < 1 / (1 + np.exp(-x))).astype(int)
    return pl.DataFrame({"x": x, "y": y, "flag": flag, "w": count})


@pytest.mark.parametrize(
    "text",
    ["mean(x)", "total(y)", "share(x > 0)", "ols(y ~ x)", "logit(flag ~ x)", "mean(y) by flag"],
)
def test_a_whole_weight_counts_a_record_so_often(text: str) -> None:
    table = weighted_table()
    repeated = table.select(pl.all().repeat_by("w").explode())
    question = parse_question(text, table)
    found, plain = answer(question, table, weight="w"), answer(question, repeated)
    assert found.keys() == plain.keys()
    for key, figure in found.items():
        assert figure.value == pytest.approx(plain[key].value)
        assert figure.variance > plain[key].variance or text.startswith("total")
        assert figure.records < plain[key].records  # people are counted, not weights


@pytest.mark.parametrize(
    "text", ["mean(x)", "total(y)", "share(x > 0)", "median(y)", "ols(y ~ x)", "logit(flag ~ x)"]
)
def test_equal_weights_change_nothing_but_totals(text: str) -> None:
    table = weighted_table().with_columns(one=pl.lit(2.0))
    question = parse_question(text, table)
    scale = 2 if text.startswith("total") else 1
    for key, figure in answer(question, table).items():
        found = answer(question, table, weight="one")[key]
        assert found.value == pytest.approx(scale * figure.value)
        assert found.variance == pytest.approx(scale**2 * figure.variance)


@pytest.mark.parametrize("text", ["mean(x)", "median(x)"])
def test_what_is_the_same_everywhere_has_no_error(text: str) -> None:
    table = weighted_table().with_columns(x=pl.lit(99), w=pl.col("w") / 7)
    (found,) = answer(parse_question(text, table), table, weight="w").values()
    assert found[:2] == (99, 0)


def test_a_weighted_quantile_has_half_of_the_weights_below_it() -> None:
    table = weighted_table()
    (found,) = answer(parse_question("median(x)", table), table, weight="w").values()
    below = table.filter(pl.col("x") <= found.value)["w"].sum() / table["w"].sum()
    assert below == pytest.approx(0.5, abs=0.01)
