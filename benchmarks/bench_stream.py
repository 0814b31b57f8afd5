"""Streams: records a second while groups grow, against a linear search and scikit-learn's Birch.

``python -m benchmarks.bench_stream [--quick]``; the KDD Cup part needs ``TULLE_DATA``.
"""

from __future__ import annotations

import gzip
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import altair as alt
import numba
import numpy as np
import polars as pl

from benchmarks.results import save_chart, timed, write_table
from tulle import StreamCondenser
from tulle._moments import GroupMoments
from tulle.stream import _kernels
from tulle.stream._engines import COINCIDENT, NOBODY, Engine, Event
from tulle.stream._groups import StreamGroups
from tulle.stream._kernels import add

SEED = 0
FIRST = 400
PACKAGES = ("numpy", "numba", "scikit-learn")


def mixture(count: int, dimensions: int, rng: np.random.Generator) -> np.ndarray:
    """20 correlated Gaussians with decaying spectra, standardised."""
    records = np.empty((count, dimensions))
    which = rng.integers(20, size=count)
    for part in range(20):
        axes, _ = np.linalg.qr(rng.normal(size=(dimensions, dimensions)))
        spread = axes * (0.8 ** np.arange(dimensions) * rng.uniform(0.5, 1.5))
        rows = which == part
        noise = rng.normal(size=(int(rows.sum()), dimensions))
        records[rows] = noise @ spread.T + rng.normal(size=dimensions) * 3
    return (records - records.mean(axis=0)) / records.std(axis=0)


