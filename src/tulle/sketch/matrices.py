"""Matrices of records: what is refused, and the one form in which they are sketched."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from tulle.errors import DataError

_EXACT_IN_FLOAT32 = 2**24
_SMALLEST, _LARGEST = 1e-60, 1e60  # beyond, fourth powers are no numbers any more
_LARGEST_IN_FLOAT32 = 1e12  # beyond, sums of squared components may be too large for it
_HARMLESS = ("Found array with", "X has ", "The feature names", "Expected unique column names")
_NO_NUMBER = "a cell of X is no number: give counts or weights, or texts as a list or one column"


def refuse_other_shapes(X: Any) -> None:
    """Refuses what is no matrix, without a cell of it; the words of scikit-learn quote the data."""
    try:
        shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    except ValueError:
        raise DataError(
            "the rows of X differ in length: give a matrix, sets of items, or lists of words"
        ) from None
    if len(shape) != 2:
        raise DataError(
            f"Expected a 2-D array, got {len(shape)} dimension(s). Reshape your data: one row a "
            "record; or give texts, bags of words, or a file"
        )
    if getattr(X, "dtype", None) is not None and np.dtype(X.dtype).kind == "c":
        raise DataError("Complex data not supported: give counts or weights")
    if hasattr(X, "check_format"):
        try:
            X.check_format(full_check=True)
        except ValueError:
            raise DataError(
                "X is damaged: indices of the sparse matrix lie outside of it"
            ) from None


def validated(estimator: Any, X: Any, *, reset: bool) -> Any:
    """The matrix of X after the checks of scikit-learn, whose words must not quote a cell."""
    refuse_other_shapes(X)
    checks = {"accept_sparse": "csr", "dtype": "numeric", "ensure_all_finite": False}
    try:
        matrix = validate_data(estimator, X, reset=reset, **checks)
        # lists of whole numbers that no integer of NumPy holds come as objects
        return matrix.astype(np.float64) if matrix.dtype.kind == "O" else matrix
    except (ValueError, OverflowError) as error:
        if str(error).startswith(_HARMLESS):
            raise
        raise DataError(_NO_NUMBER) from None


def canonical(matrix: Any) -> Any:
    """A float copy-if-needed with sorted columns, no duplicates and no stored zeros.

    Whole numbers whose sketches are exact in single precision become float32.
    """
    from scipy.sparse import csr_array

    if matrix.dtype.kind not in "biuf":
        raise DataError(_NO_NUMBER)
    rows = csr_array(matrix)
    if rows.dtype.kind != "f":
        rows = rows.astype(np.float64)
        exact = not rows.nnz or np.abs(rows).sum(axis=1).max() < _EXACT_IN_FLOAT32
        rows = rows.astype(np.float32) if exact else rows
    elif rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    if not rows.has_canonical_format or (rows.data == 0).any():
        rows = rows.copy()
        rows.sum_duplicates()
        rows.eliminate_zeros()
    if not np.isfinite(rows.data).all():
        count = int((~np.isfinite(rows.data)).sum())
        raise DataError(f"Input X contains NaN or infinity ({count} entries): remove them first")
    return _of_fair_size(rows)


def _of_fair_size(rows: Any) -> Any:
    """Refuses entries with which a promise could not be checked; widens those of large floats."""
    sizes = np.abs(rows.data)
    smallest, largest = float(sizes.min(initial=1)), float(sizes.max(initial=1))
    if smallest < _SMALLEST or largest > _LARGEST:
        beyond = int(np.sum((sizes < _SMALLEST) | (sizes > _LARGEST)))
        raise DataError(
            f"{beyond} entries are above {_LARGEST:g} or below {_SMALLEST:g}: change their unit"
        )
    return rows.astype(np.float64) if largest > _LARGEST_IN_FLOAT32 else rows
