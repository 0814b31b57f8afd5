"""Every public estimator, found by looking, and how a test makes and feeds one.

A new estimator in any family is found by :func:`public_estimators`; the contract tests fail until
it has a case here.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.naive_bayes import GaussianNB

import tulle
from tulle import (
    ClassCondenser,
    CondensedTraining,
    Condenser,
    DataError,
    GroupClassifier,
    GroupKMeans,
    GroupSizeSearch,
    KeyMaterialError,
    PatternSanitizer,
    RuleHider,
    SecretKey,
    Sketcher,
    SketchKMeans,
    SketchKNeighborsClassifier,
    StreamCondenser,
)
from tulle.condense._estimators import Estimator

FAMILIES = ("condense", "stream", "rules", "sketch", "sites", "tuning")


def public_estimators() -> list[type]:
    """All public classes in the families with scikit-learn's base, or ours in its place."""
    found = set()
    for module in pkgutil.walk_packages(tulle.__path__, "tulle."):
        if module.name.split(".")[1] not in FAMILIES or "kernel" in module.name:
            continue
        for name, member in inspect.getmembers(import_module(module.name), inspect.isclass):
            ours = member.__module__.startswith("tulle.")
            based = issubclass(member, BaseEstimator | Estimator) and member is not Estimator
            if ours and based and not name.startswith("_"):
                found.add(member)
    return sorted(found, key=lambda member: member.__name__)


def same(first: Any, second: Any) -> bool:
    """Equality of arrays, sparse matrices, frames and nests of them."""
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(same(a, b) for a, b in zip(first, second))
    if hasattr(first, "toarray"):
        return same(first.toarray(), second.toarray())
    return bool(np.array_equal(np.asarray(first), np.asarray(second)))


class Excuse(NamedTuple):
    """Why a check of scikit-learn cannot pass, and the error that shows it."""

    error: type[BaseException]
    reason: str


@dataclass(frozen=True)
class Case:
    """How to make an estimator, what to feed it, and what its rows are."""

    make: Callable[[], Any]
    data: Callable[[], tuple[Any, ...]]
    fit: Callable[..., Any]
    release: Callable[[Any, tuple[Any, ...]], Any] | None = None
    rows: Callable[..., list[tuple[Any, ...]]] = lambda X, *rest: [tuple(r) for r in X.tolist()]
    same: Callable[[Any, Any], bool] = same
    holds_release: bool = False  # what it is fitted on is itself a release
    checked: Callable[[], list[Any]] | None = None  # for scikit-learn's checks, if not make()
    excused: Mapping[str, Excuse] = field(default_factory=dict)  # by the name of the check

    def width(self, *data: Any) -> int:
        return max(len(row) for row in self.rows(*data))


def table() -> tuple[Any, ...]:
    return (np.random.default_rng(5).normal(size=(61, 3)),)


def labelled() -> tuple[Any, ...]:
    rng = np.random.default_rng(5)
    return rng.normal(size=(61, 3)), np.arange(61) % 2


def counts() -> tuple[Any, ...]:
    rng = np.random.default_rng(5)
    return (rng.poisson(0.6, size=(61, 40)) * rng.uniform(1, 2, size=(61, 40)),)


def baskets() -> tuple[Any, ...]:
    rng = np.random.default_rng(5)
    return ((rng.random((61, 8)) < 0.5).astype(float),)


def fit_transform(estimator: Any, *data: Any) -> Any:
    return estimator.fit_transform(*data)


def fit(estimator: Any, *data: Any) -> Any:
    return estimator.fit(*data)


def sample(estimator: Any, data: tuple[Any, ...]) -> Any:
    return estimator.sample()


KEY = SecretKey(b"a key for tests, never for data!")
_PICKLED = Excuse(KeyMaterialError, "the secret key is never pickled, and this check pickles")
_WIDTH = Excuse(
    ValueError,
    "a call is as wide as its longest record, and k-variance refuses a batch of one record; "
    "rows of one call agree (test_sketcher.py)",
)
_LONE = Excuse(
    DataError, "the check draws a class of one record, which cannot be trained on and held out"
)
_NO_FIT = Excuse(
    AttributeError,
    "there is only fit_transform: what was hidden in some baskets says nothing of others",
)
_NOT_FITTED = Excuse(TypeError, "the check does not accept an estimator without fit")
_NOT_BASKETS = Excuse(DataError, "the check feeds decimals; cells of baskets are 0 or 1")
_WRONG_ERROR = Excuse(
    AssertionError, "the check calls fit, and wants another error than its absence"
)

