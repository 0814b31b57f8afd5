"""The release object: estimates, slices, files."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tulle import SecretKey, Sketcher
from tulle.datasets import quest
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.files import OutputExists
from tulle.releases import manifest_path, verify_release
from tulle.sketch import Sketches

KEY = SecretKey(b"a key for tests, never for data!")
BASKETS = quest(T=8, I=3, D=60, L=30, N=80, random_state=0)


def sketched(**parameters):
    X = BASKETS.toarray()
    X[3] = 0  # one suppressed record
    return Sketcher(key=KEY, **parameters).fit(X).transform(X), X.astype(float)


def test_primitives_equal_their_definitions_pair_by_pair():
    S, _ = sketched(delta=0.7)
    dot, distances, cosines = S.dot(), S.distances(squared=True), S.cosines()
    norms = S.norms(squared=True)
    for i in range(0, 60, 7):
        for j in range(0, 60, 5):
            m = min(S.lengths[i], S.lengths[j])
            if m == 0:
                assert np.isnan([dot[i, j], distances[i, j], cosines[i, j]]).all()
                continue
            a, b = S.values[i, :m].astype(float), S.values[j, :m].astype(float)
            assert dot[i, j] == pytest.approx(a @ b / m)
            assert distances[i, j] == pytest.approx(((a - b) ** 2).sum() / m)
            if (a @ a) * (b @ b):
                assert cosines[i, j] == pytest.approx(a @ b / np.sqrt((a @ a) * (b @ b)))
    kept = ~S.suppressed
    assert norms[kept] == pytest.approx((S.values**2).sum(axis=1)[kept] / S.lengths[kept])
    assert np.sqrt(norms[kept]) == pytest.approx(S.norms()[kept])


def test_estimates_approach_the_truth_with_many_components():
    S, X = sketched(delta=1e-4, max_components=4000)
    kept = ~S.suppressed
    truth = X @ X.T
    scale = np.sqrt(np.outer(np.diag(truth), np.diag(truth)))
    error = (S.dot() - truth)[np.ix_(kept, kept)] / scale[np.ix_(kept, kept)]
    assert np.abs(error).max() < 6 * np.sqrt(2 / 4000)
    gaps = np.linalg.norm(X[:, None] - X[None], axis=2)
    assert np.nanmax(np.abs(S.distances() - gaps) / (gaps + 1)) < 0.15
    mean = X[kept].mean(axis=0)
    assert S.centroid().norms(squared=True)[0] == pytest.approx(mean @ mean, rel=0.15)


def test_sketches_of_different_widths_meet():
    wide, _ = sketched(delta=0.1)
    narrow, _ = sketched(delta=2.0)
    assert wide.shape[1] > narrow.shape[1]
    assert np.allclose(wide.dot(narrow), narrow.dot(wide).T, equal_nan=True)
    assert wide.distances(narrow).shape == (60, 60)


def test_centroid_uses_the_components_that_all_have():
    S = Sketches(np.array([[1.0, 5.0], [3.0, 0.0], [0.0, 0.0]]), np.array([2, 1, 0]))
    middle = S.centroid()
    assert middle.lengths.tolist() == [1]
    assert middle.values.tolist() == [[2.0]]
    assert S.centroid([0]).values.tolist() == [[1.0, 5.0]]
    with pytest.raises(DataError, match="not suppressed"):
        S.centroid([2])


def test_slices_and_arrays():
    S, _ = sketched()
    assert len(S[5]) == 1
    assert np.array_equal(S[S.suppressed].lengths, [0])
    assert np.array_equal(np.asarray(S[10:20]), S.values[10:20])
    assert S[[1, 2]].provenance == S.provenance
    assert S.shape == np.asarray(S).shape


def test_wrong_shapes_are_refused():
    with pytest.raises(DataError, match="one length for each"):
        Sketches(np.zeros((2, 2)), np.array([1]))
    with pytest.raises(DataError, match="larger"):
        Sketches(np.zeros((2, 2)), np.array([1, 3]))
    with pytest.raises(DataError, match="finite"):
        Sketches(np.full((2, 2), np.nan), np.array([2, 2]))
    with pytest.raises(DataError, match="zero after"):
        Sketches(np.ones((2, 2)), np.array([1, 2]))
    with pytest.raises(DataError, match="numbers"):
        Sketches(np.array([["a"]]), np.array([1]))


def test_stacked_sketches_of_one_key_are_those_of_all_records():
    S, X = sketched(delta=0.7)
    owner = Sketcher(key=KEY, delta=0.7).fit(X)
    together = Sketches.stacked([owner.transform(X[:5]), owner.transform(X[5:])])
    assert np.array_equal(together.values, S.values)
    assert np.array_equal(together.lengths, S.lengths)
    with pytest.raises(DataError, match="no sketches"):
        Sketches.stacked([])


@pytest.mark.parametrize("kind", ["parquet", "npz"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_save_and_load_round_trip_with_a_manifest_and_no_key(tmp_path, kind, dtype):
    X = BASKETS.toarray().astype(dtype)
    X[3] = 0
    S = Sketcher(key=KEY, delta=0.7).fit(X).transform(X)
    path = tmp_path / f"s.{kind}"
    S.save(path)
    back = Sketches.load(path)
    assert np.array_equal(back.values, S.values)
    assert np.array_equal(back.lengths, S.lengths)
    assert back.dtype == dtype
    assert back.provenance == S.provenance
    text = manifest_path(path).read_text()
    stored = json.loads(text)
    assert stored["counts"]["suppressed"] == 1
    assert stored["parameters"]["delta"] == 0.7
    assert KEY.fingerprint() not in text
    assert all(row["holds"] for row in verify_release(path))


def test_save_refuses_other_kinds_and_unverified_sketches(tmp_path):
    S, _ = sketched()
    with pytest.raises(ParameterError, match="parquet"):
        S.save(tmp_path / "s.csv")
    with pytest.raises(PrivacyError, match="nothing was written"):
        Sketches(S.values, S.lengths).save(tmp_path / "s.npz")
    S.save(tmp_path / "s.npz")
    with pytest.raises(OutputExists):
        S.save(tmp_path / "s.npz")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.npz", "s.npz.manifest.json"]


def test_load_without_manifest_and_of_something_else(tmp_path):
    S, _ = sketched()
    S.save(tmp_path / "s.parquet")
    manifest_path(tmp_path / "s.parquet").unlink()
    assert Sketches.load(tmp_path / "s.parquet").provenance == {}
    for name in ("x.parquet", "x.npz"):
        (tmp_path / name).write_bytes(b"nothing of the kind")
        with pytest.raises(DataError, match="no sketches"):
            Sketches.load(tmp_path / name)
    with pytest.raises(DataError, match="does not exist"):
        Sketches.load(tmp_path / "absent.npz")


def test_only_suppressed_records_survive_a_file(tmp_path):
    S = Sketcher(key=KEY).fit(np.zeros((2, 3))).transform(np.zeros((2, 3)))
    S.save(tmp_path / "s.parquet")
    assert Sketches.load(tmp_path / "s.parquet").suppressed.all()
