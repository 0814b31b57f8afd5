"""What does a model learn from the release? The one learner of audits and of the frontier.

Whoever gets a release learns from it, and is asked about people who are not in it: the control, or
some of the original, which is then not learnt from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from tulle._attacks.records import Records, chosen
from tulle._metrics.models import Lesson, asked, boosting, taught, train_on_release
from tulle._types import Floats
from tulle.auditing._tables import Aligned
from tulle.errors import DataError, ParameterError
from tulle.table._series import is_class
from tulle.table.schema import Kind

_MOST_LEARNT = 40_000  # records that the model of an audit learns from, or is tested on
_MOST_TRAINED, _MOST_TESTED = 20_000, 10_000  # by each model of the frontier
_MOST_COLUMNS = 20  # that are predicted in turn


# The audit: the same model, taught by both tables.


def mining(
    tables: Aligned, target: str, estimator: Any, rng: np.random.Generator
) -> tuple[dict[str, float], int]:
    """Score a model trained on the original and on the release; count the test records."""
    from sklearn.base import is_classifier, is_regressor

    classes = _names_classes(tables, target)
    if estimator is not None and (is_regressor if classes else is_classifier)(estimator):
        need = "classes: give a classifier" if classes else "numbers: give a regressor"
        raise ParameterError(
            f"The 'estimator' of audit does not suit the target '{target}', which holds {need}."
        )
    lessons = []
    for records, frame in (*_split(tables, rng), (tables.release, tables.frames[1])):
        own = frame if estimator is not None else None
        lessons.append(_lesson(tables, records, target, _MOST_LEARNT, rng, own))
        if not len(lessons[-1].target):
            raise DataError(f"the target '{target}' is missing in every record of a table")
    training, test, released = _numbered(lessons) if classes else lessons
    seed = int(rng.integers(2**31))
    before, after = train_on_release(
        training, released, test, estimator=estimator, classes=classes, seed=seed
    )
    found = {"accuracy_original": before, "accuracy_release": after}
    if before > 0:  # else there was nothing to learn
        found["accuracy_ratio"] = after / before
    return {name: value for name, value in found.items() if math.isfinite(value)}, len(test.target)


def _split(tables: Aligned, rng: np.random.Generator) -> Iterator[tuple[Records, pl.DataFrame]]:
    """Yield originals to train on and to test on: the control, or three tenths of the people."""
    original, frame = tables.original, tables.frames[0]
    if tables.control is not None:
        yield original, frame
        yield tables.control, tables.frames[2]
        return
    people = np.arange(len(original)) if original.people is None else original.people
    order = rng.permutation(np.unique(people))
    cut = max(1, round(0.3 * len(order)))
    for some in (order[cut:], order[:cut]):
        rows = np.flatnonzero(np.isin(people, some))
        yield original.take(rows), frame[rows]


# The frontier: one model taught by the release, or one for each column.


def utility(
    tables: Aligned, target: str | None, scoring: str | None, rng: np.random.Generator
) -> tuple[float, str]:
    """Score what is learnt from the release on the control (the original, if there is none).

    Without a target each column is predicted from the others, and the mean of what is gained over
    guessing counts: 0 nothing, 1 everything. Next to the score stands what it is.
    """
    test = tables.original if tables.control is None else tables.control
    if target is not None:
        classes, released, people = _lessons(tables, test, target, rng)
        suits = "r2"
        if classes:
            suits = "roc_auc" if len(np.unique(people.target)) <= 2 else "balanced_accuracy"
        model = taught(boosting(classes, int(rng.integers(2**31))), released, classes)
        return asked(model, people, scoring or suits), scoring or suits
    names = [tables.columns[i] for i in chosen(len(tables.columns), _MOST_COLUMNS, rng)]
    gains = [_gain(tables, test, name, rng) for name in names] if len(tables.columns) > 1 else []
    known = [gain for gain in gains if gain is not None]
    return float(np.mean(known)) if known else 0.0, "columns"


def _lessons(
    tables: Aligned, test: Records, target: str, rng: np.random.Generator
) -> tuple[bool, Lesson, Lesson]:
    """Return whether a target names classes, what the release teaches, and what is asked."""
    classes = _names_classes(tables, target)
    parts = ((tables.release, _MOST_TRAINED), (test, _MOST_TESTED))
    lessons = [_lesson(tables, records, target, most, rng) for records, most in parts]
    released, people = _numbered(lessons) if classes else lessons
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


# Lessons.


def _lesson(
    tables: Aligned,
    records: Records,
    target: str,
    most: int,
    rng: np.random.Generator,
    frame: pl.DataFrame | None = None,
) -> Lesson:
    """Return columns and target of some records that have one: for trees, unless of a ``frame``."""
    wanted = records.only([target])
    numbers = wanted.numbers.shape[1] > 0
    gone = wanted.codes.any(axis=1) if numbers else wanted.codes[:, 0] == 0
    rows = np.flatnonzero(~gone)
    rows = rows[chosen(len(rows), most, rng)]
    if frame is None:
        columns = ranked(records.take(rows).without(target), tables.original.without(target))
    else:
        columns = tables.view.matrix(frame[rows], without=target)
    return Lesson(columns, wanted.numbers[rows, 0] if numbers else wanted.codes[rows, 0])


def _numbered(lessons: Sequence[Lesson]) -> list[Lesson]:
    """Return lessons about classes with these as numbers from 0, alike in all."""
    _, numbers = np.unique(np.concatenate([one.target for one in lessons]), return_inverse=True)
    ends = np.cumsum([len(one.target) for one in lessons])[:-1]
    parts = np.split(numbers.ravel().astype(np.int64), ends)
    return [Lesson(one.columns, part) for one, part in zip(lessons, parts)]


def _names_classes(tables: Aligned, target: str) -> bool:
    """Return whether a target names classes; points in time (numbers in frames) do not."""
    numbers = target in tables.original.number_names
    return not numbers or (
        tables.kinds[target] is Kind.INTEGER and is_class(tables.frames[0][target])
    )


def ranked(records: Records, original: Records) -> Floats:
    """Return numbers unchanged, categories by how common they are in the original (for trees)."""
    parts = [records.numbers]
    for place in range(original.codes.shape[1]):
        codes, counts = np.unique(original.codes[:, place], return_counts=True)
        ranks = np.full(max(records.codes[:, place].max(initial=0), codes.max()) + 1, len(codes))
        ranks[codes[np.argsort(-counts, kind="stable")]] = np.arange(len(codes))
        parts.append(ranks[records.codes[:, place]][:, None].astype(np.float64))
    return np.hstack(parts)
