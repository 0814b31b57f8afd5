"""``tulle condense``: a look-alike table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import rich_click as click

from tulle._choices import ENGINES, GROUPINGS, ON_INFEASIBLE, SMALL_CLASSES, SYNTHESES
from tulle.cli import _options as options
from tulle.cli import _output as output
from tulle.errors import ParameterError

if TYPE_CHECKING:
    from tulle._commands._decision import Done


@click.command()
@options.releasing
@options.holdout
@options.plain
@options.control
@options.audit
@options.whole(
    "--k", "-k", "Minimum group size. Default: the smallest of 10 to 100 that passes the audit."
)
@options.switch("--quick", "Try fewer sizes on fewer releases: a first answer.")
@options.whole("--people", "How many people to release.  [as many]", least=1, metavar="N")
@options.column(
    "--levels", "Column with each record's own minimum group size; 6..10: drawn, for a trial."
)
@options.column("--target", "Condense each class of this column separately.")
@options.whole(
    "--min-group",
    "No group smaller than T; without --k, the group size is T or a multiple of it.",
    metavar="T",
)
@options.choice(GROUPINGS, "--grouping", "How to form groups.  [fast]")
@click.option(
    "--time",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Time budget of --grouping best.",
)
@options.choice(SYNTHESES, "--synthesis", "How to draw records.  [shape]")
@options.switch("--exact-moments", "Reproduce each group's moments exactly.")
@options.switch(
    "--exact-totals", "Keep the table's totals instead of drawing them: closer, and less private."
)
@options.choice(SMALL_CLASSES, "--small-classes", "What to do with classes smaller than a group.")
@options.choice(
    ON_INFEASIBLE, "--on-infeasible", "What to do with records whose level no group can meet."
)
@options.switch(
    "--accept-broken-rules", "Release even if a rule of the policy cannot be kept everywhere."
)
@options.switch(
    "--strict", "Refuse a table with columns that may identify people, instead of leaving them out."
)
@click.option(
    "--rows",
    metavar="N",
    help="Records to draw, or quotas such as ill=yes:500,no:500.  [as many as INPUT has]",
)
@options.whole(
    "--copies",
    "Draws of the same model, OUTPUT and its neighbours NAME.2, NAME.3, ...  [1]",
    metavar="M",
)
@options.switch(
    "--ledger/--no-ledger",
    "Measure how far estimates lie from those of INPUT, for tulle estimate.  [with --copies or "
    "named estimates]",
)
@options.switch(
    "--codebook", "Describe the columns of the release beside it, as JSON and as a page."
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Memory to use, such as 500MB or 2GB: a larger table is condensed in parts, into the "
    "folder OUTPUT.  [half of the machine's]",
)
@options.choice(
    ENGINES,
    "--engine",
    "Where the work is done; spark takes the session of spark-submit or opens one.",
    default=ENGINES[0],
    show_default=True,
)
@click.option("--master", metavar="URL", help="The cluster of --engine spark, such as local[2].")
def command(as_json: bool, source: str, engine: str, master: str | None, **arguments: Any) -> None:
    """Make a look-alike table from groups of at least k people.

    Identifiers are dropped; every other column keeps its type, range and domain. Trial releases of
    some of the people are attacked and compared with the others, and without --k the smallest k
    that passes is used. If the verdict on privacy is bad, nothing is written and the exit code is
    1. A manifest is written next to the release; --report writes the whole audit.
    """
    if engine == "spark":
        from tulle.spark._condense import condense_source

        condense: Callable[..., Done] = partial(condense_source, master=master)
    else:
        from tulle._commands.condense import condense

        if master is not None:
            raise ParameterError("--master is the cluster of --engine spark: pass that as well")
    with output.working(as_json):
        made = condense(source, command=output.command_line(), **arguments)
    if as_json:  # the summary has it whole
        made = made._replace(tables={n: t for n, t in made.tables.items() if n != "tried"})
    output.show_release(made, "Condensed", arguments, as_json=as_json)
