"""Records by leaf in one file without a name, which is gone with the process."""

from __future__ import annotations

import os
import tempfile
from types import TracebackType
from typing import Any, BinaryIO, Self, cast

import numpy as np
from numpy.typing import NDArray

from tulle._types import Ints
from tulle.errors import DataError

Records = NDArray[Any]  # of the type that a spill has


class Spill:
    """Hold records sorted into leaves; at most ``memory`` bytes of them outside the file.

    Parameters
    ----------
    dtype : numpy dtype
        The type of a record.
    leaves : int
        How many leaves there are.
    memory : int
        Bytes.
    folder : str, optional
        Where the file is; by default ``TMPDIR``, else the system's folder for large temporary
        files. Only its owner can read it, it has no name, and it is gone with the process.
    """

    def __init__(
        self, dtype: np.dtype[Any], leaves: int, memory: int, folder: str | None = None
    ) -> None:
        self._file = _nameless(folder)
        self._dtype = dtype
        self._memory = memory
        self._held: list[list[Records]] = [[] for _ in range(leaves)]
        self._blocks: list[list[tuple[int, int]]] = [[] for _ in range(leaves)]  # start, bytes
        self._bytes = 0
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, records: Records, leaves: Ints) -> None:
        """Put each record to its leaf; a negative one is left out."""
        order = np.argsort(leaves, kind="stable")
        records, leaves = records[order], leaves[order]
        found, starts = np.unique(leaves, return_index=True)
        for leaf, part in zip(found.tolist(), np.split(records, starts[1:])):
            if leaf >= 0:
                self.put(leaf, part)

    def put(self, leaf: int, records: Records) -> None:
        """Put records to one leaf."""
        self._held[leaf].append(records)
        self._bytes += records.nbytes
        if self._bytes > self._memory:
            self.flush()

    def flush(self) -> None:
        """Write what is held in memory to the file."""
        try:
            for leaf, parts in enumerate(self._held):
                for part in parts:
                    self._file.write(part.tobytes())
                written = sum(part.nbytes for part in parts)
                if written:
                    self._blocks[leaf].append((self._end, written))
                    self._end += written
            self._file.flush()
        except OSError as error:
            raise DataError(
                f"cannot write the temporary file of the table's records ({error.strerror}, after "
                f"{self._end / 1e9:.1f} GB): set TMPDIR to a folder with more room"
            ) from None
        self._held = [[] for _ in self._held]
        self._bytes = 0

    def holds(self, leaf: int) -> bool:
        """Return whether a leaf has records."""
        return bool(self._blocks[leaf] or self._held[leaf])

    def read(self, leaves: Ints) -> Records:
        """Return the records of some leaves; several threads may do so at once."""
        places = leaves.tolist()
        records = self._records([block for leaf in places for block in self._blocks[leaf]])
        held = [part for leaf in places for part in self._held[leaf]]
        return np.concatenate([records, *held]) if held else records

    def _records(self, blocks: list[tuple[int, int]]) -> Records:
        records = np.empty(sum(size for _, size in blocks) // self._dtype.itemsize, self._dtype)
        whole: Any = records.view(np.uint8)
        view, at = memoryview(whole), 0
        for start, size in blocks:
            self._fill(view[at : at + size], start)
            at += size
        return records

    def _fill(self, view: memoryview, start: int) -> None:
        done = 0
        while done < len(view):  # one call reads 2 GB at most
            done += os.preadv(self._file.fileno(), [view[done:]], start + done)


def _nameless(folder: str | None) -> BinaryIO:
    """Return a file on disk: the folder for small temporary files is often kept in memory."""
    if folder is None and "TMPDIR" not in os.environ and os.path.isdir("/var/tmp"):
        folder = "/var/tmp"
    return cast(BinaryIO, tempfile.TemporaryFile(dir=folder))
