"""Tables larger than memory: CPU seconds, peak memory and loss of ``tulle condense --memory``; then
what two cores bring, what a first run waits for its compiler, and mining in blocks.

``python -m benchmarks.bench_scale [--quick] [--only PART ...]`` with the parts ``sizes``, ``wide``,
``files``, ``people``, ``histories``, ``cold``, ``mining`` and ``cores``; each writes its table when
it ends. Needs some 4 GB of disk for the largest table. Only ``cores`` compares wall times: let
nothing else run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import polars.selectors as cs

from benchmarks.groupings import SEED
from benchmarks.results import data_folder, peak_of, run_parts, write_table
from tulle import quest, write_fimi
from tulle.io.write import write_batches
from tulle.rules.containers import as_baskets

MEMORY = "800MB"
WHOLE = "100GB"  # in memory, whatever the size
BLOCK = 500_000


class Run(NamedTuple):
    summary: dict[str, float]
    seconds: float  # of CPU
    peak: float  # MB
    wall: float  # seconds


def mixture(n: int, d: int = 10) -> Iterator[pl.DataFrame]:
    """Twenty correlated Gaussians whose spectrum decays, block by block."""
    rng = np.random.default_rng(SEED)
    centres = rng.normal(size=(20, d)) * 3
    turns = np.stack([np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(20)])
    for start in range(0, n, BLOCK):
        which = rng.integers(20, size=min(BLOCK, n - start))
        drawn = rng.normal(size=(len(which), d)) * 0.75 ** np.arange(d)
        points = centres[which] + np.einsum("ni,nij->nj", drawn, turns[which])
        yield pl.DataFrame(points, schema=[f"x{place}" for place in range(d)])


def mixed(n: int) -> Iterator[pl.DataFrame]:
    """Visits: three rows a person on average, levels 5, 10 and 20, missing values, 20 cities."""
    rng = np.random.default_rng(SEED)
    cities = [f"city {place:02d}" for place in range(20)]
    for start in range(0, n, BLOCK):
        rows = min(BLOCK, n - start)
        age = np.clip(rng.normal(45, 15, rows), 18, 90).astype(int)
        income = np.exp(rng.normal(9, 0.6, rows) + age / 100).round(-1)
        yield pl.DataFrame(
            {
                "patient": rng.integers(0, n // 3, rows),
                "age": age,
                "income": np.where(rng.random(rows) < 0.03, np.nan, income),
                "city": rng.choice(cities, rows, p=np.arange(20, 0, -1) / 210),
                "day": np.datetime64("2020-01-01") + rng.integers(0, 900, rows),
                "weight": (rng.normal(70, 12, rows) + age / 10).round(1),
                "height": rng.normal(170, 10, rows).round(1),
                "smoker": rng.random(rows) < 0.2,
                "visits": rng.poisson(age / 15),
                "level": rng.choice([5, 10, 20], rows),
            }
        ).with_columns(pl.col("income").fill_nan(None))


def histories(people: int) -> Iterator[pl.DataFrame]:
    """Visits of people: ten rows each on average, in order, with a level of their own."""
    wards = np.array(["surgery", "medicine", "children", "eye", "ear", "heart"])
    for start in range(0, people, BLOCK // 10):
        n = min(BLOCK // 10, people - start)
        rng = np.random.default_rng([SEED, start])
        counts = np.clip(rng.poisson(10, n), 1, 30)
        who, begin = np.repeat(np.arange(n), counts), np.cumsum(counts) - counts
        level, rows = rng.normal(size=n)[who], len(who)
        gaps = rng.gamma(1.5, 60, rows).astype(int) + 1
        days = np.cumsum(gaps) - np.cumsum(gaps)[begin[who]] + rng.integers(7000, 15_000, n)[who]
        place = np.clip((level * 1.2 + rng.normal(size=rows) + 3).astype(int), 0, 5)
        yield pl.DataFrame(
            {
                "patient": [f"P{start + one:07d}" for one in who],
                "day": np.datetime64("1970-01-01") + days,
                "sex": rng.choice(["f", "m"], n)[who],
                "age": rng.integers(18, 90, n)[who],
                "ward": wards[place],
                "sick": rng.random(rows) < 0.2 + 0.1 * (level > 0),
                "cost": np.exp(5 + 0.4 * level + rng.normal(0, 0.3, rows)).round(2),
                "weight": (70 + 8 * level + rng.normal(0, 2, rows)).round(1),
            }
        ).sample(fraction=1, shuffle=True, seed=start)


HISTORIES_POLICY = """
[people]
order = ["day"]

