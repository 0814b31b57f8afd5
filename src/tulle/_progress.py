"""Progress bars that long work can report to without knowing who watches.

The library calls :func:`bar`; nothing is shown unless someone (the command line, a user with
``tulle._progress.shown()``) asked for it and standard error is a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_display: ContextVar[Any] = ContextVar("tulle_progress", default=None)


@contextmanager
def shown() -> Iterator[None]:
    """Show progress bars, on standard error if it is a terminal, for all work done in the block."""
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
