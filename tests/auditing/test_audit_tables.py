"""audit() takes tables of every kind, and names those that it cannot take."""

from __future__ import annotations

import math
from datetime import date, time, timedelta
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier

from tests.reference.audit_people import people_table
from tulle import audit
from tulle.auditing import measures
from tulle.errors import DataError, ParameterError, PolicyError, PrivacyError
from tulle.tables.schema import Column, Kind, Role

# -- tables of every kind ----------------------------------------------------------------------


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
        assert names == ["inference:ill"]
        assert "who knows age of" in result["attacks"]["linkage"]["story"]


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
        for target, estimator in (
            ("ill", KNeighborsClassifier(1)),
            ("city", None),
            ("pay", None),
        )
    }
    assert all(found["accuracy_release"] == found["accuracy_original"] for found in scores.values())
    assert scores["pay"]["accuracy_ratio"] == 1


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


def test_models_of_large_tables_learn_from_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "_MOST_TRAINED", 50)
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
    with pytest.raises(DataError, match="datetime in the original, time of day in the release"):
        audit(here, clock)
    spans = pl.DataFrame({"t": [timedelta(hours=i) for i in range(40)]})
    assert audit(spans, spans, random_state=0).to_dict()["attacks"]["exact_copies"]["rate"] == 1


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
    assert [name for name in found if name.startswith("inference")] == ["inference:age"]


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_tiny_and_flat_tables_still_give_a_report(rows: int) -> None:
    table = pl.DataFrame({"a": [1] * rows, "b": [None] * rows, "c": ["x"] * rows})
    audit(table, table, random_state=0).html()
    one = pl.DataFrame({"a": list(range(rows))})
    few = audit(one, one, control=one + 0.5, random_state=0)
    few.html()
    with pytest.raises(PrivacyError, match=f"one of the tables has {rows}"):
        few.html("public")


# -- bad input ---------------------------------------------------------------------------------

GOOD = pl.DataFrame({"age": [30, 40, 50], "city": ["x", "y", "x"]})


