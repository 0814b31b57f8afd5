"""kill -9 at random moments: is every record counted exactly once?

``python -m benchmarks.bench_stream_kills [--quick]``: a file and a folder of arriving files, killed
200 times in all (quick: 10), against the same streams left alone.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import write_table
from tests.reference.killing import run_and_kill
from tulle._files import digest

SEED = 0


def records(count: int) -> list[dict[str, Any]]:
    """Records with levels, some of which wait."""
    rng = np.random.default_rng(SEED)
    levels = rng.integers(3, 7, size=count)
    levels[700::2_000] = 90
    values = rng.normal(size=(count, 2))
    return [{"a": a, "b": b, "level": int(p)} for (a, b), p in zip(values.tolist(), levels)]


def write_file(path: Path, made: list[dict[str, Any]]) -> int:
    """One NDJSON file; how many of its lines are malformed."""
    lines = [json.dumps(row) for row in made]
    broken = range(399, len(lines), 400)
    for place in broken:
        lines[place] += "\n{broken"
    path.write_text("\n".join(lines) + "\n")
    return len(broken)


def write_folder(path: Path, made: list[dict[str, Any]]) -> int:
    """CSV files of a few hundred records, each with one malformed line; how many these are."""
    path.mkdir()
    starts = range(0, len(made), 300)
    for start in starts:
        rows = [f"{row['a']},{row['b']},{row['level']}" for row in made[start : start + 300]]
        (path / f"{start:06d}.csv").write_text("\n".join(["a,b,level", *rows, "1,2", ""]))
    return len(starts)


def compared(folder: Path, source: Path, count: int, broken: int, kills: int) -> list[list[Any]]:
    """What a stream that is left alone tells, and the same stream killed."""
    whole, killed = folder / "whole", folder / "killed"
    run_and_kill(whole, str(source), 0, every=2_000)
    told = run_and_kill(killed, str(source), kills, every=2_000)
    with np.load(whole / "state") as one, np.load(killed / "state") as two:
        names = set(one.files) - {"header.json", "private"}
        equal = all(np.array_equal(one[name], two[name]) for name in names)
        counted = [int(state["0.groups.counts"].sum()) for state in (one, two)]
    rejects = [(part / "state.rejects.ndjson").read_bytes() for part in (whole, killed)]
    tables = sorted(path.name for path in (whole / "out").glob("*.parquet"))
    same = sum(digest(whole / "out" / name) == digest(killed / "out" / name) for name in tables)
    left = len(list(folder.rglob("*.part")))
    return [
        [0, told["kills"]],
        [1, told["ended"]],
        [count, count],
        counted,
        [count - counted[0], count - counted[1]],
        [broken, len(rejects[1].splitlines())],
        ["-", "equal" if equal else "DIFFERENT"],
        ["-", "equal" if rejects[0] == rejects[1] else "DIFFERENT"],
        [len(tables), f"{same} equal"],
        [0, left],
    ]


def main(quick: bool) -> None:
    kills, count = (5, 3_000) if quick else (100, 30_000)
    made = records(count)
    columns = []
    for name, write in (("in.ndjson", write_file), ("in", write_folder)):
        with tempfile.TemporaryDirectory() as temporary:
            source = Path(temporary) / name
            broken = write(source, made)
            columns.append(compared(Path(temporary), source, count, broken, kills))
    names = [
        "runs killed (SIGKILL)",
        "runs that ended by themselves before the kill",
        "records in the source",
        "records condensed",
        "records waiting",
        "lines refused",
        "groups, bit by bit",
        "file of refused lines, byte by byte",
        "snapshots, byte by byte",
        "temporary files left",
    ]
    write_table(
        "stream_kills",
        "Streams: killed at random moments, and left alone",
        ["", "file, left alone", "file, killed", "folder, left alone", "folder, killed"],
        [[name, *one, *two] for name, one, two in zip(names, *columns)],
        notes="An NDJSON file, and a folder of CSV files of 300 records each; a checkpoint every "
        "25 lines, a snapshot every 2,000 records. A fifth of the kills come within 0.3 s of the "
        "start, the others up to 0.06 s after a new checkpoint; then the same command runs again.",
        seed=SEED,
        quick=quick,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
