"""``tulle verify``: does a release still match its manifest?"""

from __future__ import annotations

import rich_click as click

from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@click.argument("release", type=options.FILE, metavar="RELEASE")
@options.as_json
def command(release: str, as_json: bool) -> int:
    """Check a release against its manifest.

    RELEASE is a file, or a database table (sqlite:///file.db#table, postgresql://host/db#table).
    """
    from tulle.io._formats import display_name
    from tulle.releases import read_manifest, verify_release

    rows = verify_release(release)
    manifest = read_manifest(release)
    holds = all(row["holds"] for row in rows)
    summary = {
        "release": display_name(release),
        "method": manifest.method,
        "created": manifest.created,
        "holds": holds,
    }
    output.show(summary, title="Verify", as_json=as_json, tables={"checks": rows})
    return 0 if holds else 1
