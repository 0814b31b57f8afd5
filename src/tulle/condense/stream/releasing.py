"""Pseudo-data of a stream at any moment: all groups as they are, or what may be shown again."""

from __future__ import annotations

from typing import Any

from sklearn.exceptions import NotFittedError

from tulle.checks import check_int
from tulle.condense.joint import JointEncoder
from tulle.condense.stream.described import Described
from tulle.condense.stream.drawing import draw
from tulle.condense.stream.exclusive import alone, check_whole
from tulle.condense.stream.feeding import DRAWING, Feeding
from tulle.condense.stream.groups import Groups
from tulle.condense.stream.ranges import confined, next_ranges
from tulle.condense.stream.snapshots import Change
from tulle.errors import PrivacyError


class Releasing(Feeding, Described):
    """What leaves a stream condenser."""

    synthesis: str

    @alone
    def sample(self, n_samples: int | None = None) -> Any:
        """New records, in random order: as many as are condensed, or ``n_samples``.

        Returns the kind of table that came in, and a pair ``(X_new, y_new)`` if there is a
        target.
        """
        self._require_groups()
        _check_size("sample", n_samples)
        shown = [state.groups for state in self._states.values()]
        return self._drawn(shown, n_samples, self._encoder, self._next_draw())

    @alone
    def snapshot(self, n_samples: int | None = None) -> Any:
        """New records that may leave beside earlier snapshots, as many as are shown or so many.

        A group's statistics are shown anew only when as many records have joined it, or what has
        split off it, as the largest level in it asks for; then their sum is added to what was
        shown, and the result is split anew. The difference between two snapshots speaks of a valid
        group of newcomers, never of one of them. While records are held back, ranges of numbers
        grow only as far as the means of groups shown anew. Where there is nothing new to show, the
        records are the very ones of the snapshot before.
        """
        self._require_groups()
        _check_size("snapshot", n_samples)
        parts = [state.publish() for state in self._states.values()]
        shown, arrived, changes = (list(part) for part in zip(*parts, strict=True))
        self.last_change_ = Change.total(changes)
        if self.split == "strict" and self.last_change_.small:
            raise PrivacyError(
                f"{self.last_change_.small} groups of the snapshot are smaller than a level in "
                "them: not released"
            )
        before = self._shown_ranges
        known = before if self.last_change_.held_back else None
        self._shown_ranges = next_ranges(self._encoder, known, arrived, self._location)
        if self.last_change_.fresh or self._shown_ranges != before:
            self._shown_draw = self._next_draw()
        ranges = confined(self._encoder, self._shown_ranges)
        return self._drawn(shown, n_samples, ranges, self._shown_draw)

    def _require_groups(self) -> None:
        if not hasattr(self, "n_seen_"):
            raise NotFittedError("this StreamCondenser has seen nothing yet: call partial_fit")
        check_whole(self)
        for state in self._states.values():
            state.check()
        if not any(len(state.groups) for state in self._states.values()):
            raise PrivacyError(
                f"no group exists yet: {self.n_waiting_} records wait for the initial "
                f"{self._initial_size}, or for enough records of their level; nothing is released"
            )

    def _next_draw(self) -> int:
        """The number of a draw that was not made yet."""
        self._draws += 1
        return self._draws - 1

    def _drawn(
        self, shown: list[Groups], n_samples: int | None, encoder: JointEncoder, number: int
    ) -> Any:
        table, owners = draw(
            encoder,
            self._location,
            shown,
            self._generator(DRAWING, number),
            distribution=self.synthesis,
            n_samples=n_samples,
        )
        if self._labels is None:
            return table
        return table, self._labels.of(list(self._states)).restore(owners)


def _check_size(owner: str, n_samples: int | None) -> None:
    if n_samples is not None:
        check_int(owner, "n_samples", n_samples, 1)
