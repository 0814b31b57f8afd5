"""``tulle verify``: does a release still match its manifest?"""

from __future__ import annotations

import rich_click as click

from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@click.argument("release", type=options.FILE, metavar="RELEASE")
@click.option(
    "--key",
    type=options.FILE,
    metavar="FILE",
    help="The public key of whoever vouches for the release: the manifest must be signed with it.",
)
@options.as_json
def command(release: str, key: str | None, as_json: bool) -> None:
    """Check a release against its manifest, and with --key who signed it.

    RELEASE is a file, or a database table (sqlite:///file.db#table, postgresql://host/db#table).
    """
    from tulle._commands.verify import verify

    checked = verify(release, key)
    output.show(checked.summary, title="Verify", as_json=as_json, tables={"checks": checked.rows})
    checked.refuse_broken()
