"""What models make of a release: do they learn the same from it, can they tell it apart?"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tulle._threads import models_on_one
from tulle._types import Floats

# Train on the release and, separately, on the original; test both on the same originals that were
# kept apart.


class MiningScores(NamedTuple):
    """Accuracy (of classes) or R2 (of numbers) on the same test records."""

    original: float
    release: float

    @property
    def ratio(self) -> float:
        """Return the release's score over the original's; NaN if there was nothing to learn."""
        return self.release / self.original if self.original > 0 else float("nan")


def train_on_release(
    original: tuple[Floats, NDArray[Any]],
    release: tuple[Floats, NDArray[Any]],
    test: tuple[Floats, NDArray[Any]],
    *,
    estimator: Any = None,
    classes: bool = True,
    seed: int = 0,
) -> MiningScores:
    """Score one model, trained twice.

    Each of the three is (columns, target). ``estimator`` is any scikit-learn classifier (or
    regressor, if not ``classes``); gradient boosting unless said.
    """
    model = _boosting(classes, seed) if estimator is None else estimator
    return MiningScores(
        _score(model, original, test, classes), _score(model, release, test, classes)
    )


def _score(
    model: Any,
    training: tuple[Floats, NDArray[Any]],
    test: tuple[Floats, NDArray[Any]],
    classes: bool,
) -> float:
    from sklearn.base import clone

    columns, target = training
    if classes and len(np.unique(target)) < 2:
        # many classifiers refuse one class: then the answer is always that one
        return float(np.mean(test[1] == target[0])) if len(target) else 0.0
    with models_on_one():
        return float(clone(model).fit(columns, target).score(*test))


# Can a classifier tell released records from original ones?


class Propensity(NamedTuple):
    """``auc`` is 0.5 and ``pmse`` 0 if they are indistinguishable; 1 and 0.25 if separable."""

    auc: float
    pmse: float


def propensity(
    original: Floats, released: Floats, rng: np.random.Generator, *, most: int = 4000
) -> Propensity:
    """Score gradient boosting on the half that it was not trained on, both ways round.

    At most ``most`` records of each are used: the measure is about the two distributions, not
    about single records.
    """
    from sklearn.metrics import roc_auc_score

    count = min(most, len(original), len(released))
    if count < 2:
        return Propensity(0.5, 0.0)  # nothing to learn from
    parts = [m[rng.choice(len(m), count, replace=False)] for m in (original, released)]
    columns, truth = np.vstack(parts), np.repeat([0, 1], count)
    scores = np.empty(2 * count)
    # equal records go into the same half: else a copy in the other half would mislead the model
    _, same = np.unique(columns, axis=0, return_inverse=True)
    fold = (rng.permutation(2 * count) % 2)[same.ravel()]
    for held in (0, 1):
        train, seed = fold != held, int(rng.integers(2**31))
        if len(np.unique(truth[train])) < 2 or train.all():
            scores[~train] = 0.5  # nothing to tell apart
            continue
        model = _boosting(True, seed, rounds=40)
        with models_on_one():
            model.fit(columns[train], truth[train])
            scores[~train] = model.predict_proba(columns[~train])[:, 1]
    return Propensity(float(roc_auc_score(truth, scores)), float(((scores - 0.5) ** 2).mean()))


def _boosting(classes: bool, seed: int, rounds: int = 60) -> Any:
    """Return gradient boosting for classes or for numbers."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return kind(max_iter=rounds, early_stopping=False, random_state=seed)
