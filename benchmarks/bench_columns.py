"""Kinds and roles guessed for public tables, next to those set by hand.

The labels were set before any answer was seen. Tables come from scikit-learn, from packages that
ship data (statsmodels, vega_datasets, mlxtend, pydataset: those that are installed) and from
TULLE_DATA, and the last one is a made-up export of a hospital with the traps of real ones.
"""

from __future__ import annotations

import argparse

import polars as pl

from benchmarks.columns_corpus import Answer, Count, score, tables
from benchmarks.results import data_folder, write_table
from tulle.table.inference import guess_columns

QUICK = 5  # tables


def guess(frame: pl.DataFrame) -> dict[str, Answer]:
    """Return what Tulle says of the columns of a table."""
    return {
        one.column.name: Answer(str(one.column.kind), str(one.column.role), one.needs_decision)
        for one in guess_columns(frame)
    }


def main(quick: bool = False) -> None:
    """Write precision and recall of each role and kind."""
    corpus = list(tables(data_folder()))
    found, _ = score(guess, corpus[:QUICK] if quick else corpus)
    rows = [_row("role", name, count) for name, count in found.roles.items()]
    rows += [_row("kind", name, count) for name, count in found.kinds.items()]
    write_table(
        "columns",
        f"Guesses for the columns of {len(corpus)} tables",
        ["", "", "precision", "recall", "columns"],
        [row for row in rows if row[-1]],
        notes=(
            f"Roles right: {found.roles_right} of {found.roles_judged}. Kinds right: "
            f"{found.kinds_right} of {found.kinds_judged} released columns. Columns that name "
            f"people and would be released: {found.leaked} of {found.naming}. Columns to keep for "
            f"which a decision is asked: {found.asked} of {found.kept}; dropped without a "
            f"question: {found.lost}. Most rules were improved on these tables."
        ),
        packages=("numpy", "polars"),
        quick=quick,
    )


def _row(what: str, name: str, count: Count) -> list[object]:
    return [what, name, round(count.precision, 3), round(count.recall, 3), count.there]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    main(parser.parse_args().quick)
