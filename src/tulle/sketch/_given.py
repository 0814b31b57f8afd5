"""What a miner is given: sketches, or a plain array whose rows all have every component."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from tulle.sketch.sketches import Sketches


def given(estimator: Any, X: Any, *, reset: bool = False) -> Sketches:
    if isinstance(X, Sketches):
        if reset:
            estimator.n_features_in_ = X.shape[1]
        return X
    X = validate_data(estimator, X, reset=reset, dtype=("float64", "float32"))
    return Sketches(X, np.full(len(X), X.shape[1]))