# Both take baskets and edit or mine them in one step: what is left to check is how they are made,
# cloned and shown. Their own behaviour on every container is tested in tests/rules.
_BASKETS = {
    "check_fit_score_takes_y": _NOT_BASKETS,
    "check_fit_check_is_fitted": _NOT_FITTED,
    **dict.fromkeys(
        [
            "check_positive_only_tag_during_fit",
            "check_estimators_empty_data_messages",
            "check_estimators_nan_inf",
            "check_estimator_sparse_tag",
            "check_estimator_sparse_array",
            "check_estimator_sparse_matrix",
        ],
        _WRONG_ERROR,
    ),
    **dict.fromkeys(
        [
            "check_estimators_overwrite_params",
            "check_dont_overwrite_parameters",
            "check_estimators_fit_returns_self",
            "check_readonly_memmap_input",
            "check_n_features_in_after_fitting",
            "check_estimators_dtypes",
            "check_complex_data",
            "check_dtype_object",
            "check_pipeline_consistency",
            "check_estimators_pickle",
            "check_f_contiguous_array_estimator",
            "check_methods_sample_order_invariance",
            "check_methods_subset_invariance",
            "check_fit2d_1sample",
            "check_fit2d_1feature",
            "check_dict_unchanged",
            "check_fit_idempotent",
            "check_n_features_in",
            "check_fit1d",
            "check_fit2d_predict1d",
        ],
        _NO_FIT,
    ),
}

_SMALL = ClassCondenser(k=2, small_classes="suppress", random_state=0)

CASES: dict[str, Case] = {
    "Condenser": Case(
        lambda: Condenser(k=5, random_state=0), table, fit, sample, checked=lambda: [Condenser(k=2)]
    ),
    "ClassCondenser": Case(
        lambda: ClassCondenser(k=5, random_state=0),
        labelled,
        fit,
        sample,
        # scikit-learn draws labels at random, with classes of one record
        checked=lambda: [ClassCondenser(k=2, small_classes="pool")],
    ),
    "GroupSizeSearch": Case(
        lambda: GroupSizeSearch(min_group=5, repeats=1, random_state=0),
        labelled,
        fit,
        sample,
        checked=lambda: [GroupSizeSearch(strategy="gcd", min_group=2, repeats=1, random_state=0)],
        excused={
            "check_fit2d_1feature": Excuse(
                AssertionError, "the check wants the one feature refused; too few records are first"
            ),
            **dict.fromkeys(
                [
                    "check_dont_overwrite_parameters",
                    "check_n_features_in_after_fitting",
                    "check_f_contiguous_array_estimator",
                    "check_methods_sample_order_invariance",
                    "check_methods_subset_invariance",
                    "check_dict_unchanged",
                    "check_fit2d_predict1d",
                ],
                _LONE,
            ),
        },
    ),
    "CondensedTraining": Case(
        lambda: CondensedTraining(GaussianNB(), ClassCondenser(k=5, random_state=0)),
        labelled,
        fit,
        lambda model, data: model.predict(data[0]),
        checked=lambda: [CondensedTraining(GaussianNB(), _SMALL)],
        excused={
            "check_dtype_object": Excuse(
                DataError, "the check mixes types in a column, and the condenser is first to refuse"
            ),
            "check_estimators_nan_inf": Excuse(
                AssertionError, "missing values are condensed: the model may see none of them"
            ),
        },
    ),
    "GroupClassifier": Case(
        lambda: GroupClassifier(ClassCondenser(k=5, random_state=0)),
        labelled,
        fit,
        lambda model, data: model.predict(data[0]),
        checked=lambda: [GroupClassifier(_SMALL)],
        excused={
            "check_classifiers_train": Excuse(
                AssertionError, "the check rounds the columns of whoever takes categories"
            )
        },
    ),
    "GroupKMeans": Case(
        lambda: GroupKMeans(3, Condenser(k=5, random_state=0), random_state=0),
        table,
        fit,
        lambda model, data: model.cluster_centers_,
        checked=lambda: [GroupKMeans(3, Condenser(k=2, random_state=0), random_state=0)],
    ),
    "PatternSanitizer": Case(
        lambda: PatternSanitizer(["0, 1 -> 2"], min_support=5, min_confidence=0.2),
        baskets,
        fit_transform,
        lambda sanitizer, data: sanitizer.fit_transform(*data).rows(),
        excused=_BASKETS,
    ),
    "RuleHider": Case(
        lambda: RuleHider(["0 -> 1"], min_support=5, min_confidence=0.2, random_state=0),
        baskets,
        fit_transform,
        lambda hider, data: hider.fit_transform(*data),
        excused=_BASKETS,
    ),
    "Sketcher": Case(
        lambda: Sketcher(key=KEY),
        counts,
        fit,
        lambda sketcher, data: sketcher.transform(*data).values,
        checked=lambda: [Sketcher(key=KEY), Sketcher(model="k-variance", k=1, key=KEY)],
        excused={
            "check_estimators_pickle": _PICKLED,
            "check_estimators_overwrite_params": _PICKLED,
            "check_methods_subset_invariance": _WIDTH,
        },
    ),
    "SketchKMeans": Case(
        lambda: SketchKMeans(n_clusters=3, random_state=0), table, fit, holds_release=True
    ),
    "SketchKNeighborsClassifier": Case(
        SketchKNeighborsClassifier, labelled, fit, holds_release=True
    ),
    "StreamCondenser": Case(
        lambda: StreamCondenser(k=5, init_size=20, random_state=0),
        table,
        lambda stream, X: stream.partial_fit(X),
        sample,
    ),
}
