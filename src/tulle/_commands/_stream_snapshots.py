"""Snapshot releases of a stream, each with its manifest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tulle._attacks.result import AttackResult
from tulle._attacks.snapshots import Snapshots, snapshots_by_fresh_rows, snapshots_by_totals
from tulle._commands._columns import column_entries, unit_of
from tulle._commands._decision import with_verdict
from tulle._commands._stream_settings import Settings
from tulle._moments import GroupMoments
from tulle._plurals import counted
from tulle._random import as_generator
from tulle._report.model import Promise, Result, Section
from tulle._report.words import attack_label
from tulle._types import Floats, Ints
from tulle.auditing._splits import attack_splits, audit_of_splits, bounds
from tulle.auditing._tables import align_made
from tulle.auditing.audit import Audit
from tulle.condense._synthesis import synthesize
from tulle.errors import DataError, OutputExists, TulleError
from tulle.io.write import put_table
from tulle.keys import SigningKey
from tulle.releases import Manifest, manifest_path, write_release
from tulle.stream import StreamCondenser
from tulle.stream._state import StreamState
from tulle.table.split import units_of

# What may be shown of the groups: of those that snapshots show, not of the stream's own. One
# newcomer can make a group split while snapshots still hold it back: the bytes of the next one
# stay the same, and what is said with them must stay the same, too.


def sizes_told(counts: Ints) -> dict[str, int]:
    return {
        "groups": len(counts),
        "smallest_group": int(counts.min()),
        "largest_group": int(counts.max()),
    }


def shown_sizes(condenser: StreamCondenser, policy: str) -> dict[str, int]:
    """Return the same for the groups that the last snapshot shows, and the fewest people in one."""
    counts, people, _ = _shown(condenser, policy)
    return sizes_told(counts) | {"fewest people in a group": int(people.min())}


def _shown(condenser: StreamCondenser, policy: str) -> tuple[Ints, Ints, Ints]:
    """Return records, people and largest levels of the groups shown (by the policy "all": all)."""
    if policy != "bounded":
        return condenser.counts_, condenser.people_, condenser.levels_
    published = [state.published for state in condenser._fitted.states.values()]
    views = [part.shown.view() for part in published if part is not None]
    return (
        np.concatenate([view.counts for view in views]),
        np.concatenate([view.people for view in views]),
        np.concatenate([view.levels for view in views]),
    )


_FACTS = (
    "groups smaller than a level in them (their statistics were split)",
    "groups whose records are all alike",
)
_NAME = re.compile(r"snapshot-(\d{6,})\.(parquet|csv)")


def snapshot_path(folder: Path, number: int, kind: str) -> Path:
    return folder / f"snapshot-{number:06d}.{kind}"


def check_folder(folder: Path, *, made: int, force: bool) -> None:
    """Raise if a folder cannot be created, or holds more snapshots than this stream made."""
    if folder.exists() and not folder.is_dir():
        raise OutputExists(f"{folder} is a file: choose a folder for the snapshots")
    if not folder.parent.is_dir():
        raise DataError(f"the folder {folder.parent} does not exist")
    if not force and _later(folder, made):
        raise OutputExists(
            f"{folder} contains snapshots of another stream: pass --force to replace them"
        )


def clear_later(folder: Path, made: int) -> None:
    """Delete the snapshots of another stream: among this one's they would mislead."""
    for path in _later(folder, made):
        path.unlink(missing_ok=True)
        manifest_path(path).unlink(missing_ok=True)


def _later(folder: Path, made: int) -> list[Path]:
    """Return snapshots beyond those that this stream made."""
    entries = folder.iterdir() if folder.exists() else []
    found = ((path, _NAME.fullmatch(path.name)) for path in entries)
    return [path for path, match in found if match and int(match[1]) > made]


