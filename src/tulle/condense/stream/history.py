"""How a stream went: groups, waiting records and drift over time, in bounded memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tulle.moments import Floats
from tulle.tables.merging import Affine

FIRST_INTERVAL = 1_000
LONGEST = 256
COARSE = 10.0  # standard deviations: the sum of all records is kept in steps of this


@dataclass
class History:
    """One row every ``interval`` records; every other row goes, and the interval doubles, when
    the rows become too many.

    ``drift`` is how far the records of an interval lie from the very first, on average: the
    distance between the two means in standard deviations, divided by the root of the number of
    dimensions. It is a mean over half an interval of records at least, or there is no row yet;
    and sums are kept so coarsely that no difference of two tells a record. An interval's mean is
    right to a hundredth of a standard deviation all the same.
    """

    interval: int = FIRST_INTERVAL
    rows: list[dict[str, Any]] = field(default_factory=list)
    condensed: int = 0
    total: list[float] = field(default_factory=list)

    def until_next(self, seen: int) -> int:
        """How many records may come before the next row."""
        return self.interval - seen % self.interval

    def note(self, seen: int, counts: Any, means: Floats, waiting: int) -> None:
        """Adds a row, unless most records wait; the first interval is the origin of the drift."""
        condensed, total = int(counts.sum()), np.rint(counts @ means / COARSE) * COARSE
        fresh = condensed - self.condensed
        if fresh < self.interval / 2:
            return
        before = np.array(self.total) if self.total else np.zeros(len(total))
        mean = (total - before) / fresh
        first = np.array(self.rows[0]["mean"]) if self.rows else mean
        drift = math.sqrt(float(((mean - first) ** 2).mean()))
        self.rows.append(
            {
                "seen": seen,
                "groups": len(counts),
                "waiting": waiting,
                "drift": drift,
                "mean": mean.tolist(),
            }
        )
        self.condensed, self.total = condensed, total.tolist()
        if len(self.rows) > LONGEST:
            self.rows = [self.rows[0], *self.rows[2::2]]
            self.interval *= 2

    def moved(self, way: Affine) -> History:
        """The same history in other dimensions."""
        rows = [
            row | {"mean": (np.array(row["mean"]) @ way.linear + way.shift).tolist()}
            for row in self.rows
        ]
        total = []
        if self.total:
            total = (np.array(self.total) @ way.linear + self.condensed * way.shift).tolist()
        return History(self.interval, rows, self.condensed, total)

    def add(self, other: History) -> None:
        """Takes over what another stream has condensed, so that it does not look like drift."""
        if other.total:
            before = np.array(self.total) if self.total else np.zeros(len(other.total))
            self.condensed += other.condensed
            self.total = (before + np.array(other.total)).tolist()
