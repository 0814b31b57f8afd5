"""``tulle demo``: see it work."""

from __future__ import annotations

import rich_click as click

from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@click.argument("folder", type=options.FILE, default="tulle-demo")
@options.seed
@options.force
@options.as_json
def command(folder: str, seed: int | None, force: bool, as_json: bool) -> None:
    """Condense a real table class by class, audit it, and write everything into FOLDER."""
    from tulle._commands.demo import demo

    with output.working(as_json):
        made = demo(folder, seed=seed, command=output.command_line(), force=force)
    output.show(
        made.summary,
        title="Breast cancer data, condensed class by class, groups of at least 20",
        as_json=as_json,
        tables={"attacks": made.attacks},
        verdict=made.verdict,
        notes=[f"{what:28} {where}" for what, where in made.files.items()],
    )
