"""Two encoders of the same columns as one: categories, missing states and ranges of both.

The dimensions of each part map into those of the whole by an affine function (other categories
take other places, time counts from another start), under which means and covariances move
exactly. So statistics of parts can be joined without the parts' records.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

import numpy as np
import polars as pl
from scipy.linalg import block_diag

from tulle.errors import DataError
from tulle.moments import GroupMoments
from tulle.tables.categories import BooleanCodec, CategoryCodec
from tulle.tables.encoder import TableEncoder
from tulle.tables.numbers import NumberCodec
from tulle.tables.quotas import Floats
from tulle.tables.schema import Kind


@dataclass(frozen=True)
class Affine:
    """``x @ linear + shift``: from the dimensions of a part to those of the whole."""

    linear: Floats
    shift: Floats

    def moved(self, moments: GroupMoments) -> GroupMoments:
        """The statistics of a part in the dimensions of the whole."""
        return GroupMoments(
            moments.counts,
            moments.means @ self.linear + self.shift,
            self.linear.T @ moments.scatters @ self.linear,
            moments.levels,
            moments.level_sums,
        )


def unite(first: TableEncoder, second: TableEncoder) -> tuple[TableEncoder, Affine, Affine]:
    """An encoder for the data of both, and the way of each into it; scales are the first's."""
    schemas = [[(column.name, column.kind) for column in part.columns_] for part in (first, second)]
    if schemas[0] != schemas[1]:
        raise DataError(
            "the two were fitted on different columns: merging needs the same names and kinds, "
            "in the same order"
        )
    joined = copy.deepcopy(first)
    maps: tuple[list[Affine], list[Affine]] = ([], [])
    for place, (mine, theirs) in enumerate(zip(joined._codecs, second._codecs)):
        joined._codecs[place], *ways = _union(mine, theirs)
        for ways_of_part, way in zip(maps, ways):
            ways_of_part.append(way)
    joined._collect()
    return joined, side_by_side(maps[0]), side_by_side(maps[1])


def side_by_side(ways: list[Affine]) -> Affine:
    """The ways of several columns as one."""
    linear = block_diag(*(way.linear for way in ways))
    return Affine(linear, np.concatenate([way.shift for way in ways]))


def _union(first: Any, second: Any) -> tuple[Any, Affine, Affine]:
    if isinstance(first, NumberCodec):
        return _union_of_numbers(first, second)
    if isinstance(first, CategoryCodec):
        return _union_of_categories(first, second)
    return _union_of_booleans(first, second)


def _union_of_numbers(
    first: NumberCodec, second: NumberCodec
) -> tuple[NumberCodec, Affine, Affine]:
    observed = [codec for codec in (first, second) if codec.observed] or [first]
    _refuse_other_type(first.name, observed)
    joined = replace(
        first,
        dtype=observed[0].dtype,
        extra=sorted({*first.extra, *second.extra}),
        observed=first.observed + second.observed,
        decimals=_coarsest(observed),
    )
    if first.kind is Kind.DATETIME:
        joined.origin = min(codec.origin for codec in observed)
        offsets = (codec.origin - joined.origin for codec in observed)
        joined.tick = gcd(*(codec.tick for codec in observed), *offsets)
    joined.fill = _moved(observed[0].fill, observed[0], joined)
    if first.public is None:
        joined.low = min(_moved(codec.low, codec, joined) for codec in observed)
        joined.high = max(_moved(codec.high, codec, joined) for codec in observed)
    pairs = {_moved_pair(codec, joined) for codec in observed}
    joined.pair = pairs.pop() if len(pairs) == 1 else None
    joined.scales = np.concatenate([first.scales[:1], np.ones(len(joined.extra))])
    return joined, _way_of_numbers(first, joined), _way_of_numbers(second, joined)


