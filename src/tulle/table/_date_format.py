"""Dates and times as people write them: several forms in one column, two-digit years, impossible
days.

Every form that occurs is read; what no form reads is counted and is a state of its own. A form is
that of strftime, with ``%q`` for a quarter, ``[h]:mm`` and ``PT1H30M`` for durations, and ``%s``
and ``%s%3f`` for seconds and milliseconds since 1970. Months, weeks and quarters are their first
days.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, reduce
from itertools import product
from typing import Any

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
_PERIODS = (
    ("%Y-%m", f"{_YEAR}-[0-9]{{2}}"),
    ("%m/%Y", f"[0-9]{{2}}/{_YEAR}"),
    ("%Y/%m", f"{_YEAR}/[0-9]{{2}}"),
    ("%b %Y", rf"{_MONTHS} {_YEAR}"),
    ("%G-W%V", f"{_YEAR}-W[0-9]{{2}}"),
    ("%GW%V", f"{_YEAR}W[0-9]{{2}}"),
    ("%YQ%q", f"{_YEAR}Q[1-4]"),
    ("%Y-Q%q", f"{_YEAR}-Q[1-4]"),
    ("%Y Q%q", f"{_YEAR} Q[1-4]"),
    ("Q%q %Y", f"Q[1-4] {_YEAR}"),
)
_LASTING = (
    ("[h]:mm:ss", "[0-9]{1,4}:[0-5][0-9]:[0-5][0-9]"),
    ("[h]:mm", "[0-9]{1,4}:[0-5][0-9]"),
    ("PT1H30M", r"PT(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:\.[0-9]+)?S)?"),
    ("P1DT1H30M", r"P[0-9]+DT?(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:\.[0-9]+)?S)?"),
)
_PLAUSIBLE = r"[0-9].*[./\- :QW].*[0-9]|^PT?[0-9]|^\p{L}{3,10} [12][0-9]{3}$"
# what stands behind a time: a zone, which is kept as it is if all have the same
_ZONE = r"[0-9](Z| ?[+-][0-9]{2}:?[0-9]{2}| ?UTC| [A-Z]{3,4}| [A-Z][a-z]+/[A-Za-z_/]+)$"
_OFFSET = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})$")
# how a form that reads may be written
_VARIANTS = {
    "%.f": ("", "%.3f", "%.6f", "%.9f", "%.f"),
    "%H": ("%H", "%-H"),
    "%I": ("%I", "%-I"),
    " %p": (" %p", " %P", "%p", "%P"),
    "%#z": ("Z", "%:z", "%z"),
    " %b ": (" %b ", "-%b-", " %B "),
    ".%b ": (". %b ", ". %B ", ".%b "),
    "%b %d ": ("%b %d, ", "%b %d ", "%B %d, "),
}
_SEASON = 100  # a school year: 2021-22 does not name a month
EPOCHS = {"%s": 1, "%s%3f": 1000}  # in seconds
_DATED = (3 * 10**8, 42 * 10**8)  # seconds since 1970: 1979 to 2103
_QUARTERS = {f"Q{place}": f"Q{3 * place - 2:02d}" for place in range(1, 5)}
_MOSTLY = 0.95  # of the texts: what clocks read if they are clocks
_SOME = 2000  # texts by which the way of writing a form is judged
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
    values : dates, time stamps, times of day or durations, null where a text is none
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
        """The format to write dates back in: the most common one."""
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
    plausible = counted.filter(pl.col("text").str.contains(_PLAUSIBLE))
    if plausible.is_empty():
        return None
    zones = plausible["text"].str.extract(_ZONE).unique()
    zone = zones[0] if len(zones) == 1 and zones[0] else ""
    bare = plausible.with_columns(pl.col("text").str.strip_suffix(zone)) if zone else plausible
    clocked = bare["text"].str.contains(":", literal=True).any()
    forms = ((form, like) for form, like in _forms().items() if clocked or ":" not in form)
    read = (_matching(bare, form, like) for form, like in forms)
    found, ambiguous = _without_twins(_of_one_sort([one for one in read if one], bare), bare)
    if not found:
        return None
    found.sort(key=lambda one: -_held(bare, one[1]))
    expected = _expected_years(found, latest)
    values, counts = _first_that_reads(found, expected, bare["n"])
    written = {
        form: written_form(form, bare["text"], _as_sort(one, [form])) + zone for form, one in found
    }
    table = plausible.select("text").with_columns(value=_as_sort(values, list(counts)))
    joined = (
        texts.alias("text").to_frame().join(table, on="text", how="left", maintain_order="left")
    )
    formats = sorted(((written[f], n) for f, n in counts.items() if n), key=lambda one: -one[1])
    return DateReading(joined["value"].alias(texts.name), tuple(formats), ambiguous, expected)


def parse_dates(texts: pl.Series, forms: Sequence[str], years: tuple[int, int]) -> pl.Series:
    """Read texts in forms that are known already; null where none of them fits.

    >>> parse_dates(pl.Series(["3.11.61", "soon"]), ["%d.%m.%y"], (1930, 2029)).to_list()
    [datetime.date(1961, 11, 3), None]
    """
    counted = texts.alias("text").to_frame()
    patterns = _forms()
    read = [_matching(counted, form, patterns.get(form, ".*")) for form in forms]
    found = [one for one in read if one is not None]
    rows = pl.Series([1] * len(texts), dtype=pl.Int64)
    return _as_sort(_first_that_reads(found, years, rows)[0], forms)


def write_dates(values: pl.Series, form: str) -> pl.Series:
    """Write dates, times and durations in a form; null stays null.

    >>> write_dates(parse_dates(pl.Series(["25:30"]), ["[h]:mm"], (0, 0)), "[h]:mm").to_list()
    ['25:30']
    """
    if form in EPOCHS:
        return values.dt.epoch("s" if form == "%s" else "ms").cast(pl.String)
    if values.dtype != pl.Duration:
        return _in_zone(values, form).dt.to_string(form)
    return values.dt.total_microseconds().map_elements(
        lambda size: _lasting(size, form), return_dtype=pl.String
    )


def written_form(form: str, texts: pl.Series, values: pl.Series) -> str:
    """Return the way of writing a form that gives back most of the texts which it reads."""
    both = pl.DataFrame({"text": texts, "value": values}).drop_nulls()[:_SOME]
    best, most = form, -1
    for variant in _variants(form, both["text"]):
        same = int((write_dates(both["value"], variant) == both["text"]).sum())
        if same > most:
            best, most = variant, same
        if same == len(both):
            break
    return best


def sort_of(forms: Sequence[str]) -> Any:
    """Return the type that the values of some forms have together."""
    if any(form in dict(_LASTING) for form in forms):
        return pl.Duration("us")
    if not any(_has_clock(form) for form in forms):
        return pl.Date()
    return pl.Datetime("us") if any(re.search("%[Yys]", form) for form in forms) else pl.Time()


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


def read_whole_dates(numbers: pl.Series, *, named: bool) -> tuple[pl.Series, str] | None:
    """Read whole numbers such as 20240131 as dates, and in a column that is named so also seconds
    since 1970; with their form, None if one of them is neither.
    """
    present = numbers.drop_nulls()
    for form, second in EPOCHS.items() if named else ():
        if present.is_between(_DATED[0] * second, _DATED[1] * second).all():
            return parse_dates(numbers.cast(pl.String), [form], (0, 0)), form
    if present.is_empty() or not present.is_between(19000101, 20991231).all():
        return None
    dates = numbers.cast(pl.String).str.strptime(pl.Date, "%Y%m%d", strict=False)
    return None if dates.null_count() > numbers.null_count() else (dates, "%Y%m%d")


# -- forms ------------------------------------------------------------------------------------


@cache
def _forms() -> dict[str, str]:
    stamped = {
        f"{day}{gap}{clock}": f"{pattern}{gap}{time}"
        for day, pattern in _DAYS
        for gap in (" ", "T")
        for time, clock in _CLOCKS
        if gap == " " or day == "%Y-%m-%d"
    }
    clocks = {form: pattern for pattern, form in _CLOCKS}
    return {**dict(_DAYS), **stamped, **dict(_PERIODS), **clocks, **dict(_LASTING)}


def _variants(form: str, texts: pl.Series) -> Iterator[str]:
    zones = texts.str.extract(f"({_OFFSET.pattern})").drop_nulls().unique()
    own = {"%#z": (str(zones[0]),)} if len(zones) == 1 else {}
    marks = [mark for mark in _VARIANTS if mark in form]
    choices = [(*own.get(mark, ()), *_VARIANTS[mark]) for mark in marks]
    for day, chosen in product(("%", "%-"), product(*choices)):
        made = form
        for mark, variant in zip(marks, chosen):
            made = made.replace(mark, variant)
        yield made.replace("%d", f"{day}d").replace("%m", f"{day}m")


def _in_zone(values: pl.Series, form: str) -> pl.Series:
    """Return moments as a clock shows them that is so many hours ahead as the form says."""
    match = _OFFSET.search(form)
    if match is None or getattr(values.dtype, "time_zone", None) is None:
        return values
    away = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return values.dt.replace_time_zone(None) + (away if match[1] == "+" else -away)


def _lasting(size: int, form: str) -> str:
    sign, (minutes, rest) = "-" if size < 0 else "", divmod(abs(size), 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{rest / 1e6:.6f}".rstrip("0").rstrip(".")
    if form.startswith("["):
        short = f"{sign}{hours}:{minutes:02d}"
        return short if form == "[h]:mm" else f"{short}:{rest // 1_000_000:02d}"
    days, hours = divmod(hours, 24) if form.startswith("P1D") else (0, hours)
    parts = ((hours, "H"), (minutes, "M"), (seconds, "S"))
    clock = "".join(f"{count}{unit}" for count, unit in parts if count not in (0, "0"))
    whole = f"P{days}D" if days else "P"
    return sign + (f"{whole}T{clock}" if clock else whole if days else "PT0S")


def _of_one_sort(found: list[_Found], counted: pl.DataFrame) -> list[_Found]:
    """Leave the forms of the sort (days, clocks, durations) that reads the most texts.

    Clocks are durations too: they are clocks unless many texts are beyond a day.
    """
    sorts: dict[str, list[_Found]] = {}
    for one in found:
        sort = sort_of([one[0]])
        sorts.setdefault("days" if sort in (pl.Date, pl.Datetime) else str(sort), []).append(one)
    if not sorts:
        return []
    held = {
        sort: _held(counted, reduce(pl.Series.fill_null, (read for _, read in some)))
        for sort, some in sorts.items()
    }
    best = max(held, key=lambda sort: held[sort])
    return next(some for sort, some in sorts.items() if held[sort] >= _MOSTLY * held[best])


def _as_sort(values: pl.Series, forms: Sequence[str]) -> pl.Series:
    """Return moments since 1970 as what some forms are of: days, clocks or durations."""
    sort = sort_of(forms)
    return values.to_physical().cast(sort) if sort == pl.Duration else values.cast(sort)


def _matching(counted: pl.DataFrame, form: str, pattern: str) -> _Found | None:
    """Read the texts that look like one form; None if no text does."""
    looks = counted["text"].str.contains(f"^(?:{pattern})$")
    if not looks.any():
        return None
    texts = counted["text"].to_frame().select(pl.when(looks).then(pl.col("text"))).to_series()
    stamps = _moments(texts, form)
    if form == "%Y-%m" and _are_seasons(texts):
        return None
    return (form, stamps) if stamps.null_count() < len(stamps) else None


def _moments(texts: pl.Series, form: str) -> pl.Series:
    """Read texts of one form as moments; clocks and durations count from 1970."""
    moment = pl.Datetime("us")
    if form in EPOCHS:
        scale = 10**6 // EPOCHS[form]
        return (texts.cast(pl.Int64, strict=False) * scale).cast(moment)
    if form in dict(_LASTING):
        return _durations(texts).cast(moment)
    read = form
    if "%b" in form or "%B" in form:
        texts = _english_months(texts)
        read = re.sub(r"[.,\- ]+", " ", form.replace("%B", "%b").replace("%-", "%"))
    if "%q" in form:
        texts, read = texts.str.replace_many(_QUARTERS), read.replace("%q", "%m")
    rest = [
        (" 1", " %u") if "%V" in form else (" 01", " %d") if not re.search("%-?d", form) else (),
        () if _has_clock(form) else (" 00:00", " %H:%M"),
    ]
    if not re.search("%[YyG]", form):
        rest = [(" 1970-01-01", " %Y-%m-%d")]
    for text, part in filter(None, rest):
        texts, read = texts + text, read + part
    return texts.str.strptime(moment, read, strict=False)


def _durations(texts: pl.Series) -> pl.Series:
    days = texts.str.extract("^P([0-9]+)D").cast(pl.Int64).fill_null(0)
    iso = [texts.str.extract(f"([0-9.]+){unit}").cast(pl.Float64) for unit in "HMS"]
    before = ("^", "^[0-9]+:", "^[0-9]+:[0-9]+:")
    short = [texts.str.extract(f"{part}([0-9]+)").cast(pl.Float64) for part in before]
    parts = [one.fill_null(other).fill_null(0) for one, other in zip(iso, short)]
    seconds = days * 86_400 + parts[0] * 3600 + parts[1] * 60 + parts[2]
    return (seconds * 1e6).round().cast(pl.Int64).set(texts.is_null(), None)


def _are_seasons(texts: pl.Series) -> bool:
    """Return whether all texts are two years one after the other: 2021-22."""
    years = texts.drop_nulls().str.extract_groups("([0-9]{4})-([0-9]{2})").struct.unnest()
    first, second = (years.to_series(place).cast(pl.Int64) for place in (0, 1))
    return bool(((first + 1) % _SEASON == second).all())


def _has_clock(form: str) -> bool:
    return re.search("%-?[HIs]", form) is not None


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
    schema = pl.Schema({"at": read.dtype, "far": pl.Int32()})
    best = pl.DataFrame({"at": [None] * len(read), "far": [_NEVER] * len(read)}, schema=schema)
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
