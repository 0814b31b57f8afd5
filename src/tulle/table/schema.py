"""What a column holds (its kind) and what it means for people (its role)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Name what the values of a column are.

    ``INTEGER``, ``DECIMAL``, ``CATEGORY``, ``BOOLEAN``, ``DATETIME`` (dates, times and time
    stamps) and ``TEXT``. Each equals its lower-case name, so ``"integer"`` works wherever a kind
    is expected.

    Examples
    --------
    >>> from tulle import Kind
    >>> Kind("integer") is Kind.INTEGER
    True
    """

    INTEGER = "integer"
    DECIMAL = "decimal"
    CATEGORY = "category"
    BOOLEAN = "boolean"
    DATETIME = "datetime"  # dates, times and time stamps
    TEXT = "text"


class Role(StrEnum):
    """Name what a column means for the people in the table.

    ========================  ===============================================================
    ``"identifier"``          names a person; never released
    ``"quasi-identifier"``    others may know it; together such columns single people out
    ``"sensitive"``           what an attacker wants to learn
    ``"target"``              what a miner wants to predict
    ``"level"``               the privacy level of each record; used, not released
    ``"ignored"``             left out of the release
    ========================  ===============================================================

    Examples
    --------
    >>> from tulle import Role
    >>> Role("quasi-identifier") is Role.QUASI
    True
    """

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
    """Describe one column of a table: what it holds and what it means for people.

    Parameters
    ----------
    name : str
        The column's name.
    kind : Kind or str
        What its values are.
    role : Role or str
        What it means for people; quasi-identifier by default, the cautious choice.
    weight : float
        How much the column counts when records are compared.
    bounds : pair of float, optional
        Public bounds of a number, if the custodian gives them.
    reason : str
        Why ``tulle inspect`` chose this kind and role.

    Examples
    --------
    >>> from tulle import Column, Kind, Role
    >>> Column("age", Kind.INTEGER, Role.QUASI, bounds=(0, 120)).role
    <Role.QUASI: 'quasi-identifier'>
    """

    name: str
    kind: Kind
    role: Role = Role.QUASI
    weight: float = 1.0
    bounds: tuple[float, float] | None = None  # public bounds, if the custodian gives them
    reason: str = ""  # why `tulle inspect` chose so
