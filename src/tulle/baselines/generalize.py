"""Generalisation: values become intervals and sets, until at least k people look alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._checks import check_flag, check_int
from tulle._types import Flags, Floats, Ints
from tulle.condense._diversity import check_sensitive, locate_sensitive
from tulle.condense._levels import check_people, count_people, feasible, locate_people
from tulle.errors import DataError
from tulle.table._encoder import TableEncoder
from tulle.table._frames import enter
from tulle.table._precision import decimals_of
from tulle.table._rare import Hierarchy
from tulle.table.schema import Column, ColumnsLike, Kind, Role, Schema

_ANY = "any"
_TRIED = 5  # places of a cut, from the middle outwards, before a column is given up


class Generalized(NamedTuple):
    """A generalised table.

    ``release`` is the table; ``counts`` has the people in each group of records that look alike,
    and ``loss`` is the share of a column that a value covers, from 0 (exact) to 1 (any value).
    """

    release: Any
    counts: Ints
    loss: float


def generalize(
    X: Any, k: int = 10, *, columns: ColumnsLike | None = None, means: bool = False
) -> Generalized:
    """Replace values by intervals and sets, so that every record looks like ``k - 1`` others.

    The columns that others may know (quasi-identifiers) are generalised; sensitive columns and the
    target stay as they are, identifiers are left out. Demands on sensitive columns (``diversity``,
    ``closeness``) hold in every group. The table is cut in two at the middle of the column that
    leaves the narrowest halves, as long as both halves meet ``k`` and all demands.

    Parameters
    ----------
    X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
        The table.
    k : int
        How many people at least look alike.
    columns : sequence of :class:`~tulle.table.schema.Column`, or mapping
        What a policy says of the columns: roles, hierarchies of categories, demands.
    means : bool
        Release the group's mean of a number instead of an interval, so that the column stays one of
        numbers.

    Returns
    -------
    Generalized
        ``release``, ``counts`` and ``loss``; rows are in the order of ``X``.

    Raises
    ------
    PrivacyError
        If not even all records together meet ``k`` and the demands.

    Examples
    --------
    >>> from tulle import generalize
    >>> rows = [[age, town] for age in range(20, 60) for town in ("Bern", "Chur")]
    >>> made = generalize(rows, k=20)
    >>> made.release[0], made.counts.tolist()
    (['up to 39', 'Bern'], [20, 20, 20, 20])
    """
    check_int("generalize", "k", k, 2)
    check_flag("generalize", "means", means)
    frame, exit = enter(X)
    schema = Schema.of(columns, frame)
    people, sensitive = locate_people(frame, schema), locate_sensitive(frame, schema)
    # the weight of a survey is nearly everybody's own: it would link rows as they stand
    known = [column for column in schema if column.role in (Role.QUASI, Role.WEIGHT)]
    if not known:
        raise DataError("no column has the role 'quasi-identifier': there is nothing to generalize")
    feasible(np.full(frame.height, k, dtype=np.int64), "error", "k")
    ranked = [
        _Ranked.of(frame, column, order) for column, order in zip(known, _orders(frame, known))
    ]

    def enough(rows: Ints) -> bool:
        if len(rows) < k or (people is not None and len(np.unique(people[rows])) < k):
            return False
        alone = np.zeros(len(rows), dtype=np.int64)
        return not any(column.at(rows).falls_short(alone).any() for column in sensitive)

    axes = [one.axis for one in ranked]
    regions = cut(axes, enough)
    groups = np.empty(frame.height, dtype=np.int64)
    for number, region in enumerate(regions):
        groups[region.rows] = number
    demands = np.full(frame.height, k, dtype=np.int64)
    check_people(groups, demands, people)
    check_sensitive(groups, sensitive)
    released = frame.select(schema.released).with_columns(
        one.released(frame, regions, groups, place, means) for place, one in enumerate(ranked)
    )
    return Generalized(exit.leave(released), count_people(groups, people), loss(regions, axes))


class _Ranked(NamedTuple):
    """A column whose values have ranks; rank 0 is missing where there are missing values."""

    column: Column
    axis: Axis
    values: list[Any]  # of each rank; None for missing
    numeric: bool

    @classmethod
    def of(cls, frame: pl.DataFrame, column: Column, order: Sequence[Any] | None) -> _Ranked:
        series = frame[column.name]
        present = series.drop_nulls().unique().sort()
        numeric = order is None
        values: list[Any] = present.to_list() if order is None else list(order)
        places = _number_places(present) if numeric else np.linspace(0, 1, max(len(values), 1))
        if series.null_count():
            values, places = [None, *values], np.concatenate(([places[0] - 1], places))
        rank_of = {value: rank for rank, value in enumerate(values)}
        ranks = np.array([rank_of[value] for value in series.to_list()], dtype=np.int64)
        return cls(column, Axis(ranks, places), values, numeric)

    def released(
        self, frame: pl.DataFrame, regions: list[Region], groups: Ints, place: int, means: bool
    ) -> pl.Series:
        series = frame[self.column.name]
        if means and self.numeric and series.dtype.is_numeric():
            return _means(series, groups)
        labels = [self._label(region.low[place], region.high[place]) for region in regions]
        return pl.Series(self.column.name, [labels[group] for group in groups.tolist()])

    def _label(self, low: int, high: int) -> str:
        last = len(self.values) - 1
        stretch = self.values[low : high + 1]
        if low == high:
            return "missing" if stretch[0] is None else str(stretch[0])
        if low == 0 and high == last:
            return _ANY
        if not self.numeric:
            return self._category(stretch)
        first = 1 if self.values[0] is None else 0
        if low <= first:  # the ends of a column are somebody's value: they stay open
            return (
                f"up to {stretch[-1]}"
                if stretch[0] is not None
                else f"missing or up to {stretch[-1]}"
            )
        return f"{stretch[0]} and above" if high == last else f"{stretch[0]} to {stretch[-1]}"

    def _category(self, stretch: list[Any]) -> str:
        """Return the nearest value above all categories of a stretch, or list them."""
        tree = Hierarchy.of(self.column.hierarchy)
        lines = [[str(value), *tree.above(value)] for value in stretch if value is not None]
        shared = [value for value in lines[0] if all(value in line for line in lines)]
        if shared and None not in stretch:
            return shared[0]
        return " | ".join("missing" if value is None else str(value) for value in stretch)


def _means(series: pl.Series, groups: Ints) -> pl.Series:
    """Return the mean of a column in each record's group, in the column's type and precision."""
    frame = pl.DataFrame({"value": series.cast(pl.Float64), "group": groups})
    means = frame.select(pl.col("value").mean().over("group")).to_series()
    decimals = decimals_of(frame["value"].drop_nulls().to_numpy(), series.dtype)
    rounded = means if decimals is None else means.round(decimals)
    return rounded.cast(series.dtype).alias(series.name)


def _number_places(present: pl.Series) -> Floats:
    values = present.to_physical().cast(pl.Float64).to_numpy()
    if not len(values):
        return np.zeros(1)
    extent = values[-1] - values[0]
    return np.asarray((values - values[0]) / (extent if extent > 0 else 1.0))


def _orders(frame: pl.DataFrame, known: list[Column]) -> list[Sequence[Any] | None]:
    """Return an order of the categories of each column, in which neighbours are alike.

    Those below one value of a hierarchy lie together; else they lie as their records do along the
    direction in which the table is widest. None for a column that has its own order.
    """
    unordered = [
        column.kind is Kind.CATEGORY or not (dtype.is_numeric() or dtype.is_temporal())
        for column, dtype in ((column, frame.schema[column.name]) for column in known)
    ]
    if not any(unordered):
        return [None] * len(known)
    table = frame.select(column.name for column in known)
    encoder = TableEncoder([c for c in known if c.kind is not Kind.TEXT]).fit(table)
    matrix = encoder.encode(table) / encoder.scales_
    matrix -= matrix.mean(axis=0)
    widest = matrix @ np.linalg.eigh(matrix.T @ matrix)[1][:, -1]
    return [
        _ordered(frame[column.name], column, widest) if free else None
        for column, free in zip(known, unordered)
    ]


def _ordered(series: pl.Series, column: Column, along: Floats) -> list[Any]:
    tree = Hierarchy.of(column.hierarchy)
    means = (
        pl.DataFrame({"value": series, "along": along})
        .drop_nulls()
        .group_by("value", maintain_order=True)
        .agg(pl.col("along").mean())
        .rows()
    )
    lines = {value: tuple(reversed(tree.above(value))) for value, _ in means}
    return [
        value for value, _ in sorted(means, key=lambda one: (lines[one[0]], one[1], str(one[0])))
    ]


# The table is cut in two, again and again, as long as it may be: Mondrian (LeFevre, DeWitt and
# Ramakrishnan 2006), except that of all columns the one is cut that leaves the narrowest halves,
# and that categories lie in an order in which neighbours are alike.


@dataclass(frozen=True, eq=False)
class Axis:
    """One column to generalise: the rank of each record's value, and where the ranks lie."""

    ranks: Ints
    places: Floats  # of each rank, from 0 to 1; missing lies one width away from all values

    def width(self, low: int, high: int) -> float:
        """Return the share of the column that a stretch of ranks covers."""
        return min(1.0, float(self.places[high] - self.places[low]))


