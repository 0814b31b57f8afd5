"""The models that measures train: small, seeded, and polite to other processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def boosting(classes: bool, seed: int, rounds: int = 60) -> Any:
    """Gradient boosting for classes or for numbers."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return kind(max_iter=rounds, early_stopping=False, random_state=seed)


@contextmanager
def one_thread() -> Iterator[None]:
    """Keeps models to one thread while they learn and answer.

    At these sizes, threads that spin while they wait for each other cost more than they bring,
    several times more on a busy machine.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1, user_api="openmp"):
        yield
