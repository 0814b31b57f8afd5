"""Nearest neighbours and k-means on sketches, as a scikit-learn classifier and clusterer.

They take :class:`Sketches`, whose records may have different lengths, or a plain array. They see
the release only, never the key or a record, so their fitted state is as public as the release.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, ClusterMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from tulle._checks import check_int
from tulle._random import RandomState, as_generator
from tulle.errors import DataError
from tulle.sketch.sketches import Sketches, given

_QUERIES, _CANDIDATES = 512, 8192  # compared at once
_SHRINKAGE = 50  # components at which an estimated cosine is trusted by half


class SketchKNeighborsClassifier(ClassifierMixin, BaseEstimator):
    """Classify sketches by the vote of their nearest neighbours.

    Suppressed training records are left out; a suppressed record has no neighbours, and gets the
    shares of the classes in the training data (so ``predict`` gives the most frequent class).

    Parameters
    ----------
    n_neighbors
        Number of neighbours that vote; more than for exact records, since noise must average out.

    Notes
    -----
    Near is what has a large estimated cosine times m / (m + 50), for m shared components: of many
    candidates the short sketches would otherwise win by their noise. A vote counts by the fourth
    power of that: better than equal votes on every data set that we tried, since noise brings
    strangers among the neighbours.

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

    def __init__(self, n_neighbors: int = 25) -> None:
        self.n_neighbors = n_neighbors

    def fit(self, X: Any, y: Any) -> SketchKNeighborsClassifier:
        """Keep the training sketches and their classes.

        Parameters
        ----------
        X : Sketches or ndarray
            The sketches.
        y : array-like
            The class of each record.

        Returns
        -------
        self
        """
        check_int(type(self).__name__, "n_neighbors", self.n_neighbors, 1)
        if isinstance(X, Sketches):
            if y is None:
                raise DataError("requires y to be passed, but the target y is None")
            y = column_or_1d(y, warn=True)
            assert_all_finite(y, input_name="y")
            check_consistent_length(X.values, y)
            self.n_features_in_ = X.shape[1]
            sketches = X
        else:
            X, y = validate_data(self, X, y, dtype=("float64", "float32"))
            sketches = Sketches(X, np.full(len(X), X.shape[1]))
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._priors = np.bincount(codes, minlength=len(self.classes_)) / len(codes)
        kept = ~sketches.suppressed
        if not kept.any():
            raise DataError("all training records are suppressed: weaken the guarantee")
        self.sketches_, self._codes = sketches[kept], codes[kept]
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the shares of the classes among the nearest sketches.

        Parameters
        ----------
        X : Sketches or ndarray
            The sketches.

        Returns
        -------
        ndarray of shape (records, classes)
        """
        check_is_fitted(self)
        sketches = given(self, X)
        shares = np.tile(self._priors, (len(sketches), 1))
        seen = np.flatnonzero(~sketches.suppressed)
        for start in range(0, len(seen), _QUERIES):
            part = seen[start : start + _QUERIES]
            shares[part] = self._votes(sketches[part])
        return shares

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class with the largest share for each sketch; the first one in a tie.

        Parameters
        ----------
        X : Sketches or ndarray
            The sketches.

        Returns
        -------
        ndarray
        """
        shares = self.predict_proba(X)
        return self.classes_[np.argmax(shares, axis=1)]

    def _votes(self, sketches: Sketches) -> npt.NDArray[np.float64]:
        count = min(self.n_neighbors, len(self.sketches_))
        far, codes = np.empty((len(sketches), 0)), np.empty((len(sketches), 0), self._codes.dtype)
        for start in range(0, len(self.sketches_), _CANDIDATES):
            part = slice(start, start + _CANDIDATES)
            candidates = self.sketches_[part]
            shared = np.minimum(sketches.lengths[:, None], candidates.lengths)
            more = sketches.cosines(candidates) * (-shared / (shared + _SHRINKAGE))
            far = np.concatenate([far, more], axis=1)
            codes = np.concatenate([codes, np.broadcast_to(self._codes[part], more.shape)], axis=1)
            if far.shape[1] > count:
                nearest = np.argpartition(far, count - 1, axis=1)[:, :count]
                far = np.take_along_axis(far, nearest, axis=1)
                codes = np.take_along_axis(codes, nearest, axis=1)
        weights = np.maximum(-far, 0.0) ** 4
        totals = weights.sum(axis=1, keepdims=True)
        weights = np.where(totals > 0, weights / np.where(totals > 0, totals, 1), 1 / far.shape[1])
        classes = range(len(self.classes_))
        return np.stack([np.sum(weights * (codes == c), axis=1) for c in classes], axis=1)


_BLOCK = 8192  # records compared with the centres at once


