"""``tulle learn``: neighbours, classes and clusters without the records."""

from __future__ import annotations

from typing import Any

import rich_click as click

from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@options.source
@options.whole(
    "--neighbours",
    "List the N nearest sketches of each; with --classes: how many vote.  [25]",
    metavar="N",
)
@click.option("--classes", metavar="FIELD", help="Learn the classes in this field.")
@click.option(
    "--within",
    type=float,
    metavar="N",
    help="For classes that are numbers: count those as right that are at most N off.  [0]",
)
@options.file(
    "--new", "Records whose classes are predicted.  [a third of INPUT, to measure the accuracy]"
)
@options.whole("--clusters", "Find N clusters by k-means.", metavar="N")
@options.file(
    "--estimate",
    "Estimate how often the words of FILE are in each record, with the key: for the owner.",
)
@options.file("--key-file", "The key for --estimate.")
@options.whole("--k", "-k", "Of a table: people in a group.  [10]")
@click.option(
    "-o", "--output", "output_", metavar="OUTPUT", help="Write all rows (.csv, .parquet, ...)."
)
@options.seed
@options.force
@options.as_json
def command(as_json: bool, source: str, output_: str | None, **arguments: Any) -> None:
    """Find neighbours, classes or clusters in sketches, or in the groups of a table.

    INPUT is a file of sketches (tulle sketch; no key is needed, and labels are those of its
    --keep), or a table, of which only the condensed groups of at least k people are mined and no
    record is compared. Suppressed records get a class or cluster at random, as in the paper.
    """
    from tulle._commands.learn import learn

    with output.working(as_json):
        found = learn(source, output=output_, **arguments)
    output.show_done(found, "Learnt", as_json=as_json)
