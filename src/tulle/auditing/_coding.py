"""Two or three tables with the same columns, as records that can be compared.

Columns may come in any order and numbers in any type, but a column must hold the same kind of
values in each table, and no column may be in one table only: whoever drops a column on purpose
says so by its role in the policy. Everything is scaled and coded by the original, so that a
control or a release cannot move the yardstick.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tulle._attacks.copies import as_bytes, is_in
from tulle._attacks.records import Records
from tulle._types import Floats
from tulle.errors import DataError, PolicyError, PrivacyError, nearest_name
from tulle.table._frames import enter
from tulle.table.policy import load_policy
from tulle.table.schema import Column, Kind, Role, kind_of

# One column of two or three tables: its kind, and its values as numbers or codes. Numbers are
# scaled, and categories coded, alike in all tables and by the original.

NUMBERS = (Kind.INTEGER, Kind.DECIMAL)
_FAR = 1e60  # standard deviations: fourth powers of this, and sums of them, are still numbers
_CLOCKS = {pl.Time: "time of day", pl.Duration: "duration"}  # compared in seconds


@dataclass(frozen=True)
class Coded:
    """One column in each of the tables."""

    name: str
    numbers: list[Floats] | None  # scaled, missing ones at the middle
    codes: list[Any] | None  # categories; or beside numbers, 1 where one is missing
    unit: tuple[float, float] | None = None
    domain: pl.Series | None = None


def shared_kind(name: str, parts: Mapping[str, pl.Series]) -> Kind:
    """One kind for a column; whole and decimal numbers go together, an empty column with any."""
    filled = {which: part for which, part in parts.items() if part.null_count() < len(part)}
    words = {which: _kind_word(part) for which, part in filled.items()}
    distinct = set(words.values())
    if not distinct:
        return Kind.CATEGORY
    if distinct <= set(NUMBERS):
        return Kind.INTEGER if all(map(_is_whole, filled.values())) else Kind.DECIMAL
    if len(distinct) > 1:
        told = ", ".join(f"{word} in the {which}" for which, word in words.items())
        raise DataError(
            f"column '{name}' holds different kinds of values: {told}. Convert it, so that it has "
            "one type everywhere"
        )
    word = distinct.pop()
    return Kind.DECIMAL if word in _CLOCKS.values() else Kind(word)


def _kind_word(series: pl.Series) -> str:
    return _CLOCKS.get(series.dtype.base_type(), kind_of(series.dtype).value)


def _is_whole(series: pl.Series) -> bool:
    """Whether numbers are whole, in whichever type they come."""
    if series.dtype.is_integer():
        return True
    numbers = series.cast(pl.Float64).drop_nulls()
    return bool((numbers.is_finite() & (numbers.round() == numbers)).all())


def coded(name: str, kind: Kind, series: list[pl.Series]) -> Coded:
    """The values of a column in each of the tables, the original's first."""
    if kind not in (*NUMBERS, Kind.DATETIME):
        return _coded_categories(name, series)
    if all(getattr(part.dtype, "time_zone", None) for part in series):
        # moments, not what the clocks of different zones showed
        series = [part.dt.convert_time_zone("UTC") for part in series]
    return _coded_numbers(name, [_as_floats(part) for part in series])


def _as_floats(series: pl.Series) -> Floats:
    """Numbers as they are, dates in microseconds, durations and times of the day in seconds."""
    if series.dtype == pl.Time:
        series = series.cast(pl.Int64) / 1e9
    elif isinstance(series.dtype, pl.Duration):
        series = series.dt.total_microseconds() / 1e6
    elif series.dtype.is_temporal():
        series = series.cast(pl.Datetime("us")).dt.replace_time_zone(None).to_physical()
    return series.cast(pl.Float64).to_numpy().astype(np.float64)


def _coded_numbers(name: str, values: list[Floats]) -> Coded:
    centre, scale = _centre_and_scale(values[0][np.isfinite(values[0])])
    missing = [~np.isfinite(part) for part in values]
    numbers = [
        np.clip(np.where(gone, 0.0, part / scale - centre / scale), -_FAR, _FAR)
        for part, gone in zip(values, missing)
    ]
    codes = missing if any(gone.any() for gone in missing) else None
    return Coded(name, numbers, codes, unit=(centre, scale))


