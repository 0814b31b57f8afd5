"""The records that no group may take yet.

They are the one place where a stream keeps records as they are; they are never released. The
buffer stays small: as soon as s records of level s or less wait, they form a group of their own,
so fewer records wait than the largest level asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tulle.condense.stream.sealing import Sealed
from tulle.moments import Floats, Ints
from tulle.tables.merging import Affine


@dataclass(frozen=True)
class Waiter:
    """One record that waits; ``number`` counts the records of the stream from 0."""

    record: Floats
    level: int
    number: int

    def __repr__(self) -> str:
        return "Waiter(hidden)"


class Waiting(Sealed):
    """Waiting records in the order of their arrival, standardised."""

    def __init__(self, waiters: list[Waiter] | None = None) -> None:
        self.waiters = list(waiters or [])

    def __len__(self) -> int:
        return len(self.waiters)

    def __repr__(self) -> str:
        return f"Waiting({len(self)} hidden)"

    @property
    def least_need(self) -> int | None:
        """How many members a group must have before it can take the least demanding waiter."""
        return min(waiter.level for waiter in self.waiters) - 1 if self.waiters else None

    def add(self, record: Floats, level: int, number: int) -> None:
        """Keeps a copy of a record."""
        self.waiters.append(Waiter(np.array(record), int(level), int(number)))

    def pop_for(self, members: int) -> Waiter | None:
        """The first to arrive whom a group of so many members may take."""
        for place, waiter in enumerate(self.waiters):
            if waiter.level - 1 <= members:
                return self.waiters.pop(place)
        return None

    def pop_group(self) -> list[Waiter]:
        """The smallest set that is a valid group by itself, or nobody."""
        levels = np.sort([waiter.level for waiter in self.waiters])
        enough = np.flatnonzero(np.arange(1, len(levels) + 1) >= levels)
        if not len(enough):
            return []
        largest = levels[enough[0]]
        taken = [waiter for waiter in self.waiters if waiter.level <= largest]
        self.waiters = [waiter for waiter in self.waiters if waiter.level > largest]
        return taken

    def arrays(self, dimensions: int) -> tuple[Floats, Ints, Ints]:
        """Records, levels and numbers, for merging."""
        records = np.array([waiter.record for waiter in self.waiters]).reshape(-1, dimensions)
        levels = np.array([waiter.level for waiter in self.waiters], dtype=np.int64)
        numbers = np.array([waiter.number for waiter in self.waiters], dtype=np.int64)
        return records, levels, numbers

    def moved(self, way: Affine, after: int) -> Waiting:
        """The same in other dimensions, numbered as of a stream that came ``after`` others."""
        return Waiting(
            [
                Waiter(waiter.record @ way.linear + way.shift, waiter.level, after + waiter.number)
                for waiter in self.waiters
            ]
        )


class Aside(Sealed):
    """The waiting records in natural units: ranges may not show them before they join a group."""

    def __init__(self, rows: dict[int, Floats] | None = None) -> None:
        self.rows = dict(rows or {})  # by their number in the stream

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Aside({len(self)} hidden)"

    def exchange(self, waiting: Sequence[int], matrix: Floats, first: int) -> Floats:
        """Keeps those who wait now; the others of ``matrix`` and of those kept have joined.

        The rows of ``matrix`` have the numbers from ``first`` on.
        """
        still = set(waiting)
        late = [row for number, row in self.rows.items() if number not in still]
        new = [number - first for number in waiting if number >= first]
        kept = {number: row for number, row in self.rows.items() if number in still}
        self.rows = kept | {first + place: matrix[place].copy() for place in new}
        joined = np.delete(matrix, new, axis=0) if new else matrix
        return np.vstack([joined, *late]) if late else joined

    def moved(self, way: Affine, after: int) -> Aside:
        """The same in other dimensions, numbered as of a stream that came ``after`` others."""
        rows = self.rows.items()
        return Aside({after + number: row @ way.linear + way.shift for number, row in rows})
