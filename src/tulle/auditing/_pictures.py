"""Sections of a report that an audit makes, and those that a workflow can add to it."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from tulle._report.editions import hide_small
from tulle._report.model import Block, Fact, Section, chart, sentences, table
from tulle._types import Floats
from tulle.auditing._measures import Associations
from tulle.auditing._tables import Aligned
from tulle.table.schema import Kind

# The bars of a column: which bar a value is in, and what stands below it. Edges and labels come
# from the release, never from the original: the smallest value of the original must not become
# the edge of a bar. They tell no single released record either: the outermost bars hold at least
# ``k`` released records, edges are round numbers, and a value or a category is named only if
# ``k`` released records have it.

Places = list[NDArray[np.int64]]
OTHERS, MISSING = "(others)", "(missing)"
_ANY = "(any)"
_BARS = 20
_DAY = 86_400_000_000.0  # microseconds
_SECOND = 1_000_000.0
_OF_SIZES = {  # the columns of a table of sizes
    "k": "k",
    "for": "Judged for",
    "privacy": "Privacy",
    "use": "Use",
    "worst_attack": "Worst attack",
    "excess": "Its excess",
}
_FINEST = 1e-300  # finer numbers have no digits left to round
_CLOCK = [  # seconds that divide a day evenly
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200, 86_400),
]


def number_bars(
    values: list[Floats], gone: list[NDArray[np.bool_]], kind: Kind, k: int
) -> tuple[Places, list[str]]:
    """Return the bars of numbers: single values if there are few, else parts of the range.

    ``values`` and ``gone`` (what is missing) are of original and release. The last label is that
    of missing values.
    """
    if kind is Kind.INTEGER:
        values = [np.rint(part) for part in values]  # scaling there and back left a rest
    edges, labels = _bars(np.sort(values[1][~gone[1]]), kind, k)
    places = [
        np.where(lost, len(labels), np.searchsorted(edges, part, side="right"))
        for part, lost in zip(values, gone)
    ]
    return places, [*labels, MISSING]


def category_bars(
    original: NDArray[np.int32], release: NDArray[np.int32], words: pl.Series, k: int
) -> tuple[Places, list[str]]:
    """Return a bar for each of the release's commonest categories, and one for all others.

    Categories of fewer than ``k`` released records are not named: they may be one person's own.
    """
    codes, counts = np.unique(release[release > 0], return_counts=True)
    common = codes[np.argsort(-counts, kind="stable")][:_BARS]
    shown = common[: int((counts >= k).sum())]
    labels = [_quoted(words[int(code)]) for code in shown] + [OTHERS, MISSING]
    bars = np.full(len(words), len(shown), np.int64)
    bars[shown] = np.arange(len(shown))
    bars[0] = len(shown) + 1
    return [bars[original], bars[release]], labels


def _quoted(word: str) -> str:
    """Return a category's name, in quotes if it looks like one of our labels or is blank."""
    return f'"{word}"' if word in (OTHERS, MISSING) or not word.strip() else word


def _bars(ordered: Floats, kind: Kind, k: int) -> tuple[Floats, list[str]]:
    """Return inner edges and labels for sorted released numbers."""
    if len(ordered) < 2 * k:
        return np.empty(0), [_ANY]
    low, high = float(ordered[k - 1]), float(ordered[-k])
    inside, counts = np.unique(np.clip(ordered, low, high), return_counts=True)
    few = len(inside) <= _BARS and counts.min() >= k
    if few and (kind is Kind.INTEGER or len(inside) == 1):
        words = _words(inside, kind, 0.0)
        words[0] += " and less" if ordered[0] < low else ""
        words[-1] += " and more" if ordered[-1] > high else ""
        return (inside[1:] + inside[:-1]) / 2, words
    step = _step(max((high - low) / _BARS, _FINEST), kind)
    if kind is Kind.DATETIME and not (np.rint(ordered / _SECOND) * _SECOND % _DAY).any():
        step = max(step, _DAY)  # dates, not moments
    first, last = math.floor(low / step) + 1, math.ceil(high / step)
    edges = np.unique(np.arange(first, max(last, first + 1), dtype=np.float64) * step)
    words = _words(edges, kind, step)
    between = [f"{left} to {right}" for left, right in pairwise(words)]
    return edges, [f"below {words[0]}", *between, f"{words[-1]} and up"]


def _step(rough: float, kind: Kind) -> float:
    """Return a round width that is not below the rough one."""
    if kind is Kind.DATETIME and _SECOND / 2 < rough <= _DAY:
        return next(s * _SECOND for s in _CLOCK if s * _SECOND >= rough)
    if kind is Kind.DATETIME and rough > _DAY:
        return _round(rough / _DAY) * _DAY
    return max(1.0, _round(rough)) if kind is Kind.INTEGER else _round(rough)


