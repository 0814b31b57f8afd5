"""A way of making releases, judged on several: each of other people, attacked next to the rest.

One control of a small table decides nothing: a fifth of 1,000 people is too few to rule anything
out. So people are dealt into three parts, and each part is kept out of a release in turn, in as
many rounds as the table needs: everybody is a member of some releases and a stranger to others, and
attempts are pooled by person. What is judged is the procedure. The file that leaves is then made
from everybody, so that no record is lost to a control, and is looked through for copies once more.
A release of two thirds remembers each person more than one of everybody: the judgement errs on the
safe side.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._attacks.linkage import as_bytes, exact_copies
from tulle._attacks.membership import LEAST
from tulle._attacks.reconstruction import exact_values
from tulle._attacks.result import AttackResult, Scene, pooled
from tulle._plurals import counted
from tulle._progress import bar
from tulle._random import RandomState, spawn
from tulle._report.verdict import grade
from tulle._types import Ints
from tulle.auditing._database import ComparedPeople, compared_rows
from tulle.auditing._tables import Aligned, align_made
from tulle.auditing.audit import Audit, attacks_on, attacks_on_people, audit_people, audited, seeded
from tulle.errors import PrivacyWarning
from tulle.table._series import free_name, person_names
from tulle.table.schema import Column, Kind, Role
from tulle.table.split import Rows, rotated, units_of

PARTS = 3  # of the people: one is kept out
SPLITS = ((1_500, 9), (4_000, 6), (20_000, 3))  # releases for tables of fewer people; beyond, one
CHOOSING = 3
_PATIENCE = 3  # times as many, at most
MOST, MOST_QUICKLY = 50_000, 4_000  # people: of more, a sample is split
Make = Callable[[pl.DataFrame, int], pl.DataFrame]  # some people and a seed -> their release


class Splits(NamedTuple):
    """What attacks found in several releases together."""

    attacks: list[AttackResult]
    releases: int
    released: int  # records of one of them, or people where these have several


def bounds(people: int, *, choosing: bool, quick: bool) -> tuple[int, int]:
    """Return how many releases decide, the more the fewer people, and of how many people they are.

    A few do to choose by.
    """
    count = next((count for below, count in SPLITS if people < below), 1)
    count = min(count, CHOOSING) if quick else count
    if choosing:
        count = CHOOSING if count > CHOOSING else 1
    return count, MOST_QUICKLY if quick else MOST


def attack_splits(
    table: pl.DataFrame,
    columns: Sequence[Column],
    make: Make,
    rng: np.random.Generator,
    count: int,
    *,
    most: int,
    quick: bool = True,
    order: Sequence[str] = (),
    patient: bool = False,
) -> Splits:
    """Make ``count`` releases, each of another two thirds of the people, and attack them all.

    Where people have several rows, which stay together in ``order``, whole people are attacked.
    ``patient``: as many again, and again, while that may decide what the first ones left open.
    """
    names = table.columns
    table, columns, person = _numbered(table, columns, most, rng)
    target = next((c.name for c in columns if c.role is Role.TARGET), None)
    twins = _twins(table, columns, person)

    def attacked(rows: Rows, own: np.random.Generator) -> tuple[list[AttackResult], int]:
        members = table[rows.members]
        release = _quietly(make, members.select(names), int(own.integers(2**31)))
        compared = members, release, table[rows.control]
        people = compared_rows(compared, columns, order)
        if people is None:
            results = attacks_on(align_made(*compared, columns), own, quick=quick)
            return [_by_twins(result, twins) for result in results], release.height
        return attacks_on_people(people, own, quick=quick), people.databases[1].n_people

    parts = partial(rotated, table, PARTS, person=person, target=target, rng=rng)
    return _pooled(parts, attacked, count, rng, patient=patient)


def attack_linked_splits(
    people: int,
    make: Callable[[Ints, Ints, int], ComparedPeople],
    rng: np.random.Generator,
    count: int,
    *,
    most: int,
    quick: bool = True,
) -> Splits:
    """Make ``count`` releases of several tables, each of other two thirds of so many people.

    ``make`` gets the members, those who are kept out and a seed.
    """
    everybody = rng.permutation(people)[:most]
    frame = pl.DataFrame({"person": everybody})

    def attacked(rows: Rows, own: np.random.Generator) -> tuple[list[AttackResult], int]:
        parts = everybody[rows.members], everybody[rows.control]
        compared = _quietly(make, *parts, int(own.integers(2**31)))
        return attacks_on_people(compared, own, quick=quick), compared.databases[1].n_people

    parts = partial(rotated, frame, PARTS, person="person", target=None, rng=rng)
    return _pooled(parts, attacked, count, rng)


def _pooled(
    deal: Callable[[], list[Rows]],
    attacked: Callable[[Rows, np.random.Generator], tuple[list[AttackResult], int]],
    count: int,
    rng: np.random.Generator,
    *,
    patient: bool = False,
) -> Splits:
    """Attack releases of parts in turn, and pool what was found by attack."""
    parts: list[Rows] = []
    found: dict[str, list[AttackResult]] = {}
    together: list[AttackResult] = []
    made = released = 0
    with bar("releases of parts", count) as advance:
        while made < count or (patient and made < _PATIENCE * count and _are_open(together)):
            parts = parts or list(deal())
            results, size = attacked(parts.pop(0), spawn(rng, 1)[0])
            for result in results:
                found.setdefault(result.name, []).append(result)
            made, released = made + 1, released + size
            advance(int(made <= count))
            if made % count == 0:
                pools = (pooled(one) for one in found.values())
                together = [one for one in pools if not _is_idle(one, made)]
    return Splits(together, made, released // made)


def _twins(table: pl.DataFrame, columns: Sequence[Column], person: str) -> Ints:
    """Return a number for each person, in the order of their names: the same for equal records."""
    place = person_names(table[person]).rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
    found: Ints = np.arange(int(place.max()) + 1)
    if len(found) == table.height + 1:  # of several rows of a person one may be like anybody's
        shown = table.select(c.name for c in columns if c.role.released)
        found[place] = np.unique(shown.hash_rows().to_numpy(), return_inverse=True)[1].ravel()
    return found


def _by_twins(result: AttackResult, twins: Ints) -> AttackResult:
    """Count people with equal records once: an attack is right about all of them, or about none."""
    if result.name == "exact_values":  # counts numbers
        return result
    inside, outside = (
        None if tries is None else tries._replace(people=twins[tries.people])
        for tries in (result.inside, result.outside)
    )
    return replace(result, inside=inside, outside=outside)


def _are_open(attacks: Sequence[AttackResult]) -> bool:
    """Return whether further releases may decide: attacks found nothing, and may yet."""
    grades = [grade(one.name, one.to_dict(), len(attacks)) for one in attacks]
    return "undecided" in grades and not {"notable", "grave"} & {*grades}


def _is_idle(result: AttackResult, releases: int) -> bool:
    """Return whether an attack had hardly anybody to be tried on, and got nowhere with them."""
    tried: float = result.attempts
    if result.independent is not None:  # many may have few different records
        tried = max(result.independent, result.attempts / releases)
    return tried < LEAST and grade(result.name, result.to_dict(), 1) == "undecided"


def _quietly(make: Callable[..., Any], *given: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # it is tried, and never released
        return make(*given)


def _numbered(
    table: pl.DataFrame, columns: Sequence[Column], most: int, rng: np.random.Generator
) -> tuple[pl.DataFrame, list[Column], str]:
    """Return the table with a column that says whose row it is, a sample of very many people."""
    person = next((c.name for c in columns if c.role is Role.PERSON), None)
    units = units_of(table, person)
    people: Ints = np.unique(units)
    if len(people) > most:
        table = table[np.flatnonzero(np.isin(units, rng.choice(people, most, replace=False)))]
    if person is not None:
        return table, list(columns), person
    name = free_name("person", table.columns)
    numbers = pl.Series(name, np.arange(table.height))
    return table.with_columns(numbers), [*columns, Column(name, Kind.INTEGER, Role.PERSON)], name


def attack_file(tables: Aligned, splits: Splits, rng: np.random.Generator) -> list[AttackResult]:
    """Return what is grave about the file itself: people's records or numbers, where it has them.

    Nobody is a stranger to a release of everybody. A record of the original may stand in it as
    often as its own records stand in it twice, and people's own numbers as often as the numbers
    next to them that nobody has, or as in releases of parts, whose attacks judge that; those are
    smaller, so that as many released records are looked through.
    """
    found = []
    if tables.original.people is None:  # of several rows of a person one may be anybody's
        copies = exact_copies(Scene(tables.original, tables.release), rng)
        _, times = np.unique(as_bytes(tables.release), return_counts=True)
        found.append(_beside(copies, int(times[times > 1].sum()), len(tables.release)))
    known = next((one for one in splits.attacks if one.name == "exact_values"), None)
    rows = np.sort(rng.permutation(len(tables.release))[: splits.released])
    people = tables.original.people, None
    numbers, released = tables.numbers(0), tables.numbers(1)[rows]
    own = exact_values(numbers, released, tables.steps(), rng, people=people)
    if known is not None and own is not None:
        tried = known.attempts if known.independent is None else known.independent
        found.append(_beside(own, round(max(known.rate, own.baseline) * tried), tried))
    return [one for one in found if grade(one.name, one.to_dict(), len(found)) == "grave"]


def _beside(result: AttackResult, expected: int, tried: int) -> AttackResult:
    """Return what was found in the file next to what is expected of it."""
    return replace(
        result,
        name=f"{result.name}:the file itself",
        control_successes=expected,
        control_attempts=tried,
    )


def audit_of_splits(
    tables: Aligned,
    splits: Splits,
    random_state: RandomState,
    people: ComparedPeople | None = None,
    *,
    quick: bool,
    **told: Any,
) -> Audit:
    """Audit a release of everybody whose way of making was attacked on splits."""
    seed, rng = seeded(random_state)
    looked_at = tables if people is None else people.aligned(True, numbered=True)[0]
    attacks = [*splits.attacks, *attack_file(looked_at, splits, spawn(rng, 1)[0])]
    if people is None:
        audit = audited(tables, seed, attacks=attacks, quick=quick, **told)
    else:
        audit = audit_people(people, seed, attacks=attacks, quick=quick, **told)
    parts = f"{counted(splits.releases, 'release')} of two thirds of the people, next to the rest"
    looked = "looked through for people's own records and numbers"
    summary = audit.result.get("summary", "").replace("no control", f"attacked in {parts}")
    return audit.extended(
        summary=summary,
        splits=splits.releases,
        more_splits=bounds(tables.original.n_people, choosing=False, quick=False)[0],
        provenance={"attacked": parts, "the file itself": looked},
    )
