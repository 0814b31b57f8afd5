from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier

from tulle import ClassCondenser, Condenser, GroupSizeSearch, StreamCondenser
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.tuning.evaluation import Split

X, y = load_iris(return_X_y=True)


def search(**options: object) -> GroupSizeSearch:
    given = {"min_group": 5, "repeats": 1, "random_state": 0, **options}
    return GroupSizeSearch(**given).fit(X, y)  # type: ignore[arg-type]


def test_rule_tries_few_sizes_and_releases_the_chosen() -> None:
    found = search()
    assert found.results_.columns[0] == "k"
    assert found.best_k_ in found.results_["k"].to_list()
    assert found.results_.filter(pl.col("chosen"))["k"].to_list() == [found.best_k_]
    assert found.results_.height <= 10
    assert str(found.best_k_) in found.reason_
    assert "group size k" in str(found.chart().to_dict())
    X_new, y_new = found.sample()
    assert X_new.shape == X.shape
    assert found.best_estimator_.counts_.min() >= found.best_k_
    assert sorted(set(y_new)) == [0, 1, 2]


@pytest.mark.parametrize("jobs", [1, 2])
def test_result_does_not_depend_on_the_number_of_threads(jobs: int) -> None:
    found = search(strategy="grid", sizes=[5, 10, 20], n_jobs=jobs)
    again = search(strategy="grid", sizes=[5, 10, 20], n_jobs=1)
    assert found.results_.drop("seconds").equals(again.results_.drop("seconds"))
    assert np.array_equal(found.sample()[0], again.sample()[0])


def test_sizes_are_evaluated_alike_by_every_strategy() -> None:
    rule, grid = search(), search(strategy="grid", sizes=[5, 15, 45])
    shared = rule.results_.join(grid.results_, on="k", suffix="_grid")
    assert shared.height
    assert shared["utility"].equals(shared["utility_grid"], check_names=False)


def test_gcd_tries_one_size() -> None:
    found = search(strategy="gcd")
    assert found.results_.height == 1
    assert found.best_k_ == 45  # three classes of 45 training records, in units of 5


def test_any_miner_scorer_and_condenser_will_do() -> None:
    found = GroupSizeSearch(
        ClassCondenser(Condenser(synthesis="normal")),
        "grid",
        sizes=2,
        miner=DecisionTreeClassifier(random_state=0),
        scoring="balanced_accuracy",
        min_group=5,
        repeats=1,
        random_state=0,
    ).fit(X, y)
    assert 0.5 < found.baseline_ <= 1
    assert set(found.class_results_.columns) == {"k", "class", "utility"}


def test_numbers_are_searched_with_a_plain_condenser() -> None:
    found = GroupSizeSearch(
        Condenser(), "grid", sizes=2, miner=LinearRegression(), min_group=5, repeats=1,
        max_group=20, random_state=0,
    ).fit(X[:, :3], X[:, 3])  # fmt: skip
    assert found.results_["k"].to_list() == [5, 20]
    assert found.class_results_.height == 0


def test_frames_with_categories_and_missing_values() -> None:
    frame = pl.DataFrame(X, schema=["a", "b", "c", "d"]).with_columns(
        size=pl.when(pl.col("a") > 6).then(pl.lit("large")).otherwise(pl.lit("small")),
        b=pl.when(pl.col("b") > 4).then(None).otherwise(pl.col("b")),
    )
    found = GroupSizeSearch(strategy="grid", sizes=2, min_group=5, repeats=1, random_state=0)
    X_new, _ = found.fit(frame, y).sample()
    assert X_new.schema == frame.schema


def test_held_out_records_touch_neither_scales_nor_groups() -> None:
    split = Split.of(X, y, None, None, test_size=0.1, classes=True, seed=0)
    assert not set(split.train) & set(split.test)
    table, target, _ = split.training()
    assert len(table) == len(target) == len(split.train)
    moved = X.copy()
    moved[split.test] += 1000
    again = Split.of(moved, y, None, None, test_size=0.1, classes=True, seed=0)
    assert np.array_equal(again.training()[0], table)
    assert np.array_equal(again.encoder.scales_, split.encoder.scales_)


def test_too_small_classes_and_wrong_options_get_a_clear_answer() -> None:
    with pytest.raises(DataError, match=r"smallest class has 45 .* smallest group of 60"):
        search(min_group=60)
    with pytest.raises(ParameterError, match="'strategy'"):
        search(strategy="ruel")
    with pytest.raises(ParameterError, match="'accuracy_gap'"):
        search(accuracy_gap=2)
    with pytest.raises(DataError, match="between 5 and 45"):
        search(strategy="grid", sizes=[60])
    with pytest.raises(DataError, match="needs a target"):
        GroupSizeSearch().fit(X, None)
    with pytest.raises(PrivacyError, match="none of the"):
        search(min_accuracy_ratio=3.0)
    with pytest.raises(ParameterError, match="'estimator' must be a condenser"):
        search(estimator=DecisionTreeClassifier())


def test_classes_that_cannot_be_held_out_are_counted_not_named() -> None:
    labels = np.array(["secret", *["a"] * 74, *["b"] * 75])
    with pytest.raises(DataError, match="1 of 3 classes have a single record") as refused:
        GroupSizeSearch().fit(X, labels)
    assert "secret" not in str(refused.value)
    with pytest.raises(DataError, match="y is missing .* in 1 records"):
        GroupSizeSearch().fit(X, np.r_[np.nan, np.zeros(74), np.ones(75)])
    with pytest.raises(DataError, match="'test_size' 0.1 of 6 records"):
        GroupSizeSearch().fit(X[:6], np.repeat([0, 1], 3))
    with pytest.raises(DataError, match="0 records"):
        GroupSizeSearch().fit(X[:0], y[:0])


@pytest.mark.parametrize(
    "condenser",
    [StreamCondenser(init_size=60, classwise=True), ClassCondenser(StreamCondenser(init_size=20))],
)
def test_a_condenser_of_streams_is_searched_too(condenser: object) -> None:
    found = search(estimator=condenser, min_group=5, max_group=12)
    assert 5 <= found.best_k_ <= 12
    assert (found.results_["privacy"] > 0).all()


def test_limits_are_kept() -> None:
    found = search(strategy="grid", sizes=4, max_risk=0.05, min_accuracy_ratio=0.8)
    chosen = found.results_.filter(pl.col("chosen")).row(0, named=True)
    assert chosen["risk"] <= 0.05
    assert chosen["ratio"] >= 0.8
