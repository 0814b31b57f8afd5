"""Attacks on people with several rows, in one table or in several: on their histories.

A release of people counts them in each step, not in whole histories. So three who know more than
one row of a person are tried: somebody who knows the steps that a person walked, from one category
to the next; somebody who knows a little of each table, which singles a person out only together;
and somebody who knows when and where a person was a few times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tulle._attacks.linkage import are_own
from tulle._attacks.records import MISMATCH, Records, chosen, nearest, spacing
from tulle._attacks.result import AttackResult
from tulle._types import Flags, Floats, Ints

_STEPS = 3  # rows of a history that is worth naming
_KNOWN = 3  # rows of a person that somebody knows
_PARTS = 4  # of a number, where people are compared exactly


class HistoryRows(NamedTuple):
    """HistoryRows in the order of people and, within them, of time; people are numbered from 0."""

    records: Records
    people: Ints
    n_people: int  # some of them have no row

    @property
    def starts(self) -> Ints:
        """The first row of each person who has one."""
        return np.flatnonzero(np.diff(self.people, prepend=-1))


# Steps that one person alone walked.


def walked(
    original: HistoryRows,
    release: HistoryRows,
    rng: np.random.Generator,
    *,
    control: HistoryRows | None = None,
    whose: tuple[Ints | None, Ints | None] = (None, None),
    name: str = "",
) -> AttackResult | None:
    """Look in the release for the steps that one person alone walked.

    Steps are those of the category in which most people are alone; None if there is none. For the
    control the same is tried on strangers whose steps nobody in the data walked. ``whose`` are the
    numbers of people in the data and outside, where several releases are attacked.
    """
    columns = range(original.records.codes.shape[1])
    chains = [_chains(original, column) for column in columns]
    alone = [sum(count == 1 for count in _counts(own).values()) for own in chains]
    if not chains or not max(alone):
        return None
    column = int(np.argmax(alone))
    times, shown = _counts(chains[column]), set(_chains(release, column))
    shuffled = release.records.codes[rng.permutation(len(release.people))]
    scrambled = release._replace(
        records=Records(release.records.numbers, shuffled, *_names(release.records))
    )
    guessed = set(_chains(scrambled, column))
    own = {who: chain for who, chain in _walkers(original, column) if times[chain] == 1}
    others = {} if control is None else dict(_walkers(control, column))
    others = {who: chain for who, chain in others.items() if chain not in times}
    right, strange = (np.array([c in shown for c in some.values()], bool) for some in (own, others))
    return AttackResult.of(
        f"walked:{name}" if name else "walked",
        right,
        sum(chain in guessed for chain in own.values()),
        strange,
        people=None if whose[0] is None else whose[0][list(own)],
        strangers=None if whose[1] is None else whose[1][list(others)],
        story=f"Somebody knows all steps of a person in '{original.records.code_names[column]}', "
        f"at least {_STEPS - 1}, which nobody else in the data walked, and looks for them. Right "
        "if a released person walked the same; the control are the steps of strangers.",
    )


def _chains(rows: HistoryRows, column: int) -> list[bytes]:
    """Return the categories of each person with enough rows, in order."""
    return [chain for _, chain in _walkers(rows, column)]


def _walkers(rows: HistoryRows, column: int) -> Iterator[tuple[int, bytes]]:
    """Yield people with enough rows, and their categories in order."""
    codes = np.ascontiguousarray(rows.records.codes[:, column])
    parts = np.split(codes, rows.starts[1:]) if len(codes) else []
    for who, part in zip(rows.people[rows.starts].tolist(), parts):
        if len(part) >= _STEPS:
            yield who, part.tobytes()


def _counts(chains: Sequence[bytes]) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for chain in chains:
        found[chain] = found.get(chain, 0) + 1
    return found


def _names(records: Records) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return records.number_names, records.code_names


# Alone only after the join.


def alone_joined(
    original: Records,
    release: Records,
    tables: Sequence[Sequence[str]],
    rng: np.random.Generator,
    *,
    control: Records | None = None,
) -> AttackResult | None:
    """Look for people who are alone in what all tables say together, and in none of them.

    ``tables`` are the columns of each table, aggregates of a person. None if there is only one
    table, or nobody like that.
    """
    filled = [columns for columns in tables if columns]
    if len(filled) < 2:
        return None
    people = [original, release, release.scrambled(rng), *([] if control is None else [control])]
    parts = [_profiles([one.only(columns) for one in people]) for columns in filled]
    joined = [_joined([part[place] for part in parts]) for place in range(len(people))]
    member = _held(joined[0], joined[0]) == 1
    for part in parts:
        member &= _held(part[0], part[0]) > 1
    if not member.any():
        return None
    found = [_held(joined[0][member], joined[place]) > 0 for place in (1, 2)]
    outside: Flags | None = None
    if control is not None:
        stranger = _held(joined[3], joined[0]) == 0
        for part in parts:
            stranger &= _held(part[3], part[0]) > 0
        outside = _held(joined[3][stranger], joined[1]) > 0
    return AttackResult.of(
        "alone_joined",
        found[0],
        found[1].sum(),
        outside,
        people=None if original.people is None else original.people[member],
        strangers=None if control is None or control.people is None else control.people[stranger],
        story=f"Somebody knows what each of {len(filled)} tables says of a person, numbers to a "
        "quarter of the people. In no table is the person alone, in all of them together they are. "
        "Right if a released person is the same in all of them.",
    )


def _profiles(people: Sequence[Records]) -> list[npt.NDArray[np.bytes_]]:
    """Return one key a person: categories, and the quarter of the original each number is in."""
    edges = np.quantile(people[0].numbers, np.arange(1, _PARTS) / _PARTS, axis=0)
    keys = []
    for one in people:
        parts = (one.numbers[None] > edges[:, None]).sum(axis=0)
        keys.append(_joined([np.column_stack([parts, one.codes]).astype(np.int32)]))
    return keys


def _joined(parts: Sequence[npt.NDArray[np.generic]]) -> npt.NDArray[np.bytes_]:
    """Return one key for each row of several arrays side by side."""
    bytes_of = [np.ascontiguousarray(part).view(np.uint8).reshape(len(part), -1) for part in parts]
    whole = np.ascontiguousarray(np.hstack(bytes_of))
    return whole.view(f"V{whole.shape[1]}").ravel()


def _held(keys: npt.NDArray[np.generic], by: npt.NDArray[np.generic]) -> Ints:
    """Return how many rows of another table have each key."""
    known: dict[bytes, int] = _counts([key.tobytes() for key in by])
    return np.array([known.get(key.tobytes(), 0) for key in keys], np.int64)


# When and where a person was, a few times.


def linkage_of_rows(
    original: HistoryRows,
    release: HistoryRows,
    people: Records,
    released: Records,
    rng: np.random.Generator,
    *,
    control: tuple[HistoryRows, Records] | None = None,
    attempts: int = 1000,
    name: str = "",
) -> AttackResult | None:
    """Link people by a few of their rows to the released person who has rows most like them.

    ``people`` and ``released`` have one record a person, over all that is known of them: a link is
    right if that of the released person is plainly the person's own. None without rows.
    """
    if not len(original.people) or not len(release.people):
        return None
    tried = chosen(original.n_people, attempts, rng)
    tried = tried[np.isin(tried, original.people)]
    apart = spacing(tried, people)
    links = _linked(original, tried, release, rng)
    guesses = rng.integers(0, len(released), len(tried))
    strangers: Flags | None = None
    outside: Records | None = None
    if control is not None and len(control[0].people):
        some = chosen(control[0].n_people, attempts, rng)
        some = some[np.isin(some, control[0].people)]
        outside = control[1].take(some)
        found = _linked(control[0], some, release, rng)
        strangers = are_own(outside, released, found, nearest(outside, people).distances[:, 0])
    known = people.take(tried)
    return AttackResult.of(
        f"linkage:rows of {name}" if name else "linkage:rows",
        are_own(known, released, links, apart),
        are_own(known, released, guesses, apart).sum(),
        strangers,
        people=known,
        strangers=outside,
        story=f"Somebody who knows up to {_KNOWN} rows of a person links them to the released "
        "person who has rows most like these. Right if that person is, over all that is known of "
        "people, plainly the same: nearer than a quarter of the way to anyone else in the data.",
    )


def _linked(rows: HistoryRows, tried: Ints, release: HistoryRows, rng: np.random.Generator) -> Ints:
    """Return the released person whose rows are nearest, in sum, to a few rows of each person."""
    first = np.searchsorted(rows.people, tried)
    counts = np.searchsorted(rows.people, tried, side="right") - first
    starts = release.starts
    owners = release.people[starts]
    known = first[:, None] + (rng.random((len(tried), _KNOWN)) * counts[:, None]).astype(np.int64)
    links = np.empty(len(tried), np.int64)
    for place, few in enumerate(known):
        far = [_distances(rows.records, row, release.records) for row in np.unique(few)]
        links[place] = np.sum([np.minimum.reduceat(one, starts) for one in far], axis=0).argmin()
    return owners[links]


def _distances(rows: Records, row: int, records: Records) -> Floats:
    """Return the squared distance of one row to all records."""
    far = ((records.numbers - rows.numbers[row]) ** 2).sum(axis=1)
    return np.asarray(far + MISMATCH * (records.codes != rows.codes[row]).sum(axis=1))
