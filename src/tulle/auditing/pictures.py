"""The pictures of an audit as rows of aggregates: never a record, no cell of fewer than ``k``.

Edges and labels come from the release, which is public anyway: the smallest value of the original
must not become the edge of a bar.
"""

from __future__ import annotations

import datetime
import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tulle.attacks.records import Floats
from tulle.auditing.alignment import Aligned
from tulle.auditing.design import Design
from tulle.metrics.covariance import association
from tulle.report.editions import hide_small
from tulle.tables.schema import Kind

_BARS = 20
_GRID = 26
_MOST_COLUMNS = 30  # in a matrix of correlations

Rows = list[dict[str, Any]]


def histogram(tables: Aligned, name: str, k: int) -> Rows:
    """Shares of original and release in the bars of one column."""
    original, release = tables.original.only([name]), tables.release.only([name])
    if original.numbers.shape[1]:
        gone = [np.asarray(r.codes.any(axis=1)) for r in (original, release)]
        unit = tables.units[name]
        values = [r.numbers[:, 0] * unit[1] + unit[0] for r in (original, release)]
        places, labels = _number_bars(values, gone, tables.kinds[name])
    else:
        words = tables.domains[name]
        places, labels = _category_bars(original.codes[:, 0], release.codes[:, 0], words, k)
    counts = [np.bincount(place, minlength=len(labels)) for place in places]
    filled = np.flatnonzero(counts[0] + counts[1])
    rows = [
        {
            "label": labels[bar],
            "original": float(counts[0][bar] / len(original)),
            "release": float(counts[1][bar] / len(release)),
            "count": int(counts[0][bar]),
        }
        for bar in filled
    ]
    return _with_gaps(dict(zip(filled.tolist(), hide_small(rows, k, ["original"]))), labels)


def _with_gaps(rows: dict[int, dict[str, Any]], labels: list[str]) -> Rows:
    """The rows of the bars, and one for each empty bar between them: it is part of the axis."""
    missing = len(labels) - 1  # stands apart
    last = max((bar for bar in rows if bar < missing), default=-1)
    bars = [*range(min(rows), last + 1), *([missing] if missing in rows else [])]
    empty = {"original": None, "release": 0.0, "count": None}
    return [rows.get(bar) or {"label": labels[bar], **empty} for bar in bars]


def density(tables: Aligned, k: int) -> Rows:
    """Counts of original and release on a grid over the first two principal axes."""
    design = Design(tables.original)
    original, release = design.matrix(tables.original), design.matrix(tables.release)
    if original.shape[1] < 2 or len(original) < 2:
        return []
    middle = original.mean(axis=0)
    centred = original - middle
    _, axes = np.linalg.eigh(centred.T @ centred / len(original))
    plane = axes[:, [-1, -2]]
    points = {"original": centred @ plane, "release": (release - middle) @ plane}
    edges = [_grid_edges(points["release"][:, axis]) for axis in (0, 1)]
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


def correlations(tables: Aligned) -> Rows:
    """The association of each two columns, in original and release."""
    names = (*tables.original.number_names, *tables.original.code_names)
    numeric = len(tables.original.number_names)
    # the code beside a number says that it is missing: not a column of its own
    own = [
        place
        for place, name in enumerate(names)
        if place < numeric or name not in tables.original.number_names
    ][:_MOST_COLUMNS]
    matrices = [association(r.numbers, r.codes) for r in (tables.original, tables.release)]
    return [
        {
            "first": names[i],
            "second": names[j],
            "original": _known(matrices[0][i, j]),
            "release": _known(matrices[1][i, j]),
        }
        for i in own
        for j in own
    ]


def _number_bars(
    values: list[Floats], gone: list[NDArray[np.bool_]], kind: Kind
) -> tuple[list[NDArray[np.int64]], list[str]]:
    """The bar of each value: single values if there are few, else parts of the release's range."""
    if kind is Kind.INTEGER:
        values = [np.rint(part) for part in values]  # scaling there and back left a rest
    shown = values[1][~gone[1]]
    single = np.unique(shown)
    if len(shown) == 0:
        edges, labels = np.empty(0), ["(any)"]
    elif kind is Kind.INTEGER and len(single) <= _BARS:
        edges = (single[1:] + single[:-1]) / 2
        labels = [f"{value:g}" for value in single]
    else:
        edges = _nice_edges(float(shown.min()), float(shown.max()))
        labels = _range_labels(edges, kind)
    labels = [*labels, "(missing)"]
    places = [
        np.where(lost, len(labels) - 1, np.searchsorted(edges, part, side="right"))
        for part, lost in zip(values, gone)
    ]
    return places, labels


def _nice_edges(low: float, high: float) -> Floats:
    """Inner edges at round numbers: about as many bars as there is room for."""
    if not high > low:
        return np.array([low])
    rough = (high - low) / _BARS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first, last = math.floor(low / step) + 1, math.ceil(high / step)
    return np.asarray(np.arange(first, max(last, first + 1)) * step, dtype=np.float64)


def _range_labels(edges: Floats, kind: Kind) -> list[str]:
    words = [_date(edge) if kind is Kind.DATETIME else f"{edge:.6g}" for edge in edges]
    between = [f"{low} to {high}" for low, high in pairwise(words)]
    return [f"below {words[0]}", *between, f"{words[-1]} and up"]


def _date(microseconds: float) -> str:
    try:
        start = datetime.datetime(1970, 1, 1)
        return (start + datetime.timedelta(microseconds=microseconds)).strftime("%Y-%m-%d")
    except OverflowError:
        return f"{microseconds:.3g}"


def _category_bars(
    original: NDArray[np.int32], release: NDArray[np.int32], words: Any, k: int
) -> tuple[list[NDArray[np.int64]], list[str]]:
    """A bar for each of the release's commonest categories, one for all others.

    Categories of fewer than ``k`` released records are not named: somebody's own, perhaps.
    """
    codes, counts = np.unique(release[release > 0], return_counts=True)
    common = codes[np.argsort(-counts, kind="stable")][:_BARS]
    shown = common[: int((counts >= k).sum())]
    labels = [str(words[int(code)]) for code in shown] + ["(others)", "(missing)"]
    bars = np.full(len(words), len(shown), np.int64)
    bars[shown] = np.arange(len(shown))
    bars[0] = len(shown) + 1
    return [bars[original], bars[release]], labels


def _grid_edges(values: Floats) -> Floats:
    low, high = np.quantile(values, [0.005, 0.995])
    return np.linspace(low, high if high > low else low + 1, _GRID + 1)


def _rounded(value: float) -> float:
    return round(float(value), 3)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
