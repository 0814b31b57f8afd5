"""What the columns of a table are, and what they mean for people: guesses with reasons.

A guess is for a person to check: ``tulle inspect`` writes it into a policy that can be edited.
Where a column may name people and nothing decides it, it is left out until someone has written a
decision down; where it may name the person of several rows, people are counted by it meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import polars as pl

from tulle._plurals import counted
from tulle._threads import on_all_cores
from tulle.guessing._evidence import ColumnEvidence, Nature
from tulle.guessing._person import find_person
from tulle.guessing._whole_numbers import ENOUGH, VISITS, WholeNumbers
from tulle.table._frames import to_polars
from tulle.table._look import FEW, Look, look_at
from tulle.table._series import is_class
from tulle.table._words import vocabulary, words_of
from tulle.table.schema import Column, Kind, Role

_CONSTANT = 1.02  # different values a person, at most, of what does not change: slips happen
_FAR = 5  # times the number of identifiers: in so wide a range measurements do not hit them
_REFERS = 0.9  # share of values that are identifiers of other rows

_ACTIONS = {
    Role.IDENTIFIER: "drop",
    Role.PERSON: "count people by it; new keys in the release",
    Role.QUASI: "condense",
    Role.SENSITIVE: "condense",
    Role.TARGET: "condense class by class",
    Role.LEVEL: "use as privacy level",
    Role.WEIGHT: "condense, then calibrate to the same totals",
    Role.IGNORED: "leave out",
}
_UNSURE = {
    Role.IDENTIFIER: "leave out until a role is stated",
    Role.PERSON: "count people by it, with new keys, until a role is stated",
}
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
        Whether the column is left out only because nothing is sure: someone should state a role.
    """

    column: Column
    records: int
    absent: int
    distinct: int
    unread: int = 0
    needs_decision: bool = False

    @property
    def action(self) -> str:
        """What will become of the column."""
        return (_UNSURE if self.needs_decision else _ACTIONS)[self.column.role]


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

    def judge(column: pl.Series) -> ColumnEvidence:
        named = person if person is not None and person.name == column.name else None
        evidence = _judged(ColumnEvidence(look_at(column, k, people), named))
        own = None if people is None else _look_per_person(column, people, k)
        if own is None:
            return evidence
        once = _judged(ColumnEvidence(own))
        if once.whole is None:
            return replace(evidence, own=once)
        # how often a number occurs says what it is: among people, not among rows
        return replace(evidence, own=once, kind=once.kind, why_kind=once.why_kind)

    judged = on_all_cores(judge, frame.get_columns(), frame.height * frame.width)
    guesses = [_guess(evidence) for evidence in _alike(judged)]
    guesses = _with_one_weight(_with_one_person(guesses))
    return _with_target(_with_references(frame, guesses), frame)


def _with_one_person(guesses: list[Guess]) -> list[Guess]:
    """Count people by one column: the one that is sure, else the first that may name them."""
    people = [guess for guess in guesses if guess.column.role is Role.PERSON]
    chosen = min(people, key=lambda guess: guess.needs_decision, default=None)
    return [
        replace(guess, column=replace(guess.column, role=Role.IDENTIFIER))
        if guess in people and guess is not chosen
        else guess
        for guess in guesses
    ]


def _with_one_weight(guesses: list[Guess]) -> list[Guess]:
    """Keep the last survey weight, which is made of those before it; others would contradict it."""
    weights = [guess.column for guess in guesses if guess.column.role is Role.WEIGHT]
    why = f"a survey weight: '{weights[-1].name}' is kept, and a release has one" if weights else ""
    return [
        replace(guess, column=replace(guess.column, role=Role.IGNORED, reason=why))
        if guess.column in weights[:-1]
        else guess
        for guess in guesses
    ]


