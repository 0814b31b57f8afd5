"""``tulle sketch``: texts or baskets in, sketches with their manifest (and report) out."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tulle._checks import check_flag, check_share
from tulle._commands import _sketch_search
from tulle._commands._decision import UNAUDITED, Job, Refused, decided, with_verdict
from tulle._commands._options import Options, resolve
from tulle._commands._sources import source_entry
from tulle._plurals import counted
from tulle._progress import bar
from tulle._random import as_generator
from tulle._report.editions import K
from tulle._types import FilePath
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.keys import SecretKey

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    import polars as pl

    from tulle._attacks.result import AttackFigures, AttackResult
    from tulle._metrics.sketches import DotErrors
    from tulle._report.model import Chart, Fact, Gate, Guarantee, Promise, Section, Table
    from tulle.auditing.audit import Audit
    from tulle.releases import Manifest
    from tulle.sketch._records import SparseRecords
    from tulle.sketch.sketcher import Sketcher
    from tulle.sketch.sketches import Sketches

# The report of ``tulle sketch``: what a miner can rely on, and what intruders get. Measures and
# attacks look at a sample: at most 20,000 released records, drawn evenly, and for the
# reconstruction at most 50,000 columns, the most frequent ones. A shorter list of candidates and
# fewer columns make the attacks easier, never harder.

LIMITS = (
    "Someone who has the key: with it, attributes of every record can be estimated.",
    "Someone who knows the records and the sketches of some people: the key's signs can be "
    "learnt from them, better the more people are known.",
    "How many components a record has: it reveals its length (delta) or how isolated it is "
    "(k-variance). Components of counts also have the parity of the record's sum.",
    "Duplicates: equal records have equal sketches, or one is a prefix of the other.",
)
_RECORDS = 20_000  # looked at
_QUICK_RECORDS = 2_000  # for a verdict without a report
_COLUMNS = 50_000  # that the reconstruction looks for
_KNOWN = 20  # people that the intruder of the report knows
_TARGETS = 100  # records that the report tries to reconstruct


class Sample:
    """Released records with their sketches, drawn uniformly from all, in bounded memory."""

    def __init__(self, rng: np.random.Generator, most: int = _RECORDS) -> None:
        self.rng, self.most = rng, most
        self._lengths: list[npt.NDArray[np.int64]] = []
        self._parts: list[tuple[npt.NDArray[np.float64], SparseRecords, Sketches]] = []

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Return how many components each record has, of all that were offered."""
        return np.concatenate(self._lengths)

    def add(self, records: SparseRecords, sketches: Sketches) -> None:
        """Draw a number for each released record and keep the records with the smallest numbers."""
        from tulle.sketch._records import SparseRecords

        self._lengths.append(sketches.lengths)
        seen = np.flatnonzero(~sketches.suppressed)
        rows = SparseRecords(records.matrix[seen], records.terms)
        self._parts.append((self.rng.random(len(seen)), rows, sketches[seen]))
        self._thin()

    def taken(self) -> tuple[SparseRecords, Sketches]:
        """Return the records of the sample, in their order."""
        from tulle.sketch._records import joined
        from tulle.sketch.sketches import Sketches

        _, records, sketches = zip(*self._parts)
        whole = records[0] if len(records) == 1 else joined(records)
        return whole, Sketches.stacked(sketches)

    def _thin(self) -> None:
        from tulle.sketch._records import SparseRecords, joined

        draws = np.concatenate([part[0] for part in self._parts])
        if len(draws) <= self.most:
            return
        limit = np.partition(draws, self.most - 1)[self.most - 1]
        thinner = []
        for numbers, records, sketches in self._parts:
            stay = np.flatnonzero(numbers <= limit)
            rows = SparseRecords(records.matrix[stay], records.terms)
            thinner.append((numbers[stay], joined([rows]), sketches[stay]))
        self._parts = thinner


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
    seed: int | None,
    command: str,
) -> Audit:
    """Audit a release from a sample of it; this was verified of all."""
    from tulle._metrics.sketches import dot_errors, neighbour_recall
    from tulle.auditing.audit import Audit

    rng, lengths = sample.rng, sample.lengths
    records, sketches = sample.taken()
    matrix = records.matrix
    errors = dot_errors(sketches, matrix, rng)
    signs = _signs(sketcher, records, sketches.shape[1])
    attacks, with_key = _attacks(sketches, matrix, signs, rng) if attacked else ({}, None)
    hidden = int(np.sum(lengths == 0))
    return Audit(
        {
            "title": "Sketches",
            "summary": f"{counted(len(lengths), 'record')} sketched, {hidden:,} suppressed. "
            f"Measured and attacked: {counted(len(sketches), 'record')}, "
            f"{counted(len(signs.columns), 'column')}.",
            "guarantee": _guarantee(verified),
            "k": 10,
            "metrics": _metrics(errors, neighbour_recall(sketches, matrix, rng), lengths),
            "attacks": attacks,
            "sections": [
                _error_section(errors),
                _component_section(lengths),
                *([] if with_key is None else [_key_section(with_key)]),
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


def _guarantee(verified: Mapping[str, Any]) -> Guarantee:
    rows: list[Promise] = [
        {"name": name, "asked": True, "found": holds, "holds": bool(holds)}
        for name, holds in verified.items()
    ]
    return {"text": "Checked on every record or pair before anything was written.", "rows": rows}


def _metrics(errors: DotErrors, recall: float, lengths: Any) -> dict[str, float]:
    figures = {
        "error_of_dot_products_over_prediction": errors.ratio,
        "neighbour_recall": recall,
        "suppressed_share": float(np.mean(lengths == 0)),
    }
    # one record alone has no neighbours
    return {name: value for name, value in figures.items() if math.isfinite(value)}


def components(lengths: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    """Count how many records have how many components, in powers of two."""
    edges = [0, *(2**power for power in range(int(lengths.max()).bit_length() + 1))]
    rows = []
    for low, high in pairwise(edges):
        count = int(np.sum((lengths >= low) & (lengths < high)))
        name = "suppressed" if low == 0 else str(low) if high == low + 1 else f"{low}-{high - 1}"
        rows.append({"components": name, "records": count, "share": count / len(lengths)})
    return rows


def attacks_on(
    sketcher: Sketcher, records: SparseRecords, sketches: Sketches, rng: np.random.Generator
) -> tuple[dict[str, AttackFigures], AttackFigures]:
    """Return what intruders without the key get, and what one with the key gets."""
    signs = _signs(sketcher, records, sketches.shape[1])
    return _attacks(sketches, records.matrix, signs, rng)


def _signs(sketcher: Sketcher, records: SparseRecords, components: int) -> Signs:
    matrix = records.matrix
    frequencies = np.bincount(matrix.indices, minlength=matrix.shape[1])
    columns = np.sort(np.argsort(-frequencies, kind="stable")[:_COLUMNS])
    terms = records.terms
    names = columns if terms is None else [terms[column] for column in columns]
    return Signs(columns, sketcher.signs(names, components))


def _attacks(
    sketches: Sketches, matrix: Any, signs: Signs, rng: np.random.Generator
) -> tuple[dict[str, AttackFigures], AttackFigures]:
    """Return what intruders without the key get, and what one with the key gets."""
    from tulle._attacks.sketches import (
        signs_guessed,
        signs_learnt,
        sketch_linkage,
        sketch_reconstruction,
    )

    seen = np.flatnonzero(~sketches.suppressed)
    known = rng.choice(seen, min(_KNOWN, len(seen) // 2), replace=False)
    guessed = signs_guessed(len(signs.columns), sketches.shape[1], rng)
    learnt = signs_learnt(sketches, matrix, known)[signs.columns] if len(known) else guessed
    sought = matrix[:, signs.columns]

    def reconstructed(table: npt.NDArray[Any], holder: str) -> AttackResult:
        return sketch_reconstruction(sketches, sought, table, rng, attempts=_TARGETS, holder=holder)

    people = f"{len(known)} people known"
    results = {
        "sketch_linkage:no person known": sketch_linkage(sketches, matrix, rng),
        f"sketch_linkage:{people}": sketch_linkage(sketches, matrix, rng, known=known),
        "sketch_reconstruction:no key": reconstructed(guessed, "a guess of the signs"),
        f"sketch_reconstruction:{people}": reconstructed(
            learnt, f"signs learnt from {len(known)} known people"
        ),
    }
    with_key = reconstructed(signs.table, "the signs of the key").to_dict()
    return {name: {**result.to_dict(), "name": name} for name, result in results.items()}, with_key


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


@dataclass(frozen=True)
class Sketching(Options):
    """The options of ``tulle sketch``: the parameters of the Sketcher."""

    model: str = "delta"
    delta: float | None = None
    k: int = 10
    criterion: str = "definition"
    max_components: int = 256  # 0: as many as the guarantee allows
    normalize: bool = False
    graph: str = "exact"
    text: str = "text"
    audit: bool = True
    target_risk: float | None = None
    keep: tuple[str, ...] | list[str] = ()


_OF_PAIRS = ("k", "criterion", "graph")
_NOT_OF_SKETCHES = ("audit", "target_risk", "keep")
_PART = 20_000  # records whose components are in memory together


class Sketched(NamedTuple):
    """The outcome of a finished release."""

    summary: dict[str, Any]
    components: list[dict[str, Any]]
    notes: list[str]
    audit: Audit
    tried: list[dict[str, Any]]  # deltas, if one was looked for


def sketch(
    source: FilePath,
    output: FilePath,
    *,
    policy: FilePath | None = None,
    key_file: FilePath | None = None,
    report: FilePath | None = None,
    accept_risk: str | None = None,
    seed: int | None = None,
    sign_key: FilePath | None = None,
    command: str = "",
    force: bool = False,
    **given: Any,
) -> Sketched:
    """Sketch a file of texts or baskets, attack the sketches, and write them unless that is bad.

    The delta model reads the file in batches, in bounded memory; k-variance compares all records,
    and holds their entries (not their components) together. A key file that is not there is made;
    without one, the key is thrown away at the end. Options left at None follow the policy, else
    the defaults.
    """
    _refuse_folder(source)
    is_new = key_file is None or not Path(key_file).exists()
    new_key, old_key = (key_file, None) if is_new else (None, key_file)
    job = Job.opened(
        output, {"INPUT": source, "--policy": policy, "--key-file": old_key},
        report=report, sign_key=sign_key, accept_risk=accept_risk, command=command,
        writes={"the new --key-file": new_key}, force=force,
    )  # fmt: skip
    options = resolve("sketch", Sketching(), policy, given)
    _refuse_unused(options, report)

    from tulle.sketch.sketches import check_kind

    check_kind(output)
    key = SecretKey.generate() if old_key is None else SecretKey.load(old_key)
    given_ = options.values().items()
    parameters = {name: value for name, value in given_ if name not in _NOT_OF_SKETCHES}
    parameters["max_components"] = options.max_components or None
    beside, hidden = _beside(source, options)
    deltas, tried = _found_deltas(source, options, parameters, seed)
    remedy = _sketch_search.trade(tried, deltas if tried else [])
    run = _SketchRun(source, job, options, key, new_key, beside, seed, remedy)
    for delta in deltas:
        try:
            done = run.written(parameters | {"delta": delta})
            break
        except Refused as refused:
            if delta != deltas[-1]:
                continue
            job.save_report(refused.audit)
            raise _explained(refused, deltas, tried) from None
    job.save_report(done.audit, released=True)
    summary = _summary(done.manifest, done.lengths)
    notes = [*_notes(key_file, is_new), *_notes_of_kept(options, hidden)]
    return Sketched(summary, components(done.lengths), notes, done.audit, tried)


def _explained(refused: Refused, deltas: list[Any], tried: list[dict[str, Any]]) -> Refused:
    """Add to a refusal what the search for delta had found."""
    if not tried:
        return refused
    shown = ", ".join(f"{delta:g}" for delta in deltas)
    return Refused(
        refused.verdict,
        f"nothing was written. The finished sketches failed with delta {shown}, which had passed "
        f"on a sample. {_sketch_search.told(tried)} Give a --delta above {deltas[-1]:g}, or allow "
        "more risk",
    )


class _Written(NamedTuple):
    manifest: Manifest
    lengths: npt.NDArray[np.int64]
    audit: Audit


@dataclass(frozen=True)
class _SketchRun:
    """What stays the same for every delta that is written or refused."""

    source: FilePath
    job: Job
    options: Sketching
    key: SecretKey
    new_key: FilePath | None
    beside: pl.DataFrame | None
    seed: int | None
    remedy: str  # where no delta that was tried passes both verdicts

    def written(self, parameters: Mapping[str, Any]) -> _Written:
        """Sketch, attack and write; raise before anything is there if the verdict is bad."""
        from tulle.sketch.sketcher import Sketcher
        from tulle.sketch.sketches import put_sketches

        sketcher = Sketcher(**parameters, key=self.key)
        with self.options.naming():
            sketcher.check_parameters()
        sample = Sample(
            as_generator(self.seed), _RECORDS if self.job.report is not None else _QUICK_RECORDS
        )
        parts = _sketched(sketcher, _batches(self.source, self.options), sample)
        entry = source_entry(self.source, 0)  # before it can change
        with (
            self.options.naming(),
            _saving(self.key, self.new_key, self.job.output) as save_key,
            self.job.releasing() as draft,
        ):
            manifest = put_sketches(parts, draft.file, source=entry, beside=self.beside)
            made = self._audited(sketcher, sample, manifest.verified)
            decided(made, self.job.accepted)
            save_key()
            draft.finish(with_verdict(manifest, made, self.job.accepted))
        return _Written(manifest, sample.lengths, made)

    def _audited(self, sketcher: Sketcher, sample: Sample, promises: Mapping[str, Any]) -> Audit:
        options = self.options
        made = audited(
            sketcher, sample, promises, options.audit, seed=self.seed, command=self.job.command
        )
        gates = _target_gate(made, options.target_risk)
        context = dict(options.policy.context)
        return made.extended(
            context=context, accepted_risk=self.job.accepted, gates=gates, remedy=self.remedy
        )


def _target_gate(made: Audit, target: Any) -> list[Gate]:
    """Return the gate that ``--target-risk`` is for the finished release."""
    attacks = made.result.get("attacks", {})
    if target is None or not attacks:
        return []
    risk = max(float(attack["risk"]) for attack in attacks.values())
    limit = check_share("sketch", "target_risk", target)
    return [{"name": "target_risk", "limit": limit, "value": risk, "holds": risk <= limit}]


def _found_deltas(
    source: FilePath, options: Sketching, parameters: dict[str, Any], seed: int | None
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return the deltas to release with, the first that passes, and all that were tried."""
    from tulle.sketch._records import as_records

    if options.target_risk is None:
        return [options.delta], []
    with options.naming():
        target = check_share("sketch", "target_risk", options.target_risk)
    if options.model != "delta" or options.delta is not None:
        raise ParameterError(
            "looks for the delta of the model delta: leave out --delta and --model",
            subject=options.word("target_risk"),
        )
    records = as_records(os.fspath(source), options.text)
    assert records is not None
    return _sketch_search.find_deltas(records, target, as_generator(seed), **parameters)


def _beside(source: FilePath, options: Sketching) -> tuple[pl.DataFrame | None, int]:
    """Return the columns to keep next to the sketches, and how many of their cells are blanked.

    A label that fewer than ten records have would point to them.
    """
    if not options.keep:
        return None, 0
    import polars as pl

    from tulle.sketch._records import fields_beside

    if options.text in options.keep:
        raise ParameterError("cannot keep the text itself", subject=options.word("keep"))
    table = fields_beside(source, options.keep)
    common = table.with_columns(
        pl.when(pl.len().over(name) >= K).then(pl.col(name)).alias(name) for name in table.columns
    )
    blank = sum(common[name].null_count() - table[name].null_count() for name in table.columns)
    return common, blank


def _notes_of_kept(options: Sketching, hidden: int) -> list[str]:
    if not options.keep:
        return []
    notes = [f"Kept as they are, next to the sketches: {', '.join(options.keep)}"]
    if hidden:
        notes.append(
            f"{counted(hidden, 'value')} of kept columns that fewer than {K} records have "
            f"{'was' if hidden == 1 else 'were'} left out"
        )
    return notes


def _refuse_unused(options: Sketching, report: FilePath | None) -> None:
    """Raise for options the model would ignore; a policy may be for the other model."""
    with options.naming():
        check_flag("sketch", "audit", options.audit)
    if report is not None and not options.audit:
        raise ParameterError("--no-audit leaves out what --report is for: give one or the other")
    in_question = [name for name in _OF_PAIRS if name in options.words]
    if options.on_command_line("model"):
        in_question = [name for name in in_question if options.on_command_line(name)]
    if in_question and options.model == "delta":
        names = ", ".join(options.word(name) for name in in_question)
        raise ParameterError(
            f"{names}: only for the model k-variance, but the model is delta (--model)"
        )


def _refuse_folder(source: FilePath) -> None:
    if Path(source).is_dir():
        raise DataError(
            f"{source} is a folder: put its texts into one file, one per line (.txt), or as a "
            "field of JSON lines (.jsonl) or a column of a table (--text)"
        )


def _batches(source: FilePath, options: Sketching) -> Iterable[SparseRecords]:
    from tulle.sketch._records import as_records, record_batches

    if options.model == "delta":
        return record_batches(source, options.text)
    records = as_records(os.fspath(source), options.text)
    return [] if records is None else [records]


def _sketched(
    sketcher: Sketcher, batches: Iterable[SparseRecords], sample: Sample
) -> Iterator[Sketches]:
    """Yield the sketches of each batch, and offer them with their records to the sample."""
    from tulle.sketch._records import SparseRecords, unit_rows

    done = 0
    with bar("sketching", None) as advance:
        for batch in batches:
            records = unit_rows(batch) if sketcher.normalize else batch
            first = 0
            for part in sketcher.fit(records).transform_parts(records, _PART):
                rows = records.matrix[first : first + len(part)]
                sample.add(SparseRecords(rows, records.terms), part)
                first, done = first + len(part), done + len(part)
                advance(len(part), note=f"{done:,} records")
                yield part
    if not sample.lengths.any():
        raise PrivacyError(
            f"all {done} records would be suppressed and nothing was written: weaken the "
            "guarantee (lower --delta, --criterion definition)"
        )


@contextmanager
def _saving(
    key: SecretKey, path: FilePath | None, release: FilePath
) -> Iterator[Callable[[], None]]:
    """Yield what saves a new key; it is removed again if the release does not appear."""
    saved = []

    def save() -> None:
        if path is not None:
            key.save(path)
            saved.append(Path(path))

    try:
        yield save
    except BaseException:
        if not Path(release).exists():
            for file in saved:
                file.unlink(missing_ok=True)
        raise


def _notes(key_file: FilePath | None, is_new: bool) -> list[str]:
    if key_file is None:
        return ["The key was discarded: nobody can reconstruct records or add comparable sketches."]
    made = "created; keep it secret" if is_new else "used"
    return [f"key       {key_file} ({made})"]


def _summary(manifest: Manifest, lengths: npt.NDArray[np.int64]) -> dict[str, Any]:
    released = lengths[lengths > 0]
    return {
        **{name: value for name, value in manifest.guarantee.items() if value is not None},
        "records": len(lengths),
        "released": len(released),
        "suppressed": len(lengths) - len(released),
        "smallest_components": int(released.min()),
        "median_components": float(np.median(released)),
        "largest_components": int(released.max()),
        "verified": "; ".join(manifest.verified),
    }
