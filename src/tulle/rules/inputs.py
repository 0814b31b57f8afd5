"""Baskets in any container, and the release put back into the same kind.

====================================  =====================================================
given                                 given back
====================================  =====================================================
a list, tuple or series of lists      the same, item order kept; blocked cells as ``"item?"``;
                                      where items were added, all baskets in one order of items
a scipy sparse 0/1 matrix             the same format and type; blocked cells are NaN
a 2-D NumPy 0/1 array                 the same; blocked cells are NaN
a wide frame of 0/1 columns           the same columns; blocked cells are null
a frame of two columns, id and item   the rows that are left; where cells were added or
                                      blocked, the pairs in order of basket and item, marked
a path of a FIMI file or table        :class:`~tulle.transactions.Transactions`
====================================  =====================================================
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tulle.errors import DataError
from tulle.transactions import Transactions, read_fimi
from tulle.transactions.fimi import refuse_marks_in_names

_KINDS = (
    "lists of items, a scipy sparse or NumPy 0/1 matrix, a wide 0/1 frame, a frame of two "
    "columns (basket, item), Transactions, or the path of a FIMI file or table"
)


class Source(NamedTuple):
    """Baskets, and how to put a release of them into the container that they came in."""

    baskets: Transactions
    restore: Callable[[Transactions], Any]
    pandas: bool = False


def as_baskets(data: Any) -> Transactions:
    """Baskets from anything that holds baskets."""
    return open_baskets(data).baskets


def open_baskets(data: Any) -> Source:
    """Baskets from anything that holds baskets, and the way back."""
    source = _open(data)
    if len(source.baskets) == 0:
        raise DataError("there is no basket in the data")
    if len(source.baskets.items) == 0:
        raise DataError("all baskets are empty: there is nothing to mine or to hide")
    return source


def shuffled(data: Any, order: Any) -> Any:
    """Baskets in another order; rows of a frame of (basket, item) are mixed as rows.

    An index of pandas would tell the old order: it is numbered anew.
    """
    if isinstance(data, Transactions):
        return data.take(order)
    if isinstance(data, list | tuple):
        return type(data)([data[row] for row in order])
    if hasattr(data, "iloc") and getattr(data, "ndim", 0) == 1:
        return data.iloc[order].reset_index(drop=True)
    if _is_frame(data):
        import narwhals as nw

        frame = nw.from_native(data, eager_only=True)
        rows = order if len(order) == len(frame) else np.argsort(_mixed(len(frame), order))
        return nw.maybe_reset_index(frame[rows.tolist(), :]).to_native()
    return data.tocsr()[order].asformat(data.format) if hasattr(data, "tocsr") else data[order]


def _mixed(length: int, order: Any) -> Any:
    """Sort keys for another number of rows, from the same randomness."""
    return np.random.default_rng(order[:16]).random(length)


def _open(data: Any) -> Source:
    if isinstance(data, Transactions):
        return Source(data, lambda released: released)
    if isinstance(data, str | os.PathLike):
        return Source(_read(data), lambda released: released)
    if hasattr(data, "tocsr") and data.ndim == 2:
        return _open_sparse(data)
    if isinstance(data, np.ndarray) and data.ndim == 2:
        return _open_dense(data)
    if _is_pandas(data) and hasattr(data, "sparse"):
        return _open_sparse_frame(data)
    if _is_frame(data):
        from tulle.rules.frames import open_frame

        return Source(*open_frame(data), pandas=_is_pandas(data))
    if isinstance(data, Iterable):
        return _open_lists(data)
    raise DataError(f"baskets must be {_KINDS}. Got {type(data).__name__}.")


def _read(path: str | os.PathLike[str]) -> Transactions:
    if not is_table_name(path):
        return read_fimi(path)
    from tulle.rules.frames import open_frame
    from tulle.tables.reading import read_table

    return open_frame(read_table(path))[0]


def is_table_name(path: str | os.PathLike[str]) -> bool:
    """Whether a name says table (or database) rather than FIMI file."""
    from tulle.tables.formats import format_of

    name = str(path)
    if Path(name.removesuffix(".gz")).suffix in (".dat", ".fimi", ".txt", ".basket", ""):
        return "://" in name
    try:
        format_of(name)
    except DataError:
        return False
    return True


def _open_lists(data: Iterable[Any]) -> Source:
    baskets = list(data)
    found = Transactions.from_lists(baskets)

    def restore(released: Transactions) -> Any:
        new, marked = _marked_lists(released), released.unknown is not None
        if not marked and not released.is_part_of(found):
            # at the end of its basket, or out of its order, an added item would be seen
            filled = [_kind(old)(items) for old, items in zip(baskets, new)]
        else:
            filled = [_refilled(old, items) for old, items in zip(baskets, new)]
        return _as_series(filled, data, marked=marked)

    return Source(found, restore)


def _kind(basket: Any) -> Callable[[list[Any]], Any]:
    return type(basket) if isinstance(basket, list | tuple | set | frozenset) else list


def _as_series(baskets: list[Any], like: Any, *, marked: bool) -> Any:
    """A list of baskets as the tuple, array or series that it came from."""
    if isinstance(like, tuple):
        return tuple(baskets)
    if isinstance(like, np.ndarray):
        out = np.empty(len(baskets), dtype=object)
        out[:] = baskets
        return out
    if _is_pandas(like):
        return type(like)(baskets, index=like.index, name=like.name, dtype=object)
    if type(like).__module__.partition(".")[0] == "polars":
        same = not marked and not hasattr(like.dtype, "size")  # arrays are all of one size
        return type(like)(like.name, list(map(list, baskets)), like.dtype if same else None)
    return baskets


def _refilled(old: Any, new: list[Any]) -> Any:
    left = dict.fromkeys(new)
    known = [item for item in dict.fromkeys(old) if item in left]
    marks = [item for item in new if item not in set(known)]
    return _kind(old)([*known, *marks])


def _marked_lists(released: Transactions) -> list[list[Any]]:
    if released.unknown is None:
        return released.to_lists()
    refuse_marks_in_names(released)
    marks = [[f"{item}?" for item in basket] for basket in released.unknown.to_lists()]
    return [sure + open_ for sure, open_ in zip(released.to_lists(), marks)]


def _open_sparse(data: Any) -> Source:
    from scipy import sparse

    rows = data.tocsr().copy()
    rows.sum_duplicates()
    rows.eliminate_zeros()
    _refuse_other_values(rows.data)
    array = isinstance(data, sparse.sparray)
    make, form, dtype = (sparse.csr_array if array else sparse.csr_matrix), data.format, data.dtype

    def restore(released: Transactions) -> Any:
        cells = np.ones(len(released.items), dtype=dtype)
        found = make((cells, released.items, released.indptr), shape=data.shape)
        if released.unknown is not None:
            blanks = np.full(len(released.unknown.items), np.nan)
            found = found.astype(float) + make(
                (blanks, released.unknown.items, released.unknown.indptr), shape=data.shape
            )
        return found.asformat(form)

    names = np.arange(data.shape[1])
    return Source(Transactions.from_rows(rows.indptr, rows.indices, names), restore)


def _open_sparse_frame(data: Any) -> Source:
    """A frame of sparse columns of pandas, without a dense copy of it."""
    try:
        source = _open_sparse(data.sparse.to_coo())
    except ValueError:
        raise DataError("sparse columns must leave out what is 0 or False") from None
    names = np.empty(len(data.columns), dtype=object)
    names[:] = list(data.columns)

    def restore(released: Transactions) -> Any:
        cells, make = source.restore(released), type(data).sparse.from_spmatrix
        if released.unknown is not None:
            return make(cells, data.index, data.columns)
        return make(cells.astype(np.uint8), data.index, data.columns).astype(data.dtypes)

    baskets = Transactions(source.baskets.indptr, source.baskets.items, names)
    return Source(baskets, restore, pandas=True)


def _open_dense(data: Any) -> Source:
    rows, items = np.nonzero(data)
    _refuse_other_values(data[rows, items])
    baskets = Transactions.from_pairs(rows, items, len(data), np.arange(data.shape[1]))

    def restore(released: Transactions) -> Any:
        out = np.zeros_like(data, dtype=data.dtype if released.unknown is None else float)
        out[released.row_of, released.items] = 1
        if released.unknown is not None:
            out[released.unknown.row_of, released.unknown.items] = np.nan
        return out

    return Source(baskets, restore)


def _refuse_other_values(values: Any) -> None:
    odd = int(np.count_nonzero(values != 1))
    if odd:
        raise DataError(f"{odd} cells are neither 0 nor 1: a basket holds an item or does not")


def _is_frame(data: Any) -> bool:
    import narwhals as nw

    return nw.dependencies.is_into_dataframe(data)


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas"
