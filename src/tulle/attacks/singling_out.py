"""Singling out: does the release show that somebody with these rare values exists?

A few columns often suffice to make a person the only one of their kind ('a widower of 37 from
Portugal'). The *searcher* finds such a combination once in the release and concludes that exactly
one person has it. The attempts are people who are the only ones in the data with their values in
a few columns drawn by lot (numbers count as equal in the same of :data:`BINS` parts of the range);
right if the release holds exactly one record with these values. The control are people who were
not in the data, whose combination nobody in the data has either. Guessing is the same search in
a release whose columns were shuffled each on its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tulle.attacks.records import Codes, Floats, Ints, Records
from tulle.attacks.result import AttackResult

BINS = 50
COLUMNS = 3  # columns in a combination
_SETS = 40  # sets of columns that are drawn
_SHUFFLES = 5  # guesses are averaged over this many


def singling_out(
    original: Records,
    release: Records,
    rng: np.random.Generator,
    *,
    control: Records | None = None,
    attempts: int = 1000,
) -> AttackResult | None:
    """People with a combination of their own, and whether the release shows it once.

    None if nobody has one: then there is nobody to single out this way.
    """
    edges = _edges(original.numbers)
    shuffles = [release.scrambled(rng) for _ in range(_SHUFFLES)]
    others = [] if control is None else [control]
    tables = [_cells(table, edges) for table in (original, release, *shuffles, *others)]
    sets = _column_sets(original, rng)
    share = -(-attempts // len(sets))
    # each person is tried with one set only: attempts on one person would not be independent
    turns = [np.array_split(rng.permutation(len(t)), len(sets)) for t in (original, *others)]
    tried = right = guessed = strangers = strange = 0
    for turn, columns in enumerate(sets):
        people, released, *rest = _numbered(tables, columns)
        mine = people[turns[0][turn]]
        picked = mine[np.bincount(people)[mine] == 1][:share]
        tried += len(picked)
        right += _shown_once(picked, released)
        guessed += sum(_shown_once(picked, shuffled) for shuffled in rest[:_SHUFFLES])
        for outside in rest[_SHUFFLES:]:
            theirs = outside[turns[1][turn]]
            picked = theirs[~np.isin(theirs, people)][:share]
            strangers += len(picked)
            strange += _shown_once(picked, released)
    if not tried:
        return None
    return AttackResult(
        "singling_out",
        tried,
        right,
        guessed / _SHUFFLES,
        strange if strangers else None,
        strangers or None,
        story=f"Somebody finds a combination of {COLUMNS} columns that occurs once in the release "
        "and says that exactly one person has it. Tried on people who are the only ones with "
        "theirs; right if the release holds exactly one such record.",
        details={"parts of the range of a number": BINS},
    )


def _column_sets(records: Records, rng: np.random.Generator) -> list[list[str]]:
    names = np.array(records.columns)
    size = min(COLUMNS, len(names))
    drawn = {tuple(sorted(rng.choice(len(names), size, replace=False))) for _ in range(_SETS)}
    return [names[list(places)].tolist() for places in sorted(drawn)]


def _edges(numbers: Floats) -> tuple[Floats, Floats]:
    low = numbers.min(axis=0, initial=0.0)
    width = (numbers.max(axis=0, initial=0.0) - low) / BINS
    return low, np.where(width > 0, width, 1.0)


def _cells(records: Records, edges: tuple[Floats, Floats]) -> Records:
    """The records with numbers replaced by the part of the range that they are in."""
    low, width = edges
    # half a part of shift: values on a grid sit in the middle of a part, not on its edge
    parts = np.floor((records.numbers - low) / width + 0.5)
    return Records(parts, records.codes, records.number_names, records.code_names)


def _numbered(tables: list[Records], columns: list[str]) -> list[Ints]:
    """Numbers the combinations of some columns, alike in all tables."""
    every = [table.only(columns) for table in tables]
    joined: NDArray[np.float64] = np.vstack([_stacked(t.numbers, t.codes) for t in every])
    _, numbers = np.unique(joined, axis=0, return_inverse=True)
    ends = np.cumsum([len(table) for table in every])[:-1]
    return np.split(numbers.ravel().astype(np.int64), ends)


def _stacked(numbers: Floats, codes: Codes) -> Floats:
    return np.hstack([numbers, codes.astype(np.float64)])


def _shown_once(picked: Ints, released: Ints) -> int:
    top = int(max(picked.max(initial=0), released.max(initial=0))) + 1
    return int((np.bincount(released, minlength=top)[picked] == 1).sum())
