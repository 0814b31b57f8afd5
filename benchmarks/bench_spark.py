"""Spark: its price next to one machine, and a real cluster that loses an executor and a worker.

``python -m benchmarks.bench_spark [--quick]``. Needs Java and ``tulle[spark]``; everything listens
on loopback. The bytes of a release must be those that one machine makes.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.bench_scale import mixture
from benchmarks.groupings import SEED
from benchmarks.results import write_table
from tulle.io.write import write_batches

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
KILLS = {"executor": 3, "worker": 8}  # parts that are written when it is killed

MACHINE = """
import sys
from tulle._commands import _large
from tulle._commands.condense import condense
from tulle._large import machine
machine.CELL = machine._LEAST_CELL = int(sys.argv[3])
_large._needed = lambda source: float("inf")
condense(sys.argv[1], sys.argv[2], memory="2GB", seed=int(sys.argv[4]), audit=False)
"""
SPARK = """
import os, sys, time
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
from tulle import spark
from tulle.spark import _condense
source, output, cell, seed, master, slow = sys.argv[1:]
_condense.CELL = int(cell)
joined = _condense._joined
def slowly(blocks, dtype, pause=float(slow)):
    time.sleep(pause)
    return joined(blocks, dtype)
_condense._joined = slowly
builder = SparkSession.builder.master(master).config("spark.io.encryption.enabled", "true")
for name, value in {
    "ui.enabled": "false", "ui.showConsoleProgress": "false", "log.level": "ERROR",
    "driver.host": "127.0.0.1",
    "driver.bindAddress": "127.0.0.1", "driver.memory": "1g", "executor.memory": "800m",
    "executor.cores": "1", "executorEnv.POLARS_MAX_THREADS": "1",
    "executorEnv.OPENBLAS_NUM_THREADS": "1", "task.maxFailures": "8",
}.items():
    builder = builder.config("spark." + name, value)
