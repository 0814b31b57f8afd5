"""The smoothed quantile function of a column of numbers: no value in it is one person's.

A value that at least ``k`` people hold is an *atom* and comes out as it is. What lies between two
atoms is cut into blocks of at least ``k`` neighbouring people; a block is an interval about the
mean of its people, and values drawn from it are spread evenly. Between atoms with fewer than
``k`` people there is no block: those people count for the nearer atom. The outermost blocks hold
twice as many people and lie about their median, so that neither the smallest nor the largest
value, nor a mean that one outlier dominates, shows.

By default the blocks are those of a random half of the people: who knows everybody else cannot
tell from a block whether one person was in the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tulle._types import Floats, Ints

_SLACK = 1e-9  # people are sums of fractions
_FEW = 128  # pieces that stay apart
_CELLS = 240  # about as many cells otherwise,
_CELLS_OF_ATOMS = 64  # and so many where pieces are exact values


@dataclass(frozen=True)
class Quantiles:
    """Pieces of a column's distribution, in ascending order, each held by at least ``k`` people.

    A piece is an atom (``low == high``) or an interval. Pieces that follow one another make up
    ``cells``, of which there are few enough for a tree.
    """

    low: Floats  # (m,)
    high: Floats  # (m,)
    shares: Floats  # (m,), of the people with a value
    cuts: Floats  # (m - 1,), a value up to cuts[i] belongs to a piece up to i
    cells: Ints  # (m,), the cell of each piece, ascending from 0 without gaps
    decimals: int | None

    @property
    def n_cells(self) -> int:
        """Return the number of cells."""
        return int(self.cells[-1]) + 1 if len(self.cells) else 0

    def encode(self, values: Floats) -> Ints:
        """Return the cell of each value."""
        return self.cells[np.searchsorted(self.cuts, values, side="left")]

    def draw(self, cells: Ints, rng: np.random.Generator) -> Floats:
        """Return a value from each of the given cells."""
        rises = np.cumsum(self.shares)
        ends = rises[np.searchsorted(self.cells, np.arange(self.n_cells), side="right") - 1]
        starts = np.r_[0.0, ends[:-1]]
        level = starts[cells] + rng.random(len(cells)) * (ends - starts)[cells]
        piece = np.searchsorted(rises, level, side="right")
        first = np.searchsorted(self.cells, cells, side="left")
        last = np.searchsorted(self.cells, cells, side="right") - 1
        piece = np.clip(piece, first, last)
        return self._within(piece, rng)

    def at(self, ranks: Floats, rng: np.random.Generator) -> Floats:
        """Return the values of uniform ranks in [0, 1)."""
        rises = np.cumsum(self.shares)
        piece = np.minimum(np.searchsorted(rises, ranks, side="right"), len(rises) - 1)
        return self._within(piece, rng)

    def middles(self) -> Floats:
        """Return the middle rank of each cell, in (0, 1)."""
        shares = np.bincount(self.cells, weights=self.shares, minlength=self.n_cells)
        return np.cumsum(shares) - shares / 2

    def _within(self, piece: Ints, rng: np.random.Generator) -> Floats:
        low, high = self.low[piece], self.high[piece]
        values = low + rng.random(len(piece)) * (high - low)
        return values if self.decimals is None else np.round(values, self.decimals) + 0.0


def fit_quantiles(
    values: Floats,
    k: int,
    *,
    people: Floats | None = None,
    decimals: int | None = None,
    coded: bool = False,
    rng: np.random.Generator | None = None,
) -> Quantiles:
    """Find atoms and blocks of a column without missing values, which at least ``k`` people hold.

    Parameters
    ----------
    people : ndarray, optional
        What each row counts: 1 over the number of rows of its person; 1 by default.
    decimals : int, optional
        What values are rounded to.
    coded : bool
        Whether values are codes, of which none may be invented: all people count for atoms.
    rng : numpy Generator, optional
        Chooses the half of the people that blocks are made of. Without it they are made of all.
    """
    people = np.ones(len(values)) if people is None else people
    order = np.argsort(values, kind="stable")
    values, people = values[order], people[order]
    chosen = np.ones(len(values), bool) if rng is None else rng.random(len(values)) < 0.5
    distinct, place = np.unique(values, return_inverse=True)
    held = np.bincount(place, weights=people)
    atom = held >= k - _SLACK
    unit = None if decimals is None else 10.0**-decimals

    pieces: list[tuple[float, float]] = []
    for first, last, bounded in _runs(atom):
        if bounded is None:
            pieces.append((distinct[first], distinct[first]))
        elif not (coded and atom.any()):
            rows = slice(*np.searchsorted(place, [first, last]))
            floor = distinct[first - 1] if bounded[0] else None
            top = distinct[last] if bounded[1] else None
            pieces += _blocks(
                values[rows], people[rows], chosen[rows], k, floor, top, unit, mild=rng is not None
            )
    if not pieces:
        pieces = [_only(values, unit)]
    low, high = np.array(pieces).T
    low, high = _keep_sign(low, high, values)
    cuts = _cuts(low, high)
    piece = np.searchsorted(cuts, values, side="left")
    weight = np.bincount(piece, weights=people, minlength=len(low)).astype(np.float64)
    return Quantiles(
        low,
        high,
        weight / weight.sum(),
        cuts,
        _cells(weight, (low == high) & (not coded), k),
        decimals,
    )


def _runs(atom: NDArray[np.bool_]) -> list[tuple[int, int, tuple[bool, bool] | None]]:
    """Split the distinct values into atoms and the stretches between: (first, last, bounded)."""
    edges = np.flatnonzero(atom)
    runs: list[tuple[int, int, tuple[bool, bool] | None]] = []
    start = 0
    for edge in edges.tolist():
        if edge > start:
            runs.append((start, edge, (start > 0, True)))
        runs.append((edge, edge + 1, None))
        start = edge + 1
    if start < len(atom):
        runs.append((start, len(atom), (start > 0, False)))
    return runs


def _blocks(
    values: Floats,
    people: Floats,
    chosen: NDArray[np.bool_],
    k: int,
    floor: float | None,
    top: float | None,
    unit: float | None,
    *,
    mild: bool,
) -> list[tuple[float, float]]:
    """Cut a stretch without atoms into intervals of at least ``k`` chosen people."""
    if people[chosen].sum() < k - _SLACK:
        chosen = np.ones(len(values), bool)
    if people[chosen].sum() < k - _SLACK:
        return []
    values, people = values[chosen], people[chosen]
    ends = _ends(people, k, floor is None and mild, top is None and mild)
    parts = np.split(values, ends)
    centers = np.array([part.mean() for part in parts])
    if floor is None and mild:
        centers[0] = np.median(parts[0])
    if top is None and mild:
        centers[-1] = np.median(parts[-1])
    centers = np.maximum.accumulate(centers)
    edges = (centers[1:] + centers[:-1]) / 2
    if len(parts) > 1:
        low, high = 2 * centers[0] - edges[0], 2 * centers[-1] - edges[-1]
    else:
        reach = 2 * np.median(np.abs(values - centers[0]))
        low, high = centers[0] - reach, centers[0] + reach
    gap = 0.0 if unit is None else unit / 2
    low = low if floor is None else max(low, floor + gap)
    high = high if top is None else min(high, top - gap)
    lows, highs = np.r_[low, edges], np.r_[edges, high]
    return list(zip(lows.tolist(), np.maximum(lows, highs).tolist()))


def _ends(people: Floats, k: int, long_first: bool, long_last: bool) -> Ints:
    """Return where blocks end, so that each holds ``k`` people, and ``2 k`` at an open end."""
    total = people.sum()
    first, last = (k if long_first else 0), (k if long_last else 0)  # more than the others have
    blocks = max(1, int((total - first - last + _SLACK) // k))
    width = (total - first - last) / blocks
    wanted = first + width * np.arange(1, blocks)
    rises = np.cumsum(people)
    ends: list[int] = []
    done = 0.0
    for level in wanted.tolist():
        end = int(np.searchsorted(rises, level - _SLACK)) + 1
        if end >= len(people):
            break
        held, rest = rises[end - 1] - done, total - rises[end - 1]
        enough = 2 * k if long_first and not ends else k
        if held >= enough - _SLACK and rest >= (2 * k if long_last else k) - _SLACK:
            ends.append(end)
            done = rises[end - 1]
    return np.array(ends, dtype=np.int64)


def _only(values: Floats, unit: float | None) -> tuple[float, float]:
    """Return the one piece of a column that is too short to be cut: its median and nothing else."""
    middle = float(np.median(values)) if len(values) else 0.0
    return (middle, middle) if unit is None else (round(middle / unit) * unit,) * 2


def _keep_sign(low: Floats, high: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Keep intervals on the side of zero that all values are on."""
    if len(values) and values[0] >= 0:
        low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
    if len(values) and values[-1] <= 0:
        low, high = np.minimum(low, 0.0), np.minimum(high, 0.0)
    return low, high


