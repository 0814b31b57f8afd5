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
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

_LONG, _AGAIN = 2.0, 10.0  # seconds until the first line about some work, and between further ones
_display: ContextVar[Any] = ContextVar("tulle_progress", default=None)


@contextmanager
def shown(*, lines: bool = True) -> Iterator[None]:
    """Show the progress of all work done in the block on standard error: a bar, or ``lines``."""
    file = os.environ.get("TULLE_PROGRESS")
    if not file and not lines and not sys.stderr.isatty():
        yield
        return
    if file or not sys.stderr.isatty():
        token = _display.set(_Told(file) if file else _Logged())
        try:
            yield
        finally:
            _display.reset(token)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"))
    with Progress(
        *columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True
    ) as display:
        token = _display.set(display)
        try:
            yield
        finally:
            _display.reset(token)


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


class _PlainConsole:
    """A console that prints plain lines on standard error."""

    def print(self, text: str) -> None:
        """Print one line at once, where a service collects it."""
        print(text, file=sys.stderr, flush=True)


class _Logged:
    """Progress as lines: one when work takes longer than two seconds, then one from time to time.

    A timer prints the first line, for some work does not say how far it is.
    """

    def __init__(self) -> None:
        self.console = _PlainConsole()
        self._tasks: dict[int, _Task] = {}

    def add_task(self, description: str, total: float | None, note: str) -> int:
        """Begin a piece of work."""
        number = max(self._tasks, default=-1) + 1
        wait = _AGAIN if self._tasks else _LONG  # what is a part of other work has less to say
        task = self._tasks[number] = _Task(description, total, note, time.monotonic())
        task.timer = threading.Timer(wait, self._print, [task])
        task.timer.daemon = True
        task.timer.start()
        return number

    def update(self, task: int, advance: float, note: str) -> None:
        """Move on."""
        known = self._tasks[task]
        known.done, known.note = known.done + advance, note
        now = time.monotonic()
        if known.printed and now - known.printed >= max(_AGAIN, (now - known.start) / 10):
            self._print(known)

    def remove_task(self, task: int) -> None:
        """End a piece of work."""
        ended = self._tasks.pop(task)
        if ended.timer is not None:
            ended.timer.cancel()
        if ended.printed:
            seconds = time.monotonic() - ended.start
            self.console.print(f"tulle: {ended.description}: done after {seconds:.0f} s")

    def _print(self, task: _Task) -> None:
        task.printed = time.monotonic()
        share = f"{task.done / task.total:.0%}" if task.total else ""
        words = [word for word in (share, task.note) if word]
        self.console.print(
            f"tulle: {task.description}{': ' if words else ' ...'}{', '.join(words)}"
        )


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


class _Told:
    """Progress as a file, for another process to read: what is done, of how much, since when."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.console = _PlainConsole()
        self._tasks: dict[int, dict[str, Any]] = {}
        self._written = 0.0

    def add_task(self, description: str, total: float | None, note: str) -> int:
        """Begin a bar."""
        task = max(self._tasks, default=-1) + 1
        start = time.monotonic()
        self._tasks[task] = {
            "task": description, "total": total, "done": 0.0, "note": note, "start": start
        }  # fmt: skip
        self._write(wait=0.0)
        return task

    def update(self, task: int, advance: float, note: str) -> None:
        """Move a bar on."""
        self._tasks[task]["done"] += advance
        self._tasks[task]["note"] = note
        self._write(wait=0.3)

    def remove_task(self, task: int) -> None:
        """End a bar."""
        del self._tasks[task]

    def _write(self, wait: float) -> None:
        """Write the outermost bar, seldom enough to cost nothing."""
        now = time.monotonic()
        if now - self._written < wait:
            return
        self._written = now
        told = dict(next(iter(self._tasks.values())))
        told["seconds"] = now - told.pop("start")
        hidden = f"{self._path}.part"
        with open(hidden, "w") as file:
            json.dump(told, file)
        os.replace(hidden, self._path)
