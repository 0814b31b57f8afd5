"""The audit of tables larger than memory: any audit on people drawn by lot, and copies among all.

Every attack and measure is tried on a sample of each table, as if that were the whole. A part of a
release understates what attacks find, so the one that a sample could miss is made on the whole:
everybody is looked for among all released records, as they are and to a hundredth of the spread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from tulle._attacks.linkage import BEYOND_CHANCE, EXACT_STORY, beyond_chance
from tulle._attacks.result import AttackResult
from tulle._large.facts import HashSample, KeyCount, Keys, mixed, person_keys, row_keys
from tulle._large.machine import Batches
from tulle._plurals import counted
from tulle._progress import bar
from tulle._random import RandomState
from tulle.auditing._measures import stated_rules
from tulle.auditing._tables import align, alike, entries_of
from tulle.auditing.audit import Audit, audit, seeded
from tulle.errors import DataError
from tulle.table._states import Writing, writing_of
from tulle.table.schema import Column, Kind, Role

HELD = 100_000  # records of each table that are drawn, of whole people
_GRID = 0.01  # of a column's spread: numbers as near as that count as one
_NEAR_STORY = (
    "Anyone who reads the release and knows a person's record. Right if a released record has the "
    "same categories, and numbers in the same hundredth of a column's spread."
)


def audit_batches(
    original: Batches,
    release: Batches,
    control: pl.DataFrame | None = None,
    policy: Any = None,
    random_state: RandomState = None,
    *,
    earlier: Sequence[Batches] = (),
    rules: Sequence[str] = (),
    memory: int = 1 << 30,
    **further: Any,
) -> Audit:
    """Attack a release that is read in batches.

    ``original``, ``release``, ``earlier``: read the tables from their beginning, any number of
    times. ``control``: records like the original's that were kept out of the release. ``policy``,
    ``further``: as for :func:`tulle.audit`. ``rules``: rules of the policy, which released records
    should obey. ``memory``: bytes for the keys of the release among which copies are looked for.
    """
    seed, rng = seeded(random_state)
    secret = int(rng.integers(2**63))
    person = person_of(policy)
    some, records = _drawn(original, person, secret)
    shown, released = _drawn(release, person, secret)
    before = tuple(_drawn(batches, person, secret)[0] for batches in earlier)
    found = audit(some, shown, control, policy, rng, earlier=before or None, **further)
    found = found.extended(**stated_rules(rules, some, shown))
    attacks = {}
    if person not in shown.columns:  # else people are compared, and rows of theirs may be anybody's
        view = _View.of(some, shown, control, policy, secret)
        readings = max(1, ceil(64 * released / memory))
        outside = [] if control is None else [control]
        with bar("records searched", 2 * (records + released)) as advance:
            for near in (False, True):
                copies = _Copies(view, near, readings, rng, advance)
                one = copies.found(original, release, lambda: iter(outside), released)
                attacks[one.name] = one.to_dict()
    drawn = f"{counted(some.height, 'original record')} of {records:,} and {shown.height:,} "
    drawn += f"released ones of {released:,}"
    held = "no control" if control is None else f"{control.height:,} in the control"
    return found.extended(
        summary=f"{counted(records, 'original record')}, {counted(released, 'released record')}, "
        f"{held}.",
        attacks=attacks,
        limits=[
            f"Every attack was tried on samples: {drawn}. A part of a release understates what "
            "they find in all of it. Copies, exact and near, were looked for in all."
        ]
        if some.height < records or shown.height < released
        else [],
        provenance={
            "audit seed": seed,
            "drawn": f"{drawn}, by lot",
            "copies": "all people are looked for among all released records",
        },
    )


def person_of(policy: Any) -> str | None:
    """Return the column that names the person of each row, if there is one."""
    entries = entries_of(policy).items()
    named = (name for name, entry in entries if getattr(entry, "role", entry) is Role.PERSON)
    return next(named, None)


def _drawn(batches: Batches, person: str | None, seed: int) -> tuple[pl.DataFrame, int]:
    """Return rows of a table by lot, all of a person or none, and how many there are."""
    sample, count = HashSample(HELD), 0
    for frame in batches():
        if person in frame.columns:
            keys = person_keys(frame[person], seed)
        else:
            keys = mixed(np.arange(count, count + frame.height, dtype=np.uint64), seed)
        sample.add(frame, keys)
        count += frame.height
    return sample.rows()[0], count


@dataclass(frozen=True)
class _View:
    """Batches in the types that the samples agreed on, as they are or on a grid."""

    kinds: Mapping[str, Kind]
    units: Mapping[str, tuple[float, float]]
    writings: Mapping[str, Writing]
    person: str | None
    seed: int

    @classmethod
    def of(
        cls,
        some: pl.DataFrame,
        shown: pl.DataFrame,
        control: pl.DataFrame | None,
        policy: Any,
        seed: int,
    ) -> _View:
        tables = align(some, shown, control, policy)
        writings = {
            name: writing
            for name, entry in entries_of(policy).items()
            if name in tables.units and isinstance(entry, Column)
            for writing in [writing_of(some[name], entry)]
            if writing is not None
        }
        return cls(tables.kinds, tables.units, writings, person_of(policy), seed)

    def keys(self, plain: pl.DataFrame, near: bool) -> Keys:
        """Return a word for what each row holds, or for the cell of a grid that it lies in."""
        if near:
            plain = plain.with_columns(
                ((pl.col(name) - centre) / (_GRID * scale)).round()
                for name, (centre, scale) in self.units.items()
            )
        return row_keys(plain, self.seed)

    def plain(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the compared columns of a batch, each in its one type."""
        lost = [name for name in self.kinds if name not in frame.columns]
        if lost:
            raise DataError(f"a batch lacks {len(lost)} column(s) of the table: '{lost[0]}', ...")
        frame = frame.with_columns(cs.float().fill_nan(None))
        columns = {}
        for name, kind in self.kinds.items():
            series = frame[name]
            if name in self.writings:
                series = self.writings[name].split(series)[0]
            columns[name] = alike(kind, [series])[0]
        return pl.DataFrame(columns)

    def people(self, frame: pl.DataFrame) -> Keys:
        """Return a word for the person of each row, where a column names them."""
        if self.person is None:
            return np.zeros(frame.height, np.uint64)
        return person_keys(frame[self.person], self.seed)


