"""Two or three tables with the same columns, in the two views that an audit takes of them.

Columns may come in any order and numbers in any type, but a column must hold the same kind of
values in each table, and no column may be in only one table: to drop a column on purpose, give it
such a role in the policy. Each table becomes one frame, with one type per column
(numbers and points in time as floats, categories as text). From these frames come :class:`Records`,
numbers and codes for attacks, and the matrix of the encoder that condensation uses, for models,
covariances and principal axes. Everything is scaled and coded by the original, so that a control or
a release cannot move the yardstick.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from tulle._attacks.linkage import as_bytes, is_in
from tulle._attacks.records import Records
from tulle._types import Floats, Ints
from tulle.errors import DataError, ParameterError, PolicyError, PrivacyError, nearest_name
from tulle.table._categories import as_codes, code_words
from tulle.table._encoder import TableEncoder
from tulle.table._frames import enter
from tulle.table._precision import as_decimals, decimals_of, in_singles
from tulle.table._series import person_names
from tulle.table._states import Writing, writing_of
from tulle.table.policy import load_policy
from tulle.table.schema import Column, Kind, Role, declared_columns, kind_of

NUMBERS = (Kind.INTEGER, Kind.DECIMAL)
_WORDS = (Kind.CATEGORY, Kind.BOOLEAN, Kind.TEXT)
_CLOCKS = {pl.Time: "time of day", pl.Duration: "duration"}  # compared in seconds
_FAR = 1e60  # standard deviations: fourth powers of this, and sums of them, are still numbers
_STRAYS = 0.01  # of the control that may be in the original, beyond chance
_NUMBERS = 1_000_000  # of the matrix, held at once


@dataclass(frozen=True)
class Aligned:
    """The tables as records and as frames, and how to read a number or a code of theirs."""

    original: Records
    release: Records
    control: Records | None
    earlier: tuple[Records, ...]  # other releases of much the same people
    frames: tuple[pl.DataFrame, ...]  # of original, release and, if there is one, control
    view: MatrixView
    kinds: Mapping[str, Kind]  # in the order of the original's columns
    roles: Mapping[str, Role]
    units: Mapping[str, tuple[float, float]]  # of numbers: value = code * scale + centre
    domains: Mapping[str, pl.Series]  # of categories: value = domain[code]; code 0 is missing

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.kinds)

    @property
    def present(self) -> tuple[Records, ...]:
        """The tables that were given."""
        tables = (self.original, self.release, self.control, *self.earlier)
        return tuple(table for table in tables if table is not None)

    def numbers(self, place: int) -> Floats:
        """Return the columns of numbers of a frame in their own units, NaN where missing."""
        names = self.original.number_names
        if not names:
            return np.empty((self.frames[place].height, 0))
        return self.frames[place].select(names).fill_null(np.nan).to_numpy()

    def steps(self) -> Floats:
        """Return what all numbers of each column are multiples of, 0 where they are floats as they
        come: of dates a day, of clocks a minute or what they show.
        """
        return np.array([_step(_present(column)) for column in self.numbers(0).T])

    def of_role(self, *roles: Role) -> list[str]:
        """Return the columns with one of some roles."""
        return [name for name in self.columns if self.roles.get(name) in roles]


def align(original: Any, release: Any, control: Any, policy: Any, earlier: Any = None) -> Aligned:
    """Open the tables, check that they can be compared, and encode them."""
    entries = entries_of(policy)
    roles = _roles(entries)
    tables = {"original": opened("original", original), "release": opened("release", release)}
    before = earlier if isinstance(earlier, tuple) else (earlier,)
    kept = {"earlier release" + f" {n}" * (n > 1): table for n, table in enumerate(before, 1)}
    others = {"control": control, **kept}
    tables |= {which: opened(which, table) for which, table in others.items() if table is not None}
    names = _shared_columns(tables, roles)
    tables = read_values(tables, entries, names)
    kinds = {name: _agreed_kind(name, tables, entries.get(name)) for name in names}
    frames = _frames(list(tables.values()), kinds)
    columns = [_coded(name, [frame[name] for frame in frames]) for name in names]
    people = _people(tables, roles)
    records = {
        which: _records(columns, place, people.get(which)) for place, which in enumerate(tables)
    }
    if control is not None:
        _refuse_members(records["original"], records["control"])
    return Aligned(
        records["original"],
        records["release"],
        records.get("control"),
        tuple(records[which] for which in kept if which in records),
        frames[:3] if control is not None else frames[:2],
        MatrixView(frames[0]),
        kinds,
        {name: role for name, role in roles.items() if name in kinds},
        {column.name: column.unit for column in columns if column.unit is not None},
        {column.name: column.domain for column in columns if column.domain is not None},
    )


def align_made(
    original: pl.DataFrame,
    release: pl.DataFrame,
    control: pl.DataFrame | None,
    columns: Sequence[Column],
) -> Aligned:
    """Align a release that was made a moment ago with the tables of its maker.

    Those have columns that the release does not: all are left aside but that of the person, without
    whom attacks would count rows.
    """
    known = [
        column
        for column in columns
        if column.name in release.columns
        or (column.role is Role.PERSON and column.name in original.columns)
    ]
    names = {column.name for column in known}
    people, strangers = (
        None if table is None else table.select(n for n in table.columns if n in names)
        for table in (original, control)
    )
    return align(people, release.select(n for n in release.columns if n in names), strangers, known)


def as_frames(
    tables: Sequence[pl.DataFrame], entries: Mapping[str, Column | Kind | Role]
) -> tuple[tuple[pl.DataFrame, ...], dict[str, Kind]]:
    """Return tables of the same columns with one type for each, and the kinds of these."""
    parts = dict(zip(("original", "release", "control"), tables))
    kinds = {name: _agreed_kind(name, parts, entries.get(name)) for name in tables[0].columns}
    return _frames(tables, kinds), kinds


def coded_alike(
    tables: Sequence[pl.DataFrame], entries: Mapping[str, Column | Kind | Role]
) -> list[Records]:
    """Return tables of the same columns as records, in the scale and the codes of the first."""
    frames, kinds = as_frames(tables, entries)
    columns = [_coded(name, [frame[name] for frame in frames]) for name in kinds]
    return [_records(columns, place, None) for place in range(len(tables))]


def _present(column: Floats) -> Floats:
    return column[np.isfinite(column)]


def _step(values: Floats) -> float:
    """Return the largest decimal number of which all values are multiples, else 0."""
    places = decimals_of(values, pl.Float64)
    if places is None:
        return 0.0
    whole = np.rint(values * 10.0**places).astype(np.int64)
    return int(np.gcd.reduce(whole) or 1) / 10.0**places


# Opening: which columns are compared, and of which kind they are.


def read_values(
    tables: Mapping[str, pl.DataFrame],
    entries: Mapping[str, Column | Kind | Role],
    names: Sequence[str],
) -> dict[str, pl.DataFrame]:
    """Read numbers and dates that are text or have special values, which are then missing.

    Numbers of single precision are read as the decimals that they stand for.
    """
    found = dict(tables)
    for name in names:
        entry, series = entries.get(name), tables["original"][name]
        if isinstance(entry, Column) and entry.text:
            _code_texts(found, name)
        if isinstance(entry, Column) and entry.kind in (*NUMBERS, Kind.DATETIME):
            writing = writing_of(series, entry)
            if writing is not None:
                _replace(found, name, partial(_values_of, writing))
        series = found["original"][name]
        if series.dtype == pl.Float64 and in_singles(_present(series.fill_null(np.nan).to_numpy())):
            _replace(found, name, as_decimals)
    return found


def _values_of(writing: Writing, series: pl.Series) -> pl.Series:
    return writing.split(series)[0]


def _code_texts(tables: dict[str, pl.DataFrame], name: str) -> None:
    """Read free text as the codes of a release: those of its words that tell most texts apart."""
    released = set(tables["release"][name].drop_nulls().cast(pl.String))
    words = [word for word in code_words(tables["original"][name], None) if word in released]
    _replace(tables, name, lambda texts: as_codes(texts, words))


def _replace(
    tables: dict[str, pl.DataFrame], name: str, read: Callable[[pl.Series], pl.Series]
) -> None:
    """Read a column of all tables in the same way."""
    for which, table in tables.items():
        tables[which] = table.with_columns(read(table[name]).alias(name))


def _shared_kind(name: str, parts: Mapping[str, pl.Series]) -> Kind:
    """Return one kind for a column; whole and decimal numbers agree, an empty column with any."""
    filled = {which: part for which, part in parts.items() if part.null_count() < len(part)}
    words = {
        which: _CLOCKS.get(part.dtype.base_type(), kind_of(part.dtype).value)
        for which, part in filled.items()
    }
    distinct = set(words.values())
    if not distinct:
        return Kind.CATEGORY
    if distinct <= set(NUMBERS):
        return Kind.INTEGER if all(map(_is_whole, filled.values())) else Kind.DECIMAL
    if len(distinct) > 1:
        told = ", ".join(f"{word} in the {which}" for which, word in words.items())
        raise DataError(
            f"column '{name}' holds different kinds of values: {told}. Convert it to one type "
            "everywhere"
        )
    word = distinct.pop()
    return Kind.DECIMAL if word in _CLOCKS.values() else Kind(word)


def _is_whole(series: pl.Series) -> bool:
    """Return whether numbers are whole, whatever their type."""
    if series.dtype.is_integer():
        return True
    numbers = series.cast(pl.Float64).drop_nulls()
    return bool((numbers.is_finite() & (numbers.round() == numbers)).all())


def entries_of(policy: Any) -> dict[str, Column | Kind | Role]:
    """Return what a policy, its file, a mapping or some Columns say about each column."""
    if isinstance(policy, str | os.PathLike):
        policy = load_policy(policy)
    listed = getattr(policy, "columns", policy)
    if listed is None:
        return {}
    if not isinstance(listed, Mapping) and not (
        isinstance(listed, Sequence) and all(isinstance(column, Column) for column in listed)
    ):
        raise PolicyError(
            "'policy' must be a Policy, a sequence of Columns, or a mapping from names to a "
            f"Column, a role or a kind. Got a {type(policy).__name__}."
        )
    try:
        return declared_columns(listed)
    except (ParameterError, DataError) as error:
        raise PolicyError(str(error)) from None


def _roles(entries: Mapping[str, Column | Kind | Role]) -> dict[str, Role]:
    said = {name: getattr(entry, "role", entry) for name, entry in entries.items()}
    return {name: role for name, role in said.items() if isinstance(role, Role)}


def without_names(table: pl.DataFrame, policy: Any) -> pl.DataFrame:
    """Return a table as if it were released: without the columns that are not."""
    roles = _roles(entries_of(policy))
    return table.drop(name for name in table.columns if name in roles and not roles[name].released)


def opened(which: str, table: Any) -> pl.DataFrame:
    frame, _ = enter(table)
    if frame.height == 0:
        raise DataError(f"the {which} has 0 rows: there is nothing to compare")
    return frame.with_columns(cs.float().fill_nan(None))


def _shared_columns(tables: Mapping[str, pl.DataFrame], roles: Mapping[str, Role]) -> list[str]:
    original = tables["original"].columns
    for name in roles:
        if name not in original:
            hint = nearest_name(name, original)
            raise PolicyError(
                f"The policy names column '{name}', which is not in the tables: {hint}"
            )
    released = [name for which in tables if "release" in which for name in tables[which].columns]
    named = [name for name in dict.fromkeys(released) if roles.get(name) is Role.IDENTIFIER]
    if named:
        raise PrivacyError(
            f"the release holds {_listed(named)}, which the policy calls identifiers. Drop them "
            "from the release, or correct the policy"
        )
    dropped = {name for name, role in roles.items() if not role.released}
    names = [name for name in original if name not in dropped]
    if not names:
        raise DataError("no column is left to compare: their roles exclude all of them")
    for which, table in tables.items():
        _refuse_missing(which, "original", [name for name in names if name not in table.columns])
        _refuse_missing("original", which, [name for name in table.columns if name not in original])
    return names


def _refuse_missing(which: str, other: str, names: list[str]) -> None:
    if names:
        raise DataError(
            f"the {which} lacks {len(names)} column(s) that the {other} has: {_listed(names)}. "
            "Drop them from both, or give them the role 'ignored' or 'identifier' in the policy"
        )


def _listed(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:8]) + (", ..." if names[8:] else "")


def _agreed_kind(
    name: str, tables: Mapping[str, pl.DataFrame], entry: Column | Kind | Role | None
) -> Kind:
    """Return the kind of a column; numbers that the policy calls categories are categories."""
    kind = _shared_kind(name, {which: table[name] for which, table in tables.items()})
    declared = (entry.kind if isinstance(entry, Column) else entry) in _WORDS
    return Kind.CATEGORY if declared and kind in NUMBERS else kind


def _people(tables: Mapping[str, pl.DataFrame], roles: Mapping[str, Role]) -> dict[str, Ints]:
    """Return the person of each record of original and control, where a column names them.

    Records without a person are those of one person, as when they were condensed.
    """
    column = next((name for name, role in roles.items() if role is Role.PERSON), None)
    if column is None or column not in tables["original"].columns:
        return {}
    found = [which for which in ("original", "control") if which in tables]
    if any(column not in tables[which].columns for which in found):
        raise DataError(
            f"the control has no column '{column}', which says whose records they are: its people "
            "could not be counted. Keep it there; it is not released"
        )
    names = {which: person_names(tables[which][column]) for which in found}
    ranks = pl.concat(list(names.values())).rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
    ends = np.cumsum([len(part) for part in names.values()])[:-1]
    return dict(zip(names, np.split(ranks, ends)))


def refuse_true_keys(column: str, original: pl.Series, release: pl.Series) -> None:
    """Raise if a release names most of its people as the original does.

    New keys are the numbers from 1 on, in random order: those may be in the original by chance,
    as may some of another register.
    """
    new, old = (person_names(keys).drop_nulls().unique() for keys in (release, original))
    by_chance = new.str.strip_chars_start("0").cast(pl.Int64, strict=False).is_between(1, len(new))
    known = int((new.is_in(old.implode()) & ~by_chance.fill_null(False)).sum())
    if 2 * known > len(new):
        raise DataError(
            f"{known} of {len(new)} keys of the release are keys of the original in column "
            f"'{column}': they name people. Give the release new keys, or leave the column out"
        )


def _refuse_members(original: Records, control: Records) -> None:
    """Raise if control records are in the data: every attack would look harmless.

    Strangers may have a twin in the data, about as often as people in it have one; but not the
    same person.
    """
    if original.people is not None and control.people is not None:
        both = np.intersect1d(original.people, control.people)
        if (both > 0).any():
            raise DataError(
                f"{int((both > 0).sum())} of the {control.n_people} people of the control are also "
                "in the original: a control must contain only people who were kept out of the data"
            )
        return
    known, count = int(is_in(control, original).sum()), len(control)
    _, times = np.unique(as_bytes(original), return_counts=True)
    twins = float(times[times > 1].sum() / len(original))
    expected = twins * count + 4 * math.sqrt(twins * (1 - twins) * count)
    if known > expected + max(1, _STRAYS * count):
        raise DataError(
            f"{known} of the {count} records of the control are also in the original: a control "
            "must contain only people who were kept out of the data"
        )


# One frame a table, with the same type in each column of all of them.


def _frames(tables: Sequence[pl.DataFrame], kinds: Mapping[str, Kind]) -> tuple[pl.DataFrame, ...]:
    columns = {name: alike(kind, [table[name] for table in tables]) for name, kind in kinds.items()}
    return tuple(
        pl.DataFrame({name: series[place] for name, series in columns.items()})
        for place in range(len(tables))
    )


def alike(kind: Kind, series: list[pl.Series]) -> list[pl.Series]:
    """Return a column of each table in one type: Float64, Boolean or String."""
    if kind is Kind.BOOLEAN:
        return [part.cast(pl.Boolean) for part in series]
    if kind not in (*NUMBERS, Kind.DATETIME):
        return [_as_words(part) for part in series]
    if all(getattr(part.dtype, "time_zone", None) for part in series):
        # moments, not what the clocks of different zones showed
        series = [part.dt.convert_time_zone("UTC") for part in series]
    return [_as_numbers(part) for part in series]


def _as_numbers(series: pl.Series) -> pl.Series:
    """Convert to numbers: dates in microseconds, durations and times of day in seconds."""
    numbers = series
    if series.dtype in (pl.Time, pl.Duration):  # divided by NumPy: polars is not exact
        clock = series if series.dtype == pl.Time else series.cast(pl.Duration("us"))
        second = 1e9 if series.dtype == pl.Time else 1e6
        ticks = clock.to_physical().cast(pl.Float64).to_numpy()
        numbers = pl.Series(series.name, ticks / second)
    elif series.dtype.is_temporal():
        numbers = series.cast(pl.Datetime("us")).dt.replace_time_zone(None).to_physical()
    numbers = numbers.cast(pl.Float64)
    return pl.select(pl.when(numbers.is_finite()).then(numbers).alias(series.name)).to_series()


def _as_words(series: pl.Series) -> pl.Series:
    """Convert categories to words; among numbers 7 and 7.0 are one."""
    words = series.cast(pl.String)
    if not (series.dtype.is_float() or series.dtype.is_decimal()) or not _is_whole(series):
        return words
    return series.cast(pl.Int64, strict=False).cast(pl.String).fill_null(words)


# The first view: numbers for distances and codes for equality.


@dataclass(frozen=True)
class _Coded:
    """One column in each of the tables."""

    name: str
    numbers: list[Floats] | None  # scaled, missing ones at the middle
    codes: list[Any] | None  # categories; or of numbers, 1 where one is missing
    unit: tuple[float, float] | None = None
    domain: pl.Series | None = None


def _coded(name: str, series: list[pl.Series]) -> _Coded:
    """Return the values of a column in each of the tables, the original's first."""
    if series[0].dtype != pl.Float64:
        return _coded_categories(name, [part.cast(pl.String) for part in series])
    centre, scale = _centre_and_scale(series[0].drop_nulls().to_numpy())
    missing = [part.is_null().to_numpy() for part in series]
    values = [part.to_numpy() for part in series]
    numbers = [
        np.clip(np.where(gone, 0.0, part / scale - centre / scale), -_FAR, _FAR)
        for part, gone in zip(values, missing)
    ]
    codes = missing if any(gone.any() for gone in missing) else None
    return _Coded(name, numbers, codes, unit=(centre, scale))


