"""Who attacks a table, and what they know: three people by default.

An attack is worth what its attacker's knowledge is worth, and nobody can prove what somebody
knows. So three are tried, and a report says what each of them is given: a neighbour with a few
facts, somebody with a register of all that the policy calls quasi-identifiers, and an insider who
knows everything but the secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tulle._attacks.singling_out import COLUMNS, most_telling
from tulle._report.model import Attacks
from tulle.auditing._tables import Aligned
from tulle.table.schema import Role

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
    known, columns = tables.of_role(Role.QUASI), list(tables.columns)
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
