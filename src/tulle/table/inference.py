"""What the columns of a table are, and what they mean for people: guesses with reasons.

A guess is for a person to check: ``tulle inspect`` writes it into a policy that can be edited.
Where nothing speaks for another role, a column is taken for a quasi-identifier: the cautious one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import polars as pl

from tulle.table import _words as words
from tulle.table.schema import Column, Kind, Role

_NEARLY_UNIQUE = 0.9  # share of different values from which a column tells records apart
_ENOUGH = 20  # records needed to say so of numbers, which may differ by chance
_ENOUGH_TEXTS = 5  # ... and of text, which would be released as it is
_FEW = 20  # different values that a class or a code may have
_MATCHING = 0.8  # share of values with the shape of an address or number
_REPEATS = 20  # records that one person may have
_PROSE = 40  # characters, on average, from which text is prose

_SHAPES = {
    "e-mail addresses": r"^[^@\s]+@[^@\s]+\.[a-zA-Z]{2,}$",
    "account numbers (IBAN)": r"^[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}$",
    "social security numbers": r"^[0-9]{3}-[0-9]{2}-[0-9]{4}$",
    "identifiers (UUID)": r"^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$",
    "network addresses": r"^[0-9]{1,3}(?:\.[0-9]{1,3}){3}$",
    "web addresses": r"^https?://",
    "telephone numbers": r"^(?:\+|00|\(0?|0)[0-9][0-9 ()/.-]{6,}$",
}


@dataclass(frozen=True)
class Profile:
    """Counts of a column, without a value of it, and the guess."""

    column: Column
    records: int
    missing: int
    distinct: int

    @property
    def action(self) -> str:
        """What will become of the column."""
        return _ACTIONS[self.column.role]


_ACTIONS = {
    Role.IDENTIFIER: "drop",
    Role.QUASI: "condense",
    Role.SENSITIVE: "condense",
    Role.TARGET: "condense class by class",
    Role.LEVEL: "use as privacy level",
    Role.IGNORED: "leave out",
}


def infer_columns(frame: pl.DataFrame) -> list[Column]:
    """Infer the kind and role of every column of a table, each with its reason.

    Parameters
    ----------
    frame : polars.DataFrame
        The table.

    Returns
    -------
    list of Column
        A guess for a person to check, in the order of the table.

    Examples
    --------
    >>> import polars as pl
    >>> from tulle import infer_columns
    >>> people = pl.DataFrame({"email": ["a@x.org", "b@y.org"], "age": [40, 41]})
    >>> [(c.name, str(c.kind), str(c.role)) for c in infer_columns(people)]
    [('email', 'text', 'identifier'), ('age', 'integer', 'quasi-identifier')]
    """
    return [profile.column for profile in profile_columns(frame)]


def profile_columns(frame: pl.DataFrame) -> list[Profile]:
    """The guess for every column, with its counts."""
    profiles = [
        _opaque(series) if is_opaque(series.dtype) else _profile(series) for series in frame
    ]
    return _with_target(profiles, frame)


_MOST_CLASSES = 50  # numbers with more different values than that are a quantity


def is_class(series: pl.Series, kind: Kind | None = None) -> bool:
    """Return whether a target names classes: the one answer to this question.

    Text, categories and booleans do, and what is declared to be of such a ``kind``. Whole numbers
    do if there are two of them, or if at most 50 are different and each stands for three records
    on average; so do floats that are all whole.

    >>> is_class(pl.Series([0, 1, 1, 0])), is_class(pl.Series([30_000, 41_500, 52_250]))
    (True, False)
    """
    if kind in (Kind.CATEGORY, Kind.BOOLEAN, Kind.TEXT):
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
    """Whether cells are not single values: lists, objects, bytes. They are never released."""
    return dtype.is_nested() or dtype in (pl.Binary, pl.Object)


@dataclass(frozen=True)
class _Look:
    """What the guesses look at."""

    series: pl.Series  # without missing values
    name: str
    words: frozenset[str]
    records: int
    missing: int
    distinct: int

    @classmethod
    def at(cls, series: pl.Series) -> _Look:
        records = len(series)
        if series.dtype.is_float():
            series = series.fill_nan(None)
        elif series.dtype in (pl.Categorical, pl.Enum):
            series = series.cast(pl.String)
        present = series.drop_nulls()
        parts = words.words_of(series.name)
        missing = records - len(present)
        return cls(present, series.name, parts, records, missing, present.n_unique())

    @property
    def is_text(self) -> bool:
        return self.series.dtype == pl.String

    @property
    def nearly_unique(self) -> bool:
        return len(self.series) >= 2 and self.distinct >= _NEARLY_UNIQUE * len(self.series)

    @property
    def surely_unique(self) -> bool:
        return self.nearly_unique and len(self.series) >= (
            _ENOUGH_TEXTS if self.is_text else _ENOUGH
        )


def _opaque(series: pl.Series) -> Profile:
    reason = "lists, objects or bytes: not single values"
    column = Column(series.name, Kind.TEXT, Role.IGNORED, reason=reason)
    distinct = 0 if series.dtype == pl.Object else series.drop_nulls().n_unique()
    return Profile(column, len(series), series.null_count(), distinct)


def _profile(series: pl.Series) -> Profile:
    look = _Look.at(series)
    kind, why_kind = _kind(look)
    role, why_role = next(guess for rule in _RULES if (guess := rule(look)) is not None)
    if role is Role.IDENTIFIER and look.is_text:
        kind, why_kind = Kind.TEXT, ""
    reason = "; ".join(part for part in (why_role, why_kind) if part)
    column = Column(look.name, kind, role, reason=reason)
    return Profile(column, look.records, look.missing, look.distinct)


# -- kinds ------------------------------------------------------------------------------------


def _kind(look: _Look) -> tuple[Kind, str]:
    dtype = look.series.dtype
    if dtype == pl.Boolean:
        return Kind.BOOLEAN, ""
    if dtype.is_temporal():
        return Kind.DATETIME, ""
    if dtype.is_integer():
        return _integer_kind(look)
    if dtype.is_numeric():
        return Kind.DECIMAL, ""
    if look.surely_unique:
        return Kind.TEXT, "nearly every value is different"
    return Kind.CATEGORY, ""


def _integer_kind(look: _Look) -> tuple[Kind, str]:
    if look.words & words.PLACES:
        return Kind.CATEGORY, "whole numbers that are codes of places"
    if "id" in look.words:
        return Kind.CATEGORY, "whole numbers that are codes"
    if look.words & words.COUNTS:
        return Kind.INTEGER, ""
    if 1 <= look.distinct <= 2 and look.records >= _ENOUGH:
        return Kind.CATEGORY, "whole numbers with two values: codes"
    if look.distinct <= _FEW and look.words & words.CODES:
        return Kind.CATEGORY, "whole numbers with few values and the name of a code"
    return Kind.INTEGER, ""


# -- roles, the first rule that speaks decides ----------------------------------------------------

_Guess = tuple[Role, str] | None


def _no_information(look: _Look) -> _Guess:
    if not len(look.series):
        return Role.IGNORED, "no value at all"
    if look.distinct == 1 and not look.missing and look.records > 1:
        return Role.IGNORED, "the same value in every record"
    return None


def _privacy_level(look: _Look) -> _Guess:
    named = look.words == {"level"} or look.words >= {"privacy", "level"}
    if not named or not look.series.dtype.is_integer() or look.missing:
        return None
    small = look.series.is_between(1, max(1, look.records)).all() and look.distinct <= 100
    return (Role.LEVEL, "the name of a privacy level, small positive numbers") if small else None


def _shaped_like_an_identifier(look: _Look) -> _Guess:
    if not look.is_text:
        return None
    sample = look.series.head(2000)
    for what, pattern in _SHAPES.items():
        share = sample.str.contains(pattern).mean()
        if isinstance(share, float) and share >= _MATCHING:
            return Role.IDENTIFIER, f"looks like {what}"
    return None


def _named_like_an_identifier(look: _Look) -> _Guess:
    if not (look.is_text or look.series.dtype.is_integer()):
        return None
    personal = words.are_personal_names(look.words)
    many = look.distinct > _FEW or (look.is_text and look.nearly_unique)
    if (personal and (look.is_text or many)) or (many and look.words & words.NAMES_A_PERSON):
        return Role.IDENTIFIER, "the name says that it names people"
    numbered = look.words & words.NUMBERS
    if (numbered or (look.words and look.words <= words.PERSONS)) and look.nearly_unique:
        return Role.IDENTIFIER, "named like a number of records, nearly every value is different"
    if numbered and look.distinct > _FEW and look.distinct * _REPEATS >= len(look.series):
        return Role.IDENTIFIER, "named like a number of persons with few records each"
    return None


def _free_text(look: _Look) -> _Guess:
    if not look.is_text or not (look.surely_unique or look.distinct > _FEW):
        return None
    if float(look.series.head(2000).str.len_chars().mean() or 0) < _PROSE:  # type: ignore[arg-type]
        return None
    return Role.IGNORED, "free text, which may name people and cannot be condensed"


def _tells_records_apart(look: _Look) -> _Guess:
    if not look.surely_unique:
        return None
    if look.is_text:
        return Role.IDENTIFIER, f"{look.distinct:,} of {len(look.series):,} values are different"
    if look.series.dtype.is_integer() and look.distinct == look.records:
        steps = look.series.sort().diff().drop_nulls()
        if (steps == 1).all():
            return Role.IDENTIFIER, "a running number"
    return None


def _sensitive(look: _Look) -> _Guess:
    found = sorted(look.words & words.SENSITIVE)
    return (Role.SENSITIVE, f"'{found[0]}' is what others may want to learn") if found else None


def _quasi(look: _Look) -> _Guess:
    topics = [words.TOPIC_OF[word] for word in sorted(look.words) if word in words.TOPIC_OF]
    if topics:
        return Role.QUASI, f"others may know it ({topics[0]})"
    if look.series.dtype.is_temporal():
        return Role.QUASI, "others may know dates"
    return Role.QUASI, "nothing says that others cannot know it"


_RULES: tuple[Callable[[_Look], _Guess], ...] = (
    _no_information,
    _privacy_level,
    _shaped_like_an_identifier,
    _named_like_an_identifier,
    _free_text,
    _tells_records_apart,
    _sensitive,
    _quasi,
)


def _with_target(profiles: list[Profile], frame: pl.DataFrame) -> list[Profile]:
    """At most one column is what a miner predicts: clearly named, or the last and named so."""
    chosen = None
    for i, profile in enumerate(profiles):
        parts = words.words_of(profile.column.name)
        last = i == len(profiles) - 1
        clear = len(parts) == 1 and parts <= words.CLEAR_TARGETS
        named = clear or (last and parts & words.TARGETS)
        if named and _can_be_target(profile) and is_class(frame.to_series(i)):
            chosen = i
    if chosen is None:
        return profiles
    found = profiles[chosen]
    kind = found.column.kind if found.column.kind is Kind.BOOLEAN else Kind.CATEGORY
    reason = f"named like a class, {found.distinct} different values"
    column = replace(found.column, role=Role.TARGET, kind=kind, reason=reason)
    return [*profiles[:chosen], replace(found, column=column), *profiles[chosen + 1 :]]


def _can_be_target(profile: Profile) -> bool:
    """Whether a column that names classes has several, and records of each."""
    several = 2 <= profile.distinct <= min(_MOST_CLASSES, profile.records / 2)
    return several and profile.column.role in (Role.QUASI, Role.SENSITIVE)
