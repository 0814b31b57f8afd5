"""``tulle tune``: which group size?"""

from __future__ import annotations

from typing import Any

import rich_click as click

from tulle._choices import GROUPINGS, STRATEGIES, SYNTHESES, TUNED_FOR
from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@options.source
@options.target
@click.option("-o", "--output", metavar="OUTPUT", help="Also write a release with the chosen size.")
@options.policy
@options.file(
    "--report", "Write the curve as a report: .html, .json or .md.", type=options.ReportFile()
)
@options.choice(STRATEGIES, "--strategy", "How to choose the sizes to try.")
@options.whole("--sizes", "Number of sizes in the grid.")
@options.choice(
    SYNTHESES,
    "--synthesis",
    "What is condensed: shape, or the papers' uniform, normal, mean.  [as in condense]",
)
@options.choice(GROUPINGS, "--grouping", "How groups are formed.")
@click.option(
    "--target-weight", type=float, help="How much a target of numbers counts in groups.  [1]"
)
@options.whole("--repeats", "Releases per size, averaged.")
@options.share("--accuracy-gap", "Accuracy you are willing to give up for larger groups.  [5%]")
@options.whole("--min-group", "Smallest size to try.")
@options.whole("--max-group", "Largest size to try.")
@options.share("--max-risk", "Exclude sizes with a higher linkage risk.")
@click.option("--min-accuracy-ratio", type=float, help="Exclude sizes that keep less utility.")
@options.choice(
    TUNED_FOR,
    "--miner",
    "Who learns from the releases; one nearest neighbour is the paper's.  [nearest]",
)
@click.option(
    "--scoring",
    metavar="NAME",
    help="A scorer of scikit-learn; accuracy is the paper's.  [balanced_accuracy, or r2]",
)
@options.holdout
@options.accept_risk
@options.seed
@options.sign_key
@options.force
@options.as_json
def command(source: str, as_json: bool, **arguments: Any) -> None:
    """Find the group size by the papers' rule: the most privacy that costs little utility.

    It needs a target and measures linkage only; tulle explore looks at all attacks.
    """
    from tulle._commands.tune import tune

    with output.working(as_json):
        made = tune(source, command=output.command_line(), **arguments)
    release, report = arguments["output"], arguments["report"]
    files = output.where_to_look(release, report) if release else []
    if as_json:
        made = made._replace(summary=made.summary | {"reason": made.notes[0]})
    where = files or ([f"report    {report}"] if report else [])
    output.show_done(made, "Group size", as_json=as_json, where=where)
