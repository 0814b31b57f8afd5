"""StreamCondenser: tables in, statistics kept, pseudo-data out."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tulle import SecretKey, StreamCondenser
from tulle.errors import DataError, KeyMaterialError, ParameterError, PrivacyError
from tulle.stream import _batches as sealing
from tulle.stream._saved import write_state
from tulle.table.schema import Column, Kind, Role


def people(rng: np.random.Generator, count: int) -> pl.DataFrame:
    missing = rng.random(count) < 0.2
    return pl.DataFrame(
        {
            "age": rng.integers(18, 90, size=count),
            "city": rng.choice(["Bern", "Chur", "Sion"], size=count),
            "height": np.round(rng.normal(170, 10, size=count), 1),
            "member": rng.random(count) < 0.5,
            "income": pl.Series(rng.lognormal(10, 1, size=count)).set(pl.Series(missing), None),
            "born": pl.Series(rng.integers(0, 20_000, size=count)).cast(pl.Int32).cast(pl.Date),
        }
    )


def fed(condenser: StreamCondenser, X: Any, sizes: list[int], **arrays: Any) -> StreamCondenser:
    start = 0
    while start < len(X):
        for size in sizes:
            part = slice(start, start + size)
            if len(X[part]):
                given = {name: values[part] for name, values in arrays.items()}
                condenser.partial_fit(X[part], **given)
            start += size
    return condenser


def same_groups(one: StreamCondenser, two: StreamCondenser) -> None:
    np.testing.assert_array_equal(one.counts_, two.counts_)
    np.testing.assert_array_equal(one.means_, two.means_)
    np.testing.assert_array_equal(one.covariances_, two.covariances_)
    np.testing.assert_array_equal(one.levels_, two.levels_)
    assert (one.n_seen_, one.n_waiting_) == (two.n_seen_, two.n_waiting_)


@pytest.mark.slow
@given(st.integers(0, 1000), st.lists(st.integers(1, 60), min_size=1, max_size=3))
@few(5)
def test_batches_of_any_size_give_the_same_groups(seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    table = people(rng, 200)
    levels = rng.integers(2, 12, size=200)
    options: dict[str, Any] = {"k": 5, "random_state": 3}
    single = fed(StreamCondenser(**options), table, [1], levels=levels)
    batches = fed(StreamCondenser(**options), table, sizes, levels=levels)
    same_groups(single, batches)
    assert single.sample().equals(batches.sample())
    assert single.counts_.sum() + single.n_waiting_ == single.n_seen_ == 200


def test_moments_are_those_of_the_records(rng: np.random.Generator) -> None:
    X = rng.normal(size=(500, 3)) * [1, 10, 0.1] + [1e6, 0, 5]
    stream = fed(StreamCondenser(k=10, random_state=0), X, [37])
    assert stream.n_waiting_ == 0
    assert stream.counts_.sum() == 500
    np.testing.assert_allclose(stream.counts_ @ stream.means_ / 500, X.mean(axis=0))
    offsets = stream.means_ - X.mean(axis=0)
    between = np.einsum("g,gi,gj->ij", stream.counts_.astype(float), offsets, offsets)
    within = np.einsum("g,gij->ij", stream.counts_.astype(float), stream.covariances_)
    np.testing.assert_allclose((between + within) / 500, np.cov(X.T, bias=True), rtol=1e-6)
    drawn = stream.sample()
    np.testing.assert_allclose(drawn.mean(axis=0), X.mean(axis=0), atol=0.3 * X.std(axis=0).max())


@pytest.mark.slow
def test_every_kind_of_table_comes_back(rng: np.random.Generator) -> None:
    table = people(rng, 300)
    stream = StreamCondenser(k=10, random_state=0).partial_fit(table)
    drawn = stream.sample()
    assert drawn.schema == table.schema
    assert drawn.height == 300
    assert set(drawn["city"]) <= {"Bern", "Chur", "Sion"}
    assert drawn["income"].null_count() > 0
    pandas = table.drop("born").to_pandas()
    again = StreamCondenser(k=10, random_state=0).partial_fit(pandas).sample()
    assert isinstance(again, pd.DataFrame)
    assert (again.dtypes == pandas.dtypes).all()
    assert StreamCondenser(k=10).partial_fit(rng.normal(size=(200, 2))).sample(50).shape == (50, 2)


@pytest.mark.slow
def test_paper_and_strict_splits(rng: np.random.Generator) -> None:
    X, levels = rng.normal(size=(2_000, 2)), rng.integers(3, 21, size=2_000)
    paper = StreamCondenser(k=3, random_state=0).partial_fit(X, levels=levels)
    strict = StreamCondenser(k=3, split="strict", random_state=0).partial_fit(X, levels=levels)
    assert len(paper.counts_) > len(strict.counts_)
    assert strict.n_small_ == 0
    assert (strict.counts_ >= strict.levels_).all()
    assert paper.n_small_ > 0
    assert any("(split=, --split)" in note for note in paper.notes_)


@pytest.mark.slow
def test_classes_never_mix(rng: np.random.Generator) -> None:
    X = np.vstack([rng.normal(size=(300, 2)), rng.normal(size=(300, 2)) + 50])
    y = np.repeat(["low", "high"], 300)
    order = rng.permutation(600)
    X, y = X[order], y[order]
    stream = StreamCondenser(k=10, classwise=True, random_state=0)
    fed(stream, X, [41], y=y)
    X_new, y_new = stream.sample()
    assert sorted(stream.classes_) == ["high", "low"]
    assert ((X_new[:, 0] > 25) == (y_new == "high")).all()
    assert (np.unique(y_new, return_counts=True)[1] == 300).all()
    assert (np.diff(np.flatnonzero(y_new == "low")) > 1).any()  # no order by class
    # a class of few records waits and is not released
    stream.partial_fit(X[:4], y=np.array(["rare"] * 4))
    assert stream.n_waiting_ == 4
    assert "rare" not in stream.sample()[1]


def test_a_number_as_target_is_condensed_with_the_features(rng: np.random.Generator) -> None:
    X = rng.normal(size=(400, 2))
    y = 3 * X[:, 0]
    stream = fed(StreamCondenser(k=10, random_state=0), X, [100], y=y)
    X_new, y_new = stream.sample()
    assert X_new.shape == (400, 2)
    assert np.corrcoef(3 * X_new[:, 0], y_new)[0, 1] > 0.95
    with pytest.raises(DataError):
        stream.partial_fit(X)


@pytest.mark.slow
def test_given_scales_decide_what_is_near(rng: np.random.Generator) -> None:
    X = pl.DataFrame({"a": rng.normal(size=400), "b": rng.normal(size=400)})
    by_a = StreamCondenser(k=10, scales={"a": 1e-3, "b": 1e3}, random_state=0).partial_fit(X)
    by_b = StreamCondenser(k=10, scales=[1e3, 1e-3], random_state=0).partial_fit(X)
    spread = [np.sqrt(c.covariances_.mean(axis=0).diagonal()) for c in (by_a, by_b)]
    assert spread[0][0] < 0.5 * spread[0][1]
    assert spread[1][1] < 0.5 * spread[1][0]
    for wrong in ({"c": 1.0}, [1.0], {"a": 0.0}):
        with pytest.raises(ParameterError, match="scales"):
            StreamCondenser(k=10, scales=wrong).partial_fit(X)


@pytest.mark.slow
def test_policy_columns_and_level_column(rng: np.random.Generator) -> None:
    table = people(rng, 300).with_columns(
        pl.Series("name", [f"person {row}" for row in range(300)]),
        pl.Series("privacy", rng.integers(4, 9, size=300)),
    )
    columns = [
        Column("name", Kind.TEXT, Role.IDENTIFIER),
        Column("privacy", Kind.INTEGER, Role.LEVEL),
    ]
    stream = StreamCondenser(k=4, split="strict", columns=columns, random_state=0)
    stream.partial_fit(table)
    assert stream.levels_.max() == 8
    assert stream.counts_.min() >= 4
    assert {"name", "privacy"}.isdisjoint(stream.sample().columns)


def test_waiting_is_counted_and_nothing_leaves_before_there_are_groups() -> None:
    rng = np.random.default_rng(0)
    stream = StreamCondenser(k=10, init_size=50, random_state=0)
    stream.partial_fit(rng.normal(size=(49, 2)))
    assert (stream.n_seen_, stream.n_waiting_, len(stream.counts_)) == (49, 49, 0)
    for release in (stream.sample, stream.snapshot):
        with pytest.raises(PrivacyError):
            release()
    stream.partial_fit(rng.normal(size=(1, 2)))
    assert (stream.n_waiting_, stream.counts_.sum()) == (0, 50)
    stream.partial_fit(rng.normal(size=(2, 2)), levels=[500, 400])
    assert (stream.n_waiting_, stream.n_seen_) == (2, 52)
    assert len(stream.sample()) == 50


@pytest.mark.slow
def test_initial_records_that_ask_for_too_much_wait() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    levels = np.full(60, 5)
    levels[:3] = 100
    stream = StreamCondenser(k=5, init_size=60, random_state=0).partial_fit(X, levels=levels)
    assert stream.n_waiting_ == 3
    assert stream.counts_.sum() == 57


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"X": [[1.0, 2.0, 3.0]]}, "features"),
        ({"X": [[1.0, float("inf")]]}, "infinit"),
        ({"X": [[1.0, 2.0]], "levels": [0]}, "below 1"),
        ({"X": [[1.0, 2.0]], "levels": [2.5]}, "whole"),
        ({"X": [[1.0, 2.0]], "levels": [3, 3]}, "level"),
        ({"X": [[1.0, 1e300]]}, "standard deviations"),
    ],
)
def test_a_refused_batch_changes_nothing(batch: dict[str, Any], message: str) -> None:
    rng = np.random.default_rng(0)
    stream = StreamCondenser(k=5, random_state=0).partial_fit(rng.normal(size=(100, 2)))
    counts, seen = stream.counts_, stream.n_seen_
    X = np.array(batch.pop("X"))
    with pytest.raises(ValueError, match=message):
        stream.partial_fit(X, **batch)
    np.testing.assert_array_equal(stream.counts_, counts)
    assert stream.n_seen_ == seen


@pytest.mark.slow
@pytest.mark.parametrize("pending", [0, 30])
def test_a_bad_record_among_the_first_is_refused_at_once(pending: int) -> None:
    """Not when the initial records are complete: then nothing could come any more."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    stream = StreamCondenser(k=5, random_state=0)
    if pending:
        stream.partial_fit(X[:pending])
    with pytest.raises(DataError, match="infinit"):
        stream.partial_fit(np.array([[1.0, np.inf]]))
    stream.partial_fit(X[pending:])
    same_groups(stream, StreamCondenser(k=5, random_state=0).partial_fit(X))


