"""All cells together: verified before anything is released, and what is known of the whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tulle._large.cell import CellSummary
from tulle._large.plan import Classes, Leaves, Plan
from tulle._types import Ints
from tulle.condense._levels import LevelSummary, join_summaries
from tulle.condense._notes import privacy_notes, table_notes
from tulle.errors import DataError, PrivacyError
from tulle.table._encoder import TableEncoder


@dataclass(frozen=True)
class Outcome:
    """What is known of a release of many cells, verified."""

    cells: list[CellSummary]
    plan: Plan
    records: int
    loss: float  # 100 SSQ / SST

    @property
    def released(self) -> int:
        """Return how many records were released."""
        return sum(cell.released for cell in self.cells)

    @property
    def sizes(self) -> Ints:
        """Return how many groups there are of each size."""
        sizes = np.zeros(max(len(cell.sizes) for cell in self.cells), dtype=np.int64)
        for cell in self.cells:
            sizes[: len(cell.sizes)] += cell.sizes
        return sizes

    @property
    def level_summary(self) -> list[LevelSummary]:
        """Return, for each level, its records and the fewest people in a group with one."""
        return join_summaries(*(cell.levels for cell in self.cells))

    @property
    def notes(self) -> list[str]:
        """Return what a reader of the release should know."""
        return privacy_notes(self) + table_notes(self)

    @property
    def classes(self) -> Classes:
        """Return the classes that were released."""
        return self.plan.classes

    @property
    def k(self) -> int:
        return self.plan.condenser.k

    # as the notes of a condenser know them

    @property
    def counts_(self) -> Ints:
        return np.zeros(int(self.sizes.sum()), dtype=np.int8)

    @property
    def levels_(self) -> Ints:
        return np.array([cell.highest_level for cell in self.cells])

    @property
    def n_degenerate_(self) -> int:
        return sum(cell.degenerate for cell in self.cells)

    @property
    def n_verbatim_(self) -> int:
        return sum(cell.verbatim for cell in self.cells)

    @property
    def n_singular_(self) -> int:
        return sum(cell.singular for cell in self.cells)

    @property
    def n_suppressed_(self) -> int:
        withheld = self.records - int(self.classes.records.sum())
        return withheld + sum(cell.suppressed for cell in self.cells)

    @property
    def _encoder(self) -> TableEncoder:
        return self.plan.layout.encoder

    @property
    def _keeps_shape(self) -> bool:
        return self.plan.condenser._keeps_shape


def verified(cells: list[CellSummary], plan: Plan, leaves: Leaves, records: int) -> Outcome:
    """Raise unless all cells together keep what was promised and hold every record once."""
    if [cell.cell for cell in cells] != list(range(len(cells))):
        raise PrivacyError("a cell is missing or came twice: nothing is released")
    if not all(cell.valid for cell in cells):
        raise PrivacyError("a group is smaller than the level of a record: nothing is released")
    classes = plan.classes
    held = sum(cell.records for cell in cells)
    if held != int(classes.records.sum()) or held != int(leaves.records.sum()):
        raise DataError(
            f"the cells hold {held} records, but the table has {int(classes.records.sum())}: did "
            "the table change while it was read?"
        )
    first = np.sum([cell.first_sums for cell in cells], axis=0)
    if (
        not any(cell.suppressed for cell in cells)
        and (np.abs(first - leaves.sums[0]) > 1e-9 * (1 + leaves.sums[1])).any()
    ):
        raise PrivacyError("the groups' sums are not those of the table: nothing is released")
    squares = np.sum([cell.squares for cell in cells], axis=0)
    kept = sum(cell.records - cell.suppressed for cell in cells)
    total = float((squares - first**2 / kept).sum())
    within = float(sum(cell.within.sum() for cell in cells))
    loss = 100.0 * within / total if total > 0 else 0.0
    return Outcome(cells, plan, records, loss)
