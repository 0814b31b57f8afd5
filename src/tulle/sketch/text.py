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
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from tulle.errors import DataError, nearest_name

_TERM = re.compile(r"\w\w+")
_LINES, _JSON = (".txt",), (".jsonl", ".ndjson")
_TABLES = (".csv", ".tsv", ".parquet", ".pq", ".arrow", ".feather", ".ipc", ".xlsx")

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


def read_documents(path: FilePath, field: str = "text") -> list[str]:
    """The documents of a file: the lines of ``.txt``, or a field of JSON lines or of a table."""
    if not Path(path).is_file():
        raise DataError(f"the file {path} does not exist")
    if _ends(path, _TABLES):
        from tulle.tables.reading import read_table

        return _all_text(read_table(path, [field])[field].to_list(), field, path)
    try:
        with _open(path) as file:
            lines = [line.rstrip("\n") for line in file]
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text: convert it first") from None
    if not lines:
        raise DataError(f"{path} holds no document: the file is empty")
    return _json_field(lines, field, path) if _ends(path, _JSON) else lines


def _ends(path: FilePath, kinds: tuple[str, ...]) -> bool:
    return Path(path).name.lower().removesuffix(".gz").endswith(kinds)


def _open(path: FilePath) -> IO[str]:
    if str(path).lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8", newline="\n")
    return open(path, encoding="utf-8", newline="\n")


def _json_field(lines: list[str], field: str, path: FilePath) -> list[str]:
    # not read as a table: other fields of a document may be lists or objects
    entries: list[Any] = []
    for line in lines:
        with suppress(ValueError):
            entries += [json.loads(line)] if line.strip() else []
    wrong = sum(bool(line.strip()) for line in lines) - len(entries)
    wrong += sum(not isinstance(entry, dict) for entry in entries)
    if wrong:
        raise DataError(f"{path}: {wrong} lines are no JSON objects")
    without = [entry for entry in entries if field not in entry]
    if without:
        hint = nearest_name(field, without[0])
        raise DataError(f"{path}: {len(without)} lines have no field '{field}' (--text): {hint}")
    return _all_text([entry[field] for entry in entries], field, path)


def _all_text(values: list[Any], field: str, path: FilePath) -> list[str]:
    """Missing values are empty documents; anything but text is refused."""
    other = sum(not isinstance(value, str) and value is not None for value in values)
    if other:
        raise DataError(f"{path}: the field '{field}' is no text in {other} records")
    return [value or "" for value in values]