def test_a_missing_class_refuses_the_whole_batch() -> None:
    X = np.random.default_rng(0).normal(size=(80, 2))
    classes = np.array(["a", "b"] * 40, dtype=object)
    classes[75] = None
    stream = StreamCondenser(k=5, classwise=True, random_state=0)
    with pytest.raises(DataError, match="1 record"):
        stream.partial_fit(X, classes)
    classes[75] = "b"
    stream.partial_fit(X, classes)
    assert stream.n_seen_ == stream.counts_.sum() + stream.n_waiting_ == 80


@pytest.mark.slow
def test_a_batch_may_be_empty() -> None:
    X = np.random.default_rng(0).normal(size=(80, 2))
    stream = StreamCondenser(k=5, random_state=0).partial_fit(X[:0])
    assert (stream.n_seen_, stream.n_waiting_, len(stream.counts_)) == (0, 0, 0)
    with pytest.raises(PrivacyError):
        stream.sample()
    fed(stream, X, [20])
    stream.partial_fit(X[:0]).partial_fit(X[:0], levels=[])
    same_groups(stream, StreamCondenser(k=5, random_state=0).partial_fit(X))
    with pytest.raises(DataError, match="0 records"):
        stream.fit(X[:0])


@pytest.mark.slow
def test_small_batches_of_words_are_no_free_text() -> None:
    words = [f"word {place % 7}" for place in range(140)]
    table = pl.DataFrame({"word": words, "x": np.arange(140.0)})
    parts = [fed(StreamCondenser(k=5, random_state=0), table, [size]) for size in (1, 7, 140)]
    for part in parts[1:]:
        same_groups(parts[0], part)
    names = pl.DataFrame({"name": [f"person {place}" for place in range(60)]})
    with pytest.raises(DataError, match="'name'"):
        fed(StreamCondenser(k=5), names, [7])