def _look_per_person(column: pl.Series, people: pl.Series, k: int) -> Look | None:
    """Look at one row of each person, if a column does not change between the rows of a person."""
    if column.dtype.is_nested() or column.dtype == pl.Object:
        return None
    pairs = pl.DataFrame({"person": people, "value": column}).unique(maintain_order=True)
    if len(pairs) > _CONSTANT * people.n_unique():
        return None
    return look_at(pairs["value"].alias(column.name), k)


def _alike(judged: list[ColumnEvidence]) -> list[ColumnEvidence]:
    """Give the questions of one battery one kind: ordered, if one of them is.

    A battery is most columns of one name with a number, with answers in one range; scales from 0 or
    1 to 10 are so well known that they need no common name.
    """
    stems = Counter(evidence.stem for evidence in judged)
    batteries = Counter(evidence.battery for evidence in judged)
    found = {evidence.battery for evidence in judged if evidence.kind is Kind.ORDERED}
    ordered = {
        battery
        for battery in found
        if battery is not None
        and (battery[0] == "0-10" or 3 * batteries[battery] >= 2 * stems[battery[0]])
    }
    why = "a question like others with the same answers"
    return [
        replace(evidence, kind=Kind.ORDERED, why_kind=why)
        if evidence.battery in ordered and evidence.kind is not Kind.ORDERED
        else evidence
        for evidence in judged
    ]


def _guess(evidence: ColumnEvidence) -> Guess:
    look = evidence.look
    row = _first(_ROLES, evidence)
    role, why, kind = row.answer, row.sentence.format(e=evidence), evidence.kind
    kept = role not in (Role.IDENTIFIER, Role.PERSON, Role.IGNORED)
    reasons = [why, evidence.why_kind, *(_reading(look, kind) if kept else [])]
    if role is Role.LEVEL:
        kind, reasons = Kind.INTEGER, [why]
    if role is Role.WEIGHT:
        kind, reasons = Kind.INTEGER if look.whole else Kind.DECIMAL, [why]
    if role in (Role.IDENTIFIER, Role.PERSON) and look.numbers is None:
        kind, reasons = Kind.TEXT, [why]
    reason = "; ".join(part for part in reasons if part)
    column = Column(look.name, kind, role, bounds=_public_bounds(look, kind), reason=reason)
    if kept:
        column = replace(
            column,
            missing=(*look.special, *evidence.off_scale) if kind in _CODED else (),
            hierarchy=evidence.hierarchy or None if kind is Kind.CATEGORY else None,
            codes=dict.fromkeys(look.codes, "text among numbers") if kind in _CODED else {},
            format=_form(look, kind),
        )
    counts = (look.records, look.absent, look.distinct)
    return Guess(column, *counts, look.unread if kind in _CODED else 0, row.decide)


def _judged(evidence: ColumnEvidence) -> ColumnEvidence:
    """Return the evidence with what whole numbers are, and with the kind."""
    if evidence.whole is not None:
        row = _first(_NATURES, evidence.whole)
        evidence = replace(evidence, nature=row.answer, why=row.sentence.format(w=evidence.whole))
    row = _first(_KINDS, evidence)
    return replace(evidence, kind=row.answer, why_kind=row.sentence.format(e=evidence))


# -- the table: the first row whose test the evidence passes gives the answer ---------------------


class _Row(NamedTuple):
    test: Callable[[Any], bool]  # of the evidence
    answer: Any  # a nature of whole numbers, a kind or a role
    sentence: str = ""  # for people, who check the guess
    decide: bool = False  # whether the column is left out until somebody decides


def _first(rows: tuple[_Row, ...], evidence: ColumnEvidence | WholeNumbers) -> _Row:
    return next(row for row in rows if row.test(evidence))


