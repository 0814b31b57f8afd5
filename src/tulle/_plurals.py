"""Counts in sentences: "1 record", "2 records"."""

from __future__ import annotations


def counted(count: int, noun: str, verb: str = "") -> str:
    """Return a count with its noun, and with its verb where one is given, in the right number.

    >>> counted(1, "category"), counted(3, "category"), counted(1200, "class")
    ('1 category', '3 categories', '1,200 classes')
    >>> counted(1, "record", "is"), counted(2, "record", "is"), counted(2, "group", "hold")
    ('1 record is', '2 records are', '2 groups hold')
    >>> counted(1, "group", "hold"), counted(1, "group", "have"), counted(1, "record", "was")
    ('1 group holds', '1 group has', '1 record was')
    """
    words = f"{count:,} {noun if count == 1 else plural(noun)}"
    return f"{words} {_agreeing(verb, count)}" if verb else words


def plural(noun: str) -> str:
    """Return the plural of a regular English noun.

    >>> plural("record"), plural("category"), plural("class"), plural("day")
    ('records', 'categories', 'classes', 'days')
    """
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


_VERBS = {"is": ("is", "are"), "was": ("was", "were"), "have": ("has", "have")}


def _agreeing(verb: str, count: int) -> str:
    one, many = _VERBS.get(verb, (f"{verb}s", verb))
    return one if count == 1 else many
