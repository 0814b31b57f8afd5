"""Kinds and roles guessed for public tables, next to those set by hand.

The labels were set before any answer was seen. Tables come from scikit-learn, from packages that
ship data (statsmodels, vega_datasets, mlxtend, pydataset: those that are installed) and from
TULLE_DATA, and the last one is a made-up export of a hospital with the traps of real ones. Of each
table a release is made by default, and the values in it that fewer than k people hold are counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

from benchmarks.columns_corpus import Answer, Count, Score, Table, score, tables
from benchmarks.columns_shown import planned, release_of, shown_columns
from benchmarks.results import as_table, data_folder, write_table
from tulle.guessing.columns import guess_columns

QUICK = 5  # tables
K, ROWS = 10, 2_000  # of the releases
BEFORE = "b9a4b15"  # the last version that guessed by names and counts alone
ROOT = Path(__file__).parent.parent


def guess(frame: pl.DataFrame) -> dict[str, Answer]:
    """Return what Tulle says of the columns of a table."""
    return {
        one.column.name: Answer(str(one.column.kind), str(one.column.role), one.needs_decision)
        for one in guess_columns(frame)
    }


def main(quick: bool = False) -> None:
    """Write precision and recall of each role and kind, before and after."""
    corpus = list(tables(data_folder()))
    some = corpus[:QUICK] if quick else corpus
    old = answers_before([table.frame for table in some])
    given = iter(old)
    before, _ = score(lambda frame: next(given), some)
    after, _ = score(guess, some)
    rows = [
        [what, name, *_rates(getattr(before, part)[name]), *_rates(count), count.there]
        for what, part in (("role", "roles"), ("kind", "kinds"))
        for name, count in getattr(after, part).items()
        if count.there
    ]
    rows += [
        ["roles right", "", before.roles_right, "", after.roles_right, "", after.roles_judged],
        ["kinds wrong", "", _wrong(before), "", _wrong(after), "", after.kinds_judged],
        ["naming people, released", "", before.leaked, "", after.leaked, "", after.naming],
        ["to keep, dropped", "", before.lost, "", after.lost, "", after.kept],
        ["to keep, decision asked", "", before.asked, "", after.asked, "", after.kept],
    ]
    write_table(
        "columns",
        f"Guesses for the columns of {len(some)} tables",
        ["", "", "precision before", "recall before", "precision", "recall", "columns"],
        rows,
        notes=(
            f"Before: commit {BEFORE}, which had neither the role person nor the kind ordered. The "
            "last lines count columns. The kinds of columns that are to be released are judged. "
            "Labels were set before any answer was seen, but most rules were improved on these "
            "tables.\n\n" + _kinds_of(some, "national2019") + _shown(some)
        ),
        packages=("numpy", "polars"),
        quick=quick,
    )


def _kinds_of(some: list[Table], name: str) -> str:
    """Return a table of the columns of one table: what they are and what they are read as."""
    rows: list[list[str]] = []
    for table in some:
        if table.name == name:
            found = guess(table.frame)
            rows += [
                [column, "/".join(right.kinds), found[column].kind, found[column].role,
                 "yes" if found[column].kind in right.kinds else "NO"]
                for column, right in table.truth.items()
            ]  # fmt: skip
    header = ["column", "kind expected", "kind found", "role found", "right and kept"]
    title = f"## {name}, read without a policy: {len(rows)} columns"
    return f"{title}\n\n{as_table(header, rows)}\n\n" if rows else ""


def _shown(some: list[Table]) -> str:
    """Return a table of what releases by default show of values that few people hold."""
    rows = []
    for table in some:
        frame = table.frame.sample(min(table.frame.height, ROWS), seed=0)
        columns = [column for column in planned(frame) if column.name in table.truth]
        frame = frame.select(column.name for column in columns)
        if frame.height < 2 * K or not any(column.role.released for column in columns):
            continue
        release = release_of(frame, columns, K)[1]
        few = shown_columns(frame, release, columns, K)
        values = sum(release[c.name].n_unique() for c in columns if c.name in few)
        rows.append([table.name, frame.height, len(few), values, sum(few.values())])
    total = ["all", *(sum(row[place] for row in rows) for place in range(1, 5))]
    title = f"## Values held by fewer than {K} people in releases by default: {total[-1]}"
    header = ["table", "records", "columns released", "values shown", "held by fewer"]
    note = (
        f"Up to {ROWS:,} records of each table, columns as guessed. Of categories every value "
        "counts, of numbers the codes and missing values: others are drawn."
    )
    return f"{title}\n\n{as_table(header, [total, *rows])}\n\n{note}"


_SCRIPT = """
import json, pathlib, sys
import polars as pl
from tulle.tables.inference import profile_columns
from tulle.tables.reading import read_table

answers = []
for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    frame = read_table(path) if path.suffix == ".csv" else pl.read_parquet(path)
    columns = [profile.column for profile in profile_columns(frame)]
    answers.append({c.name: (str(c.kind), str(c.role)) for c in columns})
print(json.dumps(answers))
"""


def answers_before(frames: list[pl.DataFrame]) -> list[dict[str, Answer]]:
    """Return what the version before said of the columns, from the history of this repository."""
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["git", "archive", BEFORE, "src"], cwd=ROOT, check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        data = Path(folder, "tables")
        data.mkdir()
        for number, frame in enumerate(frames):
            if all(dtype == pl.String for dtype in frame.dtypes):  # as its own reader types it
                frame.write_csv(data / f"{number:04}.csv", separator=";")
            else:
                frame.write_parquet(data / f"{number:04}.parquet")
        answered = subprocess.run(
            [sys.executable, "-c", _SCRIPT, str(data)],
            env={**os.environ, "PYTHONPATH": str(Path(folder, "src"))},
            check=True,
            capture_output=True,
            text=True,
        )
    return [
        {name: Answer(kind, role, False) for name, (kind, role) in found.items()}
        for found in json.loads(answered.stdout)
    ]


def _wrong(found: Score) -> int:
    return found.kinds_judged - found.kinds_right


def _rates(count: Count) -> list[float]:
    return [round(count.precision, 3), round(count.recall, 3)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    main(parser.parse_args().quick)
