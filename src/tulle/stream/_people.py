"""People of a stream with several records each: every one counts once in a group.

A stream forgets its records, so it cannot look up later who is in a group. It keeps a hash of each
person instead, keyed with a secret of this stream from the operating system: whoever lacks the
secret cannot test a guess. Halves of a split group are made from the statistics of all its members.
So everybody who was ever in one group, or in what it has split off, counts once in all of these
together: a person may be counted in too few groups, but never twice in one. Two people with the
same hash count as one.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from hashlib import blake2b

import numpy as np
import polars as pl

from tulle._types import Flags, Ints
from tulle.errors import DataError
from tulle.stream._batches import Sealed
from tulle.table._series import person_names

SECRET_BYTES = 32


class PersonHash(Sealed):
    """From the column of the person to a word for each record."""

    def __init__(
        self, column: str, secret: bytes | None = None, number: bool | None = None
    ) -> None:
        self.column = column
        self.secret = secrets.token_bytes(SECRET_BYTES) if secret is None else secret
        if len(self.secret) != SECRET_BYTES:
            raise ValueError("the secret is damaged")
        self.number = number  # whether people are named by numbers; None until one is
        self.known: set[int] = set()  # all words so far
        # how far people came beyond the range of a column, by its name, then below and above
        self.farthest: dict[str, list[dict[int, int]]] = {}

    def __len__(self) -> int:
        return len(self.secret)

    def __repr__(self) -> str:
        return f"PersonHash({self.column!r}, secret=hidden)"

    def words(self, frame: pl.DataFrame) -> Ints:
        """Return a word for the person of each record; records without a person are one person's.

        The same person must look the same in all batches, whatever type the column has in them.
        """
        series = frame[self.column]
        if series.null_count() < len(series):
            number = series.dtype.is_numeric()
            if self.number not in (None, number):
                raise DataError(
                    f"column '{self.column}' names people by numbers in some batches and by text "
                    "in others: convert it to one type"
                )
            self.number = number
        names = person_names(series)
        words = {name: self._word(name) for name in names.unique().to_list()}
        return np.array([words[name] for name in names.to_list()], dtype=np.int64)

    def first_seen(self, words: Ints) -> Flags:
        """Return which records are the first of their person in the stream, and remember them."""
        first = np.zeros(len(words), dtype=bool)
        first[np.unique(words, return_index=True)[1]] = True
        first &= ~np.isin(words, np.fromiter(self.known, dtype=np.int64))
        self.known.update(words[first].tolist())
        return first

    def _word(self, name: str | None) -> int:
        content = b"\0" if name is None else b"\1" + name.encode()
        digest = blake2b(content, key=self.secret, digest_size=8, person=b"tulle-person")
        return int.from_bytes(digest.digest(), "little", signed=True)


def numbered(words: Ints) -> Ints:
    """Return people as numbers from 0 in the order in which they come, whatever their words."""
    _, first, people = np.unique(words, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[people]


class GroupMembers(Sealed):
    """Who is in which line of groups, and who has joined what was shown since."""

    def __init__(self) -> None:
        self.lines: list[int] = []  # by group: that of the first of the groups it has split off
        self.members: dict[int, set[int]] = {}  # by line
        self.newcomers: dict[int, set[int]] = {}  # by group shown, since it was

    def __len__(self) -> int:
        return len(self.lines)

    def __repr__(self) -> str:
        return f"GroupMembers({len(self)} groups hidden)"

    def start(self, groups: Ints, words: Ints) -> Ints:
        """Add new groups of records; return how many people each of them holds."""
        first = len(self.lines)
        number = int(groups.max()) + 1
        for group in range(number):
            self.lines.append(first + group)
            self.members[first + group] = set(words[groups == group].tolist())
        return np.array([len(self.members[first + group]) for group in range(number)])

    def join(self, group: int, family: int, word: int) -> int:
        """Note that somebody joined a group; return 1 if they count, 0 if they did before."""
        members = self.members[self.lines[group]]
        new = word not in members
        members.add(word)
        if family >= 0:
            self.newcomers.setdefault(family, set()).add(word)
        return int(new)

    def split(self, group: int) -> None:
        """Note that a group has split off another, which is the last now."""
        self.lines.append(self.lines[group])

    def joined(self, families: int) -> Ints:
        """Count how many people have joined each of the groups shown since."""
        return np.array([len(self.newcomers.get(f, ())) for f in range(families)], dtype=np.int64)

    def show(self, numbers: Ints) -> None:
        """Give the groups shown new numbers; those with -1 are shown again, without newcomers."""
        kept = {int(numbers[family]): words for family, words in self.newcomers.items()}
        self.newcomers = {family: words for family, words in kept.items() if family >= 0}

    def to_arrays(self) -> tuple[Ints, Ints, Ints]:
        """Write lines, and pairs of members and of newcomers; see :meth:`from_arrays`."""
        lines = np.array(self.lines, dtype=np.int64)
        return lines, _pairs(self.members), _pairs(self.newcomers)

    @classmethod
    def from_arrays(cls, lines: Ints, members: Ints, newcomers: Ints) -> GroupMembers:
        people = cls()
        people.lines = lines.tolist()
        people.members = {line: set() for line in people.lines}
        for sets, pairs in ((people.members, members), (people.newcomers, newcomers)):
            for owner, word in pairs.tolist():
                sets.setdefault(owner, set()).add(word)
        return people


def _pairs(sets: Mapping[int, set[int]]) -> Ints:
    """Return the owner of each word and the word, in an order that tells nothing of arrivals."""
    pairs = [(owner, word) for owner in sorted(sets) for word in sorted(sets[owner])]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)
