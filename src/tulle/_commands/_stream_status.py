"""What the owner of a stream sees from outside: its status, and metrics for a monitor."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tulle._files import atomic_write
from tulle._types import Ints
from tulle.errors import DataError
from tulle.keys import SecretKey
from tulle.table.schema import Column, Role, Schema

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    from tulle.stream import StreamCondenser
    from tulle.stream._checkpoints import StreamTally

LEFT_OUT = (Role.IDENTIFIER, Role.PERSON, Role.IGNORED)  # roles of columns in no snapshot

# What is counted, and whether it only ever grows.
_METRICS = {
    "read": ("counter", "Lines read from the source."),
    "seen": ("counter", "Records that the stream has taken."),
    "condensed": ("gauge", "Records in groups."),
    "waiting": ("gauge", "Records that no group may take yet."),
    "groups": ("gauge", "Groups of the stream."),
    "smallest_group": ("gauge", "Records in the smallest group."),
    "rejected": ("counter", "Lines that were refused."),
    "surplus_keys": ("counter", "Records with keys that the initial records do not have."),
    "lacking_keys": ("counter", "Records without a key that all initial records have."),
    "snapshots": ("counter", "Snapshots written."),
    "shown": ("gauge", "Records seen when the last snapshot was written."),
}


def status(state: str | os.PathLike[str], key: SecretKey | None = None) -> dict[str, Any]:
    """Show the counts of a stream from its state, running or not; the key next to it by default."""
    from tulle.stream._checkpoints import Checkpoint, is_running

    checkpoint = Checkpoint(state, key=key)
    if not checkpoint.exists():
        raise DataError(f"{state} does not exist: a stream writes it after its initial records")
    condenser, beside = checkpoint.read()
    saved = datetime.fromtimestamp(Path(state).stat().st_mtime, UTC)
    columns = [Column.from_json(entry["column"]) for entry in beside.settings["columns"]]
    return {
        "state": str(state),
        "running": is_running(state),
        "saved": saved.isoformat(timespec="seconds"),
        **counts_of(condenser, beside.tally),
        "snapshots": beside.tally.snapshots,
        "shown": beside.tally.shown,
        "k": condenser.k,
        "source": beside.place,
        "left_out": Schema(columns).named(*LEFT_OUT),
    }


def counts_of(condenser: StreamCondenser | None, tally: StreamTally) -> dict[str, Any]:
    """Count lines, records and groups so far."""
    counts = {"read": tally.read, "seen": 0 if condenser is None else condenser.n_seen_}
    if condenser is not None:
        sizes = condenser.counts_
        counts |= {
            "condensed": int(sizes.sum()),
            "waiting": condenser.n_waiting_,
            **sizes_told(sizes),
        }
    return counts | {
        "rejected": tally.rejected,
        "surplus_keys": tally.surplus_keys,
        "lacking_keys": sum(tally.lacking_keys.values()),
    }


def sizes_told(counts: Ints) -> dict[str, int]:
    return {
        "groups": len(counts),
        "smallest_group": int(counts.min()),
        "largest_group": int(counts.max()),
    }


def write_metrics(
    path: str | os.PathLike[str], state: str | os.PathLike[str], counts: Mapping[str, Any]
) -> None:
    """Replace a text file of metrics, as the node exporter of Prometheus collects it."""
    name = str(state).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    lines = []
    for word, (kind, meaning) in _METRICS.items():
        if word not in counts:
            continue
        metric = f"tulle_stream_{word}" + ("_total" if kind == "counter" else "")
        lines.append(f"# HELP {metric} {meaning}\n# TYPE {metric} {kind}\n")
        lines.append(f'{metric}{{state="{name}"}} {counts[word]}\n')
    metric = "tulle_stream_saved_timestamp_seconds"
    lines.append(f"# HELP {metric} When the state was last saved.\n# TYPE {metric} gauge\n")
    lines.append(f'{metric}{{state="{name}"}} {int(datetime.now(UTC).timestamp())}\n')
    with atomic_write(path, force=True) as file:
        file.write("".join(lines).encode())
