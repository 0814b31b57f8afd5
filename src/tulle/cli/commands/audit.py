"""``tulle audit``: what was lost, what leaks."""

from __future__ import annotations

from typing import Any

import rich_click as click

from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@click.argument("original")
@click.argument("release")
@options.file("--control", "Records held out of the release.")
@click.option(
    "--earlier",
    metavar="FILE",
    multiple=True,
    help="Another release of much the same people, made before; may be repeated.",
)
@options.switch(
    "--worst-case",
    "Also make some hundred releases with and without one person, and tell them apart. Slow.",
)
@options.file(
    "--known", "A register that an intruder may hold; its people are looked up in the release."
)
@options.policy
@options.target
@options.file("--output", "-o", "report", "Report: .html, .json or .md.", type=options.ReportFile())
@options.switch("--public", "Write the public edition: only aggregates of at least k records.")
@options.whole(
    "--k", "-k", "Minimum number of records behind any published aggregate.  [10]", least=2
)
@options.whole(
    "--attempts",
    "Number of people to try each attack on; all records are searched.  [1000, fewer if large]",
    least=1,
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Read tables in batches if both would need more than this.  [half of the memory]",
)
@options.gates("earlier", "worst-case")
@options.choice(
    ["5", "12", "20"],
    "--preset",
    "Fail if a group of the release is smaller than this customary size.",
    callback=lambda ctx, param, value: value and int(value),
)
@options.seed_of_attacks
@options.force
@options.as_json
def command(original: str, release: str, as_json: bool, public: bool, **arguments: Any) -> None:
    """Measure what RELEASE lost compared with ORIGINAL, and attack it.

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
