"""``tulle sites``: tables of several sites for an untrusted miner."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import rich_click as click

from tulle._choices import CUTS, RESULTS
from tulle.cli import _options as options
from tulle.cli import _output as output
from tulle.errors import KeyMaterialError

# Options of ``tulle sites``: what opens an agreement, and choices for single columns.

agreement = options.file("--agreement", "-a", "The sealed agreement.", required=True)
key_file = options.file(
    "--key-file", "Key file that opens the agreement. Default: TULLE_PASSPHRASE, or a prompt."
)
release = click.option(
    "--release", metavar="LABEL", help="Label of a release; each label gives different codes."
)


class Named(click.ParamType):
    """``NAME=...`` with something read from what follows."""

    name = "named"

    def __init__(self, read: Callable[[str], Any], example: str) -> None:
        self.read = read
        self.example = example

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        name, found, rest = str(value).rpartition("=")
        try:
            if not found or not name:
                raise ValueError
            return name, self.read(rest)
        except (ValueError, OSError):
            self.fail(f"{value!r} is not of the form {self.example}", param, ctx)


def _end(text: str) -> float | str:
    with suppress(ValueError):
        return float(text)
    return text.strip()


def _ends(text: str) -> tuple[Any, Any]:
    low, high = text.split("..")
    if high.startswith("."):  # three dots are not a range up to a fraction
        raise ValueError
    return _end(low), _end(high)


def _lines(path: str) -> list[str]:
    with open(path, encoding="utf-8-sig") as file:
        return [line.rstrip("\r\n") for line in file if line.strip()]


RANGE = Named(_ends, "age=0..120 or born=1900-01-01..2030-12-31")
LIMITS = Named(lambda text: [_end(part) for part in text.split(",")], "age=15,30,45")
NUMBERS = Named(lambda text: [int(part) for part in text.split(",")], "age=1,4,6")
LISTED = Named(_lines, "illness=illnesses.txt (one category per line)")
SHARE = Named(float, "sex=0.1")


def by_column(ctx: Any, param: Any, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return what was given for each column."""
    return dict(pairs)


def for_column(flag: str, kind: Named, metavar: str, told: str, *names: str) -> Any:
    """Return an option that is given once for each column."""
    return click.option(
        flag, *names, multiple=True, type=kind, callback=by_column, metavar=metavar, help=told
    )


def written(told: str) -> Any:
    """Return the option that names the file to write."""
    return click.option("-o", "--output", "target", required=True, metavar="OUTPUT", help=told)


def ask_passphrase(key_file: str | None, *, new: bool = False) -> str | None:
    """Return the passphrase from the environment or the keyboard; never from the command line."""
    if key_file is not None:
        return None
    given = os.environ.get("TULLE_PASSPHRASE")
    try:
        return given or click.prompt(
            "Passphrase", hide_input=True, confirmation_prompt=new, err=True
        )
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise KeyMaterialError(
            "there is no terminal to ask for the passphrase: set TULLE_PASSPHRASE, or give a "
            "--key-file"
        ) from None


@click.group()
def command() -> None:
    """Encode tables of several sites alike, for a miner who cannot read them.

    The steps, in order: summary (each site, if there is no policy), agree (one site), encode (each
    site), join (the miner), the miner's own tools, decode (each site).
    """


@command.command()
@options.source
@written("Where to write the summary (JSON).")
@options.policy
@options.force
@options.as_json
def summary(source: str, target: str, as_json: bool, **arguments: Any) -> None:
    """Share columns, kinds and rounded ranges with the other sites, but no category."""
    from tulle._commands.sites import summarise

    _show(summarise(source, target, **arguments), "Summary", as_json)


@command.command()
@click.argument("summaries", nargs=-1, metavar="[SUMMARY]...")
@written("Where to write the agreement.")
@options.policy
@key_file
@for_column("--range", RANGE, "COLUMN=LOW..HIGH", "Public range of a number or date.", "ranges")
@options.whole("--groups", "Number of groups for each number or date.  [5]")
@options.choice(
    CUTS,
    "--cuts",
    "Equal: every miner gets the same results. Uneven: harder to read, keeps only the order.",
)
@for_column("--limits", LIMITS, "COLUMN=A,B,...", "Your own cut points.")
@for_column("--values", NUMBERS, "COLUMN=1,2,...", "Group numbers for --limits.")
@options.column("--plain", "Leave this column unencoded.", multiple=True)
@options.column("--alias", "Treat this number or date as a name and use aliases.", multiple=True)
@for_column("--categories", LISTED, "COLUMN=FILE", "Agreed list of categories: one per line.")
@options.column(
    "--other", "Let categories missing from the agreed list share one alias.", multiple=True
)
@for_column(
    "--split",
    SHARE,
    "COLUMN=SHARE",
    "Use several aliases for values more common than this. Changes mining results.",
)
@options.column(
    "--match", "The sites hold other columns of the same people: this one says who they are."
)
@options.force
@options.as_json
def agree(target: str, as_json: bool, key_file: str | None, **arguments: Any) -> None:
    """Create the agreement: schema, cut points, keys or tables, sealed in one file.

    From a policy and public ranges, or from the summaries of the sites. Prints the fingerprint
    that the sites compare by phone.
    """
    from tulle._commands.sites import agree as make

    made = make(
        target, key_file=key_file, passphrase=ask_passphrase(key_file, new=True), **arguments
    )
    _show(made, "Agreement", as_json)


