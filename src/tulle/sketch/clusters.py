"""k-means on sketches, as a scikit-learn clusterer.

It takes :class:`Sketches`, whose records may have different lengths, or a plain array. It sees the
release only, never the key or a record, so its fitted state is as public as the release.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from tulle.checks import check_int
from tulle.errors import DataError
from tulle.random import RandomState, as_generator
from tulle.sketch._given import given
from tulle.sketch.sketches import Sketches

_BLOCK = 8192  # records compared with the centres at once


class SketchKMeans(ClusterMixin, BaseEstimator):
    """k-means on sketches.

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
        """Finds the centres."""
        for name in ("n_clusters", "n_init", "max_iter"):
            check_int(type(self).__name__, name, getattr(self, name), 1)
        sketches = given(self, X, reset=True)
        seen = sketches[~sketches.suppressed]
        if len(seen) < self.n_clusters:
            raise DataError(
                f"n_samples={len(seen)} (that are not suppressed) should be >= "
                f"n_clusters={self.n_clusters}: ask for fewer clusters"
            )
        rng = as_generator(self.random_state)
        runs = [self._run(seen, rng) for _ in range(self.n_init)]
        self.cluster_centers_, self.inertia_, self.n_iter_ = min(runs, key=lambda run: run[1])
        self.labels_ = _nearest_centre(sketches, self.cluster_centers_)[0]
        return self

    def predict(self, X: Any) -> npt.NDArray[np.int32]:
        """The nearest centre of each sketch; -1 for suppressed ones."""
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
    """Some rows at a time in double precision: distances are small differences of large sums."""
    for start in range(0, len(sketches), _BLOCK):
        block = slice(start, start + _BLOCK)
        yield block, sketches.values[block].astype(np.float64, copy=False)


def _totals(sketches: Sketches, labels: Any, count: int) -> tuple[Any, Any]:
    """For each cluster and component: the sum over the members, and how many have it."""
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
    """Starting centres far from each other (k-means++)."""
    chosen = [int(rng.integers(len(sketches)))]
    far = _distances_to(sketches, chosen[0])
    while len(chosen) < count:
        total = far.sum()
        weights = far / total if total > 0 else None
        chosen.append(int(rng.choice(len(sketches), p=weights)))
        far = np.minimum(far, _distances_to(sketches, chosen[-1]))
    return sketches.values[chosen].astype(np.float64)


def _distances_to(sketches: Sketches, one: int) -> npt.NDArray[np.float64]:
    """Estimated squared distances of all records to one of them, over the shared components."""
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
    """Label and estimated squared distance of the nearest centre, over each record's length."""
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
