"""Dates as people write them: several forms in one column, two-digit years, impossible days.

Every form that occurs is read; what no form reads is counted and is a state of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

_YEAR = "[12][0-9]{3}"
_DAY = "[0-9]{1,2}"
_SHORT = "[0-9]{2}"
_MONTHS = r"\p{L}{3,10}"
_CLOCKS = (
    (r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?", "%H:%M:%S%.f"),
    ("[0-9]{1,2}:[0-9]{2}", "%H:%M"),
    ("[0-9]{1,2}:[0-9]{2}:[0-9]{2} ?[AaPp][Mm]", "%I:%M:%S %p"),
    ("[0-9]{1,2}:[0-9]{2} ?[AaPp][Mm]", "%I:%M %p"),
)
# form of a day, its pattern; two-digit years are written %y
_DAYS = (
    ("%Y-%m-%d", f"{_YEAR}-{_DAY}-{_DAY}"),
    ("%d.%m.%Y", rf"{_DAY}\.{_DAY}\.{_YEAR}"),
    ("%d.%m.%y", rf"{_DAY}\.{_DAY}\.{_SHORT}"),
    ("%d/%m/%Y", f"{_DAY}/{_DAY}/{_YEAR}"),
    ("%m/%d/%Y", f"{_DAY}/{_DAY}/{_YEAR}"),
    ("%d/%m/%y", f"{_DAY}/{_DAY}/{_SHORT}"),
    ("%m/%d/%y", f"{_DAY}/{_DAY}/{_SHORT}"),
    ("%d-%m-%Y", f"{_DAY}-{_DAY}-{_YEAR}"),
    ("%m-%d-%Y", f"{_DAY}-{_DAY}-{_YEAR}"),
    ("%Y/%m/%d", f"{_YEAR}/{_DAY}/{_DAY}"),
    ("%Y.%m.%d", rf"{_YEAR}\.{_DAY}\.{_DAY}"),
    ("%d %b %Y", rf"{_DAY}[ -]{_MONTHS}[ -]{_YEAR}"),
    ("%d.%b %Y", rf"{_DAY}\. ?{_MONTHS} {_YEAR}"),
    ("%b %d %Y", rf"{_MONTHS} {_DAY},? {_YEAR}"),
    ("%d %b %y", rf"{_DAY}[ -]{_MONTHS}[ -]{_SHORT}"),
)
_NEVER = 10_000  # years away
_ENOUGH = 20  # different dates whose years tell which ones are to be expected
_TWINS = {"%m/%d/%Y": "%d/%m/%Y", "%m/%d/%y": "%d/%m/%y", "%m-%d-%Y": "%d-%m-%Y"}
# months in other languages, by their first three letters
_MONTH_WORDS = {
    "mai": "May", "okt": "Oct", "dez": "Dec", "mrz": "Mar", "mär": "Mar", "ene": "Jan",
    "abr": "Apr", "ago": "Aug", "dic": "Dec", "gen": "Jan", "mag": "May", "giu": "Jun",
    "lug": "Jul", "set": "Sep", "ott": "Oct", "mei": "May", "maa": "Mar", "fév": "Feb",
    "fev": "Feb", "avr": "Apr", "aoû": "Aug", "déc": "Dec", "out": "Oct",
}  # fmt: skip


_Found = tuple[str, pl.Series]


@dataclass(frozen=True)
class DateReading:
    """What a text column is, read as dates or points in time.

    Parameters
    ----------
    values : dates or time stamps, null where a text is none
    formats : the forms that occur (as strftime has them), the commonest first, with the number
        of texts of each
    years : the first and last year to expect, which tell the century of two-digit years
    ambiguous : how many texts may have day and month in either order, with nothing in the column
        to tell
    """

    values: pl.Series
    formats: tuple[tuple[str, int], ...]
    ambiguous: int
    years: tuple[int, int]

    @property
    def format(self) -> str:
        """Return the format to write dates back in: the most common one."""
        return self.formats[0][0]


def read_dates(texts: pl.Series, *, latest: int = 2030) -> DateReading | None:
    """Read a text column as dates, in all forms that its texts have.

    Years of two digits lie in the hundred years up to ``latest``, or nearest to the years of four
    digits in the column. None if no text is a date.

    Examples
    --------
    >>> born = pl.Series("born", ["03.11.1961", "1987-02-28", "04.01.1950", "14.07.62", "0.0.0000"])
    >>> reading = read_dates(born)
    >>> reading.values.dt.year().to_list(), [form for form, _ in reading.formats]
    ([1961, 1987, 1950, 1962, None], ['%d.%m.%Y', '%Y-%m-%d', '%d.%m.%y'])
    """
    counted = texts.drop_nulls().alias("text").value_counts(name="n", sort=True)
    plausible = counted.filter(pl.col("text").str.contains(r"[0-9].*[./\- ].*[0-9]"))
    if plausible.is_empty():
        return None
    forms = _forms() if plausible["text"].str.contains(":", literal=True).any() else _DAYS
    found = [one for form, pattern in forms if (one := _matching(plausible, form, pattern))]
    found, ambiguous = _without_twins(found, plausible)
    if not found:
        return None
    found.sort(key=lambda one: -_held(plausible, one[1]))
    expected = _expected_years(found, latest)
    values, counts = _first_that_reads(found, expected, plausible["n"])
    table = plausible.select("text").with_columns(value=values)
    if not any(_has_clock(form) for form in counts):
        table = table.with_columns(pl.col("value").cast(pl.Date))
    joined = (
        texts.alias("text").to_frame().join(table, on="text", how="left", maintain_order="left")
    )
    formats = sorted(((f, n) for f, n in counts.items() if n), key=lambda one: -one[1])
    return DateReading(joined["value"].alias(texts.name), tuple(formats), ambiguous, expected)


def parse_dates(texts: pl.Series, forms: Sequence[str], years: tuple[int, int]) -> pl.Series:
    """Read texts in forms that are known already; null where none of them fits.

    >>> parse_dates(pl.Series(["3.11.61", "soon"]), ["%d.%m.%y"], (1930, 2029)).to_list()
    [datetime.datetime(1961, 11, 3, 0, 0), None]
    """
    counted = texts.alias("text").to_frame()
    patterns = dict(_forms())
    read = [_matching(counted, form, patterns.get(form, ".*")) for form in forms]
    found = [one for one in read if one is not None]
    return _first_that_reads(found, years, pl.Series([1] * len(texts), dtype=pl.Int64))[0]


def _first_that_reads(
    found: Sequence[_Found], years: tuple[int, int], rows: pl.Series
) -> tuple[pl.Series, dict[str, int]]:
    """Return what the first form reads that reads a text, and how many rows each form reads."""
    values = pl.Series([None] * len(rows), dtype=pl.Datetime("us"))
    counts: dict[str, int] = {}
    for form, read in found:
        whole = _with_century(read, years) if "%y" in form else read
        new = values.is_null() & whole.is_not_null()
        values = values.zip_with(~new, whole)
        counts[form] = int(rows.filter(new).sum())
    return values, counts


def read_whole_dates(numbers: pl.Series) -> pl.Series | None:
    """Read whole numbers such as 20240131 as dates; None if one of them is not a date."""
    present = numbers.drop_nulls()
    if present.is_empty() or not present.is_between(19000101, 20991231).all():
        return None
    dates = numbers.cast(pl.String).str.strptime(pl.Date, "%Y%m%d", strict=False)
    return None if dates.null_count() > numbers.null_count() else dates


# -- forms ------------------------------------------------------------------------------------


def _forms() -> list[tuple[str, str]]:
    stamped = [
        (f"{day}{gap}{clock}", f"{pattern}{gap}{time}")
        for day, pattern in _DAYS
        for gap in (" ", "T")
        for time, clock in _CLOCKS
        if gap == " " or day == "%Y-%m-%d"
    ]
    return [*_DAYS, *stamped]


def _matching(counted: pl.DataFrame, form: str, pattern: str) -> _Found | None:
    """Read the texts that look like one form; None if no text does."""
    looks = counted["text"].str.contains(f"^{pattern}$")
    if not looks.any():
        return None
    texts = counted["text"].to_frame().select(pl.when(looks).then(pl.col("text"))).to_series()
    if "%b" in form:
        texts = _english_months(texts)
        form_read = form.replace("%d.%b", "%d %b")
    else:
        form_read = form
    whole = form_read if _has_clock(form) else f"{form_read} %H:%M"
    padded = texts if whole == form_read else texts + " 00:00"
    stamps = padded.str.strptime(pl.Datetime("us"), whole, strict=False)
    return (form, stamps) if stamps.null_count() < len(stamps) else None


def _has_clock(form: str) -> bool:
    return "%H" in form or "%I" in form


def _english_months(texts: pl.Series) -> pl.Series:
    texts = texts.str.to_lowercase().str.replace_all(r"[.,\- ]+", " ")
    texts = texts.str.replace(r"(\p{L}{3})\p{L}*", "${1}")
    return texts.str.replace_many(list(_MONTH_WORDS), list(_MONTH_WORDS.values()))


def _without_twins(found: list[_Found], counted: pl.DataFrame) -> tuple[list[_Found], int]:
    """Decide between day/month and month/day by the texts that only one of them reads."""
    reads, ambiguous = dict(found), 0
    for form in list(reads):
        twin = next((form.replace(m, d) for m, d in _TWINS.items() if m in form), None)
        if twin is None or twin not in reads:
            continue
        month_first, day_first = _held(counted, reads[form]), _held(counted, reads[twin])
        both = reads[form].is_not_null() & reads[twin].is_not_null()
        if month_first == day_first and both.any():
            ambiguous += int(counted["n"].filter(both).sum())
        del reads[form if day_first >= month_first else twin]
    return list(reads.items()), ambiguous


def _held(counted: pl.DataFrame, read: pl.Series) -> int:
    return int(counted["n"].filter(read.is_not_null()).sum())


def _expected_years(found: list[_Found], latest: int) -> tuple[int, int]:
    """Return the years of four digits if enough dates have them, else a hundred years."""
    years = [read.dt.year().drop_nulls() for form, read in found if "%Y" in form]
    known = pl.concat(years) if years else pl.Series([], dtype=pl.Int32)
    if len(known) < _ENOUGH:
        return latest - 99, latest
    first, last = int(known.min()), int(known.max())  # type: ignore[arg-type]
    return first // 10 * 10, last // 10 * 10 + 9  # decades: the very first year is somebody's


def _with_century(read: pl.Series, expected: tuple[int, int]) -> pl.Series:
    """Move dates with two-digit years into the century that brings them nearest to the others."""
    rest = read.dt.strftime("-%m-%d %H:%M:%S")
    best = pl.DataFrame({"at": read.clear(), "far": pl.Series([], dtype=pl.Int32)})
    best = pl.DataFrame({"at": [None] * len(read), "far": [_NEVER] * len(read)}, schema=best.schema)
    for century in (0, -100, 100):
        year = read.dt.year() + century
        far = pl.max_horizontal(pl.lit(expected[0]) - year, year - expected[1], pl.lit(0))
        moved = (year.cast(pl.String) + rest).str.strptime(
            pl.Datetime("us"), "%Y-%m-%d %H:%M:%S", strict=False
        )
        tried = pl.select(at=moved, far=pl.when(moved.is_null()).then(_NEVER).otherwise(far))
        nearer = (tried["far"] < best["far"]).fill_null(False)
        best = best.select(
            at=best["at"].zip_with(~nearer, tried["at"]),
            far=best["far"].zip_with(~nearer, tried["far"].cast(pl.Int32)),
        )
    return best["at"]
