"""The bars of a column: which bar a value is in, and what stands below it.

Edges and labels come from the release, never from the original: the smallest value of the original
must not become the edge of a bar. They tell no single released record either: the outermost bars
hold at least ``k`` released records, edges are round numbers, and a value or a category is named
only if ``k`` released records have it.
"""

from __future__ import annotations

import datetime
import math
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle.attacks.records import Floats
from tulle.tables.schema import Kind

Places = list[NDArray[np.int64]]

OTHERS, MISSING = "(others)", "(missing)"
_ANY = "(any)"
_BARS = 20
_DAY = 86_400_000_000.0  # microseconds
_SECOND = 1_000_000.0
_FINEST = 1e-300  # finer numbers have no digits left to round
_CLOCK = [  # seconds that divide a day evenly
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200, 86_400),
]


def number_bars(
    values: list[Floats], gone: list[NDArray[np.bool_]], kind: Kind, k: int
) -> tuple[Places, list[str]]:
    """The bars of numbers: single values if there are few, else parts of the range.

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
    """A bar for each of the release's commonest categories, one for all others.

    Categories of fewer than ``k`` released records are not named: somebody's own, perhaps.
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
    """A category by its name, in quotes if it looks like one of ours or like nothing."""
    return f'"{word}"' if word in (OTHERS, MISSING) or not word.strip() else word


def _bars(ordered: Floats, kind: Kind, k: int) -> tuple[Floats, list[str]]:
    """Inner edges and labels for sorted released numbers."""
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
    """A round width that is not below the rough one."""
    if kind is Kind.DATETIME and _SECOND / 2 < rough <= _DAY:
        return next(s * _SECOND for s in _CLOCK if s * _SECOND >= rough)
    if kind is Kind.DATETIME and rough > _DAY:
        return _round(rough / _DAY) * _DAY
    return max(1.0, _round(rough)) if kind is Kind.INTEGER else _round(rough)


def _round(rough: float) -> float:
    """The next of 1, 2, 5, 10, ... times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10, 20) if power * factor >= rough)


def _words(values: Floats, kind: Kind, step: float) -> list[str]:
    """The values as people write them, with as many digits as it takes to tell them apart."""
    if kind is Kind.DATETIME:
        return [_date(value, step) for value in values]
    whole = bool((np.rint(values) == values).all() and np.abs(values).max() < 1e15)
    for form in (".0f" if whole else ".6g", *(f".{digits}g" for digits in range(7, 17))):
        words = [f"{value:{form}}" for value in values]
        if len(set(words)) == len(words):
            break
    return words


def _date(microseconds: float, step: float) -> str:
    """A date; with the time of day if bars are narrower than a day."""
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        return f"{microseconds:.3g}"
    if step % _DAY == 0 and microseconds % _DAY == 0:
        return moment.date().isoformat()
    if microseconds % _SECOND:
        return moment.isoformat(" ", "microseconds")
    return moment.isoformat(" ", "seconds" if microseconds % (60 * _SECOND) else "minutes")
