"""Hostile files of the review, given to the version that it broke and to today's.

``TULLE_BEFORE=python python -m benchmarks.bench_attacks_files [--quick]``

``TULLE_BEFORE`` is the Python of an environment that holds the version of the review (commit
b9a4b15); without it only today's version is tried.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from benchmarks.results import write_table

MOST_SECONDS = 30  # of CPU
MOST_MEMORY = 6 << 30


def hostile(folder: Path) -> dict[str, list[str]]:
    """Write the files; return what a Python is asked to do with each."""
    tulle = ["-m", "tulle"]
    load = "import sys; from {} import {} as kind; kind.load(sys.argv[1])"
    of_stream = load.format("tulle", "StreamCondenser")
    _bomb(folder / "bomb.state")
    wide = ",".join(f"c{column}" for column in range(100_000))
    cells = ",".join("1" for _ in range(100_000))
    (folder / "wide.csv").write_text("\n".join([wide, *[cells] * 4]) + "\n")
    with gzip.open(folder / "bomb.csv.gz", "wb", 9) as file:
        file.write(b"a,b\n")
        for _ in range(3_000):
            file.write(b"0" * (1 << 20))
    (folder / "people.csv").write_text("age\n" + "".join(f"{20 + i}\n" for i in range(60)))
    (folder / "dotted.toml").write_text("a" + ".a" * 50_000 + " = 1\n")
    (folder / "shop.dat").write_text("1 2\n" + "9" * 5_000 + "\n")
    with sqlite3.connect(folder / "x.db") as database:
        database.execute("CREATE TABLE t (a TEXT)")
        database.execute("INSERT INTO t VALUES ('fine'), (CAST(x'ff41' AS TEXT))")
    database.close()
    _claimed(folder / "claimed.csv", '{"x": "no"}')
    (folder / "deep.csv").write_text("a\n1\n")
    (folder / "deep.csv.manifest.json").write_text("[" * 200_000)
    return {
        "stream state, 2.5 MB that unfold into 2.5 GB": ["-c", of_stream, "bomb.state"],
        "CSV of 100,000 columns": [*tulle, "inspect", "wide.csv", "-o", "p.toml"],
        "gzip, 3 MB that unfold into a line of 3 GB": [*tulle, "inspect", "bomb.csv.gz"]
        + ["-o", "p.toml"],
        "policy of 50,000 dots": [*tulle, "condense", "people.csv", "-o", "r.csv", "--policy"]
        + ["dotted.toml"],
        "manifest of 200,000 brackets": [*tulle, "verify", "deep.csv"],
        "manifest that claims `no`": [*tulle, "verify", "claimed.csv"],
        "item number of 5,000 digits": [*tulle, "mine", "shop.dat", "-o", "m.csv"]
        + ["--min-support", "1", "--min-confidence", "0"],
        "SQLite, text that is not UTF-8": [*tulle, "inspect", "sqlite:///x.db#t", "-o", "p.toml"],
    }


def _bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        header = {"format": "tulle-stream-state", "version": 3, "sha256": "0"}
        archive.writestr("header.json", json.dumps(header))
        with archive.open("a.npy", "w", force_zip64=True) as member:
            for _ in range(2_500):
                member.write(bytes(1 << 20))


def _claimed(path: Path, verified: str) -> None:
    """Write a table that was never condensed, and a manifest that fits it."""
    path.write_text("a\n1\n")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    entries = {
        "format": 1,
        "method": "condensation",
        "parameters": {},
        "guarantee": {"k": 3},
        "counts": {},
        "columns": {},
        "verified": json.loads(verified),
        "output": {"file": path.name, "sha256": digest},
    }
    path.with_name(f"{path.name}.manifest.json").write_text(json.dumps(entries))


def tried(python: str, arguments: list[str], folder: Path) -> list[str]:
    """Run a command within limits; return how it ended, its CPU seconds and its memory."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))

    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [python, *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            preexec_fn=limit,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        text = errors.read().decode("utf-8", "replace")
    seconds = used.ru_utime + used.ru_stime
    return [_ending(process.returncode, text), f"{seconds:.1f}", f"{used.ru_maxrss >> 10:,}"]


def _ending(code: int, errors: str) -> str:
    """Say in a few words how a command ended."""
    lines = errors.strip().splitlines()
    last = lines[-1] if lines else ""
    if code < 0:
        return f"stopped after {MOST_SECONDS} CPU s" if code in (-9, -24) else f"signal {-code}"
    if code == 0:
        return "accepted"
    if last.startswith("tulle.errors.") or (last.startswith("tulle: ") and len(lines) == 1):
        return "refused" if "unexpected" not in last else f"crashed: {last.split()[2].strip(':')}"
    if last.startswith("tulle: "):
        return "refused, after a backtrace"
    return f"crashed: {last.partition(':')[0].rpartition('.')[2]}" if lines else f"exit {code}"


def main(quick: bool = False) -> None:
    versions = [sys.executable]
    if os.environ.get("TULLE_BEFORE"):
        versions.insert(0, os.environ["TULLE_BEFORE"])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        asked = hostile(folder)
        rows = [
            [name, *(cell for python in versions for cell in tried(python, arguments, folder))]
            for name, arguments in list(asked.items())[: 4 if quick else None]
        ]
    header = ["ends", "CPU s", "MB"]
    before = [f"before: {name}" for name in header] if len(versions) == 2 else []
    write_table(
        "attacks_files",
        "Hostile files of the review, then and now",
        ["file", *before, *(f"today: {name}" for name in header)],
        rows,
        notes=f"Every command may take {MOST_SECONDS} CPU seconds and {MOST_MEMORY >> 30} GB. CPU "
        "seconds and memory include starting Python and importing libraries. Refused: one line, "
        "or a `TulleError` where the library is called.",
        packages=("polars", "numpy"),
        quick=quick,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
