"""What the initial records of a stream settle: the codes of its columns, and its first groups."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tulle._moments import GroupMoments
from tulle._shape.model import weigh_people
from tulle._types import Floats, Ints
from tulle.condense._joining import join_groups
from tulle.condense._people import count_people, too_few_people
from tulle.errors import PrivacyError
from tulle.stream._batches import Batch, fix_scales
from tulle.stream._newcomers import with_growing_domains
from tulle.table._encoder import TableEncoder
from tulle.table._rare import Crowd
from tulle.table.schema import Column, Kind, Role, Schema, natural_column

if TYPE_CHECKING:
    from tulle.stream.condenser import StreamCondenser


def fit_encoder(stream: StreamCondenser, initial: Batch, *, complete: bool) -> TableEncoder:
    """Fit an encoder for the initial records; a bad record is refused as soon as it arrives.

    Unless they are ``complete``, one cannot tell yet whether text has categories.
    """
    frame, border = initial.frame, initial.border
    schema = Schema.of(stream.columns, initial.features, complete=complete)
    schema = schema.weighted(stream.weights)
    if stream._level_column is not None:
        schema = schema.with_column(Column(stream._level_column, Kind.INTEGER, Role.LEVEL))
    if border.target is not None:
        target = natural_column(frame.to_series(-1), Role.TARGET, complete=complete)
        schema = schema.with_column(target)
    schema = with_growing_domains(schema, people=stream._persons is not None)
    crowd = _crowd(initial, stream._people(initial)) if complete else None
    encoder = TableEncoder(schema).fit(frame, border.plain(frame), crowd)
    fix_scales(encoder, stream.scales, border.features(frame))
    return encoder


def _crowd(initial: Batch, people: Ints | None) -> Crowd:
    """Return how many people must share what a release shows: as many as anybody asks for."""
    number = len(initial) if people is None else len(np.unique(people))
    asked = initial.levels[initial.levels <= number]
    return Crowd(int(asked.max(initial=1)), weigh_people(people, len(initial)))


def group_initial(
    matrix: Floats, levels: Ints, people: Ints | None, rng: np.random.Generator, method: str
) -> tuple[Ints, GroupMoments]:
    """Group the initial records, of one class, and return the groups and their statistics."""
    from tulle.condense.groupings import group_records

    groups = group_records(matrix, levels, rng, method=method)
    if people is not None:
        people = np.unique(people, return_inverse=True)[1]
        short = partial(too_few_people, demands=levels, people=people)
        groups = join_groups(matrix, groups, short)
    moments = GroupMoments.of(matrix, groups, levels)
    if (count_people(groups, people) < moments.levels).any():
        raise PrivacyError("the initial grouping is not valid: nothing is kept")
    return groups, moments


def largest_feasible(levels: Ints, people: Ints | None = None) -> Any:
    """Return which records a valid grouping can hold; the most demanding ones are left out."""
    order = np.argsort(-levels, kind="stable")
    left = len(levels) - np.arange(len(levels))
    if people is not None:  # how many different people are left
        last = np.zeros(len(levels), dtype=np.int64)
        last[len(levels) - 1 - np.unique(people[order][::-1], return_index=True)[1]] = 1
        left = last[::-1].cumsum()[::-1]
    enough = levels[order] <= left
    kept = np.zeros(len(levels), dtype=bool)
    if enough.any():
        kept[order[np.argmax(enough) :]] = True
    return kept
