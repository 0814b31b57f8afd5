"""Checkpoints: one file ties the state of the groups to the position in the source.

It appears whole or not at all. After a kill at any moment the last checkpoint says both what was
counted and where to read on, so every record is counted exactly once. Records that wait are not in
it: it says where in the source they are, and they are read again (with a key they are sealed in
it, and on request written unencrypted).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

from tulle._files import atomic_write, is_held, lock
from tulle._plurals import counted
from tulle._types import Ints
from tulle.errors import DataError, KeyMaterialError, TulleError
from tulle.keys import SecretKey
from tulle.stream import StreamCondenser
from tulle.stream._saved import Owed, load_state, refusing, restored, write_state
from tulle.stream._sources import Lines, Source


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
    waiting: dict[str, Any]
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
    """The file, and how waiting records are treated in it."""

    def __init__(
        self, path: str | os.PathLike[str], *, key: SecretKey | None, plain_waiting: bool
    ) -> None:
        self.path = _resolved(path)
        self.key = key
        self.waiting = "plain" if plain_waiting else "seal" if key is not None else "omit"

    def exists(self) -> bool:
        if self.path.exists() and not self.path.is_file():
            raise DataError(f"{self.path} is not a regular file: choose another path for the state")
        return self.path.exists()

    def write(self, condenser: StreamCondenser, beside: Resumption) -> None:
        """Replace the checkpoint; only its owner can read it."""
        persons = condenser._fitted.persons
        if persons is not None and self.waiting == "omit":
            raise KeyMaterialError(
                f"this stream counts the people in column '{persons.column}', of whom the state "
                "holds hashes: pass --key to seal them, or --plain-waiting to store them unsealed"
            )
        with atomic_write(self.path, force=True, mode=0o600) as file:
            write_state(file, condenser, waiting=self.waiting, key=self.key, extra=asdict(beside))

    def read(self) -> tuple[StreamCondenser, Resumption, list[Owed]]:
        """Return the condenser, what was saved with it, and the waiting records to read again."""
        condenser, extra, owed = load_state(StreamCondenser, self.path, key=self.key)
        if "position" not in extra:
            raise DataError(
                f"{self.path} was saved from Python and has no position in a source: tulle "
                "stream resumes only from states that it wrote itself"
            )
        with refusing(self.path):
            return condenser, cast(Resumption, restored(Resumption, extra, {}, "")), owed


# Where the records are that wait, and whether they still read as they did.


class Whereabouts:
    """Of every waiting record, by its number, the place in the source and a checksum of its line.

    A record that was edited while it waited would be condensed as it never came. The checksums are
    keyed with a salt of this state; still, anyone who has the state can test guesses with them. So
    it is for its owner only, and where waiting records are sealed it holds no checksum.
    """

    def __init__(self) -> None:
        self.salt = secrets.token_bytes(16)
        self.places: dict[int, Any] = {}
        self.checks: dict[int, str] = {}

    def check(self, text: bytes | None) -> str:
        return blake2b(text or b"", key=self.salt, digest_size=16).hexdigest()

    def keep(self, waiting: Iterable[int], before: int, rows: Ints, lines: Lines) -> None:
        """Keep the waiting records; those from ``before`` on were these rows of the lines."""
        places, checks = self.places, self.checks
        self.places, self.checks = {}, {}
        for number in waiting:
            if number < before:
                self.places[number] = places[number]
                if number in checks:
                    self.checks[number] = checks[number]
                continue
            row = int(rows[number - before])
            self.places[number] = lines.places[row]
            self.checks[number] = self.check(lines.texts[row])

    def read_again(self, owed: Sequence[Owed], source: Source) -> list[bytes | None]:
        """Return the lines of records that the state left out, if they have not changed."""
        wanted = [self.places[waiter.number] for waiter in owed]
        gone = len(wanted) if not source.goes_back else wanted.count(None)
        if gone:
            raise DataError(
                f"{counted(gone, 'record', 'is')} waiting, and {source.name} cannot deliver them "
                "again: pass the --key that sealed them in the state, or start a new state with "
                "one"
            )
        texts = source.again(wanted)
        for waiter, text in zip(owed, texts, strict=True):
            check = self.check(text)
            if self.checks.setdefault(waiter.number, check) != check:  # sealed ones have none
                raise changed(source)
        if not source.goes_back:
            self.places = dict.fromkeys(self.places)
        return texts

    def to_json(self, *, sealed: bool) -> dict[str, Any]:
        places = {"waiting": {str(number): place for number, place in self.places.items()}}
        if sealed:
            return places
        checks = {str(number): check for number, check in self.checks.items()}
        return places | {"waiting_checks": checks, "waiting_salt": self.salt.hex()}

    def restore(self, entries: Mapping[str, Any]) -> None:
        self.places = {int(number): place for number, place in entries["waiting"].items()}
        checks = entries.get("waiting_checks", {})
        self.checks = {int(number): check for number, check in checks.items()}
        if "waiting_salt" in entries:
            self.salt = bytes.fromhex(entries["waiting_salt"])


def changed(source: Source) -> DataError:
    return DataError(
        f"a waiting record has changed in the source. Restore {source.name}, or start a new "
        "state with --key, which stores waiting records in the state"
    )
