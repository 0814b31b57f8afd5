"""The file of refused lines: where each was and why, never what it held."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tulle.errors import DataError
from tulle.files import OutputExists

MOST_PENDING = 10_000


class Rejects:
    """Refused lines are kept until a checkpoint writes them: after a crash, the file is cut back
    to what the checkpoint knows, so that no refusal is lost or listed twice."""

    def __init__(self, path: str | os.PathLike[str], *, count: int, length: int | None) -> None:
        self.path = Path(path)
        self.count = count
        self.pending: list[str] = []
        if length is None:
            if self.path.exists():
                raise OutputExists(f"{self.path} exists already: move it away")
            return
        size = self.path.stat().st_size if self.path.exists() else 0
        if size < length:
            raise DataError(f"{self.path} is shorter than the state says: it was changed")
        if size > length:
            os.truncate(self.path, length)

    @property
    def full(self) -> bool:
        """Whether so many wait that a checkpoint should write them now."""
        return len(self.pending) >= MOST_PENDING

    def add(self, source: str, number: int, reason: str) -> None:
        """Notes one refused line."""
        self.count += 1
        entry = {"source": source, "line": number, "reason": reason}
        self.pending.append(json.dumps(entry) + "\n")

    def flush(self) -> int:
        """Appends what is pending and makes it last; the length of the file."""
        if self.pending:
            with open(self.path, "a", encoding="utf-8") as file:
                file.writelines(self.pending)
                file.flush()
                os.fsync(file.fileno())
            self.pending.clear()
        return self.path.stat().st_size if self.path.exists() else 0
