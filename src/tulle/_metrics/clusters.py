"""Clusters: does someone who clusters the release find the clusters of the original?

k-means finds centres in the original and in the release; the originals go to the nearest centre of
each. The two partitions of the same people are compared, and how far people are from the centres.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tulle._threads import models_on_one
from tulle._types import Floats

CLUSTERS = 5
_STARTS = 3


class ClusterScores(NamedTuple):
    """How clusters of a release do on the originals."""

    agreement: float  # adjusted Rand index: 1 the same partition, 0 chance
    error: float  # squared distance to the release's centres over that to the original's own


def cluster_scores(original: Floats, release: Floats, seed: int) -> ClusterScores | None:
    """Compare clusters of two tables in the same standardised dimensions; None without any."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score

    if min(len(np.unique(part, axis=0)) for part in (original, release)) < CLUSTERS:
        return None
    labels, errors = [], []
    with models_on_one():
        for part in (original, release):
            model = KMeans(CLUSTERS, n_init=_STARTS, random_state=seed).fit(part)
            away = model.transform(original)
            labels.append(away.argmin(axis=1))
            errors.append(float((away.min(axis=1) ** 2).sum()))
    if errors[0] == 0:
        return None
    return ClusterScores(float(adjusted_rand_score(*labels)), errors[1] / errors[0])
