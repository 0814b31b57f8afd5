from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier

from tulle import ClassCondenser, Condenser, GroupSizeSearch, StreamCondenser
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.table._frames import enter
from tulle.table.schema import Column, Kind, Role, Schema
from tulle.tuning._evaluation import Split

pytestmark = pytest.mark.slow

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
    split = Split.of(
        *enter(X), y, None, Schema.of(None, enter(X)[0]), test_size=0.1, classes=True, seed=0
    )
    assert not set(split.train) & set(split.test)
    table, target, _ = split.training(5)
    assert len(table) == len(target) == len(split.train)
    moved = X.copy()
    moved[split.test] += 1000
    again = Split.of(
        *enter(moved), y, None, Schema.of(None, enter(X)[0]), test_size=0.1, classes=True, seed=0
    )
    assert np.array_equal(again.training(5)[0], table)
    assert np.array_equal(again.encoder.scales_, split.encoder.scales_)


def test_too_small_classes_and_wrong_options_get_a_clear_answer() -> None:
    with pytest.raises(DataError, match="has 45.*60"):
        search(min_group=60)
    with pytest.raises(ParameterError, match="'strategy'"):
        search(strategy="ruel")
    with pytest.raises(ParameterError, match="'accuracy_gap'"):
        search(accuracy_gap=2)
    with pytest.raises(DataError, match="5.*45"):
        search(strategy="grid", sizes=[60])
    with pytest.raises(DataError):
        GroupSizeSearch().fit(X, None)
    with pytest.raises(PrivacyError):
        search(min_accuracy_ratio=3.0)
    with pytest.raises(ParameterError, match="'estimator'"):
        search(estimator=DecisionTreeClassifier())


def test_classes_that_cannot_be_held_out_are_counted_not_named() -> None:
    labels = np.array(["secret", *["a"] * 74, *["b"] * 75])
    with pytest.raises(DataError, match="1 of 3 classes") as refused:
        GroupSizeSearch().fit(X, labels)
    assert "secret" not in str(refused.value)
    with pytest.raises(DataError, match="1 record"):
        GroupSizeSearch().fit(X, np.r_[np.nan, np.zeros(74), np.ones(75)])
    with pytest.raises(DataError, match="'test_size' 0.1 of 6 records"):
        GroupSizeSearch().fit(X[:6], np.repeat([0, 1], 3))
    with pytest.raises(DataError, match="0 records"):
        GroupSizeSearch().fit(X[:0], y[:0])


def test_a_condenser_of_streams_is_searched_too() -> None:
    condenser = StreamCondenser(init_size=60, classwise=True)
    found = search(estimator=condenser, min_group=5, max_group=12)
    assert 5 <= found.best_k_ <= 12
    assert (found.results_["privacy"] > 0).all()


def test_limits_are_kept() -> None:
    found = search(strategy="grid", sizes=4, max_risk=0.05, min_accuracy_ratio=0.8)
    chosen = found.results_.filter(pl.col("chosen")).row(0, named=True)
    assert chosen["risk"] <= 0.05
    assert chosen["ratio"] >= 0.8


# -- levels, small classes, limits that cannot be measured --------------------------------------

LEVELS = np.where(np.arange(150) % 10 == 0, 30, 2)


def _frame() -> pl.DataFrame:
    return pl.DataFrame(X, schema=["a", "b", "c", "d"]).with_columns(asked=pl.Series(LEVELS))


def test_with_levels_no_group_is_smaller_than_the_size_or_its_level() -> None:
    grid = GroupSizeSearch(strategy="grid", sizes=[5, 20], repeats=1, random_state=0)
    given = grid.fit(_frame().drop("asked"), y, LEVELS)
    made = given.best_estimator_
    assert made.counts_.min() >= given.best_k_
    assert {row.level for row in made.level_summary_} == {given.best_k_, 30}
    named = clone(grid).fit(_frame(), y, "asked")
    assert named.results_.drop("seconds").equals(given.results_.drop("seconds"))
    by_policy = ClassCondenser(Condenser(columns=[Column("asked", Kind.INTEGER, Role.LEVEL)]))
    told = clone(grid).set_params(estimator=by_policy).fit(_frame(), y)
    assert told.results_.drop("seconds").equals(given.results_.drop("seconds"))
    assert told.sample()[0].columns == ["a", "b", "c", "d"]
    with pytest.raises(DataError, match="100 entries.*150"):
        grid.fit(X, y, LEVELS[:100])


def test_larger_groups_of_the_papers_are_more_private() -> None:
    condenser = ClassCondenser(Condenser(synthesis="uniform"))
    found = GroupSizeSearch(condenser, "grid", sizes=[5, 20], repeats=1, random_state=0)
    assert found.fit(_frame().drop("asked"), y, LEVELS).results_["privacy"].is_sorted()


