"""Snapshot releases of a stream, each with its manifest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tulle.condense.stream import StreamCondenser
from tulle.errors import DataError
from tulle.files import OutputExists
from tulle.releases import Manifest, write_release
from tulle.releases.file_pairs import manifest_path
from tulle.tables.schema import Column
from tulle.tables.writing import put_table
from tulle.workflows.stream.settings import Settings
from tulle.workflows.stream.showing import shown_sizes

_FACTS = (
    "smallest group",
    "groups smaller than a level in them (their statistics were split)",
    "records alone in their group (level 1), released as they are",
    "groups whose records are all alike",
)
_NAME = re.compile(r"snapshot-(\d{6,})\.parquet")


def snapshot_path(folder: Path, number: int) -> Path:
    """Where a snapshot goes."""
    return folder / f"snapshot-{number:06d}.parquet"


def check_folder(folder: Path, *, made: int, force: bool) -> None:
    """Refuses a folder that cannot be made, or that holds more snapshots than this stream made."""
    if folder.exists() and not folder.is_dir():
        raise OutputExists(f"{folder} is a file: name a folder for the snapshots")
    if not folder.parent.is_dir():
        raise DataError(f"the folder {folder.parent} does not exist")
    if not force and _later(folder, made):
        raise OutputExists(
            f"{folder} holds snapshots of another stream: pass --force to replace them"
        )


def clear_later(folder: Path, made: int) -> None:
    """Takes away the snapshots of another stream: among this one's they would mislead."""
    for path in _later(folder, made):
        path.unlink(missing_ok=True)
        manifest_path(path).unlink(missing_ok=True)


def _later(folder: Path, made: int) -> list[Path]:
    """Snapshots beyond those that this stream made."""
    entries = folder.iterdir() if folder.exists() else []
    found = ((path, _NAME.fullmatch(path.name)) for path in entries)
    return [path for path, match in found if match and int(match[1]) > made]


def write_snapshot(
    condenser: StreamCondenser,
    path: Path,
    *,
    settings: Settings,
    counts: Mapping[str, Any],
    source: str,
    seed: str,
) -> dict[str, Any]:
    """Draws and writes one snapshot; what is to be said about it."""
    columns, target = settings.columns, settings.class_column
    policy, most, sizes = settings.wanted["snapshots"], settings.wanted["rows"], condenser.counts_
    rows = most if sizes.sum() > most else None  # a stream may have condensed more than fits here
    drawn = condenser.snapshot(rows) if policy == "bounded" else condenser.sample(rows)
    table = _as_table(drawn, columns, target)
    change = _change(condenser) if policy == "bounded" else {}
    manifest = Manifest(
        method="condensation of a stream" + (", class by class" if target else ""),
        parameters=settings.parameters,
        guarantee={
            "every record joined a group of at least its level": True,
            "snapshots change by valid groups of newcomers only": policy == "bounded",
        },
        verified={
            "seen = condensed + waiting": condenser.n_seen_
            == int(sizes.sum()) + condenser.n_waiting_,
        }
        | _facts(condenser, policy)
        | {
            f"since the last snapshot, {name.replace('_', ' ')}": count
            for name, count in change.items()
            if count is not None
        },
        counts={**counts, **shown_sizes(condenser, policy), "released": table.height},
        columns={c.name: {"kind": c.kind.value, "role": c.role.value} for c in columns},
        source={"name": source, "records": condenser.n_seen_},
        output={"records": table.height, "columns": table.columns},
        seed=seed,
    )
    path.parent.mkdir(exist_ok=True)
    write_release(path, lambda file: put_table(table, file, path), manifest, force=True)
    return {"snapshot": path.name, "seen": condenser.n_seen_, "released": table.height} | change


def _facts(condenser: StreamCondenser, policy: str) -> dict[str, Any]:
    """What is verified of the groups that are shown."""
    facts: tuple[int | None, ...] = (
        int(condenser.counts_.min()),
        condenser.n_small_,
        condenser.n_verbatim_,
        condenser.n_degenerate_,
    )
    if policy == "bounded":
        shown = condenser.last_change_
        facts = shown.smallest, shown.small, shown.verbatim, shown.degenerate
    return dict(zip(_FACTS, facts, strict=True))


def _change(condenser: StreamCondenser) -> dict[str, Any]:
    change = condenser.last_change_
    return {
        "changed": change.changed,
        "fewest_newcomers": change.fewest,
        "held_back": change.held_back,
    }


def _as_table(drawn: Any, columns: Sequence[Column], target: str | None) -> pl.DataFrame:
    """The drawn records with their class, columns in the order of the source."""
    if target is None:
        table: pl.DataFrame = drawn
        return table
    features, labels = drawn
    whole = features.with_columns(pl.Series(target, labels))
    return whole.select([c.name for c in columns if c.name in whole.columns])
