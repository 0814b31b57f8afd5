"""All cells together: verified before anything is released, and what is known of the whole."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tulle._large.cell import CellSummary
from tulle._large.plan import CellPlan, Leaves, ReleasedClasses
from tulle.condense._grouping import GroupFacts
from tulle.condense._notes import fact_notes, table_notes
from tulle.condense._shaped import fewest_of
from tulle.errors import DataError, PrivacyError


@dataclass(frozen=True)
class CellRelease:
    """What is known of a release of many cells, verified."""

    cells: list[CellSummary]
    plan: CellPlan
    records: int
    groups: GroupFacts

    @property
    def released(self) -> int:
        """Return how many records were released."""
        return sum(cell.released for cell in self.cells)

    @property
    def rests_on(self) -> dict[str, int]:
        """Return what the release shows, and of how many people at least each piece is."""
        return fewest_of(cell.rests_on for cell in self.cells)

    @property
    def notes(self) -> list[str]:
        """Return what a reader of the release should know."""
        encoder = self.plan.layout.encoder
        exact = self.plan.condenser.exact_totals
        return fact_notes(self.groups, exact=exact) + table_notes(self.groups, encoder)

    @property
    def classes(self) -> ReleasedClasses:
        """Return the classes that were released."""
        return self.plan.classes

    @property
    def k(self) -> int:
        return self.plan.condenser.k


def verified(cells: list[CellSummary], plan: CellPlan, leaves: Leaves, records: int) -> CellRelease:
    """Raise unless all cells together keep what was promised and hold every record once."""
    if [cell.cell for cell in cells] != list(range(len(cells))):
        raise PrivacyError("a cell is missing or came twice: nothing is released")
    facts = GroupFacts.joined([cell.facts for cell in cells])
    if not facts.valid:
        raise PrivacyError("a group is smaller than the level of a record: nothing is released")
    classes = plan.classes
    held = sum(cell.records for cell in cells)
    if held != int(classes.records.sum()) or held != int(leaves.records.sum()):
        raise DataError(
            f"the cells hold {held} records, but the table has {int(classes.records.sum())}: did "
            "the table change while it was read?"
        )
    sums = np.sum([cell.sums for cell in cells], axis=0)
    if not facts.suppressed and (np.abs(sums - leaves.sums[0]) > 1e-9 * (1 + leaves.sums[1])).any():
        raise PrivacyError("the cells' sums are not those of the table: nothing is released")
    withheld = records - int(classes.records.sum())
    return CellRelease(cells, plan, records, replace(facts, suppressed=facts.suppressed + withheld))
