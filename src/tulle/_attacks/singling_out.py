"""Singling out: does the release show that someone with these rare values exists?

A few columns often suffice to make a person the only one of their kind ('a widower of 37 from
Portugal'). The *searcher* finds such a combination once in the release and concludes that exactly
one person has it. The attempts are people who are the only ones in the data with their values in a
few columns drawn at random (numbers count as equal in the same of :data:`BINS` parts of the range);
right if the release holds exactly one record with these values (or as many as theirs at most, where
people have several). The control is people who were not
in the data, whose combination nobody in the data has either. Guessing is the same search in a
release whose columns were shuffled independently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tulle._attacks.records import Records
from tulle._attacks.result import AttackResult, Scene, Tries
from tulle._people import distinct_people
from tulle._types import Flags, Floats, Ints

BINS = 50
COLUMNS = 3  # columns in a combination
_SETS = 40  # sets of columns that are drawn
_DENSE = 16  # values per cell up to which a table of them is made
_SHUFFLES = 5  # guesses are averaged over this many


def singling_out(scene: Scene, rng: np.random.Generator) -> AttackResult | None:
    """Find people with a unique combination, and whether the release shows it exactly once.

    None if nobody has one: then there is nobody to single out this way.
    """
    original, release, control = scene.original, scene.release, scene.control
    shuffles = [release.scrambled(rng) for _ in range(_SHUFFLES)]
    others = [] if control is None else [control]
    tables = [original, release, *shuffles, *others]
    ranked, ends = _ranked(tables), np.cumsum([len(table) for table in tables])[:-1]
    people, outside = _Lots(original, rng), None if control is None else _Lots(control, rng)
    for columns in _column_sets(original, rng):
        mine, released, *rest = np.split(_numbered(ranked, columns), ends)
        often = _times(mine, original.people)
        guesses = sum(_shown(mine, often, shuffled) for shuffled in rest[:_SHUFFLES])
        alone = distinct_people(mine, original.people, int(mine.max()) + 1)[mine] == 1
        people.offer(alone, _shown(mine, often, released), guesses)
        if outside is not None and control is not None:
            theirs = rest[-1]
            shown = _shown(theirs, _times(theirs, control.people), released)
            outside.offer(~np.isin(theirs, mine), shown)
    tried, guessed = people.drawn(scene.attempts)
    strange = None if outside is None else outside.drawn(scene.attempts)[0]
    if not len(tried.right):
        return None
    if strange is not None and not len(strange.right):
        strange = None
    return AttackResult(
        "singling_out",
        len(tried.right),
        int(tried.right.sum()),
        guessed / _SHUFFLES,
        None if strange is None else int(strange.right.sum()),
        None if strange is None else len(strange.right),
        story=f"Someone finds a combination of {COLUMNS} columns that occurs once in the release "
        "and says that exactly one person has it. Tried on people whose combination is "
        "unique; right if the release holds exactly one such record.",
        details={"parts of the range of a number": BINS},
        inside=None if original.people is None else tried,
        outside=None if original.people is None else strange,
    )


class _Lots:
    """One set of columns for each person, by lot among those in which they can be tried.

    Each person is tried once only, with one record: attempts on one person would not be
    independent.
    """

    def __init__(self, records: Records, rng: np.random.Generator) -> None:
        rows = np.arange(len(records))
        self._rows = rows if records.people is None else records.sample(len(records), rng)
        self._people = rows if records.people is None else records.people[self._rows]
        self._offers = np.zeros(len(self._rows), dtype=np.int64)
        self._outcomes = np.zeros((2, len(self._rows)), dtype=np.int64)
        self._rng = rng

    def offer(self, fit: Flags, *outcomes: Any) -> None:
        """Let the records that fit take this set, each with the same chance as the sets before."""
        fit = fit[self._rows]
        self._offers += fit
        taken = fit & (self._rng.random(len(fit)) * self._offers < 1)
        for place, outcome in enumerate(outcomes):
            self._outcomes[place, taken] = outcome[self._rows][taken]

    def drawn(self, attempts: int) -> tuple[Tries, int]:
        """Return on whom the search was tried and how it went, and the sum of its guesses."""
        candidates = self._rng.permutation(np.flatnonzero(self._offers))[:attempts]
        right, guessed = self._outcomes[:, candidates]
        return Tries(self._people[candidates], right > 0), int(guessed.sum())


def most_telling(records: Records, columns: Sequence[str]) -> list[str]:
    """Return the columns that together leave most people alone, found one after the other."""
    ranked = _ranked([records])
    found: list[str] = []
    while len(found) < min(COLUMNS, len(columns)):
        left = [name for name in columns if name not in found]
        found.append(max(left, key=lambda name: _alone(_numbered(ranked, [*found, name]))))
    return found


def _alone(combinations: Ints) -> tuple[int, int]:
    """Return how many people have a combination of their own, and how many there are."""
    counts = np.bincount(combinations)
    return int((counts == 1).sum()), int((counts > 0).sum())


def _column_sets(records: Records, rng: np.random.Generator) -> list[list[str]]:
    names = np.array(records.columns)
    size = min(COLUMNS, len(names))
    drawn = {tuple(sorted(rng.choice(len(names), size, replace=False))) for _ in range(_SETS)}
    return [names[list(places)].tolist() for places in sorted(drawn)]


def _edges(numbers: Floats) -> tuple[Floats, Floats]:
    low = numbers.min(axis=0, initial=0.0)
    width = (numbers.max(axis=0, initial=0.0) - low) / BINS
    return low, np.where(width > 0, width, 1.0)


def _ranked(tables: list[Records]) -> dict[str, tuple[Ints, int]]:
    """Return each column over all tables, concatenated, as ranks 0, 1, ..., and their number.

    Numbers count by the part of the original's range that they are in.
    """
    low, width = _edges(tables[0].numbers)
    numbers = np.vstack([table.numbers for table in tables])
    # half a part of shift: values on a grid sit in the middle of a part, not on its edge
    parts = np.floor((numbers - low) / width + 0.5)
    codes = np.vstack([table.codes for table in tables])
    ranked: dict[str, tuple[Ints, int]] = {}
    first = tables[0]
    for name, cells in (*zip(first.number_names, parts.T), *zip(first.code_names, codes.T)):
        ranks, count = _ranks(cells)
        if name in ranked:  # the code next to a number
            ranks, count = _ranks(ranked[name][0] * count + ranks)
        ranked[name] = ranks, count
    return ranked


def _numbered(ranked: dict[str, tuple[Ints, int]], columns: list[str]) -> Ints:
    """Enumerate the combinations of some columns, consistently in all tables."""
    joined = ranked[columns[0]][0]
    for name in columns[1:]:
        ranks, count = ranked[name]
        # within 64 bits: a rank is below the number of records
        joined, _ = _ranks(joined * count + ranks)
    return joined


def _ranks(cells: NDArray[Any]) -> tuple[Ints, int]:
    """Return the rank of each cell among the different ones, and how many there are."""
    if cells.dtype.kind == "i" and cells.min() >= 0 and cells.max() <= _DENSE * len(cells):
        there = np.bincount(cells) > 0  # a table of all values: faster than to sort them
        return (np.cumsum(there) - 1)[cells], int(there.sum())
    values, ranks = np.unique(cells, return_inverse=True)
    return ranks.ravel().astype(np.int64), len(values)


def _times(combinations: Ints, people: Ints | None) -> Ints:
    """Return how many records of the same person have the same combination as each."""
    if people is None:
        return np.ones(len(combinations), dtype=np.int64)
    width = int(people.max()) + 1
    _, pairs = np.unique(combinations * width + people, return_inverse=True)
    return np.bincount(pairs)[pairs]


def _shown(combinations: Ints, often: Ints, released: Ints) -> Ints:
    """Return whether the release holds each combination, at most as often as its person does."""
    top = int(max(combinations.max(initial=0), released.max(initial=0))) + 1
    shown = np.bincount(released, minlength=top)[combinations]
    return ((shown >= 1) & (shown <= often)).astype(np.int64)
