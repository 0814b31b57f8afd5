"""The way of records into the groups: collected, encoded, standardised, sorted by class.

Everything that can refuse a record happens before a group changes. Numbers are released within the
range of the records that are in groups: those who wait do not show in it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tulle.condense.classes import refuse_quantity
from tulle.condense.joint import JointEncoder
from tulle.condense.stream.batches import Batch, encode, fit_encoder
from tulle.condense.stream.exclusive import changing
from tulle.condense.stream.ranges import Range
from tulle.condense.stream.scales import fix_scales
from tulle.condense.stream.state import StreamState, check_reach
from tulle.condense.stream.waiting import Aside
from tulle.errors import PrivacyError
from tulle.moments import Floats, GroupMoments, Ints
from tulle.random import RandomState, as_generator
from tulle.tables.schema import Column, Role

_GROUPING, DRAWING = 0, 1  # what a derived generator is for


class Feeding:
    """What ``partial_fit`` does with a batch that was checked."""

    k: int
    init_size: int | None
    split: str
    grouping: str
    classwise: bool
    scales: Mapping[str, float] | Sequence[float] | None
    weights: Mapping[str, float] | Sequence[float] | None
    random_state: RandomState
    n_seen_: int
    waiting_numbers: Callable[[], list[int]]
    _fresh_container = False  # loaded from a file: the kind of table is not known yet
    _cut_off = False  # a batch was interrupted while groups changed
    _level_column: str | None = None

    def _begin(self, batch: Batch, columns: Sequence[Column]) -> None:
        self._names = list(batch.cells)
        levels = (column.name for column in columns if column.role is Role.LEVEL)
        self._level_column = next(levels, None)
        self._has_target = batch.target is not None
        self._fixed = self.split, self.classwise
        self._labels = batch.labels(None).schema if self.classwise else None
        self._encoder = JointEncoder(columns, self.weights)
        self._states: dict[Any, StreamState] = {}
        self._pending: list[Batch] | None = []
        self._example: list[Batch] = []  # a record, in the types that hold all pending ones
        self._aside = Aside()
        self._shown_ranges: list[Range] | None = None  # of the last snapshot
        self._seed = as_generator(self.random_state).integers(0, 2**63, size=4).tolist()
        self._draws = self._shown_draw = 0  # how many there were; that of the last snapshot
        self.n_seen_ = 0
        self._cut_off = False

    def _collect(self, batch: Batch) -> None:
        """Keeps records until the initial batch is complete, then starts the groups."""
        assert self._pending is not None
        wanted = self._initial_size
        example = Batch.joined([*self._example, batch])
        if sum(len(part) for part in self._pending) + len(batch) < wanted:
            self._fitted(example, complete=False)
            with changing(self):
                self._example = [example.part(0, 1).detached()]
                self._pending.append(batch.detached())
                self.n_seen_ += len(batch)
            return
        collected = Batch.joined([*self._pending, batch])
        initial, rest = collected.part(0, wanted), collected.part(wanted, len(collected))
        encoder = self._fitted(initial, complete=True)
        matrix, later = encode(encoder, initial), encode(encoder, rest)
        location = matrix.mean(axis=0)
        standards = [(part - location) / encoder.scales for part in (matrix, later)]
        for standard in standards:
            check_reach(standard)
        if self._labels is not None:
            refuse_quantity(len(self._by_class(initial)), len(initial))
        with changing(self):
            self._encoder, self._location = encoder, location
            self._pending, self._example = None, []
            self._start(initial, matrix, standards[0])
            self._insert(rest, later, standards[1], wanted)
            self.n_seen_ += len(batch)

    def _fitted(self, initial: Batch, *, complete: bool) -> JointEncoder:
        """An encoder for initial records; a bad one is refused as soon as it comes."""
        encoder = copy.deepcopy(self._encoder)
        fit_encoder(encoder, initial, with_target=self._labels is None, complete=complete)
        fix_scales(encoder.features, self.scales)
        return encoder

    def _start(self, initial: Batch, matrix: Floats, standard: Floats) -> None:
        """Static groups of the initial records, class by class; who fits in none is absorbed."""
        numbers = np.arange(len(initial))
        for label, rows in self._by_class(initial):
            state = self._state_of(label)
            grouped = _largest_feasible(initial.levels[rows])
            if grouped.any():
                inside = rows[grouped]
                state.start(self._grouped(standard[inside], initial.levels[inside]))
            left = rows[~grouped]
            state.absorb(standard[left], initial.levels[left], numbers[left])
        joined = self._aside.exchange(self.waiting_numbers(), matrix, 0)
        if len(joined) < len(matrix):
            self._encoder.confine(joined)

    def _grouped(self, matrix: Floats, levels: Ints) -> GroupMoments:
        from tulle.condense.groupings import group_records

        groups = group_records(matrix, levels, self._generator(_GROUPING), method=self.grouping)
        moments = GroupMoments.of(matrix, groups, levels)
        if (moments.counts < moments.levels).any():
            raise PrivacyError("the initial grouping is not valid: nothing is kept")
        return moments

    def _absorb(self, batch: Batch) -> None:
        """Condenses a batch that comes after the initial records."""
        matrix = encode(self._encoder, batch)
        standard = self._standardised(matrix)
        check_reach(standard)
        with changing(self):
            if self._fresh_container:
                self._adopt_container(batch)
            self._insert(batch, matrix, standard, self.n_seen_)
            self.n_seen_ += len(batch)

    def _adopt_container(self, batch: Batch) -> None:
        """Releases are from now on of the kind of this batch."""
        if self._labels is not None:
            schema = batch.labels(None).schema
            schema.converted(self._labels.of(list(self._states)).domain)
            self._labels = schema
        self._encoder.features._container = batch.container
        self._fresh_container = False

    def _insert(self, batch: Batch, matrix: Floats, standard: Floats, number: int) -> None:
        """Lets checked records join the groups."""
        numbers = number + np.arange(len(batch))
        for label, rows in self._by_class(batch):
            self._state_of(label).absorb(standard[rows], batch.levels[rows], numbers[rows])
        self._note_joined(matrix, number)

    def _note_joined(self, matrix: Floats, number: int) -> None:
        """Lets the ranges of numbers grow by those who are in groups now."""
        self._encoder.widen(self._aside.exchange(self.waiting_numbers(), matrix, number))

    def _standardised(self, matrix: Floats) -> Floats:
        """Records as the groups see them."""
        standardised: Floats = (matrix - self._location) / self._encoder.scales
        return standardised

    def _by_class(self, batch: Batch) -> list[tuple[Any, Ints]]:
        """The records of each class, in the order in which the classes appear."""
        if self._labels is None:
            return [(None, np.arange(len(batch)))]
        labels = batch.labels(self._labels)
        classes, first = np.unique(labels.codes, return_index=True)
        values = labels.schema.domain.to_list()
        return [
            (values[code], np.flatnonzero(labels.codes == code))
            for code in classes[np.argsort(first)].tolist()
        ]

    def _state_of(self, label: Any) -> StreamState:
        if label not in self._states:
            dimensions = len(self._encoder.scales)
            self._states[label] = StreamState(dimensions, strict=self.split == "strict")
        return self._states[label]

    @property
    def _initial_size(self) -> int:
        return 10 * self.k if self.init_size is None else self.init_size

    def _generator(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([*self._seed, *purpose])


def _largest_feasible(levels: Ints) -> Any:
    """Which of some records a valid grouping can hold; the most demanding ones are left out."""
    order = np.argsort(-levels, kind="stable")
    enough = levels[order] <= len(levels) - np.arange(len(levels))
    kept = np.zeros(len(levels), dtype=bool)
    if enough.any():
        kept[order[np.argmax(enough) :]] = True
    return kept
