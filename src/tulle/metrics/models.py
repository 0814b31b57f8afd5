"""The models that measures train: small, seeded, and polite to other processes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def boosting(classes: bool, seed: int, rounds: int = 60) -> Any:
    """Gradient boosting for classes or for numbers."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return kind(max_iter=rounds, early_stopping=False, random_state=seed)


def fitted(model: Any, columns: NDArray[np.float64], target: NDArray[Any]) -> Any:
    """A fitted copy of a model.

    On one thread: at these sizes, threads that spin while they wait for each other cost more
    than they bring, several times more on a busy machine.
    """
    from sklearn.base import clone
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1, user_api="openmp"):
        return clone(model).fit(columns, target)
