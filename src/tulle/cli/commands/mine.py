"""``tulle mine``: rules and itemsets of baskets."""

from __future__ import annotations

from typing import Any

import rich_click as click

from tulle._choices import ITEMSETS, MINERS, SUPPORTS_OF
from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@options.source
@click.option(
    "--min-support",
    required=True,
    metavar="SHARE",
    help="Minimum support: 0.1%, 0.001, or a number of baskets.",
)
@click.option("--min-confidence", metavar="SHARE", help="Minimum confidence: 60% or 0.6.")
@click.option(
    "--itemsets",
    type=click.Choice(ITEMSETS),
    help="Mine frequent itemsets instead of rules.",
)
@click.option("--max-consequent", type=int, help="Maximum number of items in a consequent.  [any]")
@click.option(
    "--support-of",
    type=click.Choice(SUPPORTS_OF),
    help="What the minimum support is of: the whole rule, or its antecedent.  [rule]",
)
@click.option(
    "--algorithm",
    type=click.Choice(MINERS),
    help="How rules are ranked: by confidence, by confirmation, or by the accuracy to expect.  "
    "[apriori]",
)
@click.option(
    "--best",
    type=int,
    metavar="N",
    help="How many rules.  [all; tertius: 10 values; predictive-apriori: 100]",
)
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="COLUMN",
    help="For tables: each row is a basket of items column=value, of this column (again for each) "
    "or of all.",
)
@click.option("--basket", metavar="COLUMN", help="For tables: the column of basket numbers.")
@click.option("--item", metavar="COLUMN", help="For tables: the column of items.")
@click.option(
    "--memory",
    metavar="SIZE",
    help="Memory to use, such as 500MB: larger files are mined in blocks.  [half of the machine's]",
)
@click.option(
    "-o", "--output", "output_", metavar="OUTPUT", help="Write all results (.csv, .parquet, ...)."
)
@options.seed
@options.force
@options.as_json
def command(as_json: bool, source: str, output_: str | None, **arguments: Any) -> None:
    """Mine association rules.

    INPUT is a FIMI file (.dat, .dat.gz: one basket per line), a table with one item per row (name
    the columns with --basket and --item), a Parquet column of lists, a wide table of 0 and 1, or a
    table of which each row is a basket (--attribute all; the joined codes of sites are read so).
    The rules are for the owner of the data only: nothing is hidden. Of a blocked release (tulle
    hide --method blocking) only what is surely in a basket is counted.
    """
    from tulle._commands.mine import mine

    arguments["attributes"] = arguments["attributes"] or None
    with output.working(as_json):
        found = mine(source, output=output_, **arguments)
    output.show(
        found.summary,
        title="Mined",
        as_json=as_json,
        tables={"the first": found.top},
        notes=[f"all       {output_}"] if output_ else [],
    )