[columns]
patient = { kind = "text", role = "person" }
day = { kind = "datetime", role = "quasi-identifier" }
sex = { kind = "category", role = "quasi-identifier" }
age = { kind = "integer", role = "quasi-identifier" }
ward = { kind = "category", role = "quasi-identifier" }
sick = { kind = "boolean", role = "sensitive" }
cost = { kind = "decimal", role = "quasi-identifier" }
weight = { kind = "decimal", role = "quasi-identifier" }
"""

MIXED_POLICY = """
[columns]
patient = { kind = "integer", role = "person" }
age = { kind = "integer", role = "quasi-identifier" }
income = { kind = "decimal", role = "quasi-identifier" }
city = { kind = "category", role = "quasi-identifier" }
day = { kind = "datetime", role = "quasi-identifier" }
weight = { kind = "decimal", role = "quasi-identifier" }
height = { kind = "decimal", role = "quasi-identifier" }
smoker = { kind = "boolean", role = "quasi-identifier" }
visits = { kind = "integer", role = "quasi-identifier" }
level = { kind = "integer", role = "level" }
"""


def real(name: str) -> pl.DataFrame:
    """The columns of numbers of a file of the data folder that vary."""
    path = data_folder() / "large" / f"{name}.csv.gz"
    table = pl.read_csv(path, infer_schema_length=None).select(cs.numeric())
    return table.select(column for column in table if column.n_unique() > 1)


def numbers_policy(table: pl.DataFrame) -> str:
    lines = [
        f'"{c.name}" = {{ kind = "{"integer" if c.dtype.is_integer() else "decimal"}", '
        'role = "quasi-identifier" }'
        for c in table
    ]
    return "\n".join(["[columns]", *lines, ""])


def run(
    source: Path,
    output: Path,
    memory: str,
    *options: str,
    cores: int | None = None,
    **environment: str,
) -> Run:
    """One run of the command in a process of its own."""
    command = ["-m", "tulle", "condense", str(source), "-o", str(output), "--memory", memory]
    command += ["--seed", str(SEED), "--force", "--json", "--no-audit", *options]
    return python(*command, cores=cores, **environment)


def python(*arguments: str, cores: int | None = None, **environment: str) -> Run:
    """Run Python on so many cores; what it prints is JSON."""
    command = [sys.executable, *arguments]
    own = os.sched_getaffinity(0)
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as told:
        os.sched_setaffinity(0, set(sorted(own)[: cores or len(own)]))
        try:
            process = subprocess.Popen(command, stdout=told, env=os.environ | environment)
        finally:
            os.sched_setaffinity(0, own)
        peak, ended = 0.0, 0
        while not ended:
            peak = max(peak, peak_of(process.pid))
            ended, status, used = os.wait4(process.pid, os.WNOHANG)
            time.sleep(0 if ended else 0.05)
        process.returncode = os.waitstatus_to_exitcode(status)
        told.seek(0)
        text = told.read()
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    wall = time.perf_counter() - start
    return Run(json.loads(text), used.ru_utime + used.ru_stime, peak, wall)


def row(what: str, records: int, way: str, found: Run, loss: float | None) -> list[object]:
    summary = found.summary
    return [
        what,
        f"{records:,}",
        way,
        int(summary.get("blocks", 1)),
        round(found.seconds, 1),
        round(found.peak),
        round(summary["information_loss"], 4),
        "" if loss is None else round(summary["information_loss"] / loss, 3),
        int(summary["smallest_group"]),
    ]


HEADER = ["table", "records", "way", "blocks", "CPU s", "peak MB", "loss %", "ratio", "smallest"]
HOW = (
    "Whole runs of `tulle condense --no-audit` from Parquet to release and manifest, kernels "
    "compiled before, k = 10. The ratio is to the loss of the same table condensed in memory. "
    "Peak is the largest resident size of the process, libraries included. "
)


def write(name: str, title: str, rows: list[list[object]], notes: str, quick: bool) -> None:
    packages = ("numpy", "numba", "polars")
    write_table(name, title, HEADER, rows, notes=notes, packages=packages, seed=SEED, quick=quick)


def compile_kernels(folder: Path) -> None:
    """Run once, so that no run that is measured compiles."""
    write_batches(mixture(90_000), folder / "first.parquet")
    run(folder / "first.parquet", folder / "first-release.parquet", WHOLE)
    run(folder / "first.parquet", folder / "first-parts.parquet", "100MB")


def compare_sizes(quick: bool) -> None:
    """Whole releases of ever larger tables, in memory and in blocks."""
    sizes = [200_000] if quick else [1_000_000, 10_000_000]
    memory = "100MB" if quick else MEMORY
    rows, used = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "mixture.parquet"
        compile_kernels(folder)
        for size in sizes:
            write_batches(mixture(size), source, force=True)
            loss = None
            if size <= 1_000_000:
                whole = run(source, folder / "whole.parquet", WHOLE)
                loss = whole.summary["information_loss"]
                rows.append(row("mixture, d = 10", size, "in memory", whole, loss))
            found = run(source, folder / "release.parquet", memory)
            used.append(found.seconds)
            rows.append(row("mixture, d = 10", size, "in blocks", found, loss))
            print(rows[-1], flush=True)
    notes = f"{HOW}In blocks with `--memory {memory}`."
    if not quick:
        each = (used[-1] - used[0]) / (sizes[-1] - sizes[0])
        notes += (
            f" From the slope, 100,000,000 records would take some {each * 1e8 / 60:.0f} CPU "
            "minutes: extrapolated, not run. Targets for 10,000,000: 300 CPU s and 800 MB."
        )
    write("scale", "Tables larger than memory", rows, notes, quick)


def compare_wide(quick: bool) -> None:
    """A survey of few people and many questions, in memory."""
    people, columns = (600, 60) if quick else (3000, 400)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "survey.parquet"
        compile_kernels(folder)
        write_batches([survey(people, columns)], source)
        found = run(source, folder / "release.parquet", WHOLE)
    write_table(
        "scale_wide",
        "A survey of many columns",
        ["people", "columns", "CPU s", "peak MB", "target: CPU s", "target: peak MB"],
        [[f"{people:,}", columns, round(found.seconds, 1), round(found.peak), 40, 500]],
        notes="`tulle condense --no-audit` in memory from Parquet to release and manifest, kernels "
        "compiled before; a quarter of the columns are numbers, the others answers of five; all "
        "depend on eight traits of a person. Peak is the largest resident size of the process, "
        "libraries included.",
        packages=("numpy", "numba", "polars"),
        seed=SEED,
        quick=quick,
    )


def survey(people: int, columns: int) -> pl.DataFrame:
    """Return answers that depend on eight traits of a person."""
    rng = np.random.default_rng(SEED)
    said = rng.normal(size=(people, 8)) @ rng.normal(size=(8, columns))
    said = said / np.sqrt(8) + rng.normal(size=(people, columns))
    words = np.array(["never", "seldom", "sometimes", "often", "always"])
    return pl.DataFrame(
        {
            f"q{at}": said[:, at].round(2)
            if at % 4 == 0
            else words[np.clip(np.round(said[:, at] + 2), 0, 4).astype(int)]
            for at in range(columns)
        }
    )


def compare_files(quick: bool) -> None:
    """What blocks cost in information on real tables."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compile_kernels(folder)
        for file in ("skin_segmentation", "kddcup99_10pct"):
            table = real(file)
            source, policy = folder / f"{file}.parquet", folder / f"{file}.toml"
            write_batches([table], source)
            policy.write_text(numbers_policy(table))
            given = ("--policy", str(policy), "--k", "10")
            whole = run(source, folder / f"{file}-whole.parquet", WHOLE, *given)
            loss = whole.summary["information_loss"]
            rows.append(row(file, table.height, "in memory", whole, loss))
            for memory in ("100MB", MEMORY):
                output = folder / f"{file}-{memory}.parquet"
                found = run(source, output, memory, *given)
                if "blocks" in found.summary:
                    rows.append(row(file, table.height, f"--memory {memory}", found, loss))
                    print(rows[-1], flush=True)
    write("scale_files", "Real tables in blocks", rows, HOW, quick)


