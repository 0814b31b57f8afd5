"""Can a classifier tell released records from original ones?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tulle._metrics.models import boosting
from tulle._threads import models_on_one
from tulle._types import Floats


class Propensity(NamedTuple):
    """``auc`` is 0.5 and ``pmse`` 0 if nobody can tell; 1 and 0.25 if everybody can."""

    auc: float
    pmse: float


def propensity(
    original: Floats, released: Floats, rng: np.random.Generator, *, most: int = 4000
) -> Propensity:
    """Gradient boosting, scored on the half that it was not trained on, both ways round.

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
        model = boosting(True, seed, rounds=40)
        with models_on_one():
            model.fit(columns[train], truth[train])
            scores[~train] = model.predict_proba(columns[~train])[:, 1]
    return Propensity(float(roc_auc_score(truth, scores)), float(((scores - 0.5) ** 2).mean()))
