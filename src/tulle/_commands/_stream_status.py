"""What the owner of a stream sees from outside: its status, and metrics for a monitor."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tulle._files import atomic_write
from tulle.errors import DataError

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


def status(state: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the counts of a stream from its state, whether or not it is running."""
    from tulle.stream._checkpoints import Checkpoint, is_running

    checkpoint = Checkpoint(state, key=None, plain_waiting=False)
    if not checkpoint.exists():
        raise DataError(f"{state} does not exist: a stream writes it after its initial records")
    condenser, extra, owed = checkpoint.read()
    sizes = condenser.counts_
    counts = {
        "read": extra["read"],
        "seen": condenser.n_seen_,
        "condensed": int(sizes.sum()),
        "waiting": condenser.n_waiting_ + len(owed),
        "groups": len(sizes),
        "smallest_group": int(sizes.min()),
        "largest_group": int(sizes.max()),
        "rejected": extra["rejected"],
        "surplus_keys": extra["surplus_keys"],
        "lacking_keys": sum(extra.get("lacking_keys", {}).values()),
        "snapshots": extra["snapshots"],
        "shown": extra["shown"],
    }
    saved = datetime.fromtimestamp(Path(state).stat().st_mtime, UTC)
    return {
        "state": str(state),
        "running": is_running(state),
        "saved": saved.isoformat(timespec="seconds"),
        **counts,
        "k": condenser.k,
        "source": extra["place"],
        "left_out": _left_out(extra["settings"]),
    }


def _left_out(settings: Mapping[str, Any]) -> list[str]:
    """Return the columns that are in no snapshot."""
    from tulle.table.schema import Column, Role

    columns = [Column.from_json(entry["column"]) for entry in settings["columns"]]
    return [c.name for c in columns if not c.role.released and c.role is not Role.LEVEL]


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
