"""``tulle sketch``: texts or baskets in, sketches with their manifest (and report) out."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tulle.attacks.sketches import (
    signs_guessed,
    signs_learnt,
    sketch_linkage,
    sketch_reconstruction,
)
from tulle.auditing.result import Audit
from tulle.errors import DataError, PrivacyError
from tulle.files import refuse_existing
from tulle.keys import SecretKey
from tulle.metrics.sketches import DotErrors, dot_errors, neighbour_recall
from tulle.random import as_generator
from tulle.releases import check_target
from tulle.sketch.records import Records, as_records
from tulle.sketch.sketcher import Sketcher
from tulle.sketch.sketches import Sketches
from tulle.tables.policy import load_policy
from tulle.workflows.sources import source_entry

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
LIMITS = (
    "Somebody who has the key: attributes of every record can be estimated with it.",
    "Somebody who knows the records and the sketches of some people: the key's signs can be "
    "learnt from them, the better the more people are known.",
    "How many components a record has: it tells its length (delta) or how lonely it is "
    "(k-variance). Components of counts also have the parity of the record's sum.",
    "Duplicates: equal records have equal sketches.",
)
_KNOWN = 20  # people that the intruder of the report knows
_TARGETS = 100  # records that the report tries to reconstruct


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

    A key file that is not there is made; without one, the key is thrown away at the end. Options
    left at None follow the policy, else the defaults.
    """
    sources = tuple(path for path in (source, policy, key_file) if path is not None)
    check_target(output, sources=sources, force=force)
    if report is not None:
        refuse_existing(report, force=force)
    wanted = DEFAULTS | ({} if policy is None else load_policy(policy).options("sketch", DEFAULTS))
    wanted |= {name: value for name, value in options.items() if value is not None}
    key, is_new = _key(key_file)
    sketcher = Sketcher(**wanted, key=key)
    records = as_records(os.fspath(source), wanted["text"])
    if records is None:
        raise DataError(f"{source} holds no records")
    sketches = sketcher.fit(records).transform(records)
    if sketches.suppressed.all():
        raise PrivacyError(
            f"all {len(sketches)} records would be suppressed, nothing was written: "
            "weaken the guarantee (lower --delta, --criterion definition)"
        )
    if is_new and key_file is not None:
        key.save(key_file)
    sketches.save(output, source=source_entry(source, len(sketches)), sources=sources, force=force)
    if report is not None:
        _audited(sketcher, records, sketches, seed, command).save(report, force=force)
    return Sketched(_summary(sketcher, sketches), _components(sketches), _notes(key_file, is_new))


def _key(key_file: FilePath | None) -> tuple[SecretKey, bool]:
    if key_file is not None and Path(key_file).exists():
        return SecretKey.load(key_file), False
    if key_file is not None:
        refuse_existing(key_file, force=False)
    return SecretKey.generate(), True


def _notes(key_file: FilePath | None, is_new: bool) -> list[str]:
    if key_file is None:
        return ["The key was thrown away: nobody can reconstruct, or add comparable sketches."]
    made = "made, keep it secret" if is_new else "used"
    return [f"key       {key_file} ({made})"]


def _summary(sketcher: Sketcher, sketches: Sketches) -> dict[str, Any]:
    hidden = int(sketches.suppressed.sum())
    released = sketches.lengths[~sketches.suppressed]
    asked = {n: v for n, v in sketches.provenance["guarantee"].items() if v is not None}
    return {
        **asked,
        "records": len(sketches),
        "released": len(sketches) - hidden,
        "suppressed": hidden,
        "smallest_components": int(released.min()),
        "median_components": float(np.median(released)),
        "largest_components": int(released.max()),
        "verified": "; ".join(sketches.provenance["verified"]),
    }


def _components(sketches: Sketches) -> list[dict[str, Any]]:
    """How many records have how many components, in powers of two."""
    lengths = sketches.lengths
    edges = [0, *(2**power for power in range(int(lengths.max()).bit_length() + 1))]
    rows = []
    for low, high in pairwise(edges):
        count = int(np.sum((lengths >= low) & (lengths < high)))
        name = "suppressed" if low == 0 else str(low) if high == low + 1 else f"{low}-{high - 1}"
        rows.append({"components": name, "records": count, "share": count / len(lengths)})
    return rows


