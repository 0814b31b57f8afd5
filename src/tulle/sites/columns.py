"""How each column of a table is coded: aliased, graded, plain or dropped.

The four classes are the entries of an agreement. They hold its secrets, so their ``repr`` shows
only the name and the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tulle.errors import KeyMaterialError, ParameterError
from tulle.sites import grading
from tulle.tables.frames import refuse_patterns
from tulle.tables.schema import Kind, Role

PARTS = 64  # a split value has at most so many aliases
EXACT = 0.45  # whole numbers come back exactly if floating point moves them by less


class ValueType(StrEnum):
    """What a decoded cell is."""

    TEXT = "text"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIME = "time"


TYPE_OF_KIND = {
    Kind.TEXT: ValueType.TEXT,
    Kind.CATEGORY: ValueType.TEXT,
    Kind.BOOLEAN: ValueType.BOOLEAN,
    Kind.INTEGER: ValueType.INTEGER,
    Kind.DECIMAL: ValueType.DECIMAL,
    Kind.DATETIME: ValueType.TIMESTAMP,
}
CLOCKS = (ValueType.TIMESTAMP, ValueType.TIME)  # graded in ticks of micro-, milli- or seconds
WHOLE = (ValueType.INTEGER, ValueType.DATE, *CLOCKS)  # graded numbers without a fraction


@dataclass(frozen=True, repr=False)
class _Coded:
    """What the four have in common."""

    way: ClassVar[str]
    name: str
    type: ValueType
    role: Role

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns of the plain table that the coded column stands for."""
        return (self.name,)

    @property
    def in_words(self) -> str:
        """How the column is coded, nothing secret."""
        return self.way

    def to_dict(self) -> dict[str, Any]:
        entries = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"way": self.way, **entries}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, hidden)"


@dataclass(frozen=True, repr=False)
class Plain(_Coded):
    """A column that needs no treatment and goes out as it is."""

    way = "plain"


@dataclass(frozen=True, repr=False)
class Dropped(_Coded):
    """A column that does not go out."""

    way = "dropped"


@dataclass(frozen=True, repr=False)
class Aliased(_Coded):
    """A column whose values get aliases: keyed, or from a table of agreed categories."""

    way = "aliased"
    categories: tuple[str, ...] | None = None  # the agreed list of a mapping table
    other: bool = False  # values outside the list share one alias
    split: float | None = None  # the largest share that one alias is to have

    @property
    def keyed(self) -> bool:
        """Whether aliases come from the key alone."""
        return self.categories is None

    @property
    def in_words(self) -> str:
        kind = "keyed aliases" if self.keyed else "aliases by table"
        return kind + (", frequent values split" if self.split else "")


@dataclass(frozen=True, repr=False)
class Joint(_Coded):
    """A pair of columns that get one alias together."""

    way = "joint"
    pair: tuple[str, str] = ("", "")
    types: tuple[ValueType, ValueType] = (ValueType.TEXT, ValueType.TEXT)

    @property
    def sources(self) -> tuple[str, ...]:
        return self.pair

    @property
    def in_words(self) -> str:
        return f"one alias for {self.pair[0]} and {self.pair[1]}"


@dataclass(frozen=True, repr=False)
class Graded(_Coded):
    """A column of numbers or dates, coded by graded grouping."""

    way = "graded"
    low: float = 0.0  # what sites may hold; the limits may reach further
    high: float = 1.0
    cuts: str = "equal"  # equal, uneven or given
    groups: int = 5  # how many were asked for
    limits: tuple[float, ...] = ()
    values: tuple[int, ...] = ()
    tick: int = 1  # microseconds that a time stamp is counted in

    @property
    def in_words(self) -> str:
        return f"graded, {self.cuts} groups"

    @cached_property
    def scale(self) -> grading.Scale:
        """Limits and group numbers as arrays."""
        return grading.scale(self.limits, self.values, self.name)

    @property
    def tolerance(self) -> float:
        """How far floating point can move a number that is coded and decoded again."""
        limits, values = self.scale
        steps = np.spacing(np.abs(values) + 1.0) * np.diff(limits)
        return 0.75 * float(steps.max() + np.spacing(np.abs(limits).max()))

    @property
    def in_single_precision(self) -> bool:
        """Whether codes rounded to 24 bits still tell whole numbers apart."""
        limits, values = self.scale
        steps = np.spacing((np.abs(values) + 1.0).astype(np.float32)) * np.diff(limits)
        return bool(steps.max() < EXACT)


Coded = Plain | Dropped | Aliased | Joint | Graded
_WAYS: dict[str, type[Coded]] = {c.way: c for c in (Plain, Dropped, Aliased, Joint, Graded)}


def read_column(entries: Mapping[str, Any]) -> Coded:
    """A column from what :meth:`to_dict` gave, after a trip through JSON."""
    try:
        plain = dict(entries)
        way = _WAYS[plain.pop("way")]
        plain["type"], plain["role"] = ValueType(plain["type"]), Role(plain["role"])
        for name in ("categories", "limits", "values", "pair"):
            if isinstance(plain.get(name), list):
                plain[name] = tuple(plain[name])
        if "types" in plain:
            plain["types"] = tuple(ValueType(word) for word in plain["types"])
        return way(**plain)
    except (KeyError, ValueError, TypeError):
        raise KeyMaterialError("the agreement holds a column this Tulle cannot read") from None


def check_exact(column: Graded) -> Graded:
    """Refuses ranges so wide that whole numbers would not come back exactly."""
    if column.type in WHOLE and column.tolerance >= EXACT:
        raise ParameterError(
            f"column '{column.name}': its range is too wide for exact codes: alias it instead "
            f"(alias=['{column.name}'])"
        )
    return column


def check_names(columns: Sequence[Coded]) -> None:
    """Refuses a column without a name, named twice, or named like an alias of another."""
    seen: set[str] = set()
    refuse_patterns(name for column in columns for name in column.sources)
    for column in columns:
        for name in {column.name, *column.sources}:
            if not name.strip():
                raise ParameterError("a column of the agreement has no name: give it one")
            if name in seen:
                raise ParameterError(f"the agreement names column '{name}' twice")
            seen.add(name)
    for column in columns:
        listed = len(column.categories or ()) + 1 if isinstance(column, Aliased) else 0
        for number in range(1, listed + 1):
            if f"{column.name}_{number}" in seen:
                raise ParameterError(
                    f"column '{column.name}_{number}' is named like an alias of "
                    f"'{column.name}': rename it, or use keyed aliases"
                )
