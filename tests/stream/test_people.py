"""Streams in which people have several records: groups and snapshots count people."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tests.reference.stream_steps import PlainEngine
from tulle import StreamCondenser
from tulle._moments import GroupMoments
from tulle._types import Floats, Ints
from tulle.errors import DataError, KeyMaterialError
from tulle.keys import SecretKey
from tulle.stream import _state
from tulle.stream._people import GroupMembers, PersonHash
from tulle.stream._state import StreamState

pytestmark = pytest.mark.slow

ROLES = {"who": "person"}


class Watched(StreamState):
    """Keep, as the obvious oracle, the people behind every group and every group shown."""

    def __init__(self, dimensions: int, *, strict: bool) -> None:
        super().__init__(dimensions, strict=strict, people=GroupMembers())
        self.inside: list[set[int]] = []  # by group; halves of a group rest on all its people
        self.since: dict[int, set[int]] = {}  # by group shown
        self.behind: list[set[int]] = []  # by group shown

    def start(self, moments: Any, groups: Any = None, persons: Any = None) -> None:
        super().start(moments, groups, persons)
        self.inside = [set(persons[groups == g].tolist()) for g in range(int(groups.max()) + 1)]

    def _note(self, group: int, person: int) -> None:
        super()._note(group, person)
        self.inside[group].add(person)
        self.since.setdefault(int(self.groups.arrays.families[group]), set()).add(person)

    def _wake(self, engine: Any, group: int) -> None:
        if len(self.inside) < len(self.groups):
            self.inside.append(self.gathered)
        super()._wake(engine, group)
        if len(self.inside) < len(self.groups):
            self.inside.append(set(self.inside[group]))

    def _gather(self, engine: Any) -> None:
        self.gathered = {held.person for held in self.held.due_group(self.label)}
        super()._gather(engine)

    def check_snapshot(self) -> None:
        before = None if self.published is None else self.published.shown
        shown, _, _ = self.publish()
        view, behind, since = shown.view(), [], {}
        homes = {int(f): self.inside[g] for g, f in enumerate(self.groups.view().families)}
        for number, origin in enumerate(view.families.tolist()):
            if origin < 0 or before is None:
                behind.append(set(homes[number]))  # one group, as it is
                continue
            old = before.view()
            joined = self.since.get(origin, set())
            if np.array_equal(view.means[number], old.means[origin]):
                behind.append(self.behind[origin])
                since[number] = joined
                continue
            assert len(joined) >= view.levels[number]
            behind.append(self.behind[origin] | joined)
        self.behind, self.since = behind, since
        assert all(len(b) >= p for b, p in zip(behind, view.people.tolist(), strict=True))
        if self.strict:
            assert all(len(b) >= n for b, n in zip(behind, view.levels.tolist(), strict=True))


def run(
    seed: int, people: int, k: int, *, strict: bool, snapshots: bool
) -> tuple[Watched, Floats, Ints]:
    """Play a stream in which some people come often, and check it all the way."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(150, 300))
    who = rng.integers(0, people, rows) * rng.integers(0, people, rows) // people
    records = rng.normal(size=(people, 2))[who] + rng.normal(scale=0.05, size=(rows, 2))
    levels = rng.integers(2, k + 1, people)[who]
    state = Watched(2, strict=strict)
    first = np.flatnonzero(levels <= len(np.unique(who[:60])))
    first = first[first < 60]
    if len(np.unique(who[first])) >= levels[first].max(initial=1):
        one = np.zeros(len(first), dtype=np.int64)
        state.start(GroupMoments.of(records[first], one, levels[first]), one, who[first])
        state.seen = len(first)
    later = np.setdiff1d(np.arange(rows), first)
    for part in np.array_split(later, 7):
        state.absorb(records[part], levels[part], part, who[part])
        if snapshots and len(state.groups):
            state.check_snapshot()
    return state, records, levels


