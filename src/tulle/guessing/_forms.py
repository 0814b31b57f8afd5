"""Values by which people are known, found by their form: addresses, and numbers with check digits.

A check digit is right by chance once in ten or more, so that a column in which four of five are
right holds such numbers, whatever its name says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import polars as pl

from tulle.table._look import FEW, Look
from tulle.table._words import vocabulary

_MATCHING = 0.8  # share of values with the form; the rest are slips and notes
_FIRST = 50  # values that are asked first: most columns have no form at all
_NUMBERS = 5  # different numbers, so that check digits are not right by chance
_SEPARATORS = re.compile(r"[ .\-/]")


class _ValueForm(NamedTuple):
    says: str
    pattern: re.Pattern[str]
    check: Callable[[str], bool] | None = None  # of the letters and digits without separators
    repeats: bool = True  # False: only where most values differ, or the form says too little


def form_of(look: Look, sample: pl.Series | None) -> str:
    """Return what nearly all values of a column have the form of; empty for none."""
    if look.times is not None:
        return ""
    forms: Sequence[_ValueForm] = _FORMS
    if sample is None:
        if not look.whole or look.numbers is None:
            return ""
        sample = look.numbers.drop_nulls().head(2000).cast(pl.Int64).cast(pl.String)
        forms = _NUMBERED
    several = 2 * look.distinct >= look.present
    texts = sample.to_list()
    if look.distinct > FEW:
        forms = [*forms, *_names()]
    for form in forms:
        if form.check is not None and form.check is not _iban and look.distinct < _NUMBERS:
            continue
        if (several or form.repeats) and all(
            _share(form, some) >= _MATCHING for some in (texts[:_FIRST], texts)
        ):
            return form.says
    return ""


def _share(form: _ValueForm, texts: list[str]) -> float:
    return sum(_has(form, text) for text in texts) / max(len(texts), 1)


def _has(form: _ValueForm, text: str) -> bool:
    if form.check is None:
        return form.pattern.search(text) is not None
    bare = _SEPARATORS.sub("", text).upper()
    return form.pattern.fullmatch(bare) is not None and form.check(bare)


@cache
def _names() -> tuple[_ValueForm, ...]:
    """Return the forms of names with a title, and of companies."""
    titles = "|".join(re.escape(title) for title in vocabulary().titles)
    companies = "|".join(re.escape(end) for end in vocabulary().companies)
    return (
        _ValueForm("names of people", re.compile(rf"^(?:{titles})\.?\s+\S", re.I)),
        _ValueForm("names of companies", re.compile(rf"\s(?:{companies})\.?$", re.I)),
    )


# -- check digits ---------------------------------------------------------------------------------


def _weighted(digits: str, weights: Sequence[int]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=False))


def _iban(text: str) -> bool:
    """Return whether an account number is 1 modulo 97, letters taken as 10 to 35."""
    return int("".join(str(int(letter, 36)) for letter in text[4:] + text[:4])) % 97 == 1


def _card(text: str) -> bool:
    """Return whether the digits pass Luhn's test: every second one from the end is doubled."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in text[-2::-2])
    return (sum(map(int, text[-1::-2])) + sum(doubled)) % 10 == 0


def _bsn(text: str) -> bool:
    return _weighted(text.zfill(9), (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0


def _nhs(text: str) -> bool:
    return _weighted(text, range(10, 0, -1)) % 11 == 0


def _dni(text: str) -> bool:
    number = int(text[:-1].replace("X", "0").replace("Y", "1").replace("Z", "2"))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[number % 23] == text[-1]


def _nir(text: str) -> bool:
    number = int(text[:13].replace("2A", "19").replace("2B", "18"))
    return 97 - number % 97 == int(text[13:])


def _tax_id(text: str) -> bool:
    """Return whether the last digit follows from the others (ISO 7064, modulo 11 and 10)."""
    product = 10
    for digit in text[:-1]:
        product = 2 * ((int(digit) + product) % 10 or 10) % 11
    return (11 - product) % 10 == int(text[-1])


def _cpf(text: str) -> bool:
    text = text.zfill(11)
    checks = (10 * _weighted(text, range(n, 1, -1)) % 11 % 10 for n in (10, 11))
    return [*checks] == [int(text[9]), int(text[10])] and len(set(text)) > 1


# -- the forms ------------------------------------------------------------------------------------

_STREETS = (
    r"^\d{1,5}[a-z]?,?\s+\S.*\b(?:street|st|avenue|ave|road|rd|lane|ln|drive|dr|court|ct|boulevard|"
    r"blvd|way|square|terrace|crescent|highway)\b|"
    r"(?:straße|strasse|str\.|weg|platz|allee|gasse|damm|ufer|straat|laan|plein|gracht)\s*\d+\b|"
    r"^(?=.*\d)(?:\d+[a-z]?,?\s+)?(?:rue|avenue|boulevard|chemin|impasse|via|viale|piazza|corso|"
    r"calle|avenida|avda|plaza|paseo|rua|travessa)\b\.?\s+\w"
)
_PHONE = r"^(?:\+|00|\(0?|0)[0-9][0-9 ()/.-]{6,}$|^[0-9]{3}[-. ][0-9]{3}[-. ][0-9]{4}$"
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})"
_UUID = r"^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$"
_NATIONAL = "national identifiers ({})"


def _form(says: str, pattern: str, check: Callable[[str], bool] | None = None) -> _ValueForm:
    return _ValueForm(says, re.compile(pattern, re.I), check)


_NUMBERED = (
    _form("payment card numbers", r"[2-6][0-9]{12,18}", _card),
    _form(_NATIONAL.format("Dutch BSN"), r"[0-9]{8,9}", _bsn),
    _form(_NATIONAL.format("British NHS number"), r"[0-9]{10}", _nhs),
    _form(_NATIONAL.format("German tax number"), r"[1-9][0-9]{10}", _tax_id),
    _form(_NATIONAL.format("Brazilian CPF"), r"[0-9]{9,11}", _cpf),
    _form(_NATIONAL.format("French NIR"), r"[1-478][0-9]{4}(?:[0-9]{2}|2[AB])[0-9]{8}", _nir),
)
_FORMS = (
    _form("e-mail addresses", r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$"),
    _form("web addresses", r"^(?:https?://|www\.)\S"),
    _form("identifiers (UUID)", _UUID),
    _form(
        "network addresses",
        rf"^{_BYTE}(?:\.{_BYTE}){{3}}$|^(?:[0-9a-f]{{0,4}}:){{3,7}}[0-9a-f]{{0,4}}$",
    ),
    _form("account numbers (IBAN)", r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}", _iban),
    _form("social security numbers", r"^(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}$"),
    _form(_NATIONAL.format("Spanish DNI or NIE"), r"[0-9XYZ][0-9]{7}[A-Z]", _dni),
    *_NUMBERED,
    _ValueForm("telephone numbers", re.compile(_PHONE), repeats=False),
    _form("postal addresses", _STREETS),
)
