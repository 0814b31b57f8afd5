"""The miners on sketches."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import vstack
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsClassifier

from tulle import SecretKey, Sketcher
from tulle.datasets import quest
from tulle.errors import DataError, ParameterError
from tulle.sketch import Sketches, SketchKMeans, SketchKNeighborsClassifier
from tulle.sketch import miners as clusters

KEY = SecretKey(b"a key for tests, never for data!")


@pytest.fixture(scope="module")
def two_classes():
    X = vstack([quest(T=12, I=4, D=400, L=40, N=200, random_state=s) for s in (0, 1)], format="csr")
    return Sketcher(key=KEY, delta=0.1).fit(X).transform(X), np.repeat(["a", "b"], 400), X


def test_classifier_tells_classes_apart_from_sketches_alone(two_classes):
    S, y, _ = two_classes
    train = np.random.default_rng(0).random(800) < 0.67
    model = SketchKNeighborsClassifier().fit(S[train], y[train])
    assert model.score(S[~train], y[~train]) > 0.85


def test_classifier_on_an_array_is_the_nearest_neighbour_classifier_of_scikit_learn():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(200, 6)), rng.integers(0, 3, 200)
    ours = SketchKNeighborsClassifier(7).fit(X, y)
    votes = {"metric": "cosine", "weights": lambda far: np.maximum(1 - far, 0) ** 4}
    theirs = KNeighborsClassifier(7, **votes).fit(X, y)
    new = np.concatenate([rng.normal(size=(50, 6)), X[:5]])
    assert np.allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-6)


def test_nearer_sketches_have_more_votes_and_strangers_equal_ones():
    S = Sketches(np.array([[2.0, 0.0], [1.0, 1.0], [-1.0, 0.0]]), np.array([2, 2, 2]))
    model = SketchKNeighborsClassifier(3).fit(S, ["a", "b", "c"])
    near, half, none = model.predict_proba(S[:1])[0]
    assert (near, half, none) == pytest.approx((0.8, 0.2, 0.0))
    away = Sketches(np.array([[-1.0, 0.0]]), np.array([2]))
    alone = SketchKNeighborsClassifier(2).fit(S[:2], ["a", "b"])
    assert alone.predict_proba(away)[0] == pytest.approx([0.5, 0.5])


def test_suppressed_records_do_not_vote_and_get_the_shares_of_the_classes(two_classes):
    S, y, _ = two_classes
    lengths = S.lengths.copy()
    lengths[:300] = 0
    holes = Sketches(np.where(lengths[:, None] > 0, S.values, 0), lengths)
    model = SketchKNeighborsClassifier(5).fit(holes, y)
    assert len(model.sketches_) == np.count_nonzero(lengths)
    assert np.allclose(model.predict_proba(holes[:3]), 0.5)
    with pytest.raises(DataError, match="suppressed"):
        model.fit(holes[:300], y[:300])


def test_k_means_with_equal_lengths_is_k_means_of_scikit_learn():
    rng = np.random.default_rng(2)
    centres = rng.normal(scale=8, size=(4, 5))
    X = np.concatenate([centre + rng.normal(size=(50, 5)) for centre in centres])
    ours = SketchKMeans(4, n_init=10, random_state=0).fit(X)
    theirs = KMeans(4, n_init=10, random_state=0).fit(X)
    assert adjusted_rand_score(ours.labels_, theirs.labels_) == 1
    assert ours.inertia_ == pytest.approx(theirs.inertia_ / 5)
    assert np.array_equal(ours.predict(X), ours.labels_)


def test_k_means_finds_the_classes_of_sketches_with_different_lengths():
    rng = np.random.default_rng(3)
    base = (rng.random((3, 60)) < 0.4) * 3.0
    X = base[np.repeat(np.arange(3), 100)] + (rng.random((300, 60)) < 0.05)
    S = Sketcher(key=KEY, delta=1.0).fit(X).transform(X)
    assert len(np.unique(S.lengths)) > 5
    found = SketchKMeans(3, random_state=0).fit(S).labels_
    assert adjusted_rand_score(found, np.repeat(np.arange(3), 100)) > 0.95


def test_distances_to_a_start_are_those_of_the_release(two_classes):
    S = two_classes[0]
    S = S[~S.suppressed]
    for one in (0, int(np.argmin(S.lengths)), int(np.argmax(S.lengths))):
        expected = S.distances(S[one], squared=True)[:, 0]
        assert clusters._distances_to(S, one) == pytest.approx(expected)


@pytest.mark.slow
def test_k_means_labels_suppressed_records_apart_and_repeats_with_a_seed(two_classes):
    S, _, _ = two_classes
    lengths = S.lengths.copy()
    lengths[7] = 0
    holes = Sketches(np.where(lengths[:, None] > 0, S.values, 0), lengths)
    one, two = (SketchKMeans(3, random_state=5).fit(holes) for _ in range(2))
    assert np.array_equal(one.labels_, two.labels_)
    assert np.array_equal(one.labels_ == -1, lengths == 0)
    assert set(one.labels_) == {-1, 0, 1, 2}
    assert np.array_equal(one.predict(holes), one.labels_)


def test_miners_tell_records_of_large_counts_apart(monkeypatch):
    monkeypatch.setattr(clusters, "_BLOCK", 7)
    rng = np.random.default_rng(0)
    counts = 10**5 + rng.integers(0, 9, (40, 20)) + 60 * np.repeat([[0], [1]], 20, axis=0)
    S = Sketcher(key=KEY, max_components=64).fit(counts).transform(counts)
    y = np.repeat([0, 1], 20)
    assert S.dtype == np.float32
    labels = SketchKMeans(2, random_state=0).fit(S).labels_
    assert adjusted_rand_score(y, labels) == 1.0
    model = SketchKNeighborsClassifier(1).fit(S, y)
    assert np.array_equal(model.predict(S), y)


def test_wrong_parameters_are_named(two_classes):
    S, y, _ = two_classes
    with pytest.raises(ParameterError, match="n_neighbors"):
        SketchKNeighborsClassifier(0).fit(S, y)
    with pytest.raises(ParameterError, match="n_clusters"):
        SketchKMeans(0).fit(S)
    with pytest.raises(DataError):
        SketchKMeans(9).fit(S[:3])
    with pytest.raises(ValueError, match="inconsistent"):
        SketchKNeighborsClassifier().fit(S, y[:5])
    with pytest.raises(DataError):
        SketchKNeighborsClassifier().fit(S, None)
    with pytest.raises(ValueError, match="NaN"):
        SketchKNeighborsClassifier().fit(S, np.full(len(S), np.nan))
    with pytest.raises(ValueError):
        SketchKNeighborsClassifier().fit(S, np.stack([y, y], axis=1))
