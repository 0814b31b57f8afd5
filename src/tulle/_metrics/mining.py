"""Does a model learn the same from the release?

Train on the release and, separately, on the original; test both on the same originals that were
kept apart.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tulle._metrics.models import boosting
from tulle._threads import models_on_one
from tulle._types import Floats


class MiningScores(NamedTuple):
    """Accuracy (of classes) or R2 (of numbers) on the same test records."""

    original: float
    release: float

    @property
    def ratio(self) -> float:
        """Trained on the release over trained on the original; NaN if nothing was to be learnt."""
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
    """Scores of one model, trained twice.

    Each of the three is (columns, target). ``estimator`` is any scikit-learn classifier (or
    regressor, if not ``classes``); gradient boosting unless said.
    """
    model = boosting(classes, seed) if estimator is None else estimator
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
