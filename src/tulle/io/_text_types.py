"""Text to types, judged by every value of a column and not by the first hundred.

A column becomes a number, a boolean, a date or a time only if *all* of its values are one;
what would lose something on the way stays text: leading zeros (post codes), a leading plus
(telephone numbers), more digits than a number can hold (cards, accounts), and days and months
that could be read either way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from polars.selectors import by_name

from tulle.errors import DataError
from tulle.table.schema import Kind

# Words that stand for a missing value in a column of numbers, booleans or times. In a column
# of text they stay: NA may be a country, None a surname.
MISSING_WORDS = ("", "NA", "N/A", "n/a", "#N/A", "null", "NULL", "None", "?", "-", ".")

_EXACT = 2**53  # whole numbers up to here are exact as floating point numbers


_NUMBER = r"(?i)-?(?:[0-9.][0-9.e+-]*|inf|infinity|nan)"


@dataclass(frozen=True)
class TextType:
    """A type that text may have: how to recognise and how to read it."""

    name: str
    dtype: pl.DataType
    pattern: str  # what a value looks like; true of many a value that does not fit
    read: Callable[[pl.Expr], pl.Expr]
    unfit: Callable[[pl.Series], pl.Series]  # a mask of the texts that are not of this type
    form: str = ""  # of a date or time, as strptime has it
    narrower: TextType | None = None  # whose texts fit too, if their years are those of nanoseconds

    def fits(self, values: pl.Series) -> bool:
        return not self.unfit(values).any()

    def read_cells(self, texts: pl.Series) -> tuple[pl.Series, pl.Series | None]:
        """Return typed values, and a mask of the texts that are not of this type.

        The mask is None if all are. Missing words are missing values.
        """
        values = texts.alias("")  # methods of a series look for it by its name, as pl.col does
        wrong = None
        if not self.fits(values.drop_nulls()):
            values = values.to_frame().select(clean(named(""))).to_series()
            wrong = (self.unfit(values) & values.is_not_null()).fill_null(False)
        typed = values.to_frame().select(self.read(named(""))).to_series()
        return typed.alias(texts.name), wrong if wrong is not None and wrong.any() else None


class ColumnGuess:
    """The types that all values of a column have had so far."""

    def __init__(self, candidates: Iterable[TextType]) -> None:
        self.candidates = tuple(candidates)
        self.seen = False
        self.cleaned = False  # whether spaces or missing words had to be taken away

    @classmethod
    def of_parts(cls, guesses: Sequence[ColumnGuess]) -> ColumnGuess:
        """Return the types that all values of a column have had in every part of a table."""
        known = [guess for guess in guesses if guess.has_values]
        if not known:
            return guesses[0]
        joint = cls(c for c in known[0].candidates if all(c in g.candidates for g in known))
        joint.seen, joint.cleaned = True, any(guess.cleaned for guess in guesses)
        return joint

    def update(self, values: pl.Series) -> None:
        """Take the next values (text, null where a field is empty) into account."""
        values = values.alias("")  # methods of a series look for it by its name, as pl.col does
        missing = values.null_count()
        if not self.candidates or missing == len(values):
            return
        values = values.drop_nulls() if missing else values
        if not self.seen:  # a look at a few values rules most types out
            some = [text for v in values.head(20) if (text := v.strip(" \t")) not in MISSING_WORDS]
            # Python keeps compiled patterns, polars compiles them at each call
            looks = [c for c in self.candidates if all(re.fullmatch(c.pattern, v) for v in some)]
            self.candidates = tuple(looks)
            if not self.candidates:
                return
        left = _fitting(self.candidates, values)
        if not left:
            cleaned = values.to_frame().select(clean(named(values.name)))
            values, self.cleaned = cleaned.to_series().drop_nulls(), True
            if values.is_empty():
                return
            left = _fitting(self.candidates, values)
        self.seen, self.candidates = True, left

    @property
    def has_values(self) -> bool:
        return self.seen or not self.candidates

    @property
    def result(self) -> TextType | None:
        """The type of the column; None if it is text, or could be two kinds of date."""
        if not self.seen or not self.candidates:
            return None
        first = self.candidates[0]
        ambiguous = {"%d/%m", "%m/%d"} <= {c.form[:5] for c in self.candidates}
        return None if ambiguous else first

    @property
    def parsed_as(self) -> pl.DataType:
        """The type that a parser of text may give the column itself, which is faster."""
        plain = self.result is not None and self.result.name in ("integer", "decimal")
        return self.result.dtype if self.result and plain and not self.cleaned else pl.String()

    def expression(self, name: str) -> pl.Expr:
        column = named(name)
        if self.result is None:
            return column
        return self.result.read(clean(column) if self.cleaned else column)


def named(name: str) -> pl.Expr:
    """Return the column of exactly this name: ``pl.col`` takes ``*`` and ``^...$`` for patterns."""
    return by_name(name).as_expr()


def clean(column: pl.Expr) -> pl.Expr:
    """Strip surrounding spaces; words for missing become null."""
    stripped = column.str.strip_chars(" \t")
    return pl.when(~stripped.is_in(MISSING_WORDS)).then(stripped)


def _fitting(candidates: tuple[TextType, ...], values: pl.Series) -> tuple[TextType, ...]:
    left: list[TextType] = []
    for candidate in candidates:
        # texts that begin with a year, within 64 bits of nanoseconds
        known = candidate.narrower in left and str(values.min()) >= "1678"
        if (known and str(values.max()) < "2262") or candidate.fits(values):
            left.append(candidate)
    return tuple(left)


_ODD_INTEGER, _ODD_DECIMAL = r"^(?:\+|-?0[0-9]|-0$)", r"^(?:\+|-?0[0-9])"


def _unfit_integers(values: pl.Series) -> pl.Series:
    wrong = values.cast(pl.Int64, strict=False).is_null()
    return wrong | values.str.contains(_ODD_INTEGER)


def _unfit_decimals(values: pl.Series) -> pl.Series:
    numbers = values.cast(pl.Float64, strict=False)
    wrong = numbers.is_null() | values.str.contains(_ODD_DECIMAL)
    large = numbers.abs() >= _EXACT
    if large.any():  # more digits than a number keeps
        whole, infinite = values.str.contains(r"^-?[0-9]+$"), numbers.is_infinite()
        wrong |= large & (whole | (infinite & values.str.contains("[0-9]")))
    return wrong


def _unfit_decimals_with_comma(values: pl.Series) -> pl.Series:
    odd = ~values.str.contains(r"^-?[0-9]+(?:,[0-9]+)?$")
    return odd | _unfit_decimals(values.str.replace(",", ".", literal=True))


def _temporal(
    name: str, dtype: Any, pattern: str, form: str, narrower: TextType | None = None
) -> TextType:
    def read(column: pl.Expr) -> pl.Expr:
        return column.str.strptime(dtype, form, strict=False)

    def unfit(values: pl.Series) -> pl.Series:
        wrong = ~values.str.contains(f"^(?:{pattern})$")
        if wrong.all():
            return wrong
        return wrong | values.alias("v").to_frame().select(read(pl.col("v"))).to_series().is_null()

    return TextType(name, dtype, pattern, read, unfit, form, narrower)


_YEAR = r"(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"  # the year 0 does not exist


def _time_stamps() -> list[TextType]:
    made: dict[tuple[str, str], TextType] = {}
    for unit, digits in (("us", 6), ("ns", 9)):
        for gap in "T ":
            for clock, form in (
                (rf"[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]{{1,{digits}}})?", "%H:%M:%S%.f"),
                ("[0-9]{2}:[0-9]{2}", "%H:%M"),
            ):
                for zone, offset, mark in (
                    (None, "", ""),
                    ("UTC", "(?:Z|[+-][0-9]{2}:?[0-9]{2})", "%#z"),
                ):
                    dtype = pl.Datetime(unit, zone)  # type: ignore[arg-type]
                    pattern = f"{_YEAR}-[0-9]{{2}}-[0-9]{{2}}{gap}{clock}{offset}"
                    name, whole = f"time stamp {gap}{form}{mark}", f"%Y-%m-%d{gap}{form}{mark}"
                    finer = made.get(("us", name))
                    made[unit, name] = _temporal(name, dtype, pattern, whole, finer)
    return list(made.values())


# days as people write them
_WRITTEN = (
    ("date", f"{_YEAR}/[0-9]{{1,2}}/[0-9]{{1,2}}", "%Y/%m/%d"),
    ("date", rf"[0-9]{{1,2}}\.[0-9]{{1,2}}\.{_YEAR}", "%d.%m.%Y"),
    ("day/month", f"[0-9]{{1,2}}/[0-9]{{1,2}}/{_YEAR}", "%d/%m/%Y"),
    ("month/day", f"[0-9]{{1,2}}/[0-9]{{1,2}}/{_YEAR}", "%m/%d/%Y"),
)


def _written_time_stamps() -> list[TextType]:
    """Return the types of written dates with a time, on a 24-hour clock or with AM and PM."""
    minutes, seconds = "[0-9]{1,2}:[0-9]{2}", "[0-9]{1,2}:[0-9]{2}:[0-9]{2}"
    clocks = (
        (rf"{seconds}(?:\.[0-9]{{1,6}})?", "%H:%M:%S%.f"),
        (minutes, "%H:%M"),
        (f"{seconds} [AaPp][Mm]", "%I:%M:%S %p"),
        (f"{minutes} [AaPp][Mm]", "%I:%M %p"),
    )
    return [
        _temporal(f"time stamp {day} {time}", pl.Datetime("us"), f"{date} {clock}", f"{day} {time}")
        for _, date, day in _WRITTEN
        for clock, time in clocks
    ]


_DATE = pl.Date()
TEMPORAL = (
    _temporal("date", _DATE, f"{_YEAR}-[0-9]{{2}}-[0-9]{{2}}", "%Y-%m-%d"),
    *_time_stamps(),
    _temporal("time", pl.Time(), r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?", "%H:%M:%S%.f"),
)
ALL = (
    TextType(
        "integer", pl.Int64(), _NUMBER, lambda c: c.cast(pl.Int64, strict=False), _unfit_integers
    ),
    TextType(
        "decimal",
        pl.Float64(),
        _NUMBER,
        lambda c: c.cast(pl.Float64, strict=False),
        _unfit_decimals,
    ),
    TextType(
        "boolean",
        pl.Boolean(),
        "(?i)true|false",
        lambda c: c.str.to_lowercase() == pl.lit("true"),
        lambda values: ~values.str.to_lowercase().is_in(["true", "false"]),
    ),
    *TEMPORAL,
    *(_temporal(name, _DATE, pattern, form) for name, pattern, form in _WRITTEN),
    _temporal("time", pl.Time(), "[0-9]{2}:[0-9]{2}", "%H:%M"),
    *_written_time_stamps(),  # the last ones: states of streams know types by their place
)
# where fields are separated by semicolons, decimals are written with a comma
WITH_COMMA = TextType(
    "decimal comma",
    pl.Float64(),
    "-?[0-9]+(?:,[0-9]+)?",
    lambda c: c.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False),
    _unfit_decimals_with_comma,
)

# The type of a column where only initial records were judged: it is saved with the state of a
# stream, and a policy may say what it is. None stands for text, as in a guess.

_PLAIN = {found.name: found for found in (*ALL[:3], WITH_COMMA)}


def saved_type(found: TextType | None) -> tuple[str, int]:
    """Return what :func:`restored_type` needs; of a date or time its place in ``ALL``."""
    if found is None:
        return "text", -1
    return found.name, -1 if found.name in _PLAIN else ALL.index(found)


def restored_type(name: str, place: int) -> TextType | None:
    """Return the type that was saved; this version of Tulle may not have it."""
    found = ALL[place] if 0 <= place < len(ALL) else _PLAIN.get(name)
    if name != ("text" if found is None else found.name):
        raise DataError("the state was written by another version of Tulle: its types are unknown")
    return found


def declared_type(kind: Kind | None, guessed: TextType | None) -> TextType | None:
    """Return the type that a policy asks for; dates come in many forms, so they stay as guessed."""
    if kind is None or kind is Kind.DATETIME or (kind is Kind.DECIMAL and guessed is WITH_COMMA):
        return guessed
    return _PLAIN.get(kind.value)  # None, which is text, for categories and words