def started(records: np.ndarray, levels: np.ndarray) -> Engine:
    groups = StreamGroups(records.shape[1])
    groups.append(GroupMoments.of(records[:FIRST], np.arange(FIRST) // 40, levels[:FIRST]))
    return Engine(groups, strict=False)


def run(engine: Engine, records: np.ndarray, levels: np.ndarray) -> float:
    """CPU seconds; a record that must wait (there is none in these streams) would end it."""
    (_, event, _), seconds = timed(lambda: engine.absorb(records, levels, 0, NOBODY))
    if event is not Event.DONE:
        raise RuntimeError("a record waits: begin with more groups")
    return seconds


# -- the linear search of the same build --------------------------------------------------------


@numba.njit(error_model="numpy")
def _nearest_linear(tree: Any, groups: Any, work: Any, record: Any, need: int, tie: float) -> int:
    """All leaves in single precision, double where that cannot tell."""
    rounding = _kernels._place(tree, work, record, tie)
    best = _kernels.Best(-1, np.float32(np.inf), np.inf, np.float32(np.inf))
    for leaf in range(tree.marks[_kernels.LEAVES]):
        best = _kernels._look(tree, groups, work, record, leaf, np.int32(need), best, rounding)
    return best.group


@numba.njit(error_model="numpy")
def _absorb_linear(
    tree: Any, groups: Any, work: Any, records: Any, levels: Any, tie: float
) -> None:
    """Search and update; the few splits among so few records are left out."""
    for row in range(len(records)):
        group = _nearest_linear(tree, groups, work, records[row], levels[row] - 1, tie)
        add(groups, group, records[row], levels[row], 1)
        _kernels.move(tree, groups, group)


def linear_speed(engine: Engine, records: np.ndarray, levels: np.ndarray) -> float:
    """Records a second of a linear search that starts from the groups of an engine."""
    tie = COINCIDENT * records.shape[1]
    arguments = (engine.tree, engine.groups.arrays, engine.work)
    _absorb_linear(*arguments, records[:1], levels[:1], tie)
    _, seconds = timed(lambda: _absorb_linear(*arguments, records, levels, tie))
    return len(records) / seconds


# -- tables -------------------------------------------------------------------------------------


def resident() -> int:
    """Bytes of memory that the process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def boxes_in_reach(engine: Engine, records: np.ndarray) -> float:
    """Leaves whose box is no farther than the nearest mean: an exact search must open them."""
    tree, means = engine.tree, engine.groups.view().means
    node, slot = tree.leaf_parent[: tree.marks[_kernels.LEAVES]].T
    used = slice(len(tree.origin))
    low, high = (box[node, used, slot] + tree.origin for box in (tree.low, tree.high))
    total = 0
    for record in records:
        nearest = ((means - record) ** 2).sum(axis=1).min()
        gaps = np.maximum(np.maximum(low - record, record - high), 0.0)
        total += int(((gaps**2).sum(axis=1) <= nearest).sum())
    return total / len(records)


def growing(quick: bool) -> None:
    """Throughput over the run of one long stream, in few and in many dimensions; memory."""
    count, step = (60_000, 20_000) if quick else (1_000_000, 100_000)
    wide = grow(count, step, 10, beside=False)  # by itself and first: its memory is measured
    columns = {dimensions: grow(count, step, dimensions) for dimensions in (3, 5, 10)}
    rows = [
        [
            *row[:2],
            *(columns[dimensions][place][2] for dimensions in (3, 5)),
            row[2],
            columns[10][place][6],
            *(columns[dimensions][place][7] for dimensions in (3, 5, 10)),
            *row[3:6],
        ]
        for place, row in enumerate(wide)
    ]
    write_table(
        "stream_throughput",
        "Streams: throughput and memory over the run",
        [
            "records",
            "groups",
            "records/s, d = 3",
            "d = 5",
            "d = 10",
            "linear search, d = 10",
            "boxes in reach, d = 3",
            "d = 5 ",
            "d = 10 ",
            "statistics MB",
            "index MB",
            "process above start MB",
        ],
        rows,
        notes="Mixture of 20 Gaussians, levels uniform on 16..20, exact nearest admissible group; "
        "one thread, CPU seconds. Target at d = 10: 80,000 records/s over the whole run. The "
        "linear search takes 2,000 records more with the same vector code. Boxes in reach: leaves "
        "of the index that are no farther from a record than its nearest mean, so that an exact "
        "search has to open them (mean of 200 records). Groups and memory (the last column: what "
        "the process holds beyond the data and the libraries) are those of d = 10.",
        packages=PACKAGES,
        seed=SEED,
        quick=quick,
    )
    names = {2: "d = 3", 3: "d = 5", 4: "d = 10", 5: "linear search, d = 10"}
    save_chart("stream_throughput", throughput_chart(rows[:-1], names), quick=quick)


def grow(count: int, step: int, dimensions: int, *, beside: bool = True) -> list[list[Any]]:
    """A row for each part of a stream and one for all; ``beside`` it the linear search."""
    rng = np.random.default_rng(SEED)
    records, levels = mixture(count, dimensions, rng), rng.integers(16, 21, size=count)
    engine = started(records, levels)
    run(engine, records[FIRST : FIRST + 500], levels[FIRST : FIRST + 500])  # compiles
    engine = started(records, levels)
    rows: list[list[Any]] = []
    total = 0.0
    before = resident()
    for start in range(FIRST, count, step):
        part = slice(start, min(start + step, count))
        seconds = run(engine, records[part], levels[part])
        total += seconds
        speed = round((part.stop - part.start) / seconds)
        above = (resident() - before) / 1e6
        state = sum(array.nbytes for array in engine.groups.view()) / 1e6
        index = sum(array.nbytes for array in engine.tree) / 1e6
        rows.append([part.stop, len(engine.groups), speed, state, index, above])
        if beside:
            some = rng.integers(count, size=2_000)
            linear = linear_speed(copied(engine), records[some], levels[some])
            rows[-1] += [round(linear), boxes_in_reach(engine, records[some[:200]])]
    rows.append(["all", len(engine.groups), round((count - FIRST) / total), *[""] * 5])
    return rows


def copied(engine: Engine) -> Engine:
    """The same groups in arrays of their own."""
    groups = StreamGroups(engine.groups.dimensions)
    groups.append(engine.groups.moments())
    return Engine(groups, strict=False)


def throughput_chart(rows: list[list[Any]], names: dict[int, str]) -> alt.LayerChart:
    """Speeds over groups, which are the second column; ``names`` of columns that are shown."""
    shown = pl.DataFrame(
        [
            {"groups": row[1], "speed": row[place], "search": name}
            for row in rows
            for place, name in names.items()
        ]
    )
    lines = (
        alt.Chart(shown)
        .mark_line(point=True)
        .encode(
            x=alt.X("groups:Q", title="groups"),
            y=alt.Y("speed:Q", title="records per CPU second", scale=alt.Scale(zero=True)),
            color=alt.Color("search:N", title=None, sort=list(names.values())),
        )
    )
    target = alt.Chart(pl.DataFrame({"y": [80_000]})).mark_rule(strokeDash=[4, 4]).encode(y="y:Q")
    return (lines + target).properties(width=480, height=260)


def kinds(quick: bool) -> None:
    """Other shapes of streams, each beside the linear search at the same number of groups."""
    size = 20_000 if quick else 300_000
    rng = np.random.default_rng(SEED)
    usual = rng.integers(16, 21, size=size)
    drifting = mixture(size, 10, rng) + np.linspace(0, 30, size)[:, None]
    cases = [
        ("mixture d=3", mixture(size, 3, rng), usual),
        ("mixture d=10", mixture(size, 10, rng), usual),
        ("mixture d=30", mixture(size // 3, 30, rng), usual),
        ("mixture d=10, drifting", drifting, usual),
        ("mixture d=10, levels 2..50", mixture(size, 10, rng), rng.integers(2, 51, size=size)),
        ("isotropic d=10", rng.normal(size=(size // 3, 10)), usual),
        ("isotropic d=30", rng.normal(size=(size // 3, 30)), usual),
    ]
    if "TULLE_DATA" in os.environ and not quick:
        cases += kdd()
    rows = []
    for name, records, levels in cases:
        levels = levels[: len(records)]
        engine = started(records, levels)
        seconds = run_with_waiting(engine, records[FIRST:], levels[FIRST:])
        speed = (len(records) - FIRST) / seconds
        low = np.full(12_000, int(levels.min()))
        last = records[rng.integers(len(records), size=12_000)]
        here = 10_000 / run(engine, last[:10_000], low[:10_000])
        linear = linear_speed(engine, last[10_000:], low[10_000:])
        rows.append(
            [name, len(records), len(engine.groups), round(speed), round(linear), here / linear]
        )
    write_table(
        "stream_kinds",
        "Streams: other shapes, and the linear search of the same build",
        ["stream", "records", "groups", "records/s", "linear, at the end", "ratio, at the end"],
        rows,
        notes="The linear search scans all means in single precision and computes candidates "
        "again in double, as the index does; measured on 2,000 records that come last, the index "
        "on 10,000. "
        "Isotropic data are the worst case of any index.",
        packages=PACKAGES,
        seed=SEED,
        quick=quick,
    )


def run_with_waiting(engine: Engine, records: np.ndarray, levels: np.ndarray) -> float:
    """As ``run``, but a record that no group may take is left out."""
    start, total = 0, 0.0
    records, levels = np.ascontiguousarray(records), np.ascontiguousarray(levels)
    while start < len(records):
        begun = time.process_time()
        start, event, _ = engine.absorb(records, levels, start, NOBODY)
        total += time.process_time() - begun
        start += event is Event.WAIT
    return total


def kdd() -> list[tuple[str, np.ndarray, np.ndarray]]:
    path = Path(os.environ["TULLE_DATA"]) / "large" / "kddcup99_10pct.csv.gz"
    with gzip.open(path) as file:
        table = pl.read_csv(file.read(), infer_schema_length=100_000)
    numbers = table.select(pl.col(pl.Int64, pl.Float64)).to_numpy().astype(float)
    numbers = numbers[:, numbers.std(axis=0) > 0]
    numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    rng = np.random.default_rng(SEED)
    records = np.ascontiguousarray(numbers[rng.permutation(len(numbers))])
    levels = rng.integers(16, 21, size=len(records))
    return [(f"KDD Cup 99, d={records.shape[1]}, with duplicates", records, levels)]


def peers(quick: bool) -> None:
    """Birch, which also keeps statistics of groups, at no more groups than ours."""
    from sklearn.cluster import Birch

    count = 10_000 if quick else 100_000
    rng = np.random.default_rng(SEED)
    records, levels = mixture(count, 10, rng), rng.integers(16, 21, size=count)
    engine = started(records, levels)
    ours = count / run(engine, records[FIRST:], levels[FIRST:])
    stream = StreamCondenser(k=18, init_size=FIRST, random_state=0)
    _, first = timed(lambda: stream.partial_fit(records[:FIRST], levels=levels[:FIRST]))
    _, rest = timed(lambda: stream.partial_fit(records[FIRST:], levels=levels[FIRST:]))
    birch = Birch(threshold=0.6 if quick else 0.29, n_clusters=None)
    _, seconds = timed(lambda: birch.fit(records))
    theirs = count / seconds
    rows = [
        [name, groups, round(speed), f"{speed / theirs:.1f}"]
        for name, groups, speed in (
            ("index and updates alone", len(engine.groups), ours),
            ("StreamCondenser, its first groups apart", len(stream.counts_), count / rest),
            ("StreamCondenser, whole", len(stream.counts_), count / (first + rest)),
            ("scikit-learn Birch", len(birch.subcluster_centers_), theirs),
        )
    ]
    write_table(
        "stream_peers",
        "Streams: against scikit-learn's Birch",
        ["method", "groups", "records/s", "times Birch"],
        rows,
        notes=f"{count:,} records, d = 10, one thread. The first {FIRST} records are grouped as a "
        "table, once. Birch has neither levels nor exact "
        "assignment; its threshold is set so that it has no more groups than we have.",
        packages=PACKAGES,
        seed=SEED,
        quick=quick,
    )


def feed(stream: StreamCondenser, parts: list[Any]) -> None:
    for part in parts:
        stream.partial_fit(part)


def batches(quick: bool) -> None:
    """``partial_fit`` by the size of its batches, one record included."""
    first = 5_000 if quick else 20_000
    rng = np.random.default_rng(SEED)
    records = mixture(first + 40_000, 10, rng)
    frame = pl.DataFrame(records, schema=[f"c{place}" for place in range(10)])
    rows = []
    for size in (1, 10, 100, 1_000, 10_000):
        row: list[Any] = [size]
        for table in (records, frame):
            stream = StreamCondenser(k=18, init_size=FIRST, random_state=0)
            stream.partial_fit(table[:first])
            stop = min(len(table), first + 300 * size)
            parts = [table[at : at + size] for at in range(first, stop, size)]
            _, seconds = timed(partial(feed, stream, parts))
            row.append(round((stop - first) / seconds))
        rows.append(row)
    write_table(
        "stream_batches",
        "Streams: records a second by the size of batches",
        ["records in a batch", "NumPy", "polars"],
        rows,
        notes="10 columns, k = 18, after 20,000 records; with all checks of the input. One thread, "
        "CPU seconds.",
        packages=(*PACKAGES, "polars"),
        seed=SEED,
        quick=quick,
    )


def main(quick: bool) -> None:
    start = time.process_time()
    growing(quick)
    kinds(quick)
    peers(quick)
    batches(quick)
    print(f"{time.process_time() - start:.0f} CPU seconds")


if __name__ == "__main__":
    main("--quick" in sys.argv)
