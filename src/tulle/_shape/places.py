"""Pairs of coordinates as one column: a place is drawn where people are, never between them.

The plane is cut into cells of at least ``2 k`` people, at gaps where there are some. A cell is a
number along the cuts, so that near numbers are near places, and all that the rest of the synthesis
sees. It becomes a place again by a draw about the mean of the densest half of its people.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tulle._people import people_among
from tulle._shape.columns import Column, NumberColumn
from tulle._types import Flags, Floats, Ints

_GAP = 0.2  # of a cell's width: nothing is drawn in an empty stretch this wide


@dataclass(frozen=True)
class Places:
    """The cells of a pair of coordinates, and where each draws from."""

    name: str  # of the one column
    pair: tuple[str, str]
    centres: Floats  # (cells, 2), each the mean of at least k people
    reach: Floats  # (cells, 2), their standard deviations

    def draw(self, cells: Floats, rng: np.random.Generator) -> dict[str, Floats]:
        """Return both coordinates of each record, missing together."""
        known = np.isfinite(cells)
        places = np.full((len(cells), 2), np.nan)
        at = cells[known].astype(np.int64)
        places[known] = self.centres[at] + self.reach[at] * rng.uniform(-1, 1, (len(at), 2))
        return dict(zip(self.pair, places.T))


def join_coordinates(
    columns: list[Column], pair: tuple[str, str], k: int, people: Ints | None, counted: Flags
) -> tuple[list[Column], Places | None]:
    """Return the columns with a pair of coordinates as one, and how to part them again.

    None, and the columns as they are, if they are not coordinates in degrees, have special values,
    or are missing in different records. Only records that are ``counted`` are learnt from.
    """
    axes = {c.name: c for c in columns if c.name in pair and isinstance(c, NumberColumn)}
    if len(axes) != 2 or any(axis.specials for axis in axes.values()):
        return columns, None
    points = np.stack([axes[name].values for name in pair], axis=1)
    known = np.isfinite(points).all(axis=1)
    degrees = bool((np.abs(points[known]) <= (90, 180)).all())
    together = bool((np.isfinite(points).any(axis=1) == known).all())
    if not (degrees and together) or people_among(known & counted, people) < 2 * k:
        return columns, None
    cells = np.full(len(points), np.nan)
    leaves = _cut(points, np.flatnonzero(known & counted), k, people)
    for place, rows in enumerate(leaves):
        cells[rows] = place
    inner = [_densest(points, rows, people) for rows in leaves]
    centres = np.array([points[rows].mean(axis=0) for rows in inner])
    for row in np.flatnonzero(known & ~counted).tolist():
        cells[row] = int(((points[row] - centres) ** 2).sum(axis=1).argmin())
    reach = np.array([points[rows].std(axis=0) for rows in inner])
    places = Places(", ".join(pair), pair, centres, reach)
    joint = NumberColumn(places.name, cells, 0, coded=True)
    return [joint, *(column for column in columns if column.name not in pair)], places


def _cut(points: Floats, rows: Ints, k: int, people: Ints | None) -> list[Ints]:
    """Return the rows of each cell: cut across the longer side, at its widest gap or the median."""
    width = np.ptp(points[rows], axis=0)
    for side in np.argsort(-width):
        order = rows[np.argsort(points[rows, side], kind="stable")]
        values = points[order, side]
        ends = [_least(order, k, people), len(order) - _least(order[::-1], k, people)]
        steps = np.diff(values)[ends[0] - 1 : ends[1]]  # between which there are 2k on either side
        if ends[0] > ends[1] or not steps.size or steps.max() <= 0:
            continue
        middle = int(np.argmin(np.abs(np.arange(len(steps)) + ends[0] - len(order) / 2)))
        gap = int(steps.argmax())
        at = gap if steps[gap] > _GAP * width[side] or steps[middle] <= 0 else middle
        low, high = order[: ends[0] + at], order[ends[0] + at :]
        return _cut(points, low, k, people) + _cut(points, high, k, people)
    return [rows]


def _least(order: Ints, k: int, people: Ints | None) -> int:
    """Return how many of the first rows hold 2k people; more than all if they do not."""
    if people is None:
        return 2 * k
    first = np.sort(np.unique(people[order], return_index=True)[1])
    return int(first[2 * k - 1]) + 1 if len(first) >= 2 * k else len(order) + 1


def _densest(points: Floats, rows: Ints, people: Ints | None) -> Ints:
    """Return a row of each of the half of a cell's people who live closest, on its longer side."""
    if people is not None:  # however often somebody came
        rows = rows[np.unique(people[rows], return_index=True)[1]]
    side = int(np.ptp(points[rows], axis=0).argmax())
    order = rows[np.argsort(points[rows, side], kind="stable")]
    half = (len(order) + 1) // 2
    widths = points[order[half - 1 :], side] - points[order[: len(order) - half + 1], side]
    begin = int(widths.argmin())
    return order[begin : begin + half]
