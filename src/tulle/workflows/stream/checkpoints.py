"""Checkpoints: one file ties the state of the groups to the position in the source.

It appears whole or not at all. After a kill at any moment the last checkpoint says both what was
counted and where to read on, so every record is counted exactly once. Records that wait are not in
it: it says where in the source they are, and they are read again (with a key they are sealed in
it, and on request written as they are).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tulle.condense.stream import StreamCondenser
from tulle.condense.stream.saving import state_from_bytes, state_to_bytes
from tulle.errors import DataError, TulleError
from tulle.files import atomic_write
from tulle.keys import SecretKey


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keeps a second process away from the same state, whatever links lead to it."""
    state = _resolved(path)
    lock = state.with_name(f".{state.name}.lock")
    if not lock.parent.is_dir():
        raise DataError(f"the folder {lock.parent} does not exist")
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise TulleError(f"another tulle stream is using {path}") from None
    try:
        yield
    finally:
        os.close(handle)


def _resolved(path: str | os.PathLike[str]) -> Path:
    """The file that a symbolic link leads to, which a write would otherwise replace."""
    return Path(os.path.realpath(path)) if os.path.islink(path) else Path(path)


class Checkpoint:
    """The file, and how waiting records are treated in it."""

    def __init__(
        self, path: str | os.PathLike[str], *, key: SecretKey | None, plain_waiting: bool
    ) -> None:
        self.path = _resolved(path)
        self.key = key
        self.waiting = "plain" if plain_waiting else "seal" if key is not None else "omit"

    def exists(self) -> bool:
        if self.path.exists() and not self.path.is_file():
            raise DataError(f"{self.path} is no regular file: name a file for the state")
        return self.path.exists()

    def write(self, condenser: StreamCondenser, extra: dict[str, Any]) -> None:
        """Replaces the checkpoint; readable by its owner only."""
        content = state_to_bytes(condenser, waiting=self.waiting, key=self.key, extra=extra)
        with atomic_write(self.path, force=True, mode=0o600) as file:
            file.write(content)

    def read(self) -> tuple[StreamCondenser, dict[str, Any], list[dict[str, Any]]]:
        """The condenser, what was saved beside it, and the waiting records owed to it."""
        condenser, extra, owed = state_from_bytes(
            StreamCondenser, self.path.read_bytes(), key=self.key, origin=str(self.path)
        )
        if "position" not in extra:
            raise DataError(
                f"{self.path} was saved by a program, without a place in a source: tulle stream "
                "goes on from its own states only"
            )
        return condenser, extra, owed
