"""Numbers that are codes: 9999 for "not measured", 9 after answers from 1 to 5, -1, 98 and 99.

A code is found by its look (nines, or a negative among positive numbers) and by its distance
from the other values; how often it occurs decides where the look is weak.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

_FAMILY = 4  # codes that stand together: 96, 97, 98, 99
_TENTH, _THIRD = 0.1, 0.3

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NumberCode:
    """A number that is probably a code."""

    value: float
    rows: int
    reason: str


def find_codes(values: pl.Series, k: int, *, is_count: bool = False) -> list[NumberCode]:
    """Find the codes among numbers, each with its reason.

    ``is_count`` says that the column counts something: then a large value may be a large family.

    Examples
    --------
    >>> crp = pl.Series([3.5, 12.0, 88.1, 140.2, 9999.0, 9999.0] * 5)
    >>> [(code.value, code.reason) for code in find_codes(crp, 5)]
    [(9999.0, 'repeated nines far above all other values')]
    >>> answers = pl.Series([1, 2, 3, 4, 5, 9] * 10)
    >>> [code.value for code in find_codes(answers, 5)]
    [9.0]
    """
    table = values.cast(pl.Float64).fill_nan(None).drop_nulls().alias("v").value_counts(name="n")
    table = table.sort("v")
    different, counts = table["v"].to_numpy(), table["n"].to_numpy()
    return [
        *_low_codes(different, counts, k),
        *_high_codes(different, counts, k, is_count=is_count),
    ]


def _low_codes(different: Floats, counts: NDArray[np.uint32], k: int) -> list[NumberCode]:
    """Find a few negative whole numbers below values that are never negative."""
    negative = int((different < 0).sum())
    if not 1 <= negative <= _FAMILY or len(different) - negative < 2:
        return []
    found = []
    for value, rows in zip(different[:negative], counts[:negative], strict=True):
        look = float(value).is_integer() and (value >= -9 or _digits(-value) <= set("789"))
        if look and rows >= (k if value >= -9 else 2):
            reason = "a negative number where all others are positive"
            found.append(NumberCode(float(value), int(rows), reason))
    return found if len(found) == negative else []


def _high_codes(
    different: Floats, counts: NDArray[np.uint32], k: int, *, is_count: bool
) -> list[NumberCode]:
    """Find nines (and 7, 8 next to them) above a gap."""
    for size in range(min(_FAMILY, len(different) - 2), 0, -1):
        codes, rest = different[-size:], different[:-size]
        rows = counts[-size:]
        if not _is_family(codes) or not _is_apart(codes, rest):
            continue
        if _is_frequent(codes, rows, counts[:-size], k, is_count=is_count):
            far = "repeated nines far above all other values"
            reason = far if codes[-1] > 99 else "a nine after a gap: often 'no answer'"
            return [NumberCode(float(v), int(n), reason) for v, n in zip(codes, rows, strict=True)]
    return []


def _is_family(codes: Floats) -> bool:
    """Return whether numbers are 9, 99, 99.9, ... or such codes as 97, 98, 99 or 7, 8, 9
    together.
    """
    last = _text(codes[-1]).replace(".", "")
    if not (set(last) == {"9"} or (set(last[:-1]) == {"9"} and last[-1] in "678")):
        return False
    if len(codes) == 1:
        return True
    same = all(len(_text(code)) == len(_text(codes[-1])) for code in codes)
    ends = all(_digits(code) <= set("6789") for code in codes)
    return bool(same and ends and np.all(codes == np.round(codes)))


def _is_apart(codes: Floats, rest: Floats) -> bool:
    """Return whether a gap lies between the codes and the rest, wide for their size."""
    gap, width = codes[0] - rest[-1], rest[-1] - rest[0]
    if codes[-1] < 10:  # 9 after 1 to 5: the rest are whole numbers without a gap
        steps = np.diff(rest)
        return bool(gap >= 2 and rest[0] >= 0 and len(rest) >= 2 and np.all(steps == 1))
    if codes[-1] < 100:
        return bool(gap >= max(2.0, _TENTH * width) and rest[0] >= 0)
    return bool(gap >= max(2.0, _THIRD * width))


def _is_frequent(
    codes: Floats,
    rows: NDArray[np.uint32],
    others: NDArray[np.uint32],
    k: int,
    *,
    is_count: bool,
) -> bool:
    """Return whether codes occur as often as codes do: a single nine may be a value."""
    if codes[-1] > 999:
        return True
    if codes[-1] > 99:
        return bool(rows.sum() >= 2)
    tail = others[-3:].mean()
    falling = len(others) >= 4 and others[-1] <= others.max() / 10  # the tail of a quantity
    if is_count or falling or codes[-1] > 9:
        return bool(rows.sum() >= k and rows.sum() >= 2 * tail)
    return bool(rows.sum() >= k)


def _text(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() else repr(float(value))


def _digits(value: float) -> set[str]:
    return set(_text(value).replace(".", ""))
