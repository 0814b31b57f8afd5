"""Who attacks a table, what they know, and what they try: three people by default.

An attack is worth what its attacker's knowledge is worth, and nobody can prove what somebody
knows. So three are tried, and a report says what each of them is given: a neighbour with a few
facts, somebody with a register of all that the policy calls quasi-identifiers, and an insider who
knows everything but the secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from tulle._attacks.earlier import earlier_inference, earlier_membership, earlier_totals
from tulle._attacks.inference import homogeneity, inference
from tulle._attacks.linkage import exact_copies, linkage, near_copies
from tulle._attacks.membership import LEAST, membership
from tulle._attacks.reconstruction import affine_hull, exact_values, sums_on_grid
from tulle._attacks.result import AttackResult, Scene
from tulle._attacks.singling_out import COLUMNS, most_telling, singling_out
from tulle._report.model import Attacks
from tulle.auditing._people import Register, linkability, linkage_known
from tulle.auditing._tables import Aligned
from tulle.table.schema import Role

MOST_SECRETS_QUICKLY = 6
_MOST_SHARED = 3  # columns that homogeneity looks at when no role says which are sensitive
_Attack = Callable[[np.random.Generator], AttackResult | None]
_Planned = tuple[str, _Attack]
_WHO = {
    "neighbour": "an acquaintance who knows a few facts: those that single out most people",
    "register": "somebody who holds a list of people with all that others may know of them",
    "insider": "somebody who knows everything about a person but the one fact to learn",
}


class Attacker(NamedTuple):
    """Somebody, the columns that they know, and how their story begins."""

    name: str
    known: list[str]
    who: str


def attackers_of(tables: Aligned, quick: bool) -> list[Attacker]:
    """Return who attacks, the one that other attacks are compared with first.

    Without roles nothing says what a register holds: then it is every column, and its holder is
    the insider. A quick audit has no neighbour, who knows less than the others.
    """
    known, columns = tables.of_role(Role.QUASI, Role.WEIGHT), list(tables.columns)
    insider = Attacker("insider", columns, "An insider")
    found = [insider]
    if known and len(known) < len(columns):
        found = [Attacker("register", known, "Somebody with a register"), insider]
    if quick or len(known or columns) <= COLUMNS:
        return found
    few = most_telling(tables.original, known or columns)
    return [*found, Attacker("neighbour", few, "A neighbour")]


def knowledge(attackers: Sequence[Attacker], tables: Aligned) -> list[Attacks]:
    """Return who attacks and with which knowledge, for a report."""
    total = len(tables.columns)
    return [
        {
            "name": attacker.name,
            "who": _WHO[attacker.name],
            "knows": f"all {total} columns, but for the one to infer"
            if len(attacker.known) == total
            else ", ".join(attacker.known),
        }
        for attacker in attackers
    ]


# The attacks that they try.


def planned(
    tables: Aligned,
    columns: list[str],
    listed: Register | None,
    attempts: int,
    attackers: Sequence[Attacker],
    quick: bool,
) -> Iterator[_Planned]:
    """Yield each attack by name, waiting for its generator."""
    scene = Scene(tables.original, tables.release, tables.control, attempts)
    register, *others = attackers
    link = partial(linkage, scene, known=register.known, who=register.who)
    yield "exact copies", partial(exact_copies, scene)
    if not quick:  # linkage finds the same people
        yield "near copies", partial(near_copies, scene)
    yield "linkage", link
    if not quick:
        yield "one to one", partial(link, one_to_one=True)
        yield "linkability", partial(linkability, scene)
    if listed is not None:
        yield "looked up", partial(linkage_known, scene, register=listed)
    yield "singling out", partial(singling_out, scene)
    for column in columns:
        yield column, _reading(scene, column, register)
    for attacker in others:
        if not quick:
            link = partial(linkage, scene, known=attacker.known, who=attacker.who)
            yield f"linkage, {attacker.name}", _as(attacker, link)
        for column in columns[:MOST_SECRETS_QUICKLY]:
            yield f"{column}, {attacker.name}", _as(attacker, _reading(scene, column, attacker))
    has_strangers = scene.control is not None and scene.control.n_people >= LEAST
    if has_strangers:
        yield "membership", partial(membership, scene)
    yield from _planned_on_numbers(tables, scene, quick)
    shared = _shared_secrets(tables, columns)
    for column in shared if not quick else ():
        beside = _known_beside(column, register.known)
        yield column, partial(homogeneity, scene, column, known=beside)
    if not tables.earlier:
        return
    earlier = tables.earlier
    yield "several releases: totals", partial(earlier_totals, scene, earlier)
    if has_strangers:
        yield "several releases: membership", partial(earlier_membership, scene, earlier)
    known = tables.of_role(Role.QUASI, Role.WEIGHT) or None
    for column in shared:
        beside = _known_beside(column, known)
        read = partial(earlier_inference, scene, earlier, column, known=beside)
        yield f"several releases: {column}", read
        sure = partial(homogeneity, scene, column, known=beside, earlier=earlier)
        yield f"several releases: {column}", sure


def _planned_on_numbers(tables: Aligned, scene: Scene, quick: bool) -> Iterator[_Planned]:
    """Yield the attacks that look at the digits of numbers, and at the planes of released rows."""
    numbers = [tables.numbers(place) for place in range(len(tables.frames))]
    steps = tables.steps()
    outside = numbers[2] if len(numbers) > 2 else None
    whose = scene.original.people, None if scene.control is None else scene.control.people
    values = partial(exact_values, numbers[0], numbers[1], steps, control=outside, people=whose)
    yield "exact values", partial(values, attempts=scene.attempts)
    if not quick:
        yield "sums on the grid", partial(sums_on_grid, numbers[1], scene.release, steps)
        yield "affine hull", partial(affine_hull, scene)


def _shared_secrets(tables: Aligned, columns: list[str]) -> list[str]:
    """Return the columns that people alike may share: sensitive ones, or a few categories."""
    if tables.of_role(Role.SENSITIVE, Role.TARGET):
        return columns
    words = [name for name in columns if name not in tables.original.number_names]
    return (words or columns)[:_MOST_SHARED]


def _reading(scene: Scene, column: str, attacker: Attacker) -> _Attack:
    known = _known_beside(column, attacker.known)
    return partial(inference, scene, column, known=known, who=attacker.who)


def _as(attacker: Attacker, attack: _Attack) -> _Attack:
    """Return an attack whose result bears the name of the attacker."""

    def named(rng: np.random.Generator) -> AttackResult | None:
        found = attack(rng)
        if found is None:
            return None
        suffix = f" ({attacker.name})" if ":" in found.name else f":{attacker.name}"
        return replace(found, name=found.name + suffix)

    return named


def _known_beside(column: str, known: list[str] | None) -> list[str] | None:
    """Return what is known when a column is the secret; everything else, if nothing is left."""
    others = [name for name in known or [] if name != column]
    return others or None
