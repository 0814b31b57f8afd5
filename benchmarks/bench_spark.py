"""Spark: its price next to one machine, and a real cluster that loses executors and a worker.

``python -m benchmarks.bench_spark [--quick] [--only PART ...]`` with the parts ``engines``,
``same``, ``kills`` and ``mining``; each writes its table when it ends. Needs Java and
``tulle[spark]``; everything listens on loopback. The bytes of a release must be those that one
machine makes.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from benchmarks.bench_scale import mixture
from benchmarks.groupings import SEED
from benchmarks.results import run_parts, write_table
from tulle import quest
from tulle.io.read import BATCH_ROWS
from tulle.io.write import write_batches
from tulle.rules.containers import as_baskets

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
PACKAGES = ("pyspark", "numpy", "polars")
PATIENCE = 1_500.0  # seconds that anything may take, on a busy machine too
PAUSE = 2.0  # seconds that a worker waits before each block, so that it can be killed in between
Found = TypeVar("Found")

MACHINE = """
import sys
from tulle import _threads
source, output, block, seed, rows, threads = sys.argv[1:]
_threads.cores = lambda: int(threads)
from tulle._commands import _memory
from tulle._commands.condense import condense
from tulle._large import machine
from tulle.io import read
machine.BLOCK = machine._LEAST_BLOCK = int(block)
_memory.needed = lambda source: float("inf")
read.OpenTable.batches.__defaults__ = (None, int(rows))
condense(source, output, memory="2GB", seed=int(seed), audit=False)
"""
SESSION = """
import os, sys
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
def opened(master):
    builder = SparkSession.builder.master(master).config("spark.io.encryption.enabled", "true")
    for name, value in {
        "ui.enabled": "false", "ui.showConsoleProgress": "false", "log.level": "OFF",
        "driver.host": "127.0.0.1", "driver.bindAddress": "127.0.0.1",
        "driver.memory": "1g", "executor.memory": "500m",
        "executor.cores": "1", "executorEnv.POLARS_MAX_THREADS": "1",
        "executorEnv.OPENBLAS_NUM_THREADS": "1", "task.maxFailures": "8",
    }.items():
        builder = builder.config("spark." + name, value)
    return builder.getOrCreate()
"""
SPARK = (
    SESSION
    + """
import time
from pathlib import Path
from tulle import spark
from tulle.spark import _condense
source, output, block, seed, master, partitions, pause = sys.argv[1:]
_condense.BLOCK = int(block)
joined = _condense.unpack
def slowly(blocks, pause=float(pause), folder=str(Path(output).parent)):
    from pyspark import TaskContext
    begun = Path(folder, f"begun-{TaskContext.get().taskAttemptId()}-{os.getpid()}")
    begun.write_text("")
    time.sleep(pause)
    return joined(blocks)
if float(pause):
    _condense.unpack = slowly
session = opened(master)
for number in map(int, partitions.split(",")):
    df = session.read.parquet(source).repartition(number)
    name = output if "," not in partitions else output.replace("many", f"many{number}")
    try:
        spark.condense(df, name, random_state=int(seed), accept_risk="a benchmark on loopback")
    except Exception as error:
        print(str(error.__context__)[:3_000], flush=True)
        raise
session.stop()
"""
)
MINING = (
    SESSION
    + """
