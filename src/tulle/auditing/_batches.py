"""The audit of tables larger than memory: as any audit on samples of people, and then on all.

Every attack and measure is tried on a sample of each table. Those that look for the record nearest
to a person are tried once more among all records, batch by batch: a part of a release understates
what they find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from tulle._attacks.copies import BEYOND_CHANCE, EXACT_STORY, is_no_chance
from tulle._attacks.records import Records
from tulle._attacks.result import AttackResult
from tulle._attacks.scans import ALIKE, CopyScan, Spacing, inference, linkage, near_copies
from tulle._large.facts import HashSample, KeyCount, Keys, Read, person_keys, row_keys, sample_rows
from tulle._large.machine import Batches, Budget, Machine
from tulle._plurals import counted
from tulle._progress import bar
from tulle._random import RandomState
from tulle.auditing._attackers import Attacker, attackers_of, knowledge
from tulle.auditing._tables import Aligned, align, alike, entries_of
from tulle.auditing.audit import Audit, audited, secrets_of, seeded, target_of
from tulle.errors import DataError
from tulle.table._states import Writing, writing_of
from tulle.table.schema import Column, Kind, Role

_ATTEMPTS = 200
_HELD = 50_000  # records of each table that are held at once


def audit_batches(
    original: Batches,
    release: Batches,
    control: pl.DataFrame | None = None,
    policy: Any = None,
    random_state: RandomState = None,
    *,
    target: str | None = None,
    k: int = 10,
    attempts: int | None = None,
    memory: int = 1 << 30,
    title: str = "Audit of a release",
) -> Audit:
    """Attack a release that is read in batches.

    Parameters
    ----------
    original, release : callable
        Read the tables from their beginning, any number of times.
    control : polars.DataFrame, optional
        Records like the original's that were kept out of the release.
    policy
        As for :func:`tulle.audit`.
    attempts : int, optional
        How many people each attack is tried on; 200 unless said.
    memory : int
        Bytes for the keys of the release among which copies are looked for.
    """
    seed, rng = seeded(random_state)
    words = tuple(rng.integers(2**63, size=4).tolist())
    some, records, _ = sample_rows(_read(original), _HELD, words)
    shown, released, _ = sample_rows(_read(release), _HELD, words)
    person = person_of(policy, some)
    if person is not None:
        some = _whole_people(original, person, records, words[1])
    tables = align(some, shown, control, policy)
    view = BatchView.of(tables, some, policy, words[1])
    target = target_of(tables, target)
    hidden = secrets_of(tables, None, target, quick=True)
    tried = attempts or _ATTEMPTS
    with bar("records searched", 2 * (records + released)) as advance:
        copies = _Copies(view, control, words[0], released, memory)
        people, strangers = _chosen(tables, view, some, control, tried, rng)
        attackers = attackers_of(tables, quick=False)
        spacings = [Spacing(people, inside=True)]
        spacings += [Spacing(strangers, inside=False)] if strangers is not None else []
        for frame in original():
            batch = view.records(frame)
            for spacing in spacings:
                spacing.add(batch)
            advance(frame.height)
        searches = _Searches(people, strangers, attackers, hidden)
        for frame in release():
            searches.add(view.records(frame), rng)
            advance(frame.height)
        found = [
            copies.found(original, release, rng, advance),
            *searches.results(spacings, tables.release),
        ]
    held = "no control" if control is None else f"{control.height:,} in the control"
    return audited(tables, rng, target=target, k=k, attempts=tried, title=title).extended(
        summary=f"{counted(records, 'original record')}, {counted(released, 'released record')}, "
        f"{held}; {counted(len(tables.columns), 'column')}.",
        attacks={result.name: result.to_dict() for result in found},
        attackers=knowledge(attackers, tables),
        limits=[
            "Singling out, membership, homogeneity, one-to-one linkage, linkability, exact values, "
            f"planes and sums of numbers were tried on samples of {some.height:,} original and "
            f"{shown.height:,} released records, which may understate them."
        ],
        provenance={
            "audit seed": seed,
            "attempts": f"{len(people):,} people per attack, drawn at random; all "
            f"{records:,} original and {released:,} released records are searched in batches",
            "exact copies": "all people are looked for among all released records",
            "measures": f"from samples of {some.height:,} original and {shown.height:,} released "
            "records, drawn at random",
        },
    )


@dataclass(frozen=True)
class BatchView:
    """Batches in the view of attacks that the samples settled."""

    number_names: tuple[str, ...]
    code_names: tuple[str, ...]
    kinds: Mapping[str, Kind]
    units: Mapping[str, tuple[float, float]]
    writings: Mapping[str, Writing]
    person: str | None
    seed: int
    domains: dict[str, pl.Series]  # grow as batches bring values that no sample has

    @classmethod
    def of(cls, tables: Aligned, sample: pl.DataFrame, policy: Any, seed: int) -> BatchView:
        """Return the view of tables whose samples are aligned."""
        entries = entries_of(policy)
        writings = {}
        for name, entry in entries.items():
            if name in tables.units and isinstance(entry, Column):
                writing = writing_of(sample[name], entry)
                if writing is not None:
                    writings[name] = writing
        return cls(
            tables.original.number_names,
            tables.original.code_names,
            tables.kinds,
            tables.units,
            writings,
            person_of(policy, sample),
            seed,
            dict(tables.domains),
        )

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

    def records(self, frame: pl.DataFrame) -> Records:
        """Return the records of a batch, with their people where a column names them."""
        plain = self.plain(frame)
        numbers = [self._numbers(plain[name]) for name in self.number_names]
        codes = [self._codes(plain[name]) for name in self.code_names]
        return Records(
            np.column_stack(numbers) if numbers else np.empty((frame.height, 0)),
            np.column_stack(codes) if codes else np.empty((frame.height, 0), np.int32),
            self.number_names,
            self.code_names,
            self.people(frame),
        )

    def people(self, frame: pl.DataFrame) -> Any:
        """Return a number for the person of each row, where a column names them."""
        if self.person is None or self.person not in frame.columns:
            return None
        return person_keys(frame[self.person], self.seed).view(np.int64)

    def _numbers(self, series: pl.Series) -> Any:
        centre, scale = self.units[series.name]
        values = series.to_numpy() / scale - centre / scale
        return np.where(series.is_null().to_numpy(), 0.0, values)

    def _codes(self, series: pl.Series) -> Any:
        if series.name in self.units:
            return series.is_null().to_numpy()
        words, domain = series.cast(pl.String), self.domains[series.name]
        new = words.drop_nulls().unique().sort()
        new = new.filter(~new.is_in(domain.slice(1).implode()))
        if len(new):
            domain = self.domains[series.name] = pl.concat([domain, new])
        if len(domain) == 1:
            return np.zeros(len(words), np.int32)
        places = pl.Series(np.arange(1, len(domain), dtype=np.int32))
        coded = words.replace_strict(domain.slice(1), places, default=None, return_dtype=pl.Int32)
        return coded.fill_null(0).to_numpy()


def _read(batches: Batches) -> Read:
    return Machine(batches, Budget(0, 1)).read


def person_of(policy: Any, sample: pl.DataFrame) -> str | None:
    """Return the column that names the person of each row, if the table has one."""
    entries = entries_of(policy).items()
    named = (name for name, entry in entries if getattr(entry, "role", entry) is Role.PERSON)
    return next((name for name in named if name in sample.columns), None)


def _whole_people(original: Batches, person: str, records: int, seed: int) -> pl.DataFrame:
    """Return all rows of some people."""
    sample = HashSample.of_table(_HELD, records)
    for frame in original():
        sample.add(frame, person_keys(frame[person], seed))
    return sample.rows()[0]


def _chosen(
    tables: Aligned,
    view: BatchView,
    some: pl.DataFrame,
    control: pl.DataFrame | None,
    tried: int,
    rng: np.random.Generator,
) -> tuple[Records, Records | None]:
    """Return the people that are attacked, and as many strangers if there is a control."""
    people = view.records(some[tables.original.sample(tried, rng)])
    if control is None or tables.control is None:
        return people, None
    return people, view.records(control[tables.control.sample(tried, rng)])


class _Searches:
    """What every attacker looks for in the release, for people, for strangers and by chance."""

    def __init__(
        self,
        people: Records,
        strangers: Records | None,
        attackers: Sequence[Attacker],
        hidden: Sequence[str],
    ) -> None:
        self.attackers = attackers
        self.register = attackers[0]
        all_columns = replace(people, people=None)
        outside = None if strangers is None else replace(strangers, people=None)

        def searches(columns: Sequence[str] | None, count: int = 1) -> list[CopyScan | None]:
            return [
                CopyScan(all_columns, columns, count),
                None if outside is None else CopyScan(outside, columns, count),
            ]

        self.near = searches(None)
        self.linked = {one.name: searches(one.known) for one in attackers}
        self.read = {
            secret: searches(_beside(secret, self.register.known, people.columns), ALIKE)
            for secret in hidden
        }
        self.by_chance = [CopyScan(all_columns)]
        self.by_chance += [CopyScan(all_columns, one.known) for one in attackers]

    def add(self, batch: Records, rng: np.random.Generator) -> None:
        """Search a batch of the release."""
        if not len(batch):
            return
        for search in (*self.near, *_each(self.linked), *_each(self.read)):
            if search is not None:
                search.add(batch)
        shuffled = batch.scrambled(rng)
        for chance in self.by_chance:
            chance.add(shuffled)

    def results(self, spacings: Sequence[Spacing], released: Records) -> list[AttackResult]:
        """Return what the attacks got; ``released`` are records of the release."""
        apart, far = spacings[0].apart, spacings[1].apart if spacings[1:] else None
        people, strangers = self.near
        assert people is not None
        found = [near_copies(people, self.by_chance[0], strangers, apart, far)]
        for attacker, chance in zip(self.attackers, self.by_chance[1:]):
            people, strangers = self.linked[attacker.name]
            assert people is not None
            result = linkage(people, chance, strangers, apart, far, attacker.who)
            name = "linkage" if attacker is self.register else f"linkage:{attacker.name}"
            found.append(replace(result, name=name))
        for secret, (people, strangers) in self.read.items():
            assert people is not None
            found.append(inference(people, strangers, secret, released, self.register.who))
        return found


def _each(searches: Mapping[str, list[CopyScan | None]]) -> Iterator[CopyScan | None]:
    for pair in searches.values():
        yield from pair


def _beside(secret: str, known: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return what is known of a person when a column is the secret."""
    others = [name for name in known if name != secret]
    return others or [name for name in columns if name != secret]