@command.command()
@options.source
@options.output
@agreement
@key_file
@release
@options.switch("--clamp", "Move values outside the range to its nearer end.")
@options.file("--vocabulary", "Also write your values, sealed for the other sites.")
@options.report
@options.file(
    "--public", "Table of other people that attackers in the report may know. Default: your own."
)
@options.seed
@options.sign_key
@options.force
@options.as_json
def encode(source: str, output: str, as_json: bool, key_file: str | None, **arguments: Any) -> None:
    """Encode your table; write the codes and a manifest with the fingerprint."""
    from tulle._commands.site_tables import encode as make
    from tulle.cli._output import command_line, where_to_look, working

    passphrase = ask_passphrase(key_file)
    with working(as_json):
        made = make(
            source,
            output,
            key_file=key_file,
            passphrase=passphrase,
            command=command_line(),
            **arguments,
        )
    _show(made, "Encoded", as_json, where_to_look(output, arguments["report"]))


@command.command()
@click.argument("tables", nargs=-1, required=True, metavar="ENCODED...")
@options.output
@options.sign_key
@options.force
@options.as_json
def join(tables: tuple[str, ...], output: str, as_json: bool, **arguments: Any) -> None:
    """Join the codes of several sites into one table (the miner's side).

    One below the other; or, under an agreement with --match, one next to the other, for the people
    who are in all of them. Refuses codes of different agreements, columns that do not fit, changed
    files, and records that would count twice. Needs no key.
    """
    from tulle._commands.site_union import join as make
    from tulle.cli._output import where_to_look, working

    with working(as_json):
        made = make(tables, output, **arguments)
    _show(made, "Joined", as_json, where_to_look(output))


@command.command()
@options.source
@written("Where to write the decoded result; readable by you only.")
@agreement
@key_file
@release
@click.option(
    "--values",
    multiple=True,
    metavar="FILE",
    help="Your table, or a vocabulary from another site: values to recognize.",
)
@options.choice(RESULTS, "--kind", "Kind of result. Default: by file name. Trees are text.")
@options.switch("--keep-unknown", "Keep aliases whose value is unknown.")
@click.option("--decimals", type=click.IntRange(0, 15), help="Decimals of decoded thresholds.")
@options.force
@options.as_json
def decode(source: str, target: str, as_json: bool, key_file: str | None, **arguments: Any) -> None:
    """Decode what the miner found: tables, rules, trees, centres, JSON."""
    from tulle._commands.sites import decode as make

    passphrase = ask_passphrase(key_file)
    with output.working(as_json):
        made = make(source, target, key_file=key_file, passphrase=passphrase, **arguments)
    _show(made, "Decoded", as_json)


@command.command()
@click.argument("agreement", metavar="AGREEMENT")
@click.option(
    "-o",
    "--output",
    "target",
    metavar="OUTPUT",
    help="The new agreement. Default: next to the old one.",
)
@key_file
@options.column(
    "--list",
    "listed",
    "Code this column by a mapping table from now on: one number for each category.",
    multiple=True,
)
@click.option(
    "--values",
    multiple=True,
    metavar="FILE",
    help="For --list: your table, and the sealed vocabularies of the other sites.",
)
@options.force
@options.as_json
def rotate(
    agreement: str, target: str | None, as_json: bool, key_file: str | None, **arguments: Any
) -> None:
    """Create a new key, aliases and secret cut points; the old agreement stays readable."""
    from tulle._commands.sites import rotate as make

    made = make(
        agreement, target, key_file=key_file, passphrase=ask_passphrase(key_file), **arguments
    )
    _show(made, "Rotated", as_json)


def _show(made: Any, title: str, as_json: bool, more: Sequence[str] = ()) -> None:
    output.show_done(made, title, as_json=as_json, where=more)
