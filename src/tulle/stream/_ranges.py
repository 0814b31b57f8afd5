"""The ranges of numbers that a snapshot shows.

Decoded numbers are clipped to the range of all records seen. If a newcomer whose group is still
held back is the largest of a column, that range would show its value. So while anything is held
back, a snapshot keeps the ranges of the one before. Where enough newcomers lie outside of them on
average, they are extended as far as the means of the groups that these have joined: ranges follow
a drift, and speak of valid groups, never of one record. Categories need no such care: the first
records of a stream fix them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

from tulle._moments import GroupMoments
from tulle._types import Floats, Ints
from tulle.condense._synthesis import synthesize
from tulle.stream._groups import StreamGroups
from tulle.stream._snapshots import Arrivals, Means
from tulle.table._codecs import Codec
from tulle.table._drawing import allot, mean_present
from tulle.table._encoder import TableEncoder
from tulle.table._numbers import NumberCodec
from tulle.table.schema import Kind

_ROUNDING = 1e-9  # of the largest value: a mean so little outside is a mean of values inside


class Range(NamedTuple):
    """Where the numbers of a column lie; ``pair``: the only two that there are, if it is two."""

    low: float
    high: float
    pair: tuple[float, float] | None


def seen_ranges(encoder: TableEncoder) -> list[Range]:
    """Return the range of each numeric column whose range is learnt, in column order."""
    return [Range(codec.low, codec.high, codec.pair) for codec, _ in _unbounded(encoder)]


def next_ranges(
    encoder: TableEncoder, before: list[Range] | None, arrived: list[Arrivals], location: Floats
) -> list[Range]:
    """Extend the ranges ``before`` by what the newcomers of each class show; None: as seen.

    Extended ranges do not depend on any record that is held back.
    """
    if before is None:
        return seen_ranges(encoder)
    for part in arrived:
        natural = part.natural(encoder.scales_, location)
        before = [
            _extended(codec, place, range_, natural)
            for (codec, place), range_ in zip(_unbounded(encoder), before, strict=True)
        ]
    return before


def united_ranges(
    first: TableEncoder,
    mine: list[Range] | None,
    second: TableEncoder,
    theirs: list[Range] | None,
) -> list[Range] | None:
    """Return what two streams together have shown; one without a snapshot will be shown whole."""
    if mine is None and theirs is None:
        return None
    parts = [
        encoder if ranges is None else confined(encoder, ranges)
        for encoder, ranges in ((first, mine), (second, theirs))
    ]
    return seen_ranges(parts[0].merge(parts[1])[0])


def confined(encoder: TableEncoder, ranges: list[Range]) -> TableEncoder:
    """Return a copy of an encoder that decodes into these ranges."""
    codecs: dict[int, Codec] = {
        id(codec): replace(codec, low=range_.low, high=range_.high, pair=range_.pair)
        for (codec, _), range_ in zip(_unbounded(encoder), ranges, strict=True)
    }
    return encoder.with_codecs([codecs.get(id(codec), codec) for codec in encoder._codecs])


def _unbounded(encoder: TableEncoder) -> Iterator[tuple[NumberCodec, slice]]:
    """Yield the numeric columns whose range is learnt, and their dimensions."""
    for codec, place in zip(encoder._codecs, encoder.slices_.values()):
        if isinstance(codec, NumberCodec) and not codec.fixed:
            yield codec, place


def _extended(codec: NumberCodec, place: slice, before: Range, arrived: Arrivals) -> Range:
    slack = _ROUNDING * max(abs(before.low), abs(before.high))
    newcomers = _means_of_values(codec, place, arrived.newcomers)[arrived.families]
    groups = _means_of_values(codec, place, arrived.groups)
    below = groups[(newcomers < before.low - slack) & (groups < before.low)]
    above = groups[(newcomers > before.high + slack) & (groups > before.high)]
    if not len(below) and not len(above):
        return before
    low = -_rounded_up(-float(below.min()), codec) if len(below) else before.low
    high = _rounded_up(float(above.max()), codec) if len(above) else before.high
    return Range(low, high, None)


def _means_of_values(codec: NumberCodec, place: slice, means: Means) -> Floats:
    """Compute means over the records that have a value; NaN where there are too few."""
    block = means.means[:, place]
    absent = block[:, 1:].sum(axis=1)
    without = means.counts - np.rint(means.counts * (1 - absent))
    enough = means.people - without >= np.minimum(means.levels, means.people)
    return np.where(enough, mean_present(block[:, 0], absent, codec.fill), np.nan)


def _rounded_up(value: float, codec: NumberCodec) -> float:
    """Return the next value at the column's precision: the range holds a group with this mean."""
    places = codec.decimals if codec.kind is Kind.DECIMAL else 0
    if places is None:
        return value
    nearest = round(value, places)
    return nearest if nearest >= value else round(nearest + 10.0**-places, places)


# Pseudo-data of a stream, from the statistics that it may show.


def draw(
    encoder: TableEncoder,
    location: Floats,
    shown: list[StreamGroups],
    rng: np.random.Generator,
    *,
    distribution: str,
    n_samples: int | None,
) -> tuple[pl.DataFrame, Ints]:
    """Draw new records in random order; return them and the place of their groups in ``shown``."""
    moments = stacked([groups.moments() for groups in shown])
    sizes = moments.counts
    if n_samples is not None:
        shares = moments.counts[None, :].astype(float)
        sizes = allot(shares, np.array([n_samples]), rng)[0]
    matrix, groups = synthesize(_spread(moments), rng, distribution=distribution, sizes=sizes)
    order = rng.permutation(len(groups))
    matrix, groups = matrix[order], groups[order]
    scales = encoder.scales_
    frame = encoder.decode(
        matrix * scales + location, groups, rng, means=moments.means * scales + location
    )
    owners = np.repeat(np.arange(len(shown)), [len(part) for part in shown])
    return frame, owners[groups]


def stacked(parts: list[GroupMoments]) -> GroupMoments:
    """Concatenate the groups of several states."""
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.stacked(part)
    return joined


def _spread(moments: GroupMoments) -> GroupMoments:
    """Return the same means and covariances, as if of more members than dimensions.

    Half of a split group keeps the covariance of the whole, which n records alone could not
    have; the synthesis would take its smallest parts for rounding.
    """
    enough = np.maximum(moments.counts, moments.means.shape[1] + 1)
    factor = enough / moments.counts
    return replace(moments, counts=enough, scatters=moments.scatters * factor[:, None, None])
