"""Two streams as one: sums, categories, waiting records, and what snapshots have shown."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tulle import Condenser, StreamCondenser
from tulle.errors import DataError, ParameterError


def labelled(rng: np.random.Generator, words: str, count: int = 200) -> pl.DataFrame:
    return pl.DataFrame({"word": list(words * count)[:count], "value": rng.normal(size=count)})


@pytest.mark.slow
def test_merged_streams_hold_both(rng: np.random.Generator) -> None:
    X = rng.normal(size=(400, 2)) * [1, 100]
    left = StreamCondenser(k=10, random_state=0).partial_fit(X[:150])
    right = StreamCondenser(k=10, random_state=1).partial_fit(X[150:] + 7)
    merged = left.merge(right)
    assert merged.n_seen_ == merged.counts_.sum() == 400
    assert left.n_seen_ == 150  # the parts stay as they were
    whole = np.vstack([X[:150], X[150:] + 7])
    np.testing.assert_allclose(merged.counts_ @ merged.means_ / 400, whole.mean(axis=0))
    merged.partial_fit(X[:50])
    assert merged.counts_.sum() == 450
    low, high = whole.min(axis=0), whole.max(axis=0)
    drawn = merged.sample()
    assert (drawn >= low).all()
    assert (drawn <= high).all()


def test_streams_of_scales_that_are_worlds_apart_do_not_merge(rng: np.random.Generator) -> None:
    X = rng.normal(size=(100, 2))
    left = StreamCondenser(k=10, random_state=0).partial_fit(X * 1e-20)
    right = StreamCondenser(k=10, random_state=1).partial_fit(X * 1e20)
    with pytest.raises(DataError):
        left.merge(right)


def test_a_stream_does_not_merge_with_itself(rng: np.random.Generator) -> None:
    stream = StreamCondenser(k=10, random_state=0).partial_fit(rng.normal(size=(100, 2)))
    with pytest.raises(ParameterError, match="itself"):
        stream.merge(stream)


@pytest.mark.slow
def test_the_first_stream_keeps_its_groups_bit_by_bit(rng: np.random.Generator) -> None:
    left = StreamCondenser(k=10, random_state=0).partial_fit(rng.normal(size=(300, 3)) * 1e3)
    right = StreamCondenser(k=10, random_state=1).partial_fit(rng.normal(size=(300, 3)))
    merged = left.merge(right)
    own = len(left.counts_)
    np.testing.assert_array_equal(merged.means_[:own], left.means_)
    np.testing.assert_array_equal(merged.covariances_[:own], left.covariances_)


@pytest.mark.slow
def test_what_a_stream_draws_its_merger_does_not_draw_again(rng: np.random.Generator) -> None:
    left = StreamCondenser(k=10, random_state=0).partial_fit(rng.normal(size=(300, 3)))
    right = StreamCondenser(k=10, random_state=1).partial_fit(rng.normal(size=(120, 3)))
    merged = left.merge(right)
    left.sample()  # as often as the merged one has drawn
    rows = [{tuple(row) for row in part.sample().round(9)} for part in (left, merged)]
    assert not rows[0] & rows[1]


@pytest.mark.slow
def test_categories_of_both_streams(rng: np.random.Generator) -> None:
    left = StreamCondenser(k=5, random_state=0).partial_fit(labelled(rng, "ab"))
    right = StreamCondenser(k=5, random_state=1).partial_fit(labelled(rng, "bc"))
    left.partial_fit(labelled(rng, "ab", 1), levels=[190])  # waits, and moves too
    merged = left.merge(right)
    assert (merged.n_seen_, merged.n_waiting_) == (401, 1)
    drawn = merged.sample()
    found = dict(drawn.group_by("word").len().iter_rows())
    assert set(found) == {"a", "b", "c"}
    assert abs(found["b"] - 200) < 20
    merged.partial_fit(labelled(rng, "abc", 300))
    assert merged.n_seen_ == 701
    assert [row["seen"] for row in left.history_] == []


@pytest.mark.slow
def test_what_either_has_shown_stays_shown(rng: np.random.Generator) -> None:
    """A newcomer between a snapshot and the merge must not be the difference of two snapshots."""
    X = rng.normal(size=(400, 3))
    parts = [
        StreamCondenser(k=10, init_size=400, synthesis="mean", random_state=seed).partial_fit(
            X + 50 * seed
        )
        for seed in range(2)
    ]
    shown = np.vstack([part.snapshot() for part in parts])
    parts[0].partial_fit(X[:1])
    parts[1].partial_fit(X[1:2] + 50)
    for first, second in (parts, parts[::-1]):
        merged = first.merge(second)
        after = merged.snapshot()
        assert merged.last_change_.held_back == 2
        assert merged.last_change_.changed == 0
        np.testing.assert_allclose(np.sort(after, axis=0), np.sort(shown, axis=0))


@pytest.mark.slow
def test_one_that_never_published_is_shown_whole(rng: np.random.Generator) -> None:
    X = rng.normal(size=(400, 2))
    left = StreamCondenser(k=10, random_state=0).partial_fit(X)
    right = StreamCondenser(k=10, random_state=1).partial_fit(X)
    right.snapshot()
    right.partial_fit(X[:3])
    merged = left.merge(right)
    assert len(merged.snapshot()) == 800
    assert merged.last_change_.held_back == 3


@pytest.mark.slow
def test_merging_is_no_drift(rng: np.random.Generator) -> None:
    left = StreamCondenser(k=20, random_state=0).partial_fit(rng.normal(size=(2_000, 2)))
    far = StreamCondenser(k=20, random_state=0).partial_fit(rng.normal(size=(3_000, 2)) + 100)
    merged = left.merge(far).partial_fit(rng.normal(size=(1_000, 2)))
    assert merged.history_[-1]["seen"] == 6_000
    assert merged.history_[-1]["drift"] < 1


@pytest.mark.slow
def test_streams_of_different_kinds_do_not_merge(rng: np.random.Generator) -> None:
    X, y = rng.normal(size=(200, 2)), np.zeros(200, dtype=int)
    plain = StreamCondenser(k=10, random_state=0).partial_fit(X)
    for other, reason in [
        (StreamCondenser(k=10, classwise=True).partial_fit(X, y), "class by class"),
        (StreamCondenser(k=10, split="strict").partial_fit(X), "strictly"),
        (StreamCondenser(k=10).partial_fit(X[:, :1]), "different columns"),
        (StreamCondenser(k=10).partial_fit(X, y), "target"),
    ]:
        with pytest.raises(DataError, match=reason):
            plain.merge(other)
    with pytest.raises(ParameterError):
        plain.merge(Condenser(k=10).fit(X))
