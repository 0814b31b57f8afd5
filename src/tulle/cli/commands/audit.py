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
@click.option("--control", metavar="FILE", help="Records held out of the release.")
@click.option(
    "--earlier",
    metavar="FILE",
    multiple=True,
    help="Another release of much the same people, made before; may be repeated.",
)
@click.option(
    "--worst-case",
    is_flag=True,
    help="Also make some hundred releases with and without one person, and tell them apart. Slow.",
)
@click.option(
    "--known",
    metavar="FILE",
    help="A register that an intruder may hold; its people are looked up in the release.",
)
@options.policy
@click.option("--target", metavar="COLUMN", help="The column that a miner wants to predict.")
@click.option(
    "--output",
    "-o",
    "report",
    type=options.ReportFile(),
    metavar="FILE",
    help="Report: .html, .json or .md.",
)
@click.option(
    "--public",
    is_flag=True,
    help="Write the public edition: only aggregates of at least k records.",
)
@click.option(
    "--k",
    "-k",
    type=click.IntRange(2),
    help="Minimum number of records behind any published aggregate.  [10]",
)
@click.option(
    "--attempts",
    type=click.IntRange(1),
    help="Number of people to try each attack on; all records are searched.  [1000, fewer if "
    "large]",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Read tables in batches if both would need more than this.  [half of the memory]",
)
@click.option("--max-linkage", type=_GATE, help="Fail if the risk of linkage exceeds this.")
@click.option("--max-copies", type=_GATE, help="Fail if more people's records are copied exactly.")
@click.option(
    "--max-inference", type=_GATE, help="Fail if the risk of attribute inference exceeds this."
)
@click.option(
    "--max-membership", type=_GATE, help="Fail if the risk of membership inference exceeds this."
)
@click.option(
    "--max-singling-out", type=_GATE, help="Fail if the risk of singling out exceeds this."
)
@click.option(
    "--max-reconstruction",
    type=_GATE,
    help="Fail if the risk that people's numbers are recovered exceeds this.",
)
@click.option(
    "--max-homogeneity",
    type=_GATE,
    help="Fail if the risk of groups that share a secret exceeds this.",
)
@click.option(
    "--max-earlier", type=_GATE, help="Fail if the risk of all releases together exceeds this."
)
@click.option(
    "--max-worst-case", type=_GATE, help="Fail if the risk of the worst case exceeds this."
)
@click.option(
    "--min-accuracy-ratio",
    type=float,
    help="Fail if the score ratio (trained on release / on original) is below this.",
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

    A --max gate limits the risk: how much more often the attack succeeds than on the control, or
    than by guessing if there is none. The exit code is 1 if a gate fails, if RELEASE does not match
    its manifest, or if the verdict on privacy is bad and its manifest does not say who accepted
    the risk; the report is written in any case.
    """
    from tulle._commands.audit import attack_rows, audit_files, check_outcome, preset_notes

    if public and arguments["report"] is None:
        raise click.UsageError("--public applies to the report: pass -o FILE as well.")
    with output.working(as_json):
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
