"""Survey weights: totals and means of a release as weighted are those of the original."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from tulle import (
    ClassCondenser,
    Condenser,
    Database,
    DatabaseCondenser,
    DataError,
    ParameterError,
    PrivacyWarning,
    StreamCondenser,
)
from tulle.condense._weights import WeightTotals, rake
from tulle.table._rare import Crowd
from tulle.table.schema import Column, Kind, Role, Schema

pytestmark = pytest.mark.slow


def survey(n: int = 1_500, seed: int = 0) -> pl.DataFrame:
    """A sample in which the old and one region are drawn too often, and weigh less."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    region = rng.choice(["north", "south", "west"], n, p=[0.6, 0.3, 0.1])
    income = np.exp(rng.normal(7 + 0.01 * age, 0.5))
    weight = (3 - age / 40) * np.where(region == "north", 0.7, 1.8) * rng.uniform(0.7, 1.4, n)
    columns = {"age": age, "region": region, "income": income.round(2), "w": weight.round(4)}
    return pl.DataFrame(columns)


def fitted(table: pl.DataFrame, **more: Any) -> Condenser:
    columns = {"w": "weight", **more.pop("columns", {})}
    return Condenser(k=10, columns=columns, random_state=0, **more).fit(table)


def totals(table: pl.DataFrame, by: str) -> dict[Any, float]:
    return dict(table.group_by(by).agg(pl.col("w").sum()).iter_rows())


def mean(table: pl.DataFrame, name: str) -> float:
    return float((table[name] * table["w"]).sum() / table["w"].sum())


@pytest.mark.parametrize("rows", [None, 4_000])
def test_weighted_totals_are_those_of_the_original(rows: int | None) -> None:
    table = survey()
    release = fitted(table).sample(rows)
    assert release["w"].min() > 0
    assert release["w"].sum() == pytest.approx(table["w"].sum(), rel=1e-5)
    most = float(table["w"].max())  # what one person says in a total
    for value, total in totals(table, "region").items():
        assert totals(release, "region")[value] == pytest.approx(total, abs=2 * most)


def test_weighted_means_are_within_their_standard_error() -> None:
    table = survey()
    release = fitted(table).sample()
    for name in ("age", "income"):
        away = ((table[name] - mean(table, name)) * table["w"]).to_numpy()
        error = float(np.sqrt((away**2).sum()) / table["w"].sum())
        assert abs(mean(release, name) - mean(table, name)) < error
    plain = float(table["income"].mean())  # type: ignore[arg-type]
    assert abs(mean(table, "income") - plain) > 100  # weights matter


def test_exact_totals_are_exact() -> None:
    table = survey()
    with pytest.warns(PrivacyWarning, match="totals are exact"):
        release = fitted(table, exact_totals=True).sample()
    for value, total in totals(table, "region").items():
        assert totals(release, "region")[value] == pytest.approx(total, rel=1e-4)


def test_totals_are_drawn_once() -> None:
    condenser = fitted(survey())
    first, second = (totals(condenser.sample(), "region") for _ in range(2))
    assert first == pytest.approx(second, rel=1e-4)  # copies do not average to the original


def test_k_counts_people_and_not_weights() -> None:
    table = survey().with_columns(
        rare=pl.when(pl.int_range(pl.len()) < 5).then(pl.lit("rare")).otherwise(pl.lit("usual")),
        w=pl.when(pl.int_range(pl.len()) < 5).then(200.0).otherwise("w"),
    )
    crowd = Crowd.of_kept(10, np.ones(table.height, dtype=bool), None)
    schema = Schema.of({"w": "weight"}, table)
    found = WeightTotals.of(table, schema, crowd, crowd.kept, exact=True)
    assert found is not None
    assert [m.value for m in found.margins if m.column == "rare"] == ["usual"]
    crowded = Crowd.of_kept(10, crowd.kept, np.arange(table.height) % 9)  # nine people in all
    alone = WeightTotals.of(table, schema, crowded, crowd.kept, exact=True)
    assert alone is not None
    assert not alone.margins


def test_people_with_several_rows_keep_one_weight() -> None:
    one = survey(400)
    table = one.with_columns(person=pl.int_range(pl.len())).select(pl.all().repeat_by(3).explode())
    table = table.with_columns(year=pl.Series(np.tile([2020, 2021, 2022], 400)))
    release = fitted(table, columns={"person": "person"}).sample()
    assert release.group_by("person").agg(pl.col("w").n_unique())["w"].max() == 1
    most = 3 * float(table["w"].max())
    for value, total in totals(table, "region").items():
        assert totals(release, "region")[value] == pytest.approx(total, abs=2 * most)


def test_classes_have_their_totals() -> None:
    table = survey()
    by_class = ClassCondenser(Condenser(columns={"w": "weight"}), k=10, random_state=0)
    X, y = by_class.fit(table.drop("region"), table["region"]).sample()
    release = X.with_columns(region=y)
    for value, total in totals(table, "region").items():
        assert totals(release, "region")[value] == pytest.approx(total, abs=2 * table["w"].max())


