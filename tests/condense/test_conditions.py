"""Records that meet a condition, and gaps that a model fills in."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tulle import ClassCondenser, Condenser, DataError, ParameterError, PrivacyError


@pytest.fixture(scope="module")
def people() -> pl.DataFrame:
    rng = np.random.default_rng(3)
    n = 1_500
    age = rng.integers(18, 90, n)
    sex = np.where(rng.random(n) < 0.5, "f", "m")
    height = rng.normal(165, 6, n) + 12 * (sex == "m")
    return pl.DataFrame(
        {
            "age": age,
            "sex": sex,
            "height": height.round(1),
            "town": np.where(rng.random(n) < 0.004, "Chur", "Bern"),
            "ill": np.where(rng.random(n) < age / 200, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def fitted(people: pl.DataFrame) -> Condenser:
    return Condenser(k=10, rules=[], random_state=0).fit(people)


@pytest.mark.slow
def test_every_record_meets_the_condition_and_there_are_as_many_as_asked(fitted: Condenser) -> None:
    drawn = fitted.sample(700, where="age < 30 and sex == 'f'")
    assert drawn.height == 700
    assert drawn["age"].max() < 30
    assert drawn["sex"].unique().to_list() == ["f"]


def test_a_condition_leaves_what_it_does_not_name_as_in_the_whole(fitted: Condenser) -> None:
    whole = fitted.sample(40_000).filter(pl.col("age") >= 70)
    asked = fitted.sample(5_000, where="age >= 70")
    assert asked["height"].mean() == pytest.approx(whole["height"].mean(), abs=0.6)
    assert (asked["sex"] == "f").mean() == pytest.approx((whole["sex"] == "f").mean(), abs=0.03)


def test_without_a_number_the_records_are_as_many_as_people_meet_it(
    fitted: Condenser, people: pl.DataFrame
) -> None:
    drawn = fitted.sample(where="sex in ('m')")
    assert drawn.height == pytest.approx((people["sex"] == "m").sum(), rel=0.1)


@pytest.mark.parametrize("where", ["age < 19 and height > 190", "age > 200", "sex is missing"])
def test_a_condition_that_too_few_people_meet_is_refused(fitted: Condenser, where: str) -> None:
    with pytest.raises(PrivacyError, match="k=10") as refused:
        fitted.sample(100, where=where)
    assert refused.value.parameter == "where"


def test_rows_of_people_are_not_drawn_by_a_condition() -> None:
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(60), 25)
    old = person < 15  # 15 people with 375 rows
    table = pl.DataFrame({"person": person, "x": np.where(old, 9.0, 1.0) + rng.random(len(old))})
    fitted = Condenser(k=10, columns={"person": "person"}, rules=[], random_state=0).fit(table)
    for where in ("x > 5", "x < 5"):  # 15 people meet the first, with 25 rows each
        with pytest.raises(ParameterError, match="several rows"):
            fitted.sample(100, where=where)


def test_a_condition_names_released_columns_and_says_where_it_cannot_be_read(
    fitted: Condenser,
) -> None:
    with pytest.raises(ParameterError, match="condition 'agee < 30'.*position 1.*'age'"):
        fitted.sample(10, where="agee < 30")
    with pytest.raises(ParameterError, match="must be a text"):
        fitted.sample(10, where=3)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("synthesis", ["shape", "normal"])
def test_classes_have_a_name_in_conditions(people: pl.DataFrame, synthesis: str) -> None:
    condenser = ClassCondenser(Condenser(synthesis=synthesis, rules=[]), k=20, random_state=1).fit(
        people.drop("ill", "town"), people["ill"]
    )
    X, y = condenser.sample(300, where="ill == 'yes' and age > 50")
    assert (len(X), len(y)) == (300, 300)
    assert set(y) == {"yes"}
    assert X["age"].min() > 50


@pytest.mark.slow
def test_gaps_are_filled_by_what_the_other_columns_tell(people: pl.DataFrame) -> None:
    rng = np.random.default_rng(5)
    gone = rng.random(people.height) < 0.2
    holes = people.with_columns(
        pl.when(pl.Series(gone)).then(None).otherwise(pl.col("height")).alias("height")
    )
    filled = Condenser(k=10, rules=[], random_state=0).fit(holes).impute(holes)
    assert filled["height"].null_count() == 0
    assert filled.drop("height").equals(people.drop("height"))
    assert filled.filter(~gone)["height"].equals(people.filter(~gone)["height"])
    guessed = filled.filter(gone).group_by("sex").agg(pl.col("height").mean()).sort("sex")
    f, m = guessed["height"]
    assert m - f > 9


def test_gaps_are_filled_in_any_container(people: pl.DataFrame) -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    X[:, 2] = X[:, 0] + 0.1 * X[:, 1]
    holes = X.copy()
    holes[::7, 2] = np.nan
    filled = Condenser(k=5, random_state=0).fit(holes).impute(holes)
    assert isinstance(filled, np.ndarray)
    assert np.corrcoef(filled[::7, 2], X[::7, 2])[0, 1] > 0.8


@pytest.mark.slow
def test_gaps_need_the_fitted_columns_and_no_target(
    fitted: Condenser, people: pl.DataFrame
) -> None:
    with pytest.raises(DataError, match="'town'"):
        fitted.impute(people.drop("town"))
    with pytest.raises(DataError, match="column 'age' holds String here and Int64 in the table"):
        fitted.impute(people.with_columns(pl.col("age").cast(pl.String)))
    with_target = Condenser(k=10, random_state=0).fit(people[:, :3].drop("sex"), people["age"])
    with pytest.raises(DataError, match="without a target"):
        with_target.impute(people)
