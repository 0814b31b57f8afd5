"""scikit-learn's own checks over the estimators of the family."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from tulle.keys import SecretKey
from tulle.sketch import Sketcher, SketchKMeans, SketchKNeighborsClassifier

_KEY = "the secret key is never pickled, and this check pickles"
_WIDTH = "the array of a call is as wide as its longest record (rows agree: test_sketcher.py)"


def expected(estimator):
    if not isinstance(estimator, Sketcher):
        return {}
    return {
        "check_estimators_pickle": _KEY,
        "check_estimators_overwrite_params": _KEY,
        "check_methods_subset_invariance": _WIDTH,
    }


KEY = SecretKey(b"a key for tests, never for data!")


@parametrize_with_checks(
    [
        Sketcher(key=KEY),
        Sketcher(model="k-variance", k=1, key=KEY),
        SketchKNeighborsClassifier(),
        SketchKNeighborsClassifier(metric="euclidean"),
        SketchKMeans(n_clusters=3),
    ],
    expected_failed_checks=expected,
)
def test_sklearn_checks(estimator, check):
    check(estimator)
