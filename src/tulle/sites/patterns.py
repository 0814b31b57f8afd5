"""How aliases and codes of an agreement look inside a text: what finds them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tulle.sites.aliases import TOKEN
from tulle.sites.columns import Aliased, Coded, Joint

NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf)"
# Weka writes age='(2.0-3.5]'
INTERVAL = rf"(?P<left>[\[(])\s*(?P<start>{NUMBER})\s*[,;-]\s*(?P<end>{NUMBER})\s*(?P<right>[\])])"
_OPERATOR = r"<=|>=|==|!=|&le;|≤|≥|<|>|=|:"


def alias_pattern(columns: Iterable[Coded]) -> re.Pattern[str] | None:
    """Finds aliases: of any value, known or not."""
    keyed, listed = [], []
    for column in columns:
        if isinstance(column, Joint) or (isinstance(column, Aliased) and column.keyed):
            keyed.append(column.name)
        elif isinstance(column, Aliased):
            listed.append(column.name)
    ways = [
        f"(?:{_any_of(names)})_{token}"
        for names, token in ((keyed, TOKEN), (listed, r"\d+"))
        if names
    ]
    # no part of a longer word: covid_19 is no alias of a column id, and in the name of an indicator
    # (relationship_relationship_...) the alias is what comes last
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(ways)})(?!\w)") if ways else None


def code_pattern(names: list[str]) -> re.Pattern[str] | None:
    """Finds graded columns together with what they are compared with."""
    if not names:
        return None
    return re.compile(
        rf"(?:(?P<below>{NUMBER})\s*(?P<under><=|>=|<|>)\s*)?"
        rf"(?<![\w.-])(?P<name>{_any_of(names)})"
        rf"(?:(?P<before>\s*)(?P<operator>{_OPERATOR})(?P<after>\s*)(?P<number>{NUMBER})(?![\w])"
        rf"|(?P<gap>\s*(?:=|_|:|in\b|∈)?\s*[\\'\"]*){INTERVAL}|(?=\W|$))"
    )


def is_named_before(match: re.Match[str], column: str) -> bool:
    """Whether the text before an alias names its column: ``sex=``, ``"sex": ``, ``sex_``."""
    before = match.string[max(0, match.start() - len(column) - 8) : match.start()]
    return before.rstrip("=_: '\"").endswith(column)


def _any_of(names: list[str]) -> str:
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
