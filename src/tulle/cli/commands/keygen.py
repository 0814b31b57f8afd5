"""``tulle keygen``: a pair of keys, to sign releases and to check them."""

from __future__ import annotations

import rich_click as click

from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@click.argument("file", type=options.FILE, metavar="FILE")
@options.force
@options.as_json
def command(file: str, force: bool, as_json: bool) -> None:
    """Make a pair of keys that sign releases (Ed25519).

    FILE is the private key, for --sign-key: readable by you only, keep it secret. FILE.pub is the
    public one, for those who receive releases: tulle verify RELEASE --key FILE.pub.
    """
    from tulle._commands.keygen import keygen

    output.show(keygen(file, force=force), title="Keys", as_json=as_json)
