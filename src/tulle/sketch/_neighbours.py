"""The k nearest neighbours (cosine) of sparse records.

``exact`` compares every record with every other; ``partition`` first cuts the records into parts
of some thousands by repeated two-means, and looks for neighbours only inside a
record's part: linear in the number of records, and approximate. Ties go to the record that comes
first. Rows must not be empty.

Ranking uses dot products in single precision, times one over the length of the other record: for
small whole numbers the dot products are exact.
Cosines that agree to six digits may be confused; bounds are computed exactly later.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tulle._progress import bar
from tulle._types import Floats

_BLOCK = 4096  # records compared with all others at once: their sums stay in the cache
_PART = 16_384  # records of a part, at most
_ROUNDS = 5  # of two-means, to cut a part
_DENSE = 0.15  # share of a block from which a column is added as a whole
Indices = npt.NDArray[np.int64]


class Graph(NamedTuple):
    """``neighbours[i]`` are the k records nearest to i, nearest first, with their cosines."""

    neighbours: npt.NDArray[np.int32]
    similarities: npt.NDArray[np.float32]


def nearest(matrix: Any, k: int, method: str, rng: np.random.Generator) -> Graph:
    """Find the k nearest neighbours of every row, by cosine."""
    rows = matrix.astype(np.float64)
    # by a power of two for each row: no digit is lost, and single precision suffices
    largest = np.maximum.reduceat(np.abs(rows.data), rows.indptr[:-1])
    _, exponents = np.frexp(largest)
    rows.data = np.ldexp(rows.data, -np.repeat(exponents, np.diff(rows.indptr)))
    rows = rows.astype(np.float32)
    if method == "exact" or rows.shape[0] <= _PART:
        return _exact(rows, k)
    neighbours = np.empty((rows.shape[0], k), np.int32)
    similarities = np.empty((rows.shape[0], k), np.float32)
    parts = _parts(rows, max(2 * k + 2, _PART), rng)
    with bar("neighbours", len(parts)) as advance:
        for part in parts:
            found = _exact(rows[part], k)
            neighbours[part] = part[found.neighbours]
            similarities[part] = found.similarities
            advance()
    return Graph(neighbours, similarities)


def _exact(rows: Any, k: int) -> Graph:
    inverse = (1.0 / np.sqrt(_squares(rows))).astype(np.float32)
    scores, neighbours = best_cosines(rows, inverse, k)
    return Graph(neighbours, scores * inverse[:, None])


def _squares(rows: Any) -> npt.NDArray[np.float64]:
    squares = rows.data.astype(np.float64) ** 2
    return np.add.reduceat(squares, rows.indptr[:-1])


def best_cosines(
    rows: Any, inverse: npt.NDArray[np.float32], k: int, block: int = _BLOCK
) -> tuple[Any, Any]:
    """Return the scores and places of the best k of each row; inverse lengths make cosines."""
    from tulle.sketch._kernels import LANE, compare_block

    n = rows.shape[0]
    indptr, indices = rows.indptr.astype(np.int64), rows.indices.astype(np.uint32)
    scores = np.full((n, k), -np.inf, np.float32)
    neighbours = np.full((n, k), -1, np.int32)
    with bar("neighbours", float(n) * n / 2) as advance:
        for start in range(0, n, block):
            size = min(block, n - start)
            postings = rows[start : start + size].tocsc()
            frequent = np.flatnonzero(np.diff(postings.indptr) > _DENSE * size)
            dense_row = np.full(rows.shape[1], -1, np.int32)
            dense_row[frequent] = np.arange(len(frequent), dtype=np.int32)
            dense = np.zeros((len(frequent), -(-size // LANE) * LANE), np.float32)
            dense[:, :size] = postings[:, frequent].T.toarray()
            compare_block(
                indptr, indices, rows.data, inverse, start, size,
                postings.indptr.astype(np.int64), postings.indices.astype(np.uint16),
                postings.data, dense_row, dense, scores, neighbours,
            )  # fmt: skip
            advance(size * (n - start - size / 2))
    return scores, neighbours


def _parts(rows: Any, size: int, rng: np.random.Generator) -> list[Indices]:
    """Cut the records into parts of size/2 to size, halving larger ones into similar halves."""
    waiting = [np.arange(rows.shape[0])]
    scale = (1.0 / np.sqrt(_squares(rows))).astype(np.float32)
    unit = rows.copy()
    unit.data *= np.repeat(scale, np.diff(rows.indptr))
    parts = []
    while waiting:
        part = waiting.pop()
        if len(part) <= size:
            parts.append(np.sort(part))
        else:
            first = _first_half(unit[part], rng)
            waiting += [part[first], part[~first]]
    return parts


def _first_half(unit: Any, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Split into two equal halves around two means that start from two random records."""
    one, other = rng.choice(unit.shape[0], 2, replace=False)
    direction = (unit[[one]] - unit[[other]]).toarray().ravel()
    total = np.asarray(unit.sum(axis=0)).ravel()
    for _ in range(_ROUNDS):
        order = np.argsort(-(unit @ direction), kind="stable")
        first = np.zeros(unit.shape[0], bool)
        first[order[: len(order) // 2]] = True
        half = unit.T @ first.astype(np.float32)
        direction = 2 * half - total
    return first


# Variance and bound of pairs of records, safe from rounding. With V the variance of the estimated
# dot product for one component and the gap |x||y| - |x.y|:: V = |x|²|y|² + (x.y)² - 2 sum x_i²
# y_i² gap = (|x|²|y|² - (x.y)²) / (|x||y| + |x.y|) Both differences lose their digits where they
# are small, and a guarantee must not rest on what is left of them. V is small if one column is
# nearly all of both records, the gap if the records point nearly the same way. Such pairs are
# computed again: V with that column apart, the gap from the difference of the two directions.

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
    """Compute V and the squared bound of a criterion for pairs whose records are rows of x and y.

    ``squares`` are the products |x|²|y|².
    """
    sums = _sums(x, y, squares)
    doubtful = np.flatnonzero(np.minimum(sums.variance, sums.defect) < _DOUBTFUL * sums.squares)
    if len(doubtful):
        some_x, some_y = x[doubtful], y[doubtful]
        sums.variance[doubtful] = _variance_apart(some_x, some_y)
        sums.defect[doubtful] = _defect_of_directions(some_x, some_y, squares[doubtful])
    lengths = np.sqrt(sums.squares)
    if criterion == "definition":
        return sums.variance, sums.defect / (lengths + sums.dots)
    # for records that share nothing this is |x|²|y|² to the last digit, and so is V: they may
    # have one component, whatever the root of the product is rounded to
    whole = sums.squares + sums.dots**2 + 2 * lengths * sums.dots
    return sums.variance, sums.defect * (sums.defect / whole)


def dot_variance(x: Any, y: Any) -> Floats:
    """Compute the variance of the estimated dot product of each pair, for one component."""
    return _sums(x, y, row_squares(x) * row_squares(y)).variance


def row_squares(rows: Any) -> Floats:
    """Compute |x|² of each row."""
    return _row_sums(rows.multiply(rows))


def _sums(x: Any, y: Any, squares: Floats) -> Sums:
    products = x.multiply(y).tocsr()
    dots, shared = _row_sums(products), row_squares(products)
    return Sums(squares, np.abs(dots), squares + dots**2 - 2 * shared, squares - dots**2)


def _variance_apart(x: Any, y: Any) -> Floats:
    """Compute V of pairs that share a column p: |x_p y' + y_p x'|² plus V of the others."""
    places = np.arange(x.shape[0])
    top = np.asarray(abs(x.multiply(y)).tocsr().argmax(axis=1)).ravel()
    x_top, y_top = (np.asarray(rows[places, top]).ravel() for rows in (x, y))
    x_rest, y_rest = _without(x, top, x_top), _without(y, top, y_top)
    mixed = x_rest.multiply(y_top[:, None]) + y_rest.multiply(x_top[:, None])
    rest = _sums(x_rest, y_rest, row_squares(x_rest) * row_squares(y_rest))
    among = np.maximum(rest.variance - _ROUNDING * rest.squares, 0.0)
    return row_squares(mixed) + among


def _without(rows: Any, columns: Any, values: Floats) -> Any:
    """Remove one entry from each row."""
    from scipy.sparse import csr_array

    taken = csr_array((values, columns, np.arange(len(values) + 1)), shape=rows.shape)
    return (rows - taken).tocsr()


def _defect_of_directions(x: Any, y: Any, squares: Floats) -> Floats:
    """Compute |x|²|y|² - (x.y)² from |u - v|² of the directions; 0 if they are the same."""
    u, v = _directions(x), _directions(y)
    cosines = _row_sums(u.multiply(v))
    far = row_squares(u - v.multiply(np.where(cosines < 0, -1.0, 1.0)[:, None]))
    far[far <= _SAME_DIRECTION] = 0.0
    return squares * far * (1 - far / 4)  # sin² of the angle


def _directions(rows: Any) -> Any:
    return rows.multiply(1 / np.sqrt(row_squares(rows))[:, None]).tocsr()


def _row_sums(rows: Any) -> Floats:
    return np.asarray(rows.sum(axis=1), dtype=np.float64).ravel()
