"""Numbers as people write them: ``1.360,00 €``, ``52%``, ``$1,234.50``, ``(12.00)``.

A form is found from all values of a text column, reads them as numbers, and writes numbers back
the same way. Reading is exact: what is not read in full is counted, never guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

import polars as pl

from tulle.table._words import vocabulary

_EXACT = 2**53  # whole numbers up to here are exact as floating point numbers
_MINUS = "[-\u2212]"
_SPACES = "[ \u00a0\u202f]?"
# Thousands and decimal separators that occur together; plain forms first, they win ties.
_SEPARATORS = (
    ("", "."),
    ("", ","),
    (",", "."),
    (".", ","),
    (" ", ","),
    ("\u00a0", ","),
    ("\u202f", ","),
    (" ", "."),
    ("'", "."),
    ("\u2019", "."),
)
_MOST_FORMS = 6  # in one column


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written.

    Parameters
    ----------
    prefix, suffix : what stands before and after the digits, with its space
    thousands, decimal : separators; no thousands separator if it is empty
    decimals : digits behind the decimal separator; None if there are as many as needed
    negative : ``"-1"``, ``"1-"``, ``"(1)"`` (around prefix and suffix) or ``"$-1"``
    """

    prefix: str = ""
    suffix: str = ""
    thousands: str = ""
    decimal: str = "."
    decimals: int | None = None
    negative: str = "-1"

    @property
    def plain(self) -> bool:
        """Whether a machine would write numbers this way."""
        bare = not (self.prefix or self.suffix or self.thousands)
        return bare and self.decimal == "." and self.negative == "-1"

    @property
    def says(self) -> str:
        """Describe the format in words."""
        mark = f"{self.prefix}{self.suffix}".strip()
        parts = ["per cent"] if mark == "%" else [f"'{mark}'"] if mark else []
        if self.thousands:
            parts.append("thousands separators")
        if self.decimal == "," and self.decimals != 0:
            parts.append("decimal commas")
        return ", ".join(parts)

    @property
    def example(self) -> str:
        """A number in this format, for a policy; ``*`` stands for any number of digits."""
        digits = 2 if self.decimals is None else self.decimals
        value = 1234567 + round(0.891234567891, digits)
        shown = replace(self, decimals=digits)._text(value if self.negative == "-1" else -value)
        return shown if self.decimals is not None else shown.replace("89", "8*")

    @classmethod
    def from_example(cls, text: str) -> NumberFormat:
        """Return the form that an example shows.

        >>> NumberFormat.from_example("1.234.567,89 €").example
        '1.234.567,89 €'
        """
        reading = read_numbers(pl.Series([text.replace("*", "9")]))
        if reading is None:
            raise ValueError("the example of a number format must be a number")
        return replace(reading.format, decimals=None) if "*" in text else reading.format

    def pattern(self) -> str:
        """Return the regular expression of all texts in this form."""
        whole = "(?:0|[1-9][0-9]*)"
        if self.thousands:
            group = re.escape(self.thousands)
            whole = f"(?:0|[1-9][0-9]{{0,2}}(?:{group}[0-9]{{3}})*)"
        point = re.escape(self.decimal)
        digits = {None: f"(?:{point}[0-9]*[1-9])?", 0: ""}.get(
            self.decimals, f"{point}[0-9]{{{self.decimals}}}"
        )
        before, after = re.escape(self.prefix), re.escape(self.suffix)
        return "^" + _signed(self.negative, before, whole + digits, after) + "$"

    def parse(self, texts: pl.Series) -> pl.Series:
        """Read texts as floating point numbers; null where a text is not in this form."""
        name = texts.name
        column = texts.alias("text").to_frame()
        fits = pl.col("text").str.contains(self.pattern())
        negative = pl.col("text").str.contains(r"^\(|[-\u2212]")
        digits = pl.col("text").str.replace_all(f"[^0-9{re.escape(self.decimal)}]", "")
        if any(self.decimal in mark for mark in (self.prefix, self.suffix)):
            inner = f"{re.escape(self.prefix)}([0-9].*?){re.escape(self.suffix)}[-)\u2212]*$"
            digits = (
                pl.col("text")
                .str.extract(inner)
                .str.replace_all(f"[^0-9{re.escape(self.decimal)}]", "")
            )
        value = digits.str.replace(self.decimal, ".", literal=True).cast(pl.Float64, strict=False)
        signed = pl.when(negative & (value != 0)).then(-value).otherwise(value)
        return column.select(pl.when(fits).then(signed).alias("text")).to_series().alias(name)

    def format(self, numbers: pl.Series) -> pl.Series:
        """Write numbers in this form; null stays null."""
        values = numbers.cast(pl.Float64)
        different = values.drop_nulls().unique()
        texts = pl.Series([self._text(value) for value in different.to_list()], dtype=pl.String)
        return values.replace_strict(different, texts, default=None, return_dtype=pl.String)

    def _text(self, value: float) -> str:
        size = abs(value)
        if self.decimals is None:
            body = f"{size:.0f}" if size == int(size) else _shortest(size)
        else:
            body = f"{size:.{self.decimals}f}"
        whole, _, digits = body.partition(".")
        if self.thousands:
            whole = f"{int(whole):,}".replace(",", self.thousands)
        body = whole + (self.decimal + digits if digits else "")
        if value >= 0 or not any(letter in "123456789" for letter in body):
            return f"{self.prefix}{body}{self.suffix}"
        return {
            "-1": f"-{self.prefix}{body}{self.suffix}",
            "$-1": f"{self.prefix}-{body}{self.suffix}",
            "1-": f"{self.prefix}{body}{self.suffix}-",
            "(1)": f"({self.prefix}{body}{self.suffix})",
        }[self.negative]


