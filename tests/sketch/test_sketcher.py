"""The estimator: kinds of input, keys, both models, reconstruction, bad input."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csc_array, csr_array, csr_matrix
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer

from tulle import SecretKey, Sketcher
from tulle.datasets import quest
from tulle.errors import DataError, KeyMaterialError, ParameterError, PrivacyError
from tulle.sketch import Sketches
from tulle.sketch import sketcher as _build
from tulle.sketch import sketcher as _delta
from tulle.sketch import sketcher as _kvariance
from tulle.sketch.sketcher import number_points
from tulle.transactions import Transactions

KEY = SecretKey(b"a key for tests, never for data!")
BASKETS = quest(T=8, I=3, D=300, L=60, N=120, random_state=0)
MODELS = [
    {"model": "delta", "delta": 0.3},
    {"model": "k-variance", "k": 5},
    {"model": "k-variance", "k": 5, "criterion": "gap"},
    {"model": "k-variance", "k": 5, "delta": 0.8},
]


def made(**parameters):
    return Sketcher(key=KEY, **parameters)


# --- what a sketch is ---------------------------------------------------------------------


@pytest.mark.parametrize("parameters", MODELS)
def test_components_are_sums_under_signs_and_zero_after_the_length(parameters):
    S = made(**parameters).fit(BASKETS).transform(BASKETS)
    points = number_points(KEY, np.arange(120))
    signs = _build.sign_table(_build.coefficients(KEY, 0, S.shape[1]), points)
    full = BASKETS.toarray().astype(float) @ signs
    present = np.arange(S.shape[1]) < S.lengths[:, None]
    assert np.array_equal(S.values, np.where(present, full, 0))


@pytest.mark.slow
@pytest.mark.parametrize("parameters", MODELS)
def test_several_tables_of_signs_build_the_same_sketches(parameters, monkeypatch):
    plain = made(**parameters).fit(BASKETS).transform(BASKETS)
    monkeypatch.setattr(_build, "_TABLE", 120 * 10)  # several tables of components
    assert np.array_equal(plain.values, made(**parameters).fit(BASKETS).transform(BASKETS).values)


def test_delta_works_record_by_record():
    sketcher = made(delta=0.4).fit(BASKETS)
    whole = sketcher.transform(BASKETS)
    for start in range(0, 300, 77):
        part = sketcher.transform(BASKETS[start : start + 77])
        assert np.array_equal(part.lengths, whole.lengths[start : start + 77])
        width = part.shape[1]
        assert np.array_equal(part.values, whole.values[start : start + 77, :width])


def test_delta_floor_combines_both_models():
    floor, plain = (
        made(model="k-variance", k=5, delta=d).fit(BASKETS).transform(BASKETS) for d in (0.8, None)
    )
    delta = made(delta=0.8).fit(BASKETS).transform(BASKETS)
    assert np.all(floor.lengths <= delta.lengths)
    assert floor.lengths.sum() < plain.lengths.sum()
    assert len(floor.provenance["verified"]) == 2


def test_max_components_is_a_limit_for_both_models():
    for parameters in MODELS:
        S = made(max_components=4, **parameters).fit(BASKETS).transform(BASKETS)
        assert S.lengths.max() <= 4


def test_partition_graph_gives_a_verified_release(monkeypatch):
    monkeypatch.setattr("tulle.sketch._neighbours._PART", 80)
    S = made(model="k-variance", k=5, graph="partition").fit(BASKETS).transform(BASKETS)
    assert any("partition" in name for name in S.provenance["verified"])
    again = made(model="k-variance", k=5, graph="partition").fit(BASKETS).transform(BASKETS)
    assert np.array_equal(S.values, again.values)


# --- input --------------------------------------------------------------------------------


def test_all_kinds_of_matrices_give_the_same_sketches():
    expected = made().fit(BASKETS).transform(BASKETS).values
    unsorted = (
        csr_matrix(
            (np.ones(2 * BASKETS.nnz), np.repeat(BASKETS.indices, 2), BASKETS.indptr * 2),
            shape=BASKETS.shape,
        )
        * 0.5
    )  # every entry stored twice
    for X in (BASKETS.toarray(), csc_array(BASKETS), csr_matrix(BASKETS), unsorted):
        assert np.array_equal(made().fit(X).transform(X).values, expected)
    assert not unsorted.has_canonical_format, "the input is not touched"


def test_counts_are_exact_in_float32_and_floats_keep_their_precision():
    assert made().fit(BASKETS).transform(BASKETS).dtype == np.float32
    assert made().fit(BASKETS).transform(BASKETS.astype(np.float64)).dtype == np.float64
    huge = csr_array(np.array([[2**30, 2**30 + 1]]))
    S = made().fit(huge).transform(huge)
    assert S.dtype == np.float64
    assert set(np.abs(S.values).ravel().tolist()) <= {1.0, 2.0**31 + 1}


TEXTS = ["the cat sat on the mat", "a dog and a cat", "the dog sat", "on the mat the cat"]


def test_texts_bags_and_weights_agree_and_the_vocabulary_is_open():
    bags = [text.split() for text in TEXTS]
    bags[1] = ["dog", "and", "cat"]  # one letter is no term
    weights = [{word: bag.count(word) for word in bag} for bag in bags]
    expected = made().fit(TEXTS).transform(TEXTS)
    for X in (bags, weights, tuple(TEXTS), np.array(TEXTS), np.array(TEXTS, dtype=object)):
        assert np.array_equal(made().fit(X).transform(X).values, expected.values)
    alone = made().fit(TEXTS).transform(TEXTS[2:3])
    assert np.array_equal(alone.values[0], expected.values[2, : alone.shape[1]])


def test_vectoriser_output_is_taken():
    counts = CountVectorizer().fit_transform(TEXTS)
    S = made().fit(counts).transform(counts)
    assert S.lengths.tolist() == made().fit(TEXTS).transform(TEXTS).lengths.tolist()


def test_files_of_baskets_and_texts(tmp_path):
    (tmp_path / "b.dat").write_text("1 2 3\n2 3 4\n1 7 9\n")
    baskets = Transactions.from_lists([["1", "2", "3"], ["2", "3", "4"], ["1", "7", "9"]])
    expected = made().fit(baskets).transform(baskets).values
    assert np.array_equal(made().fit(baskets).transform(tmp_path / "b.dat").values, expected)
    (tmp_path / "t.txt").write_text("\n".join(TEXTS) + "\n")
    (tmp_path / "t.jsonl").write_text("".join(f'{{"body": "{text}"}}\n' for text in TEXTS))
    (tmp_path / "t.csv").write_text("id,body\n" + "".join(f"1,{text}\n" for text in TEXTS))
    texts = made().fit(TEXTS).transform(TEXTS).values
    for name in ("t.txt", "t.jsonl", "t.csv"):
        S = made(text="body").fit(TEXTS).transform(str(tmp_path / name))
        assert np.array_equal(S.values, texts)


# --- keys ---------------------------------------------------------------------------------


def test_same_key_same_sketches_other_key_others_no_key_a_new_one():
    one, two = Sketcher().fit(BASKETS), Sketcher().fit(BASKETS)
    assert one.key_ != two.key_
    assert not np.array_equal(one.transform(BASKETS).values, two.transform(BASKETS).values)
    again = Sketcher(key=one.key_).fit(BASKETS)
    assert np.array_equal(one.transform(BASKETS).values, again.transform(BASKETS).values)


def test_key_is_never_shown_copied_into_sketches_or_pickled():
    secret = b"\x07" * 32
    fitted = Sketcher(key=SecretKey(secret)).fit(BASKETS)
    S = fitted.transform(BASKETS)
    assert "hidden" in repr(fitted)
    assert secret not in pickle.dumps(S)
    with pytest.raises(KeyMaterialError):
        pickle.dumps(fitted)
    assert clone(fitted).key is fitted.key


@pytest.mark.slow
def test_reconstruct_is_unbiased_for_the_key_holder_and_useless_without():
    x = np.zeros((1, 400))
    x[0, [3, 50, 200]] = [30.0, 20.0, 25.0]
    x[0, 300:] = 1
    owner = made(delta=1e-3, max_components=3000).fit(x)
    S = owner.transform(x)
    estimates = owner.reconstruct(S)
    assert estimates.shape == (1, 400)
    spread = np.sqrt((x**2).sum() / 3000)
    assert np.abs(estimates - x).max() < 4.5 * spread
    stranger = Sketcher().fit(x).reconstruct(S, columns=[3, 50, 200])
    assert np.abs(stranger).max() < 4.5 * spread


def test_reconstruct_by_terms_and_of_suppressed_records():
    owner = made(delta=0.01).fit(TEXTS)
    S = owner.transform([*TEXTS, "dog"])
    assert S.suppressed.tolist() == [False] * 4 + [True]
    estimates = owner.reconstruct(S, columns=["the", "absent"])
    assert np.isnan(estimates[4]).all()
    assert abs(estimates[0, 0] - 2) < 1.5
    assert abs(estimates[0, 1]) < 1.5
    with pytest.raises(ParameterError, match="columns"):
        owner.reconstruct(S)


# --- bad input ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"delta": -1},
        {"delta": 0},
        {"delta": float("nan")},
        {"delta": "much"},
        {"k": 0},
        {"k": 2.5},
        {"model": "gamma"},
        {"criterion": "distance"},
        {"max_components": 0},
        {"graph": "some"},
        {"max_components": 2**31},
        {"text": 5},
        {"key": "a passphrase"},
    ],
)
def test_wrong_parameter_is_named(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))) as caught:
        Sketcher(**wrong).fit(BASKETS)
    assert "passphrase" not in str(caught.value)


def test_k_must_be_smaller_than_the_number_of_records():
    with pytest.raises(DataError, match="k=300"):
        made(model="k-variance", k=300).fit(BASKETS).transform(BASKETS)
    some_empty = np.eye(4)
    some_empty[2] = 0
    with pytest.raises(DataError, match=r"k=3.*n_samples=3.*of 4"):
        made(model="k-variance", k=3).fit(some_empty).transform(some_empty)


@pytest.mark.parametrize("parameters", [{"delta": 1e-6}, {"model": "k-variance", "k": 1}])
def test_all_zero_and_one_non_zero_records_are_suppressed_and_counted(parameters):
    X = np.array([[0, 0, 0], [0, 5, 0], [1, 2, 3], [3, 2, 1], [2, 2, 0]])
    S = made(**parameters).fit(X).transform(X)
    assert S.suppressed.tolist() == [True, True, False, False, False]
    assert S.counts()["suppressed"] == 2
    assert not S.values[:2].any()


def test_nothing_but_zeros_gives_only_suppressed_records():
    S = made().fit(np.zeros((3, 2))).transform(np.zeros((3, 2)))
    assert S.suppressed.all()
    assert "3 suppressed" in repr(S)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_are_refused_without_a_cell(bad):
    X = BASKETS.astype(float)
    X.data[5] = bad
    with pytest.raises(DataError, match="1 entr"):
        made().fit(X)


def test_duplicated_documents_get_equal_sketches():
    X = BASKETS[[0, 0, 0, 1, 2, 3]]
    for parameters in ({"delta": 0.3}, {"model": "k-variance", "k": 2}):
        S = made(**parameters).fit(X).transform(X)
        assert np.array_equal(S.values[0], S.values[1])
        assert S.lengths[0] == S.lengths[2] > 0


@pytest.mark.parametrize("X", [["", "  ", "!"], [[], []], [{}, {}]])
def test_empty_vocabulary_is_refused(X):
    with pytest.raises(ValueError, match="vocabulary|feature"):
        made().fit(X)


def test_mixed_records_are_refused():
    with pytest.raises(DataError, match="mixed"):
        made().fit(["a text", {"a": 1}])


def test_broken_promise_releases_nothing(monkeypatch):
    monkeypatch.setattr(_delta, "delta_lengths", lambda m, d, most: np.full(m.shape[0], most))
    with pytest.raises(PrivacyError):
        made(delta=1.0).fit(BASKETS).transform(BASKETS)
    monkeypatch.setattr(
        _kvariance, "k_variance_lengths", lambda pairs, similarity, most: most + 10**6
    )
    with pytest.raises(PrivacyError):
        made(model="k-variance", criterion="gap").fit(BASKETS).transform(BASKETS)


def test_number_of_columns_must_stay():
    with pytest.raises(ValueError, match="features"):
        made().fit(BASKETS).transform(BASKETS[:, :50])


# --- input that is no matrix, or is too large ---------------------------------------------


def test_columns_of_texts_and_missing_texts():
    texts = ["secret words here", None, "words here again"]
    expected = made().fit(texts).transform(texts)
    assert expected.suppressed.tolist() == [False, True, False]
    for column in (
        pd.Series(texts),
        pl.Series(texts),
        pa.array(texts),
        np.array(texts),
        tuple(texts),
    ):
        assert np.array_equal(made().fit(column).transform(column).values, expected.values)


@pytest.mark.parametrize("dtype", ["string", "string[pyarrow]", object])
def test_missing_texts_of_pandas_are_empty(dtype):
    column = pd.Series(["some words here", pd.NA], dtype=dtype)
    assert made().fit(column).transform(column).suppressed.tolist() == [False, True]


@pytest.mark.parametrize("parameters", [{}, {"model": "k-variance", "k": 1}])
def test_columns_may_be_hashed_into_any_range(parameters):
    rng = np.random.default_rng(0)
    columns = np.sort(rng.choice(2**40, 30, replace=False))
    rows, places = rng.integers(0, 8, 120), rng.integers(0, 30, 120)
    entries = (rng.integers(1, 4, 120) * rng.choice([-1.0, 1.0], 120), (rows, places))
    narrow = csr_array(entries, shape=(8, 30))
    wide = csr_array((narrow.data, columns[narrow.indices], narrow.indptr), shape=(8, 2**40))
    owner = made(**parameters).fit(wide)
    S = owner.transform(wide)
    full = narrow.toarray() @ owner.signs(columns, S.shape[1])
    present = np.arange(S.shape[1]) < S.lengths[:, None]
    assert np.array_equal(S.values, np.where(present, full, 0))
    assert np.array_equal(S.lengths, made(**parameters).fit(narrow).transform(narrow).lengths)


def test_a_tiny_delta_is_no_overflow():
    assert made(delta=5e-324).fit(BASKETS).transform(BASKETS).lengths.max() == 256


@pytest.mark.parametrize("parameters", MODELS)
def test_parts_are_the_rows_of_the_whole(parameters):
    sketcher = made(**parameters).fit(BASKETS)
    whole, parts = sketcher.transform(BASKETS), list(sketcher.transform_parts(BASKETS, 77))
    assert [len(part) for part in parts] == [77, 77, 77, 69]
    together = Sketches.stacked(parts)
    assert np.array_equal(together.lengths, whole.lengths)
    assert np.array_equal(together.values, whole.values)
    assert all(part.provenance == whole.provenance for part in parts)
    with pytest.raises(ParameterError, match="size"):
        list(sketcher.transform_parts(BASKETS, 0))


def test_sets_of_item_numbers_are_baskets():
    sets = [{1, 2, 3}, {3, 4}]
    words = [["1", "2", "3"], ["3", "4"]]
    assert np.array_equal(
        made().fit(sets).transform(sets).values, made().fit(words).transform(words).values
    )


@pytest.mark.parametrize(
    "X,message",
    [
        ([], "record"),
        (np.array([4711.0, 1.0]), "2-D"),
        (np.full((2, 2), 4711 + 1j), "Complex"),
        (4711, "2-D"),
        ([[4711, 2], [3]], "length"),
        (np.array([["secret", 2]], object), "number"),
        (np.array([[4711e80, 2.0]]), "1 entr"),
        (np.array([[1e-90, 2.0]]), "1 entr"),
        ([[4711**200, 1]], "number"),
        (np.array([["secret", "words"]]), "number"),
        (pl.DataFrame({"text": ["secret words"]}), "number"),
        (pd.DataFrame({"text": ["a secret feature of a sample"]}), "number"),
        (np.array([["1947-11-04", "2020-02-02"]], "M8[D]"), "number"),
        ("a secret text", "list"),
        ("a secret text " * 500, "list"),
        ({"secret": 4711}, "list"),
        (Path(), "file"),
    ],
)
def test_wrong_input_is_refused_without_a_cell(X, message):
    with pytest.raises(DataError, match=message) as caught:
        made().fit(X)
    assert "4711" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_items_with_the_same_text_are_not_counted_twice():
    with pytest.raises(DataError, match="1.*'1'"):
        made().fit(Transactions.from_lists([[1, "1"], [1, 2]]))
    sets = [{1, "1"}, {1, 2}]
    assert made().fit(sets).transform(sets).suppressed.tolist() == [True, False]


@pytest.mark.parametrize("indices", [[0, 7, 1, 2], [0, -1, 1, 2]])
@pytest.mark.parametrize("kind", [csr_array, csr_matrix, csc_array])
def test_damaged_sparse_matrices_are_refused(indices, kind):
    X = kind(np.array([[1.0, 2.0, 0.0], [0.0, 3.0, 4.0], [0.0, 0.0, 0.0]]))
    X.indices = np.array(indices, np.int32)
    with pytest.raises(DataError, match="sparse matrix"):
        made().fit(X)


def test_records_with_terms_and_matrices_do_not_mix():
    with pytest.raises(DataError):
        made().fit(BASKETS).transform(TEXTS)
    with pytest.raises(DataError):
        made().fit(TEXTS).transform(BASKETS)
    both = made().fit(BASKETS).fit(TEXTS)
    assert not hasattr(both, "n_features_in_")


@pytest.mark.parametrize("columns", [[-1], [120], [1.5], ["cat"]])
def test_columns_to_reconstruct_must_be_there(columns):
    owner = made().fit(BASKETS)
    S = owner.transform(BASKETS)
    with pytest.raises(ParameterError, match="from 0.*119"):
        owner.reconstruct(S, columns)
    with pytest.raises(ParameterError, match="Sketches"):
        owner.reconstruct(S.values)


def test_terms_to_reconstruct_are_words():
    owner = made().fit(TEXTS)
    for columns in (0, [0], ["cat", 1]):
        with pytest.raises(ParameterError):
            owner.reconstruct(owner.transform(TEXTS), columns)
    assert owner.reconstruct(owner.transform(TEXTS), "cat").shape == (4, 1)


def test_a_term_may_be_as_long_as_it_likes():
    owner = made().fit(TEXTS)
    terms = ["dna" * 100_000, *(f"term{i}" for i in range(20_000))]  # as an array: 24 GB
    assert owner.signs(terms, 2).shape == (20_001, 2)


@pytest.mark.parametrize("power", [-150, -20, 20, 150])
def test_gap_is_free_of_scale(power):
    X = BASKETS.astype(np.float64)
    plain, scaled = (
        made(model="k-variance", k=5, criterion="gap").fit(Y).transform(Y).lengths
        for Y in (X, X * 2.0**power)
    )
    assert np.array_equal(plain, scaled)


def test_records_of_length_one_and_as_many_components_as_delta_allows() -> None:
    X = np.array([[3.0, 4.0, 0.0], [30.0, 40.0, 0.0], [1.0, 1.0, 1.0]])
    made = Sketcher(delta=0.05, normalize=True).fit(X).transform(X)
    room = 1 - np.array([0.64, 0.64, 1 / 3])  # |x|² - max x², where |x| is 1
    assert made.lengths.tolist() == np.floor(room / 0.05 + 1e-9).astype(int).tolist()
    assert np.allclose(made.values[0], made.values[1]), "the length is gone"
    assert made.provenance["parameters"]["normalize"] is True

    long = np.full((2, 900), 1.0)
    assert Sketcher(delta=1).fit(long).transform(long).lengths.tolist() == [256, 256]
    whole = Sketcher(delta=1, max_components=None).fit(long)
    assert whole.transform(long).lengths.tolist() == [899, 899]
    parts = list(whole.transform_parts(long, 1))
    assert [part.lengths.tolist() for part in parts] == [[899], [899]]
