"""``tulle hide``: baskets without some rules."""

from __future__ import annotations

from typing import Any

import rich_click as click

from tulle._choices import HIDING_METHODS, INTERVALS, LOOKAHEADS, SHARED, SUPPORTS_OF, VICTIMS
from tulle.cli import _options as options
from tulle.cli import _output as output
from tulle.errors import ParameterError


@click.command()
@options.previewing
@options.file("--rules", "Rules to hide, one per line: a, b -> c")
@click.option(
    "--choose",
    metavar="SCENARIO",
    help="Take rules to hide by the papers' scenarios, for a trial: S1 (disjoint), S2 (random), S3 "
    "(highest support) or S4 (lowest); S2:5 takes 5.  [20]",
)
@options.choice(
    SUPPORTS_OF, "--support-of", "For --choose: what the minimum support is of.  [rule]"
)
@options.choice(
    SHARED,
    "--share",
    "Release the baskets, or the rules that may be known.  [baskets]",
    default="baskets",
)
@click.option(
    "--min-support", metavar="SHARE", help="Minimum support: 0.1%, 0.001, or a number of baskets."
)
@click.option("--min-confidence", metavar="SHARE", help="Minimum confidence: 60% or 0.6.")
@click.option(
    "--margin",
    metavar="SHARE",
    help="Stay below (1 - margin) times the thresholds: a share, or random per rule.  [random]",
)
@click.option("--disclosure", metavar="SHARE", help="psi: share of each rule's baskets to keep.")
@options.choice(HIDING_METHODS, "--method", "Hiding method.  [best]")
@options.whole("--window", "Baskets per window of swa.  [all; streamed: 50,000]")
@options.choice(VICTIMS, "--victim", "How swa counts shared items.")
@options.choice(
    LOOKAHEADS,
    "--lookahead",
    "Whether swa spares baskets in which another rule's victim broke a rule: always, or as "
    "printed.  [always]",
)
@options.choice(
    INTERVALS,
    "--interval",
    "Which part of the interval blocking brings below the thresholds.  [middle]",
)
@options.switch("--stream", "Use swa in bounded memory, for very large files.")
@options.column("--basket", "For tables: the column of basket numbers.")
@options.column("--item", "For tables: the column of items.")
@options.column(
    "--keep",
    "For tables: another column to release (price, date), or all; give it once for each.",
    multiple=True,
)
@options.switch(
    "--preview", "Show what hiding each rule would cost, for the owner, and write nothing."
)
@options.switch("--shuffle", "Release baskets in random order.")
@click.pass_context
def command(context: Any, /, as_json: bool, preview: bool, source: str, **arguments: Any) -> None:
    """Hide association rules in baskets.

    Mining the release with --min-support and --min-confidence no longer finds the rules in --rules;
    this is verified before the release is written. If --disclosure, or the file of rules, lets a
    rule stay above the thresholds, nothing is written without --accept-risk. The manifest does not
    name the rules. With --share rules, no baskets are released: OUTPUT is a table of the rules that
    do not reveal the secret ones. INPUT is as for tulle mine.
    """
    arguments["keep"] = arguments["keep"] or None
    if preview:
        _preview(source, arguments, as_json=as_json)
        return
    options.require(context, "output")
    from tulle._commands.hide import hide

    with output.working(as_json):
        made = hide(source, command=output.command_line(), **arguments)
    output.show_release(made, "Hidden", arguments, as_json=as_json)


def _preview(source: str, arguments: dict[str, Any], *, as_json: bool) -> None:
    from tulle._commands.hide import preview

    if arguments["share"] == "rules":
        raise ParameterError("--preview is for --share baskets: rules cost nothing to share")
    written = ("output", "report", "sign_key", "accept_risk", "force", "stream", "share")
    asked = {name: value for name, value in arguments.items() if name not in written}
    with output.working(as_json):
        rows = preview(source, **asked)
    output.show(
        {"rules": len(rows) - 1},
        title="Preview",
        as_json=as_json,
        tables={"costs": rows},
        notes=["each rule hidden alone; nothing was written. For the owner: it names the rules"],
    )