def test_linked_tables_have_the_totals_of_each() -> None:
    people, rng = survey(600).with_columns(id=pl.int_range(600)), np.random.default_rng(1)
    who = rng.integers(0, 600, 1_500)
    visits = people.select("id", own="w")[who].with_columns(
        cost=pl.Series(rng.normal(100, 10, 1_500).round(1)),
        w=pl.Series(rng.uniform(1, 3, 1_500).round(3)),
    )
    columns = {
        "people": [Column("w", Kind.DECIMAL, Role.WEIGHT)],
        "visits": [Column("w", Kind.DECIMAL, Role.WEIGHT)],
    }
    tables = {"people": people, "visits": visits.drop("own")}
    links = {"visits": ("id", "people")}
    given = Database(tables, people="people", key="id", links=links, columns=columns)
    release = DatabaseCondenser(10, random_state=0).fit_resample(given)
    most = 2 * float(people["w"].max())
    for value, total in totals(people, "region").items():
        assert totals(release["people"], "region")[value] == pytest.approx(total, abs=most)
    assert release["visits"]["w"].sum() == pytest.approx(visits["w"].sum(), rel=1e-5)
    assert mean(release["visits"], "cost") == pytest.approx(mean(visits, "cost"), abs=0.3)
    visits = visits.drop("w").rename({"own": "w"})  # the person's, in each of their rows
    tables = {"people": people.drop("w"), "visits": visits}
    columns.pop("people")
    given = Database(tables, people="people", key="id", links=links, columns=columns)
    released = DatabaseCondenser(10, random_state=0).fit_resample(given)["visits"]
    assert released.group_by("id").agg(pl.col("w").n_unique())["w"].max() == 1
    assert released["w"].sum() == pytest.approx(visits["w"].sum(), rel=1e-5)


def test_a_stream_refuses_weights_and_says_why() -> None:
    stream = StreamCondenser(10, columns={"w": "weight"}, init_size=100)
    with pytest.raises(ParameterError, match="column 'w' has the role 'weight'.*came in between"):
        stream.partial_fit(survey(200))


def test_whole_weights_stay_whole() -> None:
    table = survey().with_columns((pl.col("w") * 100).round().cast(pl.Int64))
    release = fitted(table).sample()
    assert release.schema["w"] == pl.Int64
    assert release["w"].sum() == table["w"].sum()


def test_no_formula_is_found_that_a_weight_is_part_of() -> None:
    table = survey().with_columns(other=2 * pl.col("w"))
    assert any("w" in rule.rule for rule in Condenser(random_state=0).fit(table).rules_)
    assert not any("w" in rule.rule.split() for rule in fitted(table).rules_)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (pl.lit(None), "1,500 of 1,500 weights in column 'w'"),
        (-pl.col("w"), "below 0"),
        (0 * pl.col("w"), "all weights in column 'w' are 0"),
        (pl.col("region"), "not numbers"),
    ],
)
def test_what_cannot_be_a_weight_is_refused(change: pl.Expr, said: str) -> None:
    table = survey().with_columns(change.alias("w"))
    if said.startswith("1,500"):
        table = table.with_columns(pl.col("w").cast(pl.Float64))
    with pytest.raises(DataError, match=said):
        fitted(table)
    with pytest.raises(DataError, match="2 columns have the role 'weight'"):
        fitted(survey(), columns={"age": "weight"})


def test_weights_stay_in_the_range_of_those_that_were_drawn() -> None:
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 2.0, 300)
    design = np.column_stack([np.ones(300), (rng.random((300, 3)) < 0.3).astype(float)])
    raked = rake(weights, design, weights.sum() * np.array([1.0, 0.9, 0.8, 0.1]))  # far away
    assert raked.sum() == pytest.approx(weights.sum())
    assert raked.std() / raked.mean() < 2 * weights.std() / weights.mean()
    assert raked.max() <= 3 * weights.max()


def test_totals_that_contradict_each_other_meet_in_the_middle() -> None:
    rng = np.random.default_rng(0)
    half = (rng.random(200) < 0.5).astype(float)
    design = np.column_stack([np.ones(200), half, half])
    raked = rake(np.ones(200), design, np.array([200.0, 80.0, 120.0]))
    assert raked.sum() == pytest.approx(200)
    assert np.isfinite(raked).all()
    assert raked.max() / raked.min() <= 25


def test_one_heavy_respondent_counts_for_three_others_at_most() -> None:
    rng = np.random.default_rng(2)
    table = pl.DataFrame(
        {
            "region": rng.choice(list("abcdefgh"), 800),
            "age": rng.integers(18, 80, 800),
            "w": rng.uniform(0.5, 1.5, 800).round(3),
        }
    )
    heavy = table.with_columns(
        pl.when(pl.int_range(800) == 0).then(400.0).otherwise("w").alias("w")
    )
    sums = [
        float(Condenser(10, columns={"w": "weight"}, random_state=0).fit(one).sample()["w"].sum())
        for one in (table, heavy)
    ]
    assert abs(sums[1] - sums[0]) < 5
