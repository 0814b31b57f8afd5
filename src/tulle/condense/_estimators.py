"""What scikit-learn expects of estimators that take any kind of table."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Tags


def note_features(estimator: Any, names: list[str], *, plain: bool) -> None:
    """Set ``n_features_in_``, and ``feature_names_in_`` where the table has names."""
    estimator.n_features_in_ = len(names)
    if not plain:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def takes_any_table(tags: Tags) -> Tags:
    """Tell scikit-learn that missing values, texts and categories are welcome."""
    tags.input_tags.allow_nan = True
    tags.input_tags.string = True
    tags.input_tags.categorical = True
    tags.non_deterministic = False
    return tags