def write_snapshot(
    condenser: StreamCondenser,
    path: Path,
    *,
    settings: Settings,
    source: str,
    seed: str,
    sign_key: SigningKey | None,
    accepted: str = "",
) -> dict[str, Any]:
    """Draw and write one snapshot; return what the summary shows about it."""
    columns, target = settings.columns, settings.class_column
    policy, most, sizes = settings.options.snapshots, settings.options.rows, condenser.counts_
    rows = most if sizes.sum() > most else None  # a stream may have condensed more than fits here
    table = _drawn(condenser, settings, rows)
    facts, change = (condenser.n_small_, condenser.n_degenerate_), {}
    if policy == "bounded":
        last = condenser.last_change_
        facts = last.small, last.degenerate
        change = {
            "changed": last.changed,
            "fewest_newcomers": last.fewest,
            "held_back": last.held_back,
        }
    told = shown_sizes(condenser, policy)
    if settings.level_column is not None:  # one person may have set the smallest and largest
        told = {"groups": told["groups"]}
    manifest = Manifest(
        method="condensation of a stream" + (", class by class" if target else ""),
        parameters=settings.parameters | {"unit": unit_of(columns)},
        guarantee={
            "every record joined a group of at least its level": True,
            "snapshots change by valid groups of newcomers only": policy == "bounded",
        },
        verified={
            "seen = condensed + waiting": condenser.n_seen_
            == int(sizes.sum()) + condenser.n_waiting_
        },
        # of what is shown: how many have come so far, wait or were refused is the owner's
        counts=told
        | {"released": table.height}
        | dict(zip(_FACTS, facts, strict=True))
        | {
            f"since the last snapshot, {name.replace('_', ' ')}": count
            for name, count in change.items()
            if count is not None and name != "held_back"
        },
        columns=column_entries(columns, declared=settings.options.declared),
        source={"name": source},
        output={"records": table.height, "columns": table.columns},
        seed=seed,
    )
    manifest = with_verdict(manifest, Audit(unattacked(settings.options.k)), accepted)
    path.parent.mkdir(exist_ok=True)
    write_release(
        path, lambda file: put_table(table, file, path), manifest, sign_key=sign_key, force=True
    )
    return {"snapshot": path.name, "seen": condenser.n_seen_, "released": table.height} | change


def _drawn(condenser: StreamCondenser, settings: Settings, rows: int | None) -> pl.DataFrame:
    """Draw records with their class, columns in the order of the source."""
    columns, target = settings.columns, settings.class_column
    shown = settings.options.snapshots == "bounded"
    drawn = condenser.snapshot(rows) if shown else condenser.sample(rows)
    if target is None:
        table: pl.DataFrame = drawn
        return table
    features, labels = drawn
    whole = features.with_columns(pl.Series(target, labels))
    return whole.select([c.name for c in columns if c.name in whole.columns])


# What two releases of this stream tell of who arrived between them, measured. No record of the
# stream is kept, so people are drawn from its groups: some arrive, nine do not, and a watcher who
# holds the releases before and after picks one of ten. Either one arrives alone, or as many
# arrive together as its level asks for, all of one group: then the policy shows them, and the
# nine are their neighbours. The stream is played with a few of its groups only, which makes the
# watcher's work easier than it is.

TRIALS = 200
CANDIDATES = 10
GROUPS = 20


def watch(
    condenser: StreamCondenser, policy: str, rng: np.random.Generator, *, together: bool = False
) -> list[AttackResult]:
    """Run both attacks that look for a newcomer on snapshots of one policy (bounded or all)."""
    states = [state for state in condenser._fitted.states.values() if len(state.groups)]
    sizes = np.array([len(state.groups) for state in states])
    arrive = _together if together else _alone
    how = "uniform" if condenser.synthesis == "shape" else condenser.synthesis

    def release(played: StreamState) -> Floats:
        groups = played.publish()[0] if policy == "bounded" else played.groups
        return synthesize(groups.moments(), rng, distribution=how)[0]

    pairs = []
    for _ in range(TRIALS):
        state = states[rng.choice(len(states), p=sizes / sizes.sum())]
        few = state.groups.taken(rng.permutation(len(state.groups))[:GROUPS]).moments()
        came, decoys, level = arrive(few, rng)
        played = StreamState(few.means.shape[1], strict=condenser.split == "strict")
        played.start(few)
        before = release(played)
        levels = np.full(len(came), min(level, int(few.counts.max()) + 1))
        played.absorb(came, levels, played.seen + np.arange(len(came)))
        after = release(played)
        pairs.append(Snapshots(before, after, (len(before), len(after)), came[0], decoys))
    return [snapshots_by_totals(pairs, rng), snapshots_by_fresh_rows(pairs, rng)]


