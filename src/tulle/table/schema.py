"""What a column holds (its kind) and what it means for people (its role)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What the values of a column are."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    CATEGORY = "category"
    BOOLEAN = "boolean"
    DATETIME = "datetime"  # dates, times and time stamps
    TEXT = "text"


class Role(StrEnum):
    """What a column means for the people in the table."""

    IDENTIFIER = "identifier"  # names a person: never released
    QUASI = "quasi-identifier"  # others may know it: together they single people out
    SENSITIVE = "sensitive"  # what an attacker wants to learn
    TARGET = "target"  # what a miner wants to predict; class-wise condensation keeps it apart
    LEVEL = "level"  # the privacy level of each record
    IGNORED = "ignored"  # left out of the release


WEIGHTS = (1e-6, 1e6)  # of columns; beyond them one column is all that counts, or nothing
UNRELEASED = (Role.IDENTIFIER, Role.IGNORED)
STAY_HOME = (*UNRELEASED, Role.LEVEL)  # levels are heeded, and then left out too


@dataclass(frozen=True)
class Column:
    """One column of a policy."""

    name: str
    kind: Kind
    role: Role = Role.QUASI
    weight: float = 1.0
    bounds: tuple[float, float] | None = None  # public bounds, if the custodian gives them
    reason: str = ""  # why `tulle inspect` chose so
