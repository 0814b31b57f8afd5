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
from tulle._commands._database import condense_linked
from tulle._commands._decision import (
    UNAUDITED,
    Job,
    refuse_two_controls,
)
from tulle._commands._large import RESTS_ON, condense_large, is_large, refuse_in_parts
from tulle._commands._linked import is_linked
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
    from tulle.auditing._database import ComparedPeople
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
    people: int | None = None  # how many to release, where people have several rows
    holdout: float | str | None = None
    audit: bool = True
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
    if is_linked(source, policy):
        only_tables = {"levels": levels, "target": target}
        return Condensed(*condense_linked(
            source, output, resolve("condense", Condensing(), policy, given),
            report=report, control=control, refused=only_tables, sign_key=sign_key,
            accept_risk=accept_risk, command=command, force=force,
        ))  # fmt: skip
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

    from tulle.auditing._database import compared_rows
    from tulle.auditing._tables import align_made
    from tulle.io.read import read_table

    original = read_table(source)
    if original.height == 0:
        raise DataError(f"{display_name(source)} has no records: there is nothing to condense")
    entry = source_entry(source, original.height)  # before it can change
    columns = plan_columns(original, options, target=target, levels=levels)
    columns = with_people(original, columns, options, target)
    refuse_unused(original, columns, options)
    original = without_opaque(original, columns)
    there = set(original.columns)
    known = [column for column in columns if column.name in there]
    if apart is None:
        apart = drawn_apart(original, known, options, options.holdout, options.seed)
    original, strangers = divided(original, apart)
    with options.naming(rules=f"{policy}: [rules]"):
        condenser, release = make_release(original, known, options.policy.rules, options)

    levels_table = [dict(row._asdict()) for row in condenser.level_summary_]
    frames = compared_frames(original, release, source, control, strangers, columns)
    tables = align_made(*frames, columns)
    people = compared_rows(frames, columns, options.policy.people.order)
    whole = report is not None
    found = _audited(condenser, tables, release, columns, options, command, whole, people)
    found = found.extended(context=dict(options.policy.context), accepted_risk=job.accepted)
    summary = _summary(condenser, tables, strangers, found)
    manifest = _manifest(condenser, entry, release, columns, options, strangers)
    job.write(release, manifest, found)
    notes = _notes(condenser, columns, release)
    left_out = left_out_rows(columns, release.columns)
    return Condensed(summary, levels_table, left_out, notes, found)


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


def with_people(
    table: pl.DataFrame, columns: list[Column], options: Condensing, target: str | None
) -> list[Column]:
    """Return the columns of a table in which people have several rows, whose rows stay together.

    Classes would tear people apart: only a target that is asked for condenses class by class.
    """
    person = column_of(columns, Role.PERSON)
    if person is None or table[person.name].n_unique() == table.height or target is not None:
        if options.people is not None:
            raise ParameterError(
                f"{options.word('people')} counts people who have several rows: name them with the "
                "role 'person' in a policy, and give no --target"
            )
        return columns
    return [replace(c, role=Role.QUASI) if c.role is Role.TARGET else c for c in columns]


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
        template = template.set_params(k=group_size(options)).fit(original)
        return template, template.sample(options.people)


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
        order=options.policy.people.order or None,
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
        columns=column_entries(columns, declared=options.declared, released=release.columns),
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

    frames = compared_frames(original, release, source, control, apart, columns)
    return align_made(*frames, columns)


def compared_frames(
    original: pl.DataFrame,
    release: pl.DataFrame,
    source: FilePath,
    control: FilePath | None,
    apart: pl.DataFrame | None,
    columns: list[Column],
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame | None]:
    """Return the tables, a control that is a file in the types of the others."""
    from tulle.io.read import codes_as_text, read_like

    if control is None:
        return original, release, apart
    person = [column.name for column in columns if column.role is Role.PERSON]
    wanted = list(dict.fromkeys([*release.columns, *person]))
    strangers = read_like(control, original, source, wanted)
    original, release, strangers = codes_as_text(
        [original, release, strangers], (source, control), words_of(columns)
    )
    return original, release, strangers


def _audited(
    condenser: Any,
    tables: Aligned,
    release: pl.DataFrame,
    columns: list[Column],
    options: Condensing,
    command: str,
    whole: bool,
    people: ComparedPeople | None,
) -> Audit:
    """Return the audit, with what only the maker of the release knows."""
    from tulle._random import seed_policy
    from tulle.auditing._pictures import (
        group_section,
        left_out_section,
        notes_section,
        rules_section,
    )
    from tulle.auditing.audit import audit_people, audited, unaudited

    asked = column_of(columns, Role.LEVEL) is not None
    k = max(min(condenser.rests_on_.values()), 2)  # not a level, which is one person's own
    text = condenser._weakest.sentence(sizes=not asked)
    if options.audit and people is not None:
        found = audit_people(people, options.seed, k=k, title="Condensed table", quick=not whole)
    elif options.audit:
        found = audited(tables, options.seed, k=k, title="Condensed table", quick=not whole)
    else:
        found = unaudited(tables, k=k, title="Condensed table").extended(untried=UNAUDITED)
    return found.extended(
        guarantee={
            "text": text,
            "rows": _promises(condenser, asked=asked),
        },
        metrics={"information_loss": float(condenser.information_loss_)},
        smallest_group=min(condenser.rests_on_.values()),
        sections=[
            # of levels, one person may have set the smallest or largest group
            {**group_section(condenser.counts_, condenser.levels_), "owner_only": asked},
            *rules_section(rule_entries(condenser, release)),
            *notes_section(_notes(condenser, columns, release)),
            *left_out_section(left_out_rows(columns, release.columns)),
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
