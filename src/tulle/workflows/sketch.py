"""``tulle sketch``: texts or baskets in, sketches with their manifest (and report) out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.files import refuse_existing
from tulle.keys import SecretKey
from tulle.progress import bar
from tulle.random import as_generator
from tulle.releases import Manifest, check_target
from tulle.sketch.records import Records, as_records, record_batches
from tulle.sketch.sketcher import Sketcher
from tulle.sketch.sketches import Sketches
from tulle.sketch.storing import check_kind, write_sketches
from tulle.tables.policy import load_policy
from tulle.workflows.sketch_report import Sample, audited, components
from tulle.workflows.sources import check_names, source_entry, writing_beside

FilePath = str | os.PathLike[str]

DEFAULTS: dict[str, Any] = {
    "model": "delta",
    "delta": None,
    "k": 10,
    "criterion": "definition",
    "max_components": 256,
    "graph": "exact",
    "text": "text",
}


_OF_PAIRS = ("k", "criterion", "graph")
_PART = 20_000  # records whose components are in memory together


class Sketched(NamedTuple):
    """What is to be said of a finished release."""

    summary: dict[str, Any]
    components: list[dict[str, Any]]
    notes: list[str]


def sketch(
    source: FilePath,
    output: FilePath,
    *,
    policy: FilePath | None = None,
    key_file: FilePath | None = None,
    report: FilePath | None = None,
    seed: int | None = None,
    command: str = "",
    force: bool = False,
    **options: Any,
) -> Sketched:
    """Sketches a file of texts or baskets and writes the release, with ``report`` an audit too.

    The delta model reads the file in batches, in bounded memory; k-variance compares all records,
    and holds their entries (not their components) together. A key file that is not there is made;
    without one, the key is thrown away at the end. Options left at None follow the policy, else
    the defaults.
    """
    sources = tuple(path for path in (source, policy, key_file) if path is not None)
    check_target(output, sources=sources, force=force)
    check_kind(output)
    others = {"the input": source, "--policy": policy, "--key-file": key_file}
    check_names(output=output, report=report, others=others, force=force)
    wanted = _wanted(policy, options)
    key, is_new = _key(key_file)
    sketcher = Sketcher(**wanted, key=key)
    sketcher.check_parameters()
    sample = None if report is None else Sample(as_generator(seed))
    lengths: list[npt.NDArray[np.int64]] = []
    parts = _sketched(sketcher, _batches(source, wanted), lengths, sample)
    with _kept(key, key_file if is_new else None, output) as keep:
        manifest = write_sketches(
            chain(parts, keep), output, source=source_entry(source, 0), sources=sources, force=force
        )
    every = np.concatenate(lengths)
    if report is not None and sample is not None:
        made = audited(sketcher, sample, every, manifest.verified, seed=seed, command=command)
        with writing_beside(f"the release {output} is there", report):
            made.save(report, force=force)
    return Sketched(_summary(manifest, every), components(every), _notes(key_file, is_new))


def _wanted(policy: FilePath | None, options: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the estimator; one that the model would not look at is an error."""
    chosen = {name: value for name, value in options.items() if value is not None}
    planned = {} if policy is None else load_policy(policy).options("sketch", DEFAULTS)
    wanted = DEFAULTS | planned | chosen
    given = chosen if "model" in chosen else planned | chosen
    unused = [name for name in _OF_PAIRS if name in given]
    if unused and wanted["model"] == "delta":
        raise ParameterError(
            f"{', '.join(unused)}: for the model k-variance, and the model is delta (--model)"
        )
    return wanted


def _key(key_file: FilePath | None) -> tuple[SecretKey, bool]:
    if key_file is not None and Path(key_file).exists():
        return SecretKey.load(key_file), False
    if key_file is not None:
        refuse_existing(key_file, force=False)
    return SecretKey.generate(), True


def _batches(source: FilePath, wanted: dict[str, Any]) -> Iterable[Records]:
    if Path(source).is_dir():
        raise DataError(
            f"{source} is a folder: put its texts into one file, one a line (.txt), or as a field "
            "of JSON lines (.jsonl) or a column of a table (--text)"
        )
    if not Path(source).is_file():
        raise DataError(f"the file {source} does not exist")
    if wanted["model"] == "delta":
        return record_batches(source, wanted["text"])
    records = as_records(os.fspath(source), wanted["text"])
    return [] if records is None else [records]


def _sketched(
    sketcher: Sketcher,
    batches: Iterable[Records],
    lengths: list[npt.NDArray[np.int64]],
    sample: Sample | None,
) -> Iterator[Sketches]:
    """The sketches of each batch; their lengths are put down, their records offered."""
    done = 0
    with bar("sketching", None) as advance:
        for records in batches:
            first = 0
            for part in sketcher.fit(records).transform_parts(records, _PART):
                lengths.append(part.lengths)
                if sample is not None:
                    rows = records.matrix[first : first + len(part)]
                    sample.add(Records(rows, records.terms), part)
                first, done = first + len(part), done + len(part)
                advance(len(part), note=f"{done:,} records")
                yield part
    if not any(part.any() for part in lengths):
        raise PrivacyError(
            f"all {done} records would be suppressed, nothing was written: "
            "weaken the guarantee (lower --delta, --criterion definition)"
        )


@contextmanager
def _kept(key: SecretKey, path: FilePath | None, release: FilePath) -> Iterator[Iterator[Sketches]]:
    """No sketches, but to be asked for after all others: then the key is kept, just before they
    appear. It goes away again if they do not.
    """
    saved = []

    def keep() -> Iterator[Sketches]:
        if path is not None:
            key.save(path)
            saved.append(Path(path))
        yield from ()

    try:
        yield keep()
    except BaseException:
        if not Path(release).exists():
            for file in saved:
                file.unlink(missing_ok=True)
        raise


def _notes(key_file: FilePath | None, is_new: bool) -> list[str]:
    if key_file is None:
        return ["The key was thrown away: nobody can reconstruct, or add comparable sketches."]
    made = "made, keep it secret" if is_new else "used"
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
