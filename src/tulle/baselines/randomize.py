"""Randomisation: numbers get noise, categories change by chance; distributions can be recovered.

Additive noise after Agrawal and Srikant (2000), randomised response after Warner (1965).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tulle._checks import check_int, check_real
from tulle._random import RandomState, as_generator
from tulle._types import Floats
from tulle.errors import DataError, nearest_name
from tulle.table._frames import enter, to_polars
from tulle.table.schema import ColumnsLike, Kind, Schema

_CELLS = 400  # of the observed values; noise is far wider
_ROUNDS = 500  # of the reconstruction
_SETTLED = 1e-6


@dataclass(frozen=True)
class Randomized:
    """A randomised table, and what everybody may know to make use of it.

    Attributes
    ----------
    release : table
        The kind of table that came in, row for row.
    spreads : dict of str to float
        The standard deviation of the noise in each column of numbers.
    domains : dict of str to list
        The values among which each other column was drawn.
    keep : float
        The chance with which a category is the person's own for certain.
    """

    release: Any
    spreads: dict[str, float]
    domains: dict[str, list[Any]]
    keep: float

    def distribution(self, name: str, bins: int = 20) -> pl.DataFrame:
        """Recover the distribution of a column before it was randomised.

        Parameters
        ----------
        name : str
            The column.
        bins : int
            Cells of equal width, for a column of numbers.

        Returns
        -------
        polars.DataFrame
            Columns ``value`` (the middle of a cell, or a category) and ``share``.
        """
        check_int("distribution", "bins", bins, 2)
        frame = to_polars(self.release)
        known = [*self.spreads, *self.domains]
        if name not in known:
            raise DataError(f"there is no column '{name}': {nearest_name(name, known)}")
        if name in self.spreads:
            return shares_of_numbers(frame[name], self.spreads[name], bins)
        return shares_of_values(frame[name], self.domains[name], self.keep)


def shares_of_numbers(series: pl.Series, spread: float, bins: int) -> pl.DataFrame:
    """Return cells of a column of numbers and their shares before the noise."""
    observed = series.drop_nulls().to_physical().cast(pl.Float64).to_numpy()
    values, shares = _without_noise(observed, spread, bins)
    return pl.DataFrame({"value": values, "share": shares})


def shares_of_values(series: pl.Series, domain: list[Any], keep: float) -> pl.DataFrame:
    """Return the values of a column and their shares before they were drawn by chance."""
    counts = np.array([series.null_count() if v is None else (series == v).sum() for v in domain])
    observed = counts / max(len(series), 1)
    shares = np.full(len(domain), 1 / len(domain))
    if keep > 0:
        shares = np.maximum((observed - (1 - keep) / len(domain)) / keep, 0)  # none is below 0
        shares /= shares.sum()
    return pl.DataFrame({"value": pl.Series(domain, dtype=series.dtype), "share": shares})


def randomize(
    X: Any,
    *,
    noise: float = 0.5,
    keep: float = 0.8,
    columns: ColumnsLike | None = None,
    random_state: RandomState = None,
) -> Randomized:
    """Add noise to numbers and redraw categories by chance, row for row.

    Needs no other records, so it can be done where data are collected. Nothing bounds what a record
    with an unusual combination of values reveals: audit the release.

    Parameters
    ----------
    X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
        The table.
    noise : float
        The standard deviation of the noise, in standard deviations of each column of numbers or
        dates. A missing number stays missing.
    keep : float
        The chance that a value of any other column stays; else it is drawn evenly from the column's
        values (a missing one among them), its own included.
    columns : sequence of :class:`~tulle.table.schema.Column`, or mapping
        What a policy says of the columns; identifiers are left out.
    random_state : int, Generator, RandomState or None
        None takes the operating system's entropy.

    Returns
    -------
    Randomized
        ``release``, and :meth:`~Randomized.distribution` of what was there before.

    Examples
    --------
    >>> import numpy as np
    >>> from tulle import randomize
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, 2000), rng.normal(10, 1, 2000)])[:, None]
    >>> made = randomize(X, noise=0.3, random_state=0)
    >>> found = made.distribution("x0", bins=24)  # two hills again, and nothing in between
    >>> between = found.filter((found["value"] > 3) & (found["value"] < 7))
    >>> bool(between["share"].sum() < 0.1)
    True
    """
    check_real("randomize", "noise", noise, 0, closed="neither")
    check_real("randomize", "keep", keep, 0, 1, closed="left")
    frame, exit = enter(X)
    schema = Schema.of(columns, frame)
    rng = as_generator(random_state)
    released, spreads, domains = [], {}, {}
    for name in schema.released:
        column, series = schema[name], frame[name]
        if column.kind is Kind.TEXT:
            raise DataError(
                f"column '{name}' looks like free text or an identifier: give it a role, or "
                "declare it a category"
            )
        ordered = series.dtype.is_numeric() or series.dtype.is_temporal()
        if ordered and column.kind is not Kind.CATEGORY:
            series, spreads[name] = _noisy(series, noise, rng)
        else:
            domains[name] = series.unique().sort().to_list()
            series = _drawn(series, domains[name], keep, rng)
        released.append(series)
    return Randomized(exit.leave(pl.DataFrame(released)), spreads, domains, keep)


def _noisy(series: pl.Series, noise: float, rng: np.random.Generator) -> tuple[pl.Series, float]:
    """Return a column with noise in its own type, and the spread of the noise."""
    numbers = series.to_physical().cast(pl.Float64)
    spread = noise * float(numbers.std(ddof=0) or 0.0)  # type: ignore[arg-type]
    changed = numbers + pl.Series(rng.normal(0, spread, len(series)))
    if not series.dtype.is_float():
        changed = changed.round().cast(pl.Int64)
    return changed.cast(series.dtype, strict=False).alias(series.name), spread


def _drawn(
    series: pl.Series, domain: list[Any], keep: float, rng: np.random.Generator
) -> pl.Series:
    """Return a column in which values stay by chance, and are drawn from all values otherwise."""
    changes = rng.random(len(series)) >= keep
    others = pl.Series(domain, dtype=series.dtype)[rng.integers(0, len(domain), len(series))]
    return others.zip_with(pl.Series(changes), series).alias(series.name)


def _without_noise(observed: Floats, spread: float, bins: int) -> tuple[Floats, Floats]:
    """Return cells and their shares before normal noise was added (expectation-maximisation)."""
    low, high = float(observed.min()), float(observed.max())
    edges = np.linspace(low, high, bins + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    if spread == 0 or low == high:
        return middles, np.histogram(observed, edges)[0] / len(observed)
    counts, borders = np.histogram(observed, _CELLS)
    seen = (borders[:-1] + borders[1:]) / 2
    density = np.exp(-0.5 * ((seen[:, None] - middles) / spread) ** 2)
    shares = np.full(bins, 1 / bins)
    for _ in range(_ROUNDS):
        joint = density * shares
        joint /= np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
        after = counts @ joint / counts.sum()
        settled = np.abs(after - shares).sum() < _SETTLED
        shares = after
        if settled:
            break
    return middles, shares
