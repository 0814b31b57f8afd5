"""What a run tells its owner in the end: counts of the stream as it is, and notes."""

from __future__ import annotations

from typing import Any

from tulle.tables.schema import UNRELEASED
from tulle.workflows.stream.folder import FolderSource
from tulle.workflows.stream.intake import Intake
from tulle.workflows.stream.showing import sizes_told
from tulle.workflows.stream.sources import Source


def counts_of(intake: Intake) -> dict[str, Any]:
    """Lines, records and groups so far."""
    counts = {"read": intake.read, "seen": intake.seen}
    condenser = intake.condenser
    if condenser is not None:
        sizes = condenser.counts_
        counts |= {
            "condensed": int(sizes.sum()),
            "waiting": condenser.n_waiting_,
            **sizes_told(sizes),
        }
    return counts | {"rejected": intake.rejects.count, "surplus_keys": intake.surplus}


def notes_of(intake: Intake, source: Source | None, *, sealed: bool) -> list[str]:
    """What else its owner should know, in sentences without data.

    ``sealed``: the state holds the records that wait.
    """
    notes = [
        f"Stopped when {intake.progress()} (--init) had come: nothing was written, and "
        "the next run begins anew"
    ]
    if intake.condenser is not None:
        notes = [*intake.condenser.notes_, *_notes_of_columns(intake)]
        waiting = intake.condenser.n_waiting_
        if waiting and not sealed and source is not None and not source.goes_back:
            notes.append(
                f"{source.name} does not bring the {waiting:,} records again that wait, and the "
                "state does not hold them: without a --key no later run can go on from it"
            )
    if isinstance(source, FolderSource):
        notes += source.notes()
    if intake.surplus:
        notes.append(
            f"{intake.surplus:,} records have keys that the initial records lack: these "
            "keys were left out"
        )
    if intake.rejects.count:
        notes.append(f"Refused lines, with reasons: {intake.rejects.path}")
    return notes


def _notes_of_columns(intake: Intake) -> list[str]:
    """Whose levels rule, which columns are not released, and how few records that rests on."""
    notes = []
    level = intake.settings.level_column
    if level is not None and "k" in intake.settings.told:
        notes.append(f"k is not used: the levels in column '{level}' say how large groups are")
    left = [c.name for c in intake.settings.columns if c.role in UNRELEASED]
    if left:
        names = ", ".join(f"'{name}'" for name in left)
        notes.append(f"Left out of every snapshot, unless a --policy says otherwise: {names}")
    if 0 < intake.began_with < intake.settings.wanted["init"]:
        notes.append(
            f"The stream began with {intake.began_with:,} records, fewer than --init: kinds of "
            "columns and categories are those of these records"
        )
    return notes
