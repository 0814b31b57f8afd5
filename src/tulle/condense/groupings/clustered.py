"""The modified condensation of paper 001: clusters by k-means, then sizes put right."""

from __future__ import annotations

import numpy as np

from tulle.condense.groupings.repair import merge_small, squared
from tulle.moments import Floats, Ints
from tulle.threads import models_on_one


def modified(matrix: Floats, levels: Ints, rng: np.random.Generator) -> Ints:
    """k-means with n // k clusters; small ones, smallest first, take the nearest missing records.

    A donor gives its surplus only, which always suffices when all levels are alike. With levels,
    k is their mean, and what is still too small merges.
    """
    from sklearn.cluster import KMeans

    k = round(float(levels.mean()))
    places = len(np.unique(np.round(matrix, 9), axis=0))  # k-means tells no more apart
    count = min(max(1, len(matrix) // k), places)
    seed = int(rng.integers(2**31))
    with models_on_one():
        found = KMeans(count, n_init=1, random_state=seed).fit(matrix)
    groups = found.labels_.astype(np.int64)
    for cluster in np.argsort(np.bincount(groups, minlength=count), kind="stable"):
        _fill(cluster, found.cluster_centers_[cluster], matrix, groups, levels)
    return merge_small(matrix, groups, levels)


def _fill(cluster: int, centre: Floats, matrix: Floats, groups: Ints, levels: Ints) -> None:
    """Moves the nearest records of clusters that have more than they need."""
    members = groups == cluster
    missing = int(levels[members].max(initial=0)) - int(members.sum())
    if missing <= 0:
        return
    sizes = np.bincount(groups)
    needs = np.zeros(len(sizes), dtype=np.int64)
    np.maximum.at(needs, groups, levels)
    spare = sizes - needs
    limit = int(members.sum()) + missing
    apart = squared(matrix, centre)
    for row in np.argsort(apart, kind="stable"):
        donor = groups[row]
        if donor != cluster and spare[donor] > 0 and levels[row] <= limit:
            spare[donor] -= 1
            groups[row] = cluster
            missing -= 1
            if missing == 0:
                return