def _round(rough: float) -> float:
    """Return the next of 1, 2, 5, 10, ... times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10, 20) if power * factor >= rough)


def _words(values: Floats, kind: Kind, step: float) -> list[str]:
    """Format values for people, with as many digits as it takes to tell them apart."""
    if kind is Kind.DATETIME:
        return [_date(value, step) for value in values]
    whole = bool((np.rint(values) == values).all() and np.abs(values).max() < 1e15)
    for form in (".0f" if whole else ".6g", *(f".{digits}g" for digits in range(7, 17))):
        words = [f"{value:{form}}" for value in values]
        if len(set(words)) == len(words):
            break
    return words


def _date(microseconds: float, step: float) -> str:
    """Format a date; with the time of day if bars are narrower than a day."""
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        return f"{microseconds:.3g}"
    if step % _DAY == 0 and microseconds % _DAY == 0:
        return moment.date().isoformat()
    if microseconds % _SECOND:
        return moment.isoformat(" ", "microseconds")
    return moment.isoformat(" ", "seconds" if microseconds % (60 * _SECOND) else "minutes")


# The pictures of an audit as rows of aggregates: never a record, no cell of fewer than ``k``.

_GRID = 26  # cells along an axis, where there are records enough for them
_COARSEST = 5  # with fewer cells there is nothing to see
MOST_COLUMNS = 30  # in a matrix of correlations
Rows = list[dict[str, Any]]


def bars_of(tables: Aligned, name: str, k: int) -> tuple[Places, list[str]]:
    """Return which bar of a column each record of original and release is in, and the labels."""
    original, release = tables.original.only([name]), tables.release.only([name])
    if original.numbers.shape[1]:
        gone = [np.asarray(r.codes.any(axis=1)) for r in (original, release)]
        unit = tables.units[name]
        values = [r.numbers[:, 0] * unit[1] + unit[0] for r in (original, release)]
        return number_bars(values, gone, tables.kinds[name], k)
    return category_bars(original.codes[:, 0], release.codes[:, 0], tables.domains[name], k)


def histogram(tables: Aligned, name: str, k: int) -> Rows:
    """Return the shares of original and release in the bars of one column."""
    places, labels = bars_of(tables, name, k)
    counts = [np.bincount(place, minlength=len(labels)) for place in places]
    filled = np.flatnonzero(counts[0] + counts[1])
    rows = [
        {
            "label": labels[bar],
            "original": float(counts[0][bar] / len(places[0])),
            "release": float(counts[1][bar] / len(places[1])),
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
    """Return the rows of the bars, and one for each empty bar between them on the axis."""
    missing = len(labels) - 1  # stands apart
    last = max((bar for bar in rows if bar < missing), default=-1)
    bars = [*range(min(rows), last + 1), *([missing] if missing in rows else [])]
    empty = {"original": None, "release": 0.0, "count": None, "released": None}
    return [rows.get(bar) or {"label": labels[bar], **empty} for bar in bars]


def density(tables: Aligned, k: int) -> Rows:
    """Count original and release on a grid over the first two principal axes."""
    cells = min(_GRID, int(np.sqrt(min(len(tables.original), len(tables.release)) / (3 * k))))
    if cells < _COARSEST:
        return []
    middle, covariance = tables.view.moments(tables.frames[0])
    if len(middle) < 2:
        return []
    _, axes = np.linalg.eigh(covariance)
    points = {
        of: tables.view.projected(frame, middle, axes[:, [-1, -2]])
        for of, frame in zip(("original", "release"), tables.frames)
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
    """Return the association of every two of the first columns, in original and release."""
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


_MOST_CHARTS = 40  # columns with a chart of their own; the table has them all


def column_section(
    tables: Aligned, distances: Mapping[str, Mapping[str, Any]], behind: Mapping[str, int], k: int
) -> Section:
    """Show every column: its distance, and a chart behind it; the worst first."""
    worst = sorted(distances, key=lambda name: -distances[name]["distance"])
    first = table(
        ("column", "kind", "distance"),
        [[n, tables.kinds[n].value, distances[n]["distance"]] for n in worst],
        behind=[behind[name] for name in worst],
        title="Distance: Wasserstein in standard deviations for numbers, total variation for "
        "categories; 0 is perfect.",
    )
    hidden = f"Share of records; bars of fewer than {k} originals are left out."
    charts = [
        chart("histogram", histogram(tables, name, k), folded=name, help=hidden,
              title=f"{name}: original and release")
        for name in worst[:_MOST_CHARTS]
    ]  # fmt: skip
    text = "How far the distribution of each column moved. Open a column for its chart."
    if len(worst) > _MOST_CHARTS:
        text += f" Charts are shown for the {_MOST_CHARTS} that moved most."
    return {"id": "columns", "title": "Columns", "text": text, "blocks": [first, *charts]}


def extreme_section(distances: Mapping[str, Mapping[str, Any]]) -> Section:
    """Show ranges and missing values; they may belong to a few people: owner only."""
    rows = [
        [name, row["range"], row["missing_original"], row["missing_release"]]
        for name, row in distances.items()
    ]
    names = "column", "span", "missing, original", "missing, release"
    text = (
        "Span: the share of the original's range that the release covers. A full span reveals the "
        "extremes, which belong to individuals; a small one cuts off the tails. Missing: the share "
        "of records."
    )
    return _of_owner("Ranges and missing values", names, rows, text, id="extremes")


def structure_section(tables: Aligned, found: Associations, k: int) -> Section:
    """Show principal axes and correlations."""
    blocks: list[Block] = []
    cells = density(tables, k)
    if cells:
        told = f"Each dot is a cell of at least {k} records; its size is their share."
        title = "The first two principal axes of the original"
        blocks.append(chart("density", cells, title=title, help=told))
    if len(found.names) > 1:
        first = f" The first {MOST_COLUMNS} columns." if len(found.names) > MOST_COLUMNS else ""
        told = "Correlation of numbers, Cramer's V of categories, correlation ratio between the two"
        title = "Association of columns"
        blocks.append(
            chart("correlation", correlations(found), title=title, help=told + "." + first)
        )
    text = "How the columns are related, in the original and in the release."
    return {"id": "structure", "title": "Structure", "text": text, "blocks": blocks}


def group_facts(sizes: ArrayLike, levels: ArrayLike | None = None) -> dict[str, int]:
    """Count the groups: how many, the smallest, the median, how many are smaller than their level.

    >>> group_facts([5, 7, 3], [5, 5, 4])
    {'groups': 3, 'smallest_group': 3, 'median_group': 5, 'undersized_groups': 1}
    """
    counts = np.asarray(sizes, dtype=np.int64)
    needed = np.ones_like(counts) if levels is None else np.asarray(levels, dtype=np.int64)
    return {
        "groups": len(counts),
        "smallest_group": int(counts.min()),
        "median_group": int(np.median(counts)),
        "undersized_groups": int((counts < needed).sum()),
    }


def group_section(
    sizes: ArrayLike,
    levels: ArrayLike | None = None,
    text: str = "The groups of similar records that the release was made from.",
) -> Section:
    """Show groups by size and level, for commands that know them and how they are used."""
    needed = np.ones_like(sizes) if levels is None else np.asarray(levels)
    kinds, times = np.unique(np.column_stack([sizes, needed]), axis=0, return_counts=True)
    rows = [
        {"size": int(size), "level": int(level), "groups": int(n), "count": int(size * n)}
        for (size, level), n in zip(kinds, times)
    ]
    facts: list[Fact] = [
        {"name": name.replace("_", " ").capitalize(), "value": value}
        for name, value in group_facts(sizes, levels).items()
    ]
    told = "Level: the smallest group that a record requires."
    drawn = chart("groups", rows, title="Groups by size and level", help=told)
    blocks: list[Block] = [{"type": "facts", "rows": facts}, drawn]
    return {"id": "groups", "title": "Groups", "text": text, "blocks": blocks}


# What a release's maker says, for the owner only: it may name classes, or count few.


def _of_owner(
    title: str, columns: Iterable[str], rows: list[list[Any]], text: str = "", **more: Any
) -> Section:
    blocks: list[Block] = [table(columns, rows)]
    return cast(
        Section, {"title": title, "text": text, "blocks": blocks, "owner_only": True} | more
    )


def left_out_section(rows: Sequence[Mapping[str, str]]) -> list[Section]:
    """List the columns that are not in the release, why, and what to write to keep each."""
    words = {"column": "column", "reason": "reason", "to_keep_it": "to keep it"}
    cells = [[row[key] for key in words] for row in rows]
    return [_of_owner("Columns left out", words.values(), cells, id="left-out")] if rows else []


def rules_section(rows: Sequence[Mapping[str, Any]]) -> list[Section]:
    """List the rules between columns, and how many released records break each."""
    if not rows:
        return []
    cells = [list(row.values()) for row in rows]
    return [_of_owner("Rules between columns", rows[0], cells, id="rules")]


def notes_section(notes: Sequence[str]) -> list[Section]:
    told: list[Block] = [sentences(notes)]
    shown: Section = {"id": "notes", "title": "Notes from the run", "blocks": told}
    return [{**shown, "owner_only": True}] if notes else []


def size_section(tried: Sequence[Mapping[str, Any]], why: str) -> list[Section]:
    """List the sizes of groups that were judged, if any, and why one was taken."""
    rows = [[row[name] for name in _OF_SIZES] for row in tried]
    text = (
        f"{why[:1].upper()}{why[1:]}. A size that a few releases speak for is judged by other "
        "ones, of other parts of the people."
    )
    return [_of_owner("Which k", _OF_SIZES.values(), rows, text)] if tried else []
