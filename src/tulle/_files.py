"""Files that appear whole or not at all.

On Linux the bytes go into a file without a name (``O_TMPFILE``): if the process dies, nothing is
left. Elsewhere, or on file systems that cannot do that, a hidden neighbour is used and removed. A
file that replaces another has a hidden name for the blink before the rename; what a kill at that
very moment leaves is whole, and :func:`remove_leftovers` takes it away at the next occasion.
"""

from __future__ import annotations

import glob
import gzip
import hashlib
import importlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from tulle.errors import DataError, OutputExists, TulleError

BINARY = getattr(os, "O_BINARY", 0)  # Windows translates line ends without it


@contextmanager
def atomic_write(
    path: str | os.PathLike[str], *, force: bool = False, mode: int = 0o644
) -> Iterator[BinaryIO]:
    """Open a binary file that gets its name when the block ends without an error."""
    target = Path(path)
    refuse_existing(target, force=force)
    remove_leftovers(target)
    descriptor, hidden = _open_nameless(target, mode)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield cast(BinaryIO, file)
            file.flush()
            os.fsync(file.fileno())
            if hidden is None and (force and target.exists()):
                hidden = hidden_name(target, "part")
                _name(file.fileno(), hidden)
            if hidden is None:
                _name(file.fileno(), target)
        if hidden is not None:  # closed before: Windows renames no open file
            _rename(hidden, target, force=force)
        with suppress(OSError):
            sync_folder(target.parent)
    except FileExistsError:
        raise OutputExists(
            f"{target} was created by another process meanwhile: nothing was replaced"
        ) from None
    finally:
        if hidden is not None:
            hidden.unlink(missing_ok=True)


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove the hidden neighbours of a file that killed processes left behind."""
    for hidden in abandoned(Path(path), "part"):
        hidden.unlink(missing_ok=True)


def hidden_name(target: Path, what: str) -> Path:
    """Name a hidden neighbour that says which process it belongs to."""
    return target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.{what}")


def abandoned(target: Path, what: str, *, own: bool = False) -> list[Path]:
    """List hidden neighbours that no living process owns (``own``: or this one)."""
    found = []
    for hidden in target.parent.glob(f".{glob.escape(target.name)}.*.{what}"):
        owner = hidden.name.removesuffix(f".{what}").rpartition(".")[2].partition("-")[0]
        if owner.isdigit() and (own if int(owner) == os.getpid() else not alive(int(owner))):
            found.append(hidden)
    return found


def refuse_existing(path: str | os.PathLike[str], *, force: bool) -> None:
    """Refuse to overwrite a file, or to write into a folder that does not exist."""
    target = Path(path)
    if target.is_dir():
        raise OutputExists(f"{target} is a folder: give the path of a file")
    if target.exists() and not target.is_file():
        raise OutputExists(
            f"{target} is not a regular file and will not be overwritten: choose another path"
        )
    if target.exists() and not force:
        raise OutputExists(f"{target} exists already: pass --force (force=True) to replace it")
    if not target.parent.is_dir():
        raise DataError(f"the folder {target.parent} does not exist")
    if not os.access(target.parent, os.W_OK):
        raise DataError(f"no permission to write into the folder {target.parent}")


def refuse_same(source: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    with suppress(FileNotFoundError):
        if os.path.samefile(source, output):
            raise TulleError(f"{output} is the source file: choose another name for the release")


def digest(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return digest_of(file)


def digest_of(file: BinaryIO) -> str:
    running = hashlib.sha256()
    while block := file.read(1 << 20):
        running.update(block)
    return running.hexdigest()


# Files that unpack into very much more than they are. Tables of text seldom shrink to a fiftieth.

_STEEPEST = 200  # times what was read of the packed file,
_HARMLESS = 32 << 20  # or so many bytes, may come out of it


def check_unpacked(name: str | os.PathLike[str], packed: int, unpacked: int) -> None:
    """Raise if a file unpacks into far more than its size lets expect."""
    if unpacked > max(_HARMLESS, _STEEPEST * packed):
        raise DataError(
            f"{name} unpacks to more than {_STEEPEST} times its size: unpack it yourself if you "
            "trust it"
        )


class BoundedGzip(gzip.GzipFile):
    """A gzip file that refuses to unpack into far more than its size lets expect."""

    def __init__(self, name: str | os.PathLike[str], raw: BinaryIO) -> None:
        super().__init__(fileobj=raw, mode="rb")
        self._shown, self._raw = name, raw

    def look_ahead(self) -> None:
        """Unpack as much as is harmless: what is too steep shows before any of it is used."""
        while self.tell() <= _HARMLESS and self.read(1 << 20):
            pass
        self.seek(0)

    def read(self, size: int | None = -1) -> bytes:
        """Return up to so many bytes, or all there are, and count them."""
        if size is not None and size >= 0:
            return self._counted(super().read(size))
        return b"".join(iter(lambda: self._counted(super(BoundedGzip, self).read(1 << 20)), b""))

    def _counted(self, block: bytes) -> bytes:
        check_unpacked(self._shown, self._raw.tell(), self.tell())
        return block


@contextmanager
def alone_in(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Admit one process or thread at a time while files of a folder change names.

    Where folders cannot be locked (some network file systems) it proceeds without a lock.
    """
    handle = None
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        lock(handle, wait=True)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Make renames inside a folder survive a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _open_nameless(target: Path, mode: int) -> tuple[int, Path | None]:
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        # the file system may not support it (overlay, network): fall through
        with suppress(OSError):
            return os.open(target.parent, os.O_TMPFILE | os.O_RDWR, mode), None
    hidden = hidden_name(target, "part")
    return os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, mode), hidden


def _name(descriptor: int, path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # a folder descriptor makes Python call linkat, which follows the /proc link; link does not
        os.link(f"/proc/self/fd/{descriptor}", path.name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


def _rename(hidden: Path, target: Path, *, force: bool) -> None:
    if force:
        os.replace(hidden, target)
    else:
        # link fails if the name was taken meanwhile; rename would replace it silently
        os.link(hidden, target)


def alive(process: int) -> bool:
    if os.name == "nt":
        return True  # to ask would end it: there signal 0 is Ctrl-C
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def lock(handle: int, *, wait: bool = False, shared: bool = False) -> None:
    """Lock an open file until it is closed; raise BlockingIOError if another process has it."""
    try:
        fcntl = importlib.import_module("fcntl")
    except ModuleNotFoundError:  # Windows locks bytes, of which there need not be any
        msvcrt = importlib.import_module("msvcrt")
        try:
            msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            raise BlockingIOError(f"file {handle} is locked") from None
    else:
        how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(handle, how if wait else how | fcntl.LOCK_NB)


def is_held(path: Path) -> bool:
    """Tell whether a process holds the lock on a file; a file that is not there is free."""
    try:
        with path.open("rb") as file:
            lock(file.fileno(), shared=True)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