def test_types_that_do_not_go_together_are_refused_at_once() -> None:
    stream = StreamCondenser(k=5, random_state=0)
    for values in ([None], [1], [2.5], [None], [True]):
        stream.partial_fit(pl.DataFrame({"x": values}))
    with pytest.raises(DataError, match="'x'") as refused:
        stream.partial_fit(pl.DataFrame({"x": ["secret"]}))
    assert "secret" not in str(refused.value)
    assert stream.n_seen_ == 5
    categories = StreamCondenser(k=5).partial_fit(pd.DataFrame({"x": pd.Categorical(["secret"])}))
    with pytest.raises(DataError, match="'x'") as refused:
        categories.partial_fit(pd.DataFrame({"x": pd.Categorical(["other"])}))
    assert "secret" not in str(refused.value)


@pytest.mark.slow
def test_arrays_of_a_stream_may_grow_wider_while_it_begins() -> None:
    words = [np.array([["ab" * (place % 3 + 1)]]) for place in range(60)]
    numbers = [np.array([[place if place == 0 else place + 0.5]]) for place in range(60)]
    for rows, expected in ((words, "<U6"), (numbers, "float64")):
        stream = StreamCondenser(k=5, random_state=0)
        for row in rows:
            stream.partial_fit(row)
        assert stream.sample().dtype == expected


