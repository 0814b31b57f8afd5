"""What can be sketched: matrices, baskets, texts, bags of terms, and files of them.

All become :class:`Records`: one canonical sparse matrix, and the terms of its columns if it has
any. Columns without terms are known by their numbers.
"""

from __future__ import annotations

import math
import os
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tulle.errors import DataError
from tulle.sketch.matrices import canonical
from tulle.sketch.text import documents, is_basket_file, is_text_file, tokens
from tulle.transactions import Transactions, fimi_blocks, read_fimi

_BATCH_RECORDS, _BATCH_ENTRIES = 20_000, 2_000_000

FilePath = str | os.PathLike[str]


class Records(NamedTuple):
    """Sparse rows (float, sorted columns, no stored zeros) and the terms of the columns.

    Columns without terms are known by ``numbers``; None means 0, 1, 2, ...
    """

    matrix: Any
    terms: Sequence[str] | None = None
    numbers: npt.NDArray[np.int64] | None = None


def as_records(X: Any, text: str = "text") -> Records | None:
    """Records of anything that is no matrix; None if ``X`` looks like a matrix.

    Taken are: the path of a file (``.dat`` baskets; ``.txt``, ``.jsonl`` or a table of documents),
    :class:`~tulle.transactions.Transactions`, a list (or a column of a table) of texts, a list of
    bags of terms (lists or sets of words, or sets of item numbers), and a list of mappings
    term -> weight. A missing text is an empty one.
    """
    if isinstance(X, Records):
        return X
    if isinstance(X, str | os.PathLike):
        return _from_file(X, text)
    if isinstance(X, Transactions):
        return _from_baskets(X)
    if getattr(X, "ndim", 1) != 1 or hasattr(X, "indptr") or not isinstance(X, Iterable):
        return None
    if isinstance(X, Mapping):
        raise DataError("X is one mapping: give a list of mappings term -> weight, or of texts")
    rows = X.to_pylist() if hasattr(X, "to_pylist") else list(X)
    kind = _kind(rows)
    if kind is None:
        return None
    bags = (_bag(row, kind) for row in rows)
    return _whole(bags, np.float64 if kind == "weights" else np.float32)


def record_batches(
    path: FilePath,
    text: str = "text",
    records: int = _BATCH_RECORDS,
    entries: int = _BATCH_ENTRIES,
) -> Iterator[Records]:
    """The records of a file in batches, in bounded memory; each has its own columns.

    A batch ends after so many records or entries. Baskets whose items are words are one batch.
    """
    if is_text_file(path):
        batches = _batches(_counts(path, text), records, entries)
    else:
        batches = _basket_batches(path, records)
    return _with_terms(batches)


def numbered(matrix: Any) -> Records:
    """Records of a canonical matrix; of a very wide one only the columns that occur."""
    from scipy.sparse import csr_array

    if matrix.shape[1] <= 8 * matrix.nnz + 1_000_000:
        return Records(matrix)
    numbers, columns = np.unique(matrix.indices, return_inverse=True)
    parts = (matrix.data, columns.astype(np.int32), matrix.indptr)
    narrow = csr_array(parts, shape=(matrix.shape[0], len(numbers)))
    return Records(narrow, numbers=numbers.astype(np.int64))


def joined(parts: Sequence[Records]) -> Records:
    """Records with terms one below the other; columns that nobody has are left out."""
    from scipy.sparse import csr_array

    column_of: dict[str, int] = {}
    columns: list[npt.NDArray[np.int32]] = []
    for matrix, terms, _ in parts:
        used = np.unique(matrix.indices)
        place = np.zeros(matrix.shape[1], np.int32)
        names = [] if terms is None else [terms[column] for column in used]
        place[used] = [column_of.setdefault(name, len(column_of)) for name in names]
        columns.append(place[matrix.indices])
    data = np.concatenate([part.matrix.data for part in parts])
    ends = np.cumsum(np.concatenate([[0], *(np.diff(part.matrix.indptr) for part in parts)]))
    shape = (len(ends) - 1, len(column_of))
    matrix = csr_array((data, np.concatenate(columns), _narrow(ends)), shape=shape)
    return Records(canonical(matrix), list(column_of))


def _from_file(path: FilePath, text: str) -> Records:
    if not os.path.isfile(path):
        # a text is not quoted: it may be one that was meant to be sketched
        text_given = "X is a text, and no file has it as name: give texts as a list"
        raise DataError(text_given if isinstance(path, str) else f"{path} is no file")
    if is_text_file(path):
        return _whole(_counts(path, text), np.float32)
    return _from_baskets(_baskets(path))