import json, time
from tulle import spark
session = opened("local[2]")
df = session.read.parquet(sys.argv[1]).repartition(4).cache()
df.count()
spark.frequent_itemsets(df.limit(1000), "items", min_support="5%")  # starts the workers
print(json.dumps("ready"), flush=True)
sys.stdin.readline()
found = spark.frequent_itemsets(df, "items", min_support="0.5%")
print(json.dumps([found.height, int(found["count"].sum())]), flush=True)
sys.stdin.readline()
session.stop()
"""
)


class Tree:
    """The processes that come from one of ours: their CPU seconds and memory."""

    def __init__(self, root: int) -> None:
        self.root = root
        self.used: dict[int, float] = {}
        self.peak = 0.0  # MB of all processes together,
        self.worker = 0.0  # and of the largest that was started to work in Python

    @property
    def seconds(self) -> float:
        return sum(self.used.values())

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
            resident = _resident(pid)
            memory += resident
            if pid != self.root and not _is_java(pid):
                self.worker = max(self.worker, resident / 2**20)
        self.peak = max(self.peak, memory / 2**20)
        return sorted(found - {self.root})

    def stop(self) -> None:
        """Kill these processes and no others."""
        _kill([*self.look(), self.root])


def _is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    except OSError:
        return True


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except OSError:
        return 0


def _kill(processes: Sequence[int]) -> None:
    for pid in processes:
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


def patiently(look: Callable[[], Found | None], what: str) -> Found:
    """Look again and again until something is found; give up after a while."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = look()
        if found is not None:
            return found
        time.sleep(0.2)
    sys.exit(f"waited too long for {what}")


def run(what: str, script: str, *arguments: Any) -> Tree:
    """Run a script, and return what it and its children used."""
    process = subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)])
    tree = Tree(process.pid)

    def look() -> int | None:
        tree.look()
        return process.poll()

    try:
        status = patiently(look, what)
    finally:
        tree.stop()
    if status:
        sys.exit(f"{what} ended with {status}")
    print(f"{what}: {tree.seconds:.1f} CPU s, {tree.peak:.0f} MB", flush=True)
    return tree


def on_machine(
    source: Path, output: Path, block: int, rows: int = BATCH_ROWS, threads: int = 2
) -> Tree:
    return run("one machine", MACHINE, source, output, block, SEED, rows, threads)


def compare_engines(quick: bool) -> None:
    """One machine and Spark on its two cores."""
    size, block = (20_000, 5_000) if quick else (1_000_000, 100_000)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "mixture.parquet"
        write_batches(mixture(size), source)
        one = on_machine(source, folder / "one.parquet", block)
        given = (source, folder / "many.parquet", block, SEED, "local[2]", 5, 0)
        many = run("Spark", SPARK, *given)
        same = digest(folder / "one.parquet") == digest(folder / "many.parquet")
        for way, found in (("one machine", one), ("Spark, local[2]", many)):
            ratio = found.seconds / one.seconds
            worker = round(found.worker) or ""
            rows.append([way, f"{size:,}", found.seconds, ratio, round(found.peak), worker, same])
    write_table(
        "spark",
        "Spark next to one machine",
        ["engine", "records", "CPU s", "ratio", "peak MB", "largest worker", "same bytes"],
        rows,
        notes="Whole releases from Parquet, all processes added up: for Spark the JVM, the driver "
        "and a worker for each core, of which the largest took so many MB.",
        packages=PACKAGES,
        seed=SEED,
        quick=quick,
    )


def compare_partitionings(quick: bool) -> None:
    """The same table in batches and parts of several sizes, on one thread and on two."""
    size, block = (24_000, 3_000) if quick else (48_000, 6_000)
    partitions = [2, 8, 40]
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "mixture.parquet"
        write_batches(mixture(size), source)
        on_machine(source, folder / "one.parquet", block)
        wanted = digest(folder / "one.parquet")
        for batch, threads in ((10_000, 1), (33_333, 2), (100_000, 1), (100_000, 2)):
            output = folder / f"one-{batch}-{threads}.parquet"
            on_machine(source, output, block, batch, threads)
            way = f"one machine, batches of {batch:,}, threads: {threads}"
            rows.append([way, f"{size:,}", digest(output) == wanted])
        numbers = ",".join(map(str, partitions))
        given = (source, folder / "many.parquet", block, SEED, "local[2]", numbers, 0)
        run("Spark", SPARK, *given)
        for number in partitions:
            same = digest(folder / f"many{number}.parquet") == wanted
            rows.append([f"Spark, local[2], {number} partitions", f"{size:,}", same])
    write_table(
        "spark_same",
        "The same seed, the same bytes",
        ["way", "records", "same bytes"],
        rows,
        notes="All parts of the release and their names, next to a run on one machine with "
        f"batches of {BATCH_ROWS:,}; blocks of {block:,} records.",
        packages=PACKAGES,
        seed=SEED,
        quick=quick,
    )


