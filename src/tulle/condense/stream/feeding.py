"""The way of records into the groups: collected, encoded, standardised, sorted by class.

Everything that can refuse a record happens before a group changes.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tulle.condense.joint import JointEncoder
from tulle.condense.stream.batches import Batch, encode, fit_encoder, widen
from tulle.condense.stream.ranges import Range
from tulle.condense.stream.scales import fix_scales
from tulle.condense.stream.state import StreamState, check_reach
from tulle.errors import PrivacyError
from tulle.moments import Floats, GroupMoments, Ints
from tulle.random import RandomState, as_generator
from tulle.tables.encoder import TableEncoder
from tulle.tables.frames import Container
from tulle.tables.schema import Column

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
    _shared: TableEncoder | None = None  # a fitted encoder that parts of a table share
    _fresh_container = False  # loaded from a file: the kind of table is not known yet

    def _begin(self, batch: Batch, columns: Sequence[Column]) -> None:
        self._names = list(batch.cells)
        self._has_target = batch.target is not None
        self._target_container: Container | None = batch.target_container
        self._target_name = next(iter(batch.target)) if batch.target else ""
        self._encoder = JointEncoder(columns, self.weights, self._shared)
        self._states: dict[Any, StreamState] = {}
        self._pending: list[Batch] | None = []
        self._shown_ranges: list[Range] | None = None  # of the last snapshot
        self._seed = as_generator(self.random_state).integers(0, 2**63, size=4).tolist()
        self._draws = 0
        self.n_seen_ = 0

    def _collect(self, batch: Batch) -> None:
        """Keeps records until the initial batch is complete, then starts the groups."""
        assert self._pending is not None
        wanted = self._initial_size
        if sum(len(part) for part in self._pending) + len(batch) < wanted:
            self._try(Batch.joined([*self._pending[:1], batch]))
            self._pending.append(batch.detached())
            return
        collected = Batch.joined([*self._pending, batch])
        initial, rest = collected.part(0, wanted), collected.part(wanted, len(collected))
        encoder = self._try(initial)
        matrix = encode(encoder, initial)
        location = matrix.mean(axis=0)
        matrix = _standardised(matrix, location, encoder.scales)
        later = _standardised(encode(encoder, rest), location, encoder.scales)
        self._encoder, self._location, self._pending = encoder, location, None
        self._start(initial, matrix)
        self._insert(rest, later, wanted)
        widen(encoder, rest)

    def _try(self, initial: Batch) -> JointEncoder:
        """An encoder fitted to initial records: a bad one is refused as soon as it comes."""
        encoder = copy.deepcopy(self._encoder)
        fit_encoder(encoder, initial, with_target=not self.classwise)
        fix_scales(encoder.features, self.scales)
        return encoder

    def _start(self, initial: Batch, matrix: Floats) -> None:
        """Static groups of the initial records, class by class; who fits in none is absorbed."""
        numbers = np.arange(len(initial))
        for label, rows in self._by_class(initial):
            state = self._state_of(label)
            grouped = _largest_feasible(initial.levels[rows])
            if grouped.any():
                inside = rows[grouped]
                state.start(self._grouped(matrix[inside], initial.levels[inside]))
            left = rows[~grouped]
            state.absorb(matrix[left], initial.levels[left], numbers[left])

    def _grouped(self, matrix: Floats, levels: Ints) -> GroupMoments:
        from tulle.condense.groupings import group_records

        groups = group_records(matrix, levels, self._generator(_GROUPING), method=self.grouping)
        moments = GroupMoments.of(matrix, groups, levels)
        if (moments.counts < moments.levels).any():
            raise PrivacyError("the initial grouping is not valid: nothing is kept")
        return moments

    def _absorb(self, batch: Batch, number: int) -> None:
        if self._fresh_container:
            self._encoder.features._container = batch.container
            self._target_container = batch.target_container
            self._fresh_container = False
        self._insert(batch, self._encoded(batch), number)
        widen(self._encoder, batch)

    def _encoded(self, batch: Batch) -> Floats:
        """Records as the groups see them; refuses those that do not fit the initial ones."""
        matrix = encode(self._encoder, batch)
        return _standardised(matrix, self._location, self._encoder.scales)

    def _insert(self, batch: Batch, matrix: Floats, number: int) -> None:
        numbers = number + np.arange(len(batch))
        for label, rows in self._by_class(batch):
            self._state_of(label).absorb(matrix[rows], batch.levels[rows], numbers[rows])

    def _by_class(self, batch: Batch) -> list[tuple[Any, Ints]]:
        if not self.classwise:
            return [(None, np.arange(len(batch)))]
        places: dict[Any, list[int]] = {}
        for place, label in enumerate(batch.classes()):
            places.setdefault(label, []).append(place)
        return [(label, np.array(rows)) for label, rows in places.items()]

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


def _standardised(matrix: Floats, location: Floats, scales: Floats) -> Floats:
    standardised: Floats = (matrix - location) / scales
    check_reach(standardised)
    return standardised