def _alone(few: GroupMoments, rng: np.random.Generator) -> tuple[Floats, Floats, int]:
    """Return one newcomer, others from all groups, and the newcomer's level."""
    people, groups = synthesize(few, rng, distribution="normal")
    chosen = rng.permutation(len(people))[:CANDIDATES]
    return people[chosen[:1]], people[chosen[1:]], int(few.levels[groups[chosen[0]]])


def _together(few: GroupMoments, rng: np.random.Generator) -> tuple[Floats, Floats, int]:
    """Return as many newcomers as a group's level, others of the same group, and that level."""
    home = int(rng.choice(len(few.counts), p=few.counts / few.counts.sum()))
    level = int(few.levels[home])
    sizes = np.zeros(len(few.counts), dtype=np.int64)
    sizes[home] = level + CANDIDATES - 1
    people = rng.permutation(synthesize(few, rng, distribution="normal", sizes=sizes)[0])
    return people[:level], people[level:], level


# What snapshots tell of single people, and what they are good for. The stream keeps no record, but
# most sources can be read again from their beginning: streams of two thirds of the first records
# are made as this one is, and their snapshots attacked next to the rest, as tables without a
# control are judged; the use is that of a snapshot of all of them.

JUDGED = 4_000  # records


def judge(records: pl.DataFrame, settings: Settings) -> Audit | None:
    """Audit snapshots of streams of parts of these records; None if these are too few."""

    def make(part: pl.DataFrame, seed: int) -> pl.DataFrame:
        condenser = settings.condenser(min(settings.options.init, part.height), seed)
        return _drawn(condenser.partial_fit(*settings.parted(part)), settings, None)

    seed, columns = settings.options.seed, settings.columns
    rng = as_generator(seed)
    people = len(np.unique(units_of(records, settings.person_column)))
    count, most = bounds(people, choosing=False, quick=True)
    try:
        splits = attack_splits(records, columns, make, rng, count, most=most)
        tables = align_made(records, make(records, int(rng.integers(2**31))), None, columns)
    except TulleError:
        return None
    audit = audit_of_splits(tables, splits, seed, quick=True, k=settings.options.k)
    first = f"the first {counted(records.height, 'record')} of the source, read again"
    return audit.extended(provenance={"judged on": first})


# The report of a stream: what was counted, how it went, what two snapshots tell.

ONE, LEVEL = "one record", "as many as its level"  # who arrives between two snapshots
LIMITS = [
    "Anyone who reads all snapshots sees how the groups move: snapshots hide single newcomers "
    "among as many as their level, not the trend that many of them make.",
    "With split='paper' the statistics of a group are halved as if it were uniform: halves may "
    "have fewer members than the largest level of the records in them.",
    "Ranges of numbers and domains of categories are released; the domains are those of the "
    "initial records.",
    "Waiting records are kept unchanged in memory until others join them.",
]


def unattacked(k: int) -> Result:
    """Return what is known of a snapshot without a report: no record is kept to attack it with."""
    return {
        "title": "Snapshot of a stream",
        "k": k,
        "untried": "pass --report, which attacks snapshots of streams of parts of the source, or "
        "keep some records of the stream apart: tulle audit RECORDS SNAPSHOT --control CONTROL",
    }