@pytest.mark.guarantee
@few(20)
@given(st.integers(0, 2**32), st.integers(10, 80), st.integers(2, 8), st.booleans(), st.booleans())
def test_every_group_holds_as_many_people_as_it_counts(
    seed: int, people: int, k: int, strict: bool, snapshots: bool
) -> None:
    state, _, _ = run(seed, people, k, strict=strict, snapshots=snapshots)
    used = state.groups.view()
    held = np.array([len(inside) for inside in state.inside])
    assert (used.people <= held).all()
    assert (used.people <= used.counts).all()
    assert not strict or (held >= used.levels).all()
    assert len({held.person for held in state.waiting}) < max(k, 1)
    state.check()


@few(4)
@given(st.integers(0, 2**32), st.booleans())
def test_the_index_gives_the_same_bits(seed: int, strict: bool) -> None:
    indexed, _, _ = run(seed, 40, 4, strict=strict, snapshots=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_state, "Engine", PlainEngine)
        plain, _, _ = run(seed, 40, 4, strict=strict, snapshots=True)
    for first, second in zip(plain.groups.view(), indexed.groups.view()):
        assert np.array_equal(first, second)
    assert plain.people is not None
    assert indexed.people is not None
    assert plain.people.members == indexed.people.members


def visits(seed: int, people: int, rows: int) -> pl.DataFrame:
    """Return records in the order of arrival; the records of a person are alike."""
    rng = np.random.default_rng(seed)
    who = rng.integers(0, people, rows)
    place = rng.normal(size=(people, 2))[who] + rng.normal(scale=0.05, size=(rows, 2))
    names = [f"person-{number}" for number in who]
    table = pl.DataFrame({"who": names, "x": place[:, 0], "y": place[:, 1]})
    return table.with_columns(town=rng.choice(["a", "b"], people)[who])


def fitted(table: pl.DataFrame, **options: Any) -> StreamCondenser:
    condenser = StreamCondenser(5, init_size=100, columns=ROLES, random_state=0, **options)
    for batch in table.iter_slices(90):
        condenser.partial_fit(batch)
    return condenser


def test_groups_of_a_stream_hold_k_people() -> None:
    condenser = fitted(visits(1, 60, 600), split="strict")
    assert condenser.people_.min() >= 5
    assert (condenser.people_ <= condenser.counts_).all()
    assert condenser.counts_.sum() + condenser.n_waiting_ == 600
    assert condenser.snapshot().columns == ["x", "y", "town"]


def test_one_person_a_record_counts_as_records_do() -> None:
    table = visits(2, 60, 600).with_columns(who=pl.int_range(600))
    by_person, by_row = fitted(table), StreamCondenser(5, init_size=100, columns={"who": "ignored"})
    by_row.set_params(random_state=0).fit(table)
    assert np.array_equal(by_person.people_, by_person.counts_)
    assert by_person.counts_.sum() == by_row.counts_.sum()


def test_one_person_does_not_fill_a_group_or_ripen_a_snapshot() -> None:
    table = visits(3, 60, 300)
    condenser = fitted(table, split="strict")
    first = condenser.snapshot()
    alone = pl.concat([table.head(1).with_columns(x=pl.lit(9.0), who=pl.lit("new"))] * 50)
    condenser.partial_fit(alone)
    assert condenser.snapshot().equals(first)
    assert condenser.last_change_.held_back == 50
    assert condenser.people_.min() >= 5


def test_known_people_ripen_a_snapshot_again() -> None:
    table = visits(4, 60, 600)
    condenser = fitted(table)
    condenser.snapshot()
    condenser.partial_fit(table)  # nobody is new
    condenser.snapshot()
    assert condenser.last_change_.changed > 0
    assert condenser.last_change_.fewest is not None
    assert condenser.last_change_.fewest >= 5


def test_classes_count_people_on_their_own() -> None:
    table = visits(5, 80, 700)
    condenser = StreamCondenser(5, classwise=True, split="strict", columns=ROLES, init_size=200)
    condenser.fit(table.drop("town"), table["town"])
    assert condenser.people_.min() >= 5


