"""Effects: does a regression find in the release what it clearly finds in the original?

An analyst regresses a number on the other columns and reads off what is significant. Each number
is regressed so in both tables, by least squares, with standard errors that hold for any spread and
count people, not rows. An effect that is clear in the original is *lost* where the release has it
no longer, or turned around: not significant there, or with the other sign.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tulle._types import Flags, Floats, Ints

CLEAR = 4.0  # standard errors: people drawn once more would hardly ever lose it
_SIGNIFICANT = 1.96
_SMALL = 1e-9


class Effects(NamedTuple):
    """The effects that are clear in the original, and which of them the release lost."""

    outcomes: Ints
    causes: Ints
    lost: Flags

    @property
    def share(self) -> float:
        """The share that is lost."""
        return float(self.lost.mean()) if len(self.lost) else 0.0


def effects(
    original: Floats, release: Floats, outcomes: int, people: Ints | None = None
) -> Effects:
    """Regress each of the first ``outcomes`` columns on all others, in both tables.

    ``people`` says whose row of the original it is, where people have several.
    """
    clear: list[tuple[int, int, bool]] = []
    for place in range(outcomes):
        others = np.delete(np.arange(original.shape[1]), place)
        before = scores(original[:, others], original[:, place], people)
        after = scores(release[:, others], release[:, place], None)
        for cause, old, new in zip(others, before, after):
            if abs(old) >= CLEAR:
                clear.append((place, int(cause), bool(new * np.sign(old) < _SIGNIFICANT)))
    told = np.array(clear, dtype=np.int64).reshape(-1, 3)
    return Effects(told[:, 0], told[:, 1], told[:, 2] > 0)


def scores(causes: Floats, outcome: Floats, people: Ints | None) -> Floats:
    """Return each cause's slope in standard errors, 0 where it cannot be told from the others."""
    spread = causes.std(axis=0)
    varies = spread > _SMALL
    found = np.zeros(causes.shape[1])
    if not varies.any() or outcome.std() <= _SMALL or len(outcome) <= varies.sum() + 2:
        return found
    design = (causes[:, varies] - causes[:, varies].mean(axis=0)) / spread[varies]
    values, axes = np.linalg.eigh(design.T @ design / len(design))
    kept = values > 1e-6 * values[-1]  # what follows from other columns has no slope of its own
    inverse = (axes[:, kept] / values[kept]) @ axes[:, kept].T / len(design)
    centred = outcome - outcome.mean()
    slopes = inverse @ (design.T @ centred)
    pulls = design * (centred - design @ slopes)[:, None]
    if people is not None:
        _, own = np.unique(people, return_inverse=True)
        summed = np.zeros((int(own.max()) + 1, pulls.shape[1]))
        np.add.at(summed, own.ravel(), pulls)
        pulls = summed
    errors = np.sqrt(np.einsum("ij,jk,ik->i", inverse, pulls.T @ pulls, inverse))
    own_part = 1 - (axes[:, ~kept] ** 2).sum(axis=1) > 0.5
    found[varies] = np.where(own_part, slopes / np.maximum(errors, _SMALL), 0.0)
    return found
