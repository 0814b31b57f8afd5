"""Which code a column gets: from what the policy says of it, else from its type."""

from __future__ import annotations

from typing import Any, Protocol

import polars as pl

from tulle._types import Floats
from tulle.errors import DataError
from tulle.table._categories import BooleanCodec, CategoryCodec
from tulle.table._drawing import Grouped
from tulle.table._frames import Cells, as_series
from tulle.table._numbers import NumberCodec
from tulle.table.schema import Column, Kind

# A text column in which more than this share of the values are different is no category.
_UNIQUE_SHARE = 0.9
_UNIQUE_FROM = 5  # ... unless it is too short to tell

_NUMBERS = (Kind.INTEGER, Kind.DECIMAL)


class Codec(Protocol):
    """The code of one column."""

    name: str
    kind: Kind
    scales: Floats

    @property
    def observed(self) -> int: ...
    @property
    def constant(self) -> bool: ...
    @property
    def width(self) -> int: ...
    @property
    def feature_names(self) -> list[str]: ...
    def encode(self, cells: Cells, out: Floats) -> None: ...
    def decode(self, block: Floats, grouped: Grouped | None, *, snap: bool) -> Cells: ...
    def rescale(self, variances: Floats) -> None: ...


def kind_of(cells: Cells) -> Kind:
    """The kind of a column, from its type alone."""
    dtype: Any = as_series("", cells[:0]).dtype
    if dtype == pl.Boolean:
        return Kind.BOOLEAN
    if dtype.is_integer():
        return Kind.INTEGER
    if dtype.is_float() or dtype.is_decimal():
        return Kind.DECIMAL
    if dtype.is_temporal():
        return Kind.DATETIME
    return Kind.CATEGORY


def codec_for(
    name: str,
    cells: Cells,
    known: Column | None,
    *,
    weight: float,
    bounds: tuple[float, float] | None,
    max_width: int,
    find_decimals: bool,
    complete: bool,
) -> Codec:
    """The fitted code of a column."""
    natural = kind_of(cells)
    kind = natural if known is None else _agreed(name, natural, known.kind)
    if known is None and complete:
        _refuse_text(name, cells)
    if bounds is not None and kind not in _NUMBERS:
        raise DataError(f"column '{name}' has bounds, but is no column of numbers")
    if kind is Kind.CATEGORY:
        return CategoryCodec.fit(name, cells, weight=weight, max_width=max_width)
    if kind is Kind.BOOLEAN:
        return BooleanCodec.fit(name, cells, weight=weight)
    return NumberCodec.fit(
        name, kind, cells, weight=weight, bounds=bounds, find_decimals=find_decimals
    )


def family_of(dtype: pl.DataType) -> str:
    """A word for the types whose values can stand beside each other in a column."""
    if dtype.is_numeric() or dtype == pl.Boolean:
        return "number"
    return "text" if dtype in (pl.String, pl.Categorical, pl.Enum) else str(dtype.base_type())


def matching(codec: Codec, cells: Cells) -> Cells:
    """Later cells of a column in the type that its code was fitted on; refuses another type."""
    dtype = as_series("", cells[:0]).dtype
    if codec.kind is Kind.CATEGORY or dtype == pl.Null:
        return cells  # what did not occur is refused value by value
    if isinstance(codec, NumberCodec) and codec.kind is Kind.DATETIME:
        known = codec.dtype
        fits = family_of(dtype) == family_of(known) and _zone(dtype) == _zone(known)
        cells = cells.cast(known) if fits and dtype != known else cells
    else:
        fits = dtype == pl.Boolean if codec.kind is Kind.BOOLEAN else family_of(dtype) == "number"
    if not fits:
        raise DataError(
            f"column '{codec.name}' is of kind {codec.kind}, but comes as {dtype.base_type()} in "
            f"{len(cells)} records: convert it to the type of the first records"
        )
    return cells


def _zone(dtype: Any) -> str | None:
    return getattr(dtype, "time_zone", None)


def _agreed(name: str, natural: Kind, declared: Kind) -> Kind:
    """The declared kind, if values of that type can be of it."""
    if declared is Kind.TEXT:
        raise DataError(
            f"column '{name}' is free text, which cannot be condensed: give it the role "
            "'identifier' or 'ignored', or declare it a category"
        )
    if declared is Kind.CATEGORY or declared is natural:
        return declared
    if natural in _NUMBERS and declared in _NUMBERS:
        return natural  # the type knows better whether values are whole
    if declared is Kind.BOOLEAN and natural in (Kind.INTEGER, Kind.CATEGORY):
        return Kind.CATEGORY  # 0 and 1, yes and no: two categories in their own words
    raise DataError(
        f"column '{name}' is declared {declared}, but its type is {natural}: convert the column "
        "or correct the policy"
    )


def _refuse_text(name: str, cells: Cells) -> None:
    if not isinstance(cells, pl.Series) or cells.dtype != pl.String:
        return
    present = len(cells) - cells.null_count()
    distinct = cells.drop_nulls().n_unique() if present >= _UNIQUE_FROM else 0
    if distinct > _UNIQUE_SHARE * present:
        raise DataError(
            f"column '{name}' looks like free text or an identifier: {distinct} of {present} "
            "values are different. Leave it out, give it the role 'identifier' or 'ignored', or "
            "declare it a category"
        )
