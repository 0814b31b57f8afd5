"""What a user would pick instead, on the same machine: time, memory, use and risk of each.

``TULLE_DATA=folder python -m benchmarks.bench_instead [--quick] [--only adult,german]
[--tools "CART leaf 5,SynDiffix"]``

Every tool makes one release with its defaults in an environment of its own (see the frontier, whose
judge and folder are used); one that takes more than ``TULLE_PATIENCE`` CPU seconds (here as a rule
300) or fails is listed as such. What was made before stays in the folder and is not made again;
rows of the page that a run does not measure (``--tools`` names what it does, Tulle too) stay on it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_frontier import PATIENCE, Kitchen, Table, read, watched
from benchmarks.frontier_peers import ENVIRONMENTS
from benchmarks.judged_tables import ranged, rows_of
from benchmarks.results import RESULTS, data_folder, write_table

K, SEEDS = 10, (0, 1, 2)
PEERS = (  # the quickest first
    "CART leaf 5",
    "SDV copula",
    "SynDiffix",
    "arfpy",
    "MOSTLY AI",
    "MST epsilon 10",
    "AIM epsilon 10",
    "SDV TVAE",
    "SDV CTGAN",
)
COLUMNS = {
    "AUC against strangers": "told apart",
    "TV3": "three-way TV",
    "train on release": "model",
    "broken dependencies": "dependencies broken",
    "membership": "membership",
    "membership by exact values": "by exact values",
    "caught at 1 % false alarms": "caught at 1 %",
    "unique matches": "unique matches, %",
    "CPU s": "CPU s",
    "peak MB": "peak MB",
}


def main(quick: bool = False, only: tuple[str, ...] = ()) -> None:
    folder = os.environ.get("TULLE_PEERS", os.path.join(tempfile.gettempdir(), "tulle-peers"))
    kitchen = Kitchen(Path(folder))
    rows, failures, ceilings = [], [], {}
    for table in tables(quick):
        if only and table.name.split()[0] not in only:
            continue
        for name, found in measured(table, kitchen, quick):
            if isinstance(found, str):
                failures.append(f"{table.name}, {name}: {found}")
            else:
                rows.append([table.name, name, *(cell(found, column) for column in COLUMNS)])
                ceilings[table.name] = cell(found, "train on members")
                print(rows[-1], flush=True)
    new = {tuple(row[:2]) for row in rows}
    page = RESULTS / "instead.md"
    old = rows_of(page.read_text()) if page.exists() and not quick else []
    rows = [*(row for row in old if tuple(row[:2]) not in new), *rows]
    rows.sort(key=lambda row: str(row[0]), reverse=True)  # german first; stable
    gone = f" Not in the table: {'; '.join(failures)}." if failures else ""
    write_table(
        "instead",
        "What a user would pick instead, on the same machine",
        ["table", "tool", *COLUMNS.values()],
        rows,
        notes="Told apart: AUC, release against strangers (0.5 is best); three-way TV: to the "
        "members (less is better); model: AUC on strangers of one trained on the release; "
        "membership: best of ten distance attacks (0.5: guessing), by exact values: how often a "
        "candidate's own numbers stand in the release; unique matches: members alone in their "
        "values who stand in the release as they are. A model trained on the members themselves: "
        f"{', '.join(map(' '.join, ceilings.items()))}. CPU and peak memory are those of the "
        "tool's whole process, on one thread, its libraries loaded. Each by its defaults: "
        f"Tulle at k = {K}, mean of three seeds with the smallest and the largest; CART is "
        "synthpop's way built on scikit-learn's trees; MOSTLY AI's engine trains three minutes at "
        f"most, on a busy machine a part of that in CPU. Limit: {PATIENCE} CPU seconds.{gone}",
        packages=("numpy", "scikit-learn", "polars"),
        seed=0,
        quick=quick,
    )


def tables(quick: bool) -> Iterator[Table]:
    folder = data_folder() / "tables"

    def parted(name: str, file: str, members: int, strangers: int) -> Table:
        table = read(folder / f"{file}.csv.gz").sample(fraction=1, shuffle=True, seed=0)
        return Table(name, table[:members], table[members : members + strangers], "class")

    yield parted("german 600", "german_symbolic", 600, 400)
    if not quick:
        yield parted("adult 10,000", "adult_train", 10_000, 10_000)


def measured(table: Table, kitchen: Kitchen, quick: bool) -> Iterator[tuple[str, Any]]:
    """Yield each tool with what is measured of its releases, or why there is none."""
    place = kitchen.table(table)
    found, tools = [], _words("--tools")
    seeds = () if tools and "Tulle" not in tools else SEEDS[:1] if quick else SEEDS
    for seed in seeds:
        name = f"Tulle k={K} seed {seed}"
        release = place / f"{name}.csv"
        if not release.exists():
            command = [sys.executable, "-m", "tulle", "condense", place / "members.csv"]
            command += ["-o", release, "-k", K, "--seed", seed, "--no-audit"]
            code, error, seconds, peak = watched([*command, "--target", table.target])
            if code:
                raise RuntimeError(error)
            kitchen._cost(release, seconds, peak)
        found.append(kitchen.judge(table, name, 0))
    if found:
        yield f"Tulle k={K}", found
    homes = {peer: name for name, (_, peers) in ENVIRONMENTS.items() for peer in peers}
    for peer in PEERS[:1] if quick else [one for one in PEERS if one in (tools or PEERS)]:
        problem = kitchen.ask(table, peer, homes[peer])
        yield peer, problem or [kitchen.judge(table, peer, 0)]


def cell(found: list[dict[str, Any]], column: str) -> str:
    values = [one[column] for one in found if one.get(column) is not None]
    if not values:
        return ""
    if column in ("CPU s", "peak MB"):
        return f"{np.mean(values):.{0 if column == 'peak MB' else 1}f}"
    return ranged([float(value) for value in values])


def _words(option: str) -> tuple[str, ...]:
    """Return what the command line gives an option, parted by commas."""
    given = sys.argv[sys.argv.index(option) + 1] if option in sys.argv else ""
    return tuple(filter(None, given.split(",")))


if __name__ == "__main__":
    main("--quick" in sys.argv, _words("--only"))