def _refuse_other_type(name: str, codecs: Sequence[NumberCodec | CategoryCodec]) -> None:
    """A narrower type could not hold the values of both, and time counts in its own unit."""
    if any(codec.dtype != codecs[0].dtype for codec in codecs):
        raise DataError(
            f"column '{name}' has another type in the two tables: convert it to the same type in "
            "both, and fit again"
        )


def _coarsest(observed: list[NumberCodec]) -> int | None:
    """The decimals that hold the values of all parts."""
    decimals = [codec.decimals for codec in observed]
    return None if None in decimals else max(places for places in decimals if places is not None)


def _moved(value: float, codec: NumberCodec, joined: NumberCodec) -> float:
    """A value in the units of the whole: ticks since its start."""
    return value * (codec.tick / joined.tick) + (codec.origin - joined.origin) / joined.tick


def _moved_pair(codec: NumberCodec, joined: NumberCodec) -> tuple[float, float] | None:
    if codec.pair is None:
        return None
    low, high = codec.pair
    return _moved(low, codec, joined), _moved(high, codec, joined)


def _way_of_numbers(codec: NumberCodec, joined: NumberCodec) -> Affine:
    linear = np.zeros((codec.width, joined.width))
    shift = np.zeros(joined.width)
    linear[0, 0] = codec.tick / joined.tick
    shift[0] = _moved(0.0, codec, joined)
    for place, state in enumerate(codec.extra, start=1):
        linear[place, 1 + joined.extra.index(state)] = 1.0
        # a missing record now shows the fill of the whole
        linear[place, 0] = joined.fill - _moved(codec.fill, codec, joined)
    return Affine(linear, shift)


def _union_of_categories(
    first: CategoryCodec, second: CategoryCodec
) -> tuple[CategoryCodec, Affine, Affine]:
    known = [codec for codec in (first, second) if len(codec.domain)] or [first]
    _refuse_other_type(first.name, known)
    alike = first.domain.equals(second.domain)
    if not alike and (first.tail or second.tail):
        raise DataError(
            f"column '{first.name}' has so many categories that some share a code, and not the "
            "same ones in the two tables: fit both parts with fewer categories"
        )
    domain = known[0].domain
    if not alike and len(known) == 2:
        new = second.domain.filter(~second.domain.is_in(domain.implode()))
        domain = pl.concat([domain, new])
    joined = replace(
        first,
        dtype=known[0].dtype,
        domain=domain,
        top=first.top if alike else len(domain),
        missing=first.missing or second.missing,
        counts=_counts(first, domain) + _counts(second, domain),
    )
    joined.scales = np.full(joined.width, first.scales[0])
    return joined, _way_of_categories(first, joined), _way_of_categories(second, joined)


def _places(codec: CategoryCodec, domain: pl.Series) -> list[int]:
    where = {value: place for place, value in enumerate(domain.to_list())}
    return [where[value] for value in codec.domain.to_list()]


def _counts(codec: CategoryCodec, domain: pl.Series) -> Any:
    counts = np.zeros(len(domain), dtype=np.int64)
    counts[_places(codec, domain)] = codec.counts
    return counts


def _way_of_categories(codec: CategoryCodec, joined: CategoryCodec) -> Affine:
    linear = np.zeros((codec.width, joined.width))
    for place, target in enumerate(_places(codec, joined.domain)[: codec.top]):
        linear[place, target] = 1.0
    if codec.tail:
        linear[codec.top, joined.top] = 1.0
    if codec.missing:
        linear[-1, -1] = 1.0
    return Affine(linear, np.zeros(joined.width))


def _union_of_booleans(
    first: BooleanCodec, second: BooleanCodec
) -> tuple[BooleanCodec, Affine, Affine]:
    joined = replace(
        first,
        missing=first.missing or second.missing,
        observed=first.observed + second.observed,
        constant=first.constant and second.constant,
    )
    joined.scales = np.full(joined.width, first.scales[0])
    ways = [
        Affine(np.eye(codec.width, joined.width), np.zeros(joined.width))
        for codec in (first, second)
    ]
    return joined, ways[0], ways[1]
