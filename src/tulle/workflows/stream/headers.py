"""The header of CSV: names and separator, or why the first line is none."""

from __future__ import annotations

from tulle.errors import DataError
from tulle.workflows.stream.quotes import quoted_fields

_SEPARATORS = ",;\t|"


def read_header(header: bytes) -> tuple[list[str], str]:
    """The names of the columns, and what separates them."""
    text = _as_text(header)
    unquoted = "".join(text.split('"')[::2])
    separator = max(_SEPARATORS, key=unquoted.count)
    names = quoted_fields(text, separator) or []
    if len(set(names)) < len(names) or not all(map(str.strip, names)):
        raise DataError("the header has an empty or doubled column name: rename it")
    if not names:
        raise DataError("the quotes of the header do not match")
    if all(map(_is_number, names)):  # some may be names (years): judged once the types are known
        raise DataError(
            "the header has nothing but numbers, which looks like a record: put the names of the "
            "columns before it"
        )
    return names, separator


def _as_text(header: bytes) -> str:
    try:
        text = header.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise DataError("the header is no text in UTF-8: unpack it first, or save it as UTF-8")
    if text.lstrip().startswith(("{", "[")):
        raise DataError("the header is JSON, and would be taken for names: say --format ndjson")
    if "\r" in text:
        raise DataError("the lines end with a lone CR: save the file with LF line ends")
    return text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
