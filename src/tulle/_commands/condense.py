"""``tulle condense``: a table in, a look-alike table with its manifest (and report) out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tulle._checks import check_choice, check_flag, check_int
from tulle._choices import SMALL_CLASSES
from tulle._commands._columns import (
    class_column,
    column_entries,
    column_of,
    left_out_rows,
    plan_columns,
    told_counts,
    told_source,
    unit_notes,
    unit_of,
    without_opaque,
    words_of,
)
from tulle._commands._copies import (
    beside_files,
    check_beside,
    draw_rows,
    told_beside,
)
from tulle._commands._decision import (
    UNAUDITED,
    Job,
    refuse_two_controls,
)
from tulle._commands._large import RESTS_ON, condense_large, is_large, refuse_in_parts
from tulle._commands._options import Options, resolve
from tulle._commands._sources import source_entry
from tulle._commands.split import drawn_apart
from tulle.errors import DataError, ParameterError
from tulle.io._formats import display_name, format_of
from tulle.releases import refuse_folder
from tulle.table.schema import Column, Role

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    import polars as pl

    from tulle._report.model import Promise
    from tulle._types import FilePath
    from tulle.auditing import Audit
    from tulle.auditing._tables import Aligned
    from tulle.condense.condenser import Condenser
    from tulle.releases import Manifest
    from tulle.table.split import Rows

_SHARE = "share of the source that breaks it"  # of the owner's figures


@dataclass(frozen=True)
class Condensing(Options):
    """The options of ``tulle condense``."""

    k: int | None = None  # 10; class by class, a multiple of 10
    grouping: str = "fast"
    time: float | None = None
    min_group: int | None = None
    synthesis: str = "shape"
    exact_moments: bool = False
    exact_totals: bool = False
    small_classes: str = "error"
    on_infeasible: str = "error"
    accept_broken_rules: bool = False
    holdout: float | str | None = None
    audit: bool = True
    rows: Any = None  # how many, or quotas; by default as many as were condensed
    copies: int = 1
    ledger: bool = False
    memory: str | None = None  # beyond which a table is condensed in cells; half of the machine's
    seed: int | None = None


class Condensed(NamedTuple):
    """The outcome of a finished release."""

    summary: dict[str, Any]
    levels: list[dict[str, Any]]
    left_out: list[dict[str, str]]
    notes: list[str]
    audit: Audit


def condense(
    source: FilePath,
    output: FilePath,
    *,
    policy: FilePath | None = None,
    levels: str | None = None,
    target: str | None = None,
    report: FilePath | None = None,
    control: FilePath | None = None,
    sign_key: FilePath | None = None,
    apart: Rows | None = None,
    accept_risk: str | None = None,
    command: str = "",
    force: bool = False,
    **given: Any,
) -> Condensed:
    """Condense a table file, audit the release, and write it unless the verdict is bad.

    ``control`` are records that stayed out of the source; the option ``holdout`` keeps a share of
    the source out instead, or a command that has drawn them already gives them with ``apart``.
    ``report`` asks for the whole audit. Options left at None follow the policy, else the defaults.
    """
    format_of(source), format_of(output)
    job = Job.opened(
        output, {"INPUT": source, "--policy": policy, "--control": control},
        report=report, sign_key=sign_key, accept_risk=accept_risk, command=command,
        folders=("INPUT", "--control"), in_parts=True, force=force,
    )  # fmt: skip
    options = resolve("condense", Condensing(), policy, given)
    _refuse_contradictions(options, report, control)
    if is_large(source, options):
        refuse_in_parts(options, report=report, control=control, policy=policy)
        return condense_large(
            source, output, options,
            policy=policy, levels=levels, target=target, signer=job.signer, command=command,
            sources=job.sources, accepted=job.accepted, force=force,
        )  # fmt: skip
    refuse_folder(output)
    with options.naming():
        check_beside(output, options, force=force)

    from tulle.io.read import read_table

    original = read_table(source)
    if original.height == 0:
        raise DataError(f"{display_name(source)} has no records: there is nothing to condense")
    entry = source_entry(source, original.height)  # before it can change
    columns = plan_columns(original, options, target=target, levels=levels)
    refuse_unused(original, columns, options)
    original = without_opaque(original, columns)
    there = set(original.columns)
    known = [column for column in columns if column.name in there]
    if apart is None:
        apart = drawn_apart(original, known, options, options.holdout, options.seed)
    original, strangers = divided(original, apart)
    with options.naming(rules=f"{policy}: [rules]"):
        condenser, release = make_release(original, known, options.policy.rules, options)
    more = further_copies(condenser, original, known, options)
    ledger = _ledger(original, [release, *more], known, condenser, options)

    levels_table = [dict(row._asdict()) for row in condenser.level_summary_]
    tables = compared(original, release, source, control, strangers, columns)
    whole = report is not None
    found = _audited(condenser, tables, release, columns, options, command, whole=whole)
    found = found.extended(context=dict(options.policy.context), accepted_risk=job.accepted)
    if ledger and ledger["clear"]:
        found = found.extended(
            metrics={"effects_lost": len(ledger["lost"]) / ledger["clear"]},
            where=found.result["where"] | {"effects_lost": (ledger["lost"] or ["none"])[0]},
        )
    summary = _summary(condenser, tables, strangers, found)
    manifest = _manifest(condenser, entry, release, columns, options, strangers)
    job.write(release, manifest, found, beside_files(output, more, ledger))
    notes = _notes(condenser, columns, release) + told_beside(output, more, ledger)
    return Condensed(summary, levels_table, left_out_rows(columns), notes, found)


def _refuse_contradictions(
    options: Condensing, report: FilePath | None, control: FilePath | None
) -> None:
    with options.naming():
        check_flag("condense", "audit", options.audit)
    refuse_two_controls(options, control)
    if not options.audit and (report or control or options.holdout is not None):
        word = "--no-audit" if options.on_command_line("audit") else options.word("audit")
        raise ParameterError(
            f"{word} leaves out what --report, --control and --holdout are for: give one or the "
            "other"
        )


def divided(table: pl.DataFrame, apart: Rows | None) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Return the people who are condensed and those who are kept out."""
    return (table, None) if apart is None else (table[apart.members], table[apart.control])


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