def _baskets(path: FilePath) -> Transactions:
    """The baskets of a file; only some kinds of files hold baskets of words."""
    baskets = read_fimi(path)
    if baskets.names.dtype.kind == "O" and not is_basket_file(path):
        raise DataError(
            f"{path} is no kind of file that is known to hold texts (.txt, .jsonl, .csv, .parquet) "
            "or baskets of words (.dat): convert or rename it"
        )
    return baskets


def _counts(path: FilePath, text: str) -> Iterator[Counter[str]]:
    return (Counter(tokens(document)) for document in documents(path, text))


def _basket_batches(path: FilePath, records: int) -> Iterator[Records]:
    blocks = fimi_blocks(path, records)
    try:
        first = next(blocks)
    except DataError:
        # items named by words, which cannot be read in blocks; or wrong, and refused here too
        yield _from_baskets(_baskets(path))
        return
    yield _from_baskets(first)
    yield from map(_from_baskets, blocks)


def _with_terms(batches: Iterable[Records]) -> Iterator[Records]:
    """The same, if at least one of them holds a term."""
    empty = True
    for batch in batches:
        empty = empty and not batch.terms
        yield batch
    if empty:
        raise DataError("no record holds a term: the vocabulary is empty")


def _from_baskets(baskets: Transactions) -> Records:
    from scipy.sparse import csr_array

    if baskets.unknown is not None:
        raise DataError("baskets with unknown items cannot be sketched: use a release without '?'")
    terms = [str(name) for name in baskets.names.tolist()]
    if len(set(terms)) < len(terms):
        # they would have the same signs, and count as two entries all the same
        raise DataError("some items differ in their type alone, as 1 and '1': give them one name")
    ones = np.ones(len(baskets.items), np.float32)
    shape = (len(baskets), len(baskets.names))
    matrix = csr_array((ones, baskets.items, _narrow(baskets.indptr)), shape=shape)
    return Records(canonical(matrix), terms)


def _kind(rows: list[Any]) -> str | None:
    """What the rows are: text, weights or bags; None for anything else."""
    if not rows:
        raise DataError("Found no record (0 sample(s)): give at least one")
    present = [row for row in rows if not _is_missing(row)]
    for kind, types in (("text", str), ("weights", Mapping)):
        if any(isinstance(row, types) for row in present):
            missing = len(rows) - len(present)
            if not all(isinstance(row, types) for row in present) or (missing and kind != "text"):
                raise DataError(f"records of kind '{kind}' and other records are mixed")
            if kind == "weights" and not all(isinstance(term, str) for row in rows for term in row):
                raise DataError("the terms of a mapping are its words: give text as keys")
            return kind
    if all(isinstance(row, set | frozenset) for row in rows):
        return "bag" if any(rows) else None
    bags = all(isinstance(row, list | tuple | set | frozenset) for row in rows)
    words = bags and all(isinstance(term, str) for row in rows for term in row)
    return "bag" if words and any(rows) else None


def _is_missing(row: Any) -> bool:
    # the missing value of pandas is known by its name: pandas itself may not be there
    nan = isinstance(row, float) and math.isnan(row)
    return row is None or nan or type(row).__name__ == "NAType"


def _bag(row: Any, kind: str) -> Mapping[str, float]:
    if kind == "text":
        return Counter() if _is_missing(row) else Counter(tokens(row))
    return row if kind == "weights" else Counter(str(term) for term in row)


def _whole(bags: Iterable[Mapping[str, float]], dtype: Any) -> Records:
    (records,) = _with_terms(_batches(bags, math.inf, math.inf, dtype))
    return records


def _batches(
    bags: Iterable[Mapping[str, float]], records: float, entries: float, dtype: Any = np.float32
) -> Iterator[Records]:
    rest = iter(bags)
    while (batch := _batch(rest, records, entries, dtype)) is not None:
        yield batch


def _batch(
    bags: Iterator[Mapping[str, float]], records: float, entries: float, dtype: Any
) -> Records | None:
    """The next bags as records; None if there is none left."""
    from scipy.sparse import csr_array

    column_of: dict[str, int] = {}
    columns, weights, ends = array("i"), array("d"), array("q", [0])
    for bag in bags:
        columns.extend([column_of.setdefault(term, len(column_of)) for term in bag])
        try:
            weights.extend(bag.values())
        except (TypeError, OverflowError):
            raise DataError("the weight of a term is no number: give numbers") from None
        ends.append(len(columns))
        if len(ends) > records or len(columns) >= entries:
            break
    if len(ends) == 1:
        return None
    parts = (np.array(weights, dtype), np.array(columns, np.int32), _narrow(np.array(ends)))
    shape = (len(ends) - 1, len(column_of))
    return Records(canonical(csr_array(parts, shape=shape)), list(column_of))


def _narrow(ends: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """As 32-bit numbers if they fit: much of scikit-learn takes no others."""
    return ends.astype(np.int32) if ends[-1] < 2**31 else ends
