"""The words of column names, and the topics that they speak of.

The words themselves are data (``words.toml``); here they are only looked up.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

_LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pt")
_NO_PLURAL = ("ss", "is", "us", "species", "series", "diabetes")
_LISTS = ("missing", "currencies", "units", "not_ids", "titles", "companies")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})


@dataclass(frozen=True)
class Topic:
    """Words with one meaning."""

    says: str
    role: str | None
    kind: str | None
    words: frozenset[str]
    pairs: frozenset[frozenset[str]]  # words that have to come together
    starts: tuple[str, ...]
    endings: tuple[str, ...]


@dataclass(frozen=True)
class Vocabulary:
    """Everything that ``words.toml`` holds."""

    topics: Mapping[str, Topic]
    missing: frozenset[str]  # texts that stand for no value, in small letters
    currencies: tuple[str, ...]
    units: tuple[str, ...]
    not_ids: frozenset[str]
    titles: tuple[str, ...]
    companies: tuple[str, ...]
    scales: tuple[Mapping[str, float], ...]  # the place of each word of a scale


def words_of(name: str) -> list[str]:
    """Split a column name into words: small letters, singular, without accents.

    >>> words_of("nativeCountry_codes-2")
    ['native', 'country', 'code', '2', 'nativecountry']
    >>> words_of("PLZ_Wohnort"), words_of("RAC1P"), words_of("Straße")
    (['plz', 'wohnort'], ['rac', '1', 'p', 'rac1p'], ['strasse'])
    """
    spaced = re.sub(r"(?<=[a-zà-ÿ0-9])(?=[A-ZÀ-Þ])|(?<=[A-ZÀ-Þ])(?=[A-ZÀ-Þ][a-zà-ÿ])", " ", name)
    parts = [part for part in re.split(r"[\W_]+", spaced) if part]
    whole = re.split(r"[\W_]+", name)
    joined = {_singular(folded(part)) for part in whole if part}
    split = [piece for part in parts for piece in re.findall(r"[^\W\d]+|\d+", part)]
    words = [_singular(folded(piece)) for piece in split]
    return words + sorted(joined - set(words))  # "icd10" and "HbA1c" are words, too


def folded(text: str) -> str:
    """Write a word in small letters without accents.

    >>> folded("Größe"), folded("Prénom")
    ('grosse', 'prenom')
    """
    plain = unicodedata.normalize("NFKD", text.lower().replace("ß", "ss"))
    return "".join(letter for letter in plain if not unicodedata.combining(letter))


def topics_of(name: str) -> dict[str, str]:
    """Find the topics of a column name, each with the word that speaks of it.

    >>> topics_of("Patientennummer")
    {'person': 'patientennummer', 'number': 'patientennummer'}
    >>> sorted(topics_of("UTILITYID")), sorted(topics_of("paid")), sorted(topics_of("PLZ"))
    (['number'], [], ['postcode'])
    """
    words = words_of(name)
    return {
        key: found for key, topic in vocabulary().topics.items() if (found := _match(topic, words))
    } | _identifier_ending(words)


_AXES = (
    {"lat", "latitude", "latitud", "latitudine", "breitengrad", "breedtegraad"},
    {"lon", "lng", "long", "longitude", "longitud", "longitudine", "langengrad", "lengtegraad"},
)


def coordinate_pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the pairs of names that say latitude and longitude, and agree in all other words.

    >>> coordinate_pairs(["id", "pickup_lat", "pickup_lon", "latitude", "dropoff_lon"])
    [('pickup_lat', 'pickup_lon')]
    """
    found: dict[tuple[int, frozenset[str]], str] = {}
    for name in names:
        parts = [folded(part) for part in re.findall(r"[^\W_]+", name)]
        for axis, words in enumerate(_AXES):
            rest = [part for part in parts if part not in words]
            if len(rest) == len(parts) - 1:
                found.setdefault((axis, frozenset(rest)), name)
    return [(name, found[1, rest]) for (axis, rest), name in found.items()
            if axis == 0 and (1, rest) in found]  # fmt: skip


@cache
def vocabulary() -> Vocabulary:
    with (Path(__file__).parent / "words.toml").open("rb") as file:
        entries = tomllib.load(file)
    lists = {name: entries.pop(name).split() for name in _LISTS}
    scales = [line.split() for line in entries.pop("scales").strip().splitlines()]
    topics = {name: _topic(entry) for name, entry in entries.items()}
    return Vocabulary(
        MappingProxyType(topics),
        frozenset(word.replace("_", " ").lower() for word in lists["missing"]) | {""},
        tuple(lists["currencies"]),
        tuple(lists["units"]),
        frozenset(lists["not_ids"]),
        tuple(lists["titles"]),
        tuple(lists["companies"]),
        tuple(
            {
                step_word(word): float(at)
                for at, step in enumerate(scale)
                for word in step.split("/")
            }
            for scale in scales
        ),
    )


