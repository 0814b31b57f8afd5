"""``tulle sketch``: texts or baskets in, sketches with their manifest (and report) out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tulle._checks import check_flag, check_share
from tulle._commands import _sketch_audit
from tulle._commands._decision import Done, Job, Refused, decided, with_verdict
from tulle._commands._options import Options, resolve
from tulle._commands._sources import source_entry
from tulle._plurals import counted
from tulle._progress import bar
from tulle._random import as_generator
from tulle._report.editions import K
from tulle._report.model import Gate
from tulle._types import FilePath
from tulle.auditing.audit import Audit
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.keys import SecretKey
from tulle.releases import Manifest

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    from tulle.sketch._records import SparseRecords
    from tulle.sketch.sketcher import Sketcher
    from tulle.sketch.sketches import Sketches


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
) -> Done:
    """Sketch a file of texts or baskets, attack the sketches, and write them unless that is bad.

    The delta model reads the file in batches, in bounded memory; k-variance compares all records,
    and holds their entries (not their components) together. A key file that is not there is made;
    without one, the key is thrown away at the end. Options left at None follow the policy, else
    the defaults.
    """
    if Path(source).is_dir():
        raise DataError(
            f"{source} is a folder: put its texts into one file, one per line (.txt), or as a "
            "field of JSON lines (.jsonl) or a column of a table (--text)"
        )
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
    setting = "delta" if options.model == "delta" else "k"
    values, tried = _found_settings(source, options, setting, parameters, seed, beside)
    remedy = _sketch_audit.trade(setting, tried, values if tried else [])
    run = _SketchRun(source, job, options, key, new_key, beside, seed, remedy)
    for value in values:
        try:
            done = run.written(parameters | {setting: value})
            break
        except Refused as refused:
            if value != values[-1]:
                continue
            job.save_report(refused.audit)
            if not tried:
                raise
            shown = ", ".join(f"{value:g}" for value in values)
            raise Refused(
                refused.verdict,
                f"nothing was written. The finished sketches failed with {setting} {shown}, which "
                f"had passed on a sample. {_sketch_audit.told(setting, tried)} Give a "
                f"--{setting} above {values[-1]:g}, or allow more risk",
            ) from None
    job.save_report(done.audit, released=True)
    notes = _notes(key_file, is_new, options, hidden)
    shares = _sketch_audit.components(done.lengths)
    tables = {"components": shares} | ({"tried": tried} if tried else {})
    summary = _summary(done.manifest, done.lengths)
    return Done(summary, tables, notes, done.audit.verdict, done.audit)


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
        from tulle.sketch._records import record_batches
        from tulle.sketch.sketcher import Sketcher
        from tulle.sketch.sketches import put_sketches

        sketcher = Sketcher(**parameters, key=self.key)
        with self.options.naming():
            sketcher.check_parameters()
        quick = self.job.report is None and self.options.target_risk is None
        most = _sketch_audit.QUICK_RECORDS if quick else _sketch_audit.RECORDS
        sample = _sketch_audit.Sample(as_generator(self.seed), most)
        if self.options.model == "delta":
            batches = record_batches(self.source, self.options.text)
        else:
            batches = iter([_whole(self.source, self.options)])
        parts = _sketched(sketcher, batches, sample)
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

    def _audited(
        self, sketcher: Sketcher, sample: _sketch_audit.Sample, promises: Mapping[str, Any]
    ) -> Audit:
        options = self.options
        made = _sketch_audit.audited(
            sketcher, sample, promises, options.audit,
            beside=self.beside, seed=self.seed, command=self.job.command,
        )  # fmt: skip
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


def _found_settings(
    source: FilePath,
    options: Sketching,
    setting: str,
    parameters: dict[str, Any],
    seed: int | None,
    beside: pl.DataFrame | None,
) -> tuple[list[Any], list[dict[str, Any]]]:
    """List the deltas (or k) to release with, the first that passes, and all that were tried."""
    if options.target_risk is None:
        return [getattr(options, setting)], []
    with options.naming():
        target = check_share("sketch", "target_risk", options.target_risk)
    if setting in options.words:
        raise ParameterError(
            f"looks for {setting}: leave out {options.word(setting)}",
            subject=options.word("target_risk"),
        )
    records, rng = _whole(source, options), as_generator(seed)
    return _sketch_audit.find_settings(setting, records, target, rng, beside, **parameters)


def _beside(source: FilePath, options: Sketching) -> tuple[pl.DataFrame | None, int]:
    """Return the columns to keep next to the sketches, and how many of their cells are blanked.

    A label that fewer than ten records have would point to them.
    """
    if not options.keep:
        return None, 0
    from tulle.sketch._records import fields_beside

    if options.text in options.keep:
        raise ParameterError("cannot keep the text itself", subject=options.word("keep"))
    table = fields_beside(source, options.keep)
    common = table.with_columns(
        pl.when(pl.len().over(name) >= K).then(pl.col(name)).alias(name) for name in table.columns
    )
    blank = sum(common[name].null_count() - table[name].null_count() for name in table.columns)
    return common, blank


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


def _whole(source: FilePath, options: Sketching) -> SparseRecords:
    from tulle.sketch._records import as_records

    records = as_records(os.fspath(source), options.text)
    assert records is not None
    return records


def _sketched(
    sketcher: Sketcher, batches: Iterable[SparseRecords], sample: _sketch_audit.Sample
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


def _notes(key_file: FilePath | None, is_new: bool, options: Sketching, hidden: int) -> list[str]:
    """Say what became of the key, and what was kept next to the sketches."""
    made = "created; keep it secret" if is_new else "used"
    notes = [f"key       {key_file} ({made})"]
    if key_file is None:
        notes = [
            "The key was discarded: nobody can reconstruct records or add comparable sketches."
        ]
    if options.keep:
        notes.append(f"Kept as they are, next to the sketches: {', '.join(options.keep)}")
    if hidden:
        notes.append(
            f"{counted(hidden, 'value')} of kept columns that fewer than {K} records have "
            f"{'was' if hidden == 1 else 'were'} left out"
        )
    return notes


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
