"""``tulle split``: keep some people apart."""

from __future__ import annotations

from typing import Any

import rich_click as click

from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@options.source
@options.file(
    "-o",
    "--output",
    "Where the people go who may be released: a file, or URI#table.",
    required=True,
    metavar="MEMBERS",
)
@options.file(
    "--control", "Where the people go who are kept out.", required=True, metavar="CONTROL"
)
@options.share("--share", "The share of the control.  [10%]", default="10%")
@options.policy
@options.column("--person", "Whose rows stay together.  [the policy's, or a guess]")
@options.column("--target", "Equally frequent in both parts.  [the policy's]")
@options.seed_of_split
@options.force
@options.as_json
def command(source: str, as_json: bool, **arguments: Any) -> None:
    """Keep a tenth of the people apart, as a control.

    An audit compares what a release reveals about its members with what it reveals about people
    who were never in it. The rows of a person are never separated. --holdout on
    condense and tune does the same without files.
    """
    from tulle._commands.split import split_file

    with output.working(as_json):
        made = split_file(source, **arguments)
    output.show_done(made, "Split", as_json=as_json)