# fmt: off
_DIFFERENT = "{w.size:,} of {w.rows:,} numbers are different"
_NATURES = (  # of whole numbers
    _Row(lambda w: not w.enough or w.years, Nature.MEASURED),
    _Row(lambda w: w.running, Nature.GIVEN, "a running number"),
    _Row(lambda w: w.unique and w.surely_unrepeated and not w.measured, Nature.GIVEN,
         f"{_DIFFERENT}, which measurements in so narrow a range would not be"),
    _Row(lambda w: w.unique and w.unrepeated, Nature.UNCLEAR,
         f"{_DIFFERENT}, although measurements in so narrow a range would repeat"),
    _Row(lambda w: w.unique and w.sparse and not w.measured, Nature.UNCLEAR,
         f"{_DIFFERENT}, and nothing says that they are measurements"),
    _Row(lambda w: w.unique, Nature.MEASURED),
    _Row(lambda w: w.size <= 2, Nature.CODES, "two values"),
    _Row(lambda w: w.few and w.falling, Nature.MEASURED),  # a count
    _Row(lambda w: w.few and w.gapped_digits, Nature.CODES, "few digits with gaps: codes"),
    _Row(lambda w: w.few and w.in_a_row and w.peaks <= 1, Nature.ANSWERS, "few values in a row"),
    _Row(lambda w: w.few and w.in_a_row, Nature.CODES,
         "few values, with no order in their frequencies"),
    _Row(lambda w: w.few and w.peaks > 1, Nature.CODES, "few numbers with gaps: codes"),
    _Row(lambda w: w.few, Nature.MEASURED),
    _Row(lambda w: w.repeats_like_people, Nature.UNCLEAR,
         "numbers far apart repeat exactly, as those of people with several rows do"),
    _Row(lambda w: w.numbered_from_one, Nature.UNCLEAR,
         "numbers from 1 on that are all about equally frequent"),
    _Row(lambda w: w.codes or w.listed, Nature.CODES,
         "few of the possible numbers, at irregular rates: codes"),
    _Row(lambda w: True, Nature.MEASURED),
)

_AS_NAMED = "whole numbers that are codes, as the name says"
_NOMINAL = {"sex", "origin", "family", "place", "work", "conviction", "health", "code"}
_STRONG = {"sex", "origin", "place", "code"}  # named so, whatever the numbers look like
_VAGUE = {"measure", "lab", "date"}  # a rate may be an answer from 1 to 5
_SHARED = 5  # rows a value, on average: numbers named like codes are shared by so many

_KINDS = (
    _Row(lambda e: e.look.boolean, Kind.BOOLEAN),
    _Row(lambda e: e.look.times is not None, Kind.DATETIME),
    _Row(lambda e: e.look.opaque or (e.text and e.surely_unique), Kind.TEXT),
    _Row(lambda e: e.scale, Kind.ORDERED, "words in an order"),
    _Row(lambda e: e.hierarchy, Kind.CATEGORY,
         "codes of a system: rare ones are merged into their beginnings"),
    _Row(lambda e: e.text, Kind.CATEGORY),
    _Row(lambda e: e.whole is None, Kind.DECIMAL),
    _Row(lambda e: e.topics & {"postcode", "place_code"}, Kind.CATEGORY,
         "whole numbers that are codes of places"),
    _Row(lambda e: e.look.distinct <= 2 and e.look.records >= ENOUGH, Kind.CATEGORY,
         "whole numbers with two values: codes"),
    _Row(lambda e: "order" in e.topics and e.few, Kind.ORDERED, "few whole numbers in an order"),
    _Row(lambda e: e.quantity and "code" in e.topics and e.look.distinct <= 3, Kind.CATEGORY,
         "three whole numbers: codes"),
    _Row(lambda e: e.quantity and "code" in e.topics and e.few, Kind.ORDERED,
         "few whole numbers that stand for classes of a quantity"),
    _Row(lambda e: e.quantity - _VAGUE or (e.quantity and not e.answers_from_one), Kind.INTEGER),
    _Row(lambda e: e.topics & _STRONG and e.rows_each(_SHARED), Kind.CATEGORY, _AS_NAMED),
    _Row(lambda e: e.topics & _NOMINAL and e.nature in (Nature.CODES, Nature.ANSWERS),
         Kind.CATEGORY, _AS_NAMED),
    _Row(lambda e: "number" in e.topics and e.rows_each(VISITS + 1), Kind.CATEGORY, _AS_NAMED),
    _Row(lambda e: e.nature is Nature.CODES, Kind.CATEGORY, "{e.why}"),
    _Row(lambda e: e.nature is Nature.ANSWERS, Kind.ORDERED, "{e.why}"),
    _Row(lambda e: True, Kind.INTEGER),
)

