"""Demands on sensitive columns (l-diversity, t-closeness): read from a table, met by groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tulle._shape.diversity import Diversity, in_steps, tally
from tulle._types import Flags, Floats, Ints
from tulle.errors import ParameterError, PrivacyError
from tulle.table.schema import Column, Kind, Schema


@dataclass(frozen=True)
class Sensitive:
    """A sensitive column with a demand, and the value of each record as a number."""

    demand: Diversity
    codes: Ints
    whole: Floats  # how often each value occurs in the table

    def at(self, rows: Flags | Ints) -> Sensitive:
        """Return the column of some records; the table's distribution stays the whole table's."""
        return Sensitive(self.demand, self.codes[rows], self.whole)

    def falls_short(self, groups: Ints) -> Flags:
        counts = tally(groups, self.codes)
        missing = len(self.whole) - counts.shape[1]
        return self.demand.falls_short(np.pad(counts, ((0, 0), (0, missing))), self.whole)


def locate_sensitive(
    frame: pl.DataFrame, schema: Schema, whole: pl.DataFrame | None = None
) -> list[Sensitive]:
    """Return the columns of a table on which the schema puts demands.

    Where it is only a part, ``whole`` has values of the whole table to which groups must be close.
    """
    found = []
    for column in schema:
        values = frame[column.name]
        known = 0 if whole is None or column.name not in whole.columns else whole.height
        if whole is not None and known:
            values = pl.concat([whole[column.name], values], rechunk=True)
        ordered = values.dtype.is_numeric() or values.dtype.is_temporal()
        ordered &= column.kind is not Kind.CATEGORY
        demand = demand_of(column, ordered=ordered)
        if demand is None:
            continue
        ranks = (values if ordered else values.cast(pl.String)).rank("dense").fill_null(0)
        codes = ranks.to_numpy().astype(np.int64)
        codes -= int(codes.min(initial=0))
        if ordered and demand.distance < 1:
            codes = in_steps(codes)
        counted = np.bincount(codes[:known] if known else codes, minlength=int(codes.max()) + 1)
        found.append(Sensitive(demand, codes[known:], counted.astype(np.float64)))
    return found


def demand_of(column: Column, *, ordered: bool = False) -> Diversity | None:
    if column.diversity is None and column.closeness is None:
        return None
    distance = 1.0 if column.closeness is None else column.closeness
    return Diversity(column.name, column.diversity or 1, distance, ordered)


def refuse_demands(schema: Schema, what: str) -> None:
    """Refuse a table with demands on sensitive columns where groups do not obey them."""
    for column in schema:
        if demand_of(column) is not None:
            raise ParameterError(
                f"column '{column.name}' has a demand ('diversity' or 'closeness') that {what} "
                "does not meet: remove it, or use condense"
            )


def check_sensitive(groups: Ints, sensitive: list[Sensitive]) -> None:
    """Refuse groups that do not meet the demands on sensitive columns."""
    for column in sensitive:
        short = int(column.falls_short(groups).sum())
        if not short:
            continue
        if int(groups.max()) == 0:
            raise PrivacyError(
                f"column '{column.demand.name}': not even all records together have "
                f"{column.demand.describe()}. Lower the demand, or pool small classes",
                subject=column.demand.name,
            )
        raise PrivacyError(
            f"column '{column.demand.name}': {short} of {int(groups.max()) + 1} groups do not have "
            f"{column.demand.describe()}: nothing is released",
            subject=column.demand.name,
        )