@dataclass(frozen=True)
class NumberReading:
    """What a text column is, read as numbers.

    Parameters
    ----------
    values : numbers, null where a text is none
    formats : the forms that occur, the commonest first, with the number of texts of each
    """

    values: pl.Series
    formats: tuple[tuple[NumberFormat, int], ...]

    @property
    def format(self) -> NumberFormat:
        """The format to write numbers back in: the most common one."""
        return self.formats[0][0]

    @property
    def other_forms(self) -> int:
        """Count the texts written in another format than the most common one."""
        return sum(count for _, count in self.formats[1:])


def read_numbers(texts: pl.Series) -> NumberReading | None:
    """Read a text column as numbers, in the forms that its texts have.

    None if hardly any text is a number. Texts with leading zeros or a plus are codes.

    Examples
    --------
    >>> bills = pl.Series("bill", ["1.360,00 €", "-5,50 €", "k.A.", "12,00 €"])
    >>> reading = read_numbers(bills)
    >>> reading.values.to_list(), reading.format.suffix, reading.format.decimals
    ([1360.0, -5.5, None, 12.0], ' €', 2)
    >>> reading.format.format(reading.values).to_list()
    ['1.360,00 €', '-5,50 €', None, '12,00 €']
    """
    counted = texts.drop_nulls().alias("text").value_counts(name="n")
    counted = counted.filter(pl.col("text").str.contains("[0-9]"))
    values = pl.Series("value", [None] * len(counted), dtype=pl.Float64)
    formats: list[tuple[NumberFormat, int]] = []
    left = counted
    while len(left) and len(formats) < _MOST_FORMS:
        found = _commonest_format(left, formats[0][0] if formats else None)
        if found is None:
            break
        read = found.parse(counted["text"])
        new = values.is_null() & read.is_not_null()
        values = values.zip_with(~new, read)
        formats.append((found, int(counted["n"].filter(new).sum())))
        left = counted.filter(values.is_null())
    if not formats:
        return None
    table = counted.select("text").with_columns(value=values)
    joined = (
        texts.alias("text").to_frame().join(table, on="text", how="left", maintain_order="left")
    )
    ordered = sorted(formats, key=lambda pair: -pair[1])
    return NumberReading(joined["value"].alias(texts.name), tuple(ordered))


# -- finding the form -------------------------------------------------------------------------


def _commonest_format(counted: pl.DataFrame, first: NumberFormat | None) -> NumberFormat | None:
    """Return the form of most of these texts, or None if none is a number."""
    parts = (
        counted.select("n", pl.col("text").str.extract_groups(_marked()).alias("part"))
        .unnest("part")
        .drop_nulls("body")
    )
    if parts.is_empty():
        return None
    marks = parts.group_by("prefix", "suffix", maintain_order=True).agg(pl.col("n").sum())
    top = marks.sort("n", "prefix", "suffix", descending=[True, False, False]).row(0, named=True)
    same = parts.filter(prefix=top["prefix"], suffix=top["suffix"])
    separators = _separators_of(same["body"], same["n"], first)
    if separators is None:
        return None
    found = NumberFormat(top["prefix"], top["suffix"], *separators)
    found = replace(found, negative=_negative_of(same))
    fits = same.filter(pl.col("body").str.contains(_body_pattern(*separators)))
    return replace(found, decimals=_decimals_of(fits["body"], fits["n"], separators[1]))


