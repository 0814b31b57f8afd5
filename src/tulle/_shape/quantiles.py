"""The smoothed quantile function of a column of numbers: no value in it is one person's.

A value that at least ``k`` people hold is an *atom* and comes out as it is. What lies between two
atoms is cut into blocks of at least ``k`` neighbouring people; a block is an interval about the
mean of its people, and values drawn from it are spread evenly. Between atoms with fewer than
``k`` people there is no block: those people count for the nearer atom. The outermost blocks lie
about their median, so that neither the smallest nor the largest value, nor a mean that one
outlier dominates, shows.

By default the blocks are those of a random half of the people, which makes about ``2 k`` people in
each: who knows everybody else cannot tell from a block whether one person was in the data.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tulle._columns import rounded
from tulle._people import Owners, count_exceptions, draw_threshold, weigh_people
from tulle._types import Floats, Ints, Singles

_SLACK = 1e-9  # people are sums of fractions
_STANDS_OUT = 3.0  # times the people of a usual neighbour
_OUTLYING = 3.0  # times as far beyond the median as a block begins before it
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
    step: int = 1  # in the last decimal

    @property
    def n_cells(self) -> int:
        return int(self.cells[-1]) + 1 if len(self.cells) else 0

    def encode(self, values: Floats) -> Ints:
        borders = self.cuts[np.diff(self.cells) > 0]  # fewer than cuts, and found sooner
        return np.searchsorted(borders, values, side="left")

    def draw(self, cells: Ints, rng: np.random.Generator, order: Singles | None = None) -> Floats:
        rises = np.cumsum(self.shares)
        every = np.arange(self.n_cells)
        first = np.searchsorted(self.cells, every, side="left")
        last = np.searchsorted(self.cells, every, side="right") - 1
        ends = rises[last]
        starts = np.r_[0.0, ends[:-1]]
        within = rng.random(len(cells)) if order is None else _risen(cells, order, rng)
        level = starts[cells] + within * (ends - starts)[cells]
        piece = np.searchsorted(rises, level, side="right")
        piece = np.clip(piece, first[cells], last[cells])
        if order is None:
            return self._within(piece, rng.random(len(piece)))
        begins = (rises - self.shares)[piece]
        part = (level - begins) / np.maximum(self.shares[piece], _SLACK)
        return self._within(piece, np.clip(part, 0.0, 1.0))

    def at(self, ranks: Floats, rng: np.random.Generator) -> Floats:
        rises = np.cumsum(self.shares)
        piece = np.minimum(np.searchsorted(rises, ranks, side="right"), len(rises) - 1)
        return self._within(piece, rng.random(len(piece)))

    def middles(self) -> Floats:
        """Return the middle rank of each cell, in (0, 1)."""
        shares = np.bincount(self.cells, weights=self.shares, minlength=self.n_cells)
        return np.cumsum(shares) - shares / 2

    def _within(self, piece: Ints, part: Floats) -> Floats:
        low, high = self.low[piece], self.high[piece]
        return rounded(low + part * (high - low), self.decimals, self.step)


def _risen(cells: Ints, order: Singles, rng: np.random.Generator) -> Floats:
    """Return levels in [0, 1) that lie evenly in each cell and rise with an order."""
    by_cell = np.lexsort((order, cells))
    counts = np.bincount(cells)
    begin = np.cumsum(counts) - counts
    levels = np.empty(len(cells))
    place = np.arange(len(cells)) - begin[cells[by_cell]]
    levels[by_cell] = (place + rng.random(len(cells))) / counts[cells[by_cell]]
    return levels


def fit_quantiles(
    values: Floats,
    k: int,
    *,
    owners: Owners | None = None,
    decimals: int | None = None,
    step: int = 1,
    coded: bool = False,
    rng: np.random.Generator | None = None,
) -> Quantiles:
    """Find atoms and blocks of a column without missing values, which at least ``k`` people hold.

    Values are multiples of ``step`` of the last decimal. Of ``coded`` ones none may be invented:
    all people count for atoms. ``rng`` chooses the half
    of the people that blocks are made of, and how many people from ``k`` to ``1.5 k`` are enough.
    Without it blocks are made of all, and ``k`` are enough.
    """
    owners = Owners.of(None, len(values)) if owners is None else owners
    # in a table of fewer than 1.5 k people, all of them are enough
    enough = max(float(k), min(draw_threshold(k, rng), float(owners.n_people())))
    order = np.argsort(values, kind="stable")
    values, owners = values[order], owners.take(order)
    people = owners.weights
    turns = np.zeros(len(values)) if rng is None else owners.turns(rng)
    distinct, place = np.unique(values, return_inverse=True)
    held: Floats = owners.holders(place, len(distinct)).astype(float)
    atom = held >= enough - _SLACK
    unit = None if decimals is None else step * 10.0**-decimals
    if unit is not None and not coded:
        atom = _heaps(distinct, held, atom, enough, unit)

    pieces: list[tuple[float, float]] = []
    for first, last, bounded in _runs(atom):
        if bounded is None:
            pieces.append((distinct[first], distinct[first]))
        elif not (coded and atom.any()):
            rows = slice(*np.searchsorted(place, [first, last]))
            floor = distinct[first - 1] if bounded[0] else None
            top = distinct[last] if bounded[1] else None
            own = owners.take(rows)
            pieces += _blocks(values[rows], own, turns[rows], enough, floor, top, unit)
    if not pieces:
        pieces = [_only(values, unit)]
    low, high = np.array(pieces).T
    low, high = _keep_sign(low, high, values, people, enough)
    cuts = _cuts(low, high)
    piece = np.searchsorted(cuts, values, side="left")
    weight: Floats = np.bincount(piece, weights=people, minlength=len(low)).astype(float)
    holders = None if owners.people is None else owners.holders(piece, len(low))
    cells = _cells(weight, (low == high) & (not coded), k, holders)
    shares = weight / weight.sum()
    if rng is not None:  # once and for all: many draws must not average to the true shares
        shares = rng.multinomial(len(values), shares) / len(values)
    return Quantiles(low, high, shares, cuts, cells, decimals, step)


def _heaps(
    distinct: Floats, held: Floats, atom: NDArray[np.bool_], k: float, unit: float
) -> NDArray[np.bool_]:
    """Return which atoms stay: those that stand out, or have no sparse neighbours to share with.

    Where values lie densely, as ages do, a value that happens to have ``k`` holders next to some
    that have not is not a heap: it becomes part of a block with them. One of every second person
    is: a block of all would be of values that nobody has.
    """
    kept, half = atom.copy(), held.sum() / 2
    for first, last, bounded in _runs(atom):
        if bounded is None or held[first:last].sum() >= k - _SLACK:
            continue
        for edge, side in ((first - 1, bounded[0]), (last, bounded[1])):
            if not side:
                continue
            reach = abs(distinct[last - 1 if edge < first else first] - distinct[edge])
            usual = held[first:last].sum() / max(reach / unit, 1.0)
            kept[edge] &= bool(held[edge] > min(_STANDS_OUT * usual, half))
    return kept


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
    owners: Owners,
    turns: Floats,
    k: float,
    floor: float | None,
    top: float | None,
    unit: float | None,
) -> list[tuple[float, float]]:
    """Cut a stretch without atoms into intervals of at least ``k`` of those whose turn it is."""
    if owners.n_people() < k - _SLACK:
        return []
    chosen = _choose(owners, turns, k)
    values, owners = values[chosen], owners.take(chosen)
    several = owners.people is not None
    starts = np.r_[0, _ends_of_people(owners, k) if several else _ends(owners.weights, k)]
    centers = np.add.reduceat(values, starts) / np.diff(np.r_[starts, len(values)])
    if floor is None:
        first = np.arange(starts[1] if len(starts) > 1 else len(values))[::-1]
        centers[0] = -_end_center(-values[first], owners.take(first))
    if top is None:
        centers[-1] = _end_center(values[starts[-1] :], owners.take(slice(starts[-1], None)))
    centers = np.maximum.accumulate(centers)
    edges = (centers[1:] + centers[:-1]) / 2
    if len(centers) > 1:
        low, high = 2 * centers[0] - edges[0], 2 * centers[-1] - edges[-1]
    else:
        away = np.abs(values - centers[0])
        # where most share one value, the others still blur it
        reach = max(2 * float(np.median(away)) or float(away.mean()), unit or 0.0)
        low, high = centers[0] - reach, centers[0] + reach
    gap = 0.0 if unit is None else unit / 2
    low = low if floor is None else max(low, floor + gap)
    high = high if top is None else min(high, top - gap)
    lows, highs = np.r_[low, edges], np.r_[edges, high]
    return list(zip(lows.tolist(), np.maximum(lows, highs).tolist()))


def _end_center(values: Floats, owners: Owners) -> float:
    """Return the mean of the last block, of rising values, in which an outlier counts little.

    Nobody is farther beyond the median than three times as far as the block begins before it, and
    a person of several rows counts once.
    """
    people = weigh_people(owners.people, len(values))
    rises = np.cumsum(people)
    middle = float(values[np.searchsorted(rises, rises[-1] / 2)])
    near = np.minimum(values, middle + _OUTLYING * (middle - values[0]))
    return float(np.average(near, weights=people))


def _choose(owners: Owners, turns: Floats, k: float) -> NDArray[np.bool_]:
    """Return who makes the blocks: those whose turn is in the first half, or the first ``k``."""
    chosen = turns < 0.5
    if owners.take(chosen).n_people() < k - _SLACK:
        ascending = np.unique(turns)  # one for each person
        chosen = turns <= ascending[min(int(np.ceil(k - _SLACK)), len(ascending)) - 1]
    return chosen


def _ends_of_people(owners: Owners, k: float) -> Ints:
    """Return where blocks end, so that each holds at least ``k`` different people."""
    block: dict[int, int] = {}  # the last block that holds a row of each person
    ends: list[int] = []
    held = 0
    for row, person in enumerate(owners.numbered().tolist()):
        if block.get(person, -1) < len(ends):
            block[person] = len(ends)
            held += 1
        if held >= k - _SLACK:
            ends.append(row + 1)
            held = 0
    return np.array(ends[:-1], dtype=np.int64)  # the last block takes in what is left


def _ends(people: Floats, k: float) -> Ints:
    """Return where blocks end, so that each holds at least ``k`` people and about as many."""
    rises = np.cumsum(people).tolist()  # searched one by one: NumPy would take ten times as long
    total = rises[-1]
    blocks = max(1, int((total + _SLACK) // k))
    ends: list[int] = []
    done = 0.0
    for level in (total / blocks * np.arange(1, blocks)).tolist():
        last = bisect_left(rises, max(level, done + k) - _SLACK, lo=ends[-1] if ends else 0)
        if last + 1 >= len(rises) or total - rises[last] < k - _SLACK:
            break
        ends.append(last + 1)
        done = rises[last]
    return np.array(ends, dtype=np.int64)


def _only(values: Floats, unit: float | None) -> tuple[float, float]:
    """Return the one piece of a column that is too short to be cut: its median and nothing else."""
    middle = float(np.median(values)) if len(values) else 0.0
    if unit is not None:
        middle = round(middle / unit) * unit
    return middle, middle


def _keep_sign(
    low: Floats, high: Floats, values: Floats, people: Floats, enough: float
) -> tuple[Floats, Floats]:
    """Keep intervals on the side of zero that all but a few people are on.

    If it took all of them, a single number below zero in the release would tell of one person.
    """
    few = count_exceptions(enough, float(people.sum()))
    if people[values < 0].sum() < few:
        low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
    elif people[values > 0].sum() < few:
        low, high = np.minimum(low, 0.0), np.minimum(high, 0.0)
    return low, high


def _cuts(low: Floats, high: Floats) -> Floats:
    """Return the largest value that belongs to each piece but the last."""
    atom = low == high
    cuts = (high[:-1] + low[1:]) / 2
    cuts = np.where(atom[:-1] & ~atom[1:], high[:-1], cuts)
    cuts = np.where(~atom[:-1] & atom[1:], np.nextafter(low[1:], -np.inf), cuts)
    return np.maximum.accumulate(cuts)


def _cells(weight: Floats, atom: NDArray[np.bool_], k: int, holders: Ints | None = None) -> Ints:
    """Put neighbouring pieces together until every cell has ``k`` people and there are few cells.

    Where people have several rows, the ``holders`` of each piece are given: pieces together have
    at least as many as the one with most.

    A column of few pieces keeps them apart. Of many, exact values need more company than
    stretches: a leaf of a tree would otherwise hand out the very values of its people.
    """
    total = float(weight.sum())
    many = len(weight) > _FEW
    cells = np.zeros(len(weight), dtype=np.int64)
    first = float(k) if holders is None else 0.0
    held, sure, cell, least = 0.0, 0.0, 0, first
    people = (weight if holders is None else holders).tolist()
    for place, (one, own, exact) in enumerate(zip(weight.tolist(), people, atom.tolist())):
        wanted = total / (_CELLS_OF_ATOMS if exact else _CELLS) if many else 0.0
        if place and sure >= k - _SLACK and (held >= least - _SLACK or one >= wanted > least):
            cell, held, sure, least = cell + 1, 0.0, 0.0, first
        cells[place] = cell
        held += one
        sure = held if holders is None else max(sure, own)
        least = max(least, wanted)
    if cell and sure < k - _SLACK:  # the last one is too small: part of the one before
        cells[cells == cell] = cell - 1
    return cells