def lose_workers(quick: bool) -> None:
    """A standalone cluster of two workers that loses two executors and a worker."""
    size, block = (40_000, 3_000) if quick else (48_000, 6_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "mixture.parquet"
        write_batches(mixture(size), source)
        on_machine(source, folder / "one.parquet", block)
        started: list[Tree] = []
        try:
            address = _start_cluster(folder, started)
            output = folder / "many.parquet"
            told = [sys.executable, "-c", SPARK, source, output, block, SEED, address, 5, PAUSE]
            job = subprocess.Popen(list(map(str, told)))
            started.append(Tree(job.pid))
            losses = Losses(folder, job, started[1:3])
            losses.inflict()
            finished = patiently(job.poll, "the job on the cluster") == 0
        finally:
            for tree in started:
                tree.stop()
        same = finished and digest(folder / "one.parquet") == digest(folder / "many.parquet")
        left = len(list(folder.glob(".many*")))
        kept = losses.kept(output)
    write_table(
        "spark_kills",
        "A cluster that loses executors and a worker",
        [
            "killed", "parts written by then", "of these kept as they were",
            "finished", "same bytes as one machine", "left behind",
        ],
        [[what, len(parts), kept[what], finished, same, left]
         for what, parts in losses.parts.items()],
        notes=f"{size:,} records, standalone cluster: a master and two workers with one core each, "
        "all processes of their own. `SIGKILL` to an executor with its Python in the middle of a "
        "part, to one that had begun the next task, so that the driver had the answer of the one "
        "before, and to a worker with its executor. Parts are files that take their name when "
        "they are complete; one that was kept is the same file at the end as at the time of the "
        "kill. Left behind would be files of killed attempts. Largest executor with its Python: "
        f"{losses.largest:.0f} MB.",
        packages=PACKAGES,
        seed=SEED,
        quick=quick,
    )  # fmt: skip


class Losses:
    """Executors and a worker that are killed while a job writes parts."""

    def __init__(self, folder: Path, job: subprocess.Popen[bytes], workers: list[Tree]) -> None:
        self.folder = folder
        self.job = job
        self.workers = workers
        self.parts: dict[str, dict[str, tuple[int, int]]] = {}  # as they were at each kill
        self.largest = 0.0

    def inflict(self) -> None:
        """Kill as the parts appear; give up if the job ends before."""
        kills = {
            "an executor in the middle of a part": (self._begun_once, self._kill_executors, 0),
            "an executor after it returned a part": (self._begun_twice, self._kill_executors, 1),
            "a worker with its executor": (self._begun_again, self._kill_worker, 0),
        }
        for what, (ready, kill, number) in kills.items():
            worker = self.workers[number]
            patiently(lambda: self._look() or ready(worker) or None, what)  # noqa: B023
            if self.job.poll() is not None:
                sys.exit(f"the job ended before it lost {what}")
            self.parts[what] = self._named(next(self.folder.glob(".many*.parts")))
            kill(worker)
            print(f"killed {what}: {len(self.parts[what])} parts written", flush=True)

    def kept(self, output: Path) -> dict[str, int]:
        """How many of the parts that were there at each kill are the same files now."""
        now = self._named(output) if output.is_dir() else {}
        return {
            what: sum(now.get(name) == file for name, file in parts.items())
            for what, parts in self.parts.items()
        }

    def _look(self) -> bool | None:
        """Measure the executors; return whether there is nothing more to wait for."""
        for worker in self.workers:
            pids = worker.look()
            self.largest = max(self.largest, sum(map(_resident, pids)) / 2**20)
        return True if self.job.poll() is not None else None

    def _tasks(self, worker: Tree) -> list[int]:
        """How many tasks with a block each process of a worker that lives has begun."""
        alive = worker.look()
        begun = [name.name.split("-")[1:] for name in self.folder.glob("begun-*")]
        return [len({task for task, by in begun if int(by) == pid}) for pid in alive]

    def _begun_once(self, worker: Tree) -> bool:
        return max(self._tasks(worker), default=0) >= 1

    def _begun_twice(self, worker: Tree) -> bool:
        return max(self._tasks(worker), default=0) >= 2

    def _begun_again(self, worker: Tree) -> bool:
        return bool(worker.look())

    def _kill_executors(self, worker: Tree) -> None:
        _kill(worker.look())

    def _kill_worker(self, worker: Tree) -> None:
        worker.stop()

    def _named(self, folder: Path) -> dict[str, tuple[int, int]]:
        found = [(part, part.stat()) for part in folder.glob("part-*")]
        return {part.name: (status.st_ino, status.st_mtime_ns) for part, status in found}


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
    address = _told(folder / "master.log", "Starting Spark master at ").rpartition(" ")[2]
    for number in (1, 2):
        place = ["-d", str(folder / f"work{number}"), "--webui-port", "0", address]
        start(
            f"worker{number}", "worker.Worker", "--host", "127.0.0.1", "-c", "1", "-m", "1g", *place
        )
        _told(folder / f"worker{number}.log", "Successfully registered with master")
        print(f"worker {number} is there", flush=True)
    return address


def _told(log: Path, text: str) -> str:
    """Wait for a line in a log, and return it."""

    def look() -> str | None:
        return next((x.strip() for x in log.read_text().splitlines() if text in x), None)

    return patiently(look, text)


def compare_mining(quick: bool) -> None:
    """Baskets mined part by part on Spark and whole on one machine."""
    size = 20_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "baskets.parquet"
        baskets = as_baskets(quest(T=10, I=4, D=size, random_state=SEED))
        pl.DataFrame({"items": baskets.to_lists()}).write_parquet(source)
        whole, seconds = _mined_whole(source)
        process = subprocess.Popen(
            [sys.executable, "-c", MINING, str(source)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        tree = Tree(process.pid)
        watchdog = threading.Timer(PATIENCE, tree.stop)
        watchdog.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.readline()
            tree.look()
            before = tree.seconds
            process.stdin.write("\n")
            process.stdin.flush()
            found = json.loads(process.stdout.readline())
            tree.look()
        finally:
            watchdog.cancel()
            tree.stop()
    used = tree.seconds - before
    write_table(
        "spark_mining",
        "Itemsets mined part by part",
        ["engine", "baskets", "itemsets", "sum of counts", "CPU s", "ratio"],
        [
            ["one machine, whole", f"{size:,}", *whole, seconds, 1.0],
            ["Spark, local[2], 4 parts", f"{size:,}", *found, used, used / seconds],
        ],
        notes="T10I4, support 0.5 %; both read Parquet, kernels compiled and workers started "
        "before.",
        packages=PACKAGES,
        seed=SEED,
        quick=quick,
    )


def _mined_whole(source: Path) -> tuple[list[int], float]:
    from tulle import frequent_itemsets

    def mine() -> pl.DataFrame:
        return frequent_itemsets(pl.read_parquet(source)["items"], min_support="0.5%")

    mine()  # compiles
    start = time.process_time()
    found = mine()
    return [found.height, int(found["count"].sum())], time.process_time() - start


PARTS = {
    "engines": compare_engines,
    "same": compare_partitionings,
    "kills": lose_workers,
    "mining": compare_mining,
}


def main(quick: bool = False) -> None:
    for part in PARTS.values():
        part(quick)


if __name__ == "__main__":
    run_parts(PARTS)
