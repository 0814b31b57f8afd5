"""How many different people hold each of some values: rows of one person count once."""

from __future__ import annotations

import numpy as np

from tulle._types import Flags, Integers, Ints

_ROOM = 8  # flags to each row: more pairs than that are sorted instead


def people_among(rows: Flags, people: Integers | None) -> int:
    """Return how many different people some rows are of; without ``people``, how many rows."""
    return int(distinct_people(rows.astype(np.int64) - 1, people, 1)[0])


def distinct_people(keys: Integers, people: Integers | None, size: int) -> Ints:
    """Return how many different people each key from 0 to ``size - 1`` has.

    Rows with a negative key count nowhere. Without ``people`` every row is a person of its own.

    >>> distinct_people(np.array([0, 0, 1, 1, -1]), np.array([7, 7, 7, 9, 9]), 3).tolist()
    [1, 2, 0]
    """
    inside = keys >= 0
    if not inside.all():
        keys, people = keys[inside], None if people is None else people[inside]
    if people is None or not len(keys):
        return np.bincount(keys, minlength=size)
    first, last = int(people.min()), int(people.max())
    if last - first >= _ROOM * len(people):  # numbers far apart: their places will do
        people, first = np.unique(people, return_inverse=True)[1], 0
        last = int(people.max())
    span = last - first + 1
    pairs = keys.astype(np.int64) * span + (people - first)
    if size * span <= _ROOM * len(pairs):
        seen = np.zeros(size * span, dtype=bool)
        seen[pairs] = True
        return np.count_nonzero(seen.reshape(size, span), axis=1)
    pairs.sort()  # np.unique takes thirty times as long
    begins = np.append(True, pairs[1:] != pairs[:-1])
    return np.bincount(pairs[begins] // span, minlength=size)