def _audited(
    sketcher: Sketcher, records: Records, sketches: Sketches, seed: int | None, command: str
) -> Audit:
    rng = as_generator(seed)
    matrix = records.matrix
    errors = dot_errors(sketches, matrix, rng)
    columns = np.arange(matrix.shape[1]) if records.terms is None else list(records.terms)
    signs = sketcher.signs(columns, sketches.shape[1])
    with_key = sketch_reconstruction(sketches, matrix, signs, rng, attempts=_TARGETS)
    return Audit(
        {
            "title": "Sketches",
            "summary": f"{len(sketches):,} records became sketches; "
            f"{int(sketches.suppressed.sum()):,} were suppressed.",
            "guarantee": {
                "text": "Checked on every record or pair before anything was written.",
                "rows": [
                    {"name": name, "asked": True, "found": holds, "holds": bool(holds)}
                    for name, holds in sketches.provenance["verified"].items()
                ],
            },
            "k": 10,
            "metrics": {
                "error_of_dot_products_over_prediction": errors.ratio,
                "neighbour_recall": neighbour_recall(sketches, matrix, rng),
                "suppressed_share": float(sketches.suppressed.mean()),
            },
            "attacks": _attacks(sketches, matrix, rng),
            "sections": [
                _error_section(errors),
                _component_section(sketches),
                _key_section(with_key.to_dict()),
            ],
            "limits": list(LIMITS),
            "command": command,
            "provenance": {"audit seed": "operating system" if seed is None else str(seed)},
        }
    )


def _attacks(sketches: Sketches, matrix: Any, rng: np.random.Generator) -> dict[str, Any]:
    seen = np.flatnonzero(~sketches.suppressed)
    known = rng.choice(seen, min(_KNOWN, len(seen) // 2), replace=False)
    guessed = signs_guessed(matrix.shape[1], sketches.shape[1], rng)
    learnt = signs_learnt(sketches, matrix, known) if len(known) else guessed
    results = {
        "sketch_linkage:no person known": sketch_linkage(sketches, matrix, rng),
        f"sketch_linkage:{len(known)} people known": sketch_linkage(
            sketches, matrix, rng, known=known
        ),
        "sketch_reconstruction:no key": sketch_reconstruction(
            sketches, matrix, guessed, rng, attempts=_TARGETS, holder="a guess of the signs"
        ),
        f"sketch_reconstruction:{len(known)} people known": sketch_reconstruction(
            sketches,
            matrix,
            learnt,
            rng,
            attempts=_TARGETS,
            holder=f"signs learnt from {len(known)} known people",
        ),
    }
    return {name: {**result.to_dict(), "name": name} for name, result in results.items()}


def _error_section(errors: DotErrors) -> dict[str, Any]:
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
    block = {"type": "chart", "chart": "error", "title": "Error of dot products", "rows": rows}
    return {"id": "errors", "title": "What a miner can rely on", "text": text, "blocks": [block]}


def _component_section(sketches: Sketches) -> dict[str, Any]:
    rows = [list(row.values()) for row in _components(sketches)]
    table = {
        "type": "table",
        "columns": ["components", "records", "share"],
        "rows": rows,
        "counts": ["records"],
    }
    text = "Fewer components hide more. Suppressed records would have shown too much with one."
    return {"id": "components", "title": "Components", "text": text, "blocks": [table]}


def _key_section(result: dict[str, Any]) -> dict[str, Any]:
    rows = [
        {"name": "entries found with the key", "value": result["rate"]},
        {"name": "entries found by guessing", "value": result["baseline"]},
    ]
    text = "What the holder of the key, or whoever stole it, finds by sparse reconstruction."
    blocks = [{"type": "facts", "rows": rows}]
    return {
        "id": "key",
        "title": "If the key leaks",
        "text": text,
        "blocks": blocks,
        "owner_only": True,
    }
