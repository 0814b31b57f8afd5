"""How commands speak: a summary table for people, JSON for machines, progress on a terminal."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import rich_click as click

from tulle._json import plain
from tulle.errors import TulleError

_WORD = 18  # cells of a table up to this length are kept on one line
# controls, separators of lines, and what turns the direction of writing; spaces stay
_STEERS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]")


@contextmanager
def working() -> Iterator[None]:
    """Shows the progress of what is done inside, if standard error is a terminal."""
    from tulle._progress import shown

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
            click.echo(json.dumps(plain({**summary, **(tables or {})}), default=str))
            return
        from rich.console import Console

        # names of files and columns are shown as they are, with all their [brackets] and :colons:
        console = Console(markup=False, emoji=False)
        console.print(_pairs(title, summary))
        for name, rows in (tables or {}).items():
            if rows:
                for part in _parts(name, rows, console.width):
                    console.print(part)
        for note in notes:
            if note not in _warned():
                console.print(printable(note), highlight=False, soft_wrap=True)


def warn(text: str) -> None:
    """Says at once, on standard error, what should not be overlooked; notes do not repeat it."""
    _warned().add(text)
    say(f"warning: {text}")


def say(text: str) -> None:
    """One line on standard error."""
    print(f"tulle: {printable(text)}", file=sys.stderr)


def _warned() -> set[str]:
    context = click.get_current_context(silent=True)
    said: set[str] = set() if context is None else context.meta.setdefault("tulle.warned", set())
    return said


def printable(text: str) -> str:
    """Without what would steer a terminal: a name may hold anything."""
    return _STEERS.sub(_escaped, text)


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


def command_line() -> str:
    """The command as a report may show it: without seed, password or query."""
    from tulle.io._formats import display_name

    words = []
    for before, word in zip(["", *sys.argv[1:]], sys.argv[1:]):
        option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        secret = "--seed" in (before, option) and value
        words.append(option + equals + ("..." if secret else display_name(value)))
    return "tulle " + shlex.join(words)


def where_to_look(release: str, report: str | None = None) -> list[str]:
    """The last lines of a releasing command."""
    from tulle.io._formats import display_name, is_sql

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


class _Column(NamedTuple):
    name: str
    cells: list[str]
    is_numeric: bool
    wide: int  # letters it takes with its name on one line,
    full: int  # with its name on several,
    least: int  # and with sentences wrapped too, but neither words nor numbers


def _parts(title: str, rows: Sequence[Mapping[str, Any]], width: int) -> Iterator[Any]:
    """A table; on a narrow terminal several below each other, each with the first column."""
    first, *others = (_column(name, [row[name] for row in rows], width) for name in rows[0])
    part = [first]
    for column in others:
        if len(part) > 1 and _spread([c.least for c in [*part, column]]) > width:
            yield _table(title, part, width)
            title, part = f"{title.removesuffix(' (continued)')} (continued)", [first]
        part.append(column)
    yield _table(title, part, width)


def _column(name: str, values: Sequence[Any], width: int) -> _Column:
    from rich.cells import cell_len

    cells = [_text(value) for value in values]
    numeric = any(isinstance(value, int | float) for value in values)
    whole = [cell if cell_len(cell) <= _WORD else cell[:_WORD] for cell in cells]
    words = [word for cell in cells if cell_len(cell) > _WORD for word in cell.split()]
    half = max(width // 2 - 1, 1)  # the first column and another one fit always
    wide, full, least = (
        max(map(cell_len, texts))
        for texts in (
            [name, *cells],
            [*name.split("_"), *cells],
            [*name.split("_"), *whole, *words],
        )
    )
    return _Column(name, cells, numeric, wide, full, min(least, half))


def _table(title: str, columns: Sequence[_Column], width: int) -> Any:
    from rich.table import Table

    is_narrow = _spread([column.wide for column in columns]) > width
    table = Table(
        title="\n" + title.replace("_", " "), title_justify="left", box=None, pad_edge=False
    )
    for column, letters in zip(columns, _wrapped(columns, width)):
        table.add_column(
            column.name.replace("_", "\n" if is_narrow else " "),
            justify="right" if column.is_numeric else "left",
            width=letters if is_narrow else column.wide,
            overflow="fold",
        )
    for row in zip(*(column.cells for column in columns)):
        table.add_row(*row)
    return table


def _wrapped(columns: Sequence[_Column], width: int) -> list[int]:
    """Letters of each column where names wrap; if that is too much, the widest give first."""
    letters = [column.full for column in columns]
    while _spread(letters) > width:
        give = [i for i, column in enumerate(columns) if letters[i] > column.least]
        if not give:
            break
        letters[max(give, key=letters.__getitem__)] -= 1
    return letters


def _spread(letters: Sequence[int]) -> int:
    return sum(letters) + 2 * len(letters) - 2


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