_NUMBER = (
    r"(?:0|[1-9][0-9]*)(?:,[0-9]{3})*(?:\.[0-9]+)?"  # codes may begin with zeros, bands do not
)
_BAND = re.compile(
    r"(?:(?P<below><=?|under |below |up to |bis |unter )|(?P<over>>=?|over |above |über ))?[^0-9]?"
    rf"(?P<low>{_NUMBER}) ?[a-z%€$]{{0,3}}"
    rf"(?: ?(?:-|to|bis|–|\.\.) ?[^0-9]?(?P<high>{_NUMBER}) ?[^0-9]{{0,8}}"
    r"|(?P<above>\+| (?:and|or) (?:over|more|above)))?"
)


def step_word(text: str) -> str:
    """Write a step of a scale as scales are looked up.

    >>> step_word("Strongly  Agree"), step_word("Häufig"), step_word("very-low")
    ('strongly_agree', 'haufig', 'very_low')
    """
    return re.sub(r"(?<=\w)[\s_-]+(?=\w)", "_", folded(text.strip()))


def places_on_scale(texts: Collection[str]) -> list[float] | None:
    """Return where texts lie on a scale that all of them are steps of; None if there is none.

    Scales are those of ``words.toml``, and bands of numbers: 18-24, 25 to 34, 65+.

    >>> places_on_scale(["high", "Low", "medium"]), places_on_scale(["<18", "65+", "18-64"])
    ([4.0, 2.0, 3.0], [17.5, 65.0, 18.0])
    >>> places_on_scale(["red", "green"])
    """
    words = [step_word(text) for text in texts]
    for scale in vocabulary().scales:
        if all(word in scale for word in words):
            return [scale[word] for word in words]
    return _places_of_bands(texts)


def _places_of_bands(texts: Collection[str]) -> list[float] | None:
    """Return where bands of numbers begin; None if there are other texts, or bands overlap."""
    bands = [band for text in texts if (band := _BAND.fullmatch(text.strip().lower()))]
    if len(bands) < len(texts) or not all(
        any(b.group("below", "over", "high", "above")) for b in bands
    ):
        return None
    ends = [
        (_plain(band["low"]) - 0.5 * bool(band["below"]), _plain(band["high"] or band["low"]))
        for band in bands
    ]
    line = sorted(ends)
    apart = all(high <= low for (_, high), (low, _) in pairwise(line))
    return [low for low, _ in ends] if apart and all(low <= high for low, high in ends) else None


def _plain(number: str) -> float:
    return float(number.replace(",", ""))


def _topic(entry: dict[str, Any]) -> Topic:
    given = [word for language in _LANGUAGES for word in entry.get(language, "").split()]
    single = {form for word in given if "+" not in word for form in _forms(word)}
    pairs = {frozenset(folded(part) for part in word.split("+")) for word in given if "+" in word}
    return Topic(
        entry["says"],
        entry.get("role"),
        entry.get("kind"),
        frozenset(single),
        frozenset(pairs),
        tuple(form for word in entry.get("starts", "").split() for form in _forms(word)),
        tuple(form for word in entry.get("endings", "").split() for form in _forms(word)),
    )


def _forms(word: str) -> set[str]:
    """Return a word as people may write it: without accents, umlauts as two letters."""
    return {folded(word), folded(word.translate(_UMLAUTS)), _singular(folded(word))}


def _match(topic: Topic, words: list[str]) -> str:
    for word in words:
        if word in topic.words:
            return word
    for pair in topic.pairs:
        if pair <= set(words):
            return " ".join(sorted(pair))
    for word in words:
        if any(word.endswith(end) and len(word) > len(end) + 1 for end in topic.endings):
            return word
        if any(word.startswith(start) for start in topic.starts):
            return word
    return ""


def _identifier_ending(words: list[str]) -> dict[str, str]:
    """Find words such as ``customerid``, which English writes in one, and not ``paid``."""
    for word in words:
        if len(word) > 3 and word.endswith("id") and word not in vocabulary().not_ids:
            return {"number": word}
    return {}


def _singular(word: str) -> str:
    plural = len(word) > 3 and word.endswith("s") and not word.endswith(_NO_PLURAL)
    return word[:-1] if plural else word
