"""The evidence about a column: what its name speaks of and what its values look like.

Each piece is computed once, when a row of the table in ``columns`` first asks for it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from tulle.guessing._person import PersonColumn
from tulle.guessing._whole_numbers import ENOUGH, UNIQUE, VISITS, WholeNumbers
from tulle.table._look import FEW, Look
from tulle.table._words import places_on_scale, vocabulary, words_of
from tulle.table.schema import Kind, Role

_ENOUGH_TEXTS = 5  # texts, which would be released as they are, are judged sooner than numbers
_PROSE = 40  # characters on average: longer than any label of a category in the corpus
_RARE = 0.5  # share of rows that merging would put into the rest: what is left says little
_SAMPLE = 2000  # texts read for their form and length: shares within two points

_QUANTITIES = {"count", "age", "measure", "money", "lab", "body", "date", "birth", "coordinate"}
# lengths of more general codes: diagnoses (ICD-10, ICD-9), drugs (ATC), trades (NACE, ISIC)
_HIERARCHIES = (
    ((3, 1), r"^[A-Z][0-9][0-9A-Z](?:\.?[0-9A-Z]{1,4})?$"),
    ((5, 4, 3, 1), r"^[A-Z][0-9]{2}[A-Z]{2}[0-9]{2}$"),
    ((3,), r"^[0-9]{3}\.[0-9]{1,2}$"),
    ((2,), r"^[0-9]{2}\.[0-9]{1,2}(?:\.[0-9]{1,2})?$"),
)
# names of survey weights; the weight of a body or a sample of soil is called so as well
_SURVEY_WEIGHT = re.compile(
    r"(?:sampling|sample|samp|survey|design|poststrat\w*|psp|analysis|an|final|fnl|fin|household|hh"
    r"|per|asec|calibrated|cal|d|p)(?:weights?|wght|wgt|wt)"
    r"|(?:expansion|weighting)factor|(?:hochrechnungs|gewichtungs)faktor|factorexpansion"
    r"|wt(?:mec|int)yr|[ph]hrf|ponderation|ponderacion"
)
_OF = {"of", "de", "di", "von", "van", "per", "pro"}  # "number of children" does not number a child
_MATCHING = 0.8  # share of values with the form; the rest are slips and notes
_FIRST = 50  # values that are asked first: most columns have no form at all
_NUMBERS = 5  # different numbers, so that check digits are not right by chance
_SEPARATORS = re.compile(r"[ .\-/]")


class Nature(StrEnum):
    """What whole numbers are, judged by the numbers alone."""

    GIVEN = "given"  # numbered through: repeats are missing that would have to be there
    MEASURED = "measured"  # or counted
    UNCLEAR = "unclear"  # tell people apart, and nothing speaks for a measurement
    ANSWERS = "answers"  # few values in an order
    CODES = "codes"


@dataclass(frozen=True)
class ColumnEvidence:
    """What the rows of the table ask about a column."""

    look: Look
    person: PersonColumn | None = None  # if the column is the one that names people
    own: ColumnEvidence | None = None  # of one row of each person, for what does not change
    nature: Nature | None = None  # of whole numbers, once it is judged, with its sentence
    why: str = ""
    kind: Kind = Kind.TEXT  # once it is judged, with its sentence
    why_kind: str = ""

    @cached_property
    def topics(self) -> set[str]:
        return set(self.look.topics)

    @cached_property
    def words(self) -> list[str]:
        return words_of(self.look.name)

    @cached_property
    def quantity(self) -> set[str]:
        return self.topics & _QUANTITIES

    @cached_property
    def whole(self) -> WholeNumbers | None:
        """The whole numbers of the column without codes; None if it holds anything else."""
        if not self.look.whole or self.look.boolean:
            return None
        return WholeNumbers.of(self.look.quantity().cast(pl.Int64).to_numpy())

    @property
    def apart(self) -> ColumnEvidence:
        """The evidence about what tells people apart: of one row each, if that differs."""
        return self.own or self

    @property
    def text(self) -> bool:
        return self.look.numbers is None

    @property
    def few(self) -> bool:
        return self.look.distinct <= FEW

    @property
    def unique(self) -> bool:
        return self.look.present >= 2 and self.look.distinct >= UNIQUE * self.look.present

    @property
    def surely_unique(self) -> bool:
        return self.unique and self.look.present >= (_ENOUGH_TEXTS if self.text else ENOUGH)

    @property
    def many(self) -> bool:
        return not self.few or (self.text and self.unique)

    def rows_each(self, least: int) -> bool:
        return self.look.distinct * least <= self.look.present

    @property
    def few_each(self) -> bool:
        """Whether many values have as few rows as people have."""
        return not self.few and not self.rows_each(VISITS + 1)

    # -- the name and the values together

    @property
    def constant(self) -> bool:
        look = self.look
        return look.distinct == 1 < look.records and not (look.absent or look.unread or look.codes)

    @property
    def level(self) -> bool:
        """Whether small positive numbers are named like a privacy level."""
        look, parts = self.look, set(self.words)
        named = parts == {"level"} or parts >= {"privacy", "level"}
        if not named or look.numbers is None or not look.whole or look.absent:
            return False
        most = 100  # levels are sizes of groups: a handful of choices
        small = look.numbers.is_between(1, max(1, look.records)).all()
        return bool(small) and look.distinct <= most

    @property
    def weight(self) -> bool:
        """Whether numbers of which none is below 0 are named like survey weights."""
        look = self.look
        if look.numbers is None or look.absent or look.unread or look.codes:
            return False
        plain = re.sub(r"[\W\d_]", "", unicodedata.normalize("NFKD", look.name.lower()))
        return bool(_SURVEY_WEIGHT.fullmatch(plain)) and bool((look.numbers >= 0).all())

    @cached_property
    def form(self) -> str:
        """What nearly all values have the form of, if people can be known by it."""
        return form_of(self.look, self._sample)

    @property
    def nameable(self) -> bool:
        """Whether values can be names or numbers of people at all."""
        look = self.look
        return look.times is None and not look.boolean and (self.text or look.whole)

    @property
    def names_people(self) -> bool:
        """Whether the column is called a name, of people or of nothing else."""
        called = "personal_name" in self.topics or {"name", "person"} <= self.topics
        alone = "name" in self.topics and not self.topics & {"place", "code", "work"}
        named = called or (alone and (self.many or self.words == ["name"]))
        return self.nameable and named and (self.text or (called and self.many))

    @property
    def reaches(self) -> str:
        """What the name says of values by which people are reached or registered."""
        if not self.nameable or not self.many or self.topics & {"measure", "count"}:
            return ""
        topic = next((t for t in ("contact", "official_number") if t in self.topics), None)
        return "" if topic is None else vocabulary().topics[topic].says

    @property
    def numbered(self) -> bool:
        """Whether the column is named like a number of something, not a number of ..."""
        counted = "count" in self.topics and bool(_OF & set(self.words))
        return self.nameable and "number" in self.topics and not counted

    @property
    def of_people(self) -> bool:
        only = self.topics <= {"person", "record", "household", "name"}
        return self.nameable and bool(self.topics) and only

    @cached_property
    def free_text(self) -> bool:
        """Whether texts are remarks: long, or named so and of several words."""
        if self._sample is None or not self.text or self.look.times is not None:
            return False
        length = float(self._sample.str.len_chars().mean() or 0)  # type: ignore[arg-type]
        spaces = float(self._sample.str.contains(r"\S\s+\S+\s+\S").mean() or 0)  # type: ignore[arg-type]
        named = "free_text" in self.topics and (spaces >= 0.1 or length >= _PROSE / 2)
        return named or (length >= _PROSE and (not self.few or self.surely_unique))

    @cached_property
    def _sample(self) -> pl.Series | None:
        return None if self.look.texts is None else self.look.texts.drop_nulls().head(_SAMPLE)

    @property
    def mostly_rare(self) -> bool:
        """Whether merging would put most rows of a category into the rest."""
        rare: float = self.look.rare_rows
        if self.hierarchy and self._sample is not None and not self.few:
            common = self._sample.str.head(self.hierarchy[-1]).alias("v").value_counts(name="n")
            shown = int(common.filter(pl.col("n") >= self.look.k)["n"].sum())
            rare = self.look.present * (1 - shown / len(self._sample))
        return not self.few and rare >= _RARE * self.look.present

    @cached_property
    def hierarchy(self) -> tuple[int, ...]:
        """The lengths of more general codes, if texts are codes of a known system."""
        if self._sample is None or not self.text or self.look.distinct < 3:
            return ()
        shares = (
            (lengths, self._sample.str.contains(pattern).mean() or 0)
            for lengths, pattern in _HIERARCHIES
        )
        return next((lengths for lengths, share in shares if share >= UNIQUE), ())  # type: ignore[operator]

    @cached_property
    def scale(self) -> bool:
        """Whether texts are steps of a scale that people know, or words for no value."""
        steps = [value for value in self._different if value not in self.off_scale]
        letters = all(len(step) == 1 for step in steps)
        named = bool(self.topics & {"performance", "order", "count", "measure"})  # grade, size
        places = places_on_scale(steps) if len(steps) >= 3 and (named or not letters) else None
        return places is not None and len(set(places)) == len(places)

    @cached_property
    def off_scale(self) -> tuple[str, ...]:
        """The words for no value, unless the scale holds them: none, low, high."""
        if not self._different or places_on_scale(self._different) is not None:
            return ()
        return tuple(value for value in self._different if value.lower() in vocabulary().missing)

    @cached_property
    def _different(self) -> list[str]:
        texts = self.look.texts if self.text and self.few else None
        return [] if texts is None else texts.drop_nulls().unique().sort().to_list()

    @property
    def stem(self) -> str:
        """The name without the number of a question."""
        return re.sub(r"[\W_]*[0-9]+[a-z]?$", "", self.look.name)

    @property
    def battery(self) -> tuple[str, int, int] | None:
        """What the questions of one battery share: the stem of the name, and the ends."""
        whole = self.whole
        if whole is None or not (whole.enough and whole.few and whole.in_a_row) or self._named:
            return None
        if whole.ends[1] == 10 and whole.size >= 10:
            return ("0-10", *whole.ends)
        asked = whole.size >= 4 and self.stem not in ("", self.look.name)
        return (self.stem, *whole.ends) if asked else None

    @property
    def _named(self) -> bool:
        """Whether the name says that numbers are a quantity or codes."""
        return bool(self.quantity or self.topics & {"sex", "origin", "place", "code", "postcode"})

    @property
    def answers_from_one(self) -> bool:
        return self.nature is Nature.ANSWERS and self.whole is not None and self.whole.ends[0] == 1

    @property
    def given(self) -> bool:
        """Whether whole numbers that are not codes were given to people or records."""
        numbered = self.kind is not Kind.CATEGORY and self.apart.nature is Nature.GIVEN
        return numbered and not self.timed

    @property
    def unclear(self) -> bool:
        """Whether numbers may have been given, and neither name nor order deny it."""
        unclear = self.kind is not Kind.CATEGORY and self.apart.nature is Nature.UNCLEAR
        return unclear and not self.quantity and not self.timed and not self.apart.series

    @property
    def timed(self) -> bool:
        """Whether whole numbers are years, or time stamps in a column named so."""
        if self.whole is None or not self.topics & {"date", "birth"}:
            return False
        first, last = self.whole.ends
        return (first >= 1500 and last <= 2100) or first >= 10**8

    @property
    def series(self) -> bool:
        """Whether numbers go up and down in small steps from row to row: a time series."""
        if self.whole is None or self.whole.numbered_from_one:  # people, sorted
            return False
        values = self.look.quantity().cast(pl.Float64).to_numpy()
        steps = np.diff(values)
        turns = float((np.sign(steps[1:]) != np.sign(steps[:-1])).mean())
        # a list in an order never turns, numbers in no order make steps as wide as their spread
        return turns > 0.1 and float(np.std(steps)) < 0.5 * (float(np.std(values)) or 1.0)

    @cached_property
    def secret(self) -> str:
        return self._hint(Role.SENSITIVE)

    @cached_property
    def public(self) -> str:
        return self._hint(Role.QUASI)

    def _hint(self, role: Role) -> str:
        """Return what the name says that hints at a role, with the word; empty if it does not."""
        worded = self.text and self.look.times is None and self.few
        no_date = worded or bool(
            self.topics & {"measure", "age"}
        )  # "full time: yes", hours of work
        for topic, word in self.look.topics.items():
            entry = vocabulary().topics[topic]
            if entry.role == role and not (topic == "date" and no_date):
                return f"{entry.says} ('{word}')"
        return ""


# Values by which people are known: addresses, and numbers with check digits. A check digit is right
# by chance once in ten or more, so that a column in which four of five are right holds such
# numbers, whatever its name says.
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
