"""FIMI files: one basket a line, item numbers (or words) between blanks, perhaps gzipped.

Words are taken if the first token of the file is not a number. In files of blocked releases an
item that ends with ``?`` is one of which the file does not say whether the basket holds it.
"""

from __future__ import annotations

import codecs
import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from tulle._files import BoundedGzip
from tulle.errors import DataError
from tulle.transactions.baskets import Rows, Transactions

LARGEST_ITEM = 2**31 - 2
_CHUNK = 1 << 23


class _Parsed(NamedTuple):
    values: npt.NDArray[np.int64]
    ends: Rows


def read_fimi(path: str | os.PathLike[str]) -> Transactions:
    r"""Read all baskets of a FIMI file (``.dat``, ``.dat.gz``; one basket per line).

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    Transactions

    Raises
    ------
    DataError
        For an empty file, empty lines, negative or too large numbers, and words in a file of
        numbers.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from tulle import read_fimi
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "shop.dat"
    >>> _ = path.write_text("1 2 3\n2 3\n")
    >>> read_fimi(path)
    Transactions(2 baskets, 3 items)
    """
    with _open(path) as file:
        data = file.read()
    name = Path(path).name
    if not data.strip():
        raise DataError(f"{name} contains no baskets: the file is empty")
    return _read_marked(data, name) if _has_marks(data) else _read_plain(data, name)


def _read_plain(data: bytes, name: str) -> Transactions:
    if _starts_with_word(data):
        return _read_words(data, name)
    parsed = _parse(data, name)
    return _numbered(parsed.values, np.concatenate(([0], parsed.ends)))


def fimi_blocks(path: str | os.PathLike[str], size: int) -> Iterator[Transactions]:
    """Yield the baskets of a FIMI file of numbers, ``size`` at a time, in bounded memory."""
    name = Path(path).name
    values = np.empty(0, dtype=np.int64)
    lengths = np.empty(0, dtype=np.int64)
    seen = 0
    with _open(path) as file:
        for data in _whole_lines(file):
            if seen == 0 and _starts_with_word(data):
                raise DataError(f"{name} names its items by words: only numbers can be streamed")
            parsed = _parse(data, name)
            values = np.concatenate((values, parsed.values))
            lengths = np.concatenate((lengths, np.diff(parsed.ends, prepend=0)))
            seen += len(parsed.ends)
            while len(lengths) >= size:
                cut = int(lengths[:size].sum())
                yield _numbered(values[:cut], np.concatenate(([0], np.cumsum(lengths[:size]))))
                values, lengths = values[cut:], lengths[size:]
    if seen == 0:
        raise DataError(f"{name} contains no baskets: the file is empty")
    if len(lengths):
        yield _numbered(values, np.concatenate(([0], np.cumsum(lengths))))


def write_fimi(baskets: Transactions, file: BinaryIO) -> None:
    r"""Write baskets as lines of item names, numbers or words.

    Parameters
    ----------
    baskets : Transactions
        The baskets.
    file : binary file
        An open file to write to.

    Examples
    --------
    >>> import io
    >>> from tulle import Transactions, write_fimi
    >>> file = io.BytesIO()
    >>> write_fimi(Transactions.from_lists([[1, 2], [2]]), file)
    >>> file.getvalue()
    b'1 2\n2\n'
    """
    refuse_unwritable_names(baskets)
    if baskets.unknown is not None:
        refuse_marks_in_names(baskets)
        for sure, open_ in zip(baskets.to_lists(), baskets.unknown.to_lists()):
            tokens = [*map(str, sure), *(f"{item}?" for item in open_)]
            file.write((" ".join(tokens) + "\n").encode())
    else:
        names = np.array([str(name) for name in baskets.names.tolist()], dtype=object)
        words, ends = names[baskets.items].tolist(), baskets.indptr.tolist()
        lines = (" ".join(words[start:end]) + "\n" for start, end in pairwise(ends))
        file.write("".join(lines).encode())


def refuse_unwritable_names(baskets: Transactions) -> None:
    """Refuse names with blanks and numbers that are not items: a FIMI line cannot hold them."""
    if baskets.names.dtype.kind in "iu":
        wrong = np.count_nonzero((baskets.names < 0) | (baskets.names > LARGEST_ITEM))
        if wrong:
            raise DataError(
                f"{wrong} item numbers are negative or above {LARGEST_ITEM}: a FIMI file cannot "
                "hold them; write a table (.csv or .parquet) instead"
            )
        return
    texts = [str(name) for name in baskets.names.tolist()]
    numbers = [text.lstrip("0") for text in texts if text.isdecimal()]
    if len(set(numbers)) < len(numbers):
        raise DataError(
            "item names such as 7 and 07 are the same number in a FIMI file: write a table"
        )
    odd = sum(len(text.split()) != 1 for text in texts)
    if odd:
        raise DataError(
            f"{odd} item names are empty or contain blanks: a FIMI file cannot hold them; write a "
            "table (.csv or .parquet) instead"
        )