def _centre_and_scale(known: Floats) -> tuple[float, float]:
    """Mean and standard deviation (1 if there is none), of numbers of any size."""
    size = float(np.abs(known).max(initial=0.0))
    if size == 0:
        return 0.0, 1.0
    spread = float((known / size).std()) * size  # squares of the largest would be infinite
    return float((known / size).mean()) * size, spread if spread > 0 else 1.0


def _coded_categories(name: str, series: list[pl.Series]) -> Coded:
    words = [_as_words(part) for part in series]
    domain = pl.concat([part.drop_nulls() for part in words]).unique().sort()
    places = pl.Series(np.arange(1, len(domain) + 1, dtype=np.int32))
    codes = [
        part.replace_strict(domain, places, default=None, return_dtype=pl.Int32)
        .fill_null(0)
        .to_numpy()
        if len(domain)
        else np.zeros(len(part), np.int32)
        for part in words
    ]
    return Coded(name, None, codes, domain=pl.concat([pl.Series([""]), domain]))


def _as_words(series: pl.Series) -> pl.Series:
    """Categories in words; of numbers 7 and 7.0 are one."""
    words = series.cast(pl.String)
    if not (series.dtype.is_float() or series.dtype.is_decimal()) or not _is_whole(series):
        return words
    return series.cast(pl.Int64, strict=False).cast(pl.String).fill_null(words)


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
    frame, _ = enter(table)
    if frame.height == 0:
        raise DataError(f"the {which} has 0 rows: there is nothing to compare")
    return {series.name: _nan_is_missing(series) for series in frame}


def _nan_is_missing(series: pl.Series) -> pl.Series:
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
    dropped = {name for name, role in roles.items() if not role.released}
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


# Records as a plain matrix, for models and principal axes.

_WIDTH = 30  # indicators of one column; rarer categories stand at 0 in all of them
_ROWS = 20_000  # records whose indicators are held at once


def ranked(records: Records, original: Records) -> Floats:
    """Numbers as they are, categories by how common they are in the original: enough for trees."""
    parts = [records.numbers]
    for place in range(original.codes.shape[1]):
        codes, counts = np.unique(original.codes[:, place], return_counts=True)
        ranks = np.full(max(records.codes[:, place].max(initial=0), codes.max()) + 1, len(codes))
        ranks[codes[np.argsort(-counts, kind="stable")]] = np.arange(len(codes))
        parts.append(ranks[records.codes[:, place]][:, None].astype(np.float64))
    return np.hstack(parts)


class Design:
    """Numbers as they are, categories as indicators of the original's commonest ones."""

    def __init__(self, original: Records) -> None:
        self._commonest = []
        for place in range(original.codes.shape[1]):
            codes, counts = np.unique(original.codes[:, place], return_counts=True)
            self._commonest.append(codes[np.argsort(-counts, kind="stable")][:_WIDTH])

    def matrix(self, records: Records) -> Floats:
        """One row a record."""
        parts = [records.numbers]
        for place, commonest in enumerate(self._commonest):
            parts.append((records.codes[:, place, None] == commonest).astype(np.float64))
        return np.hstack(parts)

    def moments(self, records: Records) -> tuple[Floats, Floats]:
        """Mean and covariance of the columns, without the matrix of all records."""
        shift = self.matrix(records.take(np.arange(min(_ROWS, len(records))))).mean(axis=0)
        total, products = np.zeros(len(shift)), np.zeros((len(shift), len(shift)))
        for block in self._blocks(records):
            block -= shift  # small numbers: their squares stay exact
            total += block.sum(axis=0)
            products += block.T @ block
        mean = total / len(records)
        return mean + shift, products / len(records) - np.outer(mean, mean)

    def projected(self, records: Records, middle: Floats, axes: Floats) -> Floats:
        """Where the records are on some axes through a middle."""
        return np.vstack([(block - middle) @ axes for block in self._blocks(records)])

    def _blocks(self, records: Records) -> Iterator[Floats]:
        for start in range(0, len(records), _ROWS):
            yield self.matrix(records.take(np.arange(start, min(start + _ROWS, len(records)))))
