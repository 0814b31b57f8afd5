"""The utility axis: how well somebody who gets the release predicts people who are not in it.

Or, if that is the task, whether they find the clusters of the original.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tulle._attacks.records import Records, chosen
from tulle._metrics.models import Lesson, asked, boosting, taught
from tulle.auditing._fitness import cluster_metrics
from tulle.auditing._measures import is_target_class, lesson, numbered
from tulle.auditing._tables import Aligned
from tulle.errors import ParameterError

_MOST_TRAINED = 20_000
_MOST_TESTED = 10_000
_MOST_COLUMNS = 20  # that are predicted in turn


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
    """Score gradient boosting by what is asked for, else by what suits the target."""
    classes, released, people = _lessons(tables, test, target, rng)
    name = scoring or "r2"
    if classes and scoring is None:
        name = "roc_auc" if len(np.unique(people.target)) <= 2 else "balanced_accuracy"
    model = taught(boosting(classes, int(rng.integers(2**31))), released, classes)
    return Utility(asked(model, people, name), name)


def _lessons(
    tables: Aligned, test: Records, target: str, rng: np.random.Generator
) -> tuple[bool, Lesson, Lesson]:
    """Return whether a target names classes, what the release teaches, and what is asked."""
    classes = is_target_class(tables, target)
    parts = ((tables.release, _MOST_TRAINED), (test, _MOST_TESTED))
    lessons = [lesson(tables, records, target, most, rng) for records, most in parts]
    released, people = numbered(lessons) if classes else lessons
    return classes, released, people


def _gain(tables: Aligned, test: Records, target: str, rng: np.random.Generator) -> float | None:
    """Return what a tree gains over guessing; None if the column does not vary."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    classes, released, people = _lessons(tables, test, target, rng)
    values = len(np.unique(people.target))
    if not len(released.target) or values < 2:
        return None
    kind = DecisionTreeClassifier if classes else DecisionTreeRegressor
    tree = kind(min_samples_leaf=max(5, len(released.target) // 200), random_state=0)
    found = asked(taught(tree, released, classes), people, "balanced_accuracy" if classes else "r2")
    chance = 1 / values if classes else 0.0
    return max(0.0, (found - chance) / (1 - chance))
