"""``tulle audit``: two or three table files in, a report and the state of the gates out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tulle._choices import GATES
from tulle._commands._columns import words_of
from tulle._commands._options import Options, resolve
from tulle._commands._sources import check_files
from tulle._report.editions import K
from tulle.errors import PrivacyError
from tulle.io._formats import display_name, format_of
from tulle.releases import has_manifest, read_manifest, verify_release
from tulle.table.policy import load_policy
from tulle.table.schema import Column

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    import polars as pl

    from tulle._report.model import Guarantee, Promise
    from tulle._types import FilePath
    from tulle.auditing import Audit


@dataclass(frozen=True)
class Auditing(Options):
    """The options of ``tulle audit``; those from ``max_linkage`` on are gates."""

    target: str | None = None
    k: int = K
    attempts: int | None = None
    seed: int | None = None
    max_linkage: float | None = None
    max_copies: float | None = None
    max_inference: float | None = None
    max_membership: float | None = None
    max_singling_out: float | None = None
    min_accuracy_ratio: float | None = None


def audit_files(
    original: FilePath,
    release: FilePath,
    *,
    control: FilePath | None = None,
    policy: FilePath | None = None,
    report: FilePath | None = None,
    edition: str = "owner",
    command: str = "",
    force: bool = False,
    **given: Any,
) -> Audit:
    """Audit table files, and write ``report`` if given.

    Gates are measured here, not enforced: :func:`check_outcome` does that.

    Options (target, k, attempts, seed) and gates that are not given come from the section
    ``[audit]`` of the policy. Roles come from the policy, else from the manifest of the
    release, else from guesses at the columns that the release left out.
    """
    for file in (original, release):
        format_of(file)
    # an original may be audited against itself
    reads = {os.path.realpath(p): p for p in (original, release, control, policy) if p is not None}
    check_files(reads, report=report, force=force)
    options = resolve("audit", Auditing(), policy, given)
    limits = {name: getattr(options, name) for name in GATES}

    from tulle.auditing import audit, gate_rows
    from tulle.auditing._gates import check_limits
    from tulle.io.read import codes_as_text, read_like, read_table
    from tulle.table.inference import is_opaque

    with options.naming():
        check_limits(limits, control=control is not None)
    files = [original, release] if control is None else [original, release, control]
    table = read_table(original)
    others = [read_like(file, table, original) for file in files[1:]]
    known = _known_columns(table, others[0], release, policy)
    table, released, *strangers = codes_as_text([table, *others], files, words_of(known.values()))
    opaque = [name for name, dtype in table.schema.items() if is_opaque(dtype)]
    table = table.drop(name for name in opaque if name not in released.columns)
    with options.naming():
        found = audit(
            table,
            released,
            control=strangers[0] if strangers else None,
            policy={name: entry for name, entry in known.items() if name in table.columns},
            random_state=options.seed,
            target=options.target,
            k=options.k,
            attempts=options.attempts,
            title=f"Audit of {os.path.basename(display_name(release))}",
        )
    found = found.extended(guarantee=_guarantee(release), command=command)
    found = found.extended(gates=gate_rows(found.result, limits))
    if report is not None:
        found.save(report, edition=edition, force=force)
    return found


def check_outcome(found: Audit) -> None:
    """Raise an error if a gate failed, or if the release is not what its manifest says."""
    from tulle.auditing import check_gates

    check_gates(found.result.get("gates", []))
    guarantee = found.result.get("guarantee")
    broken = [row["name"] for row in guarantee["rows"] if not row["holds"]] if guarantee else []
    if broken:
        raise PrivacyError(f"the release does not match its manifest: {', '.join(broken)}")


def attack_rows(found: Audit) -> list[dict[str, Any]]:
    """Return the attacks as rows for a summary."""
    return [
        {
            "attack": name,
            "rate": attack["rate"],
            "low": attack["low"],
            "high": attack["high"],
            "baseline": attack["baseline"],
            "control": attack["control"],
            "risk": attack["risk"],
        }
        for name, attack in found.result["attacks"].items()
    ]


def _known_columns(
    table: pl.DataFrame, released: pl.DataFrame, release: FilePath, policy: FilePath | None
) -> dict[str, Any]:
    """Return what is known of the columns: a Column each, or only a role."""
    columns = () if policy is None else load_policy(policy, table.columns).columns
    if columns:
        return {column.name: column for column in columns}
    if has_manifest(release):
        entries = read_manifest(release).columns
        return {
            name: _from_manifest(name, entry)
            for name, entry in entries.items()
            if name in table.columns and entry.get("role") is not None
        }
    left_out = [name for name in table.columns if name not in released.columns]
    from tulle.table.inference import infer_columns

    guessed = infer_columns(table.select(left_out)) if left_out else []
    return {c.name: c for c in guessed if not c.role.released}


def _from_manifest(name: str, entry: Mapping[str, Any]) -> Column | str:
    try:
        told = {key: entry[key] for key in ("missing", "codes", "format") if key in entry}
        words = {"name": name, "kind": entry["kind"], "role": entry["role"]}
        return Column.from_json(words | told)
    except (KeyError, ValueError, TypeError):
        return str(entry["role"])  # an unknown one is named by the audit


def _guarantee(release: FilePath) -> Guarantee | None:
    """Return what the release's manifest guarantees, and whether the file still matches it."""
    if not has_manifest(release):
        return None
    made = read_manifest(release)
    rows: list[Promise] = [
        {"name": row["check"], "asked": True, "found": row["detail"], "holds": row["holds"]}
        for row in verify_release(release)
    ]
    return {"text": f"Made by {made.method}; its manifest says:", "rows": rows}
