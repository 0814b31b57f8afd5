"""What one group size costs and gives: a release made, mined, and attacked.

Groups come from the training records alone; the miner standardises by what the miner sees, the
release.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tulle.attacks.linkage import linkage
from tulle.attacks.nearest import nearest
from tulle.attacks.records import Records
from tulle.condense.pairing import fit_paired
from tulle.metrics.loss import interval_width
from tulle.tuning.splitting import Split

ATTEMPTS = 500  # people whom the linkage attack tries to find


@dataclass(frozen=True)
class Trial:
    """One release of one size."""

    utility: float
    class_utilities: tuple[float, ...]  # the share of each class that is predicted rightly
    privacy: float
    risk: float
    seconds: float


def baseline(split: Split, miner: Any, scorer: Callable[..., float]) -> float:
    """The utility of a miner who gets the training records themselves."""
    from sklearn.base import clone

    model = clone(miner).fit(split.matrix[split.train], split.target[split.train])
    return float(scorer(model, split.matrix[split.test], split.target[split.test]))


def evaluate(
    condenser: Any,
    k: int,
    split: Split,
    miner: Any,
    scorer: Callable[..., float],
    rng: np.random.Generator,
) -> Trial:
    """Condenses the training records, mines the release, measures privacy and risk."""
    from sklearn.base import clone

    start = time.perf_counter()
    table, target, levels = split.training(k)
    condenser = clone(condenser).set_params(k=k, random_state=rng)
    pairs = fit_paired(condenser, table, target, levels, rng)
    X_new, y_new = condenser.sample()
    released, labels = split.encoder.encode(X_new), np.asarray(y_new)

    model = clone(miner).fit(released, labels)
    held, truth = split.matrix[split.test], split.target[split.test]
    return Trial(
        float(scorer(model, held, truth)),
        _shares(model.predict(held) == truth, truth, split.labels),
        interval_width(*(pairs.together() if pairs else _beside_nearest(split, released))),
        _risk(split, released, rng),
        time.perf_counter() - start,
    )


def _shares(
    hits: NDArray[np.bool_], truth: NDArray[Any], labels: NDArray[Any]
) -> tuple[float, ...]:
    """The share of each class that is predicted rightly; NaN where none of it was held out."""
    of_class = [hits[truth == label] for label in labels]
    return tuple(float(some.mean()) if len(some) else float("nan") for some in of_class)


def _beside_nearest(
    split: Split, released: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Records beside the released record nearest to them: what can be told without groups.

    That is at most as far away as one of their own group, so that privacy is not overstated.
    """
    scales = split.encoder.scales_
    originals = Records.of_numbers(split.matrix[split.train] / scales, split.encoder.feature_names_)
    others = Records.of_numbers(released / scales, split.encoder.feature_names_)
    found = nearest(originals, others).rows[:, 0]
    return split.matrix[split.train] / scales, released[found] / scales


def _risk(split: Split, released: NDArray[np.float64], rng: np.random.Generator) -> float:
    """How many more of the people in the data a linkage attack finds than of strangers."""
    scales = split.encoder.scales_

    def records(matrix: NDArray[np.float64]) -> Records:
        return Records.of_numbers(matrix / scales, split.encoder.feature_names_)

    result = linkage(
        records(split.matrix[split.train]),
        records(released),
        rng,
        control=records(split.matrix[split.test]),
        attempts=ATTEMPTS,
    )
    return float(result.risk)