def compare_people(quick: bool) -> None:
    """A table of several kinds of columns, with levels and people who have several rows."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, policy = folder / "mixed.parquet", folder / "mixed.toml"
        policy.write_text(MIXED_POLICY)
        compile_kernels(folder)
        for size in [50_000] if quick else [300_000, 1_000_000, 3_000_000]:
            write_batches(mixed(size), source, force=True)
            output = folder / "release.parquet"
            found = run(source, output, "100MB" if quick else MEMORY, "--policy", str(policy))
            rows.append(row("visits of people, levels 5, 10, 20", size, "in blocks", found, None))
            print(rows[-1], flush=True)
    write("scale_people", "Kinds, levels and people, larger than memory", rows, HOW, quick)


def compare_histories(quick: bool) -> None:
    """People with some ten rows each, in order: two sizes, and the slope between them."""
    rows, found = [], []
    sizes = [1_000, 2_000] if quick else [20_000, 80_000]
    memory = "100MB" if quick else "1GB"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, policy = folder / "visits.parquet", folder / "visits.toml"
        policy.write_text(HISTORIES_POLICY)
        compile_kernels(folder)
        for people in sizes:
            write_batches(histories(people), source, force=True)
            output = folder / "release.parquet"
            found.append(run(source, output, memory, "--policy", str(policy), "--k", "10"))
            blocks = int(found[-1].summary.get("blocks", 1))
            rows.append([f"{people:,}", f"{people * 10:,}", blocks, found[-1].seconds,
                         round(found[-1].peak)])  # fmt: skip
            print(rows[-1], flush=True)
    slope = (found[1].seconds - found[0].seconds) / (sizes[1] - sizes[0])
    million = found[1].seconds + slope * (1_000_000 - sizes[1])
    write_table(
        "scale_histories",
        f"People with their rows in order, --memory {memory}",
        ["people", "rows, about", "blocks", "CPU s", "peak MB"],
        rows,
        notes=f"By the slope between both, 1,000,000 people with 10,000,000 rows would take "
        f"{million:,.0f} CPU s (asked: 600, in 1 GB): not run. {HOW}",
        seed=SEED,
        quick=quick,
    )


GROUPING = """
import json, sys, time
import numpy as np
from benchmarks.bench_scale import mixture
from tulle.condense.groupings._fast import fast
points = np.vstack([part.to_numpy() for part in mixture(int(sys.argv[1]))])
points = (points - points.mean(0)) / points.std(0)
levels = np.full(len(points), 10)
fast(points[:40_000], levels[:40_000], np.random.default_rng(0))  # compiles
start, cpu = time.perf_counter(), time.process_time()
groups = fast(points, levels, np.random.default_rng(1))
print(json.dumps({"wall": time.perf_counter() - start, "cpu": time.process_time() - cpu,
                  "digest": hash(groups.tobytes())}))
