"""``tulle condense``: a table in, a look-alike table with its manifest (and report) out."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
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
    with_file_codes,
    without_opaque,
    words_of,
)
from tulle._commands._copies import (
    beside_files,
    check_beside,
    draw_rows,
    told_beside,
)
from tulle._commands._database import condense_linked
from tulle._commands._decision import (
    UNAUDITED,
    Job,
    refuse_two_controls,
)
from tulle._commands._large import RESTS_ON, condense_large, is_large
from tulle._commands._linked import is_linked
from tulle._commands._options import Options, resolve
from tulle._commands._sources import source_entry
from tulle._commands.split import drawn_apart
from tulle.errors import DataError, ParameterError, PrivacyError, PrivacyWarning, TulleError
from tulle.io._formats import display_name, format_of
from tulle.releases import refuse_folder
from tulle.table.schema import Column, Role

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    from warnings import WarningMessage

    import polars as pl

    from tulle._report.model import Promise
    from tulle._types import FilePath
    from tulle.auditing import Audit
    from tulle.auditing._database import ComparedPeople
    from tulle.auditing._splits import Splits
    from tulle.auditing._tables import Aligned
    from tulle.condense.class_condenser import ClassCondenser
    from tulle.condense.condenser import Condenser
    from tulle.exploring._ladder import Climbed
    from tulle.exploring._points import Point, Round
    from tulle.releases import Manifest
    from tulle.table.split import Rows

_SHARE = "share of the source that breaks it"  # of the owner's figures


@dataclass(frozen=True)
class Condensing(Options):
    """The options of ``tulle condense``."""

    k: int | None = None  # chosen; without an audit 10, or class by class a multiple of 10
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
    strict: bool = False  # stop where a person has to decide about a column
    holdout: float | str | None = None
    audit: bool = True
    quick: bool = False  # fewer sizes, and fewer releases that judge them
    rows: Any = None  # how many, or quotas; by default as many as were condensed
    copies: int = 1  # draws of the same model
    ledger: bool = False  # measure how far estimates lie from the original's
    codebook: bool = False  # describe the columns of the release beside it
    memory: str | None = None  # beyond which a table is condensed in cells; half of the machine's
    plain: bool = False  # CSV in the normalised form, not in that of the source
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
    Without them the way of making the release is judged on parts of the people, and the release is
    made from everybody; without ``k`` the smallest one that passes is found so. ``report`` asks
    for the whole audit. Options left at None follow the policy, else the defaults.
    """
    options = resolve("condense", Condensing(), policy, given)
    if is_linked(source, options.policy):
        only_tables = {"levels": levels, "target": target}
        return Condensed(*condense_linked(
            source, output, options,
            report=report, control=control, refused=only_tables, sign_key=sign_key,
            accept_risk=accept_risk, command=command, force=force,
        ))  # fmt: skip
    format_of(source), format_of(output)
    job = Job.opened(
        output, {"INPUT": source, "--policy": policy, "--control": control},
        report=report, sign_key=sign_key, accept_risk=accept_risk, command=command,
        folders=("INPUT", "--control"), in_parts=True, force=force,
    )  # fmt: skip
    refuse_contradictions(options, report, control)
    if is_large(source, options):
        return condense_large(source, job, options, levels=levels, target=target, control=control)
    refuse_folder(output)
    with options.naming():
        check_beside(output, options, force=force)

    from tulle.auditing._pictures import size_section
    from tulle.io._statistics_files import shown_in
    from tulle.io.read import read_written

    original, dialect = read_written(source)
    if original.height == 0:
        raise DataError(f"{display_name(source)} has no records: there is nothing to condense")
    entry = source_entry(source, original.height)  # before it can change
    columns = plan_columns(original, options, target=target, levels=levels, strict=options.strict)
    if not options.declared:
        columns = with_file_codes(columns, dialect, original)
    columns = with_people(original, columns, options, target)
    refuse_unused(original, columns, options)
    original = without_opaque(original, columns)
    there = set(original.columns)
    known = [column for column in columns if column.name in there]
    if apart is None:
        apart = drawn_apart(original, known, options, options.holdout, options.seed)
    original, strangers = divided(original, apart)
    work = _Work(original, strangers, columns, known, options, source, control, report, command)
    with options.naming(rules=f"{policy}: [rules]"):
        made, climbed = work.finished()
    chosen = work.chosen(made, climbed)
    more = further_copies(made.condenser, original, known, options)
    ledger = _ledger(original, [made.release, *more], known, made.condenser, made.options)
    found = climbed.audit(
        context=dict(options.policy.context),
        accepted_risk=job.accepted,
        sections=size_section(chosen["tried"], chosen["why"]),
        tried=sorted({row["k"] for row in chosen["tried"]}),
        remedy=work.remedy(climbed),
    )
    summary = _summary(made.condenser, made.tables, strangers, found) | {"chosen": chosen}
    manifest = _manifest(made, entry, columns, strangers, chosen)
    dialect = None if options.plain else shown_in(dialect, made.release)
    book = _codebook(made, columns, dialect, output) if options.codebook else None
    beside = beside_files(output, more, ledger, book, dialect)
    job.write(made.release, manifest, found, dialect, chosen, beside)
    notes = [*_notes(made.condenser, columns, made.release), *_why(chosen)]
    notes += told_beside(output, more, ledger)
    levels_table = [dict(row._asdict()) for row in made.condenser.level_summary_]
    left_out = left_out_rows(columns, made.release.columns)
    return Condensed(summary, levels_table, left_out, notes, found)