def stream_result(
    condenser: StreamCondenser,
    settings: Settings,
    counts: Mapping[str, Any],
    snapshots: Sequence[Mapping[str, Any]],
    source: str,
) -> Result:
    policy = settings.options.snapshots
    shown = shown_sizes(condenser, policy)["groups"]
    rng = as_generator(None)
    used = watch(condenser, policy, rng)
    return {
        "title": f"Stream condensed from {source}",
        "summary": f"{counted(counts['seen'], 'record')} seen: {counts['condensed']:,} condensed, "
        f"{counts['waiting']:,} waiting. Snapshots show {counted(shown, 'group')}. "
        f"{counted(counts['rejected'], 'malformed line', 'was')} refused.",
        "guarantee": {
            "text": "Every record joined a group of at least its level, itself included."
            if settings.person_column is None
            else "Every record joined a group of at least as many different people as its level.",
            "rows": _promises(condenser, settings, counts),
        },
        "k": settings.options.k,
        "attacks": {attack.name: attack.to_dict() for attack in used},
        "sections": [
            _intersection(condenser, policy, used, rng),
            _table(
                "snapshots",
                "Snapshots of this run",
                "Groups that changed since the previous snapshot, the fewest records that had "
                "newly joined one of them, and records that are condensed but held back until "
                "later.",
                snapshots,
            ),
            _table(
                "history",
                "Progress of the stream",
                "Drift is the distance of an interval's mean record from that of the first "
                "interval, in standard deviations.",
                condenser.history_,
                owner_only=policy == "bounded",  # it counts the stream's own groups
            ),
        ],
        "limits": LIMITS,
    }


def _promises(
    condenser: StreamCondenser, settings: Settings, counts: Mapping[str, Any]
) -> list[Promise]:
    strict = settings.options.split == "strict"
    _, people, levels = _shown(condenser, settings.options.snapshots)
    small = int((people < levels).sum())
    return [
        {
            "name": "records seen = condensed + waiting",
            "asked": counts["seen"],
            "found": counts["condensed"] + counts["waiting"],
            "holds": counts["seen"] == counts["condensed"] + counts["waiting"],
        },
        {
            "name": "groups shown that are smaller than a level in them, after splits",
            "asked": 0 if strict else "allowed by split='paper'",
            "found": small,
            "holds": not (strict and small),
        },
    ]


def _intersection(
    condenser: StreamCondenser, policy: str, used: Sequence[AttackResult], rng: np.random.Generator
) -> Section:
    other = "all" if policy == "bounded" else "bounded"
    found = {
        (ONE, policy): used,
        (ONE, other): watch(condenser, other, rng),
        (LEVEL, policy): watch(condenser, policy, rng, together=True),
        (LEVEL, other): watch(condenser, other, rng, together=True),
    }
    rows = [
        [arrived, attack_label(attack.name), f"{shown} (used)" if shown == policy else shown]
        + [attack.rate, attack.baseline]
        for (arrived, shown), attacks in found.items()
        for attack in attacks
    ]
    return {
        "id": "intersection",
        "part": "identifiability",
        "title": "Who arrived between two snapshots?",
        "text": "Someone has two successive snapshots and looks for a record that arrived in "
        f"between. This stream's policy is '{policy}': with 'bounded', a group is "
        "updated only after as many newcomers as its largest level; with 'all', every "
        "snapshot shows the current groups. Measured with people drawn from the groups, "
        "among ten candidates: for one newcomer, anyone; for a whole level of "
        "newcomers, their neighbours.",
        "blocks": [
            {
                "type": "table",
                "columns": ["arrived", "attack", "policy", "newcomer found", "by guessing"],
                "rows": rows,
            }
        ],
    }


def _table(
    name: str, title: str, text: str, rows: Sequence[Mapping[str, Any]], *, owner_only: bool = False
) -> Section:
    columns = list(rows[0]) if rows else ["none"]
    return {
        "id": name,
        "title": title,
        "text": text,
        "owner_only": owner_only,
        "blocks": [
            {
                "type": "table",
                "columns": [column.replace("_", " ") for column in columns],
                "rows": [[row[column] for column in columns] for row in rows],
            }
        ],
    }
