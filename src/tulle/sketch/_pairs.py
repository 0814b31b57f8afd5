"""Variance and bound of pairs of records, safe from rounding.

With V the variance of the estimated dot product for one component and the gap |x||y| - |x.y|::

    V   = |x|²|y|² + (x.y)² - 2 sum x_i² y_i²
    gap = (|x|²|y|² - (x.y)²) / (|x||y| + |x.y|)

Both differences lose their digits where they are small, and a promise must not rest on what is left
of them. V is small if one column is nearly all of both records, the gap if the records point nearly
the same way. Such pairs are computed again: V with that column apart, the gap from the difference
of the two directions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_DOUBTFUL = 1e-6  # share of |x|²|y|² below which a difference is computed again
_SAME_DIRECTION = 1e-24  # squared distance of directions that rounding alone can make
_ROUNDING = 1e-15


class Sums(NamedTuple):
    """Of each pair: |x|²|y|², |x.y|, and the two differences of the formulas above."""

    squares: Floats
    dots: Floats
    variance: Floats
    defect: Floats


def variance_and_bound(x: Any, y: Any, squares: Floats, criterion: str) -> tuple[Floats, Floats]:
    """Of pairs, whose records are rows of x and y: V, and the squared bound of a criterion.

    ``squares`` are the products |x|²|y|².
    """
    sums = _sums(x, y, squares)
    doubtful = np.flatnonzero(np.minimum(sums.variance, sums.defect) < _DOUBTFUL * sums.squares)
    if len(doubtful):
        some_x, some_y = x[doubtful], y[doubtful]
        sums.variance[doubtful] = _variance_apart(some_x, some_y)
        sums.defect[doubtful] = _defect_of_directions(some_x, some_y, squares[doubtful])
    return sums.variance, _squared_bound(sums, criterion)


def row_squares(rows: Any) -> Floats:
    """|x|² of each row."""
    return _row_sums(rows.multiply(rows))


def _sums(x: Any, y: Any, squares: Floats) -> Sums:
    products = x.multiply(y).tocsr()
    dots, shared = _row_sums(products), row_squares(products)
    return Sums(squares, np.abs(dots), squares + dots**2 - 2 * shared, squares - dots**2)


def _squared_bound(sums: Sums, criterion: str) -> Floats:
    lengths = np.sqrt(sums.squares)
    if criterion == "definition":
        return sums.defect / (lengths + sums.dots)
    # for records that share nothing this is |x|²|y|² to the last digit, and so is V: they may
    # have one component, whatever the root of the product is rounded to
    whole = sums.squares + sums.dots**2 + 2 * lengths * sums.dots
    return sums.defect * (sums.defect / whole)


def _variance_apart(x: Any, y: Any) -> Floats:
    """V of pairs that share a column p: |x_p y' + y_p x'|² for the others, and V among those."""
    places = np.arange(x.shape[0])
    top = np.asarray(abs(x.multiply(y)).tocsr().argmax(axis=1)).ravel()
    x_top, y_top = (np.asarray(rows[places, top]).ravel() for rows in (x, y))
    x_rest, y_rest = _without(x, top, x_top), _without(y, top, y_top)
    mixed = x_rest.multiply(y_top[:, None]) + y_rest.multiply(x_top[:, None])
    rest = _sums(x_rest, y_rest, row_squares(x_rest) * row_squares(y_rest))
    among = np.maximum(rest.variance - _ROUNDING * rest.squares, 0.0)
    return row_squares(mixed) + among


def _without(rows: Any, columns: Any, values: Floats) -> Any:
    """The rows with one entry each taken out."""
    from scipy.sparse import csr_array

    taken = csr_array((values, columns, np.arange(len(values) + 1)), shape=rows.shape)
    return (rows - taken).tocsr()


def _defect_of_directions(x: Any, y: Any, squares: Floats) -> Floats:
    """|x|²|y|² - (x.y)² from |u - v|² of the directions; 0 if they are the same."""
    u, v = _directions(x), _directions(y)
    cosines = _row_sums(u.multiply(v))
    far = row_squares(u - v.multiply(np.where(cosines < 0, -1.0, 1.0)[:, None]))
    far[far <= _SAME_DIRECTION] = 0.0
    return squares * far * (1 - far / 4)  # sin² of the angle


def _directions(rows: Any) -> Any:
    return rows.multiply(1 / np.sqrt(row_squares(rows))[:, None]).tocsr()


def _row_sums(rows: Any) -> Floats:
    return np.asarray(rows.sum(axis=1), dtype=np.float64).ravel()
