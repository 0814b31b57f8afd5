"""Two or three tables with the same columns, as records that can be compared.

Columns may come in any order and numbers in any type, but a column must hold the same kind of
values in each table, and no column may be in one table only: whoever drops a column on purpose
says so by its role in the policy. Everything is scaled and coded by the original, so that a
control or a release cannot move the yardstick.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tulle.attacks.copies import as_bytes, is_in
from tulle.attacks.records import Records
from tulle.auditing.coding import NUMBERS, Coded, coded, shared_kind
from tulle.errors import DataError, PolicyError, PrivacyError, nearest_name
from tulle.tables.frames import as_series, count_rows, open_table
from tulle.tables.policy import load_policy
from tulle.tables.schema import STAY_HOME, Column, Kind, Role

_STRAYS = 0.01  # of the control that may be in the original, beyond chance
_Table = dict[str, pl.Series]
_WORDS = (Kind.CATEGORY, Kind.BOOLEAN, Kind.TEXT)


@dataclass(frozen=True)
class Aligned:
    """The tables as records, and how to read a number or a code of theirs."""

    original: Records
    release: Records
    control: Records | None
    kinds: Mapping[str, Kind]  # in the order of the original's columns
    roles: Mapping[str, Role]
    units: Mapping[str, tuple[float, float]]  # of numbers: value = code * scale + centre
    domains: Mapping[str, pl.Series]  # of categories: value = domain[code]; code 0 is missing

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.kinds)

    @property
    def present(self) -> tuple[Records, ...]:
        """The two or three tables."""
        both = (self.original, self.release)
        return both if self.control is None else (*both, self.control)

    def of_role(self, *roles: Role) -> list[str]:
        """The columns with one of some roles."""
        return [name for name in self.columns if self.roles.get(name) in roles]


def align(original: Any, release: Any, control: Any, policy: Any) -> Aligned:
    """Opens the tables, checks that they can be compared, and encodes them."""
    entries = _entries(policy)
    roles = {name: _role(name, entry) for name, entry in entries.items()}
    tables = {"original": _opened("original", original), "release": _opened("release", release)}
    if control is not None:
        tables["control"] = _opened("control", control)
    names = _shared_columns(tables, roles)
    kinds = {name: _agreed_kind(name, tables, entries.get(name)) for name in names}
    columns = {
        name: coded(name, kinds[name], [table[name] for table in tables.values()]) for name in names
    }
    records = [_records(columns, place) for place in range(len(tables))]
    if control is not None:
        _refuse_members(records[0], records[2])
    return Aligned(
        records[0],
        records[1],
        records[2] if control is not None else None,
        kinds,
        {name: role for name, role in roles.items() if name in kinds},
        {name: column.unit for name, column in columns.items() if column.unit is not None},
        {name: column.domain for name, column in columns.items() if column.domain is not None},
    )


def _refuse_members(original: Records, control: Records) -> None:
    """A control that is in the data would make every attack look harmless.

    Strangers may have a twin in the data, about as often as people in it have one.
    """
    known, count = int(is_in(control, original).sum()), len(control)
    _, times = np.unique(as_bytes(original), return_counts=True)
    twins = float(times[times > 1].sum() / len(original))
    expected = twins * count + 4 * math.sqrt(twins * (1 - twins) * count)
    if known > expected + max(1, _STRAYS * count):
        raise DataError(
            f"{known} of the {count} records of the control are in the original too: a control "
            "must hold people who were kept out of the data"
        )


def _entries(policy: Any) -> dict[str, Any]:
    """A role or a Column for each name in a policy, its file, a mapping, or some Columns."""
    if isinstance(policy, str | os.PathLike):
        policy = load_policy(policy)
    listed = getattr(policy, "columns", policy)
    if listed is None:
        return {}
    if isinstance(listed, Mapping):
        return {str(name): entry for name, entry in listed.items()}
    if isinstance(listed, Sequence) and all(isinstance(column, Column) for column in listed):
        return {column.name: column for column in listed}
    raise PolicyError(
        "A policy is a Policy, a mapping from column to role, or a sequence of Columns. "
        f"Got a {type(policy).__name__}."
    )


def _role(name: Any, entry: Any) -> Role:
    word = entry.role if isinstance(entry, Column) else entry
    try:
        return Role(word)
    except ValueError:
        hint = nearest_name(str(word), [role.value for role in Role])
        raise PolicyError(f"The role of column '{name}' is unknown: {hint}") from None


def _opened(which: str, table: Any) -> _Table:
    columns, _ = open_table(table)
    if count_rows(columns) == 0:
        raise DataError(f"the {which} has 0 rows: there is nothing to compare")
    return {str(name): _nan_is_missing(name, cells) for name, cells in columns.items()}


def _nan_is_missing(name: str, cells: Any) -> pl.Series:
    series = as_series(name, cells)
    return series.fill_nan(None) if series.dtype.is_float() else series


def _shared_columns(tables: Mapping[str, _Table], roles: Mapping[str, Role]) -> list[str]:
    original = tables["original"]
    for name in roles:
        if name not in original:
            hint = nearest_name(name, original)
            raise PolicyError(f"The policy names column '{name}', which is not there: {hint}")
    named = [name for name in tables["release"] if roles.get(name) is Role.IDENTIFIER]
    if named:
        raise PrivacyError(
            f"the release holds {_listed(named)}, which the policy calls identifiers: they name "
            "people. Leave them out of the release, or correct the policy"
        )
    dropped = {name for name, role in roles.items() if role in STAY_HOME}
    names = [name for name in original if name not in dropped]
    if not names:
        raise DataError("no column is left to compare: the roles leave all of them out")
    for which, columns in tables.items():
        _refuse_missing(which, "original", [name for name in names if name not in columns])
        _refuse_missing("original", which, [name for name in columns if name not in original])
    return names


def _refuse_missing(which: str, other: str, names: list[str]) -> None:
    if names:
        raise DataError(
            f"the {which} lacks {len(names)} column(s) that the {other} has: {_listed(names)}. "
            "Drop them from both, or give them the role 'ignored' or 'identifier' in the policy"
        )


def _listed(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:8]) + (", ..." if names[8:] else "")


def _agreed_kind(name: str, tables: Mapping[str, _Table], entry: Any) -> Kind:
    """The kind of a column; numbers that the policy calls categories are categories."""
    kind = shared_kind(name, {which: columns[name] for which, columns in tables.items()})
    declared = isinstance(entry, Column) and entry.kind in _WORDS
    return Kind.CATEGORY if declared and kind in NUMBERS else kind


def _records(columns: Mapping[str, Coded], place: int) -> Records:
    numbers = {c.name: c.numbers[place] for c in columns.values() if c.numbers is not None}
    codes = {c.name: c.codes[place] for c in columns.values() if c.codes is not None}
    rows = len(next(iter((numbers or codes).values())))
    return Records(
        np.column_stack([*numbers.values()]) if numbers else np.empty((rows, 0)),
        np.column_stack([*codes.values()]) if codes else np.empty((rows, 0), np.int32),
        tuple(numbers),
        tuple(codes),
    )
