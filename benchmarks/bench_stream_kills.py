"""kill -9 at random moments: is every record counted exactly once?

``python -m benchmarks.bench_stream_kills [--quick]``: one stream, killed 200 times (quick: 10),
against the same stream left alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.results import write_table
from tulle.files import digest

SEED = 0


def records(path: Path, count: int) -> int:
    """Records with levels, some that wait, and some malformed lines; how many of these."""
    rng = np.random.default_rng(SEED)
    broken = 0
    with path.open("w") as file:
        for place in range(count):
            level = 90 if place % 2_000 == 700 else int(rng.integers(3, 7))
            row = {"a": float(rng.normal()), "b": float(rng.normal()), "level": level}
            file.write(json.dumps(row) + "\n")
            if place % 400 == 399:
                file.write("{broken\n")
                broken += 1
    return broken


def run(folder: Path, source: Path, kills: int) -> dict[str, int]:
    folder.mkdir()
    state = str(folder / "state")
    arguments = [str(source), "-o", str(folder / "out"), "--state", state, "--k", "4"]
    arguments += ["--init", "60", "--levels", "level", "--seed", "1", "--checkpoint", "0"]
    command = [sys.executable, "-m", "tests.reference.killing", str(kills), str(SEED), state]
    done = subprocess.run(
        [*command, *arguments, "--every", "2000"], stdout=subprocess.PIPE, check=True, text=True
    )
    told: dict[str, int] = json.loads(done.stdout)
    return told


def main(quick: bool) -> None:
    kills, count = (10, 3_000) if quick else (200, 15_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "in.ndjson"
        broken = records(source, count)
        run(folder / "whole", source, 0)
        told = run(folder / "killed", source, kills)
        states = [np.load(folder / part / "state") for part in ("whole", "killed")]
        counted = [int(state["0.groups.counts"].sum()) for state in states]
        equal = all(
            np.array_equal(states[0][part], states[1][part])
            for part in states[0].files
            if part != "header.json"
        )
        rejects = [
            (folder / part / "state.rejects.ndjson").read_bytes() for part in ("whole", "killed")
        ]
        tables = sorted(path.name for path in (folder / "whole" / "out").glob("*.parquet"))
        same = sum(
            digest(folder / "whole" / "out" / table) == digest(folder / "killed" / "out" / table)
            for table in tables
        )
        left = len(list(folder.rglob("*.part")))
    rows = [
        ["runs killed (SIGKILL)", 0, told["kills"]],
        ["runs that ended by themselves before the kill", 1, told["ended"]],
        ["records in the source", count, count],
        ["records condensed", *counted],
        ["records waiting", count - counted[0], count - counted[1]],
        ["lines refused", broken, len(rejects[1].splitlines())],
        ["groups, bit by bit", "-", "equal" if equal else "DIFFERENT"],
        ["file of refused lines, byte by byte", "-", "equal" if rejects[0] == rejects[1] else "NO"],
        ["snapshots, byte by byte", len(tables), f"{same} equal"],
        ["temporary files left", 0, left],
    ]
    write_table(
        "stream_kills",
        "Streams: killed at random moments, and left alone",
        ["", "left alone", "killed"],
        rows,
        notes="NDJSON file, a checkpoint every 25 lines, a snapshot every 2,000 records. A fifth "
        "of the kills come within 0.3 s of the start, the others up to 0.15 s after a new "
        "checkpoint; then the same command runs again.",
        seed=SEED,
        quick=quick,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
