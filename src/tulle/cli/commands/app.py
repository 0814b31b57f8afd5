"""``tulle app``: the whole path in a browser."""

from __future__ import annotations

import rich_click as click

from tulle.cli import _options as options


@click.command()
@click.argument("folder", type=options.FILE, metavar="[FOLDER]", default=".", required=False)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="The port; 0 takes any that is free."
)
@options.switch("--no-browser", "Print the link only.")
def command(folder: str, port: int, no_browser: bool) -> None:
    """Open the app in a browser: from a table in FOLDER to its release, without typing.

    Prints a link that works once, and runs until it is interrupted. Only this machine can connect,
    and nothing leaves it. All work is kept as files in FOLDER, so that other commands can use it.
    """
    from tulle._app.server import serve

    serve(folder, port, browser=not no_browser)