@pytest.mark.parametrize("small_classes", ["pool", "suppress"])
def test_classes_that_the_condenser_withholds_or_pools_have_no_say(small_classes: str) -> None:
    labels = np.array([*["rare"], *["few"] * 3, *["a"] * 71, *["b"] * 75])
    condenser = ClassCondenser(small_classes=small_classes)
    found = GroupSizeSearch(condenser, "grid", sizes=2, repeats=1, random_state=0).fit(X, labels)
    assert found.results_["k"].to_list()[0] == 5
    with pytest.raises(DataError):
        GroupSizeSearch().fit(X, labels)


def test_a_class_of_which_nobody_is_held_out_has_no_utility() -> None:
    labels = np.r_[np.zeros(145), np.ones(5)]
    found = GroupSizeSearch(strategy="gcd", min_group=2, repeats=1, random_state=0)
    rows = found.set_params(test_size=0.02).fit(X, labels).class_results_
    assert rows["utility"].is_nan().to_list() == [False, True]


@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
def test_the_condensers_own_smallest_group_is_the_smallest_size() -> None:
    found = search(estimator=ClassCondenser(min_group=15), min_group=None, strategy="grid", sizes=2)
    assert found.results_["k"].to_list() == [15, 45]
    assert search(min_group=None, strategy="grid", sizes=[2, 9]).results_["k"].to_list() == [2, 9]
    assert search(min_group=None, max_group=4, strategy="gcd").best_k_ == 4
    assert search(strategy="grid", sizes=np.int64(2)).results_.height == 2
    with pytest.raises(ParameterError, match="min_group=9.*max_group=8"):
        search(min_group=9, max_group=8)


def test_errors_as_scores_are_searched_and_limited() -> None:
    options = {"scoring": "neg_mean_squared_error", "repeats": 1, "min_group": 5, "random_state": 0}
    found = GroupSizeSearch(Condenser(), **options).fit(X[:, :3], X[:, 3])
    assert found.baseline_ < 0
    ratios = 2 - found.results_["utility"] / found.baseline_
    assert np.allclose(found.results_["ratio"], ratios)
    with pytest.raises(PrivacyError):
        GroupSizeSearch(Condenser(), min_accuracy_ratio=1.9, **options).fit(X[:, :3], X[:, 3])


def test_targets_that_cannot_be_predicted_are_refused() -> None:
    for condenser in (Condenser(), ClassCondenser()):
        for given in (y[:100], np.r_[y, y]):
            with pytest.raises(DataError, match="inconsistent"):
                GroupSizeSearch(condenser).fit(X, given)
    with pytest.raises(DataError, match="1 record"):
        GroupSizeSearch(Condenser()).fit(X, np.r_[np.nan, X[1:, 0]])
    with pytest.raises(DataError, match="4 columns"):
        GroupSizeSearch().fit(X * 1e200, y)
    words = np.array([f"secret {i}" for i in range(150)])
    days = np.arange(150).astype("datetime64[D]")
    for given in (words, days):
        with pytest.raises(DataError, match="50 classes") as refused:
            GroupSizeSearch(Condenser()).fit(X, given)
        assert "secret" not in str(refused.value)


def test_wrong_miners_and_scorers_are_named() -> None:
    with pytest.raises(ParameterError, match="'accuracy'"):
        search(scoring="acuracy")
    with pytest.raises(ParameterError, match="'miner'"):
        search(miner="knn")
    with pytest.raises(DataError):
        search(scoring=lambda model, X, y: float("nan"))


def test_exact_moments_beyond_public_bounds_are_mined_too() -> None:
    columns = [
        Column(name, Kind.DECIMAL, bounds=(float(X[:, i].min()), float(X[:, i].max())))
        for i, name in enumerate("abcd")
    ]
    condenser = ClassCondenser(Condenser(exact_moments=True, columns=columns))
    found = GroupSizeSearch(condenser, "gcd", min_group=5, repeats=1, random_state=0)
    assert found.fit(_frame().drop("asked"), y).best_k_ == 45


def test_the_release_is_drawn_from_all_of_the_random_bits() -> None:
    entropy = search(strategy="gcd").best_estimator_.random_state.bit_generator.seed_seq.entropy
    assert sum(int(word).bit_length() for word in np.atleast_1d(entropy)) > 128


def test_a_rare_class_counts_as_much_as_a_common_one() -> None:
    rng = np.random.default_rng(0)
    y = np.where(rng.random(800) < 0.06, "dies", "lives")
    X = rng.normal(size=(800, 3)) + (y == "dies")[:, None] * 0.5
    options: dict[str, Any] = {"strategy": "grid", "sizes": [5, 40], "repeats": 1}
    found = GroupSizeSearch(random_state=0, **options).fit(X, y)
    plain = GroupSizeSearch(scoring="accuracy", random_state=0, **options).fit(X, y)
    assert found.baseline_ < plain.baseline_  # whoever always says "lives" is right for 94 %
    shares = found.class_results_.filter(pl.col("k") == 5)["utility"]
    assert found.results_.filter(pl.col("k") == 5)["utility"][0] == pytest.approx(shares.mean())
