"""``tulle mcp``: tools for an agent."""

from __future__ import annotations

import rich_click as click

from tulle.cli import _options as options


@click.command()
@options.file("--folder", "The only place "
              "where files are read and written.", required=True, metavar="FOLDER")  # fmt: skip
def command(folder: str) -> None:
    """Serve inspect, condense, explore, audit, verify and estimate to an agent (MCP, over stdio).

    Answers contain counts, verdicts and names of columns, never a cell of the data. Nothing outside
    FOLDER is read, whatever links there are. No tool accepts a risk: that takes a person.
    """
    from tulle._mcp import serve

    serve(folder)