def _centre_and_scale(known: Floats) -> tuple[float, float]:
    """Compute mean and standard deviation (1 if there is none) of numbers of any size."""
    size = float(np.abs(known).max(initial=0.0))
    if size == 0:
        return 0.0, 1.0
    spread = float((known / size).std()) * size  # squares of the largest would be infinite
    return float((known / size).mean()) * size, spread if spread > 0 else 1.0


def _coded_categories(name: str, words: list[pl.Series]) -> _Coded:
    whole = pl.concat(words)
    codes = whole.rank("dense").fill_null(0).cast(pl.Int32).to_numpy()
    ends = np.cumsum([len(part) for part in words])[:-1]
    domain = pl.concat([pl.Series([""]), whole.drop_nulls().unique().sort()])
    return _Coded(name, None, np.split(codes, ends), domain=domain)


def _records(columns: Sequence[_Coded], place: int, people: Ints | None) -> Records:
    numbers = {c.name: c.numbers[place] for c in columns if c.numbers is not None}
    codes = {c.name: c.codes[place] for c in columns if c.codes is not None}
    rows = len(next(iter((numbers or codes).values())))
    return Records(
        np.column_stack([*numbers.values()]) if numbers else np.empty((rows, 0)),
        np.column_stack([*codes.values()]) if codes else np.empty((rows, 0), np.int32),
        tuple(numbers),
        tuple(codes),
        people,
    )


