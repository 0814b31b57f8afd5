"""The file of refused lines: where each was and why, never what it held."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tulle.errors import DataError
from tulle.files import OutputExists

MOST_PENDING = 10_000


class Rejects:
    """Refused lines wait for a checkpoint, which holds them itself, and then go to the file.

    So the file begins after the state does, and after a kill at any moment it is cut back to the
    ``length`` that the checkpoint knows, and what is ``pending`` in the checkpoint comes again: no
    refusal is lost or listed twice. Without a length, the stream begins.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        count: int,
        length: int | None,
        pending: Iterable[str] = (),
    ) -> None:
        self.path = Path(path)
        self.count = count
        self.pending = list(pending)
        size = self.path.stat().st_size if self.path.exists() else 0
        if length is None and size:
            raise OutputExists(
                f"{self.path} exists already: move it away, or pass --force to replace it"
            )
        self.length = length or 0
        if size < self.length:
            raise DataError(f"{self.path} is shorter than the state says: it was changed")
        if size > self.length:
            os.truncate(self.path, self.length)
        self.flush()

    @property
    def full(self) -> bool:
        """Whether so many wait that a checkpoint should write them now."""
        return len(self.pending) >= MOST_PENDING

    def add(self, source: str, number: int, reason: str) -> None:
        """Notes one refused line."""
        self.count += 1
        entry = {"source": source, "line": number, "reason": reason}
        self.pending.append(json.dumps(entry) + "\n")

    def to_json(self) -> dict[str, Any]:
        """What a checkpoint must hold before :meth:`flush` may write."""
        return {
            "rejected": self.count,
            "reject_bytes": self.length,
            "pending_rejects": self.pending,
        }

    def flush(self) -> None:
        """Appends what is pending and makes it last."""
        if not self.pending:
            return
        with open(self.path, "a", encoding="utf-8") as file:
            file.writelines(self.pending)
            file.flush()
            os.fsync(file.fileno())
        self.length = self.path.stat().st_size
        self.pending.clear()