@dataclass(frozen=True)
class _Copies:
    """People of whom a record is in the release, unchanged or nearly: all among all records.

    Records are compared by keyed hashes of 64 bits, of which as many as memory holds are looked at
    in one reading of all tables.
    """

    view: _View
    near: bool
    readings: int
    rng: np.random.Generator
    advance: Callable[[int], None]

    def found(
        self, original: Batches, release: Batches, control: Batches, size: int
    ) -> AttackResult:
        """Read the tables, and count the people who are in a release of that ``size``."""
        # everybody, those with a record in the release, and those with one by chance
        inside, outside = [KeyCount() for _ in range(3)], [KeyCount() for _ in range(3)]
        for reading in range(self.readings):
            released = self._released(release, reading)
            for batches, counts in ((original, inside), (control, outside)):
                for frame in batches():
                    self._count(frame, reading, released, counts)
                    self.advance(frame.height if reading == 0 and counts is inside else 0)
        people, copied, chance = map(self._number, inside)
        strangers, alike, _ = map(self._number, outside)
        details = {}
        if strangers and not self.near and beyond_chance(copied, people, alike, strangers):
            details[BEYOND_CHANCE] = min(1.0, (copied - people * alike / strangers) / size)
        return AttackResult(
            "near_copies" if self.near else "exact_copies",
            people,
            min(people, copied),
            min(people, chance),
            min(strangers, alike) if strangers else None,
            strangers or None,
            story=_NEAR_STORY if self.near else EXACT_STORY,
            details=details,
        )

    def _count(
        self, frame: pl.DataFrame, reading: int, released: list[Keys], counts: list[KeyCount]
    ) -> None:
        keys = self.view.keys(self.view.plain(frame), self.near)
        owners, mine = self.view.people(frame), keys % self.readings == reading
        if reading == 0:
            counts[0].add(owners)
        for shown, count in zip(released, counts[1:]):
            count.add(owners[mine & np.isin(keys, shown)])

    def _number(self, count: KeyCount) -> int:
        """Return how many people were counted; where no column names them, every record is one."""
        return count.records if self.view.person is None else count.distinct

    def _released(self, release: Batches, reading: int) -> list[Keys]:
        """Return the keys of the released records of one reading, and of shuffled ones."""
        kept: tuple[list[Keys], list[Keys]] = ([], [])
        for frame in release():
            plain = self.view.plain(frame)
            shuffled = pl.DataFrame([c[self.rng.permutation(frame.height)] for c in plain])
            for some, table in zip(kept, (plain, shuffled)):
                keys = self.view.keys(table, self.near)
                some.append(np.unique(keys[keys % self.readings == reading]))
            self.advance(frame.height if reading == 0 else 0)
        return [np.unique(np.concatenate(some)) for some in kept]