"""


def compare_cores(quick: bool) -> None:
    """Grouping and a whole release on one core and on two."""
    size = 250_000 if quick else 1_000_000
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "mixture.parquet"
        write_batches(mixture(size), source)
        same = {"PYTHONHASHSEED": "0"}
        grouped = [python("-c", GROUPING, str(size), cores=n, **same) for n in (1, 2)]
        walls = [one.summary["wall"] for one in grouped]
        assert grouped[0].summary["digest"] == grouped[1].summary["digest"]
        rows.append(["grouping alone", f"{size:,}", *walls, walls[1] / walls[0]])
        for way, memory in (("release in blocks", MEMORY), ("release in memory", WHOLE)):
            output = folder / f"{memory}.parquet"
            memory = "100MB" if quick and memory == MEMORY else memory
            found = [
                min(run(source, output, memory, cores=n).wall for _ in range(2)) for n in (1, 2)
            ]
            rows.append([way, f"{size:,}", *found, found[1] / found[0]])
    write_table(
        "scale_cores",
        "One core and two",
        ["work", "records", "one core: seconds", "two cores: seconds", "ratio"],
        rows,
        notes="Wall time on a machine where nothing else ran; of a release the shorter of two "
        "runs. The groups are the same bytes.",
        seed=SEED,
        quick=quick,
    )


def compare_cold(quick: bool) -> None:
    """The first run on a machine, which compiles, and the second."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "mixture.parquet"
        write_batches(mixture(32_000), source)
        kept = {"NUMBA_CACHE_DIR": str(folder / "cache")}
        cold, warm = (run(source, folder / "r.parquet", WHOLE, **kept).seconds for _ in range(2))
    write_table(
        "scale_cold",
        "The first run on a machine",
        ["records", "first: CPU s", "second: CPU s", "compiling: CPU s"],
        [["32,000", cold, warm, cold - warm]],
        notes="`tulle condense --no-audit` with an empty and with a filled cache of kernels.",
        seed=SEED,
        quick=quick,
    )


