"""Streams as users run them: ``partial_fit`` and ``tulle stream`` while groups grow.

``python -m benchmarks.bench_stream_command [--quick]``
"""

from __future__ import annotations

import sys
import tempfile
import time
from functools import partial
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

from benchmarks.bench_stream import FIRST, PACKAGES, SEED, mixture, run, started, throughput_chart
from benchmarks.results import save_chart, timed, write_table
from tulle import StreamCondenser
from tulle._commands._stream_intake import Intake
from tulle._commands.stream import stream

NAMES = [f"c{place}" for place in range(10)]
RUNS = 3
WAYS = ["index and updates alone", "partial_fit", "tulle stream, CSV", "tulle stream, NDJSON"]
Marks = list[tuple[int, int, float]]  # records, groups, CPU seconds so far


def alone(records: np.ndarray, levels: np.ndarray, batch: int) -> Marks:
    engine = started(records, levels)
    marks = [(FIRST, len(engine.groups), 0.0)]
    for start in range(FIRST, len(records), batch):
        part = slice(start, start + batch)
        seconds = run(engine, records[part], levels[part])
        stop = min(part.stop, len(records))
        marks.append((stop, len(engine.groups), marks[-1][2] + seconds))
    return marks


def fitted(records: np.ndarray, levels: np.ndarray, batch: int) -> Marks:
    condenser = StreamCondenser(init_size=FIRST, random_state=SEED)
    condenser.partial_fit(records[:FIRST], levels=levels[:FIRST])
    marks = [(FIRST, len(condenser.counts_), 0.0)]
    for start in range(FIRST, len(records), batch):
        part = slice(start, start + batch)
        take = partial(condenser.partial_fit, records[part], levels=levels[part])
        _, seconds = timed(take)
        marks.append((condenser.n_seen_, len(condenser.counts_), marks[-1][2] + seconds))
    return marks


def commanded(table: pl.DataFrame, kind: str) -> Marks:
    """One run of the command, looked at after every batch that it takes.

    Its clock is its own CPU time: on a busy machine it would save its state more often between two
    records than on one that does nothing else.
    """
    marks: Marks = []
    take = Intake.take

    def watched(intake: Intake, lines: Any) -> None:
        take(intake, lines)
        if intake.condenser is not None:
            groups = len(intake.condenser.counts_)
            marks.append((intake.seen, groups, time.process_time()))

    clock = patch("tulle._commands.stream.time", SimpleNamespace(monotonic=time.process_time))
    with tempfile.TemporaryDirectory() as name, patch.object(Intake, "take", watched), clock:
        folder = Path(name)
        source = written(table, folder, kind)
        stream(source, folder / "out", state=folder / "state", levels="level", init=FIRST, seed=0)
    return marks


def written(table: pl.DataFrame, folder: Path, kind: str) -> str:
    path = folder / f"in.{kind}"
    (table.write_csv if kind == "csv" else table.write_ndjson)(path)
    return str(path)


def by_tenths(marks: Marks, count: int, step: int) -> list[tuple[int, int, float]]:
    """Records, groups and records a second of each part of the run after the first groups."""
    seen, groups, seconds = (np.array(column) for column in zip(*marks, strict=True))
    ends = np.arange(step, count + 1, step)
    spent = np.diff(np.interp(np.append(seen[0], ends), seen, seconds))
    taken = np.diff(np.append(seen[0], ends))
    return [
        (int(end), round(np.interp(end, seen, groups)), speed)
        for end, speed in zip(ends, taken / spent, strict=True)
    ]


def quickest(runs: list[list[tuple[int, int, float]]]) -> list[tuple[int, int, float]]:
    """The best rate of each part: what else runs on the machine only takes away from it."""
    return [max(parts, key=itemgetter(2)) for parts in zip(*runs, strict=True)]


def growing(quick: bool) -> None:
    """What of the growing search is left in what a user waits for."""
    count, step = (60_000, 20_000) if quick else (1_000_000, 100_000)
    batch = 10_000
    rng = np.random.default_rng(SEED)
    records = np.round(mixture(count, 10, rng), 4)
    levels = rng.integers(16, 21, size=count)
    table = pl.DataFrame(records, schema=NAMES).with_columns(level=pl.Series(levels))
    for way in (alone, fitted):  # imports, compiles
        way(records[: 2 * batch], levels[: 2 * batch], batch)
    ways = (
        partial(alone, records, levels, batch),
        partial(fitted, records, levels, batch),
        partial(commanded, table, "csv"),
        partial(commanded, table, "ndjson"),
    )
    parts = [quickest([by_tenths(way(), count, step) for _ in range(RUNS)]) for way in ways]
    rows: list[list[Any]] = [
        [*parts[0][place][:2], *(round(part[place][2]) for part in parts)]
        for place in range(len(parts[0]))
    ]
    falls = [f"{part[0][2] / part[-1][2]:.2f}" for part in parts]
    rows.append(["first tenth : last tenth", "", *falls])
    write_table(
        "stream_growing",
        "Streams: what a user waits for while groups grow",
        ["records", "groups", *WAYS],
        rows,
        notes="Records/s of each tenth of one stream after its first groups: 10 columns, mixture "
        "of 20 Gaussians, levels uniform on 16..20, exact nearest admissible group. partial_fit "
        f"takes NumPy arrays of {batch:,} records with all checks. The command reads and types "
        "lines and saves a checkpoint every 5 CPU seconds. CPU seconds of all threads, for each "
        f"tenth the best of {RUNS} runs: even CPU seconds grow on a busy machine, whose caches "
        "are shared. "
        "Targets: 80,000, and a first tenth at most 1.5 times as fast as the last.",
        packages=(*PACKAGES, "polars"),
        seed=SEED,
        quick=quick,
    )
    save_chart(
        "stream_growing", throughput_chart(rows[:-1], dict(enumerate(WAYS, start=2))), quick=quick
    )


def commands(quick: bool) -> None:
    """The whole way of ``tulle stream``: lines to types, groups, checkpoints and a snapshot."""
    count = 5_000 if quick else 200_000
    rng = np.random.default_rng(SEED)
    table = pl.DataFrame(np.round(mixture(count, 10, rng), 4), schema=NAMES)
    rows = []
    for kind in ("csv", "ndjson"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            source = written(table, folder, kind)
            work = partial(stream, source, folder / "out", state=folder / "state", k=18, seed=0)
            done, seconds = timed(work)
            state = (folder / "state").stat().st_size / 1e6
        rows.append([kind, count, done.summary["groups"], round(count / seconds), state])
    write_table(
        "stream_command",
        "tulle stream, from lines of a file to a snapshot release",
        ["format", "records", "groups", "records/s", "state file MB"],
        rows,
        notes="10 columns, k = 18, a checkpoint every 5 seconds, one snapshot at the end; CPU "
        "seconds of all threads.",
        packages=(*PACKAGES, "polars"),
        seed=SEED,
        quick=quick,
    )


def main(quick: bool) -> None:
    growing(quick)
    commands(quick)


if __name__ == "__main__":
    main("--quick" in sys.argv)
