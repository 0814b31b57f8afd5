"""StreamCondenser(classwise=True): streams of several classes, none of which mix."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from tests.examples import few
from tulle import ClassCondenser, SecretKey, StreamCondenser
from tulle.errors import DataError, ParameterError, PrivacyError


def wrapped(**options: Any) -> StreamCondenser:
    given = {"k": 5, "init_size": 40, "grouping": "mdav"} | options  # the quickest to begin with
    return StreamCondenser(classwise=True, random_state=0, **given)


def data(count: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that lie 50 apart, in random order."""
    rng = np.random.default_rng(seed)
    y = rng.choice(["low", "high"], size=count)
    return rng.normal(size=(count, 2)) + 50 * (y == "high")[:, None], y


def fed(condenser: StreamCondenser, sizes: list[int], X: Any, y: Any, levels: Any = None) -> Any:
    start, turn = 0, 0
    while start < len(X):
        part = slice(start, start + sizes[turn % len(sizes)])
        condenser.partial_fit(X[part], y[part], None if levels is None else levels[part])
        start, turn = part.stop, turn + 1
    return condenser


def same_groups(one: Any, two: Any) -> None:
    for name in ("counts_", "means_", "covariances_", "levels_", "classes_", "class_counts_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert (one.n_seen_, one.n_waiting_) == (two.n_seen_, two.n_waiting_)


@pytest.mark.slow
@given(st.integers(0, 1_000), st.lists(st.integers(1, 60), min_size=1, max_size=3))
@few(4)
def test_batches_of_any_size_give_the_same_groups(seed: int, sizes: list[int]) -> None:
    X, y = data(200, seed)
    levels = np.random.default_rng(seed).integers(2, 12, size=200)
    single, batches = (fed(wrapped(), part, X, y, levels) for part in ([1], sizes))
    same_groups(single, batches)
    for drawn, other in zip(single.sample(), batches.sample(), strict=True):
        np.testing.assert_array_equal(drawn, other)
    assert single.n_seen_ == single.counts_.sum() + single.n_waiting_ == 200


def test_no_group_mixes_classes() -> None:
    X, y = data()
    condenser = fed(wrapped(), [41], X, y)
    X_new, y_new = condenser.sample()
    np.testing.assert_array_equal(X_new[:, 0] > 25, y_new == "high")
    shown = dict(zip(*np.unique(y_new, return_counts=True)))
    assert shown == dict(zip(condenser.classes_, condenser.class_counts_))
    assert len(condenser.sample(17)[1]) == 17
    X_new, y_new = wrapped().fit_resample(X, y)
    np.testing.assert_array_equal(X_new[:, 0] > 25, y_new == "high")


def test_a_bad_record_of_any_class_leaves_everything_as_it_was() -> None:
    X, y = data()
    labels = np.where(np.arange(300) % 3 == 0, "zoo", y)
    condenser, other = (fed(wrapped(), [60], X[:200], labels[:200]) for _ in range(2))
    bad = X[200:].copy()
    bad[-1, 0] = np.inf  # of the class that comes last
    for batch, message in (
        ({"X": bad, "y": labels[200:]}, "infinit"),
        ({"X": X[200:], "y": [*labels[200:299], None]}, "y is missing .* in 1 record"),
        ({"X": X[200:], "y": labels[200:299]}, "y has 99 entries"),
        ({"X": X[200:], "y": labels[200:], "levels": [5] * 99 + [0]}, "below 1 .1 of 100"),
        ({"X": X[200:], "y": None}, "y must be given"),
        ({"X": X[200:], "y": X[200:, 0]}, "type"),
    ):
        with pytest.raises(DataError, match=message):
            condenser.partial_fit(**batch)
        same_groups(condenser, other)


def test_a_class_may_appear_later_and_waits_until_it_is_large_enough() -> None:
    X, y = data()
    condenser = fed(wrapped(), [50], X, y)
    condenser.partial_fit(X[:4] - 50, ["a rare one"] * 4)
    assert condenser.n_waiting_ == 4
    assert condenser.class_counts_[2:] == [0]
    assert "a rare one" not in condenser.sample()[1]
    assert any("4 records" in note for note in condenser.notes_)
    condenser.partial_fit(X[4:5] - 50, ["a rare one"])
    assert condenser.n_waiting_ == 0
    X_new, y_new = condenser.sample()
    assert list(y_new).count("a rare one") == 5  # not cut to the width of the first labels
    assert (X_new[y_new == "a rare one"] < 25).all()


def test_nothing_leaves_before_there_are_groups() -> None:
    X, y = data()
    with pytest.raises(ValueError):
        wrapped().sample()
    condenser = wrapped().partial_fit(X[:30], y[:30])
    assert (condenser.n_seen_, condenser.n_waiting_, len(condenser.counts_)) == (30, 30, 0)
    with pytest.raises(PrivacyError):
        condenser.sample()


@pytest.mark.parametrize(
    "as_labels",
    [
        list,
        np.array,
        pl.Series,
        pd.Series,
        pa.array,
        lambda y: pl.Series("class", y, dtype=pl.Categorical),
        lambda y: pl.Series("class", y, dtype=pl.Enum(["high", "low", "none"])),
        lambda y: pd.Series(pd.Categorical(y, categories=["none", "low", "high"])),
        lambda y: np.array(y) == "high",
        lambda y: (np.array(y) == "high").astype(np.int8),
    ],
)
def test_labels_come_back_as_they_came(as_labels: Any) -> None:
    X, y = data(120)
    labels = as_labels(y.tolist())
    condenser = wrapped()
    for start in range(0, 120, 24):
        condenser.partial_fit(X[start : start + 24], labels[start : start + 24])
    drawn = condenser.sample()[1]
    assert type(drawn) is type(labels)
    if hasattr(labels, "dtype"):
        assert drawn.dtype == labels.dtype
    assert sorted(map(str, drawn)) == sorted(map(str, labels))


def test_saved_and_loaded_it_goes_on(tmp_path: Path) -> None:
    X, y = data()
    levels = np.full(300, 5)
    levels[140] = 190  # waits
    whole = fed(wrapped(), [50], X, y, levels)
    first = fed(wrapped(), [50], X[:150], y[:150], levels[:150])
    key = SecretKey.generate()
    first.save(tmp_path / "state", key=key)
    second = StreamCondenser.load(tmp_path / "state", key=key)
    same_groups(first, second)
    fed(second, [50], X[150:], y[150:], levels[150:])
    same_groups(whole, second)
    assert whole.n_waiting_ == 1
    for drawn, other in zip(whole.snapshot(), second.snapshot(), strict=True):
        np.testing.assert_array_equal(drawn, other)
    same_groups(whole, pickle.loads(pickle.dumps(whole)))


def test_merging_adds_the_classes_of_both() -> None:
    X, y = data()
    one = wrapped().partial_fit(X, y)
    two = wrapped().partial_fit(X + 3, np.where(y == "low", "low", "new"))
    merged = one.merge(two)
    assert merged.n_seen_ == merged.counts_.sum() == 600
    assert dict(zip(merged.classes_, merged.class_counts_)) == {
        "low": 2 * (y == "low").sum(),
        "high": (y == "high").sum(),
        "new": (y == "high").sum(),
    }
    assert one.n_seen_ == 300
    assert merged.partial_fit(X[:50], y[:50]).n_seen_ == 650
    with pytest.raises(DataError, match="y has"):
        one.merge(wrapped().partial_fit(X, X[:, 0] > 25))


@pytest.mark.slow
def test_history_and_snapshots_speak_of_all_classes() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5_000, 2)), rng.integers(2, size=5_000)
    condenser = wrapped(k=50).partial_fit(X, y)
    assert {row["class"] for row in condenser.history_} == {0, 1}
    assert [row["seen"] for row in condenser.history_ if row["class"] == 0][:2] == [1_000, 2_000]
    before = condenser.snapshot()
    condenser.partial_fit(X[:1], y[:1])
    assert len(condenser.snapshot()[0]) == len(before[0])
    assert len(condenser.snapshot(7)[1]) == 7
    assert (condenser.last_change_.changed, condenser.last_change_.held_back) == (0, 1)
    assert condenser.n_small_ == 0


def test_a_quantity_is_refused_as_a_class() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(DataError, match="y has"):
        StreamCondenser(k=5, classwise=True).partial_fit(rng.normal(size=(200, 2)), np.arange(200))


def test_classes_of_a_table_do_not_wrap_a_stream() -> None:
    X, y = data()
    with pytest.raises(ParameterError, match="classwise=True"):
        ClassCondenser(StreamCondenser(k=5)).fit(X, y)


def test_a_clone_is_as_new() -> None:
    X, y = data()
    condenser = wrapped().partial_fit(X, y)
    fresh = clone(condenser)
    assert not hasattr(fresh, "n_seen_")
    assert fresh.get_params()["classwise"]
    same_groups(fresh.partial_fit(X, y), condenser)
