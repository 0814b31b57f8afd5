"""What the columns of a table are, and what they mean for people: guesses with reasons.

A guess is for a person to check: ``tulle inspect`` writes it into a policy that can be edited.
Where a column may name people and nothing decides it, the guess asks for a decision, and nothing
is released before someone has written it down.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from tulle._plurals import counted
from tulle._threads import on_all_cores
from tulle.table._frames import to_polars
from tulle.table._look import FEW, Look, look_at
from tulle.table._person import PersonColumn, find_person
from tulle.table._whole_numbers import Nature, WholeNumbers, is_wandering, nature_of
from tulle.table._words import vocabulary, words_of
from tulle.table.schema import Column, Kind, Role

_NEARLY_UNIQUE = 0.9
_ENOUGH = 20  # records needed to say that numbers are all different
_ENOUGH_TEXTS = 5  # ... and texts, which would be released as they are
_SHARED = 5  # records a value, on average, from which numbers named so are codes
_MATCHING = 0.8  # share of values with the shape of an address or number
_REPEATS = 20  # records that one person may have
_PROSE = 40  # characters, on average, from which text is prose
_CONSTANT = 1.02  # different values a person, at most, of what does not change
_FAR = 5  # times the number of identifiers: the width of their range
_REFERS = 0.9  # share of values that are identifiers of other rows
_RARE = 0.5  # share of rows with rare values from which a category says little

_SHAPES = {
    "e-mail addresses": r"^[^@\s]+@[^@\s]+\.[a-zA-Z]{2,}$",
    "account numbers (IBAN)": r"^[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}$",
    "social security numbers": r"^[0-9]{3}-[0-9]{2}-[0-9]{4}$",
    "identifiers (UUID)": r"^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$",
    "network addresses": r"^[0-9]{1,3}(?:\.[0-9]{1,3}){3}$",
    "web addresses": r"^https?://",
}
_TELEPHONE = r"^(?:\+|00|\(0?|0)[0-9][0-9 ()/.-]{6,}$"

_ACTIONS = {
    Role.IDENTIFIER: "drop",
    Role.PERSON: "count people by it, then drop",
    Role.QUASI: "condense",
    Role.SENSITIVE: "condense",
    Role.TARGET: "condense class by class",
    Role.LEVEL: "use as privacy level",
    Role.IGNORED: "leave out",
}
_DECIDE = "refuse until a role is stated"
_CODED = (Kind.INTEGER, Kind.DECIMAL, Kind.ORDERED, Kind.DATETIME)  # may have special values


@dataclass(frozen=True)
class Guess:
    """What a column is taken for, with counts; of its values only codes that many people share.

    Parameters
    ----------
    column : Column
        Name, kind and role, with the reason; the reason is empty if nothing speaks for the guess.
    records, absent, distinct : int
        How many records, records without a value, and different values there are.
    unread : int
        How many texts among numbers or dates were not understood.
    needs_decision : bool
        Whether nothing may be released before someone states a role.
    """

    column: Column
    records: int
    absent: int
    distinct: int
    unread: int = 0
    needs_decision: bool = False

    @property
    def action(self) -> str:
        """Return what will become of the column."""
        return _DECIDE if self.needs_decision else _ACTIONS[self.column.role]


def infer_columns(table: Any) -> list[Column]:
    """Infer the kind and role of every column of a table, each with its reason.

    Parameters
    ----------
    table : DataFrame (pandas, polars), pyarrow Table, array or list of rows
        The table.

    Returns
    -------
    list of Column
        A guess for a person to check, in the order of the table. A column that may name people is
        an identifier.

    Examples
    --------
    >>> import polars as pl
    >>> from tulle import infer_columns
    >>> people = pl.DataFrame({"email": ["a@x.org", "b@y.org"], "age": [40, 41]})
    >>> [(c.name, str(c.kind), str(c.role)) for c in infer_columns(people)]
    [('email', 'text', 'identifier'), ('age', 'integer', 'quasi-identifier')]
    """
    return [guess.column for guess in guess_columns(to_polars(table))]


def guess_columns(frame: pl.DataFrame, k: int = 10) -> list[Guess]:
    """Guess kind and role of every column; values are shared if ``k`` people hold them."""
    person = find_person(frame)
    people = frame[person.name] if person is not None else None

    def guess(column: pl.Series) -> Guess:
        look = look_at(column, k, people)
        own = look if people is None else _look_per_person(column, people, k)
        return _guess(look, own, person)

    guesses = on_all_cores(guess, frame.get_columns(), frame.height * frame.width)
    return _with_target(_with_references(frame, guesses), frame)


_MOST_CLASSES = 50  # numbers with more different values than that are a quantity


def is_class(series: pl.Series, kind: Kind | None = None) -> bool:
    """Return whether a target names classes: the one answer to this question.

    Text, categories and booleans do, and what is declared to be of such a ``kind``. Whole numbers
    do if there are two of them, or if at most 50 are different and each stands for three records
    on average; so do floats that are all whole.

    >>> is_class(pl.Series([0, 1, 1, 0])), is_class(pl.Series([30_000, 41_500, 52_250]))
    (True, False)
    """
    if kind in (Kind.CATEGORY, Kind.ORDERED, Kind.BOOLEAN, Kind.TEXT):
        return True
    present = series.drop_nulls()
    if present.dtype.is_float():
        present = present.drop_nans()
        if not (present == present.round()).all():
            return False
    elif not present.dtype.is_integer():
        return present.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Boolean)
    distinct = present.n_unique()
    return distinct <= 2 or (distinct <= _MOST_CLASSES and 3 * distinct <= len(present))


def is_opaque(dtype: pl.DataType) -> bool:
    """Return whether cells are not single values but lists, objects or bytes, which are never
    released.
    """
    return dtype.is_nested() or dtype in (pl.Binary, pl.Object)


def _look_per_person(column: pl.Series, people: pl.Series, k: int) -> Look | None:
    """Look at one row of each person, if a column does not change between the rows of a person."""
    if column.dtype.is_nested() or column.dtype == pl.Object:
        return None
    pairs = pl.DataFrame({"person": people, "value": column}).unique(maintain_order=True)
    if len(pairs) > _CONSTANT * people.n_unique():
        return None
    return look_at(pairs["value"].alias(column.name), k)


def _guess(look: Look, own: Look | None, person: PersonColumn | None) -> Guess:
    kind, why_kind = _kind(look)
    if person is not None and look.name == person.name:
        role = Role.PERSON if person.sure else Role.IDENTIFIER
        found = _Found(role, person.reason, decide=not person.sure)
    else:
        found = next(f for rule in _RULES if (f := rule(look, kind)) is not None)
        if own is not None and own is not look and _is_kept(found):
            found = _tells_apart(own, kind) or found
    if found.role is Role.LEVEL:
        kind, why_kind = Kind.INTEGER, ""
    reasons = [found.reason, why_kind, *(_reading(look, kind) if _is_kept(found) else [])]
    if found.role in (Role.IDENTIFIER, Role.PERSON) and look.numbers is None:
        kind, reasons = Kind.TEXT, [found.reason]
    column = Column(
        look.name,
        kind,
        found.role,
        bounds=_public_bounds(look, kind),
        reason="; ".join(part for part in reasons if part),
    )
    if _is_kept(found):
        column = replace(
            column,
            missing=look.special if kind in _CODED else (),
            codes=dict.fromkeys(look.codes, "text among numbers") if kind in _CODED else {},
            format=_form(look, kind),
        )
    counts = (look.records, look.absent, look.distinct)
    return Guess(column, *counts, look.unread if kind in _CODED else 0, found.decide)


def _is_kept(found: _Found) -> bool:
    return found.role not in (Role.IDENTIFIER, Role.PERSON, Role.IGNORED)


# -- kinds ------------------------------------------------------------------------------------


def _kind(look: Look) -> tuple[Kind, str]:
    if look.boolean:
        return Kind.BOOLEAN, ""
    if look.times is not None:
        return Kind.DATETIME, ""
    if look.numbers is not None and not look.whole:
        return Kind.DECIMAL, ""
    if look.numbers is not None:
        return _whole_kind(look)
    if look.opaque or _is_surely_unique(look):
        return Kind.TEXT, ""
    return Kind.CATEGORY, ""


# Words that say what whole numbers with few values are; the first that applies decides.
_PLACES = {"postcode", "place_code"}
_QUANTITIES = {"count", "age", "measure", "money", "lab", "body", "date", "birth", "coordinate"}
_STRONG = {"sex", "origin", "place", "code"}
_OF = {"of", "de", "di", "von", "van", "per", "pro"}
_VAGUE = {"measure", "lab", "date"}  # a rate may be an answer from 1 to 5
_NOMINAL = {"sex", "origin", "family", "place", "work", "conviction", "health", "code"}


def _whole_kind(look: Look) -> tuple[Kind, str]:
    """Judge whole numbers by the name, and by the numbers where it says nothing."""
    topics, few = look.topics.keys(), look.distinct <= FEW
    if topics & _PLACES:
        return Kind.CATEGORY, "whole numbers that are codes of places"
    quantity, nominal = topics & _QUANTITIES, topics & _NOMINAL
    if look.distinct <= 2 and look.records >= _ENOUGH:
        return Kind.CATEGORY, "whole numbers with two values: codes"
    if "order" in topics and few:
        return Kind.ORDERED, "few whole numbers in an order"
    if quantity and "code" in nominal and look.distinct <= 3:
        return Kind.CATEGORY, "three whole numbers: codes"
    if quantity and "code" in nominal and few:
        return Kind.ORDERED, "few whole numbers that stand for classes of a quantity"
    numbers = WholeNumbers.of(look.quantity().cast(pl.Int64).to_numpy())
    nature, why = nature_of(numbers)
    if quantity and (
        quantity - _VAGUE or nature is not Nature.ANSWERS or numbers.different[0] != 1
    ):
        return Kind.INTEGER, ""
    if nominal & _STRONG and look.distinct * _SHARED <= look.present:
        return Kind.CATEGORY, "whole numbers that are codes, as the name says"
    if nominal and nature in (Nature.CODES, Nature.ANSWERS):
        return Kind.CATEGORY, "whole numbers that are codes, as the name says"
    if "number" in topics and look.distinct * _REPEATS < look.present:
        return Kind.CATEGORY, "whole numbers that are codes, as the name says"
    if nature is Nature.CODES:
        return Kind.CATEGORY, why
    return (Kind.ORDERED, why) if nature is Nature.ANSWERS else (Kind.INTEGER, "")


def _is_surely_unique(look: Look) -> bool:
    least = _ENOUGH_TEXTS if look.numbers is None else _ENOUGH
    return look.present >= least and _is_nearly_unique(look)


def _is_nearly_unique(look: Look) -> bool:
    return look.present >= 2 and look.distinct >= _NEARLY_UNIQUE * look.present


# -- roles, the first rule that speaks decides ----------------------------------------------------


@dataclass(frozen=True)
class _Found:
    role: Role
    reason: str
    decide: bool = False


_Rule = Callable[[Look, Kind], _Found | None]


def _no_information(look: Look, kind: Kind) -> _Found | None:
    if look.opaque:
        return _Found(Role.IGNORED, "lists, objects or bytes: not single values")
    if not look.present:
        return _Found(Role.IGNORED, "no value at all")
    others = look.absent or look.unread or look.codes
    if look.distinct == 1 and not others and look.records > 1:
        return _Found(Role.IGNORED, "the same value in every record")
    return None


def _privacy_level(look: Look, kind: Kind) -> _Found | None:
    parts = set(words_of(look.name))
    named = parts == {"level"} or parts >= {"privacy", "level"}
    if not named or look.numbers is None or not look.whole or look.absent:
        return None
    small = look.numbers.is_between(1, max(1, look.records)).all() and look.distinct <= 100
    return (
        _Found(Role.LEVEL, "named like a privacy level, small positive numbers") if small else None
    )


def _shaped(look: Look, kind: Kind) -> _Found | None:
    """Find texts with the shape of addresses or numbers of people."""
    if look.texts is None or look.times is not None:
        return None
    sample = look.texts.drop_nulls().head(2000)
    several = 2 * look.distinct >= look.present
    shapes = {**_SHAPES, "telephone numbers": _TELEPHONE} if several else _SHAPES
    if look.distinct > FEW:
        shapes = {**shapes, **_name_shapes()}
    for what, pattern in shapes.items():
        if (sample.str.contains(pattern).mean() or 0) >= _MATCHING:  # type: ignore[operator]
            return _Found(Role.IDENTIFIER, f"looks like {what}")
    return None


@cache
def _name_shapes() -> dict[str, str]:
    """Return the patterns of names with a title, and of companies."""
    words = vocabulary()
    titles = "|".join(re.escape(title) for title in words.titles)
    companies = "|".join(re.escape(end) for end in words.companies)
    return {
        "names of people": rf"^(?i:{titles})\.?\s+\S",
        "names of companies": rf"\s(?i:{companies})\.?$",
    }


def _named(look: Look, kind: Kind) -> _Found | None:
    """Find columns whose names say that they name people, if the counts agree."""
    if look.times is not None or look.boolean or (look.numbers is not None and not look.whole):
        return None
    topics, text = look.topics.keys(), look.numbers is None
    many = look.distinct > FEW or (text and _is_nearly_unique(look))
    called = "personal_name" in topics or ("name" in topics and "person" in topics)
    alone = "name" in topics and not topics & {"place", "code", "work"} and text
    says = vocabulary().topics
    if (called and (text or many)) or (alone and (many or words_of(look.name) == ["name"])):
        return _Found(Role.IDENTIFIER, "the name says that it names people or companies")
    for topic in ("contact", "official_number"):
        if topic in topics and many and not topics & {"measure", "count"}:
            return _Found(Role.IDENTIFIER, f"the name says {says[topic].says}")
    return _numbered(look)


def _numbered(look: Look) -> _Found | None:
    """Find numbers of records or people: named so, and with few records each."""
    known = set(look.topics)
    counted = "count" in known and bool(_OF & set(words_of(look.name)))  # number of children
    numbered = "number" in known and not counted
    of_people = bool(known) and known <= {"person", "record", "household", "name"}
    if (numbered or of_people) and _is_nearly_unique(look):
        why = "named like a number of records or people, nearly every value is different"
        return _Found(Role.IDENTIFIER, why)
    owned = numbered and not known & (_QUANTITIES - {"count"})
    if owned and look.distinct > FEW and look.distinct * _REPEATS >= look.present:
        why = "named like a number of people or things with few records each"
        return _Found(Role.IDENTIFIER, why)
    return None


def _free_text(look: Look, kind: Kind) -> _Found | None:
    if look.texts is None or look.numbers is not None or look.times is not None:
        return None
    texts = look.texts.drop_nulls().head(2000)
    length = float(texts.str.len_chars().mean() or 0)  # type: ignore[arg-type]
    spaces = float(texts.str.contains(r"\S\s+\S+\s+\S").mean() or 0)  # type: ignore[arg-type]
    named = "free_text" in look.topics and (spaces >= 0.1 or length >= 20)
    long = length >= _PROSE and (look.distinct > FEW or _is_surely_unique(look))
    if named or long:
        return _Found(Role.IGNORED, "free text, which may name people and cannot be condensed")
    return None


def _tells_apart(look: Look, kind: Kind) -> _Found | None:
    """Find columns in which nearly all values are different, or repeat as people's do."""
    if look.times is not None or kind is Kind.CATEGORY:
        return None
    if look.numbers is None:
        share = f"{look.distinct:,} of {look.present:,} values are different"
        return _Found(Role.IDENTIFIER, share) if _is_surely_unique(look) else None
    if not look.whole:
        return None
    values = look.quantity().cast(pl.Int64).to_numpy()
    nature, why = nature_of(WholeNumbers.of(values))
    if nature not in (Nature.GIVEN, Nature.UNCLEAR) or _are_years(look, values):
        return None
    quantity = look.topics.keys() & (_QUANTITIES - {"count", "date"})
    if nature is Nature.GIVEN:
        return _Found(Role.IDENTIFIER, why, decide=bool(quantity))
    if look.topics.keys() & _QUANTITIES or is_wandering(values):
        return None
    return _Found(Role.IDENTIFIER, why, decide=True)