_ROLES = (
    _Row(lambda e: e.person and e.person.sure, Role.PERSON, "{e.person.reason}"),
    _Row(lambda e: e.person, Role.PERSON, "{e.person.reason}", decide=True),
    _Row(lambda e: e.look.opaque, Role.IGNORED, "lists, objects or bytes: not single values"),
    _Row(lambda e: not e.look.present, Role.IGNORED, "no value at all"),
    _Row(lambda e: e.constant, Role.IGNORED, "the same value in every record"),
    _Row(lambda e: e.level, Role.LEVEL, "named like a privacy level, small positive numbers"),
    _Row(lambda e: e.weight, Role.WEIGHT, "named like a survey weight, no number below 0"),
    _Row(lambda e: e.form, Role.IDENTIFIER, "looks like {e.form}"),
    _Row(lambda e: e.names_people, Role.IDENTIFIER,
         "the name says that it names people or companies"),
    _Row(lambda e: e.reaches, Role.IDENTIFIER, "the name says {e.reaches}"),
    _Row(lambda e: (e.numbered or e.of_people) and e.unique, Role.IDENTIFIER,
         "named like a number of records or people, nearly every value is different"),
    _Row(lambda e: e.numbered and not e.quantity - {"count"} and e.few_each, Role.IDENTIFIER,
         "named like a number of people or things with few records each"),
    _Row(lambda e: e.free_text, Role.IGNORED,
         "free text, which may name people and cannot be condensed"),
    _Row(lambda e: e.kind is Kind.TEXT and e.apart.surely_unique, Role.IDENTIFIER,
         "{e.apart.look.distinct:,} of {e.apart.look.present:,} values are different"),
    _Row(lambda e: e.given and e.quantity <= {"count", "date"}, Role.IDENTIFIER, "{e.apart.why}"),
    _Row(lambda e: e.given, Role.IDENTIFIER, "{e.apart.why}", decide=True),
    _Row(lambda e: e.unclear and e.apart.whole.unique, Role.IDENTIFIER, "{e.apart.why}",
         decide=True),
    _Row(lambda e: e.unclear, Role.PERSON, "{e.apart.why}", decide=True),
    _Row(lambda e: e.kind is Kind.CATEGORY and e.mostly_rare, Role.IDENTIFIER,
         "{e.look.rare_values:,} values are held by few people each (fewer than {e.look.k}, or "
         "little more)",
         decide=True),
    _Row(lambda e: e.secret, Role.SENSITIVE, "what others may want to learn: {e.secret}"),
    _Row(lambda e: e.public, Role.QUASI, "others may know it: {e.public}"),
    _Row(lambda e: e.look.times is not None, Role.QUASI, "others may know dates"),
    _Row(lambda e: True, Role.QUASI),
)
# fmt: on


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
    keys = [key for key in keys if len(key) > FEW]
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


def _refers(column: pl.Series, key: pl.Series) -> bool:
    """Return whether nearly all values are identifiers, and not because these lie so close."""
    if column.dtype != key.dtype or column.name == key.name:
        return False
    values = column.drop_nulls().unique()
    if len(values) <= FEW or not (key.dtype.is_integer() or key.dtype == pl.String):
        return False
    if key.dtype.is_integer():  # close to each other there or as a whole, chance hits them
        for some in (key, key.filter(key.is_between(values.min(), values.max()))):
            if len(some) and _FAR * len(some) > int(some.max()) - int(some.min()):  # type: ignore[arg-type]
                return False
    return float(values.is_in(key.implode()).mean()) >= _REFERS  # type: ignore[arg-type]


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