@pytest.mark.slow
def test_frames_and_arrays_of_as_many_columns_go_on(rng: np.random.Generator) -> None:
    X = rng.normal(size=(60, 2))
    frame = pl.DataFrame(X, schema=["a", "b"])
    with pytest.warns(UserWarning, match="feature names"):
        stream = StreamCondenser(k=5, random_state=0).partial_fit(X).partial_fit(frame)
    assert stream.n_seen_ == 120
    with pytest.warns(UserWarning, match="feature names"):
        stream = StreamCondenser(k=5, random_state=0).partial_fit(frame).partial_fit(X)
    assert stream.sample().columns == ["a", "b"]


def test_what_groups_rest_on_cannot_change(rng: np.random.Generator) -> None:
    X = rng.normal(size=(60, 2))
    stream = StreamCondenser(k=5, random_state=0).partial_fit(X)
    with pytest.raises(ParameterError, match="'split'"):
        stream.set_params(split="strict").partial_fit(X)


@pytest.mark.slow
def test_columns_are_free_until_something_was_taken() -> None:
    X = np.random.default_rng(0).normal(size=(80, 3))
    stream = StreamCondenser(k=5, scales=[1.0, 1.0], random_state=0)
    with pytest.raises(ParameterError, match="scales"):
        stream.partial_fit(X)
    assert stream.partial_fit(X[:, :2]).n_seen_ == 80


def test_nothing_can_be_read_of_a_stream_that_has_seen_nothing() -> None:
    for name in ("counts_", "means_", "n_waiting_", "n_small_", "notes_"):
        with pytest.raises(AttributeError):
            getattr(StreamCondenser(), name)


def test_unknown_categories_are_refused_without_naming_them(rng: np.random.Generator) -> None:
    columns = {"city": Column("city", Kind.CATEGORY, on_new="reject")}
    stream = StreamCondenser(k=5, columns=columns, random_state=0).partial_fit(people(rng, 100))
    strange = people(rng, 1).with_columns(pl.lit("Atlantis").alias("city"))
    with pytest.raises(DataError, match="'city'") as error:
        stream.partial_fit(strange)
    assert "Atlantis" not in str(error.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": 1},
        {"init_size": 1},
        {"split": "never"},
        {"grouping": "magic"},
        {"synthesis": "x"},
        {"classwise": 2},
    ],
)
def test_wrong_parameters_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        StreamCondenser(**wrong).partial_fit(np.zeros((50, 2)))