@cache
def _marked() -> str:
    """Return the pattern of a number with a sign and marks around it."""
    words = vocabulary()
    before = "|".join(re.escape(mark) for mark in _longest_first(words.currencies))
    after = "|".join(re.escape(m) for m in _longest_first((*words.units, *words.currencies)))
    sign = f"(?P<before>{_MINUS}|\\()?"
    body = "(?P<body>(?:[0-9][0-9.,' \u00a0\u202f\u2019]*)?[0-9])"
    tail = f"(?P<suffix>(?:{_SPACES}(?:{after}))?)(?P<after>{_MINUS}|\\))?"
    return f"^{sign}(?P<prefix>(?:(?:{before}){_SPACES})?)(?P<inner>{_MINUS})?{body}{tail}$"


def _longest_first(marks: tuple[str, ...]) -> list[str]:
    return sorted(set(marks), key=lambda mark: (-len(mark), mark))


def _body_pattern(thousands: str, decimal: str) -> str:
    whole = "(?:0|[1-9][0-9]*)"
    if thousands:
        whole = f"(?:0|[1-9][0-9]{{0,2}}(?:{re.escape(thousands)}[0-9]{{3}})*)"
    return f"^{whole}(?:{re.escape(decimal)}[0-9]+)?$"


def _separators_of(
    bodies: pl.Series, counts: pl.Series, first: NumberFormat | None
) -> tuple[str, str] | None:
    """Return the separators that most texts fit, those of the first form if they fit as many."""
    fitting = {pair: bodies.str.contains(_body_pattern(*pair)) for pair in _SEPARATORS}
    shares = {pair: int(counts.filter(fits).sum()) for pair, fits in fitting.items()}
    most = max(shares.values())
    if not most:
        return None
    best = [pair for pair in _SEPARATORS if shares[pair] == most]
    if first is not None and (first.thousands, first.decimal) in best:
        return first.thousands, first.decimal
    grouped = [pair for pair in best if pair[0] and _is_grouped(bodies, pair[0])]
    return grouped[0] if grouped else best[0]


def _is_grouped(bodies: pl.Series, thousands: str) -> bool:
    """Return whether a separator separates thousands and not decimals: ``1.360`` next to ``980``.

    Decimals are seldom three all through, and numbers without any seldom stay below 1000.
    """
    parted = bodies.str.contains(thousands, literal=True)
    if bodies.str.contains(f"{re.escape(thousands)}[0-9]{{3}}{re.escape(thousands)}").any():
        return True
    small = bodies.filter(~parted).str.contains("^[0-9]{1,3}$")
    return bool(parted.any() and len(small) and small.all())


def _decimals_of(bodies: pl.Series, counts: pl.Series, decimal: str) -> int | None:
    """Return how many decimals texts have: a number of digits, or None for as many as needed."""
    digits = bodies.str.extract(f"{re.escape(decimal)}([0-9]+)$").fill_null("")
    table = pl.DataFrame({"size": digits.str.len_bytes(), "zero": digits.str.ends_with("0")})
    shortest = int(counts.filter(~table["zero"]).sum())  # written without a needless zero
    by_size = table.with_columns(n=counts).group_by("size").agg(pl.col("n").sum())
    size, most = by_size.sort("n", "size", descending=True).row(0)
    return int(size) if most >= shortest else None


def _negative_of(parts: pl.DataFrame) -> str:
    """Return how the sign is written, of most texts that have one."""
    forms = {
        "(1)": parts["before"] == "(",
        "1-": parts["after"].is_not_null() & (parts["after"] != ")"),
        "$-1": parts["inner"].is_not_null() & (parts["prefix"] != ""),
    }
    counts = {form: int(parts["n"].filter(has).sum()) for form, has in forms.items()}
    best = max(counts, key=lambda form: counts[form])
    before = int(parts["n"].filter(parts["before"].is_in(["-", "\u2212"])).sum())
    return best if counts[best] > before else "-1"


def _signed(negative: str, before: str, body: str, after: str) -> str:
    """Return the pattern of a number with or without its sign."""
    return {
        "-1": f"{_MINUS}?{before}{body}{after}",
        "$-1": f"{before}{_MINUS}?{body}{after}",
        "1-": f"{before}{body}{after}{_MINUS}?",
        "(1)": f"(?:{before}{body}{after}|\\({before}{body}{after}\\))",
    }[negative]


def _shortest(size: float) -> str:
    """Write a number with as many decimals as it needs, never with an exponent."""
    text = repr(size)
    if "e" not in text:
        return text.removesuffix(".0")
    return f"{size:.20f}".rstrip("0").rstrip(".")