def refuse_contradictions(
    options: Condensing, report: FilePath | None, control: FilePath | None
) -> None:
    """Raise if options ask for an audit and for none, or for two controls."""
    with options.naming():
        check_flag("condense", "audit", options.audit)
        check_flag("condense", "plain", options.plain)
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
        template.set_params(k=group_size(options)).fit(original)
        wanted = options.rows if options.people is None else options.people
        return template, draw_rows(template, original, None, wanted)


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
    from tulle.estimating.ledger import error_ledger, without_codes

    rng = as_generator(options.seed)
    person, weight = column_of(columns, Role.PERSON), column_of(columns, Role.WEIGHT)

    def blank(table: pl.DataFrame) -> pl.DataFrame:
        return without_codes(table, {column.name: column.missing for column in columns})

    def make(part: pl.DataFrame) -> list[pl.DataFrame]:
        # a class of k people may have fewer in a part of the table
        again = replace(options, seed=int(rng.integers(2**62)), small_classes="pool")
        fitted, first = make_release(part, columns, options.policy.rules, again)
        return [blank(one) for one in (first, *further_copies(fitted, part, columns, again))]

    with options.naming(question=f"{options.policy_file}: [estimates]"):
        return error_ledger(
            blank(original), [blank(one) for one in copies], make,
            k=max(min(condenser.rests_on_.values()), 2),
            person=None if person is None else person.name,
            weight=None if weight is None else weight.name, splits=3,
            questions=options.policy.estimates, random_state=rng,
        )  # fmt: skip


def _codebook(made: _Made, columns: list[Column], dialect: Any, output: FilePath) -> dict[str, Any]:
    from tulle._report.codebook import codebook

    least = max(min(made.condenser.rests_on_.values()), 2)
    labels = getattr(dialect, "columns", {})
    return codebook(made.release, columns, labels, least, display_name(output))


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


def class_condenser_of(template: Condenser, options: Condensing) -> ClassCondenser:
    """Return the unfitted condenser of classes that the options ask for."""
    from tulle.condense.class_condenser import ClassCondenser

    return ClassCondenser(
        template,
        k=options.k,
        min_group=10 if options.k is None and options.min_group is None else options.min_group,
        small_classes=options.small_classes,
        random_state=options.seed,
    )


def _by_class(
    template: Condenser, original: pl.DataFrame, target: str, options: Condensing
) -> tuple[Any, pl.DataFrame]:
    """Condense each class on its own."""
    by_class = class_condenser_of(template, options)
    if original.width == 1:
        raise DataError(
            f"there is no column other than the target '{target}': there is nothing to condense"
        )
    by_class.fit(original.drop(target), original[target])
    return by_class, draw_rows(by_class, original, target, options.rows)


