"""``tulle condense``: a table in, a look-alike table with its manifest (and report) out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from tulle._commands._columns import (
    column_of,
    left_out_rows,
    plan_columns,
    with_drawn_levels,
    with_file_codes,
    without_opaque,
)
from tulle._commands._condensed import (
    Made,
    audited_release,
    compared_frames,
    manifest_of,
    notes_of,
    summary_of,
)
from tulle._commands._condensing import (
    Condensing,
    Work,
    divided,
    further_copies,
    make_release,
    refuse_contradictions,
    refuse_unused,
    told_choice,
    with_people,
)
from tulle._commands._copies import beside_files, check_beside, told_beside, wants_ledger
from tulle._commands._database import condense_linked, refuse_others
from tulle._commands._decision import Done, Job
from tulle._commands._large import condense_large
from tulle._commands._linked import is_linked
from tulle._commands._memory import is_large
from tulle._commands._options import resolve
from tulle._commands._sources import source_entry
from tulle._commands.split import drawn_apart
from tulle._random import as_generator
from tulle._report.codebook import codebook
from tulle._report.verdict import inferred
from tulle._types import FilePath
from tulle.auditing import Audit
from tulle.auditing._database import compared_rows
from tulle.auditing._splits import Splits, attack_splits
from tulle.auditing._tables import align_made
from tulle.errors import DataError
from tulle.exploring._choice import Climbed, climb, sizes_for
from tulle.io._formats import display_name, format_of
from tulle.io._statistics_files import FileLabels, shown_in
from tulle.io.read import read_written
from tulle.releases import refuse_folder
from tulle.table.schema import Column, Role
from tulle.table.split import Rows, units_of


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
) -> Done:
    """Condense a table file, audit the release, and write it unless the verdict is bad.

    ``control`` are records that stayed out of the source; the option ``holdout`` keeps a share of
    the source out instead, or a command that has drawn them already gives them with ``apart``.
    Without them the way of making the release is judged on parts of the people, and the release is
    made from everybody; without ``k`` the smallest one that passes is found so. ``report`` asks
    for the whole audit. Options left at None follow the policy, else the defaults.
    """
    options = resolve("condense", Condensing(), policy, given)
    linked = is_linked(source, options.policy)
    if linked:
        refuse_others(options, output, {"levels": levels, "target": target})
    else:
        format_of(source), format_of(output)
    job = Job.opened(
        output, {"INPUT": source, "--policy": policy, "--control": control},
        report=report, sign_key=sign_key, accept_risk=accept_risk, command=command,
        in_parts=True, force=force,
        **{"databases" if linked else "folders": ("INPUT", "--control")},
    )  # fmt: skip
    if linked:
        return condense_linked(source, job, options, control)
    refuse_contradictions(options, report, control)
    if is_large(source, options):
        return condense_large(source, job, options, levels=levels, target=target, control=control)
    refuse_folder(output)
    with options.naming():
        options = replace(options, ledger=wants_ledger(output, options))
        check_beside(output, options, force=force)

    original, dialect = read_written(source)
    if original.height == 0:
        raise DataError(f"{display_name(source)} has no records: there is nothing to condense")
    entry = source_entry(source, original.height)  # before it can change
    original, levels = with_drawn_levels(original, levels, options.seed)
    columns = plan_columns(original, options, target=target, levels=levels, strict=options.strict)
    if not options.declared:
        columns = with_file_codes(columns, dialect, original)
    columns = with_people(original, columns, options, target)
    refuse_unused(original, columns, options)
    original, known = without_opaque(original, columns)
    if apart is None:
        apart = drawn_apart(original, known, options, options.holdout, options.seed)
    original, strangers = divided(original, apart)
    _read_estimates(original, known, options)
    person = column_of(known, Role.PERSON)
    work = _TableWork(
        options, command, report is not None,
        len(set(units_of(original, None if person is None else person.name).tolist())),
        original.height, control is not None or strangers is not None,
        column_of(known, Role.LEVEL) is not None,
        original, strangers, columns, known, source, control,
    )  # fmt: skip
    with options.naming(rules=f"{policy}: [rules]"):
        made, climbed = work.finished()
    chosen = work.chosen(made.k, climbed)
    more = further_copies(made.condenser, original, known, options)
    ledger = _ledger(original, [made.release, *more], known, made.condenser, made.options)
    audit = work.judged(climbed, chosen, job.accepted, remedy=work.remedy(climbed))
    summary = summary_of(made.condenser, made.tables, strangers, audit) | {"chosen": chosen}
    manifest = manifest_of(made, entry, columns, strangers, chosen)
    dialect = None if options.plain else shown_in(dialect, made.release)
    book = _codebook(made, columns, dialect, output) if options.codebook else None
    beside = beside_files(output, more, ledger, book, dialect)
    job.write(made.release, manifest, audit, dialect, chosen, beside)
    notes = [*notes_of(made.condenser, columns, made.release), *told_choice(chosen)]
    notes += told_beside(output, more, ledger)
    levels_table = [dict(row._asdict()) for row in made.condenser.level_summary_]
    left_out = left_out_rows(columns, made.release.columns)
    tables = {"levels": levels_table, "tried": chosen["tried"], "left_out": left_out}
    return Done(summary, tables, notes, audit.verdict, audit)


def _read_estimates(original: pl.DataFrame, columns: list[Column], options: Condensing) -> None:
    """Refuse a named estimate that cannot be read before anything is fitted."""
    if not options.ledger or not options.policy.estimates:
        return
    from tulle.estimating._questions import parse_question

    shown = [one.name for one in columns if one.role.released or one.role is Role.PERSON]
    with options.naming(question=f"{options.policy_file}: [estimates]"):
        for text in options.policy.estimates:
            parse_question(text, original.select(shown))


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


def _codebook(made: Made, columns: list[Column], dialect: Any, output: FilePath) -> dict[str, Any]:
    least = max(min(made.condenser.rests_on_.values()), 2)
    labels = dialect.columns if isinstance(dialect, FileLabels) else {}
    return codebook(made.release, columns, labels, least, display_name(output))


@dataclass(frozen=True)
class _TableWork(Work):
    """The release of a single table."""

    original: pl.DataFrame
    strangers: pl.DataFrame | None  # kept out, if somebody asked for it
    columns: list[Column]
    known: list[Column]  # those that the table has
    source: FilePath
    control: FilePath | None

    def make(self, options: Condensing) -> Made:
        condenser, release = make_release(self.original, self.known, options.policy.rules, options)
        frames = compared_frames(
            self.original, release, self.source, self.control, self.strangers, self.columns
        )
        people = compared_rows(frames, self.columns, options.policy.people.order)
        return Made(condenser, release, align_made(*frames, self.columns), options, people)

    def audited(self, made: Made, splits: Splits | None, *, whole: bool) -> Audit:
        return audited_release(made, splits, self.columns, self.command, whole=whole)

    def attacked(
        self, options: Condensing, rng: np.random.Generator, *, patient: bool, **how: Any
    ) -> Splits:
        def make(part: pl.DataFrame, seed: int) -> pl.DataFrame:
            own = replace(options, seed=seed)
            return make_release(part, self.known, options.policy.rules, own)[1]

        return attack_splits(
            self.original, self.known, make, rng,
            order=options.policy.people.order, patient=patient, **how,
        )  # fmt: skip

    def remedy(self, climbed: Climbed) -> str:
        """Say what passes where this release does not: empty, unless that was tried and found.

        It is a larger k, where one was given, else the best k without the column that can be
        inferred best.
        """
        point = climbed.point
        if self.by_hand or climbed.passed or not point.attacks:
            return ""
        if not self.chooses:
            return self._larger() if point.level == "bad" else ""
        name, k = inferred(point.attacks), point.spec.k
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

    def _larger(self) -> str:
        """Name the smallest k beyond the given one that passes."""
        own = self.options.k or self.options.min_group or 0
        larger = [k for k in sizes_for(self.people) if k > own]
        if not larger or self.levelled:
            return ""
        climbed = climb(larger, self.measured)
        return f"Take k = {climbed.point.spec.k}, which passes." if climbed.passed else ""
