"""What a miner does with a union of tables, plain or encoded: five kinds of mining.

Nothing here looks at the alphabet: categories are taken in the order in which they appear, so that
ties are broken alike whatever the values are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl


class Rule(NamedTuple):
    antecedent: frozenset[str]
    consequent: frozenset[str]
    count: int
    confidence: float


class Tree(NamedTuple):
    fitted: Any
    features: list[str]
    classes: list[str]
    accuracy: float
    confusion: list[list[int]]
    leaves: np.ndarray


def adult_like(rows: int, rng: np.random.Generator) -> pl.DataFrame:
    """People whose attributes go together as in a census."""
    age = rng.integers(17, 91, rows)
    hours = np.clip(rng.normal(40, 12, rows), 1, 99).round().astype(int)
    schools = ["HS-grad", "Some-college", "Bachelors", "Masters", "11th"]
    married = rng.random(rows) < np.clip((age - 15) / 60, 0.05, 0.8)
    sex = np.where(rng.random(rows) < 0.67, "Male", "Female")
    spouse = np.where(sex == "Male", "Husband", "Wife")
    alone = np.where(age < 25, "Own-child", "Not-in-family")
    past = np.where(age + rng.normal(0, 12, rows) > 40, "Divorced", "Never-married")
    apart = np.where(hours + rng.normal(0, 8, rows) > 52, "Separated", past)
    return pl.DataFrame(
        {
            "age": age,
            "hours-per-week": hours,
            "education": rng.choice(schools, rows, p=[0.4, 0.25, 0.2, 0.05, 0.1]),
            "relationship": np.where(married, spouse, alone),
            "sex": sex,
            "marital-status": np.where(married, "Married-civ-spouse", apart),
        }
    )


def features(union: pl.DataFrame, target: str) -> tuple[np.ndarray, list[str]]:
    """Numbers as they are, an indicator for each category, in the order of appearance."""
    columns: list[np.ndarray] = []
    names: list[str] = []
    for series in union.drop(target):
        if series.dtype.is_numeric():
            columns.append(series.cast(pl.Float64).to_numpy())
            names.append(series.name)
        else:
            for value in series.unique(maintain_order=True):
                columns.append((series == value).cast(pl.Float64).to_numpy())
                names.append(f"{series.name}={value}")
    return np.column_stack(columns), names


def scaled(union: pl.DataFrame, target: str) -> np.ndarray:
    """The features in standard deviations, to nine decimals: no straight line changes them."""
    X, _ = features(union, target)
    return np.round((X - X.mean(axis=0)) / X.std(axis=0), 9)


def classes(union: pl.DataFrame, target: str) -> tuple[np.ndarray, list[str]]:
    names = union[target].unique(maintain_order=True).to_list()
    return union[target].replace_strict(names, list(range(len(names)))).to_numpy(), names


def rules(union: pl.DataFrame, support: float, confidence: float) -> set[Rule]:
    """Association rules over the categorical attributes, as in the paper."""
    import pandas as pd
    from mlxtend.frequent_patterns import apriori, association_rules

    texts = [series for series in union if series.dtype == pl.String]
    items = pd.DataFrame(
        {
            f"{series.name}={value}": (series == value).to_numpy()
            for series in texts
            for value in series.unique(maintain_order=True)
        }
    )
    found = association_rules(
        apriori(items, min_support=support, use_colnames=True),
        metric="confidence",
        min_threshold=confidence,
    )
    return {
        Rule(row.antecedents, row.consequents, round(row.support * len(items)), row.confidence)
        for row in found.itertuples()
    }


def tree(union: pl.DataFrame, target: str, *, depth: int = 6, folds: int = 3) -> Tree:
    """A decision tree on everything, its accuracy and confusion matrix by cross-validation."""
    from sklearn.model_selection import KFold, cross_val_predict
    from sklearn.tree import DecisionTreeClassifier

    X, names = features(union, target)
    y, called = classes(union, target)
    model = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=5, random_state=0)
    split = KFold(folds, shuffle=True, random_state=0)
    predicted = cross_val_predict(model, X, y, cv=split)
    model.fit(X, y)
    return Tree(model, names, called, *_scores(y, predicted), leaves=model.apply(X))


def naive_bayes(union: pl.DataFrame, target: str) -> tuple[float, list[list[int]]]:
    """Normal for numbers, categorical for the rest, by cross-validation."""
    from sklearn.model_selection import KFold
    from sklearn.naive_bayes import CategoricalNB, GaussianNB

    y, _ = classes(union, target)
    rest = union.drop(target)
    numbers = scaled(union.select(target, *[s.name for s in rest if s.dtype.is_numeric()]), target)
    texts = [series.name for series in rest if not series.dtype.is_numeric()]
    words = np.column_stack([classes(union, name)[0] for name in texts])
    predicted = np.empty_like(y)
    for train, test in KFold(3, shuffle=True, random_state=0).split(y):
        normal = GaussianNB().fit(numbers[train], y[train])
        listed = CategoricalNB(min_categories=words.max(axis=0) + 1).fit(words[train], y[train])
        chances = (
            normal.predict_joint_log_proba(numbers[test])
            + listed.predict_joint_log_proba(words[test])
            - np.log(normal.class_prior_)
        )
        predicted[test] = normal.classes_[np.argmax(chances, axis=1)]
    return _scores(y, predicted)


def neighbours(
    union: pl.DataFrame, target: str, *, tested: int = 2000
) -> tuple[float, list[list[int]]]:
    from sklearn.neighbors import KNeighborsClassifier

    X, (y, _) = scaled(union, target), classes(union, target)
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[: min(tested, len(y) // 3)], order[min(tested, len(y) // 3) :]
    model = KNeighborsClassifier(5, algorithm="brute").fit(X[train], y[train])
    return _scores(y[test], model.predict(X[test]))


def clusters(union: pl.DataFrame, target: str, *, k: int = 6) -> tuple[float, np.ndarray]:
    """Sum of squared errors and the cluster of each record."""
    from sklearn.cluster import KMeans

    model = KMeans(k, n_init=1, random_state=0).fit(scaled(union, target))
    return float(model.inertia_), model.labels_


def same_up_to_names(first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether two clusterings are the same partition."""
    pairs = set(zip(first, second))
    return len(pairs) == len(set(first)) == len(set(second))


def _scores(y: np.ndarray, predicted: np.ndarray) -> tuple[float, list[list[int]]]:
    from sklearn.metrics import confusion_matrix

    return float(np.mean(y == predicted)), confusion_matrix(y, predicted).tolist()
