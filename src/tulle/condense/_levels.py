"""Privacy levels: one whole number a record, the smallest group that it accepts to be in.

Where people have several rows, groups count different people, not rows.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._checks import check_int
from tulle._people import distinct_people
from tulle._types import Flags, Floats, Ints
from tulle.errors import DataError, PrivacyError, nearest_name
from tulle.table._codecs import Problem, refuse
from tulle.table._frames import enter_column
from tulle.table._precision import EXACT
from tulle.table._series import filled, person_names
from tulle.table.schema import Column, Kind, Role, Schema

_SEVERAL = 0.05  # of the people: in a table in which fewer have several rows, a row is a person
COMMON = 0.9  # of the records: so many must not pay for what few ask


class LevelSummary(NamedTuple):
    """What one level got."""

    level: int
    records: int
    smallest_group: int  # the smallest group that holds a record of this level


def locate_levels(
    frame: pl.DataFrame, levels: Any, schema: Schema, *, plain: bool
) -> tuple[Any, Schema]:
    """Return the levels themselves, and the schema with the column that holds them marked.

    Levels may be given as such, as the name of a column, or by a column's role in the schema.
    """
    if levels is None:
        levels = _only(schema.named(Role.LEVEL))
    if not isinstance(levels, str):
        return levels, schema
    return level_column(frame, levels, plain=plain), schema.with_column(
        Column(levels, Kind.INTEGER, Role.LEVEL)
    )


def level_column(frame: pl.DataFrame, name: str, *, plain: bool) -> pl.Series:
    if plain:
        raise DataError(f"levels='{name}' names a column, but the data has no column names")
    if name not in frame.columns:
        raise DataError(
            f"levels='{name}' is not a column of the table: {nearest_name(name, frame.columns)}"
        )
    return frame[name]


def _only(names: list[str]) -> str | None:
    """Return the one column that has the role, if there is one."""
    if len(names) > 1:
        raise DataError(f"{len(names)} columns have the role 'level': at most one may")
    return names[0] if names else None


def check_levels(levels: Any, n_records: int) -> Ints:
    """Return levels as whole numbers of at least 1, one for each record (or one for all)."""
    if n_records == 0:
        raise DataError("the table has 0 records: there is nothing to condense")
    if isinstance(levels, Integral):
        return np.full(n_records, check_int("fit", "levels", levels, 1, EXACT), dtype=np.int64)
    series, _ = enter_column(levels, "levels")
    if len(series) != n_records:
        raise DataError(
            f"levels has {len(series)} entries, but there are {n_records} records: give one level "
            "per record"
        )
    values, problems = _read_levels(series)
    refuse(problems)
    return values.astype(np.int64)


def level_problems(series: pl.Series) -> list[Problem]:
    """Return the rows of a column of levels that are not levels, and why."""
    return _read_levels(series)[1]


def _read_levels(series: pl.Series) -> tuple[Floats, list[Problem]]:
    """Return levels as numbers, and which of them are wrong and why."""
    named = "the level" if series.name == "levels" else f"the level in column '{series.name}'"
    remedy = "give every record a whole number from 1 (no protection) to 2**53"
    if not (series.dtype.is_numeric() or series.dtype == pl.Null):
        kind = series.dtype.base_type()  # the whole type of categories would name them
        rows = np.ones(len(series), dtype=bool)
        return np.zeros(len(series)), [Problem(rows, f"{named} is of type {kind}", remedy)]
    values = filled(series.cast(pl.Float64), np.nan)
    missing = np.isnan(values)
    found = {
        "missing": missing,
        "not a whole number": ~missing & ~(np.isfinite(values) & (values == np.rint(values))),
        "below 1": values < 1,
        "above 2**53": values > EXACT,
    }
    return values, [
        Problem(rows, f"{named} is {what}", remedy) for what, rows in found.items() if rows.any()
    ]


def common_level(levels: Ints) -> int:
    """Return the level that nine records of ten accept.

    A synthesis that learns from everybody learns at this level; it replaces the records that ask
    for more by what groups as large as they ask for have in common.
    """
    return int(np.quantile(levels, COMMON, method="inverted_cdf"))


def able(levels: Ints, people: Ints | None = None) -> Flags:
    """Return which records a valid grouping can hold; the most demanding ones are left out.

    A record of level p needs p records, itself included, or p people.
    """
    order = np.argsort(-levels, kind="stable")
    left = len(levels) - np.arange(len(levels))  # if all before are withheld
    if people is not None:
        last = np.zeros(len(levels), dtype=np.int64)
        last[len(levels) - 1 - np.unique(people[order][::-1], return_index=True)[1]] = 1
        left = last[::-1].cumsum()[::-1]
    enough = levels[order] <= left
    kept = np.zeros(len(levels), dtype=bool)
    if enough.any():
        kept[order[np.argmax(enough) :]] = True
    return kept


def feasible(levels: Ints, on_infeasible: str, asked: str) -> Flags:
    """Return which records are :func:`able`; raise where all must be, or none is."""
    kept = able(levels)
    if not kept.all() and (on_infeasible == "error" or not kept.any()):
        top = int(levels.max())
        raise PrivacyError(
            f"n_samples={len(levels)} is smaller than {asked}={top}, which "
            f"{int((levels == top).sum())} records require: lower it, add records, or withhold "
            "those records with on_infeasible='suppress'",
            parameter="k" if asked == "k" else "levels",
        )
    return kept


def summarise_levels(levels: Ints, groups: Ints, people: Ints) -> list[LevelSummary]:
    """Return, for each level, its records and the fewest people in a group that holds one of
    them.
    """
    sizes = people[groups]
    order = np.lexsort((sizes, levels))
    values, starts, counts = np.unique(levels[order], return_index=True, return_counts=True)
    smallest = sizes[order][starts]
    return [LevelSummary(*map(int, row)) for row in zip(values, counts, smallest)]


def join_summaries(*summaries: list[LevelSummary]) -> list[LevelSummary]:
    """Combine summaries of several parts of the data into one."""
    joined: dict[int, LevelSummary] = {}
    for part in (entry for summary in summaries for entry in summary):
        known = joined.get(part.level, LevelSummary(part.level, 0, part.smallest_group))
        joined[part.level] = LevelSummary(
            part.level, known.records + part.records, min(known.smallest_group, part.smallest_group)
        )
    return [joined[level] for level in sorted(joined)]


def locate_people(frame: pl.DataFrame, schema: Schema) -> Ints | None:
    """Return the person of each row as a number, if a column names them and some have several.

    Rows without a person count as those of one person: they are not known to be several.
    """
    name = person_column(schema)
    if name is None:
        return None
    ranks = person_names(frame[name]).rank("dense").fill_null(0).to_numpy().astype(np.int64)
    return None if len(np.unique(ranks)) == len(ranks) else ranks


def have_histories(people: Ints) -> bool:
    """Tell whether enough people have several rows for these to be learnt one after the other."""
    rows = np.unique(people, return_counts=True)[1]
    return bool((rows > 1).mean() >= _SEVERAL)


def person_column(schema: Schema) -> str | None:
    names = schema.named(Role.PERSON)
    if len(names) > 1:
        raise DataError(f"{len(names)} columns have the role 'person': at most one may")
    return names[0] if names else None


def count_people(groups: Ints, people: Ints | None) -> Ints:
    """Return how many different people each group holds; without a person, its rows."""
    return distinct_people(groups, people, int(groups.max(initial=-1)) + 1)


def too_few_people(groups: Ints, demands: Ints, people: Ints | None) -> Flags:
    """Return which groups hold fewer people than a record in them requires."""
    asked = np.zeros(int(groups.max()) + 1, dtype=np.int64)
    np.maximum.at(asked, groups, demands)
    return count_people(groups, people) < asked


def check_people(groups: Ints, demands: Ints, people: Ints | None = None) -> None:
    """Refuse a grouping in which a group holds fewer people than a record in it requires."""
    short = too_few_people(groups, demands, people)
    if short.any() and len(short) == 1:
        raise PrivacyError(
            f"there are only {int(count_people(groups, people)[0])} different people, but a group "
            f"must hold {int(demands.max())}: lower the group size, or add people",
            parameter="k",
        )
    if short.any():
        raise PrivacyError(
            f"{int(short.sum())} of {len(short)} groups hold fewer people than the level of a "
            "record in them: nothing is released"
        )
