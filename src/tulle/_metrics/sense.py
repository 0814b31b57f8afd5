"""Rows that make no sense: what every original keeps and released rows break.

Looked for are columns that follow from another one (a town has one state; nobody below 15 has an
income) and numbers that are never larger than another (admission and discharge). What would hold
about as well with one of the columns shuffled says nothing and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tulle._types import Flags, Floats, Ints

_SAMPLE = 2_000  # records of a first look
_MOST_PAIRS = 10_000  # of columns
_TELLING = 0.01  # share of the records that break a law once a column is shuffled
_FEW = 0.1  # different values over records, up to which others may follow from a column


class Law(NamedTuple):
    """Something that holds for every original, and the rows that break it in the other tables."""

    kind: str  # "follows", "missing" or "order"
    source: int
    target: int
    broken: tuple[Flags, ...]


def dependencies(
    columns: Sequence[Sequence[Ints]], kind: str, targets: Sequence[Sequence[Ints]]
) -> Iterator[Law]:
    """Find the targets that follow from a column of the original.

    ``columns`` and ``targets`` hold, for each column, its codes in each table (the original
    first; equal codes are equal values, from 0). Values that the original lacks break nothing.
    """
    rng = np.random.default_rng(0)  # for what is looked at; the laws themselves are exact
    sample = rng.permutation(len(columns[0][0]))[:_SAMPLE]
    pairs = [(i, j) for i in range(len(columns)) for j in range(len(targets)) if i != j]
    for place in rng.permutation(len(pairs))[:_MOST_PAIRS]:
        source, target = pairs[place]
        given, follows = columns[source][0], targets[target][0]
        if not _may_follow(given[sample], follows[sample]):
            continue
        answers = _answers(given, follows)
        if answers is None or not _is_telling(given, follows, rng):
            continue
        others = zip(columns[source][1:], targets[target][1:])
        broken = tuple(_breaks(answers, theirs, values) for theirs, values in others)
        yield Law(kind, source, target, broken)


def orders(columns: Sequence[Sequence[Floats]]) -> Iterator[Law]:
    """Find the pairs of numbers of which the first is never larger; NaN breaks nothing."""
    rng = np.random.default_rng(0)
    for i, j in [(i, j) for i in range(len(columns)) for j in range(len(columns)) if i != j]:
        low, high = columns[i][0], columns[j][0]
        known = ~(np.isnan(low) | np.isnan(high))
        low, high = low[known], high[known]
        if len(low) < 2 or (low > high).any() or (low == high).all():
            continue
        if (low > rng.permutation(high)).mean() < _TELLING:
            continue
        others = tuple(a > b for a, b in zip(columns[i][1:], columns[j][1:]))
        yield Law("order", i, j, others)


def unseen_pairs(known: Sequence[Ints], rows: Ints, sizes: Sequence[int]) -> Flags:
    """Return which rows hold a pair of values that is in none of the known tables."""
    found = np.zeros(len(rows), bool)
    for i in range(len(sizes)):
        for j in range(i + 1, len(sizes)):
            seen = np.unique(np.concatenate([t[:, i] * sizes[j] + t[:, j] for t in known]))
            keys = rows[:, i] * sizes[j] + rows[:, j]
            place = np.minimum(np.searchsorted(seen, keys), len(seen) - 1)
            found |= seen[place] != keys
    return found


def _may_follow(given: Ints, follows: Ints) -> bool:
    """Look at a few records first."""
    top = int(follows.max(initial=0)) + 1
    return len(np.unique(given * top + follows)) == len(np.unique(given))


def _answers(given: Ints, follows: Ints) -> Ints | None:
    """Return the target of each value of a column, -1 where nobody has it; None if two differ."""
    values = int(given.max(initial=0)) + 1
    if len(np.unique(given)) > max(2, _FEW * len(given)) or follows.min() == follows.max():
        return None
    answers = np.full(values, -1, np.int64)
    answers[given] = follows
    return answers if (answers[given] == follows).all() else None


def _is_telling(given: Ints, follows: Ints, rng: np.random.Generator) -> bool:
    """Return whether a shuffled target would break the law."""
    shuffled = rng.permutation(follows)
    answers = np.zeros(int(given.max()) + 1, np.int64)
    answers[given] = shuffled
    return bool((answers[given] != shuffled).mean() >= _TELLING)


def _breaks(answers: Ints, given: Ints, follows: Ints) -> Flags:
    known = given < len(answers)
    expected = np.where(known, answers[np.where(known, given, 0)], -1)
    return np.asarray((expected >= 0) & (expected != follows))
