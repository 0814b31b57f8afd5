"""audit() takes tables of every kind, and names those that it cannot take."""

from __future__ import annotations

from datetime import date, time, timedelta
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier

from tests.reference.audit_people import people_table
from tulle import audit
from tulle._attacks.reconstruction import exact_values
from tulle.auditing import _learning as learning
from tulle.auditing._tables import align
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.table.schema import Column, Kind, Role

# -- tables of every kind ----------------------------------------------------------------------


@pytest.mark.slow
def test_a_mixed_table_in_any_library_and_order_gives_the_same_figures() -> None:
    rng = np.random.default_rng(4)
    original, release, control = (people_table(rng) for _ in range(3))
    first = audit(original, release, control=control, random_state=1, target="ill", attempts=50)
    shuffled = release.select(sorted(release.columns, reverse=True))
    second = audit(
        original.to_pandas(),
        shuffled,
        control=control.to_arrow(),
        random_state=1,
        target="ill",
        attempts=50,
    )
    assert first.to_dict()["attacks"] == second.to_dict()["attacks"]
    assert first.to_dict()["metrics"] == second.to_dict()["metrics"]
    assert {"inference:pay", "inference:city"} <= first.to_dict()["attacks"].keys()
    assert "accuracy_ratio" in first.to_dict()["metrics"]
    first.html()


def test_whole_and_decimal_numbers_go_together() -> None:
    rng = np.random.default_rng(5)
    whole = pl.DataFrame({"a": rng.integers(0, 50, 80), "b": rng.integers(0, 9, 80)})
    decimal = whole.with_columns(pl.col("a").cast(pl.Float32), pl.col("b").cast(pl.Int8))
    found = audit(whole, decimal, random_state=0).to_dict()
    assert found["attacks"]["exact_copies"]["rate"] == 1
    assert found["metrics"]["marginal_distance"] == 0


def test_the_few_values_of_a_column_move_by_chance_and_count_for_less() -> None:
    rng = np.random.default_rng(5)

    def table(share: float) -> pl.DataFrame:
        there = pl.Series(np.arange(900) < share * 900)
        drawn = pl.DataFrame({"a": rng.normal(size=900), "b": rng.normal(size=900)})
        return drawn.with_columns(pl.when(there).then("a"))

    few, many = (audit(table(s), table(s), random_state=0).to_dict() for s in (0.08, 1.0))
    moved = (result["metrics"]["marginal_distance_max"] for result in (few, many))
    assert all(distance < 0.15 for distance in moved)


@pytest.mark.slow
def test_roles_say_who_knows_what_and_what_is_secret() -> None:
    rng = np.random.default_rng(6)
    original = people_table(rng).with_columns(name=pl.Series([f"p{i}" for i in range(300)]))
    policy = {"name": "identifier", "ill": "sensitive", "age": Role.QUASI}
    columns = [
        Column("name", Kind.TEXT, Role.IDENTIFIER),
        Column("ill", Kind.BOOLEAN, Role.SENSITIVE),
        Column("age", Kind.INTEGER, Role.QUASI),
    ]
    found = [
        audit(original, people_table(rng), policy=given, random_state=0, attempts=30).to_dict()
        for given in (policy, columns)
    ]
    for result in found:
        names = [name for name in result["attacks"] if name.startswith("inference")]
        assert names == ["inference:ill", "inference:ill (insider)"]
        assert "who knows age of" in result["attacks"]["linkage"]["story"]


