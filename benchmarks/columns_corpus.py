"""Public tables with kinds and roles set by hand, and the score of a guesser on them.

Tables come from packages (scikit-learn, statsmodels, vega_datasets, mlxtend, pydataset), each read
from the installed package without importing it, and from a folder of files (``TULLE_DATA``).
"""

from __future__ import annotations

import io
import os
import tarfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.columns_hospital import LABELS, hospital

KINDS = {
    "i": "integer",
    "d": "decimal",
    "c": "category",
    "o": "ordered",
    "b": "boolean",
    "t": "datetime",
    "x": "text",
}
ROLES = {
    "id": "identifier",
    "p": "person",
    "q": "quasi-identifier",
    "s": "sensitive",
    "y": "target",
    "n": "ignored",
    "l": "level",
    "w": "weight",
}


@dataclass(frozen=True)
class Truth:
    """What a column is, by hand: the kinds and roles that are right, the best one first."""

    kinds: tuple[str, ...]  # empty if the column is never released
    roles: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table of the corpus."""

    name: str
    part: str  # "dev", "held", "fresh" or "last"
    frame: pl.DataFrame
    truth: dict[str, Truth]


@dataclass(frozen=True)
class Answer:
    """What a guesser says of a column."""

    kind: str
    role: str
    asks: bool = False


def tables(data: str | os.PathLike[str] | None = None) -> Iterator[Table]:
    """Read all tables of the corpus, then the hospital's export."""
    with (Path(__file__).parent / "columns_labels.toml").open("rb") as file:
        entries = tomllib.load(file)
    for name, entry in entries.items():
        truth = {column: _truth(label) for column, label in _lines(entry["columns"])}
        frame = _read(entry, Path(data or os.environ.get("TULLE_DATA", ".")))
        if frame is not None:
            yield Table(name, entry["part"], frame, truth)
    truth = {column: _truth(label) for column, label in LABELS.items()}
    yield Table("hospital", "dev", hospital(np.random.default_rng(16)), truth)


def _lines(text: str) -> list[tuple[str, str]]:
    pairs = (line.rpartition(":") for line in text.strip().splitlines())
    return [(name.strip(), label.strip()) for name, _, label in pairs]


def _truth(label: str) -> Truth:
    kinds, roles = label.split()
    known = () if kinds == "-" else tuple(KINDS[kind] for kind in kinds.split("/"))
    return Truth(known, tuple(ROLES[role] for role in roles.split("/")))


# -- reading ----------------------------------------------------------------------------------


def _read(entry: dict[str, Any], data: Path) -> pl.DataFrame | None:
    where, _, path = entry["source"].partition(":")
    rows = entry.get("rows")
    if where == "sklearn":
        return _sklearn(path)
    if where == "data":
        return _csv((data / path), rows) if (data / path).exists() else None
    folder = _package(where)
    if folder is None:
        return None
    if where == "pydataset":
        return _r_table(folder, path, rows)
    below = {"statsmodels": "datasets", "vega": "_data", "mlxtend": "data/data"}[where]
    if path.endswith(".json"):
        return pl.read_json(folder / below / path)
    frame = _csv(folder / below / path, rows, header="header" not in entry)
    return (
        frame.rename(dict(zip(frame.columns, entry["header"].split())))
        if "header" in entry
        else frame
    )


