"""``tulle estimate``: what does a release say, and how far may that be off?"""

from __future__ import annotations

import rich_click as click

from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@click.argument("release", type=options.FILE, metavar="RELEASE")
@click.argument("question", metavar="QUESTION")
@options.switch(
    "--population",
    "Widen the intervals to cover the value in the population, not only in the original.",
)
@options.column(
    "--weight", "Survey weights, or none; by default the column of this role in the manifest."
)
@options.as_json
def command(
    release: str, question: str, population: bool, weight: str | None, as_json: bool
) -> None:
    """Answer QUESTION from a release, with intervals for what the original says.

    Questions: "mean(income) by region", "share(age < 30)", "total(income)",
    "quantile(income, 0.9)", "ols(wage ~ educ + exper)", "logit(ill == 'yes' ~ age)", each with
    "where CONDITION". Copies and the error ledger are found through the manifest. Exit code 1:
    the release cannot answer.
    """
    from tulle._commands.estimate import estimate, refuse_unanswered

    found = estimate(release, question, weight=weight, population=population)
    output.show_done(found, "Estimate", as_json=as_json)
    refuse_unanswered(found)