@pytest.mark.parametrize(
    "release, message",
    [
        (GOOD.drop("city"), r"release lacks 1 column\(s\) that the original has: 'city'"),
        (GOOD.with_columns(more=1), r"original lacks 1 column\(s\) that the release has: 'more'"),
        (GOOD.clear(), "the release has 0 rows"),
        (GOOD.with_columns(pl.col("age").cast(pl.String)), "category in the release"),
        (GOOD.with_columns(city=pl.Series([1, 2, 3])), "column 'city' holds different kinds"),
        (GOOD.with_columns(age=pl.Series([date(2020, 1, 1)] * 3)), "datetime in the release"),
        (5, "cannot read"),
    ],
)
def test_a_release_that_cannot_be_compared_is_named(release: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        audit(GOOD, release)
    assert "30" not in str(caught.value)


def test_other_bad_input_is_named() -> None:
    with pytest.raises(DataError, match="the original has 0 rows"):
        audit(GOOD.clear(), GOOD)
    with pytest.raises(DataError, match="the control lacks 1"):
        audit(GOOD, GOOD, control=GOOD.drop("age"))
    with pytest.raises(PolicyError, match="did you mean 'city'"):
        audit(GOOD, GOOD, policy={"citi": "sensitive"})
    with pytest.raises(PolicyError, match="role of column 'city'"):
        audit(GOOD, GOOD, policy={"city": "secret"})
    with pytest.raises(PolicyError, match="Got a int"):
        audit(GOOD, GOOD, policy=3)
    with pytest.raises(PolicyError, match="Got a DataFrame"):
        audit(GOOD, GOOD, policy=GOOD)
    with pytest.raises(ParameterError, match=r"a list of columns: \['city'\]"):
        audit(GOOD, GOOD, sensitive="city")
    empty = GOOD.with_columns(city=pl.Series([math.nan] * 3))
    assert audit(empty, GOOD, random_state=0).result["records"] == 3  # all missing fits any kind
    with pytest.raises(DataError, match="no column is left"):
        audit(GOOD, GOOD, policy={"age": "ignored", "city": "level"})
    with pytest.raises(PolicyError, match="no such policy"):
        audit(GOOD, GOOD, policy="nowhere.toml")
    for option in ("target", "sensitive"):
        with pytest.raises(ParameterError, match=f"'{option}' of audit is no column"):
            audit(GOOD, GOOD, **{option: "agee" if option == "target" else ["agee"]})
    with pytest.raises(ParameterError, match="'k' parameter"):
        audit(GOOD, GOOD, k=1)
    with pytest.raises(ParameterError, match="'attempts' parameter"):
        audit(GOOD, GOOD, attempts=0)
    with pytest.raises(ParameterError, match="another column"):
        audit(GOOD[["age"]], GOOD[["age"]], target="age")


def test_a_release_that_names_people_is_refused() -> None:
    named = GOOD.with_columns(name=pl.Series(["ann", "bob", "eve"]))
    policy = {"name": "identifier"}
    with pytest.raises(PrivacyError, match="'name', which the policy calls identifiers") as caught:
        audit(named, named, policy=policy)
    assert caught.value.exit_code == 1
    audit(named, GOOD, control=named[:1], policy=policy, random_state=0)  # the control stays here
    audit(named, named, policy={"name": "ignored"}, random_state=0)


def test_a_control_of_members_would_hide_everything_and_is_refused(data: tuple) -> None:
    people, control = data
    with pytest.raises(DataError, match="350 of the 350 records of the control are in the orig"):
        audit(people, people, control=people)
    with pytest.raises(DataError, match="10 of the 360 records of the control"):
        audit(people, people, control=np.vstack([control, people[:10]]))
    audit(people, people, control=np.vstack([control, people[:3]]), attempts=5)
    few = np.random.default_rng(0).integers(0, 3, (200, 2))
    audit(few, few, control=few[::-1], attempts=5)  # everybody has a twin: that says nothing


def test_attempts_fall_only_where_tables_are_large() -> None:
    rng = np.random.default_rng(0)
    small, large = rng.normal(size=(1500, 2)), rng.normal(size=(100_000, 2))
    tried = [
        audit(table, table[:50], sensitive=[], random_state=0).to_dict()["attacks"]
        for table in (small, large)
    ]
    assert tried[0]["linkage"]["attempts"] == 1000
    assert tried[1]["linkage"]["attempts"] == 400
    assert tried[1]["exact_copies"]["attempts"] == 100_000


def test_pandas_index_and_plain_arrays_are_taken() -> None:
    frame = pd.DataFrame({"a": [1.5, 2.5, 9.0], "b": [1, 0, 1]}, index=[7, 8, 9])
    assert audit(frame, frame.iloc[::-1], random_state=0).verdict["level"] in ("bad", "good")
    rows = [[1, "a"], [2, "b"], [3, "a"]]
    assert audit(rows, rows, random_state=0).to_dict()["attacks"]["exact_copies"]["rate"] == 1


def test_numbers_of_any_size_and_beyond_all_bounds() -> None:
    rng = np.random.default_rng(11)
    table = pl.DataFrame({"x": rng.normal(size=60), "c": rng.choice(["a", "b"], 60)})
    for size in (1e300, 1e-300):
        sized = table.with_columns(pl.col("x") * size)
        attacks = audit(sized, sized.reverse(), random_state=0).to_dict()["attacks"]
        assert attacks["linkage"]["rate"] == 1
    wild = table.with_columns(x=pl.Series([1e300, float("inf"), *[0.0] * 58]))
    for pair in ((table, wild), (wild, table)):
        audit(*pair, random_state=0).html()
    with pytest.raises(ParameterError, match="'estimator' of audit"):
        audit(table, table, target="c", estimator=5)
