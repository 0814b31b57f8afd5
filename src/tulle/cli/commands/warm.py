"""``tulle warm``: compile everything before the first run."""

from __future__ import annotations

import rich_click as click

from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@options.as_json
def command(as_json: bool) -> None:
    """Compile every kernel once, for an image or before the first real run.

    What is compiled is kept beside the package, or in the folder that NUMBA_CACHE_DIR names.
    """
    from tulle._commands.warm import warm

    with output.working(as_json):
        warmed = warm()
    output.show_done(warmed, "Warm", as_json=as_json)
