"""Pictures of a table and of its release: ``python -m tulle._app.pictures``, a command of a job.

Every bar and every cell rests on at least ``k`` people: of somebody with several rows one is
counted. The rows that are shown are those of the release.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tulle._json import plain
from tulle.auditing._pictures import Places, bars_of, histogram
from tulle.auditing._tables import Aligned, align
from tulle.errors import TulleError
from tulle.io.read import read_table
from tulle.table.policy import Policy, load_policy
from tulle.table.schema import Column, Kind, Role

FEWEST = 10  # people behind a bar or a cell
_PERSON = "\0person"  # no column of a table is called so
_ROWS = 12  # of a release that are shown
_COARSE = 1 << 28  # bytes of a table that is not read again for a picture of two columns


def shape_of(table: pl.DataFrame, policy: Policy) -> dict[str, list[dict[str, Any]]]:
    """Return the distribution of each column, as shares in bars."""
    tables = _aligned(table, table, policy, FEWEST)
    return {name: _shares(tables, name, FEWEST) for name in tables.columns}


def sides_of(
    original: pl.DataFrame, release: pl.DataFrame, policy: Policy, k: int
) -> dict[str, list[dict[str, Any]]]:
    """Return the bars of each column in original and release, what differs most first."""
    tables = _aligned(original, release, policy, k)
    found = {name: _shares(tables, name, k) for name in tables.columns}
    return dict(sorted(found.items(), key=lambda pair: -_moved(pair[1])))


def pair_of(
    original: pl.DataFrame, release: pl.DataFrame, policy: Policy, names: Sequence[str], k: int
) -> list[dict[str, Any]]:
    """Return how often bars of two columns come together, in original and release."""
    tables = _aligned(original, release, policy, k)
    most = min(20, max(3, math.isqrt(len(tables.original) // (2 * k))))
    (across, x_labels), (up, y_labels) = (
        _coarser(*bars_of(tables, name, k), most, ordered=name in tables.units) for name in names
    )
    rows = []
    for of, first, second in zip(("original", "release"), across, up):
        counts = np.zeros((len(x_labels), len(y_labels)), dtype=np.int64)
        np.add.at(counts, (first, second), 1)
        rows += [
            {"x": x_labels[i], "y": y_labels[j], "of": of,
             "share": float(counts[i, j] / len(first)), "count": int(counts[i, j]),
             "x_place": int(i), "y_place": int(j)}
            for i, j in np.argwhere(counts >= k)
        ]  # fmt: skip
    return rows


def _coarser(
    places: Places, labels: list[str], most: int, *, ordered: bool
) -> tuple[Places, list[str]]:
    """Join bars until there are few: with two columns, cells of the finest bars hold nobody.

    The last bar is that of missing values; of categories, the one before it is that of all others.
    """
    if ordered:
        counts = np.bincount(places[1], minlength=len(labels))[:-1]
        before = np.cumsum(counts) - counts
        _, group = np.unique(before * most // max(1, int(counts.sum())), return_inverse=True)
    else:
        others = len(labels) - 2
        group = np.arange(others + 1)
        group[min(most, others) :] = min(most, others)
    parts = [np.flatnonzero(group == part) for part in range(int(group.max()) + 1)]
    words = [_joined(labels[part[0]], labels[part[-1]]) for part in parts]
    if not ordered:
        words[-1] = labels[-2]
    group = np.append(group, len(parts))
    return [group[place] for place in places], [*words, labels[-1]]


def _joined(first: str, last: str) -> str:
    """Name neighbouring bars together.

    >>> _joined("1 to 2", "3 to 4"), _joined("below 1", "1 to 2"), _joined("3", "5 and more")
    ('1 to 4', 'up to 2', '3 and up')
    """
    if first == last:
        return first
    open_ends = first.startswith("below ") or first.endswith(" and less")
    start = "" if open_ends else first.partition(" to ")[0]
    end = "" if last.endswith((" and up", " and more")) else last.rpartition(" to ")[2]
    if start and end:
        return f"{start} to {end}"
    return f"{start} and up" if start else f"up to {end}" if end else "any"


def read_pair(
    original: str, release: Path, policy: Policy, names: Sequence[str], k: int
) -> list[dict[str, Any]]:
    """Read two columns of both tables and return their picture; a large table has none."""
    path = Path(original)
    if path.is_file() and path.stat().st_size > _COARSE:
        return []
    wanted = [*names, *policy.named(Role.PERSON)]
    tables = [read_table(original, wanted), read_table(release)]
    there = [table.select(name for name in wanted if name in table.columns) for table in tables]
    return pair_of(there[0], there[1], policy, names, k)


def _aligned(original: pl.DataFrame, release: pl.DataFrame, policy: Policy, k: int) -> Aligned:
    """Align what both hold and a picture can show, one row for each person."""
    known = {column.name: column for column in policy.columns}
    tables = [_one_each(table, policy.named(Role.PERSON)) for table in (original, release)]
    names = [
        name
        for name in tables[0].columns
        if name in tables[1].columns
        and name in known
        and known[name].role.released
        and known[name].kind is not Kind.TEXT
    ]
    shown = tuple(known[name] for name in names)
    return align(tables[0].select(names), tables[1].select(names), None, shown)


def _one_each(table: pl.DataFrame, person: Sequence[str]) -> pl.DataFrame:
    """Draw a row of each person: the first one would be the earliest in tables sorted by time."""
    there = [name for name in person if name in table.columns]
    if not there:
        return table
    return table.sample(fraction=1.0, shuffle=True, seed=0).unique(there, maintain_order=True)


def of_linked(source: str, policy: Policy, file: str, release: str = "") -> dict[str, Any]:
    """Draw the columns of each table of people, one row of each person; with a release, of both."""
    from tulle._commands._linked import open_linked
    from tulle.io._databases import LinkedFrames, read_tables_like

    tables = open_linked(source, policy, file)
    both = [tables.database]
    if release:
        model = LinkedFrames(dict(tables.frames), {}, [])
        both.append(tables.like(read_tables_like(release, model, source, list(tables.frames))))
    found = {}
    for name in tables.database.persons:
        columns = replace(policy, columns=tuple(tables.columns[name]))
        first, last = (
            database.tables[name].with_columns(pl.Series(_PERSON, database.persons[name]))
            for database in (both[0], both[-1])
        )
        person = Column(_PERSON, Kind.INTEGER, Role.PERSON)
        columns = replace(columns, columns=(*columns.columns, person))
        drawn = sides_of(first, last, columns, FEWEST) if release else shape_of(first, columns)
        found[name] = {"columns": drawn, **(_rows(last.drop(_PERSON)) if release else {})}
    return {"tables": found}


def _shares(tables: Aligned, name: str, k: int) -> list[dict[str, Any]]:
    rows = histogram(tables, name, k)
    return [
        {of: row[of] for of in ("label", "original", "release", "count")}
        for row in rows
    ]  # fmt: skip


def _moved(rows: Sequence[dict[str, Any]]) -> float:
    """Return the total variation between the bars that are shown."""
    both = [row for row in rows if row["original"] is not None and row["release"] is not None]
    return sum(abs(row["original"] - row["release"]) for row in both) / 2


def main(words: Sequence[str]) -> None:
    """Print pictures as JSON: of TABLE (or tables) by POLICY, or with a RELEASE, of both."""
    source, policy = words[0], load_policy(words[1])
    found: dict[str, Any]
    if policy.people.table:
        found = of_linked(source, policy, *words[1:])
    elif len(words) == 2:
        found = {"columns": shape_of(read_table(source), policy)}
    else:
        table, release = read_table(source), read_table(words[2])
        found = {"columns": sides_of(table, release, policy, FEWEST), **_rows(release)}
    print(json.dumps(plain(found)))


def _rows(release: pl.DataFrame) -> dict[str, Any]:
    rows = release.head(_ROWS).select(pl.all().cast(pl.String, strict=False))
    return {"header": rows.columns, "rows": rows.rows(), "records": release.height}


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except TulleError as error:
        print(f"tulle: {error}", file=sys.stderr)
        sys.exit(1)
