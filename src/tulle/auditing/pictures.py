"""The pictures of an audit as rows of aggregates: never a record, no cell of fewer than ``k``."""

from __future__ import annotations

from typing import Any

import numpy as np

from tulle.attacks.records import Floats
from tulle.auditing.alignment import Aligned
from tulle.auditing.bars import category_bars, number_bars
from tulle.auditing.design import Design
from tulle.auditing.measures import Associations
from tulle.report.editions import hide_small

_GRID = 26  # cells along an axis, where there are records enough for them
_COARSEST = 5  # with fewer cells it is no picture
MOST_COLUMNS = 30  # in a matrix of correlations

Rows = list[dict[str, Any]]


def histogram(tables: Aligned, name: str, k: int) -> Rows:
    """Shares of original and release in the bars of one column."""
    original, release = tables.original.only([name]), tables.release.only([name])
    if original.numbers.shape[1]:
        gone = [np.asarray(r.codes.any(axis=1)) for r in (original, release)]
        unit = tables.units[name]
        values = [r.numbers[:, 0] * unit[1] + unit[0] for r in (original, release)]
        places, labels = number_bars(values, gone, tables.kinds[name], k)
    else:
        words = tables.domains[name]
        places, labels = category_bars(original.codes[:, 0], release.codes[:, 0], words, k)
    counts = [np.bincount(place, minlength=len(labels)) for place in places]
    filled = np.flatnonzero(counts[0] + counts[1])
    rows = [
        {
            "label": labels[bar],
            "original": float(counts[0][bar] / len(original)),
            "release": float(counts[1][bar] / len(release)),
            "count": int(counts[0][bar]),
            "released": int(counts[1][bar]) or None,  # of nothing, nothing is to be hidden
        }
        for bar in filled
    ]
    hidden = zip(filled.tolist(), hide_small(rows, k, "original"))
    # a bar of a few originals only is not there: it would say that there are some
    shown = {bar: row for bar, row in hidden if row["original"] is not None or row["release"]}
    return _with_gaps(shown, labels)


def _with_gaps(rows: dict[int, dict[str, Any]], labels: list[str]) -> Rows:
    """The rows of the bars, and one for each empty bar between them: it is part of the axis."""
    missing = len(labels) - 1  # stands apart
    last = max((bar for bar in rows if bar < missing), default=-1)
    bars = [*range(min(rows), last + 1), *([missing] if missing in rows else [])]
    empty = {"original": None, "release": 0.0, "count": None, "released": None}
    return [rows.get(bar) or {"label": labels[bar], **empty} for bar in bars]


def density(tables: Aligned, k: int) -> Rows:
    """Counts of original and release on a grid over the first two principal axes."""
    cells = min(_GRID, int(np.sqrt(min(len(tables.original), len(tables.release)) / (3 * k))))
    if cells < _COARSEST:
        return []
    design = Design(tables.original)
    middle, covariance = design.moments(tables.original)
    if len(middle) < 2:
        return []
    _, axes = np.linalg.eigh(covariance)
    points = {
        of: design.projected(records, middle, axes[:, [-1, -2]])
        for of, records in (("original", tables.original), ("release", tables.release))
    }
    edges = [_grid_edges(points["release"][:, axis], cells) for axis in (0, 1)]
    rows = []
    for of, where in points.items():
        counts, _, _ = np.histogram2d(where[:, 0], where[:, 1], bins=edges)
        for i, j in np.argwhere(counts >= k):
            rows.append(
                {
                    "x": _rounded((edges[0][i] + edges[0][i + 1]) / 2),
                    "y": _rounded((edges[1][j] + edges[1][j + 1]) / 2),
                    "of": of,
                    "share": float(counts[i, j] / len(where)),
                    "count": int(counts[i, j]),
                }
            )
    return rows


def correlations(found: Associations) -> Rows:
    """The association of each two columns, in original and release; of the first columns only."""
    shown = range(min(len(found.names), MOST_COLUMNS))
    return [
        {
            "first": found.names[i],
            "second": found.names[j],
            "original": _known(found.original[i, j]),
            "release": _known(found.release[i, j]),
            "count": int(min(found.behind[i], found.behind[j])),
        }
        for i in shown
        for j in shown
    ]


def _grid_edges(values: Floats, cells: int) -> Floats:
    low, high = np.quantile(values, [0.005, 0.995])
    return np.linspace(low, high if high > low else low + 1, cells + 1)


def _rounded(value: float) -> float:
    return round(float(value), 3)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