def refuse_marks_in_names(baskets: Transactions) -> None:
    """Refuse a name that ends with the mark of a blocked cell."""
    odd = sum(str(name).endswith("?") for name in baskets.names.tolist())
    if odd:
        raise DataError(
            f"{odd} item names end with '?', the mark of blocked cells: rename the items"
        )


@contextmanager
def _open(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    name = Path(path).name
    try:
        with open(path, "rb") as file:
            if file.peek(2)[:2] != b"\x1f\x8b":
                yield _after_mark(file)
            else:
                with BoundedGzip(path, file) as unpacked:
                    yield cast(IO[bytes], _after_mark(unpacked))
    except FileNotFoundError:
        raise DataError(f"the file {path} does not exist") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DataError(f"{name} is a damaged or truncated gzip file") from None


def _after_mark(file: Any) -> Any:
    """Return the file after its byte order mark, which would turn its first number into a word."""
    if file.peek(3)[:3] == codecs.BOM_UTF8:
        file.read(3)
    return file


def _whole_lines(file: IO[bytes]) -> Iterator[bytes]:
    rest = b""
    while chunk := file.read(_CHUNK):
        head, newline, tail = chunk.rpartition(b"\n")
        if newline:
            yield rest + head + newline
            rest = tail
        else:
            rest += chunk
    if rest:
        yield rest


def _starts_with_word(data: bytes) -> bool:
    token = data[:4096].split(maxsplit=1)[:1]
    return bool(token) and not token[0].lstrip(b"-").isdigit()


def _numbered(values: npt.NDArray[np.int64], indptr: Rows) -> Transactions:
    top = int(values.max(initial=0))
    if top > 8 * len(values) + 1_000_000:  # a table over all numbers would be out of proportion
        names, codes = np.unique(values, return_inverse=True)
        return Transactions.from_rows(indptr, codes.reshape(-1), names)
    present = np.zeros(top + 1, dtype=bool)
    present[values] = True
    code_of = (np.cumsum(present) - 1).astype(np.int32)
    return Transactions.from_rows(indptr, code_of[values], np.flatnonzero(present))


def _parse(data: bytes, name: str) -> _Parsed:
    from tulle.transactions._kernels import parse_numbers

    view = np.frombuffer(data, dtype=np.uint8)
    values = np.empty(len(view) // 2 + 1, dtype=np.int64)
    ends = np.empty(data.count(b"\n") + 1, dtype=np.int64)
    count, lines, empty, wrong, negative, huge = parse_numbers(view, LARGEST_ITEM, values, ends)
    complaints = (
        (empty, "lines are empty: remove them, a basket holds at least one item"),
        (negative, "item numbers are negative: number the items from 0"),
        (huge, f"item numbers are above {LARGEST_ITEM}: renumber the items"),
        (wrong, "tokens are not item numbers: a FIMI file holds numbers separated by blanks"),
    )
    for number, complaint in complaints:
        if number:
            raise DataError(f"{name}: {number} {complaint}")
    return _Parsed(values[:count].copy(), ends[:lines])


def _read_words(data: bytes, name: str) -> Transactions:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise DataError(f"{name} is neither a file of item numbers nor UTF-8 text") from None
    lines = text.removesuffix("\n").split("\n")
    baskets = [line.split() for line in lines]
    empty = sum(not basket for basket in baskets)
    if empty:
        raise DataError(f"{name}: {empty} lines are empty: remove them")
    return Transactions.from_lists(baskets)


def _has_marks(data: bytes) -> bool:
    """Return whether items that end with ``?`` are blocked cells, rather than names of their own.

    Blocked are numbers, and words that occur without the mark as well.
    """
    if b"?" not in data:
        return False
    tokens = set(data.split())
    marked = {token[:-1] for token in tokens if token.endswith(b"?")}
    known = all(token.isdigit() or (token in tokens and b"?" not in token) for token in marked)
    return bool(marked) and known


def _read_marked(data: bytes, name: str) -> Transactions:
    """Read a blocked release: what is surely in the baskets, and what may be."""
    plain = [
        b" ".join(token.removesuffix(b"?") for token in line.split())
        for line in data.removesuffix(b"\n").split(b"\n")
    ]
    whole = _read_plain(b"\n".join(plain) + b"\n", name)
    code_of = {str(item): code for code, item in enumerate(whole.names.tolist())}
    lines = [line.split() for line in data.decode().removesuffix("\n").split("\n")]
    sure = [[t for t in tokens if not t.endswith("?")] for tokens in lines]
    open_ = [[t[:-1] for t in tokens if t.endswith("?")] for tokens in lines]
    parts = []
    for baskets in (sure, open_):
        ends = np.cumsum([0, *map(len, baskets)])
        codes = [code_of[_written(token)] for basket in baskets for token in basket]
        parts.append(Transactions.from_rows(ends, np.array(codes, dtype=np.int32), whole.names))
    return replace(parts[0], unknown=parts[1])


def _written(token: str) -> str:
    """Return a token as its item is named: numbers have no leading zeros."""
    return str(int(token)) if token.isascii() and token.isdigit() else token
