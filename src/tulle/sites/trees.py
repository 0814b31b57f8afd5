"""A fitted decision tree of scikit-learn as text, with all digits of its thresholds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tulle.errors import DataError

_DIGITS = 15


def tree_text(
    tree: Any,
    agreed: Sequence[str],
    feature_names: Sequence[str] | None,
    class_names: Sequence[str] | None,
) -> str:
    """The text of a tree; its features are called as it was fitted, or as the agreed columns."""
    from sklearn.tree import export_text

    if not hasattr(tree, "tree_"):
        raise DataError("pass the text of a decision tree, or a fitted tree of scikit-learn")
    features, classes = tree.n_features_in_, len(getattr(tree, "classes_", ()))
    known = getattr(tree, "feature_names_in_", agreed)
    names = list(known if feature_names is None else feature_names)
    if len(names) != features:
        raise DataError(
            f"the tree has {features} features, and the names of {len(names)} are known: pass "
            "feature_names"
        )
    if class_names is not None and len(class_names) != classes:
        raise DataError(f"the tree has {classes} classes, and class_names has {len(class_names)}")
    return str(
        export_text(
            tree,
            feature_names=names,
            class_names=None if class_names is None else list(class_names),
            max_depth=max(1, tree.get_depth()),
            decimals=_DIGITS,
        )
    )


def with_names(text: str, feature_names: Sequence[str] | None) -> str:
    """The text of a tree that was grown without names of its features, with them."""
    if feature_names is None:
        return text
    names = dict(enumerate(feature_names))
    return re.sub(r"\bfeature_(\d+)\b", lambda match: names.get(int(match[1]), match.group()), text)


def shortened(text: str, decimals: int) -> str:
    """Thresholds of indicators are no codes: they keep their value, not their many digits."""
    long = rf"-?\d+\.\d{{{_DIGITS}}}\b"
    return re.sub(long, lambda match: f"{float(match.group()):.{decimals}f}", text)
