"""``tulle condense``: a table in, a look-alike table with its manifest (and report) out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tulle._commands._columns import (
    column_of,
    left_out_rows,
    plan_columns,
    with_drawn_levels,
    with_file_codes,
    without_opaque,
)
from tulle._commands._condensed import (
    Condensed,
    Made,
    audited_release,
    compared_frames,
    manifest_of,
    notes_of,
    summary_of,
)
from tulle._commands._condensing import (
    Condensing,
    divided,
    further_copies,
    make_release,
    refuse_contradictions,
    refuse_unused,
    with_people,
)
from tulle._commands._copies import beside_files, check_beside, told_beside, wants_ledger
from tulle._commands._database import condense_linked
from tulle._commands._decision import Job
from tulle._commands._large import condense_large
from tulle._commands._linked import is_linked
from tulle._commands._memory import is_large
from tulle._commands._options import resolve
from tulle._commands._sources import source_entry
from tulle._commands.split import drawn_apart
from tulle.errors import DataError, PrivacyError, PrivacyWarning, TulleError
from tulle.io._formats import display_name, format_of
from tulle.releases import refuse_folder
from tulle.table.schema import Column, Role

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    import polars as pl

    from tulle._types import FilePath
    from tulle.auditing._splits import Splits
    from tulle.exploring._choice import Climbed
    from tulle.exploring._points import Point, Round
    from tulle.table.split import Rows


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
        options = replace(options, ledger=wants_ledger(output, options))
        check_beside(output, options, force=force)

    from tulle.auditing._pictures import size_section
    from tulle.io._statistics_files import shown_in
    from tulle.io.read import read_written

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
    original = without_opaque(original, columns)
    there = set(original.columns)
    known = [column for column in columns if column.name in there]
    if apart is None:
        apart = drawn_apart(original, known, options, options.holdout, options.seed)
    original, strangers = divided(original, apart)
    _read_estimates(original, known, options)
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
    summary = summary_of(made.condenser, made.tables, strangers, found) | {"chosen": chosen}
    manifest = manifest_of(made, entry, columns, strangers, chosen)
    dialect = None if options.plain else shown_in(dialect, made.release)
    book = _codebook(made, columns, dialect, output) if options.codebook else None
    beside = beside_files(output, more, ledger, book, dialect)
    job.write(made.release, manifest, found, dialect, chosen, beside)
    notes = [*notes_of(made.condenser, columns, made.release), *_why(chosen)]
    notes += told_beside(output, more, ledger)
    levels_table = [dict(row._asdict()) for row in made.condenser.level_summary_]
    left_out = left_out_rows(columns, made.release.columns)
    return Condensed(summary, levels_table, left_out, notes, found)


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


def _codebook(made: Made, columns: list[Column], dialect: Any, output: FilePath) -> dict[str, Any]:
    from tulle._report.codebook import codebook

    least = max(min(made.condenser.rests_on_.values()), 2)
    from tulle.io._statistics_files import FileLabels

    labels = dialect.columns if isinstance(dialect, FileLabels) else {}
    return codebook(made.release, columns, labels, least, display_name(output))


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
    made: dict[int | None, Made] = field(default_factory=dict)

    @property
    def chooses(self) -> bool:
        """Whether nobody said how large groups are."""
        said = (self.options.k, self.options.min_group, column_of(self.known, Role.LEVEL))
        return self.options.audit and said == (None, None, None)

    @property
    def by_hand(self) -> bool:
        """Whether somebody named the people to compare with."""
        return self.control is not None or self.strangers is not None

    def finished(self) -> tuple[Made, Climbed]:
        """Return the release to write, and how it was found."""
        from tulle.exploring._choice import Climbed, climb, sizes_for

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

    def at(self, k: int | None) -> Made:
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
            self.made[k] = Made(condenser, release, tables, options, warned, people)
        return self.made[k]

    def _sized(self, k: int | None) -> Condensing:
        # of classes too: a common divisor of their sizes would be another in each part of them
        return self.options if k is None else replace(self.options, k=k)

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
        found = audited_release(made, splits, self.columns, self.command, whole=whole)
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

        from tulle._random import as_generator
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
        rng = (
            as_generator(None)
            if seed is None
            else np.random.default_rng((seed, k or 0, round == "whole"))
        )
        whole = self.report is not None and round == "whole"
        try:
            return attack_splits(
                self.original, self.known, make, rng, count,
                most=most, quick=not whole, order=options.policy.people.order,
                patient=round == "whole" and not self.options.quick,
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

    def chosen(self, made: Made, climbed: Climbed) -> dict[str, Any]:
        """Return the k that is released, what was tried, and why it is this one."""
        why, tried = climbed.why, climbed.rows()
        if not self.chooses:
            given = self.options.k is not None or self.options.min_group is not None
            tried, why = [], "it was given" if given else "nothing was attacked to choose it by"
        levels = column_of(self.known, Role.LEVEL) is not None
        return {"k": None if levels else made.k, "tried": tried, "why": "" if levels else why}


def _why(chosen: dict[str, Any]) -> list[str]:
    return [f"Of the sizes tried, {chosen['why']}."] if chosen["tried"] else []
