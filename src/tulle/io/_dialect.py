"""How a CSV file is written, so that a release is written the same way.

Separator, quotes, line ends and encoding of the file, and the form of each column: decimal comma,
days before months, ``TRUE``. None of it is a value of the table; a form is judged by the first
records, and writing by it never rounds what they did not have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from tulle.errors import DataError
from tulle.io._text_types import MISSING_WORDS, ColumnGuess, TextType, clean, named
from tulle.table._date_format import write_dates, written_form

SOME = 2000  # records by which the form of a column is judged
_FRACTION = re.compile(r"%\.[0-9]?f")


@dataclass(frozen=True)
class ColumnForm:
    """How the cells of a column are written.

    Parameters
    ----------
    form : of dates and times as strftime has it, of booleans the word for true, of numbers a zero
        with its decimal mark and the decimals that every number has
    missing : the word for a missing value
    quoted : whether ``values`` or ``all`` fields are quoted, else only where it is needed
    """

    form: str = ""
    missing: str = ""
    quoted: str = ""

    def texts(self, series: pl.Series) -> pl.Series:
        """Return cells as they are written, without quotes; null stays null."""
        dtype = series.dtype
        if dtype == pl.Boolean:
            return _spelled(series, self.form if self.form.lower() == "true" else "true")
        if dtype in (pl.Date, pl.Datetime, pl.Time):
            return _timed(series, self.form if "%" in self.form else _plain_form(dtype))
        if dtype.is_float() and self.form[:1] == "0" and self.form != "0.0":  # which polars writes
            return _decimal(series, self.form)
        return series.cast(pl.String)


@dataclass(frozen=True)
class Dialect:
    separator: str = ","
    line_end: str = "\n"
    encoding: str = "utf-8"
    mark: bool = False  # whether a byte order mark comes first
    quoted_header: bool = False
    columns: Mapping[str, ColumnForm] = field(default_factory=lambda: MappingProxyType({}))

    def lines(self, frame: pl.DataFrame, *, first: bool) -> bytes:
        """Return the records of a table as bytes of a file, after the header if they are first."""
        forms = [self.columns.get(name, ColumnForm()) for name in frame.columns]
        texts = pl.DataFrame(
            [form.texts(one).alias(f"c{i}") for i, (form, one) in enumerate(zip(forms, frame))]
        )
        cells = [
            self._field(form, pl.col(f"c{i}"), words=one.dtype == pl.String)
            for i, (form, one) in enumerate(zip(forms, frame))
        ]
        lines = texts.select(pl.concat_str(cells, separator=self.separator)).to_series()
        head = [self._header(frame.columns)] if first else []
        text = "".join(line + self.line_end for line in (*head, *lines.to_list()))
        try:
            return ("\ufeff" * (first and self.mark) + text).encode(self.encoding)
        except UnicodeEncodeError:
            raise DataError(
                f"the release holds letters that the encoding of its source, {self.encoding}, does "
                "not have: write it with --plain, or as .parquet"
            ) from None

    def told(self, names: list[str]) -> dict[str, Any]:
        """Return what a manifest says of these columns and of the file."""
        forms = {name: self.columns[name].form for name in names if name in self.columns}
        words = {"\t": "tab", "\n": "LF", "\r\n": "CRLF"}
        return {
            "separator": words.get(self.separator, self.separator),
            "line ends": words[self.line_end],
            "encoding": self.encoding + (" with a byte order mark" if self.mark else ""),
            "forms": {name: form for name, form in forms.items() if form},
        }

    def _header(self, names: list[str]) -> str:
        odd = re.compile(r"[,;|\t\r\n\"]|^$")
        quote = (self.quoted_header or odd.search(name) for name in names)
        return self.separator.join(
            '"' + name.replace('"', '""') + '"' if with_quotes else name
            for name, with_quotes in zip(names, quote)
        )

    def _field(self, form: ColumnForm, cell: pl.Expr, *, words: bool) -> pl.Expr:
        """Return a field, in quotes where the file has them or a reader needs them."""
        quoted = '"' + cell.str.replace_all('"', '""', literal=True) + '"'
        bare = ~cell.str.contains(f'[{self.separator}"\r\n]') & (cell != "")
        needed = pl.when(bare).then(cell).otherwise(quoted) if words else cell
        found = quoted if form.quoted else needed
        missing = f'"{form.missing}"' if form.quoted == "all" else form.missing
        return found.fill_null(pl.lit(missing))


def dialect_of(
    texts: pl.DataFrame, firsts: np.ndarray, guesses: Mapping[str, ColumnGuess], **file: Any
) -> Dialect:
    """Return how a file is written, by its first records as text and the first bytes of fields."""
    columns = {
        name: ColumnForm(*_form_of(texts[name], guess), _quoting(firsts[:, place]))
        for place, (name, guess) in enumerate(guesses.items())
    }
    return Dialect(**file, columns=MappingProxyType(columns))


def _quoting(firsts: np.ndarray) -> str:
    """Tell whether fields are quoted, by their first bytes; 0 is an empty field."""
    quotes = firsts == ord('"')
    if not quotes.any() or not (quotes | (firsts == 0)).all():
        return ""
    return "all" if quotes.all() else "values"


def _form_of(texts: pl.Series, guess: ColumnGuess) -> tuple[str, str]:
    found = guess.result
    if found is None:
        return "", ""
    words = texts.to_frame().select(
        pl.when(clean(named(texts.name)).is_null()).then(named(texts.name).fill_null(""))
    )
    gone = words.to_series().drop_nulls().str.strip_chars(" \t")
    missing = str(gone.mode().sort()[0]) if len(gone) else ""
    assert missing in MISSING_WORDS
    present = texts.to_frame().select(clean(named(texts.name))).to_series().drop_nulls()
    return _form(present.unique(maintain_order=True), found), missing


def _form(texts: pl.Series, found: TextType) -> str:
    """Return the form that gives back most of these texts."""
    if found.dtype.is_float():
        mark = "," if texts.str.contains(",", literal=True).any() else "."
        digits = texts.str.extract(r"^-?[0-9]*(?:[.,]([0-9]+))?$").fill_null("")
        least = digits.str.len_bytes().min()
        return "0" + mark + "0" * (int(least) if isinstance(least, int) else 0)
    values = texts.alias("").to_frame().select(found.read(named(""))).to_series()
    if found.form:
        return written_form(found.form, texts, values)
    words = texts.filter(values) if found.dtype == pl.Boolean else texts[:0]
    return "" if words.is_empty() else str(words[0])


def _spelled(series: pl.Series, word: str) -> pl.Series:
    no = "FALSE" if word.isupper() else "False" if word.istitle() else "false"
    yes = pl.col("t")
    found = pl.when(yes).then(pl.lit(word)).when(~yes).then(pl.lit(no))
    return series.to_frame("t").select(found).to_series()


def _plain_form(dtype: Any) -> str:
    """Return the form of ISO 8601, with the digits that tell the type."""
    digits = {"ms": 3, "us": 6}.get(getattr(dtype, "time_unit", None) or "ns", 9)
    clock = f"%H:%M:%S%.{digits}f"
    if dtype == pl.Time:
        return clock
    zone = "%z" if getattr(dtype, "time_zone", None) else ""
    return "%Y-%m-%d" if dtype == pl.Date else f"%Y-%m-%dT{clock}{zone}"


def _timed(series: pl.Series, form: str) -> pl.Series:
    """Write dates and times; a fraction of a second stays if there is one."""
    if "%S" in form and _FRACTION.search(form) is None and (series.dt.nanosecond() != 0).any():
        form = form.replace("%S", "%S%.f")
    return write_dates(series, form)


def _decimal(series: pl.Series, form: str) -> pl.Series:
    """Write decimals with the mark and at least the decimals of a form."""
    mark, least = form[1], len(form) - 2
    texts = series.cast(pl.String)
    long = texts.str.contains("e", literal=True)
    if mark == "," and long.any():  # no reader knows a power of ten with a comma
        plain = [None if x is None else f"{x:.20f}".rstrip("0").rstrip(".") for x in series]
        texts = texts.zip_with(~long, pl.Series(plain, dtype=pl.String))
    cell = pl.col("t")
    parts = cell.str.extract_groups(r"^(-?[0-9]+)\.([0-9]+)$")
    digits = parts.struct.field("2").str.replace("^0$", "").str.pad_end(least, "0")
    whole = parts.struct.field("1")
    joined = pl.when(digits == "").then(whole).otherwise(whole + mark + digits)
    return texts.to_frame("t").select(joined.fill_null(cell)).to_series()
