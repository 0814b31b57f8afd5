"""How much a release blurs values: the interval in which an original value lies.

It compares an original with one counterpart for each of its records. Which counterpart is the
caller's choice: a released record of its group drawn at random (the privacy measure of paper 001),
or, when nothing is known of groups, the nearest released record (the attacker's best, a lower
bound).
"""

from __future__ import annotations

import numpy as np

from tulle._types import Floats


def interval_widths(
    original: Floats,
    counterparts: Floats,
    share: float = 0.95,
    *,
    extent: Floats | None = None,
) -> Floats:
    """Compute the width of the central interval of (original - counterpart) over the range.

    ``extent`` is the range of each column; that of ``original``, unless it is a sample. The
    larger, the less a released value says of an original one; above 1 is possible, as in the
    paper. Values that are missing (NaN) on one side are left out. NaN for a constant column.
    """
    if extent is None:
        extent = original.max(axis=0) - original.min(axis=0)
    tail = (1 - share) / 2
    widths = [_central(gaps[~np.isnan(gaps)], tail) for gaps in (original - counterparts).T]
    return np.asarray(np.array(widths) / np.where(extent > 0, extent, np.nan))


def _central(gaps: Floats, tail: float) -> float:
    low, high = np.quantile(gaps, [tail, 1 - tail]) if len(gaps) else (np.nan, np.nan)
    return float(high - low)


def interval_width(
    original: Floats,
    counterparts: Floats,
    share: float = 0.95,
    *,
    extent: Floats | None = None,
) -> float:
    """Compute the privacy measure of paper 001: the mean of :func:`interval_widths`, at most 1.

    An interval wider than the range of its column says no more than the range itself.

    >>> interval_width(np.array([[0.0], [1.0]]), np.array([[5.0], [-5.0]]))
    1.0
    """
    widths = interval_widths(original, counterparts, share, extent=extent)
    known = np.minimum(widths[~np.isnan(widths)], 1.0)
    return float(known.mean()) if len(known) else float("nan")