def make_release(
    original: pl.DataFrame,
    columns: list[Column],
    rules: tuple[str, ...] | None,
    options: Condensing,
) -> tuple[Any, pl.DataFrame]:
    """Return the fitted condenser and the released table, columns in their original order."""
    target, levels = class_column(columns, original), column_of(columns, Role.LEVEL)
    template = condenser_of(columns, target, rules, options)
    names = {} if levels is None else {"levels": f"the levels in column '{levels.name}'"}
    if target is not None:
        with options.naming(y=f"the target '{target.name}'", **names):
            return _by_class(template, original, target.name, options)
    if options.k is None and options.min_group is not None:
        names["k"] = options.word("min_group")
    with options.naming(**names):
        template.set_params(k=group_size(options)).fit(original)
        return template, draw_rows(template, original, None, options.rows)


def further_copies(
    condenser: Any, original: pl.DataFrame, columns: list[Column], options: Condensing
) -> list[pl.DataFrame]:
    """Draw the copies beyond the first from the same fitted model."""
    target = class_column(columns, original)
    name = None if target is None else target.name
    with options.naming():
        return [
            draw_rows(condenser, original, name, options.rows) for _ in range(1, options.copies)
        ]


def _ledger(
    original: pl.DataFrame,
    copies: list[pl.DataFrame],
    columns: list[Column],
    condenser: Any,
    options: Condensing,
) -> dict[str, Any] | None:
    """Measure how far estimates lie from the original's, if that is asked for."""
    if not options.ledger:
        return None
    from tulle._random import as_generator
    from tulle.estimating.ledger import error_ledger

    rng = as_generator(options.seed)
    person = column_of(columns, Role.PERSON)

    def make(part: pl.DataFrame) -> list[pl.DataFrame]:
        # a class of k people may have fewer in a part of the table
        again = replace(options, seed=int(rng.integers(2**62)), small_classes="pool")
        fitted, first = make_release(part, columns, options.policy.rules, again)
        return [first, *further_copies(fitted, part, columns, again)]

    with options.naming(question=f"{options.policy_file}: [estimates]"):
        return error_ledger(
            original, copies, make,
            k=max(min(condenser.rests_on_.values()), 2),
            person=None if person is None else person.name, splits=3,
            questions=options.policy.estimates, random_state=rng,
        )  # fmt: skip