def _package(name: str) -> Path | None:
    spec = find_spec("vega_datasets" if name == "vega" else name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _csv(source: Any, rows: int | None = None, *, header: bool = True) -> pl.DataFrame:
    plain = isinstance(source, Path) and source.suffix == ".csv"
    head = source.read_bytes()[:2000] if plain else b""
    first = head.split(b"\n")[0]
    mark = next((m for m in ("\t", ";") if m.encode() in first), ",")
    if b"' '" in first:
        mark = " "
    return pl.read_csv(
        source, n_rows=rows, infer_schema_length=None, null_values=["NA"], separator=mark,
        has_header=header, quote_char="'" if first.startswith(b"'") else '"',
        encoding="utf8-lossy", try_parse_dates=False,
    )  # fmt: skip


def _r_table(folder: Path, path: str, rows: int | None) -> pl.DataFrame:
    frame = _csv(io.BytesIO(_archive(folder)[f"resources/rdata/csv/{path}.csv"]), rows)
    return frame.drop(frame.columns[0])  # R's row names


@cache
def _archive(folder: Path) -> dict[str, bytes]:
    """Read all tables of R's packages at once: the archive cannot be entered in the middle."""
    found = {}
    with tarfile.open(folder / "resources.tar.gz") as archive:
        for member in archive:
            inner = archive.extractfile(member) if member.name.endswith(".csv") else None
            if inner is not None:
                found[member.name] = inner.read()
    return found


def _sklearn(name: str) -> pl.DataFrame:
    from sklearn import datasets

    loaded = getattr(datasets, f"load_{name}")(
        as_frame=True, **({"scaled": False} if name == "diabetes" else {})
    )
    return pl.from_pandas(loaded.frame)


# -- scores -----------------------------------------------------------------------------------


@dataclass
class Count:
    """Right and wrong answers about one kind or role."""

    said: int = 0
    said_right: int = 0
    there: int = 0
    found: int = 0

    @property
    def precision(self) -> float:
        return self.said_right / self.said if self.said else float("nan")

    @property
    def recall(self) -> float:
        return self.found / self.there if self.there else float("nan")


@dataclass
class Score:
    """The score of a guesser over tables."""

    kinds: dict[str, Count]
    roles: dict[str, Count]
    kinds_right: int = 0
    kinds_judged: int = 0
    roles_right: int = 0
    roles_judged: int = 0
    leaked: int = 0  # columns that name people and would be released
    naming: int = 0
    lost: int = 0  # columns to keep that are dropped without a question
    asked: int = 0  # columns to keep for which a decision is asked
    kept: int = 0


_AWAY = ("identifier", "person", "ignored")


def score(
    guess: Callable[[pl.DataFrame], dict[str, Answer]], some: list[Table]
) -> tuple[Score, list[tuple[str, str, str, str]]]:
    """Score a guesser; the second result lists its mistakes (table, column, said, right)."""
    total = Score({kind: Count() for kind in KINDS.values()}, {r: Count() for r in ROLES.values()})
    mistakes = []
    for table in some:
        answers = guess(table.frame)
        for column, truth in table.truth.items():
            wrong = _judge(total, answers[column], truth)
            if wrong:
                mistakes.append((table.name, column, *wrong))
    return total, mistakes


def _judge(total: Score, answer: Answer, truth: Truth) -> tuple[str, str] | None:
    wrong = []
    _tally(total.roles, answer.role, truth.roles)
    total.roles_judged += 1
    total.roles_right += answer.role in truth.roles
    if answer.role not in truth.roles:
        wrong.append((answer.role + ("?" if answer.asks else ""), "/".join(truth.roles)))
    released = answer.role not in _AWAY
    if set(truth.roles) <= {"identifier", "person"}:
        total.naming += 1
        total.leaked += released
    if not set(truth.roles) & set(_AWAY):
        total.kept += 1
        total.asked += answer.asks
        total.lost += not released and not answer.asks
    if truth.kinds and released:
        _tally(total.kinds, answer.kind, truth.kinds)
        total.kinds_judged += 1
        total.kinds_right += answer.kind in truth.kinds
        if answer.kind not in truth.kinds:
            wrong.append((answer.kind, "/".join(truth.kinds)))
    if not wrong:
        return None
    return " ".join(w[0] for w in wrong), " ".join(w[1] for w in wrong)


def _tally(counts: dict[str, Count], said: str, right: tuple[str, ...]) -> None:
    counts[said].said += 1
    counts[said].said_right += said in right
    counts[right[0]].there += 1
    counts[right[0]].found += said in right