def test_numbers_follow_people_and_not_their_records() -> None:
    table = visits(6, 60, 400)
    condenser = fitted(table)
    far = pl.concat([table.head(1).with_columns(x=pl.lit(50.0), who=pl.lit("far"))] * 200)
    condenser.partial_fit(far)
    assert condenser.sample()["x"].max() < 40


def test_a_category_that_one_person_holds_often_is_not_shown() -> None:
    table = visits(7, 60, 100)
    rare = pl.concat([table.head(1).with_columns(town=pl.lit("elsewhere"))] * 40)
    condenser = StreamCondenser(5, init_size=140, columns=ROLES, random_state=0)
    condenser.partial_fit(pl.concat([table, rare]))
    assert "elsewhere" not in condenser.sample()["town"].to_list()


def test_no_name_and_no_plain_hash_in_the_state(tmp_path: Path) -> None:
    table = visits(8, 60, 400)
    condenser = fitted(table)
    key = SecretKey.generate()
    with pytest.raises(KeyMaterialError):
        condenser.save(tmp_path / "state")
    condenser.save(tmp_path / "state", key=key)
    content = (tmp_path / "state").read_bytes()
    secret = condenser._fitted.persons
    assert secret is not None
    assert b"person-" not in content + pickle.dumps(condenser)
    assert secret.secret not in content + pickle.dumps(condenser)
    assert "person-" not in repr(vars(condenser))
    with pytest.raises(KeyMaterialError):
        StreamCondenser.load(tmp_path / "state")
    again = StreamCondenser.load(tmp_path / "state", key=key)
    more = visits(8, 60, 800)[400:]
    for part in (condenser, again):
        part.partial_fit(more)
    assert np.array_equal(again.people_, condenser.people_)
    assert again.snapshot().equals(condenser.snapshot())
    condenser.save(tmp_path / "plain", waiting="plain")
    assert len(StreamCondenser.load(tmp_path / "plain").people_) == len(condenser.people_)


def test_a_person_is_the_same_in_every_batch() -> None:
    persons = PersonHash("who")
    first = persons.words(pl.DataFrame({"who": [1, 2, None]}))
    second = persons.words(pl.DataFrame({"who": [1.0, 2.0, None]}))
    assert first.tolist() == second.tolist()
    assert PersonHash("who").words(pl.DataFrame({"who": [1]})).tolist() != first[:1].tolist()
    with pytest.raises(DataError, match="'who'"):
        persons.words(pl.DataFrame({"who": ["1"]}))
    condenser = fitted(visits(9, 60, 200))
    with pytest.raises(DataError, match="'who'"):
        condenser.partial_fit(visits(9, 60, 10).with_columns(who=pl.int_range(10)))
    assert condenser.partial_fit(visits(9, 60, 10)).n_seen_ == 210


def test_streams_that_count_people_do_not_merge() -> None:
    with pytest.raises(DataError):
        fitted(visits(10, 60, 200)).merge(fitted(visits(11, 60, 200)))


def test_ranges_follow_people_who_are_known_but_nobody_alone(tmp_path: Path) -> None:
    """Events of the same few people for ever, whose times rise."""
    rows = np.arange(1_000)
    table = pl.DataFrame({"who": rows % 40, "at": rows / 10.0})
    condenser = StreamCondenser(5, init_size=100, columns={"who": "person"}, random_state=0)
    for part in np.array_split(rows, 9):
        condenser.partial_fit(table[part])
    highest = condenser.snapshot()["at"].max()
    assert 90 < highest <= 99.5  # to where five people came at least
    key = SecretKey.generate()
    condenser.save(tmp_path / "state", key=key)
    alone = pl.DataFrame({"who": np.zeros(50, dtype=np.int64), "at": np.linspace(100, 200, 50)})
    for stream in (condenser, StreamCondenser.load(tmp_path / "state", key=key)):
        assert stream.partial_fit(alone).sample(5_000)["at"].max() == highest
