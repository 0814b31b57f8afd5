"""Linkage: which released record is this person's?

The distance-based record linkage of Domingo-Ferrer and Torra, on releases that say nothing of
where a record came from. The *intruder* holds a list of people with the columns that others may
know, and joins each person to the nearest released record: each for itself (nearest), or so that
no record is given to two people and the sum of the distances is least (one to one). A link is
*right* when the record that it found is plainly that person's own: over all columns it lies nearer
to the person than a quarter of the way to anyone else in the data. A person with a twin in the
data cannot be linked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from tulle._attacks.copies import as_bytes
from tulle._attacks.nearest import between, nearest, spacing
from tulle._attacks.records import Records
from tulle._attacks.result import AttackResult
from tulle._types import Flags, Floats, Ints

_Join = Callable[[Records, Records], Ints]  # people, release -> the record given to each

OWN = 0.25  # of the way to the nearest other person
_CANDIDATES = 10  # released records that a person may be given in the one-to-one attack

_STORY = (
    "{who} who knows {known} of {attempts:,} people links each to the nearest released "
    "record{how}. Right if that record is nearer to the person, over all columns, than a quarter "
    "of the way to anyone else in the data."
)


def linkage(
    original: Records,
    release: Records,
    rng: np.random.Generator,
    *,
    known: Iterable[str] | None = None,
    control: Records | None = None,
    attempts: int = 1000,
    who: str = "An intruder",
) -> AttackResult:
    """Link each person to the nearest released record.

    The intruder knows the columns ``known`` (all, unless said). Guessing is the same join to a
    release whose columns were shuffled each on its own. For the control the same is tried on
    people who were never in the data.
    """
    return _attack("linkage", _join_nearest, original, release, rng, known, control, attempts, who)


def linkage_one_to_one(
    original: Records,
    release: Records,
    rng: np.random.Generator,
    *,
    known: Iterable[str] | None = None,
    control: Records | None = None,
    attempts: int = 1000,
    who: str = "An intruder",
) -> AttackResult:
    """Link people to different records so that the sum of the distances is least."""
    return _attack(
        "linkage_one_to_one",
        _join_one_to_one,
        original,
        release,
        rng,
        known,
        control,
        attempts,
        who,
    )


def is_own(distances: Floats, spacings: Floats, share: float = OWN) -> NDArray[np.bool_]:
    """Return whether a record at this distance is plainly the person's own."""
    return np.asarray(distances < share * spacings)


def _attack(
    name: str,
    join: _Join,
    original: Records,
    release: Records,
    rng: np.random.Generator,
    known: Iterable[str] | None,
    control: Records | None,
    attempts: int,
    who: str,
) -> AttackResult:
    columns = tuple(known) if known is not None else original.columns
    rows = original.sample(attempts, rng)
    people, apart = original.take(rows), spacing(rows, original)
    links = join(people.only(columns), release.only(columns))
    shuffled = release.scrambled(rng)
    guesses = join(people.only(columns), shuffled.only(columns))
    strange, outside = None, None
    if control is not None:
        outside = control.take(control.sample(attempts, rng))
        far = nearest(outside, original).distances[:, 0]
        # twins among strangers would compete, people with a twin in the data count for nothing
        _, first, same = np.unique(as_bytes(outside), return_index=True, return_inverse=True)
        found = join(outside.take(first).only(columns), release.only(columns))[same.ravel()]
        strange = _are_own(outside, release, found, far)
    known_text = "all columns" if len(columns) == len(original.columns) else ", ".join(columns)
    how = "" if join is _join_nearest else ", no record to more than one person"
    return AttackResult.of(
        name,
        _are_own(people, release, links, apart),
        _are_own(people, shuffled, guesses, apart).sum(),
        strange,
        people=people.people,
        strangers=None if outside is None else outside.people,
        story=_STORY.format(who=who, known=known_text, attempts=len(people), how=how),
        details={"people with a twin in the data": int((apart == 0).sum())},
    )


def _are_own(people: Records, release: Records, links: Ints, apart: Floats) -> Flags:
    return is_own(between(people, release.take(links)), apart)


def _join_nearest(people: Records, release: Records) -> Ints:
    return nearest(people, release).rows[:, 0]


def _join_one_to_one(people: Records, release: Records) -> Ints:
    """Find the cheapest matching over each person's nearest records.

    A person may also be left without any of them, at the price of their farthest candidate and a
    half: then the nearest is taken after all. So a matching always exists.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    found = nearest(people, release, _CANDIDATES)
    people_count, candidates = found.rows.shape
    used, columns = np.unique(found.rows, return_inverse=True)
    spare = len(used) + np.arange(people_count)[:, None]
    places = np.hstack([columns.reshape(found.rows.shape), spare])
    last = found.distances[:, -1:]
    # an explicit zero would vanish from the sparse matrix: prices are shifted by one
    prices = 1.0 + np.hstack([found.distances, 1.5 * last + 1e-9])
    starts = np.arange(people_count + 1) * (candidates + 1)
    graph = csr_array(
        (prices.ravel(), places.ravel(), starts), shape=(people_count, len(used) + people_count)
    )
    _, given = min_weight_full_bipartite_matching(graph)
    left_out = given >= len(used)
    return np.where(left_out, found.rows[:, 0], used[np.where(left_out, 0, given)])