def _are_years(look: Look, values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bool:
    """Return whether numbers are years, or time stamps in a column named so."""
    timed = bool(look.topics.keys() & {"date", "birth"})
    years = bool(values.min() >= 1500 and values.max() <= 2100)
    return timed and (years or bool(values.min() >= 10**8))


def _mostly_rare(look: Look, kind: Kind) -> _Found | None:
    """Find categories most of whose records would go into the rest."""
    if kind is not Kind.CATEGORY or look.distinct <= FEW:
        return None
    if look.rare_rows < _RARE * look.present:
        return None
    why = f"{look.rare_values:,} values are held by fewer than {look.k} people each"
    return _Found(Role.IDENTIFIER, why, decide=True)


def _sensitive(look: Look, kind: Kind) -> _Found | None:
    return _by_topic(look, Role.SENSITIVE, "what others may want to learn")


def _quasi(look: Look, kind: Kind) -> _Found | None:
    found = _by_topic(look, Role.QUASI, "others may know it")
    if found is not None:
        return found
    return _Found(Role.QUASI, "others may know dates" if look.times is not None else "")


def _by_topic(look: Look, role: Role, why: str) -> _Found | None:
    for topic, word in look.topics.items():
        worded = look.numbers is None and look.times is None and look.distinct <= FEW
        if topic == "date" and (worded or look.topics.keys() & {"measure", "age"}):
            continue  # neither "full time: yes" nor hours of work are dates
        if vocabulary().topics[topic].role == role:
            return _Found(role, f"{why}: {vocabulary().topics[topic].says} ('{word}')")
    return None


_RULES: tuple[_Rule, ...] = (
    _no_information,
    _privacy_level,
    _shaped,
    _named,
    _free_text,
    _tells_apart,
    _mostly_rare,
    _sensitive,
    _quasi,
)


# -- special values, forms and bounds -------------------------------------------------------------


def _form(look: Look, kind: Kind) -> str:
    if kind is Kind.DATETIME:
        return look.date_form
    return look.number_form if kind in (Kind.INTEGER, Kind.DECIMAL) else ""


def _reading(look: Look, kind: Kind) -> list[str]:
    """Say how values are written, what is special about them and what was not understood."""
    notes = []
    if kind in (Kind.INTEGER, Kind.DECIMAL):
        form = look.number_format
        if form is not None and form.says:
            notes.append(f"numbers with {form.says}")
        coded = sum(code.rows for code in look.number_codes)
        if look.other_forms > coded:
            notes.append(f"{look.other_forms - coded:,} written in another form")
    if kind is Kind.DATETIME and look.texts is not None:
        if len(look.date_formats) > 1:
            notes.append(f"dates in {len(look.date_formats)} forms")
        if look.ambiguous:
            notes.append(f"{look.ambiguous:,} may have day and month in either order")
    if kind in _CODED:
        if look.codes:
            notes.append(f"{counted(len(look.codes), 'text')} among numbers, each a state")
        if look.words:
            notes.append(f"{counted(len(look.words), 'word')} for 'no value'")
        notes += sorted({code.reason for code in look.number_codes})
        if look.unread:
            notes.append(f"{counted(look.unread, 'value')} not understood: a state")
    return notes


def _public_bounds(look: Look, kind: Kind) -> tuple[float, float] | None:
    """Return bounds that everybody knows: of ages, percentages, hours of a week."""
    if kind not in (Kind.INTEGER, Kind.DECIMAL) or look.numbers is None:
        return None
    values = look.quantity()
    if values.is_empty():
        return None
    low, high = float(values.min()), float(values.max())  # type: ignore[arg-type]
    percent = look.number_format is not None and "%" in look.number_format.suffix
    limits = {"age": (0.0, 120.0)} if not look.topics.keys() & {"birth", "date"} else {}
    known = [pair for topic, pair in limits.items() if topic in look.topics]
    known += [(0.0, 100.0)] if percent else []
    return next((pair for pair in known if pair[0] <= low and high <= pair[1]), None)


# -- what refers to people ------------------------------------------------------------------------


def _with_references(frame: pl.DataFrame, guesses: list[Guess]) -> list[Guess]:
    """Take columns for identifiers whose values are identifiers of other rows: mother, manager."""
    naming = (Role.IDENTIFIER, Role.PERSON)
    names = [guess.column.name for guess in guesses if guess.column.role in naming]
    keys = [frame[name].drop_nulls().unique() for name in names]
    keys = [key for key in keys if len(key) > FEW and _is_far_apart(key)]
    found = []
    for guess in guesses:
        kept = guess.column.role in (Role.QUASI, Role.SENSITIVE) and guess.distinct > FEW
        columns = keys if kept and guess.column.kind is not Kind.DATETIME else []
        key = next((k.name for k in columns if _refers(frame[guess.column.name], k)), None)
        if key is not None:
            why = f"nearly all values are those of '{key}', which names people"
            column = replace(guess.column, role=Role.IDENTIFIER, reason=why)
            guess = replace(guess, column=column)
        found.append(guess)
    return found


def _is_far_apart(key: pl.Series) -> bool:
    """Return whether identifiers are so far apart that measurements do not hit them by chance."""
    if not key.dtype.is_integer():
        return key.dtype == pl.String
    return int(key.max()) - int(key.min()) >= _FAR * len(key)  # type: ignore[arg-type]


def _refers(column: pl.Series, key: pl.Series) -> bool:
    if column.dtype != key.dtype or column.name == key.name:
        return False
    values = column.drop_nulls().unique()
    return len(values) > FEW and float(values.is_in(key.implode()).mean()) >= _REFERS  # type: ignore[arg-type]


# -- the class that a miner predicts --------------------------------------------------------------


def _with_target(guesses: list[Guess], frame: pl.DataFrame) -> list[Guess]:
    """Choose at most one target: clearly named, or the last and named so."""
    chosen = None
    topics = vocabulary().topics
    for i, guess in enumerate(guesses):
        parts = [word for word in words_of(guess.column.name) if not word.isdigit()]
        last = i == len(guesses) - 1
        clear = len(parts) == 1 and parts[0] in topics["clear_target"].words
        named = last and bool(set(parts) & topics["target"].words)
        if (clear or named) and _can_be_target(guess) and is_class(frame.to_series(i)):
            chosen = i
    if chosen is None:
        return guesses
    found = guesses[chosen]
    kind = found.column.kind if found.column.kind is Kind.BOOLEAN else Kind.CATEGORY
    reason = f"named like a class, {found.distinct} different values"
    target = Column(found.column.name, kind, Role.TARGET, reason=reason)
    return [*guesses[:chosen], replace(found, column=target), *guesses[chosen + 1 :]]


def _can_be_target(guess: Guess) -> bool:
    """Return whether a column that names classes has several, and records of each."""
    several = 2 <= guess.distinct <= min(FEW, guess.records / 2)
    return several and guess.column.role in (Role.QUASI, Role.SENSITIVE)
