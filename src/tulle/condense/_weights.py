"""Survey weights: those of a release add up to the totals of the original.

A weight is drawn like any other number. Then the weights of a release are multiplied, each by a
factor that depends on the other columns of its record, until the values that enough people hold
weigh as much as they do in the original and numbers have the same weighted means (raking). People
are counted, not weights, and nobody counts for more than three times what k people weigh at
least. The sum of these is kept; no other total is exact: each is off, by a lot drawn once, by up
to what the person with the most says in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from tulle._relations.values import numbers_of
from tulle._types import Flags, Floats, Ints
from tulle.condense._levels import person_column
from tulle.errors import DataError
from tulle.table._rare import Crowd
from tulle.table.schema import Role, Schema

_MOST_VALUES = 60  # of a column that are totalled one by one; numbers with more have a mean
_MOST_MARGINS = 300
_HEAVIEST = 3.0  # times as much as k people weigh at least: nobody counts for more
_ROWS_EACH = 20  # records to each margin, at least: with fewer, weights would be torn apart
_STEPS = 40  # of Newton's method
_FURTHEST = np.log(5.0)  # a factor is at most 5
_BEYOND = 1.25  # times the heaviest that was drawn: heavier ones would say too much of all
_RIDGE = 1e-7  # totals that contradict each other meet in the middle
_DIGITS = 6  # of a released weight


class WeightMargin(NamedTuple):
    """A value and its share of all weights; or a number, and its weighted mean in its own units."""

    column: str
    value: str | None  # None: missing, or a number
    share: float
    behind: int  # people
    unit: tuple[float, float] | None = None  # centre and spread of a number


@dataclass(frozen=True)
class WeightTotals:
    """What the weights of a release add up to."""

    column: str
    total: float
    margins: tuple[WeightMargin, ...]
    person: str | None = None  # the column that names people, who may have one weight each

    @classmethod
    def of(
        cls, frame: pl.DataFrame, schema: Schema, crowd: Crowd, kept: Flags, *, exact: bool = False
    ) -> WeightTotals | None:
        """Return the totals of a table, of those whom the crowd counts; None without weights."""
        names = schema.named(Role.WEIGHT)
        if not names:
            return None
        if len(names) > 1:
            raise DataError(f"{len(names)} columns have the role 'weight': at most one may")
        weights = np.where(kept, weights_of(frame[names[0]]), 0.0)
        weights = np.minimum(weights, _HEAVIEST * _shared(weights, crowd))
        total, counted = float(weights.sum()), weights * crowd.kept
        if not counted.sum() > 0:
            raise DataError(f"all weights in column '{names[0]}' are 0: give it another role")
        counted /= counted.sum()
        rng = None if exact else crowd.rng
        released = [n for n in frame.columns if n in schema.released and n != names[0]]
        found = [m for n in released for m in _margins(frame[n], counted, crowd, rng)]
        most = min(_MOST_MARGINS, int(crowd.kept.sum()) // _ROWS_EACH)
        found = sorted(found, key=lambda margin: -margin.behind)[:most]
        return cls(names[0], total, tuple(found), person_column(schema))

    def calibrate(self, frame: pl.DataFrame, owners: Ints | None = None) -> pl.DataFrame:
        """Let the weights of a drawn table add up; a weight that each owner has once stays one.

        ``owners`` are the people of its rows, by default those that the person column names.
        """
        series = frame[self.column]
        weights = np.maximum(np.nan_to_num(numbers_of(series)), 0.0)
        if not weights.sum() > 0:
            weights = np.ones(frame.height)
        design, totals = self._equations(frame)
        if owners is None and self.person in frame.columns:
            owners = np.unique(frame[self.person], return_inverse=True)[1]
        if owners is not None and _is_constant(weights, owners):
            sums, rows = np.zeros((int(owners.max()) + 1, design.shape[1])), np.bincount(owners)
            np.add.at(sums, owners, design)
            design = (sums / np.maximum(rows, 1)[:, None])[owners]
        raked = rake(weights * (self.total / weights.sum()), design, totals)
        return frame.with_columns(_written(raked, series))

    def _equations(self, frame: pl.DataFrame) -> tuple[Floats, Floats]:
        """Return what is added up, a column to each margin, and to how much."""
        parts, totals = [np.ones((frame.height, 1))], [np.array([self.total])]
        for name in dict.fromkeys(margin.column for margin in self.margins):
            own = [m for m in self.margins if m.column == name and name in frame.columns]
            columns = [_indicator(frame[name], margin) for margin in own]
            kept = [place for place, column in enumerate(columns) if column.any()]
            if not kept:
                continue
            block = np.column_stack([columns[place] for place in kept])
            shares = np.array([own[place].share for place in kept])
            if own[0].unit is None and (block.sum(axis=1) == 1).all():  # nobody has another value
                shares = shares / shares.sum()
            parts.append(block)
            totals.append(shares * self.total)
        return np.hstack(parts), np.concatenate(totals)


def _shared(weights: Floats, crowd: Crowd) -> float:
    """Return the largest weight that as many people have as a release rests on, or more."""
    people = np.arange(len(weights)) if crowd.people is None else crowd.people
    largest = np.zeros(int(people.max()) + 1)
    np.maximum.at(largest, people[crowd.kept], weights[crowd.kept])
    heaviest = np.sort(largest)[::-1]
    return float(heaviest[min(crowd.k, len(np.unique(people))) - 1])


def weights_of(series: pl.Series) -> Floats:
    """Return survey weights; refuse what cannot be one."""
    if not series.dtype.is_numeric():
        raise DataError(f"the weights in column '{series.name}' are not numbers")
    values = numbers_of(series)
    wrong = int((~np.isfinite(values) | (values < 0)).sum())
    if wrong:
        raise DataError(
            f"{wrong:,} of {len(values):,} weights in column '{series.name}' are missing or below "
            "0: correct them, or give the column another role"
        )
    return values


def rake(weights: Floats, design: Floats, totals: Floats) -> Floats:
    """Return weights times exp(a linear form of ``design``) that add up to ``totals``.

    They stay about in the range of the weights: a few heavy ones would double standard errors.
    """
    scale, form = float(weights.sum()), np.zeros(design.shape[1])
    ridge, raked = _RIDGE * scale * np.eye(design.shape[1]), weights
    low, high = weights.min() / _BEYOND, weights.max() * _BEYOND
    for _ in range(_STEPS):
        gap = totals - design.T @ raked - _RIDGE * scale * form
        if np.abs(gap).max() <= 1e-10 * scale:
            break
        form = form + np.linalg.solve((design * raked[:, None]).T @ design + ridge, gap)
        factors = np.exp(np.clip(design @ form, -_FURTHEST, _FURTHEST))
        raked = np.clip(weights * factors, low, high)
    return raked * (totals[0] / raked.sum())


def _margins(
    series: pl.Series, shares: Floats, crowd: Crowd, rng: np.random.Generator | None
) -> list[WeightMargin]:
    """Add up a column's values that enough people hold; ``shares`` are weights."""
    if series.dtype.is_nested() or series.dtype in (pl.Object, pl.Binary):
        return []
    people = np.arange(len(shares)) if crowd.people is None else crowd.people

    def said(column: Floats) -> float:
        """Add up a share, off by up to what one person says in it."""
        parts = np.bincount(people, weights=shares * column)
        lot = 0.0 if rng is None else float(rng.uniform(-1, 1))
        return float(parts.sum()) + lot * float(np.abs(parts).max())

    measured = series.dtype.is_numeric() or series.dtype.is_temporal()
    if measured and series.n_unique() > _MOST_VALUES:
        values = numbers_of(series)
        there = crowd.kept & np.isfinite(values)
        if crowd.hold(there) < crowd.enough() or not (spread := float(values[there].std())) > 0:
            return []
        whole = WeightMargin(series.name, None, 0.0, crowd.hold(there))
        whole = whole._replace(unit=(float(values[there].mean()), spread))
        return [whole._replace(share=said(np.where(there, _indicator(series, whole), 0.0)))]
    texts = series.cast(pl.String)
    domain = texts.unique().sort()  # what is missing comes first
    ranks = texts.rank("dense").cast(pl.Int64) + domain.null_count()
    codes = ranks.fill_null(1).to_numpy() - 1
    held = crowd.held(codes, len(domain))
    common = np.argsort(-held, kind="stable")[:_MOST_VALUES]
    return [
        WeightMargin(series.name, domain[at], said((codes == at).astype(float)), int(held[at]))
        for at in common.tolist()
        if held[at] >= crowd.enough()
    ]


def _indicator(series: pl.Series, margin: WeightMargin) -> Floats:
    """Say what each record adds to a margin."""
    if margin.unit is not None:
        return np.nan_to_num((numbers_of(series) - margin.unit[0]) / margin.unit[1])
    value = pl.Series([margin.value], dtype=pl.String)
    return series.cast(pl.String).eq_missing(value).cast(pl.Float64).to_numpy()


def _is_constant(weights: Floats, owners: Ints) -> bool:
    first = np.unique(owners, return_index=True)[1]
    return bool((weights[first][np.searchsorted(owners[first], owners)] == weights).all())


def _written(weights: Floats, series: pl.Series) -> pl.Series:
    """Return weights as the column has them; whole ones are rounded so that sums stay."""
    if series.dtype.is_integer():
        whole = np.diff(np.rint(np.cumsum(weights)), prepend=0.0)
        return pl.Series(series.name, whole).cast(series.dtype)
    decimals = max(_DIGITS - 1 - int(np.floor(np.log10(weights.mean()))), 0)
    return pl.Series(series.name, np.round(weights, decimals)).cast(series.dtype)