def _cuts(low: Floats, high: Floats) -> Floats:
    """Return the largest value that belongs to each piece but the last."""
    atom = low == high
    cuts = (high[:-1] + low[1:]) / 2
    cuts = np.where(atom[:-1] & ~atom[1:], high[:-1], cuts)
    cuts = np.where(~atom[:-1] & atom[1:], np.nextafter(low[1:], -np.inf), cuts)
    return np.maximum.accumulate(cuts)


def _cells(weight: Floats, atom: NDArray[np.bool_], k: int) -> Ints:
    """Put neighbouring pieces together until every cell has ``k`` people and there are few cells.

    A column of few pieces keeps them apart. Of many, exact values need more company than
    stretches: a leaf of a tree would otherwise hand out the very values of its people.
    """
    total = float(weight.sum())
    many = len(weight) > _FEW
    cells = np.zeros(len(weight), dtype=np.int64)
    held, cell, least = 0.0, 0, float(k)
    for place, (one, exact) in enumerate(zip(weight.tolist(), atom.tolist())):
        wanted = total / (_CELLS_OF_ATOMS if exact else _CELLS) if many else 0.0
        if place and held >= k - _SLACK and (held >= least - _SLACK or one >= wanted > least):
            cell, held, least = cell + 1, 0.0, float(k)
        cells[place] = cell
        held += one
        least = max(least, wanted)
    if cell and held < k - _SLACK:  # the last one is too small: part of the one before
        cells[cells == cell] = cell - 1
    return cells
