"""The audit of sketches, and the search for the delta (or k) that passes it.

Measures and attacks look at a sample: at most 20,000 released records, drawn evenly, and for the
reconstruction at most 50,000 columns, the most frequent ones. A shorter list of candidates and
fewer columns make the attacks easier, never harder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tulle._attacks.result import AttackFigures, AttackResult
from tulle._commands._decision import UNAUDITED
from tulle._plurals import counted
from tulle._progress import bar
from tulle._report.fitness import graded
from tulle._report.model import Chart, Fact, Promise, Section, Table
from tulle._report.verdict import CLASSES
from tulle._types import Ints
from tulle.auditing.audit import Audit
from tulle.errors import PrivacyError
from tulle.keys import SecretKey

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    from tulle._metrics.sketches import DotErrors
    from tulle.sketch._records import SparseRecords
    from tulle.sketch.sketcher import Sketcher
    from tulle.sketch.sketches import Sketches

LIMITS = (
    "Someone who has the key: with it, attributes of every record can be estimated.",
    "Someone who knows the records and the sketches of some people: the key's signs can be "
    "learnt from them, better the more people are known.",
    "How many components a record has: it reveals its length (delta) or how isolated it is "
    "(k-variance). Components of counts also have the parity of the record's sum.",
    "Duplicates: equal records have equal sketches, or one is a prefix of the other.",
)
RECORDS = 20_000  # looked at
QUICK_RECORDS = 2_000  # for a verdict without a report or a search
_COLUMNS = 50_000  # that the reconstruction looks for
_KNOWN = 20  # people that the intruder of the report knows
_TARGETS = 100  # records that the report tries to reconstruct


class Sample:
    """Released records with their sketches, drawn uniformly from all, in bounded memory."""

    def __init__(self, rng: np.random.Generator, most: int = RECORDS) -> None:
        self.rng, self.most = rng, most
        self._lengths: list[npt.NDArray[np.int64]] = []
        self._parts: list[tuple[npt.NDArray[np.float64], Ints, SparseRecords, Sketches]] = []

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """How many components each record has, of all that were offered."""
        return np.concatenate(self._lengths)

    def add(self, records: SparseRecords, sketches: Sketches) -> None:
        """Draw a number for each released record and keep the records with the smallest numbers."""
        from tulle.sketch._records import SparseRecords, joined

        offered = sum(map(len, self._lengths))
        self._lengths.append(sketches.lengths)
        seen = np.flatnonzero(~sketches.suppressed)
        rows = SparseRecords(records.matrix[seen], records.terms)
        self._parts.append((self.rng.random(len(seen)), offered + seen, rows, sketches[seen]))
        draws = np.concatenate([part[0] for part in self._parts])
        if len(draws) <= self.most:
            return
        limit = np.partition(draws, self.most - 1)[self.most - 1]
        thinner = []
        for numbers, places, held, some in self._parts:
            stay = np.flatnonzero(numbers <= limit)
            kept = joined([SparseRecords(held.matrix[stay], held.terms)])
            thinner.append((numbers[stay], places[stay], kept, some[stay]))
        self._parts = thinner

    def taken(self) -> tuple[Ints, SparseRecords, Sketches]:
        """Return the records kept with their sketches, and their places among all."""
        from tulle.sketch._records import joined
        from tulle.sketch.sketches import Sketches

        _, places, records, sketches = zip(*self._parts)
        whole = records[0] if len(records) == 1 else joined(records)
        return np.concatenate(places), whole, Sketches.stacked(sketches)


class Signs(NamedTuple):
    """The columns that a reconstruction looks for, with their signs under the key."""

    columns: npt.NDArray[np.int64]
    table: npt.NDArray[np.int8]


def audited(
    sketcher: Sketcher,
    sample: Sample,
    verified: Mapping[str, Any],
    attacked: bool = True,
    *,
    beside: pl.DataFrame | None,
    seed: int | None,
    command: str,
) -> Audit:
    """Audit a release from a sample of it; this was verified of all."""
    from tulle._metrics.sketches import dot_errors, neighbour_recall

    rng, lengths = sample.rng, sample.lengths
    places, records, sketches = sample.taken()
    matrix = records.matrix
    errors = dot_errors(sketches, matrix, rng)
    signs = signs_of(sketcher, records, sketches.shape[1])
    attacks = attacks_of(sketches, matrix, signs, rng) if attacked else {}
    with_key = None
    if attacked:
        sought = matrix[:, signs.columns]
        with_key = _reconstructed(sketches, sought, signs.table, rng, "the signs of the key")
    hidden = int(np.sum(lengths == 0))
    rows: list[Promise] = [
        {"name": name, "asked": True, "found": holds, "holds": bool(holds)}
        for name, holds in verified.items()
    ]
    text = "Checked on every record or pair before anything was written."
    figures = {
        "error_of_dot_products_over_prediction": errors.ratio,
        "neighbour_recall": neighbour_recall(sketches, matrix, rng),
        "classes_kept": labels_kept(sketches, matrix, beside, places, rng),
        "suppressed_share": hidden / len(lengths),
    }
    return Audit(
        {
            "title": "Sketches",
            "summary": f"{counted(len(lengths), 'record')} sketched, {hidden:,} suppressed. "
            f"Measured and attacked: {counted(len(sketches), 'record')}, "
            f"{counted(len(signs.columns), 'column')}.",
            "guarantee": {"text": text, "rows": rows},
            "k": 10,
            # one record alone has no neighbours
            "metrics": {name: value for name, value in figures.items() if math.isfinite(value)},
            "attacks": attacks,
            "sections": [
                _error_section(errors),
                _component_section(lengths),
                *([] if with_key is None else [_key_section(with_key.to_dict())]),
            ],
            "untried": UNAUDITED,
            "limits": list(LIMITS),
            "command": command,
            "provenance": {
                "audit seed": "operating system" if seed is None else str(seed),
                "records measured and attacked": f"{len(sketches):,} of {len(lengths) - hidden:,}",
                "columns looked for": f"{len(signs.columns):,} of {matrix.shape[1]:,}",
            },
        }
    )


def labels_kept(
    sketches: Sketches,
    matrix: Any,
    beside: pl.DataFrame | None,
    places: Ints,
    rng: np.random.Generator,
) -> float:
    """Return how much of the labels next to the sketches can be learnt from them, at worst.

    NaN where there are none that the records themselves tell.
    """
    from tulle._metrics.sketches import classes_kept

    shares = [math.nan]
    for values in () if beside is None else beside[places]:
        codes = values.rank("dense").fill_null(0).to_numpy().astype(np.int64) - 1
        shares.append(classes_kept(sketches, matrix, codes, rng))
    return float(np.nanmin(shares)) if np.isfinite(shares).any() else math.nan


def components(lengths: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    """Count how many records have how many components, in powers of two."""
    edges = [0, *(2**power for power in range(int(lengths.max()).bit_length() + 1))]
    rows = []
    for low, high in pairwise(edges):
        count = int(np.sum((lengths >= low) & (lengths < high)))
        name = "suppressed" if low == 0 else str(low) if high == low + 1 else f"{low}-{high - 1}"
        rows.append({"components": name, "records": count, "share": count / len(lengths)})
    return rows


def signs_of(sketcher: Sketcher, records: SparseRecords, components: int) -> Signs:
    matrix = records.matrix
    frequencies = np.bincount(matrix.indices, minlength=matrix.shape[1])
    columns = np.sort(np.argsort(-frequencies, kind="stable")[:_COLUMNS])
    terms = records.terms
    names = columns if terms is None else [terms[column] for column in columns]
    return Signs(columns, sketcher.signs(names, components))


def attacks_of(
    sketches: Sketches, matrix: Any, signs: Signs, rng: np.random.Generator
) -> dict[str, AttackFigures]:
    """Return what intruders without the key get."""
    from tulle._attacks.sketches import signs_guessed, signs_learnt, sketch_linkage

    seen = np.flatnonzero(~sketches.suppressed)
    known = rng.choice(seen, min(_KNOWN, len(seen) // 2), replace=False)
    guessed = signs_guessed(len(signs.columns), sketches.shape[1], rng)
    learnt = signs_learnt(sketches, matrix, known)[signs.columns] if len(known) else guessed
    made = partial(_reconstructed, sketches, matrix[:, signs.columns], rng=rng)
    people = f"{len(known)} people known"
    results = {
        "sketch_linkage:no person known": sketch_linkage(sketches, matrix, rng),
        f"sketch_linkage:{people}": sketch_linkage(sketches, matrix, rng, known=known),
        "sketch_reconstruction:no key": made(guessed, holder="a guess of the signs"),
        f"sketch_reconstruction:{people}": made(
            learnt, holder=f"signs learnt from {len(known)} known people"
        ),
    }
    return {name: {**result.to_dict(), "name": name} for name, result in results.items()}


def _reconstructed(
    sketches: Sketches, sought: Any, signs: npt.NDArray[Any], rng: np.random.Generator, holder: str
) -> AttackResult:
    from tulle._attacks.sketches import sketch_reconstruction

    return sketch_reconstruction(sketches, sought, signs, rng, attempts=_TARGETS, holder=holder)


def _error_section(errors: DotErrors) -> Section:
    order = np.argsort(errors.predicted)
    bins = [part for part in np.array_split(order, 12) if len(part)]
    rows = [
        {
            "name": f"pairs {i + 1} of {len(bins)}",
            "predicted": float(np.sqrt(np.mean(errors.predicted[part] ** 2))),
            "measured": float(np.sqrt(np.mean(errors.measured[part] ** 2))),
        }
        for i, part in enumerate(bins)
    ]
    text = "Estimated dot products of random pairs: their error, and the error that was predicted."
    block: Chart = {
        "type": "chart",
        "chart": "error",
        "title": "Error of dot products",
        "rows": rows,
    }
    return {"id": "errors", "title": "What a miner can rely on", "text": text, "blocks": [block]}


def _component_section(lengths: npt.NDArray[np.int64]) -> Section:
    rows = [list(row.values()) for row in components(lengths)]
    table: Table = {
        "type": "table",
        "columns": ["components", "records", "share"],
        "rows": rows,
        "counts": ["records"],
    }
    text = "Fewer components hide more. Suppressed records would have shown too much with one."
    return {"id": "components", "title": "Components", "text": text, "blocks": [table]}


def _key_section(result: AttackFigures) -> Section:
    rows: list[Fact] = [
        {"name": "entries found with the key", "value": result["rate"]},
        {"name": "entries found by guessing", "value": result["baseline"]},
    ]
    text = "What the holder of the key, or a thief, finds by sparse reconstruction."
    return {
        "id": "key",
        "part": "identifiability",
        "title": "If the key leaks",
        "text": text,
        "blocks": [{"type": "facts", "rows": rows}],
        "owner_only": True,
    }


# The search: ``tulle sketch --target-risk``. The risk goes up and down with the draw, so that every
# value of a list is tried, and one counts if the next larger one passes too.

_MOST_SUPPRESSED = 0.5  # of the records: beyond, there is little left to mine
TRIED: dict[str, tuple[float, ...]] = {
    "delta": (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0),
    "k": (3, 5, 10, 20, 40, 80, 160, 320),
}
_IN_A_ROW = 3  # that pass: larger ones hide more, and leave less


def find_settings(
    name: str,
    records: SparseRecords,
    target: float,
    rng: np.random.Generator,
    beside: pl.DataFrame | None = None,
    **parameters: Any,
) -> tuple[list[float], list[dict[str, Any]]]:
    """Look for the values of ``name`` (delta, or k) with at most this risk, the smallest first.

    The risk is that of the best attack, beyond what guessing gets. All that were tried come second.
    """
    from tulle.sketch._records import SparseRecords, unit_rows

    # as many as the finished sketches are judged by: among fewer, people are easier to find
    rows = np.sort(rng.permutation(records.matrix.shape[0])[:RECORDS])
    drawn = SparseRecords(records.matrix[rows], records.terms)
    drawn = unit_rows(drawn) if parameters.get("normalize") else drawn
    labels = None if beside is None else beside[rows]
    values = [value for value in TRIED[name] if name == "delta" or value < len(rows) / 2]
    tried: list[dict[str, Any]] = []
    passed: list[bool] = []
    with bar(f"Looking for {name}", len(values)) as advance:
        for value in values:
            row = _try(drawn, labels, name, value, rng, parameters)
            tried.append(row)
            passed.append(row["suppressed"] <= _MOST_SUPPRESSED and row["risk"] <= target)
            advance(note=f"{name} {value:g}: risk {row['risk']:.1%}")
            if row["suppressed"] > _MOST_SUPPRESSED or sum(passed[-_IN_A_ROW:]) == _IN_A_ROW:
                break
    held = passed if not tried or tried[-1]["suppressed"] <= _MOST_SUPPRESSED else passed[:-1]
    found = [tried[at][name] for at in range(len(held)) if held[at] and all(held[at + 1 : at + 2])]
    if not found:
        raise PrivacyError(
            f"no {name} that was tried has a risk of at most {target:.1%} without suppressing half "
            f"of the records. {told(name, tried)} Allow a larger --target-risk, or give the "
            "records more terms"
        )
    return found, tried


def told(name: str, tried: list[dict[str, Any]]) -> str:
    """Say what was tried, and what had the least risk."""
    if not tried:
        return f"Tried: none, for {name} neighbours need twice as many records."
    usable = [row for row in tried if row["suppressed"] <= _MOST_SUPPRESSED] or tried
    best = min(usable, key=lambda row: float(row["risk"]))
    measure, what = _of_use(tried)
    rows = "; ".join(
        f"{name} {row[name]:g}: risk {row['risk']:.1%}, {what} kept {row[measure] or 0:.1%}"
        for row in tried
    )
    return f"Tried: {rows}. The least risk has {name} {best[name]:g}."


def trade(name: str, tried: list[dict[str, Any]], found: list[float]) -> str:
    """Say what is to be had, where nothing that was tried passes both verdicts; else nothing."""
    measure, what = _of_use(tried)
    kept = {row[name]: float(row[measure] or 0.0) for row in tried}
    risk = {row[name]: row["risk"] for row in tried}
    useful = [d for d in kept if (graded(measure, kept[d], None) or ("",))[0] != "bad"]
    if not found or set(useful) & set(found):
        return ""
    best, most = max(found, key=kept.__getitem__), max(useful or [max(kept, key=kept.__getitem__)])
    step = (
        f"No {name} that was tried passes both verdicts: of those within the risk, {name} "
        f"{best:g} is the best ({kept[best]:.1%} of the {what} kept, risk {risk[best]:.1%}); "
        f"{kept[most]:.1%} are kept with {name} {most:g}, at a risk of {risk[most]:.1%}."
    )
    return f"{step} {CLASSES}" if measure == "neighbour_recall" else step


def _of_use(tried: list[dict[str, Any]]) -> tuple[str, str]:
    """Return what trials are compared by, and its name: classes, where a label is kept."""
    if any(row.get("classes_kept") is not None for row in tried):
        return "classes_kept", "classes"
    return "neighbour_recall", "nearest neighbours"


def _try(
    records: SparseRecords,
    beside: pl.DataFrame | None,
    name: str,
    value: float,
    rng: np.random.Generator,
    parameters: dict[str, Any],
) -> dict[str, Any]:
    from tulle._metrics.sketches import neighbour_recall
    from tulle.sketch._records import SparseRecords as Some
    from tulle.sketch.sketcher import Sketcher

    sketcher = Sketcher(**{**parameters, name: value}, key=SecretKey.generate()).fit(records)
    sketches = sketcher.transform(records)
    released = np.flatnonzero(~sketches.suppressed)
    row: dict[str, Any] = {
        name: value,
        "suppressed": float(sketches.suppressed.mean()),
        "median_components": None,
        "neighbour_recall": None,
        "classes_kept": None,
        "risk": 0.0,
    }
    if len(released) > 1:
        seen, part = sketches[released], Some(records.matrix[released], records.terms)
        signs = signs_of(sketcher, part, seen.shape[1])
        attacks = attacks_of(seen, part.matrix, signs, rng)
        row["median_components"] = float(np.median(seen.lengths))
        row["neighbour_recall"] = float(neighbour_recall(seen, part.matrix, rng))
        kept = labels_kept(seen, part.matrix, beside, released, rng)
        row["classes_kept"] = kept if math.isfinite(kept) else None
        row["risk"] = max(0.0, *(float(result["risk"]) for result in attacks.values()))
    return row
