"""Clusters of a release, judged on the originals."""

from __future__ import annotations

import numpy as np

from tulle._metrics.covariance import cluster_scores


def hills(n: int, seed: int, noise: float = 0.3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = np.array([[0, 0], [6, 0], [0, 6], [6, 6], [12, 3]])
    return centres[np.arange(n) % 5] + rng.normal(0, noise, (n, 2))


def test_the_same_hills_give_the_same_clusters() -> None:
    found = cluster_scores(hills(500, 0), hills(500, 1), seed=0)
    assert found is not None
    assert found.agreement == 1
    assert 1 <= found.error < 1.1


def test_a_release_without_hills_loses_the_clusters() -> None:
    flat = np.random.default_rng(1).uniform(0, 12, (500, 2))
    found = cluster_scores(hills(500, 0), flat, seed=0)
    assert found is not None
    assert found.agreement < 1
    assert found.error > 2


def test_too_few_different_records_have_no_clusters() -> None:
    assert cluster_scores(np.zeros((50, 2)), hills(50, 0), seed=0) is None
