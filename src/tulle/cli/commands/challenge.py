"""``tulle challenge``: a red team in a box."""

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
    "Where rounds and page go. A run that was stopped goes on from there.  [challenge]",
    default="challenge",
    metavar="FOLDER",
)
@click.option("--hours", type=click.FloatRange(0), help="How long attackers may work.")
@click.option("--minutes", type=click.FloatRange(0), help="The same in minutes.  [10]")
@options.policy
@options.column("--target", "Condense class by class of this column.")
@options.whole("--k", "-k", "Smallest group of each release.  [10]", least=2)
@click.option("--synthesis", metavar="NAME", help="How records are drawn.  [shape]")
@options.seed_of_attacks
@options.as_json
def command(
    source: str, as_json: bool, hours: float | None, minutes: float | None, **arguments: Any
) -> None:
    """Train attackers on releases of INPUT, and show what they achieve against their time.

    Every few seconds half of the people are released, and attackers learn what gives outliers and
    ordinary people away. FOLDER gets challenge.html, challenge.json and the rounds, all for the
    owner only. Stop it whenever you like: the same command continues.
    """
    from tulle._commands.challenge import PAGE, challenge

    seconds = 3600 * (hours or 0) + 60 * (minutes or 0)
    if hours is None and minutes is None:
        seconds = 600.0
    with output.working(as_json):
        found = challenge(source, seconds=seconds, command=output.command_line(), **arguments)
    steps = [{**step._asdict(), "seconds": round(step.seconds, 1)} for step in found.steps]
    on = "Stopped by hand: the same command goes on. " if found.stopped else ""
    output.show(
        found.summary,
        title="Challenge",
        as_json=as_json,
        tables={"steps": steps},
        notes=[on + found.said, f"page  {arguments['output']}/{PAGE}"],
    )
    if found.stopped:
        raise SystemExit(130)
