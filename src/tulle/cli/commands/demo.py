"""``tulle demo``: see it work."""

from __future__ import annotations

import rich_click as click

from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@click.argument("folder", type=options.FILE, default="tulle-demo")
@click.option(
    "--quest",
    metavar="T10I4D1000",
    help="Only draw baskets by IBM's Quest generator, and write them to FOLDER, a file (.dat): T "
    "items a basket, patterns of I items, D baskets.",
)
@options.seed
@options.force
@options.as_json
def command(folder: str, quest: str | None, seed: int | None, force: bool, as_json: bool) -> None:
    """Condense a real table class by class, audit it, and write everything into FOLDER."""
    from tulle._commands.demo import demo, draw_baskets

    if quest is not None:
        drawn = draw_baskets(folder, quest, seed=seed, force=force)
        output.show(drawn, title="Baskets", as_json=as_json)
        return
    with output.working(as_json):
        made = demo(folder, seed=seed, command=output.command_line(), force=force)
    told = "Breast cancer data, condensed class by class, groups of at least 20"
    output.show_done(made, told, as_json=as_json)
