"""``tulle explore``: which release?"""

from __future__ import annotations

from typing import Any

import rich_click as click

from tulle._choices import SYNTHESES, TASKS
from tulle.cli import _options as options
from tulle.cli import _output as output


class _Listed(click.ParamType):
    """Words or numbers with commas between them."""

    def __init__(self, kind: click.ParamType, name: str) -> None:
        self.kind, self.name = kind, name

    def convert(self, value: Any, param: Any, ctx: Any) -> list[Any]:
        return [self.kind.convert(part.strip(), param, ctx) for part in str(value).split(",")]


@click.command()
@options.source
@options.file(
    "-o",
    "--output",
    "Where points and page go. A run that was stopped goes on from there.",
    required=True,
    metavar="FOLDER",
)
@options.column("--target", "What a miner wants to predict.")
@options.policy
@options.share(
    "--holdout",
    "Share of the people to keep out, as the control.  [10%, up to 30% of a small table]",
)
@options.file("--control", "People kept out of INPUT (tulle split).")
@click.option(
    "--k",
    "-k",
    type=_Listed(click.IntRange(2), "sizes"),
    metavar="K,K,...",
    help="Group sizes.  [3,5,10,20,50,100]",
)
@click.option(
    "--synthesis",
    type=_Listed(click.Choice(SYNTHESES), "methods"),
    metavar="NAME,...",
    help=f"How records are drawn: {', '.join(SYNTHESES)}.  [shape,uniform]",
)
@options.choice(
    TASKS, "--task", "What a release is for: to predict, or to find clusters.  [predict]"
)
@click.option(
    "--scoring",
    metavar="NAME",
    help="A scorer of scikit-learn for the target.  [roc_auc, balanced_accuracy or r2]",
)
@options.whole("--attempts", "People each attack is tried on.", least=1)
@options.switch("--quick", "The quick round on a sample only.")
@options.gates()
@options.seed_of_attacks
@options.as_json
def command(source: str, as_json: bool, **arguments: Any) -> None:
    """Make trial releases of many k, attack and use them, and name the smallest k that passes.

    A sample comes first, in seconds, then the whole table. Each result is kept in FOLDER as soon as
    it is known; explore.html shows the frontier. To make the release itself, use tulle condense.
    (tulle tune is the papers' search, by accuracy and linkage only.) Exit code 1 if gates are given
    and no k passes them.
    """
    from tulle._commands.explore import check_gated, explore_file, shown_rows

    with output.working(as_json):
        found = explore_file(source, command=output.command_line(), **arguments)
    sampled = found.command.removeprefix(output.command_line()).removeprefix(". ")
    if as_json:
        output.show(found.to_dict(), title="Explored", as_json=True)
    else:
        output.show(
            {"chosen_k": found.k, "privacy": found.choice.level},
            title="Explored",
            tables={"releases": shown_rows(found)},
            notes=[
                found.choice.reason,
                found.choice.next,
                *([sampled] if sampled else []),
                f"page  {arguments['output']}/explore.html",
            ],
        )
    check_gated(found)
