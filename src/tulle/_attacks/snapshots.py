"""Successive snapshots: who arrived between two releases?

A stream is released repeatedly. The *watcher* has the release before and after someone
arrived, alone or with others, and a list of candidates of whom one is among the newcomers. Two
ways to find that one: by *totals* (count times mean, after less before, is the sum of the
newcomers if the release keeps its moments exactly), and by *fresh rows* (rows that the earlier
release did not have lie near the newcomers). Right if the candidate that fits best is the one who
arrived; guessing is one in the number of candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tulle._attacks.result import AttackResult
from tulle._types import Floats
from tulle.errors import DataError, ParameterError


class Snapshots(NamedTuple):
    """Two releases of a stream and a record that arrived between them.

    ``counts`` are the records condensed before and after, which a release states.
    """

    before: Floats  # (n, d)
    after: Floats  # (m, d)
    counts: tuple[int, int]
    arrived: Floats  # (d,)
    decoys: Floats  # (c, d), people who did not arrive


_Scores = Callable[[Snapshots, Floats], Floats]  # the smaller, the better a candidate fits


def snapshots_by_totals(pairs: Sequence[Snapshots], rng: np.random.Generator) -> AttackResult:
    """Pick the candidate nearest to the mean newcomer, from the difference of the totals."""
    return _attack("snapshots_totals", pairs, _by_totals, rng)


def snapshots_by_fresh_rows(pairs: Sequence[Snapshots], rng: np.random.Generator) -> AttackResult:
    """Pick the candidate nearest to a row that is new."""
    return _attack("snapshots_fresh_rows", pairs, _by_fresh_rows, rng)


def _attack(
    name: str, pairs: Sequence[Snapshots], scores: _Scores, rng: np.random.Generator
) -> AttackResult:
    if not pairs:
        raise ParameterError("The attack on successive snapshots needs at least one pair.")
    right, chance = 0, 0.0
    for pair in pairs:
        if not len(pair.decoys):
            raise DataError("each pair of snapshots needs candidates who did not arrive")
        candidates = np.vstack([pair.arrived[None, :], pair.decoys])
        # ties are broken at random, so that the place in the list does not matter
        order = np.lexsort((rng.random(len(candidates)), scores(pair, candidates)))
        right += int(order[0] == 0)
        chance += 1 / len(candidates)
    clue = "the difference of the totals" if scores is _by_totals else "the rows that are new"
    return AttackResult(
        name,
        len(pairs),
        right,
        chance,
        story="An observer with the releases before and after a record arrived picks, from a "
        f"list of candidates, the one that fits {clue} best. Right if it is the one who "
        "arrived.",
    )


def _by_totals(pair: Snapshots, candidates: Floats) -> Floats:
    first, last = pair.counts
    total = last * pair.after.mean(axis=0) - first * pair.before.mean(axis=0)
    estimate = total / max(last - first, 1)
    return np.asarray((((candidates - estimate) / _scale(pair)) ** 2).sum(axis=1))


def _by_fresh_rows(pair: Snapshots, candidates: Floats) -> Floats:
    old = {row.tobytes() for row in np.ascontiguousarray(pair.before)}
    fresh = np.array([row.tobytes() not in old for row in np.ascontiguousarray(pair.after)])
    if not fresh.any():
        return np.zeros(len(candidates))
    gaps = (candidates[:, None, :] - pair.after[fresh][None, :, :]) / _scale(pair)
    return np.asarray((gaps**2).sum(axis=2).min(axis=1))


def _scale(pair: Snapshots) -> Floats:
    spread = np.vstack([pair.before, pair.after]).std(axis=0)
    return np.where(spread > 0, spread, 1.0)
