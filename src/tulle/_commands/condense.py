"""``tulle condense``: a table in, a look-alike table with its manifest (and report) out."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._commands._columns import column_of, plan_columns, without_opaque, words_of
from tulle._commands._options import DEFAULTS, check_feasible, check_files, is_class, refuse_unused
from tulle._commands._sources import source_entry, sources_read, writing_beside
from tulle._random import seed_policy
from tulle._types import FilePath
from tulle.auditing._measures import covariance_compatibility
from tulle.auditing._pictures import group_section, notes_section
from tulle.auditing._tables import Aligned, align
from tulle.auditing.audit import Audit, audited
from tulle.condense.class_condenser import ClassCondenser
from tulle.condense.condenser import Condenser
from tulle.errors import DataError
from tulle.io._formats import display_name
from tulle.io.read import codes_as_text, read_like, read_table
from tulle.io.write import put_table
from tulle.releases import Manifest, write_release
from tulle.table.schema import Column, Role

LIMITS = (
    "What all members of a group share: it shows in the group's mean.",
    "The last member of a group, from somebody who knows all the others.",
    "The lowest and highest value of each column, unless the policy gives public bounds.",
)


class Condensed(NamedTuple):
    """What is to be said of a finished release."""

    summary: dict[str, Any]
    levels: list[dict[str, Any]]
    notes: list[str]
    audit: Audit | None  # if there is a report


def condense(
    source: FilePath,
    output: FilePath,
    *,
    policy: FilePath | None = None,
    levels: str | None = None,
    target: str | None = None,
    report: FilePath | None = None,
    control: FilePath | None = None,
    command: str = "",
    force: bool = False,
    **options: Any,
) -> Condensed:
    """Condenses a table file and writes the release, with ``report`` an audit of it too.

    ``control`` are records that stayed out of the source, for the audit. Options left at None
    follow the policy, else the defaults.
    """
    check_files(source, output, policy, report, control, force)
    original = read_table(source)
    if original.height == 0:
        raise DataError(f"{display_name(source)} has no records: there is nothing to condense")
    entry = source_entry(source, original.height)  # before it can change
    columns, wanted = plan_columns(
        original, policy, "condense", DEFAULTS, options, target=target, levels=levels
    )
    refuse_unused(original, columns, wanted, options)
    check_feasible(original, columns, wanted)
    original = without_opaque(original, columns)
    known = [column for column in columns if column.name in original.columns]
    condenser, release = _release(original, known, wanted)

    levels_table = [dict(row._asdict()) for row in condenser.level_summary_]
    manifest = _manifest(condenser, entry, original, release, columns, wanted, levels_table)
    tables = _compared(original.select(release.columns), release, source, control, columns)
    found = None if report is None else _audited(condenser, tables, wanted, command)
    summary = _summary(condenser, tables, found)
    write_release(
        output,
        lambda file: put_table(release, file, output),
        manifest,
        sources=sources_read(source, policy, control),
        force=force,
    )
    if found is not None and report is not None:
        with writing_beside(f"the release {display_name(output)} is there", report):
            found.save(report, force=force)
    return Condensed(summary, levels_table, list(condenser.notes_), found)


def _release(
    original: pl.DataFrame, columns: list[Column], wanted: dict[str, Any]
) -> tuple[Any, pl.DataFrame]:
    """The fitted condenser and the released table, columns in their old order."""
    template = Condenser(
        wanted["k"] or wanted["min_group"] or 10,
        grouping=wanted["grouping"],
        time_budget=wanted["time"],
        synthesis=wanted["synthesis"],
        exact_moments=wanted["exact_moments"],
        on_infeasible=wanted["on_infeasible"],
        columns=[c for c in columns if c.role is not Role.TARGET or not is_class(c, original)],
        random_state=wanted["seed"],
    )
    target = column_of(columns, Role.TARGET)
    if target is None or not is_class(target, original):
        return template, template.fit_resample(original)
    by_class = ClassCondenser(
        template,
        k=wanted["k"],
        min_group=10
        if wanted["k"] is None and wanted["min_group"] is None
        else wanted["min_group"],
        small_classes=wanted["small_classes"],
        random_state=wanted["seed"],
    )
    if original.width == 1:
        raise DataError(
            f"there is no column beside the target '{target.name}': nothing to condense"
        )
    X_new, y_new = by_class.fit_resample(original.drop(target.name), original[target.name])
    whole = X_new.with_columns(pl.Series(target.name, y_new))
    return by_class, whole.select([name for name in original.columns if name in whole.columns])


def _summary(condenser: Any, tables: Aligned, found: Audit | None) -> dict[str, Any]:
    counts = condenser.counts_
    name = "covariance_compatibility"
    measured = found.result["metrics"] if found else {name: covariance_compatibility(tables)}
    return {
        "records": len(tables.original),
        "released": len(tables.release),
        "columns_released": len(tables.columns),
        "groups": len(counts),
        "smallest_group": int(counts.min()),
        "median_group": float(np.median(counts)),
        "largest_group": int(counts.max()),
        "information_loss": float(condenser.information_loss_),
        name: measured.get(name, math.nan),
        "degenerate_groups": int(condenser.n_degenerate_),
        "suppressed": int(condenser.n_suppressed_),
        "verbatim": int(condenser.n_verbatim_),
    }


def _manifest(
    condenser: Any,
    source: dict[str, Any],
    original: pl.DataFrame,
    release: pl.DataFrame,
    columns: list[Column],
    wanted: dict[str, Any],
    levels: list[dict[str, Any]],
) -> Manifest:
    by_class = isinstance(condenser, ClassCondenser)
    sizes = condenser.counts_
    asked = column_of(columns, Role.LEVEL) is not None
    k = None if asked else condenser.k_ if by_class else condenser.k
    return Manifest(
        method="class-wise condensation" if by_class else "condensation",
        parameters={name: value for name, value in wanted.items() if name != "seed"} | {"k": k},
        guarantee={"every group at least as large as its members' levels": True},
        verified={
            "groups at least as large as their levels": bool((sizes >= condenser.levels_).all()),
            "smallest group": int(sizes.min()),
            "smallest group for each level": levels,
        },
        counts={
            "records": original.height,
            "released": release.height,
            "groups": len(sizes),
            "suppressed": int(condenser.n_suppressed_),
            "verbatim": int(condenser.n_verbatim_),
            "degenerate groups": int(condenser.n_degenerate_),
        },
        columns={c.name: {"kind": c.kind.value, "role": c.role.value} for c in columns},
        source=source,
        output={"records": release.height, "columns": release.columns},
        seed=seed_policy(wanted["seed"]),
    )


def _compared(
    original: pl.DataFrame,
    release: pl.DataFrame,
    source: FilePath,
    control: FilePath | None,
    columns: list[Column],
) -> Aligned:
    """Return original, release and, if there is one, control as a summary and an audit see them."""
    policy = [column for column in columns if column.name in release.columns]
    if control is None:
        return align(original, release, None, policy)
    strangers = read_like(control, original, source, release.columns)
    original, release, strangers = codes_as_text(
        [original, release, strangers], (source, control), words_of(columns)
    )
    return align(original, release, strangers, policy)


def _audited(condenser: Any, tables: Aligned, wanted: dict[str, Any], command: str) -> Audit:
    """The audit, with what only the maker of the release knows."""
    smallest = int(condenser.levels_.min())
    found = audited(tables, wanted["seed"], k=max(smallest, 2), title="Condensed table")
    return found.extended(
        guarantee={
            "text": "Nobody stands alone. Every released record was drawn from the mean and "
            "covariance of a group at least as large as each of its members asked for.",
            "rows": [
                {
                    "name": f"smallest group of those who asked for {row.level:,}",
                    "asked": row.level,
                    "found": row.smallest_group,
                    "holds": row.smallest_group >= row.level,
                }
                for row in condenser.level_summary_
            ],
        },
        metrics={"information_loss": float(condenser.information_loss_)},
        sections=[
            group_section(condenser.counts_, condenser.levels_),
            *notes_section(condenser.notes_),
        ],
        limits=list(LIMITS),
        command=command,
        provenance={"release seed": seed_policy(wanted["seed"])},
    )
