"""What can be read from a stream condenser at any moment; all of it is statistics."""

from __future__ import annotations

from typing import Any

import numpy as np

from tulle.condense.classes import LabelSchema
from tulle.condense.joint import JointEncoder
from tulle.condense.notes import privacy_notes
from tulle.condense.stream.batches import Batch
from tulle.condense.stream.drawing import stacked
from tulle.condense.stream.state import StreamState
from tulle.condense.synthesis import count_degenerate
from tulle.moments import Floats, GroupMoments, Ints


class Described:
    """Fitted attributes, computed from the states of all classes when they are asked for."""

    n_seen_: int
    n_features_in_: int
    _labels: LabelSchema | None
    _states: dict[Any, StreamState]
    _pending: list[Batch] | None
    _encoder: JointEncoder
    _location: Floats

    @property
    def counts_(self) -> Ints:
        return self._whole_numbers("counts")

    @property
    def levels_(self) -> Ints:
        return self._whole_numbers("levels")

    @property
    def means_(self) -> Floats:
        means = self._moments.means
        return means * self._encoder.scales + self._location if self._states else means

    @property
    def covariances_(self) -> Floats:
        covariances = self._moments.covariances
        if not self._states:
            return covariances
        scales = self._encoder.scales
        return covariances * scales[:, None] * scales

    @property
    def n_waiting_(self) -> int:
        self._require_seen()
        pending = 0 if self._pending is None else sum(len(batch) for batch in self._pending)
        return pending + sum(len(state.waiting) for state in self._states.values())

    @property
    def n_small_(self) -> int:
        return int((self.counts_ < self.levels_).sum())

    @property
    def n_verbatim_(self) -> int:
        return int((self.counts_ == 1).sum())

    @property
    def n_degenerate_(self) -> int:
        return count_degenerate(self._moments)

    @property
    def notes_(self) -> list[str]:
        notes = privacy_notes(self)
        if self.n_small_:
            notes.append(
                f"{self.n_small_} of {len(self.counts_)} groups have fewer members than the "
                "largest level in them, because their statistics were split; split='strict' "
                "prevents it"
            )
        if self.n_waiting_:
            notes.append(f"{self.n_waiting_} records wait for enough others and are not released")
        return notes

    @property
    def classes_(self) -> list[Any]:
        return [] if self._labels is None else list(self._states)

    @property
    def class_counts_(self) -> list[int]:
        return [] if self._labels is None else [s.condensed for s in self._states.values()]

    @property
    def history_(self) -> list[dict[str, Any]]:
        self._require_seen()
        shown = ("seen", "groups", "waiting", "drift")
        rows = []
        for label, state in self._states.items():
            named = {} if self._labels is None else {"class": label}
            rows += [named | {name: row[name] for name in shown} for row in state.history.rows]
        return rows

    def waiting_numbers(self) -> list[int]:
        """Which records wait, by their number in the stream: where to find them again."""
        states = self._states.values()
        return sorted(waiter.number for state in states for waiter in state.waiting.waiters)

    def _whole_numbers(self, name: str) -> Ints:
        """One of the arrays of all groups, without the cost of their scatters."""
        self._require_seen()
        parts = [getattr(state.groups.view(), name) for state in self._states.values()]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])

    @property
    def _moments(self) -> GroupMoments:
        self._require_seen()
        states = list(self._states.values()) or [StreamState(self.n_features_in_)]
        return stacked([state.groups.moments() for state in states])

    def _require_seen(self) -> None:
        if not hasattr(self, "n_seen_"):
            raise AttributeError("this StreamCondenser has seen nothing yet: call partial_fit")
