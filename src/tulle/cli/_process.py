"""What the process that runs a command does with interrupts, memory and what libraries print."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_M_ARENA_MAX = -8  # as malloc.h has it


class Interrupts:
    """Remembers inside its block that the user pressed Ctrl-C.

    Compiled libraries turn a KeyboardInterrupt that reaches one of their callbacks into errors of
    their own, so what a command ends with does not say whether it was interrupted.
    """

    def __init__(self) -> None:
        self.seen = False

    def __enter__(self) -> Interrupts:
        self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.seen = True
        raise KeyboardInterrupt


@contextmanager
def libraries_silenced() -> Iterator[None]:
    """Keep what compiled libraries print off standard error; Python's own lines still arrive.

    A panic in Rust prints its message and a backtrace before anyone can catch it, and the message
    may quote a cell.
    """
    ours = sys.stderr
    if ours is None:  # it was closed before the command began
        yield
        return
    ours.flush()
    with (
        os.fdopen(os.dup(2), "w", 1, ours.encoding, ours.errors) as kept,
        open(os.devnull, "wb") as nowhere,
    ):
        os.dup2(nowhere.fileno(), 2)
        if ours is sys.__stderr__:
            sys.stderr = kept
        try:
            yield
        finally:
            sys.stderr = ours
            os.dup2(kept.fileno(), 2)


def share_heaps() -> None:
    """Let all threads share two heaps; call it before there are any.

    The GNU library would give each thread a heap of its own, which keeps what the thread has freed:
    a release in parts took a third more memory.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)