@pytest.mark.slow
def test_the_owner_may_use_the_same_array_again(rng: np.random.Generator) -> None:
    X = rng.normal(size=(60, 2))
    whole = StreamCondenser(k=5, random_state=0).partial_fit(X)
    reused, room = StreamCondenser(k=5, random_state=0), np.empty((10, 2))
    for start in range(0, 60, 10):
        room[:] = X[start : start + 10]
        reused.partial_fit(room)
    same_groups(whole, reused)


@pytest.mark.slow
def test_large_streams_are_copied_and_pickled(rng: np.random.Generator) -> None:
    X = rng.normal(size=(10_500, 2))
    stream = StreamCondenser(k=50, random_state=0).partial_fit(X)
    merged = stream.merge(pickle.loads(pickle.dumps(stream)))
    assert merged.counts_.sum() == 21_000
    merged.partial_fit(X[:100])
    assert merged.n_seen_ == 21_100


# -- state files ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("classwise", [False, True])
def test_a_saved_stream_goes_on_as_if_it_had_not_stopped(
    classwise: bool, rng: np.random.Generator, tmp_path: Path
) -> None:
    table, levels = people(rng, 600), rng.integers(2, 10, size=600)
    levels[250] = 70  # waits
    y = rng.choice(["a", "b"], size=600)
    arrays: dict[str, Any] = {"levels": levels} | ({"y": y} if classwise else {})
    whole = fed(StreamCondenser(k=5, classwise=classwise, random_state=1), table, [50], **arrays)
    early = {name: values[:300] for name, values in arrays.items()}
    first = fed(
        StreamCondenser(k=5, classwise=classwise, random_state=1), table[:300], [50], **early
    )
    assert first.n_waiting_ > 0
    key = SecretKey.generate()
    first.save(tmp_path / "state", key=key)
    second = StreamCondenser.load(tmp_path / "state", key=key)
    same_groups(first, second)
    late = {name: values[300:] for name, values in arrays.items()}
    fed(second, table[300:], [50], **late)
    same_groups(whole, second)
    assert second.history_ == whole.history_
    if classwise:
        drawn, expected = second.sample(), whole.sample()
        assert drawn[0].equals(expected[0])
        assert (np.asarray(drawn[1]) == expected[1]).all()
    else:
        assert second.sample().equals(whole.sample())
    assert second.snapshot() is not None


def test_state_is_open_versioned_and_checked(rng: np.random.Generator, tmp_path: Path) -> None:
    stream = StreamCondenser(k=5, random_state=0).partial_fit(people(rng, 200))
    path = tmp_path / "state"
    stream.save(path)
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("header.json"))
    assert (header["format"], header["version"]) == ("tulle-stream-state", 5)
    assert np.load(path)["0.groups.counts"].sum() == 200
    assert path.stat().st_mode & 0o077 == 0
    content = path.read_bytes()
    place = content.index(b"0.groups.means.npy") + 2_000
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(DataError, match="damaged"):
        StreamCondenser.load(path)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(DataError):
        StreamCondenser.load(path)


def test_waiting_records_are_sealed_or_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    stream = StreamCondenser(k=5, random_state=0).partial_fit(rng.normal(size=(100, 2)))
    secret = np.array([[0.123456789, 0.987654321]])
    stream.partial_fit(secret, levels=[90])
    path, key = tmp_path / "state", SecretKey.generate()
    with pytest.raises(KeyMaterialError, match="1 waiting record"):
        stream.save(path)
    assert not path.exists()
    stream.save(path, key=key)
    bits = secret[0, 0].tobytes()
    assert bits not in path.read_bytes()
    with pytest.raises(KeyMaterialError):
        StreamCondenser.load(path)
    with pytest.raises(KeyMaterialError):
        StreamCondenser.load(path, key=SecretKey.generate())
    assert StreamCondenser.load(path, key=key).n_waiting_ == 1
    stream.save(path, waiting="plain", force=True)
    assert bits in path.read_bytes()
    assert StreamCondenser.load(path).n_waiting_ == 1


