"""Sentences about a condensed table that its reader should know; none holds a value of it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from tulle._plurals import counted
from tulle.condense._diversity import demand_of
from tulle.condense._grouping import GroupFacts
from tulle.errors import PrivacyWarning
from tulle.table._encoder import TableEncoder

_FEW_LEAVES = 6  # with fewer, relations between columns are lost rather than coarse


def warn_weaker(notes: Sequence[str]) -> None:
    """Warn, in the name of the caller's caller, where protection is weaker than it looks."""
    for note in notes:
        warnings.warn(note, PrivacyWarning, stacklevel=3)


def privacy_notes(
    groups: int, *, verbatim: int, degenerate: int, singular: int = 0, exact: bool = False
) -> list[str]:
    """Return where the protection of so many groups is weaker than it looks."""
    notes, of_groups = [], f"of {counted(groups, 'group')}"
    if verbatim:
        notes.append(
            f"{counted(verbatim, 'record', 'is')} alone in a group (at level 1) and released "
            "unchanged"
        )
    if degenerate:
        notes.append(
            f"in {degenerate:,} {of_groups} all records are identical: the release shows what "
            "their members share"
        )
    if exact:
        notes.append(
            "totals are exact, as asked: someone who knows everybody else in the table can tell "
            "whether one person was in it"
        )
    if singular:
        notes.append(
            f"in {singular:,} {of_groups} there are no more records than dimensions: "
            "pseudo-records lie in the plane that the group's own records span, from which "
            "members can be computed; take the synthesis 'shape' or larger groups"
        )
    return notes


def fact_notes(facts: GroupFacts, *, exact: bool) -> list[str]:
    """Return where the protection of a table's groups is weaker than it looks."""
    return privacy_notes(
        len(facts.counts),
        verbatim=facts.verbatim,
        degenerate=facts.degenerate,
        singular=facts.singular,
        exact=exact,
    )


def table_notes(groups: GroupFacts, encoder: TableEncoder) -> list[str]:
    """Return what was done to the table to make the release."""
    notes = []
    if groups.suppressed:
        notes.append(
            f"{counted(groups.suppressed, 'record', 'require')} a larger group than can be "
            "formed: withheld"
        )
    notes += [
        f"column '{demand.name}': every group has {demand.describe()} (information loss "
        f"{groups.diversity_loss:.2g} points higher)"
        for demand in map(demand_of, encoder.columns_)
        if demand is not None
    ]
    notes += [
        f"column '{name}' has a single value, which the release shows" for name in encoder.constant_
    ]
    notes += [f"column '{name}' has no values" for name in encoder.empty_]
    return notes + column_notes(encoder, int(groups.levels.max()))


def relation_notes(count: int, k: int, leaf: int) -> list[str]:
    """Say where so few people are beside k that columns hardly depend on each other in leaves."""
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
        f"column '{name}': values held by too few people (fewer than {least:,} or little more) "
        "were merged or suppressed"
        for name in encoder.merged()
    ]
    notes += [
        f"column '{name}' keeps values held by fewer than {least:,} people, as its policy asks"
        for name in encoder.kept_rare()
    ]
    notes += [
        f"column '{name}': values were not understood; the release has none of them"
        for name in encoder.unread()
    ]
    return notes
