"""A stream between two batches: how it begins, how records join its groups, two streams as one.

The first batch fixes how later ones are read. The initial records are kept until there are enough
of them; then they settle the codes of the columns, and are grouped as a table is. Whatever can
refuse a later record happens before a group changes. Numbers are released within the range of the
records that are in groups: those held back do not show in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from tulle._moments import GroupMoments
from tulle._random import as_generator
from tulle._relations.plan import Plan
from tulle._types import Flags, Floats, Ints
from tulle.condense._classes import LabelSchema, refuse_quantity
from tulle.condense._grouping import join_groups
from tulle.condense._levels import able, count_people, level_problems, person_column, too_few_people
from tulle.condense._shaped import Block
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.stream._batches import Batch, fix_scales
from tulle.stream._groups import Scaling
from tulle.stream._held import Growth, Held, HeldBack, with_growing_domains
from tulle.stream._people import GroupMembers, PersonHash, numbered
from tulle.stream._relations import Relations
from tulle.stream._snapshots import Range, ShapeOfNumbers, fit_forms, united_ranges
from tulle.stream._state import StreamState, check_reach, reach_problems
from tulle.table._codecs import first_reasons
from tulle.table._encoder import TableEncoder
from tulle.table._frames import Border
from tulle.table._numbers import is_present
from tulle.table._rare import Crowd
from tulle.table.schema import Column, Kind, Role, Schema, natural_column

if TYPE_CHECKING:
    from tulle.stream.condenser import StreamCondenser

_GROUPING, _FORMS, _RULES = 0, 2, 3  # what derived generators are for
_PART = 10_000  # records looked at together where some of them have a new category


class Checked(NamedTuple):
    """Records that the groups will take."""

    batch: Batch
    matrix: Floats  # encoded, in natural units
    fresh: Mapping[str, Flags]  # by column: which of them have a new category
    people: Ints | None  # a word for each one's person, where people have several records

    def only(self, rows: Ints) -> Checked:
        fresh = {name: flags[rows] for name, flags in self.fresh.items()}
        people = None if self.people is None else self.people[rows]
        return Checked(self.batch.only(rows), self.matrix[rows], fresh, people)


@dataclass(repr=False)
class BatchFormat:
    """How batches of a stream are read, as the first one fixed it."""

    names: list[str]  # of the columns, a condensed target last
    level_column: str | None
    persons: PersonHash | None  # where people have several records
    has_target: bool
    labels: LabelSchema | None  # of the classes, where they are condensed one by one
    border: Border
    strict: bool  # groups split only into halves that hold their largest level
    seed: list[int]


@dataclass(repr=False)
class Beginning(BatchFormat):
    """What the first batch of a stream fixes, and the records until there are enough of them.

    No code is known that could turn them into rows of numbers: they are kept as they came.
    """

    pending: list[Batch] = field(default_factory=list)
    example: list[Batch] = field(default_factory=list)  # one, in types that hold all pending ones

    @classmethod
    def of(cls, stream: StreamCondenser, batch: Batch, schema: Schema) -> Beginning:
        """Begin with a batch, which is still to be added."""
        person = person_column(schema)
        return cls(
            names=batch.frame.columns,
            level_column=next(iter(schema.named(Role.LEVEL)), None),
            persons=None if person is None else PersonHash(person),
            has_target=stream.classwise or batch.border.target is not None,
            labels=batch.labels(None).schema if stream.classwise else None,
            border=batch.border,
            strict=stream.split == "strict",
            seed=as_generator(stream.random_state).integers(0, 2**63, size=4).tolist(),
        )

    @property
    def seen(self) -> int:
        return sum(len(batch) for batch in self.pending)

    @property
    def waiting(self) -> int:
        return self.seen

    def keep(self, stream: StreamCondenser, batch: Batch) -> None:
        """Keep records, which are too few still; a bad one is refused as soon as it arrives."""
        example = Batch.joined([*self.example, batch])
        self._encoder(stream, example, complete=False)
        self.example = [example.part(0, 1)]
        self.pending.append(batch)

    def settled(self, stream: StreamCondenser, initial: Batch) -> tuple[Fitted, Checked]:
        """Return a stream without groups, and the initial records for :meth:`Fitted.start`."""
        encoder = self._encoder(stream, initial, complete=True)
        matrix = encoder.encode(initial.frame)
        told = {name: getattr(self, name) for name in BatchFormat.__dataclass_fields__}
        held = HeldBack(each=1 if self.persons is None else 0)
        fitted = Fitted(**told, encoder=encoder, location=matrix.mean(axis=0), held=held)
        if stream.synthesis == "shape":
            fitted.relations = self._relations(stream, initial, encoder)
        check_reach(fitted.units.standard(matrix))
        if self.labels is not None:
            refuse_quantity(len(fitted.by_class(initial)), len(initial))
        return fitted, Checked(initial, matrix, {}, fitted.words(initial))

    def _encoder(self, stream: StreamCondenser, initial: Batch, *, complete: bool) -> TableEncoder:
        """Fit an encoder for the initial records.

        Unless they are ``complete``, one cannot tell yet whether text has categories.
        """
        frame, border = initial.frame, initial.border
        schema = Schema.of(stream.columns, initial.features, complete=complete)
        schema = schema.weighted(stream.weights)
        for name in schema.named(Role.WEIGHT):
            raise ParameterError(
                f"column '{name}' has the role 'weight', and a stream does not add weights up: the "
                "totals of two snapshots would tell what those weigh who came in between. Give it "
                "the role 'quasi-identifier' to draw it like any other number",
                parameter="columns",
            )
        if self.level_column is not None:
            schema = schema.with_column(Column(self.level_column, Kind.INTEGER, Role.LEVEL))
        if border.target is not None:
            target = natural_column(frame.to_series(-1), Role.TARGET, complete=complete)
            schema = schema.with_column(target)
        schema = with_growing_domains(schema, people=self.persons is not None)
        crowd = self._crowd(initial) if complete else None
        encoder = TableEncoder(schema).fit(
            frame, border.plain(frame), crowd, heaps=stream.synthesis == "shape"
        )
        fix_scales(encoder, stream.scales, border.features(frame))
        return encoder

    def _relations(
        self, stream: StreamCondenser, initial: Batch, encoder: TableEncoder
    ) -> Relations:
        """Find the rules that the initial records follow, in their numbers as they are."""
        crowd = self._crowd(initial)
        if int((initial.levels <= crowd.k).sum()) < 2 * crowd.k:
            return Relations()  # of too few to learn from
        names = list(encoder.codecs)
        plain = TableEncoder(encoder.columns_).fit(initial.frame.select(names), (), crowd)
        people = None if self.persons is None else numbered(self.persons.words(initial.frame))
        block = Block(initial.frame.select(names), initial.levels, people)
        rng = np.random.default_rng([*self.seed, _RULES])
        return Relations.fit(block, plain, stream.rules, max(crowd.k, 2), rng)

    def _crowd(self, initial: Batch) -> Crowd:
        """Count how many people must share what a release shows: as many as anybody asks for."""
        people = None if self.persons is None else self.persons.words(initial.frame)
        number = len(initial) if people is None else len(np.unique(people))
        asked = initial.levels[initial.levels <= number]
        return Crowd.of_kept(int(asked.max(initial=1)), np.ones(len(initial), dtype=bool), people)


@dataclass(repr=False)
class Fitted(BatchFormat):
    """A stream as it is between two batches: what saving, loading and merging carry along.

    It exists once there are enough initial records. Parameters are not part of it.
    """

    encoder: TableEncoder
    location: Floats  # the mean of the initial records
    held: HeldBack
    seen: int = 0
    states: dict[Any, StreamState] = field(default_factory=dict)  # by class
    draws: int = 0  # how many there were
    shown_draw: int = 0  # that of the last snapshot
    shown_ranges: list[Range] | None = None  # of the last snapshot
    forms: dict[str, ShapeOfNumbers] = field(default_factory=dict)  # of columns of numbers
    relations: Relations = field(default_factory=Relations)  # rules between columns

    @property
    def units(self) -> Scaling:
        return Scaling(self.location, self.encoder.scales_)

    @property
    def waiting(self) -> int:
        return len(self.held)

    def classes(self, of: LabelSchema) -> list[Any]:
        if self.labels is None:
            return [None]
        return of.converted(self.labels.of(list(self.states)).domain).to_list()

    def words(self, batch: Batch) -> Ints | None:
        return None if self.persons is None else self.persons.words(batch.frame)

    def by_class(self, batch: Batch) -> list[tuple[Any, Ints]]:
        """Return the records of each class, in the order in which the classes appear."""
        if self.labels is None:
            return [(None, np.arange(len(batch)))]
        labels = batch.labels(self.labels)
        classes, first = np.unique(labels.codes, return_index=True)
        values = labels.schema.domain.to_list()
        return [
            (values[code], np.flatnonzero(labels.codes == code))
            for code in classes[np.argsort(first)].tolist()
        ]

    def state_of(self, label: Any) -> StreamState:
        if label not in self.states:
            people = None if self.persons is None else GroupMembers()
            shared = {"held": self.held, "label": label, "units": self.units}
            self.states[label] = StreamState(
                len(self.location), strict=self.strict, people=people, **shared
            )
        return self.states[label]

    def plan(self) -> Plan:
        return self.relations.plan(self.encoder, list(self.encoder.codecs))

    def generator(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([*self.seed, *purpose])

    def next_draw(self) -> int:
        self.draws += 1
        return self.draws - 1

    def adopt(self, batch: Batch) -> None:
        """Return future releases in the container of this batch."""
        if self.labels is not None:
            schema = batch.labels(None).schema
            schema.converted(self.labels.of(list(self.states)).domain)
            self.labels = schema
        self.border = batch.border

    # -- the way of records into groups ------------------------------------------------------------

    def start(self, records: Checked, method: str, *, forms: bool) -> None:
        """Group the initial records class by class; those that fit in no group are absorbed.

        ``forms``: learn the forms of columns of numbers, too, if classes do not differ in them.
        """
        batch, people, matrix = records.batch, records.people, records.matrix
        numbers, means = np.arange(len(batch)), []
        for label, rows in self.by_class(batch):
            state = self.state_of(label)
            grouped = able(batch.levels[rows], None if people is None else people[rows])
            if grouped.any():
                inside = rows[grouped]
                own = None if people is None else people[inside]
                standard, rng = self.units.standard(matrix[inside]), self.generator(_GROUPING)
                groups, moments = _group_initial(standard, batch.levels[inside], own, rng, method)
                means.append(self.units.natural(moments.means))
                state.start(moments, groups, own)
            left = rows[~grouped]
            own = None if people is None else people[left]
            state.absorb(matrix[left], batch.levels[left], numbers[left], own)
        joined = ~np.isin(numbers, [held.number for held in self.held.records])
        if self.persons is not None and people is not None:
            people = people[joined]
            self.persons.first_seen(people)
        if not joined.all():
            self.encoder.confine(matrix[joined], people)
        for part in means:
            self.encoder.reach(part)
        if forms and self.labels is None:
            rng = self.generator(_FORMS)
            own = None if people is None else numbered(people)
            self.forms = fit_forms(self.encoder, matrix[joined], own, rng)
        self.seen += len(batch)

    def reasons(self, frame: pl.DataFrame) -> dict[int, str]:
        """Return the rows that have a level or a value that the stream does not take, and why."""
        name = self.level_column
        problems = [] if name is None else level_problems(frame[name])
        return first_reasons(problems + self.encoder.problems(frame))

    def checked(self, batch: Batch) -> Checked:
        records = self._encoded(batch)
        check_reach(self.units.standard(records.matrix))
        return records

    def screened(self, batch: Batch) -> tuple[dict[int, str], Checked]:
        """Encode records; return which lie too far away, and the others."""
        with np.errstate(over="ignore"):
            records = self._encoded(batch)
            far = first_reasons(reach_problems(self.units.standard(records.matrix)))
        fine = np.setdiff1d(np.arange(len(batch)), list(far))
        return far, records.only(fine) if far else records

    def _encoded(self, batch: Batch) -> Checked:
        return Checked(batch, *self.encoder.encode_arriving(batch.frame), self.words(batch))

    def admit(self, records: Checked) -> None:
        """Let records join the groups; those with a new category wait for others.

        Where people have several records, new categories are refused, and nobody waits so.
        """
        numbers = self.seen + np.arange(len(records.batch))
        if self.relations.rules and len(numbers):
            self.relations.count(records.batch.frame, self.plan())
        if not records.fresh:
            self._insert(records, numbers)
        else:
            encoder = self.encoder
            for start in range(0, len(numbers), _PART):
                rows = np.arange(start, min(len(numbers), start + _PART))
                known = self.encoder is encoder  # else a domain has grown
                part = records.only(rows) if known else self._encoded(records.batch.only(rows))
                self._take_part(part, numbers[rows])
        self.seen += len(numbers)

    def admit_known(self) -> None:
        """Let those who waited for a category join that the domains have by now, or may have."""
        waited = self.held.for_category()
        self.held.recognise(self.encoder)
        self._join(waited)
        while growth := self.held.due(self.encoder):
            self._grow(growth)

    def _take_part(self, records: Checked, numbers: Ints) -> None:
        """Take records in their order: a domain grows with the record that makes it due."""
        while len(numbers):
            batch, matrix, fresh, _ = records
            waits = np.any([*fresh.values(), np.zeros(len(numbers), dtype=bool)], axis=0)
            stop, growth = len(numbers), None
            for row in np.flatnonzero(waits).tolist():
                number = int(numbers[row])
                held = Held(
                    matrix[row].copy(),
                    int(batch.levels[row]),
                    number,
                    self.by_class(batch.part(row, row + 1))[0][0],
                    number,
                    {name: batch.frame[name][row] for name, rows in fresh.items() if rows[row]},
                )
                self.state_of(held.label)
                growth = self.held.add_unknown(held, self.encoder)
                if growth is not None:
                    stop = row + 1
                    break
            known = np.flatnonzero(~waits[:stop])
            self._insert(records.only(known), numbers[known])
            if growth is not None:
                self._grow(growth)
            rest, numbers = batch.part(stop, len(batch)), numbers[stop:]
            records = self._encoded(rest) if len(numbers) else records

    def _grow(self, growth: Growth) -> None:
        """Add a category to a domain; who waited for it alone joins the groups."""
        waited, before = self.held.for_category(), self.units
        encoder, way = self.held.grow(self.encoder, growth)
        self.encoder = encoder
        if len(way.shift) != len(self.location):
            self.location = before.location @ way.linear + way.shift
            standard = before.way(way, self.units)
            self.states = {
                label: state.moved(standard, self.held, self.units)
                for label, state in self.states.items()
            }
        self._join(waited)

    def _join(self, waited: Sequence[Held]) -> None:
        """Let records join the groups of which some waited for a category, and now do not."""
        numbers = {held.number for held in waited}
        ready = [held for held in self.held.for_group() if held.number in numbers]
        self.held.remove(ready)
        for held in ready:
            before = self.held.for_group()
            matrix, number = held.row[None, :], np.array([held.number])
            self.state_of(held.label).absorb(matrix, np.array([held.level]), number)
            self._note_joined(before, matrix, number, None)

    def _insert(self, records: Checked, numbers: Ints) -> None:
        (batch, matrix, _, people), before = records, self.held.for_group()
        for label, rows in self.by_class(batch):
            own = None if people is None else people[rows]
            self.state_of(label).absorb(matrix[rows], batch.levels[rows], numbers[rows], own)
        self._note_joined(before, matrix, numbers, people)

    def _note_joined(
        self, before: Sequence[Held], matrix: Floats, numbers: Ints, people: Ints | None
    ) -> None:
        """Extend the ranges of numbers by the records that have joined groups.

        ``before`` waited for one. Where people have several records, everybody counts once beyond a
        range, where they came farthest, and once in a form; records that waited count in neither.
        """
        still = {held.number for held in self.held.for_group()}
        joined = matrix[~np.isin(numbers, list(still))] if still else matrix
        late = [held.row for held in before if held.number not in still]
        if self.persons is not None and people is not None:
            people = people[~np.isin(numbers, list(still))]
            self.encoder.widen(joined, people, self.persons.farthest)
            joined = joined[self.persons.first_seen(people)]
        else:
            joined = np.vstack([joined, *late]) if late else joined
            self.encoder.widen(joined)
        for name, form in self.forms.items():
            block = joined[:, self.encoder.slices_[name]]
            alone = block.shape[1] == 1
            self.forms[name] = form.counted(block[:, 0] if alone else block[is_present(block), 0])

    # -- two streams as one ------------------------------------------------------------------------

    def merged(self, other: Fitted) -> Fitted:
        """Return the state of a condenser that has seen both streams, on the scales of this one."""
        self._check_mergeable(other)
        encoder, mine, theirs = self.encoder.merge(other.encoder)
        both = replace(
            self,
            encoder=encoder,
            location=self.location @ mine.linear + mine.shift,
            held=self.held.moved(mine),
            seen=self.seen + other.seen,
            states={},
            # a new one: what one of them draws, the other must not draw again
            seed=np.random.default_rng([*self.seed, *other.seed])
            .integers(0, 2**63, size=len(self.seed))
            .tolist(),
            draws=self.draws + 1,
            shown_draw=self.draws,
            shown_ranges=united_ranges(
                self.encoder, self.shown_ranges, other.encoder, other.shown_ranges
            ),
        )
        theirs_too = {rule.text for rule in other.relations.rules}
        both.relations = replace(
            self.relations, rules=[r for r in self.relations.rules if r.text in theirs_too]
        )
        both.forms = {
            name: form.joined(other.forms[name])
            for name, form in self.forms.items()
            if name in other.forms
        }
        held, units = other.held.moved(theirs, self.seen), both.units
        before = [*both.held.for_group(), *held.for_group()]
        way = self.units.way(mine, units)
        for label, state in self.states.items():
            both.states[label] = state.moved(way, both.held, units)
        way = other.units.way(theirs, units)
        labels = [None] if self.labels is None else other.classes(self.labels)
        for label, state in zip(labels, other.states.values(), strict=True):
            both.state_of(label).take_over(state.moved(way, held, units))
        names = dict(zip(other.states, labels))
        both.held.records += [replace(h, label=names[h.label]) for h in held.records]
        nobody = np.zeros((0, len(both.location)))
        both._note_joined(before, nobody, np.zeros(0, dtype=np.int64), None)
        return both

    def _check_mergeable(self, other: Fitted) -> None:
        if (self.labels is None) != (other.labels is None):
            raise DataError("one stream is condensed class by class and the other is not")
        if self.has_target != other.has_target:
            raise DataError("one stream has a target and the other has none")
        if self.strict != other.strict:
            raise DataError("one stream splits strictly and the other as in the paper")
        if self.persons is not None or other.persons is not None:
            raise DataError(
                "streams that count people cannot be merged, since nobody can tell who is in both: "
                "give the records of both to one stream"
            )


def _group_initial(
    matrix: Floats, levels: Ints, people: Ints | None, rng: np.random.Generator, method: str
) -> tuple[Ints, GroupMoments]:
    """Group the initial records, of one class, and return the groups and their statistics."""
    from tulle.condense.groupings import group_records

    groups = group_records(matrix, levels, rng, method=method)
    if people is not None:
        people = np.unique(people, return_inverse=True)[1]
        short = partial(too_few_people, demands=levels, people=people)
        groups = join_groups(matrix, groups, short)
    moments = GroupMoments.of(matrix, groups, levels)
    if (count_people(groups, people) < moments.levels).any():
        raise PrivacyError("the initial grouping is not valid: nothing is kept")
    return groups, moments
