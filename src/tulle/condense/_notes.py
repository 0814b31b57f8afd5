"""Sentences about a condensed table that its reader should know; none holds a value of it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tulle._plurals import counted
from tulle._types import Ints
from tulle.condense._diversity import demand_of
from tulle.errors import PrivacyWarning
from tulle.table._encoder import TableEncoder

_FEW_LEAVES = 6  # with fewer, relations between columns are lost rather than coarse


def warn_weaker(condenser: Any) -> None:
    """Warn, in the name of the caller's caller, where protection is weaker than it looks."""
    for note in privacy_notes(condenser):
        warnings.warn(note, PrivacyWarning, stacklevel=3)


def privacy_notes(condenser: Any) -> list[str]:
    """Return where protection is weaker than it looks."""
    notes = []
    if condenser.n_verbatim_:
        notes.append(
            f"{counted(condenser.n_verbatim_, 'record', 'is')} alone in a group (at level 1) and "
            "released unchanged"
        )
    if condenser.n_degenerate_:
        notes.append(
            f"in {condenser.n_degenerate_:,} of {counted(len(condenser.counts_), 'group')} all "
            "records are identical: the release shows what their members share"
        )
    template = getattr(condenser, "condenser", None) or condenser  # of classes
    if getattr(template, "exact_totals", False):
        notes.append(
            "totals are exact, as asked: someone who knows everybody else in the table can tell "
            "whether one person was in it"
        )
    if singular := getattr(condenser, "n_singular_", 0):  # streams do not count them
        notes.append(
            f"in {singular:,} of {counted(len(condenser.counts_), 'group')} there are no more "
            "records than dimensions: pseudo-records lie in the plane that the group's own records "
            "span, from which members can be computed; use synthesis='shape' or larger groups"
        )
    return notes


def table_notes(condenser: Any) -> list[str]:
    """Return what was done to the table to make the release."""
    encoder = condenser._encoder
    notes = []
    if condenser.n_suppressed_:
        notes.append(
            f"{counted(condenser.n_suppressed_, 'record', 'require')} a larger group than can be "
            "formed: withheld"
        )
    notes += [
        f"column '{demand.name}': every group has {demand.describe()} (information loss "
        f"{condenser.diversity_loss_:.2g} points higher)"
        for demand in map(demand_of, encoder.columns_)
        if demand is not None
    ]
    notes += [
        f"column '{name}' has a single value, which the release shows" for name in encoder.constant_
    ]
    notes += [f"column '{name}' has no values" for name in encoder.empty_]
    return notes + column_notes(encoder, int(condenser.levels_.max()))


def relation_notes(records: int, people: Ints | None, k: int, leaf: int) -> list[str]:
    """Say where a table is so small beside k that columns hardly depend on each other in it."""
    count = records if people is None else len(np.unique(people))
    if count >= _FEW_LEAVES * leaf:
        return []
    if count < 2 * leaf:
        kept = "no column of the release depends on another but by rules and groups"
    else:
        kept = f"a column of the release depends on others in at most {count // leaf} ways"
    most = _FEW_LEAVES * leaf // k
    return [
        f"the table is small for k = {k:,}: {kept}. Relations need some {most} times as many "
        "people as k"
    ]


def column_notes(encoder: TableEncoder, least: int) -> list[str]:
    """List the columns that do not come out with all their values, and those that do by choice."""
    notes = [
        f"column '{name}': {counted(values, 'value')} held by too few people (fewer than {least:,} "
        f"or little more), in {counted(rows, 'record')}: merged or suppressed"
        for name, (values, rows) in encoder.merged().items()
    ]
    notes += [
        f"column '{name}' keeps values held by fewer than {least:,} people, as its policy asks"
        for name in encoder.kept_rare()
    ]
    notes += [
        f"column '{name}': {counted(count, 'value', 'was')} not understood; the release has "
        "none of them"
        for name, count in encoder.unread().items()
    ]
    return notes
