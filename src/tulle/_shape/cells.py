"""A column in cells, each held by at least ``k`` people: all that the rest of the synthesis sees.

A cell is a category, a state (missing, or a special code), a value that many people share, or a
stretch of neighbouring values. Grouping, trees and draws work on the numbers of cells; only when
a table is written does a cell become a value again, drawn from its part of the smoothed quantile
function.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tulle._columns import CategoryColumn, Column, NumberColumn
from tulle._people import Owners, draw_threshold
from tulle._shape.quantiles import Quantiles, fit_quantiles
from tulle._types import Floats, Ints, Singles

_SLACK = 1e-9
_ANY = 1e-6  # people that are enough where somebody chose to keep what is rare
_HEAP = 0.05  # share of people from which a value is a state for the trees
_MOST_STATES = 32
_MOST_DIMENSIONS = 31  # of a category; fewer where a table has many columns
_ALL_DIMENSIONS = 1024  # about, of all columns together


@dataclass(frozen=True)
class NumberCells:
    """States first, then the cells of the quantile function in ascending order."""

    name: str
    states: Floats  # NaN for missing
    quantiles: Quantiles | None
    shares: Floats

    ordered = True

    @property
    def size(self) -> int:
        return len(self.shares)

    def encode(self, column: NumberColumn) -> Ints:
        """Return the cell of each row; -1 in a state of too few people, which has none."""
        values = column.values
        cells = np.full(len(values), -1, dtype=np.int64)
        for place, state in enumerate(self.states.tolist()):
            cells[np.isnan(values) if np.isnan(state) else values == state] = place
        plain = (cells < 0) & np.isfinite(values)
        if column.specials:
            plain &= ~np.isin(values, column.specials)
        if self.quantiles is not None:
            cells[plain] = len(self.states) + self.quantiles.encode(values[plain])
        return cells

    def decode(self, cells: Ints, rng: np.random.Generator, order: Singles | None = None) -> Floats:
        values = np.empty(len(cells))
        state = cells < len(self.states)
        values[state] = self.states[cells[state]]
        if self.quantiles is not None:
            places = cells[~state] - len(self.states)
            order = None if order is None else order[~state]
            values[~state] = self.quantiles.draw(places, rng, order)
        return values

    def order(self) -> Floats:
        return standard(np.cumsum(self.shares) - self.shares / 2, self.shares)

    def as_states(self) -> Ints:
        """Return a state of each cell for the trees: missing, codes and heaps; 0 for the others."""
        heaps = np.flatnonzero(self.shares >= _HEAP)
        special = np.union1d(np.arange(len(self.states)), heaps)[: _MOST_STATES - 1]
        states = np.zeros(self.size, dtype=np.int64)
        states[special] = 1 + np.arange(len(special))
        return states

    def coordinates(self, columns: int = 1) -> Floats:
        """Return the place of each cell in space: its rank as a normal score, and its state."""
        scores = standard(_normal(np.cumsum(self.shares) - self.shares / 2), self.shares)
        indicators = [
            standard((np.arange(self.size) == state).astype(float), self.shares) / 2
            for state in range(min(len(self.states), _dimensions(columns)))
        ]
        return np.stack([scores, *indicators], axis=1)

    def points(self, column: NumberColumn, cells: Ints, columns: int = 1) -> Floats:
        """Return the place of each row: as its cell's, but numbers by their rank within it.

        Cells grow with ``k``; what neighbours within one say of other columns would be lost.
        """
        places = self.coordinates(columns)
        points = places[cells]
        order = np.lexsort((column.values, cells))
        codes, values = cells[order], column.values[order]
        new = np.r_[True, (codes[1:] != codes[:-1]) | (values[1:] != values[:-1])][: len(order)]
        run = np.cumsum(new) - 1  # rows of equal values share a rank
        middle = (np.bincount(run, weights=np.arange(len(run))) / np.bincount(run))[run] + 0.5
        counts = np.bincount(cells, minlength=self.size)
        begin = np.cumsum(counts) - counts
        ranks = np.empty(len(cells))
        part = (middle - begin[codes]) / counts[codes]
        ranks[order] = (np.cumsum(self.shares) - self.shares)[codes] + part * self.shares[codes]
        plain = (cells >= len(self.states)) & (self.shares[cells] > 0)
        fine = standard(_normal(ranks), np.full(len(cells), 1 / max(len(cells), 1)))
        points[plain, 0] = fine[plain]
        return points


@dataclass(frozen=True)
class CategoryCells:
    """One cell for each category, and a last one for missing where enough people miss."""

    name: str
    categories: int
    shares: Floats

    ordered = False

    @property
    def size(self) -> int:
        return len(self.shares)

    def encode(self, column: CategoryColumn) -> Ints:
        """Return the cell of each row; what too few people have is the commonest category."""
        commonest = int(self.shares.argmax())
        known = np.where(self.shares > 0, np.arange(self.size), commonest)
        known = np.r_[known, commonest] if self.size == self.categories else known
        return known[column.codes]  # missing is -1: the last

    def decode(self, cells: Ints, rng: np.random.Generator, order: Singles | None = None) -> Ints:
        return np.where(cells == self.categories, -1, cells)

    def order(self) -> Floats:
        return np.zeros(self.size)

    def as_states(self) -> Ints:
        """Return a state of each cell: the commonest have one each, the others share one."""
        if self.size <= _MOST_STATES:
            return np.arange(self.size)
        states = np.full(self.size, _MOST_STATES - 1)
        states[_commonest(self.shares)[: _MOST_STATES - 1]] = np.arange(_MOST_STATES - 1)
        return states

    def coordinates(self, columns: int = 1) -> Floats:
        """Return the place of each cell: an indicator for each of the commonest."""
        top = _commonest(self.shares)[: _dimensions(columns)]
        indicators = np.zeros((self.size, len(top)))
        indicators[top, np.arange(len(top))] = 1.0
        indicators -= self.shares @ indicators
        variance = float((self.shares @ indicators**2).sum())
        return indicators / np.sqrt(variance) if variance > 1e-12 else indicators

    def points(self, column: CategoryColumn, cells: Ints, columns: int = 1) -> Floats:
        return self.coordinates(columns)[cells]


Cells = NumberCells | CategoryCells


def fit_cells(
    column: Column,
    k: int,
    owners: Owners,
    rng: np.random.Generator,
    *,
    exact: bool,
    settled: bool = False,
) -> tuple[Cells, Ints]:
    """Find the cells of a column and return them with the cell of each row.

    A state of fewer than ``k`` people does not exist: its rows get cells of others at random.
    Unless ``exact``, blocks of numbers are made of a random half of the people. Categories that
    are ``settled`` are those of ``k`` people of a larger table.
    """
    if isinstance(column, CategoryColumn):
        least = _ANY if column.keep_rare or settled else k
        enough = _ANY if column.keep_rare else draw_threshold(k, None if exact else rng)
        return _fit_categories(column, enough, least, owners)
    return _fit_numbers(column, k, owners, rng, exact)


def _fit_categories(
    column: CategoryColumn, enough: float, k: float, owners: Owners
) -> tuple[CategoryCells, Ints]:
    codes = column.codes.astype(np.int64)
    absent = codes < 0
    held = owners.holders(codes, column.size)
    commonest = int(held.argmax()) if column.size else 0
    lacking = int(owners.holders(np.where(absent, 0, -1), 1)[0])
    missing = lacking >= enough - _SLACK or not column.size
    rare = held < k - _SLACK
    codes = np.where(absent, column.size if missing else commonest, codes)
    codes = np.where(np.r_[rare, False][codes], commonest, codes)
    shares = _shares(codes, column.size + missing, owners)
    return CategoryCells(column.name, column.size, shares), codes


def _fit_numbers(
    column: NumberColumn, k: int, owners: Owners, rng: np.random.Generator, exact: bool
) -> tuple[NumberCells, Ints]:
    values = column.values
    enough = _ANY if column.keep_rare else draw_threshold(k, None if exact else rng)
    cells = np.full(len(values), -1, dtype=np.int64)
    states: list[float] = []
    for special in (np.nan, *column.specials):
        rows = np.isnan(values) if np.isnan(special) else values == special
        if owners.holders(np.where(rows, 0, -1), 1)[0] >= enough - _SLACK:
            cells[rows] = len(states)
            states.append(special)
    plain = (cells < 0) & np.isfinite(values) & ~np.isin(values, column.specials)
    quantiles = None
    if owners.holders(np.where(plain, 0, -1), 1)[0] >= k - _SLACK:
        learnt = plain & owners.counted
        quantiles = fit_quantiles(
            values[learnt],
            k,
            owners=owners.take(learnt),
            decimals=column.decimals,
            step=column.step,
            coded=column.coded,
            rng=None if exact else rng,
        )
        cells[plain] = len(states) + quantiles.encode(values[plain])
    size = len(states) + (quantiles.n_cells if quantiles is not None else 0)
    if not size:  # fewer than k people have anything: nobody has
        states, size = [np.nan], 1
        cells[:] = 0
    lost = cells < 0
    if lost.any():
        cells[lost] = rng.choice(cells[~lost], int(lost.sum()))
    return NumberCells(
        column.name, np.array(states), quantiles, _shares(cells, size, owners)
    ), cells


def _shares(cells: Ints, size: int, owners: Owners) -> Floats:
    """Return the share of each cell among the people who may be learnt from."""
    held: Floats = np.bincount(cells, weights=owners.weights, minlength=size).astype(float)
    return held / max(float(held.sum()), _SLACK)


def _dimensions(columns: int) -> int:
    """Return how many dimensions one of so many columns may have."""
    return int(np.clip(_ALL_DIMENSIONS // max(columns, 1), 1, _MOST_DIMENSIONS))


def _normal(ranks: Floats) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri(np.clip(ranks, 1e-4, 1 - 1e-4)))


def _commonest(shares: Floats) -> Ints:
    return np.argsort(-shares, kind="stable")


def standard(values: Floats, shares: Floats) -> Floats:
    """Return values with mean 0 and variance 1 over the people; zeros if they do not vary."""
    values = values - shares @ values
    variance = float(shares @ values**2)
    return values / np.sqrt(variance) if variance > 1e-12 else np.zeros(len(values))