class Region(NamedTuple):
    """Records that will look alike, and for each column the first and last rank of their values."""

    rows: Ints
    low: list[int]
    high: list[int]


def cut(axes: list[Axis], enough: Callable[[Ints], bool]) -> list[Region]:
    """Return the regions: as many cuts as ``enough`` allows, which judges the rows of a half."""
    ranks = np.column_stack([axis.ranks for axis in axes])
    done, pending = [], [np.arange(len(ranks))]
    while pending:
        rows = pending.pop()
        halves = _best_cut(rows, axes, ranks, enough)
        if halves is None:
            inside = ranks[rows]
            done.append(Region(rows, inside.min(axis=0).tolist(), inside.max(axis=0).tolist()))
        else:
            pending += halves
    return done


def loss(regions: list[Region], axes: list[Axis]) -> float:
    """Return the mean share of a column that a released value covers: 0 for exact, 1 for any."""
    total = sum(
        len(rows) * sum(axis.width(a, b) for axis, a, b in zip(axes, low, high))
        for rows, low, high in regions
    )
    return total / (sum(len(region.rows) for region in regions) * len(axes))


def _best_cut(
    rows: Ints, axes: list[Axis], ranks: Ints, enough: Callable[[Ints], bool]
) -> list[Ints] | None:
    """Return the two halves that are narrowest together, if there are any."""
    best, least = None, np.inf
    inside = ranks[rows]
    for column in inside.T:
        for left in _halved(column):
            halves = [rows[left], rows[~left]]
            if all(enough(half) for half in halves):
                width = _spread(inside[left], axes) + _spread(inside[~left], axes)
                if width < least:
                    best, least = halves, width
                break
    return best


def _halved(values: Ints) -> Iterator[Flags]:
    """Yield the rows on one side of a cut, cuts nearest to the middle first."""
    there, counts = np.unique(values, return_counts=True)
    uneven = np.abs(np.cumsum(counts)[:-1] - len(values) / 2)
    for place in np.argsort(uneven, kind="stable")[:_TRIED]:
        yield values <= there[place]


def _spread(ranks: Ints, axes: list[Axis]) -> float:
    """Return how much of all columns some records cover, times their number."""
    low, high = ranks.min(axis=0).tolist(), ranks.max(axis=0).tolist()
    return len(ranks) * sum(axis.width(a, b) for axis, a, b in zip(axes, low, high))
