"""``tulle condense``: a table in, a look-alike table with its manifest (and report) out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tulle._checks import check_choice, check_int
from tulle._choices import SMALL_CLASSES
from tulle._commands._columns import (
    class_column,
    column_entries,
    column_of,
    left_out_rows,
    plan_columns,
    unit_notes,
    without_opaque,
    words_of,
)
from tulle._commands._large import condense_large, is_large
from tulle._commands._options import Options, resolve
from tulle._commands._sources import check_files, source_entry, sources_read, writing_beside
from tulle.errors import DataError, ParameterError
from tulle.io._formats import display_name, format_of
from tulle.table.schema import Column, Role

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    import polars as pl

    from tulle._types import FilePath
    from tulle.auditing import Audit
    from tulle.auditing._tables import Aligned
    from tulle.condense.condenser import Condenser
    from tulle.releases import Manifest

LIMITS = (
    "What all members of a group share: it shows in the group's mean.",
    "The last member of a group, to someone who knows all the others.",
    "About where the lowest and highest values of a column lie: bounds rest on k people or more.",
)


@dataclass(frozen=True)
class Condensing(Options):
    """The options of ``tulle condense``."""

    k: int | None = None  # 10; class by class, a multiple of 10
    grouping: str = "fast"
    time: float | None = None
    min_group: int | None = None
    synthesis: str = "shape"
    exact_moments: bool = False
    small_classes: str = "error"
    on_infeasible: str = "error"
    memory: str | None = None  # beyond which a table is condensed in cells; half of the machine's
    seed: int | None = None


class Condensed(NamedTuple):
    """The outcome of a finished release."""

    summary: dict[str, Any]
    levels: list[dict[str, Any]]
    left_out: list[dict[str, str]]
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
    **given: Any,
) -> Condensed:
    """Condense a table file and write the release, with ``report`` an audit of it too.

    ``control`` are records that stayed out of the source, for the audit. Options left at None
    follow the policy, else the defaults.
    """
    if control is not None and report is None:
        raise ParameterError("--control is for the audit: pass --report as well")
    format_of(source), format_of(output)
    reads = {"INPUT": source, "--policy": policy, "--control": control}
    check_files(reads, release=output, report=report, force=force)
    options = resolve("condense", Condensing(), policy, given)
    if is_large(source, options):
        return condense_large(
            source, output, options,
            policy=policy, levels=levels, target=target, report=report, force=force,
        )  # fmt: skip

    from tulle.io.read import read_table
    from tulle.io.write import put_table
    from tulle.releases import write_release

    original = read_table(source)
    if original.height == 0:
        raise DataError(f"{display_name(source)} has no records: there is nothing to condense")
    entry = source_entry(source, original.height)  # before it can change
    columns = plan_columns(original, policy, target=target, levels=levels)
    refuse_unused(original, columns, options)
    original = without_opaque(original, columns)
    known = [column for column in columns if column.name in original.columns]
    condenser, release = _release(original, known, options)

    levels_table = [dict(row._asdict()) for row in condenser.level_summary_]
    manifest = _manifest(condenser, entry, original, release, columns, options, levels_table)
    tables = compared(original.select(release.columns), release, source, control, columns)
    found = None if report is None else _audited(condenser, tables, columns, options, command)
    summary = _summary(condenser, tables, found)
    write_release(
        output,
        lambda file: put_table(release, file, output),
        manifest,
        sources=sources_read(source, policy, control),
        force=force,
    )
    if found is not None and report is not None:
        with writing_beside(f"the release {display_name(output)} was written", report):
            found.save(report, force=force)
    notes = [*unit_notes(columns), *condenser.notes_]
    return Condensed(summary, levels_table, left_out_rows(columns), notes, found)


def refuse_unused(table: pl.DataFrame, columns: list[Column], options: Condensing) -> None:
    """Raise if options would change nothing."""
    with options.naming():
        check_choice("condense", "small_classes", options.small_classes, SMALL_CLASSES)
    if options.on_command_line("small_classes") and class_column(columns, table) is None:
        raise ParameterError("--small-classes needs classes: name the column with --target")
    if options.on_command_line("time") and options.grouping != "best":
        raise ParameterError("--time is the budget of --grouping best: pass that as well")
    levels = column_of(columns, Role.LEVEL)
    if levels is not None and not (options.k is None and options.min_group is None):
        raise ParameterError(
            f"the levels in column '{levels.name}' replace --k and --min-group: drop these "
            "options, or give the column the role 'ignored'"
        )


def _release(
    original: pl.DataFrame, columns: list[Column], options: Condensing
) -> tuple[Any, pl.DataFrame]:
    """Return the fitted condenser and the released table, columns in their original order."""
    target, levels = class_column(columns, original), column_of(columns, Role.LEVEL)
    template = condenser_of(columns, target, options)
    names = {} if levels is None else {"levels": f"the levels in column '{levels.name}'"}
    if target is not None:
        with options.naming(y=f"the target '{target.name}'", **names):
            return _by_class(template, original, target.name, options)
    if options.k is None and options.min_group is not None:
        names["k"] = options.word("min_group")
    with options.naming(**names):
        return template.set_params(k=group_size(options)), template.fit_resample(original)


def condenser_of(columns: list[Column], target: Column | None, options: Condensing) -> Condenser:
    """Return the unfitted condenser that the options ask for, without the size of its groups."""
    from tulle.condense.condenser import Condenser

    return Condenser(
        grouping=options.grouping,
        time_budget=options.time,
        synthesis=options.synthesis,
        exact_moments=options.exact_moments,
        on_infeasible=options.on_infeasible,
        columns=[column for column in columns if column is not target],
        random_state=options.seed,
    )


def group_size(options: Condensing) -> int:
    """Return the size of groups where there are no classes: ``min_group`` is its lower limit."""
    least = 2
    if options.min_group is not None:
        least = check_int("condense", "min_group", options.min_group, 2)
    if options.k is None:
        return 10 if options.min_group is None else least
    return check_int("condense", "k", options.k, least)


def _by_class(
    template: Condenser, original: pl.DataFrame, target: str, options: Condensing
) -> tuple[Any, pl.DataFrame]:
    """Condense each class on its own."""
    import polars as pl

    from tulle.condense.class_condenser import ClassCondenser

    by_class = ClassCondenser(
        template,
        k=options.k,
        min_group=10 if options.k is None and options.min_group is None else options.min_group,
        small_classes=options.small_classes,
        random_state=options.seed,
    )
    if original.width == 1:
        raise DataError(
            f"there is no column other than the target '{target}': there is nothing to condense"
        )
    X_new, y_new = by_class.fit_resample(original.drop(target), original[target])
    whole = X_new.with_columns(pl.Series(target, y_new))
    return by_class, whole.select([name for name in original.columns if name in whole.columns])


def _summary(condenser: Any, tables: Aligned, found: Audit | None) -> dict[str, Any]:
    import numpy as np

    from tulle.auditing._measures import covariance_compatibility

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
    options: Condensing,
    levels: list[dict[str, Any]],
) -> Manifest:
    from tulle._random import seed_policy
    from tulle.releases import Manifest

    by_class = hasattr(condenser, "condensers_")
    sizes = condenser.counts_
    person = column_of(columns, Role.PERSON)
    asked = column_of(columns, Role.LEVEL) is not None
    k = None if asked else condenser.k_ if by_class else condenser.k
    return Manifest(
        method="class-wise condensation" if by_class else "condensation",
        parameters={n: v for n, v in options.values().items() if n != "seed"}
        | {"k": k, "unit": "record" if person is None else f"person (column '{person.name}')"},
        guarantee={"every group at least as large as its members' levels": True},
        verified={
            "groups at least as large as their levels": bool(
                (condenser.people_ >= condenser.levels_).all()
            ),
            "smallest group": int(sizes.min()),
            "fewest people in a group": int(condenser.people_.min()),
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
        columns=column_entries(columns, condenser.merged_),
        source=source,
        output={"records": release.height, "columns": release.columns},
        seed=seed_policy(options.seed),
    )


def compared(
    original: pl.DataFrame,
    release: pl.DataFrame,
    source: FilePath,
    control: FilePath | None,
    columns: list[Column],
) -> Aligned:
    """Return original, release and, if there is one, control as a summary and an audit see them."""
    from tulle.auditing._tables import align
    from tulle.io.read import codes_as_text, read_like

    policy = [column for column in columns if column.name in release.columns]
    if control is None:
        return align(original, release, None, policy)
    strangers = read_like(control, original, source, release.columns)
    original, release, strangers = codes_as_text(
        [original, release, strangers], (source, control), words_of(columns)
    )
    return align(original, release, strangers, policy)


def _audited(
    condenser: Any, tables: Aligned, columns: list[Column], options: Condensing, command: str
) -> Audit:
    """Return the audit, with what only the maker of the release knows."""
    from tulle._random import seed_policy
    from tulle.auditing._pictures import group_section, left_out_section, notes_section
    from tulle.auditing.audit import audited

    smallest = int(condenser.levels_.min())
    found = audited(tables, options.seed, k=max(smallest, 2), title="Condensed table")
    return found.extended(
        guarantee={
            "text": "Every released record was drawn from the mean and covariance of a group at "
            "least as large as each of its members requires.",
            "rows": [
                {
                    "name": f"smallest group of those who require {row.level:,}",
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
            *notes_section([*unit_notes(columns), *condenser.notes_]),
            *left_out_section(left_out_rows(columns)),
        ],
        limits=list(LIMITS),
        command=command,
        provenance={"release seed": seed_policy(options.seed)},
    )
