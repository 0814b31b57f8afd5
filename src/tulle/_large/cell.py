"""The work of one cell: its records grouped, checked, and replaced by pseudo-records.

A function of the set of its records and of the cell's own seed: it does not matter in which order
they came, nor on which thread, process or machine it runs.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np
import polars as pl

from tulle._large.layout import Layout, Records, person_numbers, row_order
from tulle._shape.model import fit_coded, weigh_people
from tulle._types import Floats, Ints
from tulle.condense._levels import LevelSummary, check_moments
from tulle.condense.condenser import Condenser
from tulle.table._frames import Border, enter

_BORDER = Border(enter(pl.DataFrame({"x": [0]}))[1])  # frames of polars
_GROWN_ON = 50_000  # records that a tree is grown on


@dataclass(frozen=True)
class CellSummary:
    """What is known of a finished cell: counts and sums, no record."""

    cell: int
    records: int
    released: int
    sizes: Ints  # how many groups there are of each size, 0, 1, ...
    fewest_people: int
    highest_level: int
    lowest_level: int
    valid: bool
    levels: list[LevelSummary]
    first_sums: Floats  # (d,), on standardised columns
    squares: Floats  # (d,), sums of squares about zero
    within: Floats  # (d,), sums of squares about the groups' means
    degenerate: int
    verbatim: int
    singular: int
    suppressed: int


def condense_cell(
    records: Records,
    layout: Layout,
    condenser: Condenser,
    seed: tuple[int, ...],
    cell: int,
    *,
    size: int,
    persons: bool,
    levelled: bool,
) -> tuple[pl.DataFrame, CellSummary]:
    """Return the pseudo-records of a cell and its summary.

    Parameters
    ----------
    records : structured ndarray
        All records of the cell, in any order.
    layout : Layout
    condenser : Condenser
        An unfitted one of its own, which says how to group and draw.
    seed : tuple of int
        The secret of the release; together with the number of the cell it is the cell's seed.
    size : int
        How many pseudo-records to draw; the papers' synthesis draws as many as there are records.
    persons : bool
        Whether people have several rows.
    levelled : bool
        Whether records have levels of their own in place of the condenser's ``k``.
    """
    records = records[row_order(records, seed[0])]
    rng = np.random.default_rng([*seed, cell])
    people = person_numbers(records) if persons else None
    points = np.ascontiguousarray(records["point"])
    levels = np.ascontiguousarray(records["level"]) if levelled else None
    # ranges are widened by groups: each cell has a code of its own
    encoder = layout.encoder.with_codecs([copy(one) for one in layout.encoder.codecs.values()])
    kept, groups = condenser._fit_encoded(points, levels, encoder, _BORDER, None, people, rng)
    check_moments(condenser.moments_)
    if condenser._keeps_shape:
        people = None if people is None else people[kept]
        size = round(size * kept.mean())
        drawn = _drawn(records[kept], groups, people, layout, condenser, size, rng)
    else:
        drawn = condenser._draw(None)
    return drawn, _summary(condenser, cell, len(records), drawn.height)


def _drawn(
    records: Records,
    groups: Ints,
    people: Ints | None,
    layout: Layout,
    condenser: Condenser,
    size: int,
    rng: np.random.Generator,
) -> pl.DataFrame:
    """Draw pseudo-records that keep the shape of the cell's own records."""
    model = fit_coded(
        layout.names,
        layout.models,
        layout.cells_of(records, rng),
        int(condenser.levels_.max()),
        weigh_people(people, len(records)),
        rng,
        dependencies=layout.dependencies,
        members=groups,
        most=_GROWN_ON,
    )
    return condenser._encoder.restore(model.sample(size, rng))


def _summary(condenser: Condenser, cell: int, records: int, released: int) -> CellSummary:
    moments = condenser.moments_
    sums = moments.first_sums
    return CellSummary(
        cell=cell,
        records=records,
        released=released,
        sizes=np.bincount(moments.counts),
        fewest_people=int(condenser.people_.min()),
        highest_level=int(moments.levels.max()),
        lowest_level=int(moments.levels.min()),
        valid=bool((condenser.people_ >= moments.levels).all()),
        levels=condenser.level_summary_,
        first_sums=sums.sum(axis=0),
        squares=moments.within + (sums * moments.means).sum(axis=0),
        within=moments.within,
        degenerate=condenser.n_degenerate_,
        verbatim=condenser.n_verbatim_,
        singular=condenser.n_singular_,
        suppressed=condenser.n_suppressed_,
    )