class _Copies:
    """People of whom a record appears in the release unchanged: all of them among all records.

    Records are compared by keyed hashes of 64 bits, of which as many as memory holds are looked at
    in one reading of both tables.
    """

    def __init__(
        self,
        view: BatchView,
        control: pl.DataFrame | None,
        seed: int,
        released: int,
        memory: int,
    ) -> None:
        self._view = view
        self._seed = seed
        self._size = released
        self._readings = max(1, ceil(64 * released / memory))
        self._control = None if control is None else self._keys(control)
        self._strange = 0

    def found(
        self,
        original: Batches,
        release: Batches,
        rng: np.random.Generator,
        advance: Callable[[int], None],
    ) -> AttackResult:
        """Read the tables, and return how many people were found."""
        who, whole = KeyCount(), KeyCount()
        people, by_chance = KeyCount(), KeyCount()
        for reading in range(self._readings):
            shown, shuffled = self._released(release, reading, rng, advance)
            for frame in original():
                keys = self._keys(frame)
                owners = self._owners(frame)
                mine = keys % self._readings == reading
                people.add(owners[mine & np.isin(keys, shown)])
                by_chance.add(owners[mine & np.isin(keys, shuffled)])
                if reading == 0:
                    whole.add(keys)
                    who.add(owners)
                    advance(frame.height)
            if self._control is not None:
                mine = self._control[self._control % self._readings == reading]
                self._strange += int(np.isin(mine, shown).sum())
        named = self._view.person is not None
        total = who.distinct if named else whole.records
        copied, chance = (c.distinct if named else c.records for c in (people, by_chance))
        return AttackResult(
            "exact_copies",
            total,
            min(total, copied),
            min(total, chance),
            None if self._control is None else self._strange,
            None if self._control is None else len(self._control),
            story=EXACT_STORY,
            details=self._beyond_chance(min(total, copied), total),
        )

    def _beyond_chance(self, copied: int, total: int) -> dict[str, float]:
        """Return the share of the release that copies people whom chance does not explain."""
        if self._control is None or not is_no_chance(
            copied, total, self._strange, len(self._control)
        ):
            return {}
        usual = total * self._strange / len(self._control)
        return {BEYOND_CHANCE: min(1.0, (copied - usual) / self._size)}

    def _released(
        self,
        release: Batches,
        reading: int,
        rng: np.random.Generator,
        advance: Callable[[int], None],
    ) -> tuple[Keys, Keys]:
        """Return the keys of the released records of one reading, and of shuffled ones."""
        shown: list[Keys] = []
        shuffled: list[Keys] = []
        for frame in release():
            plain = self._view.plain(frame)
            for kept, table in ((shown, plain), (shuffled, _scrambled(plain, rng))):
                keys = row_keys(table, self._seed)
                kept.append(np.unique(keys[keys % self._readings == reading]))
            if reading == 0:
                advance(frame.height)
        return np.unique(np.concatenate(shown)), np.unique(np.concatenate(shuffled))

    def _keys(self, frame: pl.DataFrame) -> Keys:
        return row_keys(self._view.plain(frame), self._seed)

    def _owners(self, frame: pl.DataFrame) -> Keys:
        """Return the people of a batch; where no column names them, records are counted."""
        people = self._view.people(frame)
        return np.zeros(frame.height, np.uint64) if people is None else people.view(np.uint64)


def _scrambled(frame: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Shuffle every column of a batch on its own."""
    return pl.DataFrame([series[rng.permutation(frame.height)] for series in frame])