MINING = """
import json, sys, time
from tulle._commands import mine
mine._is_large = lambda *_: sys.argv[2] == "blocks"
given = {"min_support": sys.argv[3], "itemsets": "all"}
mine.mine(sys.argv[1], **given)  # compiles
start = time.process_time()
print(json.dumps({**mine.mine(sys.argv[1], **given).summary, "cpu": time.process_time() - start}))
"""


def compare_mining(quick: bool) -> None:
    """Baskets mined whole and in blocks."""
    size = 50_000 if quick else 1_000_000
    rows = []
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "baskets.dat"
        with open(source, "wb") as file:
            write_fimi(as_baskets(quest(T=10, I=4, D=size, random_state=SEED)), file)
        ways = [python("-c", MINING, str(source), way, "0.5%") for way in ("whole", "blocks")]
        for way, found in zip(("whole", "in blocks of 200,000"), ways):
            cpu, first = found.summary["cpu"], ways[0].summary["cpu"]
            sets = found.summary["itemsets_all"]
            rows.append([way, f"{size:,}", sets, cpu, cpu / first, round(found.peak)])
    write_table(
        "scale_mining",
        "Mining larger than memory",
        ["way", "baskets", "itemsets", "CPU s", "ratio", "peak MB"],
        rows,
        notes="T10I4, support 0.5 %, `tulle mine --itemsets all` with reading, kernels compiled.",
        seed=SEED,
        quick=quick,
    )


PARTS = {
    "sizes": compare_sizes,
    "wide": compare_wide,
    "files": compare_files,
    "people": compare_people,
    "histories": compare_histories,
    "cold": compare_cold,
    "mining": compare_mining,
    "cores": compare_cores,
}


def main(quick: bool = False) -> None:
    for part in PARTS.values():
        part(quick)


if __name__ == "__main__":
    run_parts(PARTS)
