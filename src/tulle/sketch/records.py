"""What can be sketched: matrices, baskets, texts, bags of terms, and files of them.

All become :class:`Records`: one canonical sparse matrix, and the terms of its columns if it has
any. Columns without terms are known by their numbers.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tulle.errors import DataError
from tulle.sketch.text import is_text_file, read_documents, tokens
from tulle.transactions import Transactions, read_fimi

_EXACT_IN_FLOAT32 = 2**24


class Records(NamedTuple):
    """Sparse rows (float, sorted columns, no stored zeros) and the terms of the columns."""

    matrix: Any
    terms: Sequence[str] | None = None


def as_records(X: Any, text: str = "text") -> Records | None:
    """Records of anything that is no matrix; None if ``X`` looks like a matrix.

    Taken are: the path of a file (``.dat`` baskets; ``.txt``, ``.jsonl`` or a table of documents),
    :class:`~tulle.transactions.Transactions`, a list of texts, a list of bags of terms (lists or
    sets of words), and a list of mappings term -> weight.
    """
    if isinstance(X, Records):
        return X
    if isinstance(X, str | os.PathLike):
        return _from_file(X, text)
    if isinstance(X, Transactions):
        return _from_baskets(X)
    if getattr(X, "ndim", 1) != 1 or hasattr(X, "indptr") or not isinstance(X, Iterable):
        return None
    rows = list(X) if not isinstance(X, list) else X
    kind = _kind(rows)
    if kind is None:
        return None
    return _from_bags(_bag(row, kind) for row in rows)


def canonical(matrix: Any) -> Any:
    """A float copy-if-needed with sorted columns, no duplicates and no stored zeros.

    Whole numbers whose sketches are exact in single precision become float32.
    """
    from scipy.sparse import csr_array

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
    return rows


def _from_file(path: str | os.PathLike[str], text: str) -> Records:
    if not Path(path).is_file():
        raise DataError(f"the file {path} does not exist")
    if not is_text_file(path):
        return _from_baskets(read_fimi(path))
    return _from_bags(Counter(tokens(document)) for document in read_documents(path, text))


def _from_baskets(baskets: Transactions) -> Records:
    from scipy.sparse import csr_array

    if baskets.unknown is not None:
        raise DataError("baskets with unknown items cannot be sketched: use a release without '?'")
    ones = np.ones(len(baskets.items), np.float32)
    shape = (len(baskets), len(baskets.names))
    matrix = csr_array((ones, baskets.items, baskets.indptr), shape=shape)
    return Records(canonical(matrix), [str(name) for name in baskets.names.tolist()])


def _kind(rows: list[Any]) -> str | None:
    if not rows:
        return None
    for kind, types in (("text", str), ("weights", Mapping)):
        if isinstance(rows[0], types):
            if not all(isinstance(row, types) for row in rows):
                raise DataError(f"{type(rows[0]).__name__} and other records are mixed")
            return kind
    bags = all(isinstance(row, list | tuple | set | frozenset) for row in rows)
    words = bags and all(isinstance(term, str) for row in rows for term in row)
    return "bag" if words and any(rows) else None


def _bag(row: Any, kind: str) -> Mapping[str, float]:
    if kind == "text":
        return Counter(tokens(row))
    return row if kind == "weights" else Counter(row)


def _from_bags(bags: Iterable[Mapping[str, float]]) -> Records:
    from scipy.sparse import csr_array

    column_of: dict[str, int] = {}
    columns: list[int] = []
    weights: list[float] = []
    ends = [0]
    for bag in bags:
        columns.extend(column_of.setdefault(term, len(column_of)) for term in bag)
        weights.extend(bag.values())
        ends.append(len(columns))
    if not column_of:
        raise DataError("no record holds a term: the vocabulary is empty")
    entries = (np.array(weights), np.array(columns, np.int32), np.array(ends, np.int32))
    shape = (len(ends) - 1, len(column_of))
    return Records(canonical(csr_array(entries, shape=shape)), list(column_of))
