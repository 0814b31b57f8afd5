"""The plain tokeniser, and files of text.

A document is lower-cased, and its terms are the runs of two or more letters, digits and
underscores: the regular expression ``\\w\\w+``, all Unicode letters. There are no stop words,
no stemming and no weighting: a term counts as often as it occurs. Anything finer belongs into a
vectoriser of scikit-learn, whose output :class:`tulle.Sketcher` takes as well.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from tulle.errors import DataError, nearest_name

_TERM = re.compile(r"\w\w+")
_LINES, _JSON = (".txt",), (".jsonl", ".ndjson")
_TABLES = (".csv", ".tsv", ".parquet", ".pq", ".arrow", ".feather", ".ipc", ".xlsx")
_BASKETS = (".dat", ".fimi", ".basket", ".baskets")
_TABLE_ROWS = 10_000  # of a table held at once

FilePath = str | os.PathLike[str]


def tokens(document: str) -> list[str]:
    """The terms of a document, in order, repeated ones repeated.

    >>> tokens("The cat's hat: a HAT!")
    ['the', 'cat', 'hat', 'hat']
    """
    return _TERM.findall(document.lower())


def is_text_file(path: FilePath) -> bool:
    """Whether the name says that a file holds documents; baskets are all others."""
    return _ends(path, _LINES + _JSON + _TABLES)


def is_basket_file(path: FilePath) -> bool:
    """Whether the name says that a file holds baskets, or says nothing."""
    return _ends(path, _BASKETS) or not Path(path).suffix


def documents(path: FilePath, field: str = "text") -> Iterator[str]:
    """The documents of a file, one after the other, in bounded memory.

    They are the lines of ``.txt``, or a field of JSON lines or of a table. A missing value is an
    empty document; what is no text is counted to the end of the file, and refused.
    """
    if not Path(path).is_file():
        raise DataError(f"the file {path} does not exist")
    if _ends(path, _TABLES):
        found = _of_table(path, field)
    elif _ends(path, _JSON):
        found = _of_json(_lines(path), field, path)
    else:
        found = _lines(path)
    empty = True
    for document in found:
        empty = False
        yield document
    if empty:
        raise DataError(f"{path} holds no document: the file is empty")


def _ends(path: FilePath, kinds: tuple[str, ...]) -> bool:
    return Path(path).name.lower().removesuffix(".gz").endswith(kinds)


def _lines(path: FilePath) -> Iterator[str]:
    try:
        with _open(path) as file:
            for line in file:
                yield line.rstrip("\n")
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text: convert it first") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DataError(f"{path} is a damaged or cut gzip file") from None


def _open(path: FilePath) -> IO[str]:
    if str(path).lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="\n")
    return open(path, encoding="utf-8-sig", newline="\n")


def _of_json(lines: Iterable[str], field: str, path: FilePath) -> Iterator[str]:
    # not read as a table: other fields of a document may be lists or objects
    wrong = without = other = 0
    shared: list[str] | None = None
    for line in lines:
        if not line.strip():
            continue
        entry = _parsed(line)
        if not isinstance(entry, dict):
            wrong += 1
        elif field not in entry:
            without += 1
            shared = [name for name in (entry if shared is None else shared) if name in entry]
        elif not isinstance(entry[field], str | None):
            other += 1
        elif not wrong + without + other:
            yield entry[field] or ""
    if wrong:
        raise DataError(f"{path}: {wrong} lines are no JSON objects")
    if without:
        # a name that only some lines have may be a word of somebody's text
        hint = nearest_name(field, shared) if shared else "they have no field in common"
        raise DataError(f"{path}: {without} lines have no field '{field}' (--text): {hint}")
    if other:
        raise DataError(f"{path}: the field '{field}' is no text in {other} records")


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _of_table(path: FilePath, field: str) -> Iterator[str]:
    import polars as pl

    from tulle.tables.reading import read_batches

    for frame in read_batches(path, _TABLE_ROWS, [field]):
        dtype = frame.schema[field]
        if dtype not in (pl.String, pl.Categorical, pl.Enum, pl.Null):
            raise DataError(f"{path}: the column '{field}' (--text) is no text but {dtype}")
        for value in frame[field].cast(pl.String).to_list():
            yield value or ""
