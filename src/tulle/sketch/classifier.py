"""Nearest neighbours on sketches, as a scikit-learn classifier.

It takes :class:`Sketches`, whose records may have different lengths, or a plain array. It sees the
release only, never the key or a record, so its fitted state is as public as the release.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from tulle.checks import check_choice, check_int
from tulle.errors import DataError
from tulle.sketch._given import given
from tulle.sketch.sketches import Sketches

_QUERIES, _CANDIDATES = 512, 8192  # compared at once
_SHRINKAGE = 50  # components at which an estimated cosine is trusted by half


class SketchKNeighborsClassifier(ClassifierMixin, BaseEstimator):
    """The vote of the nearest sketches.

    Suppressed training records are left out; a suppressed record has no neighbours, and gets the
    shares of the classes in the training data (so ``predict`` gives the most frequent class).

    Parameters
    ----------
    n_neighbors
        Number of neighbours that vote; more than for exact records, since noise must average out.
    metric
        ``"cosine"``: the estimated cosine times m / (m + 50), for m shared components: of many
        candidates the short sketches would otherwise win by their noise. ``"euclidean"``: the
        estimated distance.
    weights
        ``"distance"``: the nearer a sketch, the more its vote counts: by the fourth power of the
        cosine above, or by one over the distance. Better than equal votes on every data set that
        we tried, since noise brings strangers among the neighbours. ``"uniform"``: equal votes.

    Attributes
    ----------
    classes_ : ndarray
        Class labels.
    sketches_ : Sketches
        The training sketches that are not suppressed.

    What may leave
    --------------
    All of it is made from the release.

    Examples
    --------
    >>> import numpy as np
    >>> S = Sketches(np.array([[2., 2.], [2., 3.], [-4., 1.]]), np.array([2, 2, 2]))
    >>> SketchKNeighborsClassifier(n_neighbors=1).fit(S, ["a", "a", "b"]).predict(S)
    array(['a', 'a', 'b'], dtype='<U1')
    """

    def __init__(
        self, n_neighbors: int = 25, *, metric: str = "cosine", weights: str = "distance"
    ) -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.weights = weights

    def fit(self, X: Any, y: Any) -> SketchKNeighborsClassifier:
        """Keeps the sketches and their classes."""
        check_int(type(self).__name__, "n_neighbors", self.n_neighbors, 1)
        check_choice(type(self).__name__, "metric", self.metric, ("cosine", "euclidean"))
        check_choice(type(self).__name__, "weights", self.weights, ("distance", "uniform"))
        sketches, y = _training(self, X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._priors = np.bincount(codes, minlength=len(self.classes_)) / len(codes)
        kept = ~sketches.suppressed
        if not kept.any():
            raise DataError("every training record is suppressed: weaken the guarantee")
        self.sketches_, self._codes = sketches[kept], codes[kept]
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Shares of the classes among the nearest sketches."""
        check_is_fitted(self)
        sketches = given(self, X)
        shares = np.tile(self._priors, (len(sketches), 1))
        seen = np.flatnonzero(~sketches.suppressed)
        for start in range(0, len(seen), _QUERIES):
            part = seen[start : start + _QUERIES]
            shares[part] = self._votes(sketches[part])
        return shares

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class with the largest share; of equal ones the first."""
        shares = self.predict_proba(X)
        return self.classes_[np.argmax(shares, axis=1)]

    def _votes(self, sketches: Sketches) -> npt.NDArray[np.float64]:
        count = min(self.n_neighbors, len(self.sketches_))
        far, codes = np.empty((len(sketches), 0)), np.empty((len(sketches), 0), self._codes.dtype)
        for start in range(0, len(self.sketches_), _CANDIDATES):
            part = slice(start, start + _CANDIDATES)
            more = self._compared(sketches, self.sketches_[part])
            far = np.concatenate([far, more], axis=1)
            codes = np.concatenate([codes, np.broadcast_to(self._codes[part], more.shape)], axis=1)
            if far.shape[1] > count:
                nearest = np.argpartition(far, count - 1, axis=1)[:, :count]
                far = np.take_along_axis(far, nearest, axis=1)
                codes = np.take_along_axis(codes, nearest, axis=1)
        weights = self._weights(far)
        classes = range(len(self.classes_))
        return np.stack([np.sum(weights * (codes == c), axis=1) for c in classes], axis=1)

    def _compared(self, sketches: Sketches, candidates: Sketches) -> npt.NDArray[np.float64]:
        """The smaller, the nearer."""
        if self.metric == "euclidean":
            return sketches.distances(candidates, squared=True)
        shared = np.minimum(sketches.lengths[:, None], candidates.lengths)
        return sketches.cosines(candidates) * (-shared / (shared + _SHRINKAGE))

    def _weights(self, far: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """What each neighbour's vote counts, 1 in total."""
        if self.weights == "uniform":
            weights = np.ones_like(far)
        elif self.metric == "cosine":
            weights = np.maximum(-far, 0.0) ** 4
        else:
            same = np.any(far == 0, axis=1, keepdims=True)  # if some are equal, only they vote
            with np.errstate(divide="ignore"):
                weights = np.where(same, far == 0, 1 / np.sqrt(far))
        totals = weights.sum(axis=1, keepdims=True)
        return np.where(totals > 0, weights / np.where(totals > 0, totals, 1), 1 / far.shape[1])


def _training(estimator: Any, X: Any, y: Any) -> tuple[Sketches, Any]:
    if isinstance(X, Sketches):
        if y is None:
            raise DataError("requires y to be passed, but the target y is None")
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_consistent_length(X.values, y)
        estimator.n_features_in_ = X.shape[1]
        return X, y
    X, y = validate_data(estimator, X, y, dtype=("float64", "float32"))
    return Sketches(X, np.full(len(X), X.shape[1])), y
