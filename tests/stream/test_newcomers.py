"""Categories that come up after the start: who waits, when a domain grows, what is shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tulle import Column, Condenser, Kind, SecretKey, StreamCondenser
from tulle.errors import DataError
from tulle.stream import _held


def table(wards: list[str], seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame({"age": rng.integers(20, 90, len(wards)), "ward": wards})


def started(k: int = 5, **options: object) -> StreamCondenser:
    """Has seen forty records of two wards."""
    stream = StreamCondenser(k, init_size=40, random_state=0, **options)  # type: ignore[arg-type]
    return stream.partial_fit(table(["A", "B"] * 20))


def same_groups(one: StreamCondenser, two: StreamCondenser) -> bool:
    return np.array_equal(one.counts_, two.counts_) and np.array_equal(one.means_, two.means_)


def held(stream: StreamCondenser, value: str, column: str = "ward") -> float:
    """Returns how many people of the groups hold a value; halves of a split hold fractions."""
    names = stream._fitted.encoder.feature_names_
    if f"{column}={value}" not in names:
        assert value not in stream.sample()[column].to_list()
        return 0
    place = names.index(f"{column}={value}")
    return round(float(stream.counts_ @ stream.means_[:, place]), 6)


@pytest.mark.slow
def test_a_new_category_waits_until_enough_people_hold_it() -> None:
    stream = started()
    stream.partial_fit(table(["C"] * 4))
    assert (stream.n_seen_, stream.n_waiting_, held(stream, "C")) == (44, 4, 0)
    assert any("4 records have a category" in note for note in stream.notes_)
    stream.partial_fit(table(["A", "C"]))
    assert (stream.n_seen_, stream.n_waiting_, int(stream.counts_.sum())) == (46, 0, 46)
    assert held(stream, "C") == 5


def test_each_new_value_waits_for_its_own_people() -> None:
    stream = started().partial_fit(table(["C", "D"] * 4))
    assert stream.n_waiting_ == 8
    stream.partial_fit(table(["D"]))
    assert (stream.n_waiting_, held(stream, "D"), held(stream, "C")) == (4, 5, 0)


@pytest.mark.slow
def test_the_largest_level_among_them_counts() -> None:
    stream = started()
    stream.partial_fit(table(["C"] * 6), levels=[5, 5, 5, 5, 5, 8])
    assert held(stream, "C") >= 5  # the fifth made it due, and the sixth found it known
    stream = started()
    stream.partial_fit(table(["C"] * 7), levels=[8, 5, 5, 5, 5, 5, 5])
    assert (stream.n_waiting_, held(stream, "C")) == (7, 0)


wards = st.lists(st.sampled_from("AABBCCDE"), min_size=1, max_size=30)


@pytest.mark.slow
@few(8)
@given(wards, st.integers(1, 20), st.sampled_from(["wait", "other"]))
def test_batches_do_not_matter(coming: list[str], size: int, on_new: str) -> None:
    columns = [Column("age", Kind.INTEGER), Column("ward", Kind.CATEGORY, on_new=on_new)]
    whole, parts = started(k=3, columns=columns), started(k=3, columns=columns)
    frame = table(coming, seed=1)
    whole.partial_fit(frame)
    for start in range(0, len(frame), size):
        parts.partial_fit(frame[start : start + size])
    assert same_groups(whole, parts)
    assert len(whole._fitted.held) == len(parts._fitted.held)
    assert whole.n_seen_ == int(whole.counts_.sum()) + whole.n_waiting_
    assert whole.snapshot().equals(parts.snapshot())


@pytest.mark.slow
def test_new_values_may_be_refused_or_count_as_one() -> None:
    refusing = started(columns={"ward": Column("ward", Kind.CATEGORY, on_new="reject")})
    with pytest.raises(DataError, match=r"'ward'.*\(1 of 2 records\)"):
        refusing.partial_fit(table(["A", "C"]))
    assert list(refusing.refusals(table(["A", "C"]))) == [1]
    merging = started(columns={"ward": Column("ward", Kind.CATEGORY, on_new="other")})
    merging.partial_fit(table(["C", "D", "E", "F"]))
    assert merging.n_waiting_ == 4
    merging.partial_fit(table(["G", "H"]))
    assert (merging.n_waiting_, held(merging, "other")) == (0, 6)


def test_categories_that_are_listed_wait_and_others_are_refused() -> None:
    column = Column("ward", Kind.CATEGORY, categories=("A", "B", "C"))
    stream = started(columns={"ward": column})
    assert list(stream.refusals(table(["C", "X", "B"]))) == [1]
    stream.partial_fit(table(["C"] * 5))
    assert held(stream, "C") == 5
    with pytest.raises(DataError, match=r"'ward'.*\(1 of 4 records\)"):
        Condenser(k=2, columns={"ward": column}).fit(table(["A", "B", "X", "B"]))


def test_where_too_many_wait_rare_values_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_held, "MOST", 20)
    stream = started().partial_fit(table([f"ward {number}" for number in range(19)]))
    assert stream.n_waiting_ == 19
    stream.partial_fit(table(["another"]))
    assert (stream.n_waiting_, held(stream, "other")) == (0, 20)
    stream.partial_fit(table(["C"] * 5))
    assert held(stream, "C") == 5  # what is common later gets a category of its own


@pytest.mark.slow
def test_a_domain_beyond_the_widest_code() -> None:
    stream = started()
    for number in range(60):
        stream.partial_fit(table([f"ward {number}"] * 5, seed=number))
    assert stream.n_waiting_ == 0
    assert stream.means_.shape[1] < 40
    assert held(stream, "ward 3") == 5
    assert stream.sample()["ward"].n_unique() > 30


def test_the_state_keeps_who_waits_for_a_category(tmp_path: Path) -> None:
    key = SecretKey.generate()
    stream = started().partial_fit(table(["C"] * 4))
    stream.save(tmp_path / "s", key=key)
    assert b'"C"' not in (tmp_path / "s").read_bytes()
    again = StreamCondenser.load(tmp_path / "s", key=key)
    for each in (stream, again):
        each.partial_fit(table(["C"], seed=7))
    assert same_groups(stream, again)
    assert held(again, "C") == 5
    again.save(tmp_path / "t")  # nobody waits any more
    assert held(StreamCondenser.load(tmp_path / "t"), "C") == 5


@pytest.mark.slow
def test_merging_counts_the_people_of_both() -> None:
    one, two = started().partial_fit(table(["C"] * 3)), started().partial_fit(table(["C"] * 2))
    both = one.merge(two)
    assert (both.n_waiting_, both.n_seen_, held(both, "C")) == (0, 85, 5)
    grown = started().partial_fit(table(["C"] * 5))
    assert grown.merge(one).n_waiting_ == 0


@pytest.mark.slow
def test_classes_and_new_categories() -> None:
    stream = StreamCondenser(4, init_size=40, classwise=True, random_state=0)
    stream.partial_fit(table(["A", "B"] * 20), ["x"] * 20 + ["y"] * 20)
    stream.partial_fit(table(["C"] * 4), ["x", "y", "z", "x"])
    assert stream.n_seen_ == int(stream.counts_.sum()) + stream.n_waiting_
    assert stream.n_waiting_ == 1  # of the class z, whose category is known by now


@pytest.mark.slow
def test_a_snapshot_shows_a_new_category_only_of_enough_people() -> None:
    stream = started(k=5)
    stream.snapshot()
    rng = np.random.default_rng(3)
    for _ in range(40):
        stream.partial_fit(table(rng.choice(["A", "B", "C"], 1, p=[0.45, 0.45, 0.1]).tolist()))
        shown = int((stream.snapshot()["ward"] == "C").sum())
        assert shown == 0 or stream.n_waiting_ < 5


@pytest.mark.slow
def test_a_value_that_is_due_while_others_wait_for_something_else() -> None:
    frame = table(["A", "B"] * 20).with_columns(town=pl.Series(["p", "q"] * 20))
    stream = StreamCondenser(3, init_size=40, random_state=0).partial_fit(frame)
    coming = table(["C", "C", "C", "A", "A"]).with_columns(
        town=pl.Series(["p", "r", "q", "r", "r"])
    )
    stream.partial_fit(coming[:3])
    assert stream.n_waiting_ == 1
    stream.partial_fit(coming[3:])
    assert stream.n_waiting_ == 0
    assert (held(stream, "C"), held(stream, "r", "town")) == (3, 3)
