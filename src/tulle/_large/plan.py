"""What is decided about a table before its records move: the same wherever the work is done.

A plan follows from the facts and a sample of a table: how columns are encoded, which rules hold
between them, which classes are condensed apart, and into how many blocks each is divided. It says
which block a record belongs to and condenses one; an engine only moves bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._large.facts import Keys, KnownTable, Learnt, Sampled, TableFacts, person_keys, row_keys
from tulle._people import draw_threshold
from tulle._types import Ints
from tulle.condense._classes import Labels, LabelSchema, labels_of, refuse_quantity
from tulle.condense._diversity import locate_sensitive
from tulle.condense._grouping import GroupAttributes, GroupFacts
from tulle.condense._histories import LinkedRows
from tulle.condense._levels import check_levels, have_histories
from tulle.condense._notes import fact_notes, table_notes
from tulle.condense._papers import Papers
from tulle.condense._row_tables import find_order
from tulle.condense._shaped import (
    Block,
    Classes,
    ClassRows,
    RuleSummary,
    Settled,
    Shape,
    fewest_of,
    refuse_broken,
    rule_notes,
    settle_rules,
)
from tulle.condense.class_condenser import ClassCondenser
from tulle.condense.condenser import Condenser
from tulle.errors import DataError, PrivacyError
from tulle.table._encoder import TableEncoder
from tulle.table._frames import enter_column
from tulle.table._rare import Crowd
from tulle.table.schema import Role, Schema

BLOCK = 100_000  # records of a block: as many people as a model can tell from chance
_MOST = 5_000_000  # records of a block, which is condensed in memory
_NO_HISTORIES = (
    "people are counted, but their rows are released one by one, without the person: hardly "
    "anybody has several, or they are condensed by class or by the papers' synthesis"
)
_ROOM = 8  # times the highest level: the fewest people in a block, about
# lots of many blocks average out: fewer trees, each grown on more rows, are closer to the table
# (0.517 in place of 0.526 by a classifier) in three quarters of the time
_TREES, _GROWN_ON = 4, 25_000
_ATTACKED = 100_000  # records of the blocks that are attacked, about


@dataclass(frozen=True)
class Units:
    """What is condensed apart: each class or pool of small ones, or the table as a whole."""

    name: str | None  # the column of classes
    labels: LabelSchema | None
    classes: list[list[int]]  # of each unit, as places among the labels
    counts: Ints  # records of each class

    @classmethod
    def whole(cls, records: int) -> Units:
        return cls(None, None, [[0]], np.array([records]))

    @property
    def records(self) -> Ints:
        return np.array([self.counts[places].sum() for places in self.classes])

    def locate(self, frame: pl.DataFrame) -> tuple[Ints, Ints]:
        """Return the class of each record and its unit, -1 where the class is withheld."""
        if self.labels is None:
            return np.zeros((2, frame.height), dtype=np.int64)[0], np.zeros(frame.height, np.int64)
        domain = self.labels.domain
        places = pl.Series(np.arange(len(domain)))
        codes = frame[self.name or ""].replace_strict(
            domain, places, default=len(domain), return_dtype=pl.Int64
        )
        unit_of = np.full(len(domain) + 1, -1)
        for unit, classes in enumerate(self.classes):
            unit_of[classes] = unit
        return codes.to_numpy(), unit_of[codes.to_numpy()]


Decide = Callable[[pl.DataFrame], tuple[Units, Condenser]]


def divide_classes(
    by_class: ClassCondenser, counted: pl.DataFrame, label: str, level: str | None, *, persons: bool
) -> tuple[Units, Condenser]:
    """Return the classes, or pools of small ones, and the condenser with the size of its groups.

    ``counted`` says how many rows there are of each class and level; with ``persons``, nobody
    knows how many people these are, and groups are as small as is allowed.
    """
    codes, schema, _ = labels_of(*enter_column(counted[label]))  # refuses missing ones
    rows = counted["rows"].to_numpy().astype(np.int64)
    refuse_quantity(len(schema.domain), int(rows.sum()))
    levels = None if level is None else check_levels(counted[level], counted.height)
    least = by_class.min_group or 0
    top = int(levels.max()) if levels is not None else max(by_class.k or 0, least)
    some = np.minimum(rows, top + 1)  # as many as decide whether a class is small
    counts = np.bincount(codes, weights=rows).astype(np.int64)
    units, k = by_class._plan(
        Labels(np.repeat(codes, some), schema, int(rows.sum())),
        None if levels is None else np.repeat(levels, some),
        lambda unit: least if persons else int(counts[unit.classes].sum()),
    )
    assert by_class.condenser is not None
    condenser = by_class.condenser.cloned().set_params(k=2 if k is None else k)
    return Units(label, schema, [unit.classes for unit in units], counts), condenser


class Deal:
    """Which block a record belongs to, by lot: whole people, and else by what the record holds.

    Records whose content very many share would fill a block; they are dealt out one by one, and it
    does not matter which of them goes where.
    """

    def __init__(self, common: Keys) -> None:
        self._common = common
        self._seen = dict.fromkeys(common.tolist(), 0)

    def turns(self, keys: Keys) -> Keys:
        """Return a number for each record, by which blocks take turns."""
        turns = keys.copy()
        for key in np.intersect1d(keys, self._common).tolist():
            rows = np.flatnonzero(keys == np.uint64(key))
            with np.errstate(over="ignore"):
                turns[rows] += (self._seen[key] + np.arange(len(rows))).astype(np.uint64)
            self._seen[key] += len(rows)
        return turns


@dataclass
class Tally:
    """What went into blocks: how many records, and the sum of their keys."""

    records: int = 0
    keys: int = 0

    def add(self, keys: Keys) -> None:
        self.records += len(keys)
        self.keys = (self.keys + int(keys.sum(dtype=np.uint64))) % 2**64

    def merge(self, other: Tally) -> None:
        self.records += other.records
        self.keys = (self.keys + other.keys) % 2**64


class Attacked(NamedTuple):
    """The people of some blocks, and all records that were drawn from these."""

    members: pl.DataFrame
    released: pl.DataFrame


class BlockSummary(NamedTuple):
    """What is known of a finished block: counts and sums, no record."""

    number: int
    tally: Tally
    released: int
    groups: GroupFacts
    rests_on: dict[str, int]
    rules: list[RuleSummary]
    broken: dict[str, int]
    notes: list[str]


Write = Callable[[int, pl.DataFrame], Any]  # puts down the records of a block


class Finished(NamedTuple):
    """A block that was condensed and written."""

    summary: BlockSummary
    part: Any  # what writing it returned
    attacked: Attacked | None


@dataclass(frozen=True)
class BlockPlan:
    """How every record of a table is placed and condensed; it holds no row."""

    condenser: Condenser  # unfitted: how to group and draw
    schema: Schema
    units: Units
    rates: list[Ints]  # of the classes of each unit
    encoder: TableEncoder
    settled: Settled
    blocks: Ints  # of each unit
    common: Keys
    seed: tuple[int, ...]
    person: str | None
    rows_each: float  # of a person

    @property
    def firsts(self) -> Ints:
        """The first block of each unit, and how many blocks there are."""
        return np.cumsum([0, *self.blocks.tolist()])

    @cached_property
    def attacked(self) -> set[int]:
        """The blocks that are attacked: one of each unit, as far as memory allows."""
        rng = np.random.default_rng([*self.seed, 2**32 + 1])
        order, firsts = rng.permutation(len(self.blocks)), self.firsts
        sizes = np.cumsum((self.units.records / self.blocks)[order])
        some = order[: 1 + int((sizes <= _ATTACKED).sum())]
        return {int(firsts[unit] + rng.integers(self.blocks[unit])) for unit in some}

    def placed(
        self, frame: pl.DataFrame, deal: Deal, tally: Tally
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """Yield the records of a batch, block by block, without those of withheld classes."""
        unit = self.units.locate(frame)[1]
        frame, unit = frame.filter(unit >= 0), unit[unit >= 0]
        keys = row_keys(frame, self.seed[0])
        tally.add(keys)
        if self.person is not None:
            keys = person_keys(frame[self.person], self.seed[1])
        turns = deal.turns(keys) % self.blocks[unit].astype(np.uint64)
        places = self.firsts[unit] + turns.astype(np.int64)
        order = np.argsort(places, kind="stable")
        found, starts = np.unique(places[order], return_index=True)
        ends = [*starts[1:].tolist(), len(order)]
        frame = frame[order]
        for place, start, end in zip(found.tolist(), starts.tolist(), ends):
            yield place, frame[start:end]

    def condense(self, frame: pl.DataFrame, number: int) -> tuple[pl.DataFrame, BlockSummary]:
        """Return the pseudo-records of a block, with their class, and its summary.

        A function of the set of its records and of the block's own seed: it does not matter in
        which order they came, nor on which thread, process or machine it runs.
        """
        keys, tally = row_keys(frame, self.seed[0]), Tally()
        tally.add(keys)
        frame = frame[np.argsort(keys, kind="stable")]
        part: Condenser = self.condenser.cloned()
        if part.time_budget is not None:
            part.set_params(time_budget=part.time_budget * len(keys) / self.units.records.sum())
        # ranges are widened by groups: each block has codes of its own
        encoder = self.encoder.with_codecs([copy(codec) for codec in self.encoder.codecs.values()])
        rng = np.random.default_rng([*self.seed, number])
        unit = int(np.searchsorted(self.firsts, number, side="right")) - 1
        classes = self._classes(frame, unit)
        settled = self.settled._replace(block=(number, int(self.firsts[-1])))
        part._fit_part(frame, self.schema, encoder, settled, rng, classes)
        synthesis = part._synthesis
        drawn = synthesis.draw(None, rng)
        if part._totals is not None:  # those of the blocks add up
            drawn = part._totals.calibrate(drawn)
        broken = refuse_broken(synthesis.plan, drawn, accept=part.accept_broken_rules)
        names = [*encoder.codecs, self.units.name, self.settled.person]
        return drawn.select(name for name in names if name is not None), BlockSummary(
            number,
            tally,
            drawn.height,
            part.groups_,
            part.rests_on_,
            part.rules_,
            broken,
            synthesis.notes,
        )

    def finish(self, frame: pl.DataFrame, number: int, write: Write) -> Finished:
        """Condense a block and write it; keep it if it is attacked."""
        drawn, summary = self.condense(frame, number)
        attacked = Attacked(frame, drawn) if number in self.attacked else None
        return Finished(summary, write(number, drawn), attacked)

    def _classes(self, frame: pl.DataFrame, unit: int) -> ClassRows | None:
        if self.units.labels is None:
            return None
        classes = Classes(self.units.labels, [self.rates[unit]])
        codes = self.units.locate(frame)[0]
        return ClassRows(classes, codes, np.zeros(len(codes), dtype=np.int64))


def make_plan(
    schema: Schema,
    facts: TableFacts,
    sample: pl.DataFrame,
    people: Keys | None,
    common: Keys,
    decide: Decide,
    size_of: Callable[[int], int],
    seed: tuple[int, ...],
) -> BlockPlan:
    """Decide how to condense a table, from its facts and a sample of its rows, of whole people.

    ``people`` are the keys of the sample's people, where they have several rows, and ``common``
    those of rows that very many share. ``size_of`` says how many records a block should have, from
    how many coordinates a record has.
    """
    person, level = (next(iter(schema.named(role)), None) for role in (Role.PERSON, Role.LEVEL))
    units, condenser = decide(facts.units())
    rng = np.random.default_rng([*seed, 2**32])
    k, highest = facts.levels(level, condenser.k)
    persons = None if people is None else np.unique(people, return_inverse=True)[1]
    levels = check_levels(condenser.k if level is None else sample[level], sample.height)
    least = k if condenser._keeps_shape else highest
    crowd = Crowd.of_kept(least, levels <= least, persons, rng)
    known = sample.drop([] if units.name is None else units.name)
    encoder = TableEncoder(schema).fit_longer(known, facts.more(known, persons, least), crowd)
    encoder.stretch({name: facts.stretch(sample[name]) for name in encoder.codecs})
    rates = [_rates(units, unit, condenser, rng) for unit in range(len(units.classes))]
    settled = Settled(())
    several = persons is not None and have_histories(persons)
    if persons is not None and several and condenser._keeps_shape and units.name is None:
        settled = Settled((), person=person)
        if condenser.order is None:
            found = find_order(sample, schema, persons, standing=False)
            condenser = condenser.cloned().set_params(order=[*found] or None)
    elif condenser._keeps_shape:
        codes, unit = units.locate(sample)
        labelled = None
        if units.labels is not None:
            labelled = ClassRows(Classes(units.labels, rates), codes, unit)
        block = Block(known, levels, persons, locate_sensitive(known, schema), labelled)
        rules = settle_rules(block.at(unit >= 0), encoder, condenser.rules, rng)
        settled = Settled(rules, _GROWN_ON, _TREES)
    near = [column.name for column in schema if column.closeness is not None]
    if near:  # one by one in order: no row of the table
        settled = settled._replace(whole=pl.DataFrame({name: known[name].sort() for name in near}))
    rows_each = facts.records / facts.people
    size = max(size_of(len(encoder.scales_)), round(_ROOM * highest * rows_each))
    if units.records.max() > _MOST < size:
        raise DataError(
            f"levels up to {highest:,} ask for blocks of {size:,} records, and at most {_MOST:,} "
            "can be condensed together: lower the levels, or withhold those records"
        )
    blocks = np.maximum(1, units.records // size)
    return BlockPlan(
        condenser, schema, units, rates, encoder, settled, blocks,
        common if person is None else np.empty(0, dtype=np.uint64), seed, person, rows_each,
    )  # fmt: skip


def _rates(units: Units, unit: int, condenser: Condenser, rng: np.random.Generator) -> Ints:
    """Return how often each class occurs in a unit: drawn once, unless totals are exact."""
    rates = np.zeros(len(units.counts), dtype=np.int64)
    rates[units.classes[unit]] = units.counts[units.classes[unit]]
    if condenser.exact_totals or len(units.classes[unit]) == 1:
        return rates
    return np.asarray(rng.multinomial(rates.sum(), rates / rates.sum()))


@dataclass(frozen=True)
class PartedRelease(GroupAttributes):
    """What is known of a release of many blocks, verified; a fitted condenser says the same."""

    plan: BlockPlan
    blocks: list[BlockSummary]
    records: int  # of the table
    groups_: GroupFacts
    attacked: Attacked
    parts: list[Any]  # what writing the blocks returned

    @property
    def released(self) -> int:
        return sum(block.released for block in self.blocks)

    @property
    def rests_on_(self) -> dict[str, int]:
        return fewest_of(block.rests_on for block in self.blocks)

    @property
    def rules_(self) -> list[RuleSummary]:
        """The rules that all blocks keep, counted in all records of the table."""
        sizes = [block.tally.records for block in self.blocks]
        rng = np.random.default_rng([*self.plan.seed, 2**32 + 2])
        of_blocks = [{one.rule: one for one in block.rules} for block in self.blocks]
        common = [name for name in of_blocks[0] if all(name in rules for rules in of_blocks)]
        found = []
        for rules in ([rules[name] for rules in of_blocks] for name in common):
            share = float(np.average([one.share_broken for one in rules], weights=sizes))
            people = share * sum(sizes) / self.plan.rows_each
            enough = people >= draw_threshold(min(self.rests_on_.values()), rng)
            found.append(rules[0]._replace(share_broken=share if enough else 0.0))
        return found

    @property
    def broken_rules_(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for block in self.blocks:
            for rule, count in block.broken.items():
                counts[rule] = counts.get(rule, 0) + count
        return counts

    @property
    def notes_(self) -> list[str]:
        condenser, every = self.plan.condenser, [note for b in self.blocks for note in b.notes]
        notes = fact_notes(self.groups_, exact=condenser.exact_totals)
        notes += table_notes(self.groups_, self.plan.encoder) + list(dict.fromkeys(every))
        notes += [] if self.plan.person is None else [self._whose]
        return notes + rule_notes(condenser.rules, self.rules_)

    @property
    def _whose(self) -> str:
        """Say what became of people with several rows."""
        if self.plan.settled.person is None:
            return _NO_HISTORIES
        order = self.plan.condenser.order
        if not order:
            return "the rows of a person have no order: none is released"
        return (
            f"the rows of a person are in the order of '{order[0]}'; those of the same time are in "
            "no order"
        )

    @property
    def k(self) -> int:
        return int(self.plan.condenser.k)

    k_ = k

    @property
    def classes_(self) -> NDArray[Any]:
        if self.plan.units.labels is None:
            raise AttributeError("there are no classes")
        return self.plan.units.labels.classes

    @property
    def _synthesis(self) -> Shape | Papers | LinkedRows:
        """A synthesis whose sentence holds for every record."""
        synthesis = self.plan.condenser._unfitted(self.plan.settled.person)
        synthesis.shown = self.rests_on_
        return synthesis

    @property
    def _rule_plan(self) -> PartedRelease:
        return self

    def count_broken(self, released: pl.DataFrame) -> list[int]:
        """Return how many released records break each rule: counted block by block as drawn."""
        broken = self.broken_rules_
        return [broken.get(one.rule, 0) for one in self.rules_]


class BlockEngine(Protocol):
    """Reads a table and condenses its blocks, somewhere."""

    @property
    def sample(self) -> int: ...

    def read(self, reading: Learnt) -> Learnt: ...
    def block_of(self, dimensions: int) -> int: ...
    def condense(self, plan: BlockPlan, write: Write) -> tuple[Tally, list[Finished]]: ...


def condense_blocks(
    engine: BlockEngine,
    schema: Schema,
    decide: Decide,
    write: Write,
    *,
    target: str | None,
    sample: Sampled,
    seed: tuple[int, ...],
) -> PartedRelease:
    """Condense a table that is read several times, and write the release block by block.

    ``write`` takes the number of a block and its pseudo-records; several threads or machines call
    it. Everything random follows from the ``seed``, a secret.
    """
    known = engine.read(KnownTable(schema, target, engine.sample, sample.records, seed[1]))
    rows, people = known.people() or (sample.rows, None)
    plan = make_plan(
        schema, known.facts, rows, people, sample.common, decide, engine.block_of, seed
    )
    placed, finished = engine.condense(plan, write)
    return _verified(plan, finished, placed, known.facts.records)


def _verified(
    plan: BlockPlan, finished: list[Finished], placed: Tally, records: int
) -> PartedRelease:
    """Raise unless all blocks together keep what was promised and hold every record once."""
    finished.sort(key=lambda one: one.summary.number)
    blocks = [one.summary for one in finished]
    held = Tally()
    for block in blocks:
        held.merge(block.tally)
    if held != placed or held.records != int(plan.units.records.sum()):
        raise DataError(
            f"the blocks hold {held.records} records, but the table has "
            f"{int(plan.units.records.sum())}: did the table change while it was read?"
        )
    facts = GroupFacts.joined([block.groups for block in blocks])
    if not facts.valid:
        raise PrivacyError("a group is smaller than the level of a record: nothing is released")
    facts = replace(facts, suppressed=facts.suppressed + records - held.records)
    members, released = zip(*(one.attacked for one in finished if one.attacked is not None))
    attacked = Attacked(pl.concat(members), pl.concat(released))
    return PartedRelease(plan, blocks, records, facts, attacked, [one.part for one in finished])