# The second view: the matrix of the encoder.

_ENCODED = {pl.Float64: Kind.DECIMAL, pl.Boolean: Kind.BOOLEAN, pl.String: Kind.CATEGORY}


class MatrixView:
    """Tables as matrices of the encoder that condensation uses, fitted on the original.

    Each column of the original has a total variance of 1, however many dimensions it takes. A
    category that the original does not have is at 0 in all of them; a number that is missing,
    though none is in the original, is at the mean.
    """

    def __init__(self, original: pl.DataFrame) -> None:
        kinds = {name: _ENCODED[dtype.base_type()] for name, dtype in original.schema.items()}
        self._encoder = TableEncoder([Column(*entry) for entry in kinds.items()]).fit(original)
        self._first = original.row(0, named=True)
        self._domains = {
            name: original[name].unique().implode()
            for name, kind in kinds.items()
            if kind is Kind.CATEGORY
        }
        self._means = {
            name: _centre_and_scale(original[name].cast(pl.Float64).to_numpy())[0]
            for name, kind in kinds.items()
            if kind is not Kind.CATEGORY and original[name].null_count() == 0
        }

    def matrix(self, frame: pl.DataFrame, *, without: str | None = None) -> Floats:
        """Return one row per record; ``without`` leaves out the dimensions of a column."""
        encoder = self._encoder
        strange = self._strange(frame)
        # an encoder refuses what it has not seen: a known cell stands in, and is overwritten below
        known = frame.with_columns(
            pl.when(pl.lit(rows))
            .then(pl.lit(self._first[name], dtype=frame.schema[name]))
            .otherwise(pl.col(name))
            .alias(name)
            for name, rows in strange.items()
        )
        matrix = encoder.encode(known)
        for name, rows in strange.items():
            matrix[rows.to_numpy(), encoder.slices_[name]] = self._means.get(name, 0.0)
        matrix /= encoder.scales_
        np.clip(matrix, -_FAR, _FAR, out=matrix)
        return matrix if without is None else np.delete(matrix, encoder.slices_[without], axis=1)

    def moments(self, frame: pl.DataFrame) -> tuple[Floats, Floats]:
        """Compute mean and covariance of the dimensions, without the matrix of all records."""
        shift = next(self._blocks(frame)).mean(axis=0)
        total, products = np.zeros(len(shift)), np.zeros((len(shift), len(shift)))
        for block in self._blocks(frame):
            block -= shift  # small numbers: their squares stay exact
            total += block.sum(axis=0)
            products += block.T @ block
        mean = total / frame.height
        products /= frame.height
        products -= np.outer(mean, mean)
        return mean + shift, products

    def projected(self, frame: pl.DataFrame, middle: Floats, axes: Floats) -> Floats:
        """Return the coordinates of the records on some axes through a middle."""
        return np.vstack([(block - middle) @ axes for block in self._blocks(frame)])

    def _blocks(self, frame: pl.DataFrame) -> Iterator[Floats]:
        rows = max(1, _NUMBERS // len(self._encoder.scales_))
        for block in frame.iter_slices(rows):
            yield self.matrix(block)

    def _strange(self, frame: pl.DataFrame) -> dict[str, pl.Series]:
        """Return the cells, by column, whose state does not occur in the original."""
        found = {
            name: ~frame[name].is_in(domain, nulls_equal=True)
            for name, domain in self._domains.items()
        } | {name: frame[name].is_null() for name in self._means}
        return {name: rows for name, rows in found.items() if rows.any()}