class _Made(NamedTuple):
    """A release of everybody, next to what it was made from."""

    condenser: Any
    release: pl.DataFrame
    tables: Aligned
    options: Condensing  # with the k that it has
    warned: list[WarningMessage]
    people: ComparedPeople | None  # where people have several rows, which stay together

    @property
    def k(self) -> int:
        """The size of its groups."""
        return int(getattr(self.condenser, "k_", self.condenser.k))


@dataclass(frozen=True)
class _Work:
    """One release that is asked for: from whom it is made, and how it is judged at a k."""

    original: pl.DataFrame
    strangers: pl.DataFrame | None  # kept out, if somebody asked for it
    columns: list[Column]
    known: list[Column]  # those that the table has
    options: Condensing
    source: FilePath
    control: FilePath | None
    report: FilePath | None
    command: str
    made: dict[int | None, _Made] = field(default_factory=dict)

    @property
    def chooses(self) -> bool:
        """Whether nobody said how large groups are."""
        said = (self.options.k, self.options.min_group, column_of(self.known, Role.LEVEL))
        return self.options.audit and said == (None, None, None)

    @property
    def by_hand(self) -> bool:
        """Whether somebody named the people to compare with."""
        return self.control is not None or self.strangers is not None

    def finished(self) -> tuple[_Made, Climbed]:
        """Return the release to write, and how it was found."""
        from tulle.exploring._ladder import Climbed, climb, sizes_for

        if self.chooses:
            sizes = sizes_for(self.people, quick=self.options.quick)
            climbed = climb(sizes, self.measured, fresh=not self.by_hand)
        else:
            point = self.measured(None, "whole")
            climbed = Climbed(point, [point])
        made = self.at(climbed.point.spec.k)
        for one in made.warned:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        return made, climbed

    @property
    def people(self) -> int:
        """How many people are in the table."""
        from tulle.table.split import units_of

        person = column_of(self.known, Role.PERSON)
        name = None if person is None else person.name
        return len(set(units_of(self.original, name).tolist()))

    def at(self, k: int | None) -> _Made:
        """Return the release of everybody at a k; None stands for what the options say."""
        from tulle.auditing._database import compared_rows
        from tulle.auditing._tables import align_made

        if k not in self.made:
            options = self._sized(k)
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always", PrivacyWarning)
                condenser, release = make_release(
                    self.original, self.known, options.policy.rules, options
                )
            frames = compared_frames(
                self.original, release, self.source, self.control, self.strangers, self.columns
            )
            people = compared_rows(frames, self.columns, options.policy.people.order)
            tables = align_made(*frames, self.columns)
            self.made[k] = _Made(condenser, release, tables, options, warned, people)
        return self.made[k]

    def _sized(self, k: int | None) -> Condensing:
        if k is None:
            return self.options
        if class_column(self.known, self.original) is not None:
            return replace(self.options, min_group=k)
        return replace(self.options, k=k)

    def measured(self, k: int | None, round: Round) -> Point:
        """Make the release at a k, and judge it; one that cannot be made ends the search."""
        from tulle.exploring._points import Point, Spec, worst

        spec = Spec(round, self.options.synthesis, k=k)
        try:
            made = self.at(k)
        except (DataError, PrivacyError) as error:
            if not self.made:
                raise
            return Point(f"{k}-{round}", spec, self.original.height, error=str(error))
        splits = self._splits(k, round)
        whole = self.report is not None and round == "whole"
        found = _audited(made, splits, self.columns, self.command, whole=whole)
        return Point(
            f"{k}-{round}",
            spec,
            self.original.height,
            made.release.height,
            **worst(found.result["attacks"]),
            attacks=found.result["attacks"],
            verdict=found.verdict,
            audit=dict(found.result),
        )

    def _splits(self, k: int | None, round: Round) -> Splits | None:
        """Attack releases of parts of the people; None where others are there to compare with."""
        if not self.options.audit or (self.by_hand and round == "whole"):
            return None
        import numpy as np

        from tulle.auditing._splits import attack_splits, bounds

        count, most = bounds(self.people, choosing=round == "quick", quick=self.options.quick)
        # a part is tried, and never released: it may break rules
        options, seed = replace(self._sized(k), accept_broken_rules=True), self.options.seed
        if options.small_classes == "error":  # nor need it have enough of every class
            options = replace(options, small_classes="pool")
        if options.time is not None:
            options = replace(options, time=options.time / count)

        def make(part: pl.DataFrame, seed: int) -> pl.DataFrame:
            own = replace(options, seed=seed)
            return make_release(part, self.known, options.policy.rules, own)[1]

        # of other people in each round and at each k: none is judged by the splits that chose it
        rng = np.random.default_rng(None if seed is None else (seed, k or 0, round == "whole"))
        whole = self.report is not None and round == "whole"
        try:
            return attack_splits(
                self.original, self.known, make, rng, count,
                most=most, quick=not whole, order=options.policy.people.order,
            )  # fmt: skip
        except TulleError:
            return None  # too few people for a release of a part of them

    def remedy(self, climbed: Climbed) -> str:
        """Say without which column the best k would pass: empty, unless that was tried and found.

        The column is the one that can be inferred best.
        """
        from tulle._report.verdict import inferred

        if not self.chooses or self.by_hand or climbed.passed or not climbed.point.attacks:
            return ""
        name, k = inferred(climbed.point.attacks), climbed.point.spec.k
        if name is None or len([column for column in self.known if column.role.released]) < 3:
            return ""
        columns, known = (
            [c for c in ours if c.name != name] for ours in (self.columns, self.known)
        )
        without = replace(
            self, original=self.original.drop(name), columns=columns, known=known, made={}
        )
        if without.measured(k, "quick").level != "good":
            return ""
        return f"Leave out column '{name}': a few releases without it pass at k = {k}."

    def chosen(self, made: _Made, climbed: Climbed) -> dict[str, Any]:
        """Return the k that is released, what was tried, and why it is this one."""
        why, tried = climbed.why, climbed.rows()
        if not self.chooses:
            given = self.options.k is not None or self.options.min_group is not None
            tried, why = [], "it was given" if given else "nothing was attacked to choose it by"
        levels = column_of(self.known, Role.LEVEL) is not None
        return {"k": None if levels else made.k, "tried": tried, "why": "" if levels else why}


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
    made: _Made,
    source: dict[str, Any],
    columns: list[Column],
    apart: pl.DataFrame | None,
    chosen: dict[str, Any],
) -> Manifest:
    from tulle._random import seed_policy
    from tulle.releases import Manifest

    condenser, release, options = made.condenser, made.release, made.options
    by_class = hasattr(condenser, "classes_")
    asked = column_of(columns, Role.LEVEL) is not None
    k = None if asked else condenser.k_ if by_class else condenser.k
    return Manifest(
        method="class-wise condensation" if by_class else "condensation",
        parameters={n: v for n, v in options.values().items() if n not in ("seed", "quick")}
        | {"k": k, "unit": unit_of(columns), "chosen": _told_choice(chosen)},
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


def _why(chosen: dict[str, Any]) -> list[str]:
    return [f"Of the sizes tried, {chosen['why']}."] if chosen["tried"] else []


def _told_choice(chosen: dict[str, Any]) -> list[dict[str, Any]]:
    """Return which sizes were tried and how they were judged, without figures."""
    return [{n: row[n] for n in ("k", "for", "privacy", "use")} for row in chosen["tried"]]


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
    made: _Made, splits: Splits | None, columns: list[Column], command: str, *, whole: bool
) -> Audit:
    """Return the audit, with what only the maker of the release knows."""
    from tulle._random import seed_policy
    from tulle.auditing._pictures import (
        group_section,
        left_out_section,
        notes_section,
        rules_section,
    )
    from tulle.auditing._splits import audit_of_splits
    from tulle.auditing.audit import audit_people, audited, unaudited

    condenser, release, tables, options = made[:4]
    asked = column_of(columns, Role.LEVEL) is not None
    k = max(min(condenser.rests_on_.values()), 2)  # not a level, which is one person's own
    told: dict[str, Any] = {"k": k, "title": "Condensed table"}
    if splits is not None:
        found = audit_of_splits(tables, splits, options.seed, made.people, quick=not whole, **told)
    elif options.audit and made.people is not None:
        found = audit_people(made.people, options.seed, quick=not whole, **told)
    elif options.audit:
        found = audited(tables, options.seed, quick=not whole, **told)
    else:
        found = unaudited(tables, **told).extended(untried=UNAUDITED)
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
