"""Progress bars that long work can report to without knowing who watches.

The library calls :func:`bar`; nothing is shown unless someone (the command line, a user with
``tulle._progress.shown()``) asked for it. On a terminal it is a bar, elsewhere (in a service, under
a scheduler) lines on standard error for what takes longer than two seconds. A program that runs a
command names a file in ``TULLE_PROGRESS``, which then says how far the work is.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

_LONG, _AGAIN = 2.0, 10.0  # seconds until the first line about some work, and between further ones
_SELDOM = 0.3  # seconds between two writings of a file
_display: ContextVar[Any] = ContextVar("tulle_progress", default=None)


@contextmanager
def shown(*, lines: bool = True) -> Iterator[None]:
    """Show the progress of all work done in the block on standard error: a bar, or ``lines``."""
    file = os.environ.get("TULLE_PROGRESS")
    display: Any = _Told(file) if file else _Logged() if lines else _display.get()
    with ExitStack() as stack:
        if not file and sys.stderr.isatty():
            display = stack.enter_context(_bars())
        token = _display.set(display)
        try:
            yield
        finally:
            _display.reset(token)


def _bars() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"))
    console = Console(stderr=True)
    return Progress(*columns, TimeRemainingColumn(), console=console, transient=True)


@contextmanager
def bar(description: str, total: float | None) -> Iterator[Callable[..., None]]:
    """Show a bar; call the yielded function with what was done: ``advance(amount, note="...")``.

    None as ``total`` means that the amount of work is unknown.
    """
    display = _display.get()
    if display is None:
        yield lambda amount=1.0, note="": None
        return
    task = display.add_task(description, total=total, note="")

    def advance(amount: float = 1.0, note: str = "") -> None:
        display.update(task, advance=amount, note=note)

    try:
        yield advance
    finally:
        display.remove_task(task)


def log(text: str) -> None:
    """Print one line about something that happened, if progress is shown."""
    display = _display.get()
    if display is not None:
        display.console.print(f"tulle: {text}")


@dataclass
class _Task:
    """A piece of work, and when it was last reported."""

    description: str
    total: float | None
    note: str
    start: float
    done: float = 0.0
    printed: float = 0.0
    timer: threading.Timer | None = None


class _PlainConsole:
    """A console that prints plain lines on standard error."""

    def print(self, text: str) -> None:
        """Print one line at once, where a service collects it."""
        print(text, file=sys.stderr, flush=True)


class _Tasks:
    """What is being worked on, the outermost first; the methods are those of a display of rich."""

    def __init__(self) -> None:
        self.console = _PlainConsole()
        self._tasks: dict[int, _Task] = {}

    def add_task(self, description: str, total: float | None, note: str) -> int:
        """Begin a piece of work."""
        number = max(self._tasks, default=-1) + 1
        self._tasks[number] = _Task(description, total, note, time.monotonic())
        self._begun(self._tasks[number])
        return number

    def update(self, task: int, advance: float, note: str) -> None:
        """Move on."""
        known = self._tasks[task]
        known.done, known.note = known.done + advance, note
        self._moved(known)

    def remove_task(self, task: int) -> None:
        """End a piece of work."""
        self._ended(self._tasks.pop(task))

    def _begun(self, task: _Task) -> None: ...

    def _moved(self, task: _Task) -> None: ...

    def _ended(self, task: _Task) -> None: ...


class _Logged(_Tasks):
    """Progress as lines: one when work takes longer than two seconds, then one from time to time.

    A timer prints the first line, for some work does not say how far it is.
    """

    def _begun(self, task: _Task) -> None:
        wait = _AGAIN if len(self._tasks) > 1 else _LONG  # a part of other work has less to say
        task.timer = threading.Timer(wait, self._print, [task])
        task.timer.daemon = True
        task.timer.start()

    def _moved(self, task: _Task) -> None:
        now = time.monotonic()
        if task.printed and now - task.printed >= max(_AGAIN, (now - task.start) / 10):
            self._print(task)

    def _ended(self, task: _Task) -> None:
        if task.timer is not None:
            task.timer.cancel()
        if task.printed:
            seconds = time.monotonic() - task.start
            self.console.print(f"tulle: {task.description}: done after {seconds:.0f} s")

    def _print(self, task: _Task) -> None:
        task.printed = time.monotonic()
        share = f"{task.done / task.total:.0%}" if task.total else ""
        words = ", ".join(word for word in (share, task.note) if word)
        self.console.print(f"tulle: {task.description}{f': {words}' if words else ' ...'}")


class _Told(_Tasks):
    """Progress as a file, for another process to read: what is done, of how much, since when."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path, self._written = path, 0.0

    def _begun(self, task: _Task) -> None:
        self._written = 0.0
        self._moved(task)

    def _moved(self, task: _Task) -> None:
        """Write the outermost piece of work, seldom enough to cost nothing."""
        now = time.monotonic()
        if now - self._written < _SELDOM:
            return
        self._written = now
        first = next(iter(self._tasks.values()))
        told = {"task": first.description, "total": first.total, "done": first.done}
        told |= {"note": first.note, "seconds": now - first.start}
        hidden = f"{self._path}.part"
        with open(hidden, "w") as file:
            json.dump(told, file)
        os.replace(hidden, self._path)
