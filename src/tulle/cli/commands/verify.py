"""``tulle verify``: does a release still match its manifest?"""

from __future__ import annotations

import rich_click as click

from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@click.argument("release", type=options.FILE, metavar="RELEASE")
@options.file(
    "--key",
    "The public key of whoever vouches for the release: the manifest must be signed with it.",
)
@options.file("--source", "For the owner: the file that the release is said to be made from.")
@options.file(
    "--source-key",
    "The owner's key for --source, if not the one in TULLE_SOURCE_KEY or in your settings.",
)
@options.as_json
def command(
    release: str, key: str | None, source: str | None, source_key: str | None, as_json: bool
) -> None:
    """Check a release against its manifest, with --key who signed it, with --source its origin.

    RELEASE is a file, or a database table (sqlite:///file.db#table, postgresql://host/db#table).
    """
    from tulle._commands.verify import refuse_broken, verify

    checked = verify(release, key, source=source, source_key=source_key)
    output.show_done(checked, "Verify", as_json=as_json)
    refuse_broken(checked)
