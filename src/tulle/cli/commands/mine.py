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
@options.choice(ITEMSETS, "--itemsets", "Mine frequent itemsets instead of rules.")
@options.whole("--max-consequent", "Maximum number of items in a consequent.  [any]")
@options.choice(
    SUPPORTS_OF,
    "--support-of",
    "What the minimum support is of: the whole rule, or its antecedent.  [rule]",
)
@options.choice(
    MINERS,
    "--algorithm",
    "How rules are ranked: by confidence, by confirmation, or by the accuracy to expect.  "
    "[apriori]",
)
@options.whole(
    "--best", "How many rules.  [all; tertius: 10 values; predictive-apriori: 100]", metavar="N"
)
@options.column(
    "--attribute",
    "attributes",
    "For tables: each row is a basket of items column=value, of this column (again for each) "
    "or of all.",
    multiple=True,
)
@options.column("--basket", "For tables: the column of basket numbers.")
@options.column("--item", "For tables: the column of items.")
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
    table in which each row is a basket (--attribute all; use it for the joined codes of sites). The
    rules are for the owner of the data only: nothing is hidden. In a blocked release (tulle hide
    --method blocking), only items that are certainly in a basket count.
    """
    from tulle._commands.mine import mine

    arguments["attributes"] = arguments["attributes"] or None
    with output.working(as_json):
        found = mine(source, output=output_, **arguments)
    output.show_done(found, "Mined", as_json=as_json)