@pytest.mark.slow
def test_numbers_that_the_policy_calls_categories_are_compared_as_such() -> None:
    rng = np.random.default_rng(2)
    area = rng.choice([1001, 8001, 9000], 200)
    original = pl.DataFrame({"area": area, "x": rng.normal(size=200)})
    release = original.with_columns(pl.col("area").cast(pl.Float64), pl.col("x").shuffle(1))
    for policy in (
        [Column("area", Kind.CATEGORY, Role.QUASI)],
        {"area": Column("area", Kind.BOOLEAN, Role.QUASI)},
    ):
        found = audit(original, release, policy=policy, random_state=0, attempts=20).to_dict()
        columns = next(s for s in found["sections"] if s["id"] == "columns")
        assert ["area", "category", 0.0] in columns["blocks"][0]["rows"]
        columns = next(s for s in found["sections"] if s["id"] == "columns")
        charts = [b["rows"] for b in columns["blocks"] if b["type"] == "chart"]
        assert {"1001", "8001", "9000"} in [{row["label"] for row in rows} for rows in charts]


@pytest.mark.slow
def test_a_target_and_any_estimator(data: tuple) -> None:
    rng = np.random.default_rng(7)
    original, control = people_table(rng), people_table(rng)
    scores = {
        target: audit(
            original,
            original,
            control=control,
            target=target,
            estimator=estimator,
            random_state=0,
            attempts=20,
        ).to_dict()["metrics"]
        for target, estimator in (("ill", KNeighborsClassifier(1)), ("city", None), ("pay", None))
    }
    assert all(found["accuracy_release"] == found["accuracy_original"] for found in scores.values())
    assert scores["pay"]["accuracy_ratio"] == 1


@pytest.mark.slow
def test_classes_are_classes_in_any_type_and_of_any_size() -> None:
    rng = np.random.default_rng(9)
    wanted = rng.integers(0, 3, 300)
    table = pl.DataFrame({"x": wanted + rng.normal(0, 0.01, 300), "y": wanted})
    codes = {0: 0, 1: 1, 2: 10**15}  # so far apart that 0 and 1 are next to equal
    for y in (table["y"], table["y"].cast(pl.Float32), table["y"].replace_strict(codes)):
        release = table.with_columns(y)
        original = release.with_columns(pl.col("y").cast(pl.Int64))
        found = audit(original, release, target="y", random_state=0, attempts=20).to_dict()
        assert found["metrics"]["accuracy_original"] > 0.95
        assert found["metrics"]["accuracy_ratio"] == pytest.approx(1, abs=0.05)


