"""Progress bars that long work can report to without knowing who watches.

The library calls :func:`bar`; nothing is shown unless someone (the command line, a user with
``tulle._progress.shown()``) asked for it and standard error is a terminal. A program that runs a
command names a file in ``TULLE_PROGRESS``, which then says how far the work is.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_display: ContextVar[Any] = ContextVar("tulle_progress", default=None)


@contextmanager
def shown() -> Iterator[None]:
    """Show progress bars, on standard error if it is a terminal, for all work done in the block."""
    file = os.environ.get("TULLE_PROGRESS")
    if file:
        token = _display.set(_Told(file))
        try:
            yield
        finally:
            _display.reset(token)
        return
    if not sys.stderr.isatty():
        yield
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


class _Told:
    """Progress as a file, for another process to read: what is done, of how much, since when."""

    def __init__(self, path: str) -> None:
        self._path = path
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
