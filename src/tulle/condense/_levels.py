"""Privacy levels: one whole number a record, the smallest group that it accepts to be in."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._checks import check_int
from tulle._moments import GroupMoments
from tulle._types import Ints
from tulle.errors import DataError, ParameterError, PrivacyError, nearest_name
from tulle.table._frames import as_series, open_column
from tulle.table._numbers import EXACT
from tulle.table.schema import Column, Kind, Role


class LevelSummary(NamedTuple):
    """What one level got."""

    level: int
    records: int
    smallest_group: int  # the smallest group that holds a record of this level


def locate_levels(
    X: Any, levels: Any, columns: Sequence[Column] | None
) -> tuple[Any, list[Column]]:
    """The levels themselves, and the columns with the one that holds them marked.

    Levels may be given as such, as the name of a column, or by a column's role in the policy.
    """
    known = list(columns or [])
    if not all(isinstance(column, Column) for column in known):
        raise ParameterError("'columns' must be a list of tulle.table.schema.Column")
    if levels is None:
        levels = _named([column.name for column in known if column.role is Role.LEVEL])
    if not isinstance(levels, str):
        return levels, known
    # in pyarrow the attribute `columns` holds the data, not the names
    labels = list(getattr(X, "column_names", getattr(X, "columns", [])))
    names = [str(label) for label in labels]
    if not names:
        raise DataError(f"levels='{levels}' names a column, but the data has no column names")
    if levels not in names:
        raise DataError(
            f"levels='{levels}' names no column of the table: {nearest_name(levels, names)}"
        )
    kept = [column for column in known if column.name != levels]
    return X[labels[names.index(levels)]], [*kept, Column(levels, Kind.INTEGER, Role.LEVEL)]


def _named(names: list[str]) -> str | None:
    """The one column that has the role, if there is one."""
    if len(names) > 1:
        raise DataError(f"{len(names)} columns have the role level: a record has one level only")
    return names[0] if names else None


def check_levels(levels: Any, n_records: int) -> Ints:
    """Levels as whole numbers of at least 1, one for each record (or one for all)."""
    if n_records == 0:
        raise DataError("the table has 0 records: there is nothing to condense")
    if isinstance(levels, Integral):
        return np.full(n_records, check_int("fit", "levels", levels, 1, EXACT), dtype=np.int64)
    columns, _ = open_column(levels, "levels")
    series = as_series("levels", next(iter(columns.values())))
    if len(series) != n_records:
        raise DataError(
            f"levels has {len(series)} entries, but there are {n_records} records: give one "
            "level a record"
        )
    if not (series.dtype.is_numeric() or series.dtype == pl.Null):
        kind = series.dtype.base_type()  # the whole type of categories would name them
        raise _wrong(f"must be whole numbers >= 1, but their type is {kind}")
    values = series.cast(pl.Float64).to_numpy()
    missing = int(np.isnan(values).sum())
    if missing:
        raise _wrong(
            f"are missing for {missing} records: give every record a whole number >= 1 "
            "(1 asks for no protection)"
        )
    broken = int((~np.isfinite(values) | (values != np.rint(values))).sum())
    if broken:
        raise _wrong(f"must be whole numbers, but {broken} are not")
    low = int((values < 1).sum())
    if low:
        raise _wrong(f"must be >= 1, but {low} are lower")
    high = int((values > EXACT).sum())
    if high:
        raise _wrong(f"must be at most 2**53, but {high} are higher")
    return values.astype(np.int64)


def _wrong(predicate: str) -> DataError:
    return DataError(predicate, parameter="levels", subject="levels")


def feasible(levels: Ints, on_infeasible: str, asked: str) -> NDArray[np.bool_]:
    """Which records some valid grouping can hold: all, or an error, or all but those withheld.

    A record of level p needs p records beside and including itself. With
    ``on_infeasible="suppress"`` the most demanding ones are withheld until the rest is enough.
    """
    withheld = count_infeasible(levels)
    if withheld and (on_infeasible == "error" or withheld == len(levels)):
        top = int(levels.max())
        raise PrivacyError(
            f"n_samples={len(levels)} is smaller than {asked}={top}, which "
            f"{int((levels == top).sum())} records ask for: lower it, add records, or withhold "
            "those records with on_infeasible='suppress'",
            parameter="k" if asked == "k" else "levels",
        )
    kept = np.ones(len(levels), dtype=bool)
    kept[np.argsort(-levels, kind="stable")[:withheld]] = False
    return kept


def count_infeasible(levels: Ints) -> int:
    """How many of the most demanding records to withhold until the rest can be grouped."""
    demanding = -np.sort(-levels)
    left = len(levels) - np.arange(len(levels))  # records left if all before are withheld
    enough = demanding <= left
    return int(np.argmax(enough)) if enough.any() else len(levels)


def summarise_levels(levels: Ints, groups: Ints) -> list[LevelSummary]:
    """For each level, its records and the smallest group that holds one of them."""
    sizes = np.bincount(groups)[groups]
    order = np.lexsort((sizes, levels))
    values, starts, counts = np.unique(levels[order], return_index=True, return_counts=True)
    smallest = sizes[order][starts]
    return [LevelSummary(*map(int, row)) for row in zip(values, counts, smallest)]


def join_summaries(*summaries: list[LevelSummary]) -> list[LevelSummary]:
    """Summaries of several parts of the data as one."""
    joined: dict[int, LevelSummary] = {}
    for part in (entry for summary in summaries for entry in summary):
        known = joined.get(part.level, LevelSummary(part.level, 0, part.smallest_group))
        joined[part.level] = LevelSummary(
            part.level,
            known.records + part.records,
            min(known.smallest_group, part.smallest_group),
        )
    return [joined[level] for level in sorted(joined)]


# The invariant of condensation: no group is smaller than the level of a record in it.


def check_groups(groups: Ints, levels: Ints) -> None:
    """Refuses a grouping that breaks the invariant; counts groups, shows no record."""
    sizes = np.bincount(groups)
    demands = np.zeros(len(sizes), dtype=np.int64)
    np.maximum.at(demands, groups, levels)
    small = int((sizes < demands).sum())
    if small:
        raise PrivacyError(
            f"{small} of {len(sizes)} groups are smaller than the level of a record in them: "
            "nothing is released"
        )


def check_moments(moments: GroupMoments) -> None:
    """Refuses statistics of groups that break the invariant: once more, before anything leaves."""
    small = int((moments.counts < moments.levels).sum())
    if small:
        raise PrivacyError(
            f"{small} groups are smaller than the level of a record in them: nothing is released. "
            "Fit again"
        )


def check_feasible(levels: Ints) -> None:
    """Refuses levels that no grouping of these records can meet."""
    if len(levels) and levels.max() > len(levels):
        asking = int((levels > len(levels)).sum())
        raise PrivacyError(
            f"{asking} of {len(levels)} records ask for a group of up to {levels.max()}, more than "
            "there are records: lower their level, add records, or suppress them"
        )
