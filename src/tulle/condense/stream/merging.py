"""Two streams as one: groups, waiting records, history and what snapshots have shown."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from tulle.condense.stream.ranges import united_ranges
from tulle.errors import DataError, ParameterError
from tulle.tables.merging import Affine

if TYPE_CHECKING:
    from tulle.condense.stream.condenser import StreamCondenser


def merge(first: StreamCondenser, second: StreamCondenser) -> StreamCondenser:
    """A condenser that has seen both, on the scales of the first; both stay as they are."""
    if not isinstance(second, type(first)):
        raise ParameterError(f"a stream merges with another, not with a {type(second).__name__}")
    if second is first:
        raise ParameterError("a stream does not merge with itself: every record would count twice")
    for part in (first, second):
        part._require_groups()
    if (first._labels is None) != (second._labels is None):
        raise DataError("one stream is condensed class by class and the other is not")
    if first.split != second.split:
        raise DataError("one stream splits strictly and the other as in the paper")
    merged = copy.deepcopy(first)
    merged._encoder, *ways = first._encoder.united(second._encoder)
    merged._shown_ranges = united_ranges(
        first._encoder, first._shown_ranges, second._encoder, second._shown_ranges
    )
    merged._location = first._location @ ways[0].linear + ways[0].shift
    mine, theirs = (_standardised(way, part, merged) for way, part in zip(ways, (first, second)))
    merged._states = {label: state.moved(mine, 0) for label, state in first._states.items()}
    for label, state in zip(_labels_of(second, first), second._states.values(), strict=True):
        merged._state_of(label).take_over(state.moved(theirs, first.n_seen_))
    merged.n_seen_ = first.n_seen_ + second.n_seen_
    merged._seed = _seed_of_both(first, second)
    merged._shown_draw = merged._next_draw()
    merged._aside = first._aside.moved(ways[0], 0)
    merged._aside.rows |= second._aside.moved(ways[1], first.n_seen_).rows
    merged._note_joined(np.zeros((0, len(merged._location))), merged.n_seen_)
    return merged


def _seed_of_both(first: StreamCondenser, second: StreamCondenser) -> list[int]:
    """A seed of its own: what one of them draws, the other must not draw again."""
    both: list[int] = (
        np.random.default_rng([*first._seed, *second._seed])
        .integers(0, 2**63, size=len(first._seed))
        .tolist()
    )
    return both


def _labels_of(part: StreamCondenser, whole: StreamCondenser) -> list[Any]:
    """The classes of a stream in the type that they have in another."""
    if part._labels is None or whole._labels is None:
        return [None]
    return whole._labels.converted(part._labels.of(part.classes_).domain).to_list()


def _standardised(way: Affine, part: StreamCondenser, whole: StreamCondenser) -> Affine:
    """A way between natural units as one between the standardised units of two streams."""
    scales = whole._encoder.scales
    shift = part._location @ way.linear + way.shift - whole._location
    return Affine(part._encoder.scales[:, None] * way.linear / scales, shift / scales)
