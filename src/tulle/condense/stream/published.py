"""What the snapshots of a stream have shown."""

from __future__ import annotations

from dataclasses import dataclass

from tulle.condense.stream.groups import Groups
from tulle.moments import Ints
from tulle.tables.merging import Affine


@dataclass(frozen=True)
class Published:
    """Groups that were shown, and behind each of them the groups of the stream, added up then.

    Both hold the same records in all, but divide them differently: see ``families.py``. The family
    of a group shown is that group of the snapshot before from which it comes.
    """

    shown: Groups
    behind: Groups

    @classmethod
    def nothing(cls, dimensions: int) -> Published:
        """Before the first snapshot."""
        return cls(Groups(dimensions), Groups(dimensions))

    def __len__(self) -> int:
        return len(self.shown)

    def taken(self, rows: Ints) -> Published:
        """A copy of some of them."""
        return Published(self.shown.taken(rows), self.behind.taken(rows))

    def extend(self, other: Published) -> None:
        """Adds others."""
        self.shown.extend(other.shown)
        self.behind.extend(other.behind)

    def moved(self, way: Affine) -> Published:
        """The same in other dimensions."""
        return Published(self.shown.moved(way), self.behind.moved(way))
