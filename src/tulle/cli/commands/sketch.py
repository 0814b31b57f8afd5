"""``tulle sketch``: short vectors that keep similarity."""

from __future__ import annotations

from typing import Any

import rich_click as click

from tulle._choices import CRITERIA, GRAPHS, MODELS
from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@options.source
@options.file(
    "-o", "--output", "Where to write the sketches (.parquet).", required=True, metavar="OUTPUT"
)
@options.choice(MODELS, "--model", "Which privacy guarantee to enforce.  [delta]")
@click.option(
    "--delta",
    type=float,
    help="Minimum variance of an estimated attribute.  [0.5; k-variance: none]",
)
@options.share(
    "--target-risk",
    "Look for the smallest delta (k-variance: k) at which no attack has a larger risk, beyond "
    "guessing.",
)
@click.option(
    "--keep",
    multiple=True,
    metavar="FIELD",
    help="Another field to release next to the sketches, such as a label (.parquet).",
)
@options.whole("--k", "-k", "Number of neighbours for k-variance.  [10]")
@options.choice(
    CRITERIA, "--criterion", "Bound for k-variance; gap is stricter on counts.  [definition]"
)
@options.whole(
    "--max-components",
    "Maximum number of components per record; 0: as many as the guarantee allows.  [256]",
    metavar="M",
)
@options.switch(
    "--normalize", "Scale every record to length 1, so that delta is a share of its squared length."
)
@options.choice(
    GRAPHS,
    "--graph",
    "How to find neighbours for k-variance; partition is approximate, for millions of "
    "records.  [exact]",
)
@click.option("--text", metavar="FIELD", help="Field or column that contains the text.  [text]")
@options.file("--key-file", "The secret key: used if the file exists, created otherwise.")
@options.policy
@options.report
@options.accept_risk
@options.audit
@options.seed_of_attacks
@options.sign_key
@options.force
@options.as_json
def command(as_json: bool, source: str, **arguments: Any) -> None:
    """Make short vectors of texts or baskets that keep their similarity.

    INPUT: documents (.txt lines; .jsonl, .csv, .parquet with --text FIELD) or baskets (.dat, one
    basket per line). Words are lower-case runs of two or more letters or digits. OUTPUT: a
    .parquet file, with a manifest next to it. The miner needs no key. The sketches are attacked
    before they are written: where the verdict on privacy is bad, nothing is written (exit code 1).
    """
    from tulle._commands.sketch import sketch

    arguments["keep"] = arguments["keep"] or None

    with output.working(as_json):
        made = sketch(source, command=output.command_line(), **arguments)
    output.show_release(made, "Sketches", arguments, as_json=as_json)
