"""``tulle stream``: condense a stream that never stops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from tulle._choices import (
    GROUPINGS,
    RESTARTS,
    SNAPSHOT_FORMATS,
    SNAPSHOTS,
    SPLITS,
    STREAM_FORMATS,
    SYNTHESES,
)
from tulle.cli import _options as options
from tulle.cli import _output as output


@click.command()
@click.argument("source", type=options.FILE, metavar="INPUT", required=False)
@click.option("-o", "--output", metavar="FOLDER", help="Where to write the snapshot releases.")
@options.file(
    "--state",
    "State of the stream, for its owner only (required). If it exists, the stream resumes from it.",
)
@click.option(
    "--status",
    metavar="STATE",
    help="Show the counts of a stream from its state, running or not, and exit.",
)
@options.choice(STREAM_FORMATS, "--format", "kind", "Format of the source. Default: by file name.")
@options.switch("--follow", "Wait for more records; stop with Ctrl-C.")
@options.whole("--k", "-k", "Minimum group size, if there are no levels.  [default: 10]", least=2)
@options.column(
    "--levels", "Column with each record's own level; 6..10: drawn, for a trial. --k is not used."
)
@options.column("--target", "Column of classes, which are condensed separately.")
@options.column("--person", "Whose records they are: people are counted, not records.")
@options.whole(
    "--init", "Number of records to form the first groups from.  [default: 1000]", least=2
)
@options.choice(
    GROUPINGS,
    "--grouping",
    "How the first groups are formed; levels is the paper's.  [default: fast]",
)
@options.choice(SPLITS, "--split", "When to split groups.")
@options.choice(
    SYNTHESES,
    "--synthesis",
    "How records are drawn: shape keeps heaps of numbers, the others are the papers'.  "
    "[default: shape]",
)
@options.whole("--every", "Write a snapshot every so many records.", least=1)
@click.option(
    "--seconds", type=click.FloatRange(min=0.1), help="Write a snapshot every so many seconds."
)
@options.whole("--rows", "Maximum number of rows in a snapshot.  [default: 1000000]", least=1)
@options.choice(
    SNAPSHOTS,
    "--snapshots",
    "Update a group in snapshots only after its level of newcomers, or always.  [default: bounded]",
)
@options.choice(
    SNAPSHOT_FORMATS, "--snapshot-format", "Format of the snapshots.  [default: parquet]"
)
@options.share(
    "--max-rejects", "Stop when more than this share of the last 1,000 lines or more was refused."
)
@click.option(
    "--strict-keys/--no-strict-keys",
    default=None,
    help="Stop when JSON lines lack a key that all initial ones have; otherwise, warn.",
)
@options.file("--metrics", "Write counts with every save, as a text file for Prometheus.")
@click.option(
    "--checkpoint", type=click.FloatRange(min=0), help="Seconds between saves.  [default: 5]"
)
@options.file(
    "--key",
    "Key file that seals waiting records in the state, and hashes of people: made for a new "
    "stream if there is no such file, and needed by every later run.  [default: STATE.key]",
)
@options.switch("--plain-waiting", "Store waiting records unencrypted in the state.")
@options.choice(
    RESTARTS,
    "--restart",
    "How to resume from an existing state. Standard input: are the same lines sent again "
    "(replayed), or only new ones (continued)? Replaced file: continued reads the new one.",
)
@options.policy
@options.report
@options.accept_risk
@options.seed
@options.sign_key
@options.force
@options.as_json
@click.pass_context
def command(
    context: Any, /, status: str | None, key: str | None, as_json: bool, **given: Any
) -> None:
    """Condense a stream: standard input (-), a file, a folder of files, NATS JetStream or Kafka.

    Reads CSV or NDJSON; nats://HOST:PORT/STREAM reads a broker, one JSON object per message. The
    command can be killed at any moment and run again: every record is counted exactly once.
    Malformed records are skipped and listed in FILE.rejects.ndjson (line and reason, no values).
    """
    from tulle.keys import SecretKey

    if status is not None:
        from tulle._commands.stream import status as status_of

        counts = status_of(status, None if key is None else SecretKey.load(key))
        output.show(counts, title="Stream", as_json=as_json)
        return
    options.require(context, "source", "output", "state")
    from tulle._commands.stream import stream

    state = Path(given["state"])
    place = Path(key or f"{state}.key")
    new = not place.exists() and not state.exists()
    if key is not None and new:
        SecretKey.generate().save(place)
    opened = None if key is None else SecretKey.load(place)
    with output.working(as_json, logged=given["follow"] or not as_json):
        done = stream(key=opened, command=output.command_line(), **given)
    made_key = [f"key       {place} (created; keep it secret)"] if new and place.exists() else []
    output.show_done(done, "Stream", as_json=as_json, where=made_key)
