"""How commands speak: a summary table for people, JSON for machines, progress on a terminal."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import rich_click as click

from tulle.errors import TulleError

_WORD = 18  # cells of a table up to this length are kept on one line


@contextmanager
def working() -> Iterator[None]:
    """Shows the progress of what is done inside, if standard error is a terminal."""
    from tulle.progress import shown

    with shown():
        yield


def show(
    summary: Mapping[str, Any],
    *,
    title: str,
    as_json: bool = False,
    tables: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Prints a summary (name -> value), then tables of rows, then where to look next.

    With ``as_json`` the same goes out as one JSON object, the tables under their titles.
    """
    with _read_by_somebody():
        if as_json:
            click.echo(json.dumps(_strict({**summary, **(tables or {})}), default=str))
            return
        from rich.console import Console

        # names of files and columns are shown as they are, with all their [brackets] and :colons:
        console = Console(markup=False, emoji=False)
        console.print(_pairs(title, summary))
        for name, rows in (tables or {}).items():
            if rows:
                console.print(_rows(name, rows, console.width))
        for note in notes:
            console.print(printable(note), highlight=False, soft_wrap=True)


def printable(text: str) -> str:
    """Without what would steer a terminal: a name may hold anything."""
    return re.sub(r"[^\S\n ]|[\x00-\x08\x0e-\x1f\x7f-\x9f]", _escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")


@contextmanager
def _read_by_somebody() -> Iterator[None]:
    """Says that the reader (``| head``) went away; click and rich would end with exit code 1."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise TulleError("the reader of the output went away; the work was done") from None


def _strict(value: Any) -> Any:
    """A value of JSON: it has neither NaN nor infinity."""
    if isinstance(value, Mapping):
        return {name: _strict(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def command_line() -> str:
    """The command as a report may show it: without seed, password or query."""
    from tulle.tables.formats import display_name

    words = []
    for before, word in zip(["", *sys.argv[1:]], sys.argv[1:]):
        option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        secret = "--seed" in (before, option) and value
        words.append(option + equals + ("..." if secret else display_name(value)))
    return "tulle " + shlex.join(words)


def where_to_look(release: str, report: str | None = None) -> list[str]:
    """The last lines of a releasing command."""
    from tulle.tables.formats import display_name, is_sql

    beside = "_manifest" if is_sql(release) else ".manifest.json"
    lines = [f"release   {display_name(release)}", f"manifest  {display_name(release + beside)}"]
    return lines + ([f"report    {report}"] if report else [])


def _pairs(title: str, summary: Mapping[str, Any]) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value in summary.items():
        if not isinstance(value, Mapping | list | tuple):
            table.add_row(name.replace("_", " "), _text(value))
    return table


def _rows(title: str, rows: Sequence[Mapping[str, Any]], width: int) -> Any:
    from rich.table import Table

    columns = [[name, *(_text(row[name]) for row in rows)] for name in rows[0]]
    narrow = sum(max(map(len, column)) + 2 for column in columns) - 2 > width
    table = Table(
        title="\n" + title.replace("_", " "), title_justify="left", box=None, pad_edge=False
    )
    for name in rows[0]:
        numeric = any(isinstance(row[name], int | float) for row in rows)
        # a narrow terminal wraps sentences, not words and numbers
        short = all(len(_text(row[name])) <= _WORD for row in rows)
        table.add_column(
            name.replace("_", "\n" if narrow else " "),
            justify="right" if numeric else "left",
            no_wrap=short,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(_text(value) for value in row.values()))
    return table


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return printable(str(value))