@pytest.mark.slow
def test_whole_numbers_that_are_mostly_different_are_a_quantity_in_a_small_table() -> None:
    salaries = [2000 + 37 * (i // 2) for i in range(30)]
    table = pl.DataFrame({"age": [20 + 7 * i % 23 for i in range(30)], "salary": salaries})
    audit(table, table, target="salary", estimator=Ridge(), random_state=0, attempts=5)
    with pytest.raises(ParameterError, match="salary"):
        audit(table, table, target="salary", estimator=KNeighborsClassifier(), random_state=0)


@pytest.mark.slow
def test_models_of_large_tables_learn_from_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "_MOST_LEARNT", 50)
    table = people_table(np.random.default_rng(3), 300)
    model = Counting()
    control = people_table(np.random.default_rng(4), 90)
    audit(table, table, control, target="ill", estimator=model, attempts=5)
    assert Counting.seen == [50, 50, 50, 50]  # learnt, tested; twice


class Counting(DummyClassifier):
    seen: ClassVar[list[int]] = []

    def fit(self, X: Any, y: Any) -> Counting:
        self.seen.append(len(X))
        return super().fit(X, y)

    def score(self, X: Any, y: Any) -> float:
        self.seen.append(len(X))
        return super().score(X, y)


def test_an_estimator_of_the_wrong_kind_is_named() -> None:
    table = people_table(np.random.default_rng(7), 60)
    for target, estimator, need in (
        ("ill", Ridge(), "classes: give a classifier"),
        ("pay", KNeighborsClassifier(1), "numbers: give a regressor"),
    ):
        with pytest.raises(ParameterError, match=need):
            audit(table, table, target=target, estimator=estimator, attempts=5)


@pytest.mark.slow
def test_the_association_of_columns_is_not_that_of_their_gaps() -> None:
    rng = np.random.default_rng(8)
    x = rng.normal(size=400)
    full = pl.DataFrame({"x": x, "y": x + rng.normal(0, 0.1, 400)})
    holes = full.with_columns(y=pl.when(pl.Series(rng.random(400) < 0.5)).then("y"))
    found = audit(full, holes, random_state=0, attempts=20).to_dict()["metrics"]
    assert found["correlation_difference_max"] < 0.01


def test_moments_are_compared_across_time_zones_and_clocks_are_no_dates() -> None:
    moments = pl.Series("t", [date(2020, 1, 1) + timedelta(days=i) for i in range(40)])
    here = moments.cast(pl.Datetime("us")).dt.replace_time_zone("Europe/Berlin").to_frame()
    there = here.with_columns(pl.col("t").dt.convert_time_zone("Asia/Tokyo"))
    assert audit(here, there, random_state=0).to_dict()["attacks"]["exact_copies"]["rate"] == 1
    clock = pl.DataFrame({"t": [time(i % 24, 5) for i in range(40)]})
    with pytest.raises(DataError):
        audit(here, clock)
    spans = pl.DataFrame({"t": [timedelta(hours=i) for i in range(40)]})
    assert audit(spans, spans, random_state=0).to_dict()["attacks"]["exact_copies"]["rate"] == 1


@pytest.mark.slow
def test_columns_that_are_not_inferred_for_their_number_are_told() -> None:
    wide = pl.DataFrame(np.random.default_rng(0).normal(size=(40, 25)))
    found = audit(wide, wide, target="column_24", random_state=0, attempts=5).to_dict()
    assert "inference:column_24" in found["attacks"]
    assert found["provenance"]["columns inferred"].startswith("20 of 25")
    named = audit(wide, wide, sensitive=["column_3"], random_state=0, attempts=5).to_dict()
    assert "columns inferred" not in named["provenance"]


def test_sensitive_columns_can_be_named() -> None:
    rng = np.random.default_rng(8)
    table = people_table(rng, 60)
    found = audit(table, table, sensitive=["age"], random_state=0).to_dict()["attacks"]
    names = [name for name in found if name.startswith("inference")]
    assert names == ["inference:age", "inference:age (neighbour)"]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_tiny_and_flat_tables_still_give_a_report(rows: int) -> None:
    table = pl.DataFrame({"a": [1] * rows, "b": [None] * rows, "c": ["x"] * rows})
    audit(table, table, random_state=0).html()
    one = pl.DataFrame({"a": list(range(rows))})
    few = audit(one, one, control=one + 0.5, random_state=0)
    few.html()
    with pytest.raises(PrivacyError, match=f"one of the tables has {rows}"):
        few.html("public")


@pytest.mark.parametrize("sort", [pl.Date(), pl.Datetime("us"), pl.Time()])
def test_a_day_that_one_person_has_is_no_surprise_among_days(sort: pl.DataType) -> None:
    """Releases of other people hold about as many of its days as guessing says."""
    rng = np.random.default_rng(0)

    def drawn(n: int) -> pl.DataFrame:
        if sort == pl.Time:
            days = pl.Series("day", rng.integers(0, 1440, n) * 60 * 10**9).cast(pl.Time)
        else:
            days = pl.Series("day", rng.integers(7000, 8200, n), dtype=pl.Int32).cast(pl.Date)
        return pl.DataFrame({"day": days.cast(sort), "x": rng.normal(size=n)})

    tables = align(drawn(700), drawn(700), drawn(300), None)
    assert tables.steps()[0] in (60.0, 86_400e6)
    found = exact_values(
        *(tables.numbers(place)[:, :1] for place in (0, 1)),
        tables.steps()[:1],
        rng,
        control=tables.numbers(2)[:, :1],
    )
    assert found is not None
    assert found.rate == pytest.approx(found.baseline, abs=0.1)
