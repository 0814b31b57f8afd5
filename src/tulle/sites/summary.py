"""What a site tells the others about its table: names, kinds and rounded ranges."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from tulle._files import atomic_write
from tulle._plurals import counted
from tulle.errors import DataError, nearest_name
from tulle.sites import _values as dates
from tulle.sites._choices import as_columns
from tulle.sites._columns import refuse_codes
from tulle.sites._values import is_number, refuse_durations
from tulle.table._frames import to_polars
from tulle.table.schema import Column, Kind, Role, kind_of

FORMAT, VERSION = "tulle-site-summary", 1
_CAREFUL = (
    Role.IDENTIFIER, Role.PERSON, Role.IGNORED, Role.LEVEL, Role.SENSITIVE, Role.TARGET, Role.QUASI,
    Role.WEIGHT,
)  # fmt: skip
_NUMBERS = {Kind.INTEGER, Kind.DECIMAL}
_LARGEST = sys.float_info.max


@dataclass(frozen=True)
class ColumnSummary:
    """One column: no value of it, but a range rounded outwards."""

    name: str
    kind: str | None  # None: the site has no value of it that would tell
    low: float | str | None = None
    high: float | str | None = None
    role: str = str(Role.QUASI)
    written: str = ""  # how most texts are: in lower, UPPER, Title or mixed case
    alike: int = 0  # texts that differ from another one only in case or spacing

    def check(self) -> None:
        """Raise for anything that no summary holds: the file may have been edited."""
        ends = (self.low, self.high)
        kind = None if self.kind is None else Kind(self.kind)
        Role(self.role)
        if kind in _NUMBERS:
            right = all(is_number(end) and math.isfinite(end) for end in ends)  # type: ignore[arg-type]
        else:
            right = kind is Kind.DATETIME and all(isinstance(end, str) for end in ends)
        if self.written not in ("", *_CASES) or type(self.alike) is not int or self.alike < 0:
            raise ValueError
        if right and kind is Kind.DATETIME:
            dates.moment_of_ends(ends)
        if not isinstance(self.name, str) or not (right or ends == (None, None)):
            raise ValueError


@dataclass(frozen=True)
class SiteSummary:
    """Summarize what one site shows the others so that they can agree.

    It holds names, kinds, roles and, for numbers and dates, a range: its ends lie beyond the
    extremes, on a grid of about a tenth of its width, so that those of single people do not
    show. Of categories it tells how they are written (in lower case, say), and how many differ from
    another only in case or spacing, but no category.

    Parameters
    ----------
    columns : tuple of ColumnSummary
        One per column; :meth:`of` makes them.

    What may leave
    --------------
    All of it: a summary is made to be sent to the other sites.

    Examples
    --------
    >>> import polars as pl
    >>> from tulle import SiteSummary
    >>> table = pl.DataFrame({"age": [17, 34, 90], "illness": ["Flu", "Gastritis", "Flu"]})
    >>> for column in SiteSummary.of(table).columns:
    ...     print(column.name, column.kind, column.low, column.high)
    age integer 10.0 100.0
    illness category None None
    """

    columns: tuple[ColumnSummary, ...]

    @classmethod
    def of(cls, X: Any, policy: Any = None) -> SiteSummary:
        """Summarize a table.

        Parameters
        ----------
        X : table
            The site's table.
        policy : Policy, optional
            Kinds and roles of the columns; inferred without it.

        Returns
        -------
        SiteSummary
        """
        frame = to_polars(X)
        known = {column.name: column for column in as_columns(policy)} if policy else {}
        return cls(tuple(_summarise(series, known.get(series.name)) for series in frame))

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the summary as JSON.

        Parameters
        ----------
        path : path-like
            The file to create.
        force : bool
            Replace a file that exists.
        """
        entries = {
            "format": FORMAT,
            "version": VERSION,
            "columns": [asdict(column) for column in self.columns],
        }
        with atomic_write(path, force=force) as file:
            file.write((json.dumps(entries, indent=2) + "\n").encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SiteSummary:
        """Read a summary that :meth:`save` wrote.

        Parameters
        ----------
        path : path-like
            The JSON file.

        Returns
        -------
        SiteSummary
        """
        try:
            entries = json.loads(Path(path).read_bytes())
            if entries["format"] != FORMAT or entries["version"] != VERSION:
                raise ValueError
            columns = tuple(ColumnSummary(**column) for column in entries["columns"])
            for column in columns:
                column.check()
            return cls(columns)
        except OSError as error:
            raise DataError(f"cannot read the summary {path}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DataError(f"{path} is not a site summary of this version of Tulle") from None


def merge_summaries(
    summaries: Iterable[SiteSummary], match: str | None = None
) -> tuple[list[Column], dict[str, tuple[Any, Any]]]:
    """Return the common schema of some sites, and ranges that hold all of them.

    Sites that match people by a column have this one in common and no other.
    """
    found = list(summaries)
    if not found or not all(isinstance(summary, SiteSummary) for summary in found):
        raise DataError("an agreement needs the summary of at least one site")
    listed = [[column.name for column in summary.columns] for summary in found]
    for place, names in enumerate(listed, start=1):
        if len(names) > len({*names}):
            raise DataError(f"the summary of site {place} lists a column twice")
    names = listed[0]
    if match is not None:
        names = _other_columns(listed, match)
    for place, others in enumerate(listed if match is None else (), start=1):
        odd = sorted({*others} ^ {*names})
        if odd:
            raise DataError(
                f"sites 1 and {place} have different columns: '{odd[0]}' is in only one of them. "
                "If they hold the same people, name the column that says who they are (match=, "
                "--match)"
            )
    schema: list[Column] = []
    ranges: dict[str, tuple[Any, Any]] = {}
    for name in names:
        told = [column for summary in found for column in summary.columns if column.name == name]
        kind = _common_kind(name, told)
        roles = {Role(column.role) for column in told}
        careful = next(role for role in _CAREFUL if role in roles)
        schema.append(Column(name, kind, careful))
        ends = [(c.low, c.high) for c in told if c.low is not None and c.high is not None]
        if ends and kind is Kind.DATETIME:
            moment = dates.moment_of_ends([end for pair in ends for end in pair])
            numbers = [tuple(dates.as_number(end, moment) for end in pair) for pair in ends]
            low, high = min(low for low, _ in numbers), max(high for _, high in numbers)
            ranges[name] = dates.as_moment(low, moment), dates.as_moment(high, moment)
        elif ends:
            ranges[name] = min(low for low, _ in ends), max(high for _, high in ends)
    return schema, ranges


def _other_columns(listed: Sequence[Sequence[str]], match: str) -> list[str]:
    at: dict[str, int] = {}
    for place, names in enumerate(listed, start=1):
        if match not in names:
            raise DataError(
                f"site {place} has no column '{match}' to match people by: "
                f"{nearest_name(match, names)}"
            )
        for name in names:
            if name != match and name in at:
                raise DataError(
                    f"sites {at[name]} and {place} both have the column '{name}': of people who "
                    "are matched each column comes from one site; drop it at the other"
                )
            at[name] = place
    return [match, *(name for name in at if name != match)]


def _common_kind(name: str, told: list[ColumnSummary]) -> Kind:
    kinds = {Kind(column.kind) for column in told if column.kind is not None}
    if len(kinds) < 2:
        return kinds.pop() if kinds else Kind.CATEGORY
    if kinds == _NUMBERS:
        return Kind.DECIMAL
    if kinds == {Kind.TEXT, Kind.CATEGORY}:
        return Kind.TEXT
    words = " and ".join(sorted(kinds))
    raise DataError(f"column '{name}' is {words} at different sites: set its kind in a policy")


def _summarise(series: pl.Series, known: Column | None) -> ColumnSummary:
    refuse_durations(series)
    values = series.drop_nulls()
    if series.dtype.is_float():
        values = values.filter(values.is_finite())
    kind = known.kind if known is not None else _kind(series)
    role = known.role if known is not None else Role.QUASI
    bare = ColumnSummary(series.name, kind and str(kind), role=str(role))
    if not role.released:
        return bare
    if known is not None and known.bounds is not None:
        return replace(bare, low=known.bounds[0], high=known.bounds[1])
    if values.is_empty():
        return bare
    if known is not None and kind in (*_NUMBERS, Kind.DATETIME):
        refuse_codes(known)
    if kind in _NUMBERS and series.dtype.is_numeric():
        least = 1.0 if series.dtype.is_integer() else 0.0
        low, high = _rounded(float(values.min()), float(values.max()), least)  # type: ignore[arg-type]
        return replace(bare, low=low, high=high)
    if kind is Kind.DATETIME and series.dtype.is_temporal():
        first, last = values.min(), values.max()
        moment = dates.moment_of_end(first)
        ends = _rounded(dates.as_number(first, moment), dates.as_number(last, moment), 1.0)
        start, end = (dates.as_moment(number, moment).isoformat() for number in ends)
        return replace(bare, low=start, high=end)
    if series.dtype in (pl.String, pl.Categorical):
        texts = values.cast(pl.String).unique()
        return replace(bare, written=_case(texts), alike=_alike(texts))
    return bare


# How texts are written. Sites that write the same value in two ways give it two codes, and nobody
# can see it afterwards.

_CASES = ("lower", "upper", "title", "mixed")


def _case(texts: pl.Series) -> str:
    """Return the case in which all texts with letters are written.

    >>> _case(pl.Series(["m", "w"])), _case(pl.Series(["M", "3"])), _case(pl.Series(["a", "B"]))
    ('lower', 'upper', 'mixed')
    """
    lettered = [text for text in texts.to_list() if text.lower() != text.upper()]
    if not lettered:
        return ""
    forms = {"lower": str.lower, "upper": str.upper, "title": str.title}
    found = (name for name, form in forms.items() if all(form(text) == text for text in lettered))
    return next(found, "mixed")


def _alike(texts: pl.Series) -> int:
    """Count the texts that are another one but for case or spacing.

    >>> _alike(pl.Series(["Bern", "bern ", "Chur"]))
    1
    """
    return len(texts) - len({" ".join(text.split()).casefold() for text in texts.to_list()})


def written_differently(summaries: Sequence[SiteSummary]) -> list[str]:
    """Return warnings about columns that sites write in different ways, or one in several."""
    warnings = []
    columns = [column for summary in summaries for column in summary.columns]
    for name in dict.fromkeys(column.name for column in columns):
        told = [column for column in columns if column.name == name]
        forms = sorted({column.written for column in told} - {"", "mixed"})
        alike = sum(column.alike for column in told)
        if len(forms) > 1:
            warnings.append(
                f"The column '{name}' is written in {' and in '.join(forms)} case at different "
                "sites: the same value would get two codes. Write it alike everywhere, and "
                "summarise again"
            )
        if alike:
            warnings.append(
                f"The column '{name}' has {counted(alike, 'value')} at a site that differ from "
                "another only in case or spacing: each would get a code of its own"
            )
    return warnings


def _kind(series: pl.Series) -> Kind | None:
    """Return the kind by the type; an empty column that came as text may be anything."""
    untyped = series.dtype in (pl.String, pl.Null) and series.null_count() == len(series)
    if series.dtype == pl.Time:  # of the day: a name, and no amount
        return Kind.CATEGORY
    return None if untyped else kind_of(series.dtype)


def _rounded(low: float, high: float, least: float = 0.0) -> tuple[float, float]:
    """Return ends beyond a range, on a grid of about a tenth of its width, never on the extremes.

    >>> _rounded(17, 90), _rounded(44, 45, 1.0), _rounded(0, 0, 1.0)
    ((10.0, 100.0), (43.0, 46.0), (-1.0, 1.0))
    """
    width = high - low or max(abs(high), 1.0)
    width = width if math.isfinite(width) else max(abs(low), abs(high))
    magnitude = 10.0 ** math.floor(math.log10(width))
    step = magnitude / 2 if width < 5 * magnitude else magnitude
    step /= 2 if width < 2 * magnitude else 1
    step = max(step, least, math.ulp(low), math.ulp(high))
    # a hair that floating point may have moved an extreme off the grid
    below = (math.ceil(low / step - 1e-9) - 1) * step
    above = (math.floor(high / step + 1e-9) + 1) * step
    return max(below, -_LARGEST), min(above, _LARGEST)
