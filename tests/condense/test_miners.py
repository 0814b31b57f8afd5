"""Groups mined directly, and models trained on a condensed training set."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tulle import ClassCondenser, CondensedTraining, Condenser, GroupClassifier, GroupKMeans
from tulle.errors import DataError, ParameterError


@pytest.fixture
def wine() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_wine(return_X_y=True)
    return X, np.array(["red", "rosé", "white"])[y]


def by_class(k: int = 20) -> ClassCondenser:
    return ClassCondenser(Condenser(synthesis="uniform"), k=k, random_state=0)


def test_naive_bayes_on_moments_is_that_of_the_records(wine: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = wine
    ours = GroupClassifier(by_class(), rule="bayes").fit(X, y)
    theirs = GaussianNB().fit(X / X.std(axis=0), y)
    assert (ours.predict(X) == theirs.predict(X / X.std(axis=0))).all()
    assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X / X.std(axis=0)), atol=1e-6)


def test_one_normal_distribution_a_class_is_the_quadratic_discriminant(
    wine: tuple[np.ndarray, np.ndarray],
) -> None:
    X, y = wine
    ours = GroupClassifier(by_class(), rule="normal").fit(X, y)
    theirs = QuadraticDiscriminantAnalysis().fit(X, y)
    assert (ours.predict(X) == theirs.predict(X)).mean() > 0.98  # they divide by n - 1


@pytest.mark.slow
def test_nearest_group_takes_the_class_of_the_nearest_mean(
    wine: tuple[np.ndarray, np.ndarray],
) -> None:
    X, y = wine
    model = GroupClassifier(by_class(15)).fit(X, y)
    scales, means = X.std(axis=0), model.condenser_.means_
    labels = model.condenser_.classes_[model.condenser_.group_classes_]
    away = (((X[:, None, :] - means) / scales) ** 2).sum(axis=2)
    assert (model.predict(X) == labels[away.argmin(axis=1)]).all()
    assert model.score(X, y) > 0.9


def test_groups_of_a_fitted_condenser_and_mixed_columns() -> None:
    rng = np.random.default_rng(0)
    y = rng.choice(["a", "b"], 300)
    table = pl.DataFrame(
        {"x": rng.normal(0, 1, 300) + 3 * (y == "a"), "town": rng.choice(["B", "C"], 300)}
    )
    fitted = by_class().fit(table, y)
    model = GroupClassifier(rule="bayes").fit_groups(fitted)
    assert (model.predict(table) == y).mean() > 0.9


def test_pooled_classes_and_wrong_condensers_are_refused() -> None:
    X, y = load_iris(return_X_y=True)
    few = np.where(np.arange(150) < 3, 9, y)
    pooled = ClassCondenser(k=20, small_classes="pool", random_state=0)
    with pytest.raises(DataError, match="pooled"):
        GroupClassifier(pooled).fit(X, few)
    with pytest.raises(ParameterError, match="ClassCondenser"):
        GroupClassifier(Condenser()).fit(X, y)
    with pytest.raises(ParameterError, match="Condenser"):
        GroupKMeans(3, ClassCondenser()).fit(X)
    with pytest.raises(ParameterError, match="rule"):
        GroupClassifier(by_class(), rule="closest").fit(X, y)


@pytest.mark.slow
def test_inertia_counts_what_lies_inside_the_groups() -> None:
    X, _ = load_iris(return_X_y=True)
    model = GroupKMeans(3, Condenser(k=5, random_state=0), random_state=0).fit(X)
    standard = (X - 0) / X.std(axis=0)
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    watched = Condenser(k=5, synthesis="uniform", random_state=0)
    watched._fit(X, None, None, lambda matrix, groups, moments: seen.append((matrix, groups)))
    matrix, groups = seen[0]
    away = ((matrix - model.cluster_centers_[model.group_labels_[groups]]) ** 2).sum()
    assert model.inertia_ == pytest.approx(float(away), rel=1e-9)
    assert np.allclose(np.sort(matrix, axis=0), np.sort(standard, axis=0))


@pytest.mark.slow
def test_clusters_of_groups_are_those_of_records() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(4), 100)
    X = rng.normal(0, 0.3, (400, 2)) + np.array([[0, 0], [4, 0], [0, 4], [4, 4]])[truth]
    found = GroupKMeans(4, Condenser(k=10, random_state=0), random_state=0).fit(X).predict(X)
    assert adjusted_rand_score(truth, found) > 0.99


# --- training on a release -----------------------------------------------------------------


@pytest.mark.slow
def test_cross_validation_and_grid_search_work(wine: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = wine
    inner = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model = CondensedTraining(inner, ClassCondenser(random_state=0))
    assert cross_val_score(model.set_params(condenser__k=10), X, y, cv=3).mean() > 0.85
    search = GridSearchCV(model, {"condenser__k": [5, 20]}, cv=3).fit(X, y)
    assert set(search.cv_results_["param_condenser__k"]) == {5, 20}
    assert search.best_estimator_.predict_proba(X).shape == (178, 3)
    assert list(search.best_estimator_.classes_) == ["red", "rosé", "white"]


@pytest.mark.slow
def test_the_model_never_sees_a_record() -> None:
    X, y = load_iris(return_X_y=True)

    class Watching(LogisticRegression):
        def fit(self, X, y):  # type: ignore[no-untyped-def]
            self.seen_ = X
            return super().fit(X, y)

    model = CondensedTraining(Watching(max_iter=500), ClassCondenser(k=10, random_state=0)).fit(
        X, y
    )
    originals = {tuple(row) for row in X.tolist()}
    shared = sum(tuple(row) in originals for row in model.model_.seen_.tolist())
    assert shared < len(X) / 4  # flowers are measured to a millimetre: some meet by chance
    assert model.score(X, y) > 0.8


@pytest.mark.slow
def test_numbers_are_predicted_too() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X @ [1.0, 2.0, -1.0]
    model = CondensedTraining(RandomForestRegressor(30, random_state=0)).fit(X, y)
    assert model.score(X, y) > 0.5
    assert not hasattr(model, "predict_proba")
