"""``tulle stream``: condense a stream that never stops."""

from __future__ import annotations

from typing import Any

import rich_click as click

from tulle._choices import RESTARTS, SNAPSHOTS, SPLITS, STREAM_FORMATS
from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@options.source
@click.option(
    "-o", "--output", required=True, metavar="FOLDER", help="Where the snapshot releases go."
)
@click.option(
    "--state",
    required=True,
    metavar="FILE",
    help="The state of the stream, for its owner only; where it exists, the stream goes on.",
)
@click.option(
    "--format", "kind", type=click.Choice(STREAM_FORMATS), help="Default: by the file's ending."
)
@click.option("--follow", is_flag=True, help="Wait for more records; stop with Ctrl-C.")
@click.option(
    "--k",
    "-k",
    type=click.IntRange(min=2),
    help="The smallest group, where there are no levels.  [default: 10]",
)
@click.option(
    "--levels", metavar="COLUMN", help="The column with each record's own level; --k is not used."
)
@click.option("--target", metavar="COLUMN", help="The column of classes, condensed apart.")
@click.option(
    "--init", type=click.IntRange(min=2), help="Records of the first groups.  [default: 1000]"
)
@click.option("--split", type=click.Choice(SPLITS), help="When groups split.")
@click.option("--every", type=click.IntRange(min=1), help="A snapshot every so many records.")
@click.option("--seconds", type=click.FloatRange(min=0.1), help="A snapshot every so many seconds.")
@click.option(
    "--rows", type=click.IntRange(min=1), help="The most rows of a snapshot.  [default: 1000000]"
)
@click.option(
    "--snapshots",
    type=click.Choice(SNAPSHOTS),
    help="Show a group anew only after its level of newcomers, or always.  [default: bounded]",
)
@click.option(
    "--checkpoint", type=click.FloatRange(min=0), help="Seconds between saves.  [default: 5]"
)
@click.option(
    "--key",
    metavar="FILE",
    help="Seals records that wait in the state: a file of SecretKey.generate().save(FILE).",
)
@click.option("--plain-waiting", is_flag=True, help="Write records that wait as they are.")
@click.option(
    "--restart",
    type=click.Choice(RESTARTS),
    help="For a state that exists. Standard input: do the same lines come again, or only new ones? "
    "A file that was replaced: continued reads the new one.",
)
@options.policy
@options.report
@options.accept_risk
@options.seed
@options.force
@options.as_json
def command(source: str, key: str | None, as_json: bool, **given: Any) -> None:
    """Condense a stream: standard input (-), a file, a folder of files, or NATS JetStream.

    Reads CSV or NDJSON. nats://HOST:PORT/STREAM reads a broker, one JSON object a message. Kill it
    at any moment and start it again: every record is counted exactly once. Malformed records are
    listed in FILE.rejects.ndjson (line and reason, no values), and the stream goes on.
    """
    from tulle._commands.stream import stream
    from tulle.keys import SecretKey

    opened = None if key is None else SecretKey.load(key)
    with output.working(as_json):
        done = stream(source, key=opened, command=output.command_line(), **given)
    output.show(
        done.summary,
        title="Stream",
        as_json=as_json,
        tables={"releases": done.snapshots},
        verdict=done.verdict,
        notes=done.notes,
    )
