"""Exact values: does the release hold the very numbers of people?

A release that hands out people's own numbers tells who was in the data, though no record of theirs
stands in it as a whole: trees with leaves of any size do, if they draw from the values of a leaf.
The *collector* looks for a number that only one person has. Guessing is what the neighbourhood of
the number says: of the other numbers there that the column could hold and nobody has, the share
that stands in the release.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tulle._attacks.records import Records
from tulle._attacks.result import AttackResult
from tulle._types import Flags, Floats, Ints

_ODD = 1_000_003
_ROOM = 4.0  # numbers nobody has, next to one's own: with fewer, finding the own one means little


def exact_values(
    original: Floats,
    release: Floats,
    units: Floats,
    rng: np.random.Generator,
    *,
    control: Floats | None = None,
    attempts: int = 1000,
    people: Sequence[Ints | None] = (None, None),
) -> AttackResult | None:
    """Look in the release for one number of each person that nobody else in the data has.

    ``original``, ``release``, ``control`` (n, p): numbers in their own units, NaN where missing.
    ``units`` (p,): what the numbers of each column are multiples of, or 0 where they are as fine as
    floats are. ``people`` (pair of (n,) or None): the person of each record of the original and of
    the control, where people have several. None if hardly anybody has a number of their own.
    """
    inside, outside = people
    columns = [
        _SharedNumbers(*column, inside) for column in zip(original.T, release.T, units.tolist())
    ]
    if not columns:
        return None
    right, guessed, whose = _found(columns, original, inside, rng, attempts, own=True)
    if not len(right):
        return None
    strange, strangers = None, None
    if control is not None:
        strange, _, strangers = _found(columns, control, outside, rng, attempts, own=False)
    return AttackResult.of(
        "exact_values",
        right,
        guessed.sum(),
        strange,
        people=whose,
        strangers=strangers,
        story="Anybody who reads the release and knows a number that only one person has. Right "
        "if that very number stands in its column; guessing is how many of the numbers next to "
        "it, which nobody has, stand there.",
    )


class _SharedNumbers:
    """The numbers of a column that the original and the release hold."""

    def __init__(self, original: Floats, release: Floats, unit: float, people: Ints | None) -> None:
        there = np.isfinite(original)
        if people is None:
            self.held, self.times = np.unique(original[there], return_counts=True)
        else:  # by how many people each is held
            pairs = np.unique(np.stack([original[there], people[there]], axis=1), axis=0)
            self.held, self.times = np.unique(pairs[:, 0], return_counts=True)
        self.released = np.unique(release[np.isfinite(release)])
        self.unit = unit

    def is_own(self, values: Floats, own: bool) -> np.ndarray:
        """Return who has a number that one person has (``own``), or that nobody has."""
        if len(self.held) < 3:
            return np.zeros(len(values), dtype=bool)
        place = np.clip(np.searchsorted(self.held, values), 0, len(self.held) - 1)
        there = self.held[place] == values
        fits = there & (self.times[place] == 1) if own else ~there
        # beyond the ends there is no neighbourhood to compare with
        inside = (values > self.held[0]) & (values < self.held[-1])
        return np.asarray(fits & inside & (self._room(values)[0] >= _ROOM))

    def look(self, values: Floats) -> tuple[np.ndarray, Floats]:
        """Return whether the release holds each number, and the share of its neighbours there."""
        room, released = self._room(values)
        there = np.isin(values, self.released)
        return there, np.clip((released - there) / np.maximum(room, 1.0), 0.0, 1.0)

    def _room(self, values: Floats) -> tuple[Floats, Ints]:
        """Return how many numbers lie between the neighbours, and how many of them are released."""
        last = len(self.held) - 1
        below = self.held[np.clip(np.searchsorted(self.held, values, "left") - 1, 0, last)]
        above = self.held[np.clip(np.searchsorted(self.held, values, "right"), 0, last)]
        width = above - below
        room = width / self.unit - 2.0 if self.unit else np.where(width > 0, 1e9, 0.0)
        first = np.searchsorted(self.released, below, "right")
        return room, np.maximum(np.searchsorted(self.released, above, "left") - first, 0)


def _found(
    columns: list[_SharedNumbers],
    numbers: Floats,
    people: Ints | None,
    rng: np.random.Generator,
    attempts: int,
    *,
    own: bool,
) -> tuple[Flags, Floats, Ints | None]:
    """Look for one number of some people: which are there, how many by chance, and which it is.

    Whether a number is there does not depend on who has it: where the same people are tried in
    several releases, the number is what counts once.
    """
    rows = Records.of_numbers(numbers, people=people).sample(attempts, rng)
    tried = numbers[rows]
    fit = np.stack([c.is_own(tried[:, place], own) for place, c in enumerate(columns)], axis=1)
    lots = np.where(fit, rng.random(fit.shape), -1.0).argmax(axis=1)
    right = np.zeros(len(rows), dtype=bool)
    chance = np.zeros(len(rows))
    for place, column in enumerate(columns):
        mine = fit.any(axis=1) & (lots == place)
        right[mine], chance[mine] = column.look(tried[mine, place])
    some = fit.any(axis=1)
    if people is None:
        return right[some], chance[some], None
    numbers = tried[np.flatnonzero(some), lots[some]] + 0.0
    return right[some], chance[some], numbers.view(np.int64) * _ODD + lots[some]
