"""How commands report: a summary table for people, JSON for machines, progress on a terminal."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import rich_click as click

from tulle._json import plain
from tulle.errors import TulleError

if TYPE_CHECKING:
    from rich.console import Console

    from tulle._commands._decision import Done
    from tulle._report.model import Verdict

_WORD = 18  # single words up to this length are kept whole
# controls, separators of lines, and what turns the direction of writing; spaces stay
_STEERS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]")


@contextmanager
def working(as_json: bool = False, *, logged: bool | None = None) -> Iterator[None]:
    """Show progress inside the block: on a terminal as a bar, else as lines on standard error.

    Who asks for JSON gets lines only where they are wanted (``logged``), since some read both
    outputs as one. Where a release is refused, the verdict is shown before the error ends the
    command.
    """
    from tulle._commands._decision import Refused
    from tulle._progress import shown

    try:
        with shown(lines=not as_json if logged is None else logged):
            yield
    except Refused as refused:
        if as_json:
            chosen = {} if refused.chosen is None else {"chosen": refused.chosen}
            told = {"written": False, "verdict": refused.verdict, **chosen}
            click.echo(json.dumps(plain(told)))
        else:
            for line in verdict_lines(refused.verdict):
                click.echo(printable(line))
        raise


def show(
    summary: Mapping[str, Any],
    *,
    title: str,
    as_json: bool = False,
    tables: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    verdict: Verdict | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Print a summary (name -> value), then tables of rows, the verdict, and where to look next.

    With ``as_json`` the same goes out as one JSON object, the tables under their titles.
    """
    with _read_by_somebody():
        if as_json:
            judged = {} if verdict is None else {"verdict": verdict}
            everything = {**summary, **(tables or {}), **judged, "notes": [*notes]}
            click.echo(json.dumps(plain(everything), default=str))
            return
        from rich.console import Console

        # names of files and columns are shown unchanged, with all their [brackets] and :colons:
        console = Console(markup=False, emoji=False)
        console.print(_pairs(title, summary))
        for name, rows in (tables or {}).items():
            if rows:
                for part in _table(name, rows, console):
                    console.print(part)
        for line in [] if verdict is None else verdict_lines(verdict):
            console.print(printable(line), highlight=False, soft_wrap=True)
        for note in notes:
            if note not in _warned():
                console.print(printable(note), highlight=False, soft_wrap=True)


def show_done(done: Done, title: str, *, as_json: bool, where: Sequence[str] = ()) -> None:
    """Print what a command did, and ``where`` to look next."""
    show(
        done.summary, title=title, as_json=as_json, tables=done.tables, verdict=done.verdict,
        notes=[*done.notes, *where],
    )  # fmt: skip


def show_release(done: Done, title: str, given: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what a releasing command did, and where its files are."""
    where = where_to_look(given["output"], given["report"])
    show_done(done, title, as_json=as_json, where=where)


def verdict_lines(verdict: Verdict) -> list[str]:
    """Return the two sentences of a verdict, each with its next step."""
    return [
        f"{about:8}{judged['level']}: {judged['reason']} Next: {judged['next']}"
        for about, judged in (("privacy", verdict["privacy"]), ("use", verdict["use"]))
    ]


def warn(text: str) -> None:
    """Print a warning on standard error at once; notes do not repeat it."""
    _warned().add(text)
    say(f"warning: {text}")


def say(text: str) -> None:
    """Print one line on standard error."""
    print(f"tulle: {printable(text)}", file=sys.stderr)


def _warned() -> set[str]:
    context = click.get_current_context(silent=True)
    said: set[str] = set() if context is None else context.meta.setdefault("tulle.warned", set())
    return said


def printable(text: str) -> str:
    """Strip what would control a terminal: a name may hold anything."""
    return _STEERS.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")


@contextmanager
def _read_by_somebody() -> Iterator[None]:
    """Report that the reader (``| head``) is gone; click and rich would exit with code 1."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise TulleError(
            "the output was closed by its reader; the command itself completed"
        ) from None


def command_line() -> str:
    """Return the command as a report may show it: without seed, password or query."""
    from tulle.io._formats import display_name

    words = []
    for before, word in zip(["", *sys.argv[1:]], sys.argv[1:]):
        option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        secret = "--seed" in (before, option) and value
        words.append(option + equals + ("..." if secret else display_name(value)))
    return "tulle " + shlex.join(words)


def where_to_look(release: str, report: str | None = None) -> list[str]:
    """Return the last lines of a releasing command."""
    from tulle.io._formats import display_name, is_sql

    release = release if is_sql(release) else release.rstrip("/")
    suffix = "_manifest" if is_sql(release) else ".manifest.json"
    lines = [f"release   {display_name(release)}", f"manifest  {display_name(release + suffix)}"]
    return lines + ([f"report    {report}"] if report else [])


def _pairs(title: str, summary: Mapping[str, Any]) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in summary.items():
        if not isinstance(value, Mapping | list | tuple):
            table.add_row(name.replace("_", " "), _text(value))
    return table


def _table(title: str, rows: Sequence[Mapping[str, Any]], console: Console) -> Iterator[Any]:
    """Yield a table; if not even its longest words fit, yield each row as pairs."""
    from rich.measure import Measurement
    from rich.table import Table

    title = title.replace("_", " ")
    table = Table(title=f"\n{title}", title_justify="left", box=None, pad_edge=False)
    for name in rows[0]:
        table.add_column(**_column(name, [row[name] for row in rows]))
    for row in rows:
        table.add_row(*map(_text, row.values()))
    if (
        Measurement.get(console, console.options.update_width(10_000), table).minimum
        <= console.width
    ):
        yield table
        return
    for number, row in enumerate(rows, 1):
        yield _pairs(f"\n{title} ({number} of {len(rows)})", row)


def _column(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return how a column is laid out: sentences wrap, numbers and single words do not."""
    from rich.cells import cell_len

    heading = name.replace("_", "\n")
    cells = [_text(value) for value in values]
    width = max(map(cell_len, [*heading.split(), *cells]))
    is_numeric = any(isinstance(value, int | float) for value in values)
    is_short = width <= _WORD and not any(" " in cell for cell in cells)
    return {
        "header": heading,
        "justify": "right" if is_numeric else "left",
        "width": width if is_short else None,
        "overflow": "fold",
    }


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