# -- privacy --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_condensed_record_is_kept(rng: np.random.Generator) -> None:
    X = rng.normal(size=(1_000, 3))
    stream = fed(StreamCondenser(k=10, random_state=0), X, [100])
    kept = pickle.dumps(stream.__dict__)
    file = io.BytesIO()
    write_state(file, stream, SecretKey.generate())
    written = file.getvalue()
    standard = (X - stream._fitted.location) / stream._fitted.encoder.scales_
    for row in (*range(0, 1_000, 50), 999):
        for record in (X[row], standard[row]):
            assert record.tobytes() not in kept
            assert record.astype(">f8").tobytes() not in kept  # as pickle writes single floats
            assert record.tobytes() not in written
            assert repr(float(record[0])).encode() not in written


def test_a_column_of_levels_is_remembered(rng: np.random.Generator, tmp_path: Path) -> None:
    table = pl.DataFrame({"x": rng.normal(size=200), "p": [5] * 199 + [300]})
    stream = StreamCondenser(k=5, random_state=0).partial_fit(table[:150], levels="p")
    stream.save(tmp_path / "state", waiting="plain")
    for going_on in (stream, StreamCondenser.load(tmp_path / "state")):
        going_on.partial_fit(table[150:])
        assert going_on.n_waiting_ == 1
    with pytest.raises(AttributeError):
        _ = StreamCondenser().history_


def test_a_pickle_holds_waiting_records_sealed_for_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    secret = np.array([[0.123456789, 0.987654321]])
    pending = StreamCondenser(k=5, random_state=0).partial_fit(secret)
    waiting = StreamCondenser(k=5, random_state=0).partial_fit(rng.normal(size=(100, 2)))
    calm = pickle.dumps(waiting)
    waiting.partial_fit(secret, levels=[90])
    stored = [pickle.dumps(stream) for stream in (pending, waiting)]
    standard = (secret - waiting._fitted.location) / waiting._fitted.encoder.scales_
    for content in stored:
        for value in (*secret[0], *standard[0]):
            assert np.float64(value).tobytes() not in content
            assert np.float64(value).tobytes()[::-1] not in content  # as pickle writes a float
    again = [pickle.loads(content) for content in stored]
    assert [stream.n_waiting_ for stream in again] == [1, 1]
    same_groups(again[1].partial_fit(secret), waiting.partial_fit(secret))
    monkeypatch.setattr(sealing, "_key", SecretKey.generate)
    for content in stored:
        with pytest.raises(KeyMaterialError, match="save"):
            pickle.loads(content)
    assert pickle.loads(calm).n_seen_ == 100  # nobody waited


def test_waiting_records_do_not_show_in_repr(rng: np.random.Generator) -> None:
    stream = StreamCondenser(k=5, random_state=0)
    stream.partial_fit(np.full((3, 2), 123.456))
    assert "123.456" not in repr(stream) + repr(stream.__dict__)
    assert "123.456" not in repr(stream._body.pending) + repr(stream._body)
    stream.partial_fit(rng.normal(size=(100, 2)))
    stream.partial_fit(np.full((1, 2), 3.21), levels=[95])
    assert stream.n_waiting_ == 1
    assert "3.21" not in repr(stream._fitted.states[None].waiting) + repr(stream._fitted.held)


@pytest.mark.slow
def test_two_snapshots_tell_nothing_of_a_single_newcomer(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    stream = StreamCondenser(k=10, random_state=0).partial_fit(rng.normal(size=(1_000, 3)))
    before = stream.snapshot()
    stream.partial_fit(np.array([[2.0, 2.0, 2.0]]))
    np.testing.assert_array_equal(before, stream.snapshot())  # row by row
    assert (stream.last_change_.fresh, stream.last_change_.held_back) == (0, 1)
    assert len(stream.sample()) == 1_001  # whoever takes samples shows the difference
    stream.save(tmp_path / "state")
    np.testing.assert_array_equal(before, StreamCondenser.load(tmp_path / "state").snapshot())
    stream.partial_fit(rng.normal(size=(500, 3)) * 0.5 + 2.0)
    after = stream.snapshot()
    assert stream.last_change_.changed > 0
    assert stream.last_change_.fewest >= 10
    assert not {row.tobytes() for row in before} & {row.tobytes() for row in after}
    np.testing.assert_array_equal(after, stream.snapshot())
