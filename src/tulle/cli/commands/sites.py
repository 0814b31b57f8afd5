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

agreement = click.option(
    "--agreement", "-a", required=True, metavar="FILE", help="The sealed agreement."
)
key_file = click.option(
    "--key-file",
    metavar="FILE",
    help="Key file that opens the agreement. Default: TULLE_PASSPHRASE, or a prompt.",
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
@click.option(
    "-o",
    "--output",
    "target",
    required=True,
    metavar="OUTPUT",
    help="Where to write the summary (JSON).",
)
@options.policy
@options.force
@options.as_json
def summary(source: str, target: str, as_json: bool, **arguments: Any) -> None:
    """Share columns, kinds and rounded ranges with the other sites, but no category."""
    from tulle._commands.sites import summarise

    _show(summarise(source, target, **arguments), "Summary", as_json)


@command.command()
@click.argument("summaries", nargs=-1, metavar="[SUMMARY]...")
@click.option(
    "-o",
    "--output",
    "target",
    required=True,
    metavar="OUTPUT",
    help="Where to write the agreement.",
)
@options.policy
@key_file
@click.option(
    "--range",
    "ranges",
    multiple=True,
    type=RANGE,
    callback=by_column,
    metavar="COLUMN=LOW..HIGH",
    help="Public range of a number or date.",
)
@click.option("--groups", type=int, help="Number of groups for each number or date.  [5]")
@click.option(
    "--cuts",
    type=click.Choice(CUTS),
    help="Equal: every miner gets the same results. Uneven: harder to read, keeps only the order.",
)
@click.option(
    "--limits",
    multiple=True,
    type=LIMITS,
    callback=by_column,
    metavar="COLUMN=A,B,...",
    help="Your own cut points.",
)
@click.option(
    "--values",
    multiple=True,
    type=NUMBERS,
    callback=by_column,
    metavar="COLUMN=1,2,...",
    help="Group numbers for --limits.",
)
@click.option("--plain", multiple=True, metavar="COLUMN", help="Leave this column unencoded.")
@click.option(
    "--alias",
    multiple=True,
    metavar="COLUMN",
    help="Treat this number or date as a name and use aliases.",
)
@click.option(
    "--categories",
    multiple=True,
    type=LISTED,
    callback=by_column,
    metavar="COLUMN=FILE",
    help="Agreed list of categories: one per line.",
)
@click.option(
    "--other",
    multiple=True,
    metavar="COLUMN",
    help="Let categories missing from the agreed list share one alias.",
)
@click.option(
    "--split",
    multiple=True,
    type=SHARE,
    callback=by_column,
    metavar="COLUMN=SHARE",
    help="Use several aliases for values more common than this. Changes mining results.",
)
@click.option(
    "--joint",
    multiple=True,
    nargs=2,
    metavar="COLUMN COLUMN",
    help="Use one alias for a pair of columns.",
)
@click.option(
    "--match",
    metavar="COLUMN",
    help="The sites hold other columns of the same people: this one says who they are.",
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
        target,
        key_file=key_file,
        passphrase=ask_passphrase(key_file, new=True),
        **arguments,
    )
    _show(made, "Agreement", as_json)


@command.command()
@options.source
@options.output
@agreement
@key_file
@release
@click.option("--clamp", is_flag=True, help="Move values outside the range to its nearer end.")
@click.option(
    "--vocabulary", metavar="FILE", help="Also write your values, sealed for the other sites."
)
@options.report
@click.option(
    "--public",
    metavar="FILE",
    help="Table of other people that attackers in the report may know. Default: your own.",
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
@click.option(
    "-o",
    "--output",
    "target",
    required=True,
    metavar="OUTPUT",
    help="Where to write the decoded result; readable by you only.",
)
@agreement
@key_file
@release
@click.option(
    "--values",
    multiple=True,
    metavar="FILE",
    help="Your table, or a vocabulary from another site: values to recognize.",
)
@click.option(
    "--kind",
    type=click.Choice(RESULTS),
    help="Kind of result. Default: by file name. Trees are text.",
)
@click.option("--keep-unknown", is_flag=True, help="Keep aliases whose value is unknown.")
@click.option("--decimals", type=click.IntRange(0, 15), help="Decimals of decoded thresholds.")
@options.force
@options.as_json
def decode(source: str, target: str, as_json: bool, key_file: str | None, **arguments: Any) -> None:
    """Decode what the miner found: tables, rules, trees, centres, JSON."""
    from tulle._commands.site_results import decode as make

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
@click.option(
    "--list",
    "listed",
    multiple=True,
    metavar="COLUMN",
    help="Code this column by a mapping table from now on: one number for each category.",
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
    notes = [*made.notes, *more]
    output.show(
        made.summary,
        title=title,
        as_json=as_json,
        tables=made.tables,
        verdict=made.verdict,
        notes=notes,
    )
