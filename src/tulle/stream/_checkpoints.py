"""Checkpoints: one file ties the state of the groups to the position in the source.

It appears whole or not at all. After a kill at any moment the last checkpoint says both what was
counted and where to read on, so every record is counted exactly once. Records that wait, and hashes
of people, are sealed in it by a key.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from tulle._files import atomic_write, is_held, lock
from tulle.errors import DataError, TulleError
from tulle.keys import SecretKey
from tulle.stream import StreamCondenser
from tulle.stream._saved import load_state, refusing, restored, write_state


@dataclass
class StreamTally:
    """What a stream has counted so far, beside its groups."""

    read: int = 0
    surplus_keys: int = 0  # lines with keys that are not columns
    lacking_keys: dict[str, int] = field(default_factory=dict)  # lines without one that all have
    lost_keys: dict[str, int] = field(default_factory=dict)  # those of them that were refused
    snapshots: int = 0
    shown: int = 0  # records seen at the last snapshot
    owes_snapshot: bool = False  # begun before a kill: it must be finished as it was begun
    rejected: int = 0
    reject_bytes: int = 0
    pending_rejects: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Resumption:
    """What a checkpoint holds beside the groups: where to read on, and how."""

    position: dict[str, Any]
    source_kind: str
    place: str  # for people
    reader: dict[str, Any]
    settings: dict[str, Any]
    tally: StreamTally


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep a second process away from the same state, whatever links lead to it."""
    place = _lock_of(path)
    if not place.parent.is_dir():
        raise DataError(f"the folder {place.parent} does not exist")
    try:
        handle = os.open(place, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror}") from None
    try:
        lock(handle)
    except BlockingIOError:
        os.close(handle)
        raise TulleError(f"another tulle stream is using {path}") from None
    try:
        yield
    finally:
        os.close(handle)


def is_running(path: str | os.PathLike[str]) -> bool:
    """Tell whether a process works on a state; looking leaves nothing behind."""
    return is_held(_lock_of(path))


def _lock_of(path: str | os.PathLike[str]) -> Path:
    state = _resolved(path)
    return state.with_name(f".{state.name}.lock")


def _resolved(path: str | os.PathLike[str]) -> Path:
    """Return the target of a symbolic link, which a write would otherwise replace."""
    return Path(os.path.realpath(path)) if os.path.islink(path) else Path(path)


class Checkpoint:
    """The file, and the key to what is private in it, unless that is ``plain``.

    Where its owner named no key, it is in the file next to it, which the first checkpoint makes.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, key: SecretKey | None, plain: bool = False
    ) -> None:
        self.path = _resolved(path)
        self.plain = plain
        self.beside = Path(f"{os.fspath(path)}.key")
        self.key = (
            SecretKey.load(self.beside) if key is None and os.path.exists(self.beside) else key
        )

    def exists(self) -> bool:
        if self.path.exists() and not self.path.is_file():
            raise DataError(f"{self.path} is not a regular file: choose another path for the state")
        return self.path.exists()

    def write(self, condenser: StreamCondenser, beside: Resumption) -> None:
        """Replace the checkpoint; only its owner can read it."""
        if not (self.plain or self.key or self.path.exists()):
            self.key = SecretKey.generate()
            self.key.save(self.beside)
        with atomic_write(self.path, force=True, mode=0o600) as file:
            write_state(file, condenser, self.key, plain=self.plain, extra=asdict(beside))

    def read(self) -> tuple[StreamCondenser, Resumption]:
        condenser, extra = load_state(StreamCondenser, self.path, self.key)
        if "position" not in extra:
            raise DataError(
                f"{self.path} was saved from Python and has no position in a source: tulle "
                "stream resumes only from states that it wrote itself"
            )
        with refusing(self.path):
            return condenser, cast(Resumption, restored(Resumption, extra, {}, ""))
