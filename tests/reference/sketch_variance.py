"""The exact variance of every estimate that a sketch gives.

With m components whose signs are four-wise independent::

    attribute k         (|x|² - x_k²) / m
    dot product         (|x|²|y|² + (x.y)² - 2 sum x_i² y_i²) / m
    squared length      the dot product of x with itself: 2 (|x|⁴ - sum x_i⁴) / m
    squared distance    the squared length of x - y

Rows of ``X`` and ``Y`` belong together: every function returns one figure per row. The paper's
variance of the dot product, (|x|²|y|² - (x.y)²) / m, drops two terms and can be wrong in both
directions; :func:`printed_dot` has it for comparison.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tulle._types import Floats


def attribute(X: Any, columns: Any, m: Any) -> Floats:
    """Compute the variance of the estimate of one attribute of each row."""
    rows = _rows(X)
    values = np.asarray(rows[np.arange(rows.shape[0]), np.asarray(columns)]).ravel()
    return (_squares(rows) - values**2) / m


def dot(X: Any, Y: Any, m: Any) -> Floats:
    """Compute the variance of the estimate of each dot product x·y."""
    x, y = _rows(X), _rows(Y)
    products = x.multiply(y).tocsr()
    shared = np.asarray(products.multiply(products).sum(axis=1)).ravel()
    return (_squares(x) * _squares(y) + _sums(products) ** 2 - 2 * shared) / m


def squared_norm(X: Any, m: Any) -> Floats:
    """Compute the variance of the estimate of each squared length."""
    return dot(X, X, m)


def squared_distance(X: Any, Y: Any, m: Any) -> Floats:
    """Compute the variance of the estimate of each squared Euclidean distance."""
    return squared_norm(_rows(X) - _rows(Y), m)


def printed_dot(X: Any, Y: Any, m: Any) -> Floats:
    """Compute the variance of the dot product as the paper prints it; not exact."""
    x, y = _rows(X), _rows(Y)
    return (_squares(x) * _squares(y) - _sums(x.multiply(y)) ** 2) / m


def _rows(X: Any) -> Any:
    from scipy.sparse import csr_array

    return csr_array(X, dtype=np.float64)


def _squares(rows: Any) -> Floats:
    return _sums(rows.multiply(rows))


def _sums(rows: Any) -> Floats:
    return np.asarray(rows.sum(axis=1), dtype=np.float64).ravel()
