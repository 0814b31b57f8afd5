"""``tulle hide``: baskets without some rules."""

from __future__ import annotations

from typing import Any

import rich_click as click

from tulle._choices import HIDING_METHODS, VICTIMS
from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@options.releasing
@click.option("--rules", required=True, metavar="FILE", help="Rules to hide, one a line: a, b -> c")
@click.option("--min-support", metavar="SHARE", help="0.1%, 0.001, or a count of baskets.")
@click.option("--min-confidence", metavar="SHARE", help="60% or 0.6.")
@click.option("--margin", type=options.Share(), help="Stay below (1 - margin) times a threshold.")
@click.option("--disclosure", metavar="SHARE", help="psi: share of each rule's baskets that stays.")
@click.option("--method", type=click.Choice(HIDING_METHODS), help="How.  [best]")
@click.option("--window", type=int, help="Baskets in a window of swa.  [all; streamed: 50,000]")
@click.option("--victim", type=click.Choice(VICTIMS), help="How swa counts shared items.")
@click.option(
    "--additions", is_flag=True, default=None, help="best may add items: fewer lost, some invented."
)
@click.option("--stream", is_flag=True, help="By swa in bounded memory: for very large files.")
@click.option("--basket", metavar="COLUMN", help="Of a table: the column of basket numbers.")
@click.option("--item", metavar="COLUMN", help="Of a table: the column of items.")
@click.option("--shuffle", is_flag=True, default=None, help="Release baskets in random order.")
def command(as_json: bool, source: str, **arguments: Any) -> None:
    """Hide association rules in baskets.

    Whoever mines the release with --min-support and --min-confidence does not find the rules of
    --rules; this is counted in the release before it is written. The manifest does not name them.
    INPUT as for tulle mine.
    """
    from tulle._commands.hide import hide

    with output.working(as_json):
        made = hide(source, command=output.command_line(), **arguments)
    output.show(
        made.summary,
        title="Hidden",
        as_json=as_json,
        tables={"rules": made.rules},
        verdict=made.audit.verdict,
        notes=[*made.notes, *output.where_to_look(arguments["output"], arguments["report"])],
    )