def condenser_of(
    columns: list[Column],
    target: Column | None,
    rules: tuple[str, ...] | None,
    options: Condensing,
) -> Condenser:
    """Return the unfitted condenser that the options ask for, without the size of its groups."""
    from tulle.condense.condenser import Condenser

    return Condenser(
        grouping=options.grouping,
        time_budget=options.time,
        synthesis=options.synthesis,
        exact_moments=options.exact_moments,
        exact_totals=options.exact_totals,
        on_infeasible=options.on_infeasible,
        columns=[column for column in columns if column is not target],
        rules=rules,
        accept_broken_rules=options.accept_broken_rules,
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
    by_class.fit(original.drop(target), original[target])
    return by_class, draw_rows(by_class, original, target, options.rows)


def rule_entries(condenser: Any, release: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rules between columns, counted once more on the table as it is written."""
    counts = condenser._rule_plan.count_broken(release)
    return [
        {
            "rule": one.rule,
            "source": "found in the table" if one.found else "given",
            _SHARE: round(one.share_broken, 4),
            "released records that break it": count,
        }
        for one, count in zip(condenser.rules_, counts)
    ]


def _notes(condenser: Any, columns: list[Column], release: pl.DataFrame) -> list[str]:
    """Return what the reader of the release should know."""
    broken = [
        f"the rule '{rule}' is broken in {count:,} of {release.height:,} released records"
        for rule, count in condenser.broken_rules_.items()
    ]
    return [*unit_notes(columns), *condenser.notes_, *broken]


def _summary(
    condenser: Any, tables: Aligned, apart: pl.DataFrame | None, found: Audit
) -> dict[str, Any]:
    import numpy as np

    counts = condenser.counts_
    return {
        "records": len(tables.original),
        **({} if apart is None else {"kept_apart": apart.height}),
        "released": len(tables.release),
        "columns_released": len(tables.columns),
        "groups": len(counts),
        "smallest_group": int(counts.min()),
        "median_group": float(np.median(counts)),
        "largest_group": int(counts.max()),
        "information_loss": float(condenser.information_loss_),
        "covariance_compatibility": found.result["metrics"].get(
            "covariance_compatibility", math.nan
        ),
        "degenerate_groups": int(condenser.n_degenerate_),
        "suppressed": int(condenser.n_suppressed_),
        "verbatim": int(condenser.n_verbatim_),
        "rules_kept": len(condenser.rules_) - len(condenser.broken_rules_),
    }


def _manifest(
    condenser: Any,
    source: dict[str, Any],
    release: pl.DataFrame,
    columns: list[Column],
    options: Condensing,
    apart: pl.DataFrame | None,
) -> Manifest:
    from tulle._random import seed_policy
    from tulle.releases import Manifest

    by_class = hasattr(condenser, "classes_")
    asked = column_of(columns, Role.LEVEL) is not None
    k = None if asked else condenser.k_ if by_class else condenser.k
    return Manifest(
        method="class-wise condensation" if by_class else "condensation",
        parameters={n: v for n, v in options.values().items() if n != "seed"}
        | {"k": k, "unit": unit_of(columns)},
        guarantee={
            "every group at least as large as its members' levels": True,
            **({} if asked else {RESTS_ON: condenser.rests_on_}),
        },
        verified={
            "groups at least as large as their levels": bool(
                (condenser.people_ >= condenser.levels_).all()
            ),
        },
        counts={
            **({} if apart is None else {"kept apart as the control": apart.height}),
            "released": release.height,
            "rules": [
                {name: told for name, told in one.items() if name != _SHARE}
                for one in rule_entries(condenser, release)
            ],
            **told_counts(condenser.groups_, k),
        },
        columns=column_entries(columns, declared=options.declared),
        source=told_source(source, options),
        output={"records": release.height, "columns": release.columns},
        seed=seed_policy(options.seed),
    )


def compared(
    original: pl.DataFrame,
    release: pl.DataFrame,
    source: FilePath,
    control: FilePath | None,
    apart: pl.DataFrame | None,
    columns: list[Column],
) -> Aligned:
    """Return original, release and, if there is one, control as a summary and an audit see them."""
    from tulle.auditing._tables import align_made
    from tulle.io.read import codes_as_text, read_like

    if control is None:
        return align_made(original, release, apart, columns)
    person = [column.name for column in columns if column.role is Role.PERSON]
    strangers = read_like(control, original, source, [*release.columns, *person])
    original, release, strangers = codes_as_text(
        [original, release, strangers], (source, control), words_of(columns)
    )
    return align_made(original, release, strangers, columns)


def _audited(
    condenser: Any,
    tables: Aligned,
    release: pl.DataFrame,
    columns: list[Column],
    options: Condensing,
    command: str,
    *,
    whole: bool,
) -> Audit:
    """Return the audit, with what only the maker of the release knows."""
    from tulle._random import seed_policy
    from tulle.auditing._pictures import (
        group_section,
        left_out_section,
        notes_section,
        rules_section,
    )
    from tulle.auditing.audit import audited, unaudited

    asked = column_of(columns, Role.LEVEL) is not None
    k = max(min(condenser.rests_on_.values()), 2)  # not a level, which is one person's own
    if options.audit:
        found = audited(tables, options.seed, k=k, title="Condensed table", quick=not whole)
    else:
        found = unaudited(tables, k=k, title="Condensed table").extended(untried=UNAUDITED)
    return found.extended(
        guarantee={
            "text": condenser._weakest.sentence(sizes=not asked),
            "rows": _promises(condenser, asked=asked),
        },
        metrics={"information_loss": float(condenser.information_loss_)},
        smallest_group=min(condenser.rests_on_.values()),
        sections=[
            # of levels, one person may have set the smallest or largest group
            {**group_section(condenser.counts_, condenser.levels_), "owner_only": asked},
            *rules_section(rule_entries(condenser, release)),
            *notes_section(_notes(condenser, columns, release)),
            *left_out_section(left_out_rows(columns)),
        ],
        limits=condenser._weakest.limits(),
        command=command,
        provenance={"release seed": seed_policy(options.seed)},
    )


def _promises(condenser: Any, *, asked: bool) -> list[Promise]:
    """Return what was asked and found; of levels no size, for a person may be alone with one."""
    if asked:
        small = int((condenser.people_ < condenser.levels_).sum())
        name = "groups smaller than the level of a member"
        return [{"name": name, "asked": 0, "found": small, "holds": not small}]
    return [
        {
            "name": f"smallest group of those who require {row.level:,}",
            "asked": row.level,
            "found": row.smallest_group,
            "holds": row.smallest_group >= row.level,
        }
        for row in condenser.level_summary_
    ]
