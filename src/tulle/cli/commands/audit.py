"""``tulle audit``: what was lost, what leaks."""

from __future__ import annotations

from typing import Any

import rich_click as click

from tulle.cli import _options as options
from tulle.cli import _output as output

_GATE = options.Share()


@click.command()
@click.argument("original")
@click.argument("release")
@click.option("--control", metavar="FILE", help="Records that were kept out of the release.")
@click.option(
    "--known",
    metavar="FILE",
    help="A register that an intruder may hold: its people are looked up in the release.",
)
@options.policy
@click.option("--target", metavar="COLUMN", help="What a miner wants to predict.")
@click.option(
    "--output",
    "-o",
    "report",
    type=options.ReportFile(),
    metavar="FILE",
    help="Report: .html, .json or .md.",
)
@click.option("--public", is_flag=True, help="The public edition: aggregates of at least k only.")
@click.option(
    "--k",
    "-k",
    type=click.IntRange(2),
    help="Minimum number of records behind a published aggregate.  [10]",
)
@click.option(
    "--attempts",
    type=click.IntRange(1),
    help="People each attack is tried on; all records are searched.  [1000, fewer if large]",
)
@click.option("--max-linkage", type=_GATE, help="Fail if linkage has a higher risk.")
@click.option("--max-copies", type=_GATE, help="Fail if more people's records are in the release.")
@click.option(
    "--max-inference", type=_GATE, help="Fail if inference of a secret has a higher risk."
)
@click.option(
    "--max-membership", type=_GATE, help="Fail if membership inference has a higher risk."
)
@click.option("--max-singling-out", type=_GATE, help="Fail if singling out has a higher risk.")
@click.option(
    "--min-accuracy-ratio",
    type=float,
    help="Fail if the score on the release, over that on the original, is lower.",
)
@click.option(
    "--preset",
    type=click.Choice(["5", "12", "20"]),
    callback=lambda ctx, param, value: value and int(value),
    help="Fail if a group of the release is smaller than this customary size.",
)
@options.seed_of_attacks
@options.force
@options.as_json
def command(original: str, release: str, as_json: bool, public: bool, **arguments: Any) -> None:
    """Measure what RELEASE lost of ORIGINAL, and attack it.

    A --max gate looks at the risk: how much more often the attack succeeds than on the control,
    or than by guessing if there is none. Exit code 1 if a gate fails, or if RELEASE is not what
    its manifest says; the report is written all the same.
    """
    from tulle._commands.audit import attack_rows, audit_files, check_outcome, preset_notes

    if public and arguments["report"] is None:
        raise click.UsageError("--public is about the report: name its file with -o.")
    with output.working():
        found = audit_files(
            original,
            release,
            edition="public" if public else "owner",
            command=output.command_line(),
            **arguments,
        )
    verdict, report = found.verdict, arguments["report"]
    output.show(
        found.result["metrics"],
        title="Audit",
        as_json=as_json,
        tables={"attacks": attack_rows(found), "gates": found.result["gates"]},
        verdict=verdict,
        notes=[
            *(f"- {text}" for text in verdict["privacy"]["details"] + verdict["use"]["details"]),
            *preset_notes(arguments["preset"]),
            *([f"Report: {report}"] if report else []),
        ],
    )
    check_outcome(found)
