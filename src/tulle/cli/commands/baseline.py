"""``tulle baseline``: the older techniques, to compare with."""

from __future__ import annotations

from typing import Any

import rich_click as click

from tulle._choices import BASELINES
from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@options.releasing
@options.holdout
@options.plain
@options.control
@options.choice(BASELINES, "--method", "How to change the table.  [generalize]")
@options.whole("--k", "-k", "generalize: how many people look alike.  [10]")
@click.option(
    "--noise",
    type=float,
    help="Noise in standard deviations of a column.  [randomize: 0.5; rotate: 0]",
)
@options.whole("--components", "rotate: project onto N random directions.  [all]", metavar="N")
@click.option("--keep", type=float, help="randomize: chance that a category stays.  [0.8]")
@options.column("--target", "The column to predict; generalize leaves it as it is.")
@options.switch(
    "--recover",
    "INPUT is a randomised release: write the distributions that its columns had before.",
)
@options.whole("--bins", "--recover: cells of a number.  [20]", default=20)
def command(recover: bool, bins: int, as_json: bool, source: str, **arguments: Any) -> None:
    """Generalise, randomise or rotate a table, row by row, to compare with condensation.

    generalize replaces the values that others may know by group means and sets of categories, so
    that at least k people look alike. randomize adds noise to numbers and redraws some categories;
    --recover prints the distributions that can be recovered. rotate turns the records in space, so
    that distances stay and columns lose their meaning. The release is attacked before it is
    written, as with every other command.
    """
    from tulle._commands.baseline import baseline
    from tulle._commands.baseline import recover as recovered

    if recover:
        with output.working(as_json):
            found = recovered(source, arguments["output"], bins=bins, force=arguments["force"])
        output.show_done(found, "Recovered", as_json=as_json)
        return
    with output.working(as_json):
        made = baseline(source, command=output.command_line(), **arguments)
    output.show_release(made, "Released", arguments, as_json=as_json)
