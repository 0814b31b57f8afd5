"""Follow a growing file with ``tulle stream``, kill it, go on: every record counts exactly once.

Lines that are no records are listed with their number and the reason.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

COMMAND = [sys.executable, "-m", "tulle", "stream", "visits.ndjson", "-o", "snapshots"]
COMMAND += ["--state", "visits.state", "--k", "5", "--init", "200", "--every", "500"]


def arrive(source: Path, count: int, rng: np.random.Generator) -> None:
    """Appends visits, and a line that is none."""
    with source.open("a") as file:
        for _ in range(count):
            visit = {"age": int(rng.integers(18, 90)), "cost": round(float(rng.lognormal(6)), 2)}
            file.write(json.dumps(visit | {"ward": str(rng.choice(["A", "B", "C"]))}) + "\n")
        file.write('{"age": "unknown", "cost": 1.0, "ward": "A"}\n')


def main() -> None:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arrive(folder / "visits.ndjson", 700, rng)
        following = subprocess.Popen([*COMMAND, "--follow"], cwd=folder)
        first = folder / "snapshots" / "snapshot-000001.parquet.manifest.json"
        while not first.exists() and following.poll() is None:
            time.sleep(0.05)
        arrive(folder / "visits.ndjson", 400, rng)
        following.kill()  # SIGKILL: nothing is saved on the way out
        following.wait()
        arrive(folder / "visits.ndjson", 400, rng)
        done = subprocess.run([*COMMAND, "--json"], cwd=folder, stdout=subprocess.PIPE, check=True)
        told = json.loads(done.stdout)
        print({key: told[key] for key in ("seen", "condensed", "waiting", "rejected", "snapshots")})
        print((folder / "visits.state.rejects.ndjson").read_text(), end="")
        for path in sorted((folder / "snapshots").glob("*.parquet")):
            print(path.name, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
