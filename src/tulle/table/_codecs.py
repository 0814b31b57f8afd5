"""What every code of a column can do: encode, decode, merge, save itself, and name bad rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._columns import CategoryColumn, NumberColumn
from tulle._json import dtype_from_json, dtype_to_json, series_from_json, series_to_json
from tulle._moments import GroupMoments
from tulle._types import Floats, Ints
from tulle.errors import DataError
from tulle.table._drawing import Grouped
from tulle.table._rare import Tails
from tulle.table._series import with_nulls
from tulle.table._states import Writing
from tulle.table.schema import Kind


class Problem(NamedTuple):
    """Rows that a code does not take, and why: a sentence that holds no value of the data.

    A table that has such rows is refused as a whole; a stream leaves them out.
    """

    rows: NDArray[np.bool_]
    reason: str
    remedy: str


def refuse(problems: Sequence[Problem]) -> None:
    """Raise a DataError for the first of some problems, with the number of its rows."""
    for rows, reason, remedy in problems:
        if rows.any():
            raise DataError(f"{reason} ({int(rows.sum())} of {len(rows)} records): {remedy}")


def first_reasons(problems: Sequence[Problem]) -> dict[int, str]:
    """Return the first reason for each row that has a problem."""
    reasons: dict[int, str] = {}
    for rows, reason, _ in reversed(problems):
        reasons |= dict.fromkeys(np.flatnonzero(rows).tolist(), reason)
    return reasons


class Codec(Protocol):
    """The code of one column: a Series to some dimensions, and back."""

    name: str
    kind: Kind
    scales: Floats
    too_few: tuple[int, int]  # values that too few people hold, and their records

    @property
    def observed(self) -> int: ...
    @property
    def constant(self) -> bool: ...
    @property
    def width(self) -> int: ...
    @property
    def feature_names(self) -> list[str]: ...
    def problems(self, series: pl.Series) -> list[Problem]: ...
    def encode(self, series: pl.Series, out: Floats) -> None: ...  # the dimensions, (n, width)
    def decode(self, block: Floats, grouped: Grouped | None, *, snap: bool) -> pl.Series: ...
    def rescale(self, variances: Floats) -> None: ...
    def as_known(self, series: pl.Series) -> NumberColumn | CategoryColumn: ...
    def restore(self, cells: Any) -> pl.Series: ...
    def merge(self, other: Any) -> tuple[Self, Affine, Affine]: ...


def family_of(dtype: pl.DataType) -> str:
    """Return a word for the types whose values can stand next to each other in a column."""
    if dtype.is_numeric() or dtype == pl.Boolean:
        return "number"
    return "text" if dtype in (pl.String, pl.Categorical, pl.Enum) else str(dtype.base_type())


def wrong_type(codec: Codec, series: pl.Series) -> Problem:
    return Problem(
        np.ones(len(series), dtype=bool),
        f"column '{codec.name}' is of kind {codec.kind}, but has type {series.dtype.base_type()}",
        "convert it to the type of the initial data",
    )


def never_missing(codec: Codec, rows: NDArray[np.bool_]) -> Problem:
    return Problem(
        rows,
        f"column '{codec.name}' has missing values, but had none in the initial data",
        "fit on data with missing values, or fill them in",
    )


def places_in(domain: pl.Series, series: pl.Series) -> pl.Series:
    """Return the place of each value in a domain; null where it is not in it."""
    if not len(domain):
        return pl.Series([None] * len(series), dtype=pl.Int64)
    if series.dtype != domain.dtype:
        series = series.cast(domain.dtype, strict=False)
    places = pl.Series(np.arange(len(domain)))
    return series.replace_strict(domain, places, default=None, return_dtype=pl.Int64)


def values_at(domain: pl.Series, places: Ints, name: str) -> pl.Series:
    """Return the values at places of a domain; -1, or an empty domain, is missing."""
    if not len(domain):
        return pl.Series(name, [None] * len(places), dtype=domain.dtype)
    found = with_nulls(pl.Series(np.maximum(places, 0)), places < 0)
    return domain.gather(found).alias(name)


def one_scale(variance: float, weight: float, width: int) -> Floats:
    """Return one scale for all dimensions, so that their variances add up to ``weight ** 2``."""
    return np.full(width, np.sqrt(variance) / weight if variance > 0 else 1.0)


# Two codes of the same column as one: categories, missing states and ranges of both. The
# dimensions of each part map into those of the whole by an affine function (other categories take
# other places, time counts from another start), under which means and covariances move exactly.
# So statistics of parts can be joined without the parts' records.


@dataclass(frozen=True)
class Affine:
    """``x @ linear + shift``: from the dimensions of a part to those of the whole."""

    linear: Floats
    shift: Floats

    def moved(self, moments: GroupMoments) -> GroupMoments:
        """Return the statistics of a part in the dimensions of the whole."""
        return GroupMoments(
            moments.counts,
            moments.means @ self.linear + self.shift,
            self.linear.T @ moments.scatters @ self.linear,
            moments.levels,
            moments.level_sums,
        )


def side_by_side(ways: list[Affine]) -> Affine:
    from scipy.linalg import block_diag  # SciPy takes a fifth of a second to load

    linear = block_diag(*(way.linear for way in ways))
    return Affine(linear, np.concatenate([way.shift for way in ways]))


def refuse_other_type(name: str, dtypes: Sequence[Any]) -> None:
    """Refuse to merge two types: the narrower could not hold the values of both."""
    if any(dtype != dtypes[0] for dtype in dtypes):
        raise DataError(
            f"column '{name}' has different types in the two tables: convert it to the same type "
            "in both, and fit again"
        )


# A code as JSON, for states that outlive a process. Numbers are written so that they read back
# bit by bit; types and domains as JSON. No row is in it, but the range and the domain of a
# column are: it is for the owner of the data.


def fields_to_json(codec: Any) -> dict[str, Any]:
    return {part.name: _to_json(getattr(codec, part.name)) for part in fields(codec)}


def fields_from_json(entries: dict[str, Any]) -> dict[str, Any]:
    return {name: _from_json(value) for name, value in entries.items()}


_PARTS: dict[str, type[Any]] = {"Writing": Writing, "Tails": Tails}


def _to_json(value: Any) -> Any:
    if isinstance(value, Kind):
        return {"kind": value.value}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {"mapping": [list(pair) for pair in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": list(value)}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": value.dtype.str}
    if is_dataclass(value) and not isinstance(value, type):
        return {"part": type(value).__name__, "fields": fields_to_json(value)}
    if isinstance(value, pl.Series):
        return {"series": series_to_json(value)}
    if isinstance(value, pl.DataType) or (
        isinstance(value, type) and issubclass(value, pl.DataType)
    ):
        return {"type": dtype_to_json(pl.Series("type", [], dtype=value).dtype)}
    return value


def _from_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "kind" in value:
        return Kind(value["kind"])
    if "mapping" in value:
        return dict(value["mapping"])
    if "tuple" in value:
        return tuple(value["tuple"])
    if "part" in value:
        return _PARTS[value["part"]](**fields_from_json(value["fields"]))
    if "array" in value:
        dtype = np.dtype(value["dtype"])
        if dtype.kind not in "biuf":
            raise ValueError
        return np.array(value["array"], dtype=dtype)
    if "series" in value:
        return series_from_json(value["series"])
    return dtype_from_json(value["type"])
