"""Whose rows are whose: how many different people hold a value, and how many are enough."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from tulle._types import Flags, Floats, Integers, Ints

_MOST_MORE = 10.0  # people that a threshold lies above k, at most
_RARE = 0.05  # of the people: so few may be exceptions
_ONE = 1.5  # people: more than one, fewer than two
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


class Owners(NamedTuple):
    """Whose the rows of a table are, while a model is fitted."""

    # 1 over the rows of the person, so that sums never exceed the number of people; 0 for a row
    # from which nothing may be learnt directly
    weights: Floats
    people: Ints | None = None  # the person of each row, if people have several

    @classmethod
    def of(cls, people: Ints | None, n: int, counted: Flags | None = None) -> Self:
        weights = weigh_people(people, n)
        return cls(weights if counted is None else np.where(counted, weights, 0.0), people)

    @property
    def counted(self) -> Flags:
        return self.weights > 0

    def take(self, rows: Flags | Ints | slice) -> Owners:
        return Owners(self.weights[rows], None if self.people is None else self.people[rows])

    def holders(self, keys: Integers, size: int) -> Ints:
        """Return how many different people hold each key; negative keys and rows that do not
        count are nobody's.
        """
        return distinct_people(np.where(self.counted, keys, -1), self.people, size)

    def n_people(self) -> int:
        return people_among(self.counted, self.people)

    def numbered(self) -> Ints:
        """Return the person of each row, -1 where it does not count."""
        people = np.arange(len(self.weights)) if self.people is None else self.people
        return np.where(self.counted, people, -1)

    def turns(self, rng: np.random.Generator) -> Floats:
        """Return a number in [0, 1) for each row, one for all rows of a person."""
        if self.people is None:
            return rng.random(len(self.weights))
        return rng.random(int(self.people.max(initial=0)) + 1)[self.people]


def weigh_people(people: Ints | None, n: int) -> Floats:
    """Return what each row counts: 1 over the rows of its person.

    The sum over any rows is at most the number of different people among them.
    """
    if people is None:
        return np.ones(n)
    _, person, rows = np.unique(people, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / rows[person])


def draw_threshold(k: int, rng: np.random.Generator | None) -> float:
    """Return how many people are enough: ``k``, or with ``rng`` a number from ``k`` to ``1.5 k``.

    If it were ``k`` always, a value that appears with one more person and not without would tell
    that this person was in the data. Of a large ``k``, 10 people more hide one of them as well as
    they do of 20, and a class of little more than ``k`` people stays.
    """
    return float(k) if rng is None else k + (surely_enough(k) - k) * rng.random()


def surely_enough(k: int) -> float:
    """Return how many people are enough, whatever is drawn."""
    return k + min(0.5 * k, _MOST_MORE)


def count_exceptions(enough: float, total: float) -> float:
    """Return how many people are too few to decide how all others look.

    Fewer than are ``enough``, and few among all; one person always is.
    """
    return max(_ONE, min(enough, _RARE * total))
