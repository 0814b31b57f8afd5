"""``tulle stream``: condense a stream that never stops."""

from __future__ import annotations

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


def _choice(name: str, words: tuple[str, ...], text: str, *others: str) -> Any:
    return click.option(name, *others, type=click.Choice(words), help=text)


def _whole(name: str, least: int, text: str, *others: str) -> Any:
    return click.option(name, *others, type=click.IntRange(min=least), help=text)


def _word(name: str, shown: str, text: str) -> Any:
    return click.option(name, metavar=shown, help=text)


@click.command()
@click.argument("source", type=options.FILE, metavar="INPUT", required=False)
@click.option("-o", "--output", metavar="FOLDER", help="Where to write the snapshot releases.")
@_word(
    "--state",
    "FILE",
    "State of the stream, for its owner only (required). If it exists, the stream resumes from it.",
)
@_word(
    "--status",
    "STATE",
    "Show the counts of a stream from its state, running or not, and exit; with the --key of one "
    "that counts people.",
)
@_choice("--format", STREAM_FORMATS, "Format of the source. Default: by file name.", "kind")
@click.option("--follow", is_flag=True, help="Wait for more records; stop with Ctrl-C.")
@_whole("--k", 2, "Minimum group size, if there are no levels.  [default: 10]", "-k")
@_word(
    "--levels",
    "COLUMN",
    "Column with each record's own level; 6..10: drawn, for a trial. --k is not used.",
)
@_word("--target", "COLUMN", "Column of classes, which are condensed separately.")
@_whole("--init", 2, "Number of records to form the first groups from.  [default: 1000]")
@_choice(
    "--grouping",
    GROUPINGS,
    "How the first groups are formed; levels is the paper's.  [default: fast]",
)
@_choice("--split", SPLITS, "When to split groups.")
@_choice(
    "--synthesis",
    SYNTHESES,
    "How records are drawn: shape keeps heaps of numbers, the others are the papers'.  "
    "[default: shape]",
)
@_whole("--every", 1, "Write a snapshot every so many records.")
@click.option(
    "--seconds", type=click.FloatRange(min=0.1), help="Write a snapshot every so many seconds."
)
@_whole("--rows", 1, "Maximum number of rows in a snapshot.  [default: 1000000]")
@_choice(
    "--snapshots",
    SNAPSHOTS,
    "Update a group in snapshots only after its level of newcomers, or always.  [default: bounded]",
)
@_choice("--snapshot-format", SNAPSHOT_FORMATS, "Format of the snapshots.  [default: parquet]")
@click.option(
    "--max-rejects",
    type=options.Share(),
    metavar="SHARE",
    help="Stop when more than this share of the last 1,000 lines or more was refused.",
)
@click.option(
    "--strict-keys/--no-strict-keys",
    default=None,
    help="Stop when JSON lines lack a key that all initial ones have; otherwise, warn.",
)
@click.option(
    "--metrics",
    type=options.FILE,
    metavar="FILE",
    help="Write counts with every save, as a text file for Prometheus.",
)
@click.option(
    "--checkpoint", type=click.FloatRange(min=0), help="Seconds between saves.  [default: 5]"
)
@_word(
    "--key",
    "FILE",
    "Key file that seals waiting records in the state; create it with "
    "SecretKey.generate().save(FILE).",
)
@click.option(
    "--plain-waiting", is_flag=True, help="Store waiting records unencrypted in the state."
)
@_choice(
    "--restart",
    RESTARTS,
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
        from tulle._commands._stream_status import status as status_of

        counts = status_of(status, None if key is None else SecretKey.load(key))
        output.show(counts, title="Stream", as_json=as_json)
        return
    options.require(context, "source", "output", "state")
    from tulle._commands.stream import stream

    opened = None if key is None else SecretKey.load(key)
    with output.working(as_json, logged=given["follow"] or not as_json):
        done = stream(key=opened, command=output.command_line(), **given)
    output.show(
        done.summary,
        title="Stream",
        as_json=as_json,
        tables={"releases": done.snapshots},
        verdict=done.verdict,
        notes=done.notes,
    )
