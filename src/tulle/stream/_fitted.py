"""What a fitted stream keeps between two batches, and two streams as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tulle._types import Floats, Ints
from tulle.condense._classes import LabelSchema
from tulle.errors import DataError
from tulle.stream._batches import Aside, Batch
from tulle.stream._newcomers import Growth, Newcomers
from tulle.stream._people import GroupMembers, PersonHash
from tulle.stream._ranges import Range, united_ranges
from tulle.stream._state import StreamState
from tulle.table._codecs import Affine
from tulle.table._encoder import TableEncoder
from tulle.table._frames import Border


@dataclass(repr=False)
class BatchFormat:
    """How batches of a stream are read, as the first one fixed it."""

    names: list[str]  # of the columns, a condensed target last
    level_column: str | None
    persons: PersonHash | None  # where people have several records
    has_target: bool
    labels: LabelSchema | None  # of the classes, where they are condensed one by one
    border: Border


@dataclass(repr=False)
class Fitted(BatchFormat):
    """A stream as it is between two batches: what saving, loading and merging carry along.

    It exists once there are enough initial records. Parameters are not part of it.
    """

    seen: int
    encoder: TableEncoder
    location: Floats  # the mean of the initial records
    states: dict[Any, StreamState]  # by class
    aside: Aside
    newcomers: Newcomers  # who wait for a category
    strict: bool  # groups split only into halves that hold their largest level
    seed: list[int]
    draws: int  # how many there were
    shown_draw: int  # that of the last snapshot
    shown_ranges: list[Range] | None  # of the last snapshot

    def classes(self, of: LabelSchema) -> list[Any]:
        """Return the classes in the type that they have in the schema."""
        if self.labels is None:
            return [None]
        return of.converted(self.labels.of(list(self.states)).domain).to_list()

    def standardised(self, matrix: Floats) -> Floats:
        """Return encoded records as the groups see them."""
        standard: Floats = (matrix - self.location) / self.encoder.scales_
        return standard

    def words(self, batch: Batch) -> Ints | None:
        """Return a word for the person of each record, where people have several."""
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
        """Return the groups of a class, which may be a new one."""
        if label not in self.states:
            people = None if self.persons is None else GroupMembers()
            self.states[label] = StreamState(len(self.location), strict=self.strict, people=people)
        return self.states[label]

    def waiting_numbers(self) -> list[int]:
        """Return the numbers, in the stream, of the records that wait for a group."""
        return _waiting_numbers(self.states)

    @property
    def waiting(self) -> int:
        """Return how many records wait, for a group or for a category."""
        return sum(len(state.waiting) for state in self.states.values()) + len(self.newcomers)

    def generator(self, *purpose: int) -> np.random.Generator:
        """Derive a generator from the seed of the stream."""
        return np.random.default_rng([*self.seed, *purpose])

    def next_draw(self) -> int:
        """Return the number of the next draw."""
        self.draws += 1
        return self.draws - 1

    def adopt(self, batch: Batch) -> None:
        """Return future releases in the container of this batch."""
        if self.labels is not None:
            schema = batch.labels(None).schema
            schema.converted(self.labels.of(list(self.states)).domain)
            self.labels = schema
        self.border = batch.border

    def grow(self, growth: Growth) -> None:
        """Add a category to a domain, which those who waited for it now have."""
        encoder, way = self.newcomers.grow(self.encoder, growth)
        if len(way.shift) != len(self.location):
            location = self.location @ way.linear + way.shift
            standard = _standardised(way, self, encoder.scales_, location)
            self.states = {label: state.moved(standard, 0) for label, state in self.states.items()}
            self.aside = self.aside.moved(way, 0)
            self.location = location
        self.encoder = encoder

    def give_back(self, waiting: Sequence[dict[str, Any]], matrix: Floats) -> None:
        """Put waiting records back where they were.

        Each is ``{"state": place, "number": ..., "level": ...}`` with a row of the matrix, and
        ``"person"`` where people have several records.
        """
        states = list(self.states.values())
        standard = self.standardised(matrix)
        for waiter, row, record in zip(waiting, matrix, standard, strict=True):
            state = states[waiter["state"]]
            state.waiting.add(record, waiter["level"], waiter["number"], waiter.get("person"))
            self.aside.rows[waiter["number"]] = np.array(row)

    def merged(self, other: Fitted) -> Fitted:
        """Return the state of a condenser that has seen both streams, on the scales of this one."""
        self._check_mergeable(other)
        encoder, mine, theirs = self.encoder.merge(other.encoder)
        location = self.location @ mine.linear + mine.shift
        ways = [
            _standardised(way, part, encoder.scales_, location)
            for way, part in ((mine, self), (theirs, other))
        ]
        states = {label: state.moved(ways[0], 0) for label, state in self.states.items()}
        labels = [None] if self.labels is None else other.classes(self.labels)
        for label, state in zip(labels, other.states.values(), strict=True):
            if label not in states:
                states[label] = StreamState(len(location), strict=state.strict)
            states[label].take_over(state.moved(ways[1], self.seen))
        aside = self.aside.moved(mine, 0)
        aside.rows |= other.aside.moved(theirs, self.seen).rows
        seen = self.seen + other.seen
        numbers = _waiting_numbers(states)
        nobody = np.zeros((0, len(location)))
        encoder.widen(aside.exchange(numbers, nobody, np.zeros(0, dtype=np.int64)))
        newcomers = Newcomers()
        for part, way, after in ((self, mine, 0), (other, theirs, self.seen)):
            came = Newcomers(part.newcomers.people)
            came.move(way, after)
            newcomers.people += came.people
        ranges = united_ranges(self.encoder, self.shown_ranges, other.encoder, other.shown_ranges)
        return replace(
            self,
            seen=seen,
            encoder=encoder,
            location=location,
            states=states,
            aside=aside,
            newcomers=newcomers,
            seed=self._seed_of_both(other),
            draws=self.draws + 1,
            shown_draw=self.draws,
            shown_ranges=ranges,
        )

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

    def _seed_of_both(self, other: Fitted) -> list[int]:
        """Derive a new seed: what one of them draws, the other must not draw again."""
        words = np.random.default_rng([*self.seed, *other.seed])
        both: list[int] = words.integers(0, 2**63, size=len(self.seed)).tolist()
        return both


def _waiting_numbers(states: dict[Any, StreamState]) -> list[int]:
    """Return the numbers, in the stream, of the records that wait."""
    return sorted(waiter.number for state in states.values() for waiter in state.waiting.waiters)


def _standardised(way: Affine, part: Fitted, scales: Floats, location: Floats) -> Affine:
    """Convert a map between natural units to one between the standardised units of two streams."""
    shift = part.location @ way.linear + way.shift - location
    return Affine(part.encoder.scales_[:, None] * way.linear / scales, shift / scales)
