"""The work of one cell: its records grouped, checked, and replaced by pseudo-records.

A function of the set of its records and of the cell's own seed: it does not matter in which order
they came, nor on which thread, process or machine it runs.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from tulle._large.layout import Layout, Records, person_numbers, row_order
from tulle._shape.columns import Owners
from tulle._shape.model import ShapeModel, fit_coded
from tulle._types import Floats, Ints
from tulle.condense._grouping import Grouper, GroupFacts
from tulle.condense._levels import common_level
from tulle.condense.condenser import Condenser

_GROWN_ON = 10_000  # records that a tree is grown on


@dataclass(frozen=True)
class CellSummary:
    """What is known of a finished cell: counts and sums, no record."""

    cell: int
    records: int
    released: int
    sums: Floats  # (d,), of the standardised records that were released from
    facts: GroupFacts
    rests_on: dict[str, int]  # what the cell's records show, and of how many people at least


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
    order = row_order(records, seed[0])
    rng = np.random.default_rng([*seed, cell])
    n = len(order)
    levels, kept = condenser._demands(records["level"][order] if levelled else None, n)
    rows = order[kept]
    people = person_numbers(records["person"][rows]) if persons else None
    # ranges are widened by groups: each cell has a code of its own
    encoder = layout.encoder.with_codecs([copy(one) for one in layout.encoder.codecs.values()])
    sums = (records["point"][rows] / encoder.scales_).sum(axis=0)
    grouper = Grouper(
        rng,
        levels[kept],
        people,
        method=condenser.grouping,
        time_budget=condenser.time_budget,
    )
    if condenser._keeps_shape:
        codes = records["cells"][rows]
        del records, order  # a cell is as large as memory allows
        size = round(size * len(rows) / n)
        model = _fitted(codes, layout, grouper, exact=condenser.exact_totals)
        drawn = encoder.restore(model.sample(size, rng))
        facts, rests_on = grouper.finish(), model.rests_on()
    else:
        papers = condenser._unfitted()
        points = records["point"][rows]
        facts = papers.fit_encoded(points, levels[kept], encoder, grouper)  # type: ignore[union-attr]
        drawn, rests_on = papers.draw(None, rng), papers.rests_on()
    facts = replace(facts, suppressed=int((~kept).sum()))
    return drawn, CellSummary(cell, n, drawn.height, sums, facts, rests_on)


def _fitted(codes: Ints, layout: Layout, grouper: Grouper, *, exact: bool) -> ShapeModel:
    """Return the shape of the cell's records."""
    k = common_level(grouper.levels)
    return fit_coded(
        layout.names,
        layout.models,
        layout.cells_of(codes, grouper.rng),
        k,
        Owners.of(grouper.people, len(codes), grouper.levels <= k),
        grouper.rng,
        dependencies=layout.dependencies,
        group=grouper,
        levels=grouper.levels,
        exact=exact,
        most=_GROWN_ON,
    )
