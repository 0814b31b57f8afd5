"""The release object: estimates, slices, files."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from tulle import SecretKey, Sketcher
from tulle.datasets import quest
from tulle.errors import DataError, OutputExists, ParameterError, PrivacyError
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


@pytest.mark.slow
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
    with pytest.raises(DataError, match="suppressed"):
        S.centroid([2])


def test_slices_and_arrays():
    S, _ = sketched()
    assert len(S[5]) == len(S[np.int64(5)]) == len(S[np.array(5)]) == 1
    assert np.array_equal(S[S.suppressed].lengths, [0])
    assert np.array_equal(np.asarray(S[10:20]), S.values[10:20])
    assert S[[1, 2]].provenance == S.provenance
    assert S.shape == np.asarray(S).shape


def test_wrong_shapes_are_refused():
    with pytest.raises(DataError):
        Sketches(np.zeros((2, 2)), np.array([1]))
    with pytest.raises(DataError, match="larger"):
        Sketches(np.zeros((2, 2)), np.array([1, 3]))
    with pytest.raises(DataError, match="finite"):
        Sketches(np.full((2, 2), np.nan), np.array([2, 2]))
    with pytest.raises(DataError):
        Sketches(np.ones((2, 2)), np.array([1, 2]))
    with pytest.raises(DataError, match="numbers"):
        Sketches(np.array([["a"]]), np.array([1]))
    for lengths in ([1.7, 1.0], [np.nan, 1.0], ["1", "1"]):
        with pytest.raises(DataError):
            Sketches(np.zeros((2, 2)), np.array(lengths))
    with pytest.raises(ParameterError, match="Sketches"):
        sketched()[0].dot(np.zeros((2, 2)))


def test_stacked_sketches_of_one_key_are_those_of_all_records():
    S, X = sketched(delta=0.7)
    owner = Sketcher(key=KEY, delta=0.7).fit(X)
    together = Sketches.stacked([owner.transform(X[:5]), owner.transform(X[5:])])
    assert np.array_equal(together.values, S.values)
    assert np.array_equal(together.lengths, S.lengths)
    with pytest.raises(DataError):
        Sketches.stacked([])


def test_stacked_sketches_promise_what_all_of_them_promise():
    strict, loose = (sketched(delta=delta)[0] for delta in (2.0, 0.01))
    assert Sketches.stacked(iter([strict, strict])).provenance == strict.provenance
    assert Sketches.stacked([strict, loose]).provenance == {}
    assert Sketches.stacked([strict, Sketches(strict.values, strict.lengths)]).provenance == {}
    pairs, _ = sketched(model="k-variance", k=3)
    assert Sketches.stacked([pairs]).provenance == pairs.provenance
    assert Sketches.stacked([pairs, pairs]).provenance == {}


def test_what_has_no_promise_is_not_saved(tmp_path):
    S, _ = sketched(delta=2.0)
    for other in (S.centroid(), Sketches.stacked([S, sketched(delta=0.01)[0]])):
        with pytest.raises(PrivacyError):
            other.save(tmp_path / "s.parquet")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["parquet"])
def test_a_file_that_was_changed_after_its_release_is_not_loaded(tmp_path, kind):
    S, _ = sketched(delta=2.0)
    other, _ = sketched(delta=0.01)
    S.save(tmp_path / f"s.{kind}")
    other.save(tmp_path / f"o.{kind}")
    (tmp_path / f"o.{kind}").replace(tmp_path / f"s.{kind}")
    with pytest.raises(DataError, match="manifest"):
        Sketches.load(tmp_path / f"s.{kind}")


def test_large_and_equal_records_are_at_distance_zero():
    X = np.array([[10**6, 10**6 + 1, 2 * 10**6, 3]] * 2 + [[10**6, 10**6 + 1, 2 * 10**6, 4]])
    S = Sketcher(key=KEY).fit(X).transform(X)
    assert S.dtype == np.float32
    assert S.distances()[:2, :2].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert S.distances(squared=True)[0, 2] == pytest.approx(1.0)


def test_components_of_any_kind_of_number_are_computed_with_in_floats(tmp_path):
    whole = Sketches(np.full((2, 4), 100, np.int8), np.array([4, 4]), sketched()[0].provenance)
    assert whole.dot().tolist() == [[10_000.0] * 2] * 2
    whole.save(tmp_path / "s.parquet")
    assert np.array_equal(Sketches.load(tmp_path / "s.parquet").values, whole.values)
    single = np.array([[1e25, 2e25, 1e25], [1e25, 1e25, 3e25]], np.float32)
    S = Sketcher(key=KEY).fit(single).transform(single)
    assert np.isfinite([S.dot(), S.distances(), S.cosines()]).all()


@pytest.mark.parametrize("kind", ["parquet"])
def test_save_and_load_round_trip_of_no_record(tmp_path, kind):
    sketched()[0][[]].save(tmp_path / f"s.{kind}")
    assert len(Sketches.load(tmp_path / f"s.{kind}")) == 0


@pytest.mark.parametrize("kind", ["parquet"])
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
    assert all(row["holds"] for row in verify_release(path))


def test_save_refuses_other_kinds_and_unverified_sketches(tmp_path):
    S, _ = sketched()
    with pytest.raises(ParameterError, match="parquet"):
        S.save(tmp_path / "s.csv")
    with pytest.raises(PrivacyError):
        Sketches(S.values, S.lengths).save(tmp_path / "s.parquet")
    S.save(tmp_path / "s.parquet")
    with pytest.raises(OutputExists):
        S.save(tmp_path / "s.parquet")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.parquet", "s.parquet.manifest.json"]


def test_load_without_manifest_and_of_something_else(tmp_path):
    S, _ = sketched()
    S.save(tmp_path / "s.parquet")
    manifest_path(tmp_path / "s.parquet").unlink()
    assert Sketches.load(tmp_path / "s.parquet").provenance == {}
    for name in ("x.parquet",):
        (tmp_path / name).write_bytes(b"nothing of the kind")
        with pytest.raises(DataError):
            Sketches.load(tmp_path / name)
    for length in ([1, None], [1.0, 1.0]):
        pl.DataFrame({"length": length, "sketch": [[1.0], [2.0]]}).write_parquet(tmp_path / "x.pq")
        with pytest.raises(DataError):
            Sketches.load(tmp_path / "x.pq")
    with pytest.raises(DataError):
        Sketches.load(tmp_path / "absent.parquet")


def test_only_suppressed_records_survive_a_file(tmp_path):
    S = Sketcher(key=KEY).fit(np.zeros((2, 3))).transform(np.zeros((2, 3)))
    S.save(tmp_path / "s.parquet")
    assert Sketches.load(tmp_path / "s.parquet").suppressed.all()
