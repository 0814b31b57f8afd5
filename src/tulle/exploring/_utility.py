"""The utility axis: how well somebody who gets the release predicts people who are not in it.

Or, if that is the task, whether they find the clusters of the original.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tulle._attacks.records import Records, chosen
from tulle._threads import models_on_one
from tulle._types import Floats, Ints
from tulle.auditing._fitness import cluster_metrics
from tulle.auditing._measures import is_target_class, ranked
from tulle.auditing._tables import Aligned
from tulle.errors import ParameterError

_MOST_TRAINED = 20_000
_MOST_TESTED = 10_000
_MOST_COLUMNS = 20  # that are predicted in turn
_ROUNDS = 60


@dataclass(frozen=True)
class Utility:
    """A score, what it is, and what else was measured for it."""

    score: float
    scoring: str
    metrics: dict[str, float] = field(default_factory=dict)


def utility(
    tables: Aligned, target: str | None, scoring: str | None, rng: np.random.Generator
) -> Utility:
    """Score what is learnt from the release on the control (the original, if there is none).

    Without a target each column is predicted from the others, and the mean of what is gained over
    guessing counts: 0 nothing, 1 everything.
    """
    test = tables.original if tables.control is None else tables.control
    if target is not None:
        return _of_target(tables, test, target, scoring, rng)
    names = [tables.columns[i] for i in chosen(len(tables.columns), _MOST_COLUMNS, rng)]
    gains = [_gain(tables, test, name, rng) for name in names] if len(tables.columns) > 1 else []
    known = [gain for gain in gains if gain is not None]
    return Utility(float(np.mean(known)) if known else 0.0, "columns")


def utility_of_clusters(tables: Aligned, rng: np.random.Generator) -> Utility:
    """Score clusters that are found in the release by how they part the originals.

    A release with too few different records to be clustered parts nobody: 0.
    """
    found = cluster_metrics(tables, rng)
    return Utility(found.get("cluster_agreement", 0.0), "clusters", found)


def check_scoring(scoring: str | None, task: str) -> None:
    """Refuse a name that scikit-learn has no scorer for, and one that nothing would use."""
    from sklearn.metrics import get_scorer_names

    if scoring is not None and task == "clusters":
        raise ParameterError(
            "The 'scoring' parameter of explore is for task='predict': clusters are scored by how "
            "well they agree.",
            parameter="scoring",
        )
    if scoring is not None and scoring not in get_scorer_names():
        raise ParameterError(
            f"The 'scoring' parameter of explore is one of scikit-learn's scorers, such as "
            f"'balanced_accuracy', 'roc_auc' or 'r2'. Got '{scoring}'.",
            parameter="scoring",
        )


def _of_target(
    tables: Aligned, test: Records, target: str, scoring: str | None, rng: np.random.Generator
) -> Utility:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.metrics import get_scorer

    classes = is_target_class(tables, target)
    columns, answers = _lesson(tables, tables.release, target, _MOST_TRAINED, rng)
    asked, truth = _lesson(tables, test, target, _MOST_TESTED, rng)
    if classes:
        answers, truth = _numbered(answers, truth)
    name = scoring or _default(classes, len(np.unique(truth)))
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    if classes and len(np.unique(answers)) < 2:
        return Utility(_constant(name, answers, truth), name)
    model = kind(max_iter=_ROUNDS, early_stopping=False, random_state=int(rng.integers(2**31)))
    with models_on_one(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes that are guessed and nobody has
        model.fit(columns, answers)
        if name == "roc_auc" and len(np.unique(truth)) < 2:
            return Utility(0.5, name)
        return Utility(float(get_scorer(name)(model, asked, truth)), name)


def _default(classes: bool, count: int) -> str:
    if not classes:
        return "r2"
    return "roc_auc" if count <= 2 else "balanced_accuracy"


def _constant(name: str, answers: Ints, truth: Ints) -> float:
    """Return the score of a release in which all have the same class."""
    from sklearn.metrics import accuracy_score

    if name.startswith("roc_auc"):
        return 0.5
    if name == "accuracy":
        return float(accuracy_score(truth, np.full(len(truth), answers[0] if len(answers) else 0)))
    return 1 / max(1, len(np.unique(truth))) if name == "balanced_accuracy" else 0.0


def _lesson(
    tables: Aligned, records: Records, target: str, most: int, rng: np.random.Generator
) -> tuple[Floats, Any]:
    """Return columns and target of records that have one."""
    wanted = records.only([target])
    numbers = wanted.numbers.shape[1] > 0
    gone = wanted.codes.any(axis=1) if numbers else wanted.codes[:, 0] == 0
    rows = np.flatnonzero(~gone)
    rows = rows[chosen(len(rows), most, rng)]
    columns = ranked(records.take(rows).without(target), tables.original.without(target))
    return columns, wanted.numbers[rows, 0] if numbers else wanted.codes[rows, 0]


def _numbered(answers: Any, truth: Any) -> tuple[Ints, Ints]:
    """Return the classes as numbers from 0, alike in both."""
    _, numbers = np.unique(np.concatenate([answers, truth]), return_inverse=True)
    found = np.split(numbers.ravel().astype(np.int64), [len(answers)])
    return found[0], found[1]


def _gain(tables: Aligned, test: Records, target: str, rng: np.random.Generator) -> float | None:
    """Return what a tree gains over guessing; None if the column does not vary."""
    from sklearn.metrics import balanced_accuracy_score, r2_score
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    classes = is_target_class(tables, target)
    columns, answers = _lesson(tables, tables.release, target, _MOST_TRAINED, rng)
    asked, truth = _lesson(tables, test, target, _MOST_TESTED, rng)
    if not len(answers) or len(np.unique(truth)) < 2:
        return None
    if classes:
        answers, truth = _numbered(answers, truth)
    kind = DecisionTreeClassifier if classes else DecisionTreeRegressor
    model = kind(min_samples_leaf=max(5, len(answers) // 200), random_state=0)
    chance = 1 / len(np.unique(truth))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rare classes, and some that are guessed and nobody has
        guessed = model.fit(columns, answers).predict(asked)
        if not classes:
            return max(0.0, float(r2_score(truth, guessed)))
        found = float(balanced_accuracy_score(truth, guessed))
    return max(0.0, (found - chance) / (1 - chance))
