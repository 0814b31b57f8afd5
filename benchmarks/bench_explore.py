"""Explore: the frontier of four tables, what it costs, and whether the k it names holds.

The k is named with a control of a tenth. The release is then made again with another seed and
audited beside people who took no part in the exploration.

``python -m benchmarks.bench_explore [--quick] [--only adult]``. Rows are kept under ``TULLE_WORK``
(default: the folder for temporary files), so that one table can be explored again.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from benchmarks.results import data_folder, save_chart, write_table
from tulle import ClassCondenser, Condenser, Exploration, audit, explore
from tulle._charts import chart
from tulle.exploring._page import frontier_rows, share_words

SEED = 0
LARGE = (3, 10, 30, 100)  # sizes for tables that take minutes


class Task(NamedTuple):
    """A table, fresh people for the last audit, and what is predicted."""

    name: str
    people: pl.DataFrame
    fresh: pl.DataFrame
    target: str | None
    methods: tuple[str, ...]
    sizes: tuple[int, ...] = (3, 5, 10, 20, 50, 100)


def tasks(quick: bool) -> list[Task]:
    folder = data_folder()
    adult = [
        pl.read_csv(folder / "tables" / f"adult_{part}.csv.gz", null_values="?")
        for part in ("train", "test")
    ]
    made = [
        Task("abalone", *_parted("tables/abalone"), "rings", ("shape", "uniform")),
        Task("german", *_parted("tables/german_symbolic"), "class", ("shape", "uniform")),
        Task("national2019", *_parted("nist/national2019", "N"), None, ("shape",), LARGE),
        Task("adult", *adult, "class", ("shape",), LARGE),
    ]
    if quick:
        return [task._replace(people=task.people[:600], fresh=task.fresh[:300]) for task in made]
    return made


def _parted(name: str, missing: str | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return four fifths to explore, and a fifth kept for the last audit."""
    table = pl.read_csv(data_folder() / f"{name}.csv.gz", null_values=missing)
    rows = np.random.default_rng(SEED).permutation(table.height)
    cut = round(0.2 * table.height)
    return table[np.sort(rows[cut:])], table[np.sort(rows[:cut])]


def released(task: Task, k: int, by_class: bool, method: str) -> pl.DataFrame:
    """Make the named release again."""
    template = Condenser(k, synthesis=method, random_state=SEED + 1)
    if not by_class or task.target is None:
        return template.fit_resample(task.people)
    by_classes = ClassCondenser(template, k=k, random_state=SEED + 1)
    columns, classes = by_classes.fit_resample(
        task.people.drop(task.target), task.people[task.target]
    )
    return columns.with_columns(pl.Series(task.target, classes))


def row(task: Task, found: Exploration) -> list[Any]:
    """What was named, and what an audit beside fresh people says of it."""
    point = found.choice.point
    seconds = {
        part: sum(p.seconds for p in found.points if p.spec.round == part)
        for part in ("quick", "whole")
    }
    cells = [task.name, f"{task.people.height:,} x {task.people.width}",
             seconds["quick"], seconds["whole"]]  # fmt: skip
    if point is None:
        return [*cells, "none", found.choice.level, *[None] * 6]
    scale = found.scale(point)
    release = released(task, point.spec.k, point.spec.by_class, point.spec.method)
    names = release.columns
    checked = audit(
        task.people.select(names), release, task.fresh.select(names), random_state=SEED + 2
    )
    worst = max(checked.result["attacks"].values(), key=lambda attack: attack["risk"])
    return [
        *cells,
        point.spec.label,
        point.level,
        f"{point.attack} {point.risk:.3f}",
        share_words(scale.useful),
        share_words(scale.risky),
        checked.verdict["privacy"]["level"],
        checked.verdict["use"]["level"],
        f"{worst['name']} {worst['risk']:.3f}",
    ]


def main(quick: bool, only: str | None = None) -> None:
    kept = Path(os.environ.get("TULLE_WORK", tempfile.gettempdir())) / "tulle-explore"
    kept.mkdir(parents=True, exist_ok=True)
    everything = tasks(quick)
    for task in everything:
        if only is not None and task.name != only:
            continue
        found = explore(
            task.people,
            target=task.target,
            methods=task.methods,
            k=[5, 20] if quick else task.sizes,
            random_state=SEED,
        )
        drawn = chart("frontier", frontier_rows(found, found.latest), title=task.name)
        save_chart(f"explore_{task.name}", drawn.configure(background="white"), quick=quick)
        (kept / _file(task.name, quick)).write_text(json.dumps(row(task, found)))
        files = [kept / _file(task.name, quick) for task in everything]
        write([json.loads(file.read_text()) for file in files if file.exists()], quick)


def _file(name: str, quick: bool) -> str:
    return f"{name}-quick.json" if quick else f"{name}.json"


def write(rows: list[list[Any]], quick: bool) -> None:
    write_table(
        "explore",
        "The k that explore names, and what an audit beside fresh people says of it",
        [
            *("table", "size", "quick round, CPU s", "whole, CPU s", "named", "its verdict"),
            *("its worst excess", "as useful as", "as risky as", "privacy, fresh people"),
            *("use, fresh people", "worst excess, fresh people"),
        ],
        rows,
        notes="Named with a control of a tenth of the people, of a small table up to three tenths. "
        "Then made again from all of them with another seed, and audited beside people who took no "
        "part: Adult's test file, a fifth of the other tables. As useful, as risky: as a subsample "
        "of that share. A small table has no quick round of its own. Times are those of the "
        "points, on a loaded machine.",
        seed=SEED,
        quick=quick,
    )


if __name__ == "__main__":
    chosen = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else None
    main("--quick" in sys.argv, chosen)
