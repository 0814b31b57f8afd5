"""Attacks on tables that are read in batches: some people are tried, all records are searched.

A part of a release understates its risk, so the people are sampled and the release never is: what
is kept of each batch are the records nearest to each person, and at the end these are the nearest
of the whole. Guessing is the same search in batches whose columns were shuffled each on its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tulle._attacks.copies import NEAR, NEAR_STORY
from tulle._attacks.inference import agree, best_guess, read_off_alike, story_of
from tulle._attacks.linkage import STORY, is_own
from tulle._attacks.nearest import between, nearest
from tulle._attacks.records import Records
from tulle._attacks.result import AttackResult
from tulle._types import Floats, Ints

_OWN = 64  # records of a person that may hide the nearest other one in a batch
ALIKE = 32  # released records, as near as the nearest, of which a secret is read


class CopyScan:
    """The nearest records of some people among all that are added, by some columns.

    Parameters
    ----------
    targets : Records
        The people, with all columns.
    columns : sequence of str, optional
        What is known of them; all columns by default.
    count : int
        How many records are kept of each.
    """

    def __init__(
        self, targets: Records, columns: Sequence[str] | None = None, count: int = 1
    ) -> None:
        self.targets = targets
        self.columns = tuple(columns or targets.columns)
        self.count = count
        self._known = targets.only(self.columns)
        self._found: list[tuple[Records, Floats]] = []  # the nearest, the second nearest, ...

    def add(self, batch: Records) -> None:
        """Take in some records; of those as far away, the first stay."""
        near = nearest(self._known, batch.only(self.columns), self.count)
        fresh = [
            (batch.take(near.rows[:, i]), near.distances[:, i]) for i in range(near.rows.shape[1])
        ]
        both = [*self._found, *fresh]
        if not both:
            return
        far = np.column_stack([distances for _, distances in both])
        order = np.argsort(far, axis=1, kind="stable")[:, : self.count]
        self._found = [
            (_picked([records for records, _ in both], place), far[np.arange(len(far)), place])
            for place in order.T
        ]

    @property
    def distances(self) -> Floats:
        """Return how far the records are that were found, (people, count), infinite without one."""
        missing = self.count - len(self._found)
        none = np.full((len(self.targets), missing), np.inf)
        return np.column_stack([*(far for _, far in self._found), none])

    def records(self, place: int) -> Records:
        """Return the nearest record of each person (0), the second nearest (1), ..."""
        return self._found[place][0]

    def __len__(self) -> int:
        return len(self._found)


def _picked(tables: list[Records], places: Ints) -> Records:
    """Return the record of each row in one of several tables of as many rows."""
    rows = np.arange(len(places))
    numbers = np.stack([table.numbers for table in tables])[places, rows]
    codes = np.stack([table.codes for table in tables])[places, rows]
    return Records(numbers, codes, tables[0].number_names, tables[0].code_names)


class Spacing:
    """How far each of some people is from the nearest record of another person.

    Parameters
    ----------
    targets : Records
    inside : bool
        Whether their own records are among those that are added.
    """

    def __init__(self, targets: Records, *, inside: bool) -> None:
        self._whose = targets.people if inside else None
        self._search = CopyScan(targets, count=2 if inside else 1)
        self._apart = np.full(len(targets), np.inf)

    def add(self, batch: Records) -> None:
        """Take in records of the original."""
        if self._whose is None or batch.people is None:
            self._search.add(batch)
            return
        # a person's own records hide nobody: look at as many as there may be, and one more
        most = min(int(np.unique(batch.people, return_counts=True)[1].max()) + 1, _OWN)
        near = nearest(self._search.targets, batch, most)
        other = batch.people[near.rows] != self._whose[:, None]
        far = np.where(other, near.distances, np.inf).min(axis=1)
        self._apart = np.minimum(self._apart, far)

    @property
    def apart(self) -> Floats:
        """Return the distances; where people have one record each, the nearest is their own."""
        return self._apart if self._whose is not None else self._search.distances[:, -1]


def near_copies(
    people: CopyScan,
    shuffled: CopyScan,
    strangers: CopyScan | None,
    apart: Floats,
    far: Floats | None,
) -> AttackResult:
    """Count the people from whom a released record differs by almost nothing."""
    return AttackResult(
        "near_copies",
        len(people.targets),
        int(_is_near(people, apart).sum()),
        int(_is_near(shuffled, apart).sum()),
        None if strangers is None or far is None else int(_is_near(strangers, far).sum()),
        None if strangers is None else len(strangers.targets),
        story=NEAR_STORY,
    )


def _is_near(search: CopyScan, apart: Floats) -> NDArray[np.bool_]:
    distances = search.distances[:, 0]
    return np.asarray((distances < NEAR * apart) | (distances == 0))


def linkage(
    people: CopyScan,
    shuffled: CopyScan,
    strangers: CopyScan | None,
    apart: Floats,
    far: Floats | None,
    who: str,
) -> AttackResult:
    """Link each person to the nearest released record."""
    columns = people.columns
    every = len(columns) == len(people.targets.columns)
    return AttackResult(
        "linkage",
        len(people.targets),
        _own(people, apart),
        _own(shuffled, apart),
        None if strangers is None or far is None else _own(strangers, far),
        None if strangers is None else len(strangers.targets),
        story=STORY.format(
            who=who,
            known="all columns" if every else ", ".join(columns),
            attempts=len(people.targets),
            how="",
        ),
        details={"people with a twin in the data": int((apart == 0).sum())},
    )


def _own(search: CopyScan, apart: Floats) -> int:
    return int(is_own(between(search.targets, search.records(0)), apart).sum())


def inference(
    people: CopyScan, strangers: CopyScan | None, secret: str, released: Records, who: str
) -> AttackResult:
    """Read a secret from the released records nearest in what is known.

    ``released`` are records of the release, drawn at random, from which the best single answer for
    everybody is guessed.
    """
    return AttackResult(
        f"inference:{secret}",
        len(people.targets),
        _read(people, secret),
        int(best_guess(people.targets.only([secret]), released.only([secret])).sum()),
        None if strangers is None else _read(strangers, secret),
        None if strangers is None else len(strangers.targets),
        story=story_of(who, people.columns, people.targets, secret),
    )


def _read(search: CopyScan, secret: str) -> int:
    truth = search.targets.only([secret])
    found = [search.records(place).only([secret]) for place in range(len(search))]
    alike = search.distances[:, : len(search)] <= search.distances[:, :1]
    return int(agree(truth, read_off_alike(found, alike)).sum())
