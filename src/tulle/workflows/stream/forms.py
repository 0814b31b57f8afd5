"""What a usual line looks like, as a regular expression.

Lines of this form are parsed together by polars, which is fast; all others are parsed one by one,
which finds out what is wrong with them. A form may match fewer lines than the slow way reads, but
none that it would refuse or read differently.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import polars as pl

from tulle.workflows.stream.fields import FieldType

_BLANK = r"[ \t]*"
# up to 15 digits are exact; exponents of two digits are far from the largest number
_INTEGER = r"-?(?:0|[1-9][0-9]{0,14})"
_DECIMAL = _INTEGER + r"(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,2})?"
# escapes but those of surrogates, which come in pairs
_ESCAPE = r'\\(?:["\\/bfnrt]|u(?:[0-9a-cA-CefEF][0-9a-fA-F]|[dD][0-7])[0-9a-fA-F]{2})'
_TEXT = rf'"(?:[^"\\\x00-\x1f]|{_ESCAPE})*"'
_VALUES = {"integer": _INTEGER, "decimal": _DECIMAL, "boolean": "true|false"}


def csv_form(separator: str, width: int) -> str:
    """So many fields; quotes are around whole fields or nowhere."""
    mark = rf"\x{{{ord(separator):x}}}"
    # polars takes a byte order mark away, and an empty text in quotes for a text
    bare, quoted = rf'[^"{mark}\r\n\x{{feff}}]*', r'"(?:[^"\r\n]|"")+"'
    field = f"(?:{bare}|{quoted})"
    return f"^{field}(?:{mark}{field}){{{width - 1}}}$"


def json_form(types: Mapping[str, FieldType]) -> str:
    """An object with the known keys in the known order, each at most once, and fitting values.

    Commas are left to the parser: it refuses what is no JSON.
    """
    members = []
    for name, kind in types.items():
        keys = {json.dumps(name)[1:], json.dumps(name, ensure_ascii=False)[1:]}
        key = "|".join(map(pl.escape_regex, sorted(keys)))
        value = _VALUES.get(kind.name, _TEXT)
        members.append(rf'(?:(?:{key}){_BLANK}:{_BLANK}(?:{value}|null){_BLANK}(?:,{_BLANK}")?)?')
    return rf'^{_BLANK}\{{{_BLANK}"{"".join(members)}\}}{_BLANK}$'