class SketchKMeans(ClusterMixin, BaseEstimator):
    """Cluster sketches by k-means.

    A centre is the mean of its members, each component over the members that have it; a record is
    compared with a centre over its own components. With equal lengths this is Lloyd's algorithm
    on the sketches. Suppressed records get the label -1.

    Parameters
    ----------
    n_clusters
        Number of clusters.
    n_init
        Number of starts (k-means++); the best is kept.
    max_iter
        Rounds of one start, at most.
    random_state
        Seed or generator.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, components)
        Sketches of the mean records.
    labels_ : ndarray
        Cluster of each sketch: rows of the release, as public as it is.
    inertia_ : float
        Sum of the estimated squared distances to the nearest centre.

    What may leave
    --------------
    All of it is made from the release.

    Examples
    --------
    >>> import numpy as np
    >>> S = Sketches(np.array([[9., 8.], [-9., -8.], [9., 0.]]), np.array([2, 2, 1]))
    >>> labels = SketchKMeans(n_clusters=2, random_state=0).fit(S).labels_
    >>> bool(labels[0] == labels[2] != labels[1])
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_init: int = 4,
        max_iter: int = 100,
        random_state: RandomState = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> SketchKMeans:
        """Find the cluster centres.

        Parameters
        ----------
        X : Sketches or ndarray
            The sketches.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        for name in ("n_clusters", "n_init", "max_iter"):
            check_int(type(self).__name__, name, getattr(self, name), 1)
        sketches = given(self, X, reset=True)
        seen = sketches[~sketches.suppressed]
        if len(seen) < self.n_clusters:
            raise DataError(
                f"n_samples={len(seen)} (not suppressed) should be >= "
                f"n_clusters={self.n_clusters}: ask for fewer clusters"
            )
        rng = as_generator(self.random_state)
        runs = [self._run(seen, rng) for _ in range(self.n_init)]
        self.cluster_centers_, self.inertia_, self.n_iter_ = min(runs, key=lambda run: run[1])
        self.labels_ = _nearest_centre(sketches, self.cluster_centers_)[0]
        return self

    def predict(self, X: Any) -> npt.NDArray[np.int32]:
        """Return the nearest centre of each sketch; -1 for suppressed ones.

        Parameters
        ----------
        X : Sketches or ndarray
            The sketches.

        Returns
        -------
        ndarray of int32
        """
        check_is_fitted(self)
        sketches = given(self, X)
        return _nearest_centre(sketches, self.cluster_centers_)[0]

    def _run(self, sketches: Sketches, rng: np.random.Generator) -> tuple[Any, float, int]:
        centres = _spread_out(sketches, self.n_clusters, rng)
        labels, far = _nearest_centre(sketches, centres)
        rounds, moved = 0, True
        while moved and rounds < self.max_iter:
            sums, weights = _totals(sketches, labels, self.n_clusters)
            # a centre keeps its old value in components that no member has
            centres = np.where(weights > 0, sums / np.maximum(weights, 1), centres)
            before = labels
            labels, far = _nearest_centre(sketches, centres)
            rounds, moved = rounds + 1, not np.array_equal(before, labels)
        return centres, float(far.sum()), rounds


def _blocks(sketches: Sketches) -> Iterator[tuple[slice, npt.NDArray[np.float64]]]:
    """Yield rows in double precision: distances are small differences of large sums."""
    for start in range(0, len(sketches), _BLOCK):
        block = slice(start, start + _BLOCK)
        yield block, sketches.values[block].astype(np.float64, copy=False)


def _totals(sketches: Sketches, labels: Any, count: int) -> tuple[Any, Any]:
    """Return for each cluster and component the sum over the members, and how many have it."""
    from scipy.sparse import csr_array

    width = sketches.shape[1]
    sums = np.zeros((count, width))
    for block, values in _blocks(sketches):
        n = len(values)
        members = csr_array((np.ones(n), (labels[block], np.arange(n))), shape=(count, n))
        sums += members @ values
    by_length = np.bincount(labels * (width + 1) + sketches.lengths, minlength=count * (width + 1))
    at_least = by_length.reshape(count, width + 1)[:, ::-1].cumsum(axis=1)[:, ::-1]
    return sums, at_least[:, 1:]


def _spread_out(sketches: Sketches, count: int, rng: np.random.Generator) -> Any:
    """Choose starting centres far from each other (k-means++)."""
    chosen = [int(rng.integers(len(sketches)))]
    far = _distances_to(sketches, chosen[0])
    while len(chosen) < count:
        total = far.sum()
        weights = far / total if total > 0 else None
        chosen.append(int(rng.choice(len(sketches), p=weights)))
        far = np.minimum(far, _distances_to(sketches, chosen[-1]))
    return sketches.values[chosen].astype(np.float64)


def _distances_to(sketches: Sketches, one: int) -> npt.NDArray[np.float64]:
    """Estimate squared distances of all records to one of them, over the shared components."""
    width = int(sketches.lengths[one])
    common = np.minimum(sketches.lengths, width)
    centre = sketches.values[one, :width].astype(np.float64)
    energy = np.concatenate([[0.0], np.cumsum(centre**2)])
    sums = energy[common]
    for block, values in _blocks(sketches):
        shared = values[:, :width]  # zeros where a record is shorter
        sums[block] += np.einsum("ij,ij->i", shared, shared) - 2.0 * (shared @ centre)
    return np.maximum(sums, 0.0) / common


def _nearest_centre(sketches: Sketches, centres: Any) -> tuple[Any, Any]:
    """Return label and estimated squared distance of the nearest centre of each record."""
    width = min(sketches.shape[1], centres.shape[1])
    lengths, centres = np.minimum(sketches.lengths, width), centres[:, :width]
    energy = np.pad(np.cumsum(centres**2, axis=1), ((0, 0), (1, 0)))
    labels, best = np.full(len(lengths), -1, np.int32), np.zeros(len(lengths))
    for block, values in _blocks(sketches):
        shared = values[:, :width]
        score = energy[:, lengths[block]].T - 2.0 * (shared @ centres.T)
        labels[block] = np.argmin(score, axis=1)
        best[block] = np.einsum("ij,ij->i", shared, shared) + score.min(axis=1)
    labels[lengths == 0] = -1
    return labels, np.maximum(best, 0.0) / np.maximum(lengths, 1)
