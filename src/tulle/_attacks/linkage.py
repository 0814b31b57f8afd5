"""Copies and linkage: which released record is this person's?

*Copies*: No skill is needed: the attacker looks for rows that say exactly, or nearly, what they
know. Near means within a tenth of the way to the nearest other person in the data, so that dense
data are not blamed for being dense. Guessing is the same search in a release whose columns were
shuffled independently: values that coincide by chance.

*Linkage*: The distance-based record linkage of Domingo-Ferrer and Torra, on releases that say
nothing of where a record came from. The *intruder* holds a list of people with the columns that
others may know, and joins each person to the nearest released record: each for itself (nearest), or
so that no record is given to two people and the sum of the distances is least (one to one). A link
is *right* when the record that it found is plainly that person's own: over all columns it lies
nearer to the person than a quarter of the way to anyone else in the data. A person with a twin in
the data cannot be linked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tulle._attacks.records import Records, between, nearest, spacing
from tulle._attacks.result import AttackResult, Scene, Tries
from tulle._types import Flags, Floats, Ints

_NEAR = 0.1  # of the way to the nearest other person
BEYOND_CHANCE = "share of the release that is copied beyond chance"
_IMPROBABLE = 0.01  # so a release of other people raises a false alarm at most once in a hundred
_SELDOM = 0.05  # ... where another test says so as well
EXACT_STORY = (
    "Anyone who reads the release. Right if a person's record appears in it unchanged, in every "
    "column."
)
_NEAR_STORY = (
    "Anyone who reads the release and knows a person's record. Right if a released record differs "
    "from it, over all columns, by less than a tenth of the way to the nearest other person."
)


def exact_copies(scene: Scene, rng: np.random.Generator) -> AttackResult:
    """Count the people of whom a record appears in the release unchanged, in every column.

    All records are tried, none is sampled. On tables of few categories this happens by chance:
    the control says how often. Thirty people among thousands are a small share, but no coincidence.
    """
    original, release, control = scene.original, scene.release, scene.control
    copied, people = _count_in(original, release), original.n_people
    outside, strangers, details = None, None, {}
    if control is not None:
        outside, strangers = _count_in(control, release), control.n_people
        if beyond_chance(copied, people, outside, strangers, _as_others(scene, control)):
            own, others = (is_in(release, those).sum() for those in (original, control))
            share = (own - others * people / strangers) / len(release)
            details[BEYOND_CHANCE] = max(0.0, float(share))
    return AttackResult(
        "exact_copies",
        people,
        copied,
        _count_in(original, release.scrambled(rng)),
        outside,
        strangers,
        story=EXACT_STORY,
        details=details,
        inside=_tries(original, release),
        outside=None if control is None else _tries(control, release),
    )


def near_copies(scene: Scene, rng: np.random.Generator) -> AttackResult:
    """Count the people from whom a released record differs by almost nothing."""
    original, release = scene.original, scene.release
    rows, people = scene.people(rng)
    apart, outside, strange = spacing(rows, original), scene.strangers(rng), None
    if outside is not None:
        strange = _are_near(outside, release, nearest(outside, original).distances[:, 0])
    return AttackResult.of(
        "near_copies",
        _are_near(people, release, apart),
        _are_near(people, release.scrambled(rng), apart).sum(),
        strange,
        people=people,
        strangers=outside,
        story=_NEAR_STORY,
    )


def closest_distances(
    records: Records, release: Records, rng: np.random.Generator, *, attempts: int = 1000
) -> Floats:
    """Compute the distance to the closest released record for each of some people."""
    people = records.take(records.sample(attempts, rng))
    return nearest(people, release).distances[:, 0]


def beyond_chance(
    copied: int, people: int, outside: int, strangers: int, as_others: float = 1.0
) -> bool:
    """Return whether more people are copied than chance explains, next to strangers.

    Where most copies are chance, the others are what any release of a dense table has. A few people
    are not improbable next to a small control; they are if hardly anybody has a twin, so that other
    people would not be copied so often (``as_others`` is how probable that is).
    """
    usual = people * outside / strangers
    limit = _IMPROBABLE if as_others >= _IMPROBABLE else _SELDOM
    return copied > 2 * usual and _chance(copied, people, outside, strangers) < limit


def _as_others(scene: Scene, control: Records) -> float:
    """Compute how probable so many copies are, if released records were those of other people."""
    original, release = scene.original, scene.release
    _, place, times = np.unique(as_bytes(original), return_inverse=True, return_counts=True)
    twins = int((times[place.ravel()] > 1).sum() + is_in(control, original).sum())
    own = int(is_in(release, original).sum())
    return _chance(own, len(release), twins, len(original) + len(control))


def _chance(copied: int, people: int, outside: int, strangers: int) -> float:
    """Compute how probable so many copied people are, if it were all the same who is in the data.

    Then those who are copied are any of both: Fisher's exact test. It is wrong about a release of
    other people at most as often as it says.
    """
    both = copied + outside
    every = _log_ways(people + strangers, both)
    found = range(copied, min(people, both) + 1)
    ways = (_log_ways(people, n) + _log_ways(strangers, both - n) - every for n in found)
    return math.fsum(map(math.exp, ways))


def _log_ways(count: int, some: int) -> float:
    return math.lgamma(count + 1) - math.lgamma(some + 1) - math.lgamma(count - some + 1)


def _are_near(people: Records, release: Records, apart: Floats) -> Flags:
    distances = nearest(people, release).distances[:, 0]
    # a twin in the data leaves no room between people, but an exact copy is one all the same
    return np.asarray((distances < _NEAR * apart) | (distances == 0))


def _tries(records: Records, release: Records) -> Tries | None:
    """Return of whom a record is in the release, each person once."""
    if records.people is None:
        return None
    who = np.unique(records.people)
    return Tries(who, np.isin(who, records.people[is_in(records, release)]))


def _count_in(records: Records, release: Records) -> int:
    """Return how many people have a record in the release."""
    found = is_in(records, release)
    return int(found.sum()) if records.people is None else len(np.unique(records.people[found]))


def is_in(records: Records, release: Records) -> NDArray[np.bool_]:
    """Return whether each record occurs in the release, by sorting rows of bytes."""
    mine, theirs = as_bytes(records), as_bytes(release)
    return np.isin(mine, theirs)


def as_bytes(records: Records) -> NDArray[np.void]:
    """Return each record as one comparable piece of bytes."""
    # + 0.0 makes one zero of two
    numbers = np.ascontiguousarray(records.numbers + 0.0).view(np.uint8)
    codes = np.ascontiguousarray(records.codes).view(np.uint8)
    joined = np.ascontiguousarray(np.hstack([numbers, codes]))
    return joined.view(np.dtype((np.void, joined.shape[1]))).ravel()


OWN = 0.25  # of the way to the nearest other person
_CANDIDATES = 10  # released records that a person may be given in the one-to-one attack

_STORY = (
    "{who} who knows {known} of {attempts:,} people links each to the nearest released "
    "record{how}. Right if that record is nearer to the person, over all columns, than a quarter "
    "of the way to anyone else in the data."
)


def linkage(
    scene: Scene,
    rng: np.random.Generator,
    *,
    known: Iterable[str] | None = None,
    who: str = "An intruder",
    one_to_one: bool = False,
) -> AttackResult:
    """Link each person to the nearest released record; ``one_to_one``: each to another one.

    The intruder knows the columns ``known`` (all, unless said). Guessing is the same join to a
    release whose columns were shuffled each on its own. For the control the same is tried on
    people who were never in the data.
    """
    original, release = scene.original, scene.release
    join = _join_one_to_one if one_to_one else _join_nearest
    columns = tuple(known) if known is not None else original.columns
    rows, people = scene.people(rng)
    apart = spacing(rows, original)
    links = join(people.only(columns), release.only(columns))
    shuffled = release.scrambled(rng)
    guesses = join(people.only(columns), shuffled.only(columns))
    outside, strange = scene.strangers(rng), None
    if outside is not None:
        far = nearest(outside, original).distances[:, 0]
        # twins among strangers would compete, people with a twin in the data count for nothing
        _, first, same = np.unique(as_bytes(outside), return_index=True, return_inverse=True)
        found = join(outside.take(first).only(columns), release.only(columns))[same.ravel()]
        strange = are_own(outside, release, found, far)
    known_text = "all columns" if len(columns) == len(original.columns) else ", ".join(columns)
    how = ", no record to more than one person" if one_to_one else ""
    return AttackResult.of(
        "linkage_one_to_one" if one_to_one else "linkage",
        are_own(people, release, links, apart),
        are_own(people, shuffled, guesses, apart).sum(),
        strange,
        people=people,
        strangers=outside,
        story=_STORY.format(who=who, known=known_text, attempts=len(people), how=how),
        details={"people with a twin in the data": int((apart == 0).sum())},
    )


def are_own(people: Records, release: Records, links: Ints, apart: Floats) -> Flags:
    """Tell which people are linked to a record that is plainly their own."""
    return np.asarray(between(people, release.take(links)) < OWN * apart)


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