session = builder.getOrCreate()
df = session.read.parquet(source).repartition(5)
spark.condense(df, output, random_state=int(seed), accept_risk="a benchmark on loopback")
session.stop()
"""


class Tree:
    """The processes that come from one of ours: their CPU seconds and memory."""

    def __init__(self, root: int) -> None:
        self.root = root
        self.used: dict[int, float] = {}
        self.peak = 0.0

    def look(self) -> list[int]:
        """Add up what the processes used so far, and return who they are."""
        parents, now, memory = {}, {}, 0
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                parents[int(entry.name)] = int(fields[1])
                now[int(entry.name)] = (int(fields[11]) + int(fields[12])) / TICK
        found, size = {self.root}, 0
        while len(found) > size:
            size = len(found)
            found |= {pid for pid, parent in parents.items() if parent in found}
        for pid in found & now.keys():
            self.used[pid] = now[pid]
            try:
                memory += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
            except OSError:
                continue
        self.peak = max(self.peak, memory / 2**20)
        return sorted(found - {self.root})

    def stop(self) -> None:
        """Kill these processes and no others."""
        for pid in [*self.look(), self.root]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def digest(release: Path) -> str:
    """The digest of all parts with their names."""
    whole = hashlib.sha256()
    for part in sorted(release.iterdir()):
        whole.update(part.name.encode() + part.read_bytes())
    return whole.hexdigest()


def run(script: str, *arguments: Any) -> Tree:
    """Run a script, and return what it and its children used."""
    process = subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)])
    tree = Tree(process.pid)
    while process.poll() is None:
        tree.look()
        time.sleep(0.2)
    if process.returncode:
        sys.exit(f"the run ended with {process.returncode}")
    return tree


def compare_engines(quick: bool) -> None:
    """One machine and Spark on its two cores."""
    size, cell = (20_000, 5_000) if quick else (4_000_000, 100_000)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "mixture.parquet"
        write_batches(mixture(size), source)
        one = run(MACHINE, source, folder / "one.parquet", cell, SEED)
        many = run(SPARK, source, folder / "many.parquet", cell, SEED, "local[2]", 0)
        same = digest(folder / "one.parquet") == digest(folder / "many.parquet")
        for way, found in (("one machine", one), ("Spark, local[2]", many)):
            cpu = sum(found.used.values())
            ratio = cpu / sum(one.used.values())
            rows.append([way, f"{size:,}", cpu, ratio, round(found.peak), same])
    write_table(
        "spark",
        "Spark next to one machine",
        ["engine", "records", "CPU s", "ratio", "peak MB", "same bytes"],
        rows,
        notes="Whole releases from Parquet, all processes added up: for Spark the JVM, the workers "
        "and the driver.",
        packages=("pyspark", "numpy", "polars"),
        seed=SEED,
        quick=quick,
    )


def lose_workers(quick: bool) -> None:
    """A standalone cluster of two workers; an executor is killed, then a worker."""
    size, cell = (24_000, 1_500) if quick else (200_000, 10_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "mixture.parquet"
        write_batches(mixture(size), source)
        run(MACHINE, source, folder / "one.parquet", cell, SEED)
        started: list[Tree] = []
        try:
            address = _start_cluster(folder, started)
            output = folder / "many.parquet"
            told = [sys.executable, "-c", SPARK, source, output, cell, SEED, address, 1.0]
            job = subprocess.Popen(list(map(str, told)))
            started.append(Tree(job.pid))
            killed = _kill_while(job, folder, started[1:3])
            finished = job.wait() == 0
        finally:
            for tree in started:
                tree.stop()
        same = finished and digest(folder / "one.parquet") == digest(folder / "many.parquet")
        left = len(list(folder.glob(".many*")))
    write_table(
        "spark_kills",
        "A cluster that loses an executor and a worker",
        ["killed", "parts written by then", "finished", "same bytes as one machine", "left behind"],
        [[what, parts, finished, same, left] for what, parts in killed.items()],
        notes=f"{size:,} records, standalone cluster of two workers with one core each. `SIGKILL` "
        "to an executor with its Python, then to the other worker with its executor: parts that "
        "these had already returned stay, the others are made again by who is left.",
        packages=("pyspark", "numpy", "polars"),
        seed=SEED,
        quick=quick,
    )


def _start_cluster(folder: Path, started: list[Tree]) -> str:
    """Start a master and two workers, and return the address of the master."""
    import pyspark

    home = Path(pyspark.__file__).parent
    own = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}
    own |= {"PYSPARK_PYTHON": sys.executable}

    def start(name: str, *arguments: str) -> None:
        with open(folder / f"{name}.log", "w") as log:
            program = [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{arguments[0]}"]
            process = subprocess.Popen(
                [*program, *arguments[1:]], env=os.environ | own, stdout=log, stderr=log
            )
        started.append(Tree(process.pid))

    start("master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    line = _wait(folder / "master.log", "Starting Spark master at ")
    address = line.rpartition(" ")[2]
    for number in (1, 2):
        place = ["-d", str(folder / f"work{number}"), "--webui-port", "0", address]
        start(
            f"worker{number}", "worker.Worker", "--host", "127.0.0.1", "-c", "1", "-m", "1g", *place
        )
        _wait(folder / f"worker{number}.log", "Successfully registered with master")
    return address


def _wait(log: Path, text: str) -> str:
    while True:
        for line in log.read_text().splitlines():
            if text in line:
                return line.strip()
        time.sleep(0.3)


def _kill_while(job: subprocess.Popen[bytes], folder: Path, workers: list[Tree]) -> dict[str, int]:
    """Kill an executor of the first worker, then the second worker, as parts appear."""
    killed: dict[str, int] = {}
    while job.poll() is None and len(killed) < len(KILLS):
        parts = len(list(folder.glob(".many*.parts/part-*")))
        if "executor" not in killed and parts >= KILLS["executor"]:
            for pid in workers[0].look():
                os.kill(pid, signal.SIGKILL)
            killed["executor"] = parts
        elif "executor" in killed and parts >= KILLS["worker"]:
            workers[1].stop()
            killed["worker"] = parts
        time.sleep(0.1)
    return killed


def main(quick: bool = False) -> None:
    compare_engines(quick)
    lose_workers(quick)


if __name__ == "__main__":
    main("--quick" in sys.argv)
