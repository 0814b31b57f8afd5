"""What a site tells the others of its table: names, kinds and rounded ranges."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tulle.errors import DataError
from tulle.files import atomic_write
from tulle.sites import dates
from tulle.sites.columns import ValueType
from tulle.tables.frames import to_polars
from tulle.tables.kinds import kind_of
from tulle.tables.schema import UNRELEASED, Column, Kind, Role

FORMAT, VERSION = "tulle-site-summary", 1
_CAREFUL = (
    Role.IDENTIFIER, Role.IGNORED, Role.LEVEL, Role.SENSITIVE, Role.TARGET, Role.QUASI,
)  # fmt: skip
_NUMBERS = {Kind.INTEGER, Kind.DECIMAL}


@dataclass(frozen=True)
class ColumnSummary:
    """One column: no value of it, but a range rounded outwards."""

    name: str
    kind: str
    low: float | str | None = None
    high: float | str | None = None
    role: str = str(Role.QUASI)


@dataclass(frozen=True)
class SiteSummary:
    """What one site shows the others so that they can agree.

    Names, kinds, roles and, for numbers and dates, a range that is rounded outwards to a
    tenth or so of its width, so that the extremes of single people do not show. No category,
    no count.

    What may leave
    --------------
    All of it: a summary is made to be sent to the other sites.

    Examples
    --------
    >>> table = pl.DataFrame({"age": [17, 34, 90], "illness": ["Flu", "Gastritis", "Flu"]})
    >>> for column in SiteSummary.of(table).columns:
    ...     print(column.name, column.kind, column.low, column.high)
    age integer 10.0 90.0
    illness category None None
    """

    columns: tuple[ColumnSummary, ...]

    @classmethod
    def of(cls, X: Any, policy: Any = None) -> SiteSummary:
        """The summary of a table; a policy says the kinds and roles, if there is one."""
        from tulle.sites.agreeing import as_columns

        frame = to_polars(X)
        known = {column.name: column for column in as_columns(policy)} if policy else {}
        return cls(tuple(_summarise(series, known.get(series.name)) for series in frame))

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes the summary as JSON."""
        entries = {
            "format": FORMAT,
            "version": VERSION,
            "columns": [asdict(column) for column in self.columns],
        }
        with atomic_write(path, force=force) as file:
            file.write((json.dumps(entries, indent=2) + "\n").encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SiteSummary:
        """Reads a summary."""
        try:
            entries = json.loads(Path(path).read_bytes())
            if entries["format"] != FORMAT or entries["version"] != VERSION:
                raise ValueError
            return cls(tuple(ColumnSummary(**column) for column in entries["columns"]))
        except OSError as error:
            raise DataError(f"cannot read the summary {path}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{path} is not a site summary of this version of Tulle") from None


def merge_summaries(
    summaries: Iterable[SiteSummary],
) -> tuple[list[Column], dict[str, tuple[Any, Any]]]:
    """The common schema of some sites, and ranges that hold all of them."""
    found = list(summaries)
    if not found:
        raise DataError("an agreement needs the summary of at least one site")
    first = [column.name for column in found[0].columns]
    for place, summary in enumerate(found[1:], start=2):
        names = {column.name for column in summary.columns}
        if names != set(first):
            odd = sorted(names ^ set(first))[0]
            raise DataError(f"sites 1 and {place} have different columns: '{odd}' is in one only")
    schema, ranges = [], {}
    for name in first:
        told = [column for summary in found for column in summary.columns if column.name == name]
        schema.append(Column(name, _common_kind(name, told), _common_role(told)))
        ends = [(c.low, c.high) for c in told if c.low is not None and c.high is not None]
        if ends:
            ranges[name] = (min(end[0] for end in ends), max(end[1] for end in ends))
    return schema, ranges


def _common_kind(name: str, told: list[ColumnSummary]) -> Kind:
    kinds = {Kind(column.kind) for column in told}
    if len(kinds) == 1:
        return kinds.pop()
    if kinds == _NUMBERS:
        return Kind.DECIMAL
    if kinds == {Kind.TEXT, Kind.CATEGORY}:
        return Kind.TEXT
    words = " and ".join(sorted(kinds))
    raise DataError(f"column '{name}' is {words} at different sites: give its kind in a policy")


def _common_role(told: list[ColumnSummary]) -> Role:
    """The most careful of the roles that sites give a column."""
    roles = {Role(column.role) for column in told}
    return next(role for role in _CAREFUL if role in roles)


def _summarise(series: pl.Series, known: Column | None) -> ColumnSummary:
    kind = known.kind if known is not None else kind_of(series)
    role = known.role if known is not None else Role.QUASI
    bare = ColumnSummary(series.name, str(kind), role=str(role))
    if known is not None and known.bounds is not None:
        return ColumnSummary(series.name, str(kind), *known.bounds, role=str(role))
    values = series.fill_nan(None).drop_nulls() if series.dtype.is_float() else series.drop_nulls()
    if values.is_empty() or role in UNRELEASED:
        return bare
    if kind in _NUMBERS and series.dtype.is_numeric():
        low, high = _rounded(float(values.min()), float(values.max()))  # type: ignore[arg-type]
        return ColumnSummary(series.name, str(kind), low, high, str(role))
    if kind is Kind.DATETIME and series.dtype.is_temporal():
        return ColumnSummary(series.name, str(kind), *_rounded_moments(values), role=str(role))
    return bare


def _rounded(low: float, high: float) -> tuple[float, float]:
    """A range rounded outwards to about a tenth of its width."""
    width = high - low or max(abs(high), 1.0)
    magnitude = 10.0 ** math.floor(math.log10(width))
    step = magnitude / 2 if width < 5 * magnitude else magnitude
    step /= 2 if width < 2 * magnitude else 1
    return math.floor(low / step) * step, math.ceil(high / step) * step


def _rounded_moments(values: pl.Series) -> tuple[str, str]:
    first, last = values.min(), values.max()
    type = dates.type_of_end(first)
    low, high = _rounded(dates.as_number(first, type), dates.as_number(last, type))
    if type is ValueType.TIME:
        return "00:00:00", "23:59:59.999999"
    return tuple(dates.as_moment(end, type).isoformat() for end in (low, high))  # type: ignore
