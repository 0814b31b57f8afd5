"""The models that measures train: small and seeded."""

from __future__ import annotations

from typing import Any


def boosting(classes: bool, seed: int, rounds: int = 60) -> Any:
    """Gradient boosting for classes or for numbers."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return kind(max_iter=rounds, early_stopping=False, random_state=seed)
