"""The beginning of a stream: what its first batch fixes, and what the initial records settle.

They are kept until there are enough of them; then they settle the codes of the columns, and are
grouped as a table is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tulle._moments import GroupMoments
from tulle._random import as_generator
from tulle._types import Floats, Ints
from tulle.condense._classes import refuse_quantity
from tulle.condense._joining import join_groups
from tulle.condense._people import count_people, person_column, too_few_people
from tulle.errors import PrivacyError
from tulle.stream._admission import Checked
from tulle.stream._batches import Aside, Batch, fix_scales
from tulle.stream._fitted import BatchFormat, Fitted
from tulle.stream._newcomers import Newcomers, with_growing_domains
from tulle.stream._people import PersonHash
from tulle.stream._state import check_reach
from tulle.table._encoder import TableEncoder
from tulle.table._rare import Crowd
from tulle.table.schema import Column, Kind, Role, Schema, natural_column

if TYPE_CHECKING:
    from tulle.stream.condenser import StreamCondenser

_GROUPING = 0  # what a derived generator is for


@dataclass(repr=False)
class Beginning(BatchFormat):
    """What the first batch of a stream fixes, and the records until there are enough of them."""

    strict: bool
    seed: list[int]
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
        """Return how many records have come."""
        return sum(len(batch) for batch in self.pending)

    @property
    def waiting(self) -> int:
        """Return how many records wait, which are all of them."""
        return self.seen

    def keep(self, stream: StreamCondenser, batch: Batch) -> None:
        """Keep records, which are too few still; a bad one is refused as soon as it arrives."""
        example = Batch.joined([*self.example, batch])
        self._encoder(stream, example, complete=False)
        self.example = [example.part(0, 1)]
        self.pending.append(batch)

    def settled(self, stream: StreamCondenser, initial: Batch) -> tuple[Fitted, Checked]:
        """Return a stream without groups, and the initial records for :func:`start`."""
        encoder = self._encoder(stream, initial, complete=True)
        matrix = encoder.encode(initial.frame)
        fitted = Fitted(
            seen=0,
            names=self.names,
            level_column=self.level_column,
            persons=self.persons,
            has_target=self.has_target,
            labels=self.labels,
            border=self.border,
            encoder=encoder,
            location=matrix.mean(axis=0),
            states={},
            aside=Aside(),
            newcomers=Newcomers(),
            strict=self.strict,
            seed=self.seed,
            draws=0,
            shown_draw=0,
            shown_ranges=None,
        )
        check_reach(fitted.standardised(matrix))
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

    def _crowd(self, initial: Batch) -> Crowd:
        """Return how many people must share what a release shows: as many as anybody asks for."""
        people = None if self.persons is None else self.persons.words(initial.frame)
        number = len(initial) if people is None else len(np.unique(people))
        asked = initial.levels[initial.levels <= number]
        return Crowd.of_kept(int(asked.max(initial=1)), np.ones(len(initial), dtype=bool), people)


def start(fitted: Fitted, records: Checked, method: str) -> None:
    """Group the initial records class by class; those that fit in no group are absorbed."""
    batch, people = records.batch, records.people
    standard = fitted.standardised(records.matrix)
    numbers = np.arange(len(batch))
    means = []
    for label, rows in fitted.by_class(batch):
        state = fitted.state_of(label)
        own = None if people is None else people[rows]
        grouped = _largest_feasible(batch.levels[rows], own)
        if grouped.any():
            inside = rows[grouped]
            groups, moments = _group_initial(
                standard[inside],
                batch.levels[inside],
                None if own is None else own[grouped],
                fitted.generator(_GROUPING),
                method,
            )
            means.append(moments.means * fitted.encoder.scales_ + fitted.location)
            state.start(moments, groups, None if people is None else people[inside])
        left = rows[~grouped]
        own = None if people is None else people[left]
        state.absorb(standard[left], batch.levels[left], numbers[left], own)
    _settle_ranges(fitted, records, numbers)
    for part in means:
        fitted.encoder.reach(part)
    fitted.seen += len(batch)


def _settle_ranges(fitted: Fitted, records: Checked, numbers: Ints) -> None:
    """Confine the ranges of numbers to the records that are in groups."""
    people, waiting = records.people, fitted.waiting_numbers()
    joined = fitted.aside.exchange(waiting, records.matrix, numbers)
    if fitted.persons is not None and people is not None:
        people = np.delete(people, waiting)
        fitted.persons.first_seen(people)
    if len(joined) < len(numbers):
        fitted.encoder.confine(joined, people)


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


def _largest_feasible(levels: Ints, people: Ints | None = None) -> Any:
    """Return which records a valid grouping can hold; the most demanding ones are left out."""
    order = np.argsort(-levels, kind="stable")
    left = len(levels) - np.arange(len(levels))
    if people is not None:  # how many different people are left
        last = np.zeros(len(levels), dtype=np.int64)
        last[len(levels) - 1 - np.unique(people[order][::-1], return_index=True)[1]] = 1
        left = last[::-1].cumsum()[::-1]
    enough = levels[order] <= left
    kept = np.zeros(len(levels), dtype=bool)
    if enough.any():
        kept[order[np.argmax(enough) :]] = True
    return kept
