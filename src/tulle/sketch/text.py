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
from pathlib import Path
from typing import IO, Any

from tulle.errors import DataError, nearest_name

_TERM = re.compile(r"\w\w+")
TEXT_KINDS = (".jsonl", ".ndjson", ".csv", ".txt")


def tokens(document: str) -> list[str]:
    """The terms of a document, in order, repeated ones repeated.

    >>> tokens("The cat's hat: a HAT!")
    ['the', 'cat', 'hat', 'hat']
    """
    return _TERM.findall(document.lower())


def text_kind(path: str | os.PathLike[str]) -> str | None:
    """The kind of text file by its name (``.jsonl``, ``.csv``, ``.txt``), or None."""
    name = Path(path).name.lower().removesuffix(".gz")
    return next((kind for kind in TEXT_KINDS if name.endswith(kind)), None)


def read_documents(path: str | os.PathLike[str], field: str = "text") -> list[str]:
    """The documents of a file: JSON lines or CSV (by field name), or plain text lines."""
    kind = text_kind(path)
    try:
        with _open(path) as file:
            if kind == ".csv":
                documents = _csv_column(file, field, path)
            elif kind in (".jsonl", ".ndjson"):
                documents = _json_field(file, field, path)
            else:
                documents = [line.rstrip("\n") for line in file]
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text: convert it first") from None
    if not documents:
        raise DataError(f"{path} holds no document: the file is empty")
    return documents


def _open(path: str | os.PathLike[str]) -> IO[str]:
    if not Path(path).is_file():
        raise DataError(f"the file {path} does not exist")
    if str(path).lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return open(path, encoding="utf-8", newline="")


def _json_field(file: IO[str], field: str, path: str | os.PathLike[str]) -> list[str]:
    entries: list[Any] = []
    wrong = 0
    for line in file:
        try:
            if line.strip():
                entries.append(json.loads(line))
        except ValueError:
            wrong += 1
    wrong += sum(not isinstance(entry, dict) for entry in entries)
    if wrong:
        raise DataError(f"{path}: {wrong} lines are no JSON objects")
    without = [entry for entry in entries if field not in entry]
    if without:
        hint = nearest_name(field, without[0])
        raise DataError(f"{path}: {len(without)} lines have no field '{field}' (--text): {hint}")
    return _all_text([entry[field] for entry in entries], field, path)


def _csv_column(file: IO[str], field: str, path: str | os.PathLike[str]) -> list[str]:
    import csv

    csv.field_size_limit(2**31 - 1)
    rows = csv.DictReader(file)
    if field not in (rows.fieldnames or ()):
        hint = nearest_name(field, rows.fieldnames or ())
        raise DataError(f"{path} has no column '{field}' (--text): {hint}")
    return _all_text([row[field] for row in rows], field, path)


def _all_text(values: list[Any], field: str, path: str | os.PathLike[str]) -> list[str]:
    """Missing values are empty documents; anything but text is refused."""
    other = sum(not isinstance(value, str) and value is not None for value in values)
    if other:
        raise DataError(f"{path}: the field '{field}' is no text in {other} records")
    return [value or "" for value in values]
