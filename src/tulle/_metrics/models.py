"""What models make of a release: do they learn the same from it, can they tell it apart?

And do miners find the same in two tables of the same people, row by row? Codes of several sites
guarantee it. Four miners are run on both tables: a decision tree, naive Bayes, nearest neighbours,
and clusters that start from the same people. The records that get the same answer are counted.
Nothing looks at names: categories are taken in the order in which they appear.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._threads import models_on_one
from tulle._types import Floats, Ints

# Whoever gets a release learns from it, and is asked about people who are not in it: one way to
# teach and one to ask, for audits, the frontier and the search for k.


class Lesson(NamedTuple):
    """Columns, and what is to be predicted from them."""

    columns: Floats
    target: NDArray[Any]


def train_on_release(
    original: Lesson,
    release: Lesson,
    test: Lesson,
    *,
    estimator: Any = None,
    classes: bool = True,
    seed: int = 0,
) -> tuple[float, float]:
    """Score one model, taught by the original and by the release, on the same test records.

    Accuracy of classes, R2 of numbers.

    ``estimator`` is any scikit-learn classifier (or regressor, if not ``classes``); gradient
    boosting unless said.
    """
    model = boosting(classes, seed) if estimator is None else estimator
    before, after = (asked(taught(model, one, classes), test) for one in (original, release))
    return before, after


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


_MOST_MINED = 4000  # records that the miners look at
_INDICATORS = 40  # of one column; rarer categories stand at 0 in all of them
_CLUSTERS = 5


def same_answers(
    first: pl.DataFrame, second: pl.DataFrame, target: str, rng: np.random.Generator
) -> dict[str, float]:
    """Compute the share of records with the same answer from each miner; 1 is guaranteed.

    Empty if there are fewer than 20 records, one class only, or nothing to tell them apart by.
    """
    rows = np.sort(rng.permutation(len(first))[:_MOST_MINED])
    tables = [table[rows] for table in (first, second)]
    classes = [_in_order(table[target]) for table in tables]
    matrices = [_matrix_of(table.drop(target)) for table in tables]
    if len(rows) < 20 or classes[0].max() == 0 or not all(m.shape[1] for m in matrices):
        return {}
    answers = [_answers(*part) for part in zip(matrices, classes)]
    return {
        name: float(np.mean(answers[0][name] == answers[1][name])) for name in sorted(answers[0])
    }


def _answers(matrix: Floats, classes: Ints) -> dict[str, Ints]:
    """Return each miner's answer for each record it learnt from."""
    from sklearn.cluster import KMeans
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.tree import DecisionTreeClassifier

    models: dict[str, Any] = {
        "same_tree": DecisionTreeClassifier(max_depth=8, random_state=0),
        "same_bayes": GaussianNB(),
        "same_neighbours": KNeighborsClassifier(5, algorithm="brute"),
    }
    starts = np.unique(matrix, axis=0, return_index=True)[1]
    seeds = np.sort(starts)[:: max(1, len(starts) // _CLUSTERS)][:_CLUSTERS]
    with models_on_one():
        found = {name: model.fit(matrix, classes).predict(matrix) for name, model in models.items()}
        clusters = KMeans(len(seeds), init=matrix[seeds], n_init=1, random_state=0)
        return found | {"same_clusters": clusters.fit_predict(matrix)}


def _matrix_of(table: pl.DataFrame) -> Floats:
    """Return numbers on one scale, and an indicator for each of the commonest categories."""
    parts = [part for column in table for part in _columns_of(column) if np.ptp(part) > 0]
    return np.column_stack(parts) if parts else np.empty((len(table), 0))


def _columns_of(column: pl.Series) -> list[Floats]:
    if not (column.dtype.is_numeric() or column.dtype.is_temporal()):
        codes = _in_order(column)
        counts = np.bincount(codes)
        shown = np.argsort(-counts, kind="stable")[:_INDICATORS]
        return [(codes == code).astype(np.float64) for code in shown]
    plain = column.to_physical() if column.dtype.is_temporal() else column
    values = plain.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    gone = ~np.isfinite(values)
    if gone.all():
        return []
    values = np.where(gone, np.nan, values)
    # by a power of two, which is exact: squares of huge and of tiny numbers stay finite
    values = np.ldexp(values, -int(np.frexp(np.nanmax(np.abs(values)))[1]))
    spread = float(np.nanstd(values)) or 1.0
    scaled = np.where(gone, 0.0, (values - np.nanmean(values)) / spread)
    # so many digits that a straight line of the values gives the same, ties included
    rounded = np.asarray(np.round(scaled, 6), dtype=np.float64)
    return [rounded, gone.astype(np.float64)] if gone.any() else [rounded]


def _in_order(column: pl.Series) -> Ints:
    """Enumerate values by first appearance; missing is a value of its own."""
    place: dict[Any, int] = {}
    numbered = [place.setdefault(value, len(place)) for value in column.to_list()]
    return np.array(numbered, dtype=np.int64)
