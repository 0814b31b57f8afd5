"""What a run tells its owner in the end: counts of the stream as it is, and notes."""

from __future__ import annotations

from typing import Any

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


def notes_of(intake: Intake, source: Source | None) -> list[str]:
    """What else its owner should know, in sentences without data."""
    notes = [
        f"Stopped when {intake.progress()} (--init) had come: nothing was written, and "
        "the next run begins anew"
    ]
    if intake.condenser is not None:
        notes = list(intake.condenser.notes_)
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
