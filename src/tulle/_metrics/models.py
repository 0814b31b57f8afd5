"""What models make of a release: do they learn the same from it, can they tell it apart?"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tulle._threads import models_on_one
from tulle._types import Floats, Ints

# Whoever gets a release learns from it, and is asked about people who are not in it: one way to
# teach and one to ask, for audits, the frontier and the search for k.


class Lesson(NamedTuple):
    """Columns, and what is to be predicted from them."""

    columns: Floats
    target: NDArray[Any]


class MiningScores(NamedTuple):
    """Accuracy (of classes) or R2 (of numbers) on the same test records."""

    original: float
    release: float

    @property
    def ratio(self) -> float:
        """Return the release's score over the original's; NaN if there was nothing to learn."""
        return self.release / self.original if self.original > 0 else float("nan")


def train_on_release(
    original: Lesson,
    release: Lesson,
    test: Lesson,
    *,
    estimator: Any = None,
    classes: bool = True,
    seed: int = 0,
) -> MiningScores:
    """Score one model, taught by the original and by the release, on the same test records.

    ``estimator`` is any scikit-learn classifier (or regressor, if not ``classes``); gradient
    boosting unless said.
    """
    model = boosting(classes, seed) if estimator is None else estimator
    return MiningScores(*(asked(taught(model, one, classes), test) for one in (original, release)))


def taught(model: Any, lesson: Lesson, classes: bool) -> Any:
    """Return a model that has learnt a lesson; of a single class it answers that one always."""
    from sklearn.base import clone
    from sklearn.dummy import DummyClassifier

    if classes and len(np.unique(lesson.target)) < 2:  # which many classifiers refuse
        model = DummyClassifier(strategy="most_frequent")
    with models_on_one(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of classes that are rare
        return clone(model).fit(*lesson)


def asked(model: Any, test: Lesson, scoring: str | Callable[..., float] | None = None) -> float:
    """Return the score of a model: its own, or a scikit-learn scorer's."""
    from sklearn.metrics import get_scorer

    one_class = min(len(np.unique(test.target)), len(getattr(model, "classes_", "ab"))) < 2
    if one_class and str(scoring).startswith("roc_auc"):
        return 0.5
    scorer = get_scorer(scoring) if isinstance(scoring, str) else scoring
    with models_on_one(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # classes that are guessed and nobody has
        return float(model.score(*test) if scorer is None else scorer(model, *test))


# Can a classifier tell released records from original ones?


class Propensity(NamedTuple):
    """``auc`` is 0.5 and ``pmse`` 0 if they are indistinguishable; 1 and 0.25 if separable."""

    auc: float
    pmse: float
    given_away: Floats  # what the AUC loses if a column is shuffled, for each column


_FOLDS = 3
_ROUNDS = 60
_MOST_CELLS = 4_000_000  # of shuffled copies that are held at once


def propensity(
    original: Floats,
    released: Floats,
    rng: np.random.Generator,
    *,
    most: int = 4000,
    people: Ints | None = None,
) -> Propensity:
    """Tell released from other records by gradient boosting, scored on folds it did not see.

    At most ``most`` records of each are used: the measure is about the two distributions, not
    about single records. ``people`` are those of the originals, where they have several records.
    """
    from sklearn.metrics import roc_auc_score

    count = min(most, len(original), len(released))
    width = original.shape[1]
    if count < 2:
        return Propensity(0.5, 0.0, np.zeros(width))  # nothing to learn from
    rows = [rng.choice(len(m), count, replace=False) for m in (original, released)]
    columns, truth = np.vstack([original[rows[0]], released[rows[1]]]), np.repeat([0, 1], count)
    scores, losses = np.full(2 * count, 0.5), np.zeros(width)
    fold = _folds(columns, None if people is None else people[rows[0]], rng)
    for held in range(_FOLDS):
        test, seed = fold == held, int(rng.integers(2**31))
        if len(np.unique(truth[~test])) < 2 or not test.any():
            continue  # nothing to tell apart
        model = boosting(True, seed)
        with models_on_one():
            model.fit(columns[~test], truth[~test])
            scores[test] = model.predict_proba(columns[test])[:, 1]
            if held == 0:  # one fold shows which columns matter
                losses = _losses(model, columns[test], truth[test], rng)
    pmse = float(((scores - 0.5) ** 2).mean())
    return Propensity(float(roc_auc_score(truth, scores)), pmse, losses)


def _folds(columns: Floats, people: Ints | None, rng: np.random.Generator) -> Ints:
    """Return the fold of each record, of which the first half are the originals.

    Equal records go into the same fold: else a copy in another fold would mislead the model. A
    person's records do, too: else the model would know people by their other records. A released
    record then goes with one of the originals that it equals.
    """
    _, same = np.unique(columns, axis=0, return_inverse=True)
    same = same.ravel()
    fold = rng.permutation(len(columns)) % _FOLDS
    if people is None:
        return fold[same]
    _, who = np.unique(people, return_inverse=True)
    each = np.bincount(who)
    order = rng.permutation(len(each))
    # as many records in each: where one has more originals, the model of the others expects fewer
    of_person = np.empty(len(each), np.int64)
    of_person[order] = (each[order].cumsum() - 1) * _FOLDS // len(who)
    mine, theirs = np.split(same, [len(who)])
    known = np.argsort(mine, kind="stable")
    first, last = (np.searchsorted(mine[known], theirs, side) for side in ("left", "right"))
    place = first + (rng.random(len(theirs)) * (last - first)).astype(np.int64)
    twin = np.take(known, place, mode="clip")
    released = np.where(last > first, of_person[who][twin], fold[theirs])
    return np.concatenate([of_person[who], released])


def _losses(
    model: Any, columns: Floats, truth: NDArray[Any], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return what the AUC loses with each column shuffled."""
    from sklearn.metrics import roc_auc_score

    records, width = columns.shape
    if len(np.unique(truth)) < 2:
        return np.zeros(width)
    losses = [roc_auc_score(truth, model.predict_proba(columns)[:, 1])] * width
    several = max(1, _MOST_CELLS // columns.size)  # at once: a call costs more than its rows
    for start in range(0, width, several):
        some = range(start, min(start + several, width))
        copies = np.tile(columns, (len(some), 1, 1))
        for place, column in enumerate(some):
            rng.shuffle(copies[place, :, column])
        scores = model.predict_proba(copies.reshape(-1, width))[:, 1].reshape(-1, records)
        for place, column in enumerate(some):
            losses[column] -= roc_auc_score(truth, scores[place])
    return np.array(losses)


def boosting(classes: bool, seed: int) -> Any:
    """Return gradient boosting for classes or for numbers."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return kind(max_iter=_ROUNDS, early_stopping=False, random_state=seed)
