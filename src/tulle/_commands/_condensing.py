"""How a table is condensed as the options of ``tulle condense`` ask for it."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from tulle._checks import check_choice, check_flag, check_int
from tulle._choices import SMALL_CLASSES
from tulle._commands._columns import class_column, column_of
from tulle._commands._copies import draw_rows
from tulle._commands._decision import refuse_two_controls
from tulle._commands._options import Options
from tulle._random import as_generator
from tulle._types import FilePath
from tulle.auditing import Audit
from tulle.auditing._pictures import size_section
from tulle.auditing._splits import Splits, bounds
from tulle.condense.class_condenser import ClassCondenser
from tulle.condense.condenser import Condenser
from tulle.errors import DataError, ParameterError, PrivacyError, PrivacyWarning, TulleError
from tulle.exploring._choice import Climbed, climb, sizes_for
from tulle.exploring._points import Point, Round, Spec, worst
from tulle.table.schema import Column, Role
from tulle.table.split import Rows


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
    ledger: bool | None = (
        None  # measure how far estimates lie from the original's; see wants_ledger
    )
    codebook: bool = False  # describe the columns of the release beside it
    memory: str | None = None  # beyond which a table is condensed in cells; half of the machine's
    plain: bool = False  # CSV in the normalised form, not in that of the source
    seed: int | None = None


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


def condenser_of(
    columns: list[Column], target: Column | None, rules: tuple[str, ...] | None, options: Condensing
) -> Condenser:
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


@dataclass(frozen=True)
class Work(ABC):
    """One release that is asked for, of a table or of linked ones, and how it is judged at a k."""

    options: Condensing
    command: str
    reported: bool  # whether the whole audit is wanted
    people: int  # who are condensed
    size: int  # what is condensed: records, or people of linked tables
    by_hand: bool  # whether somebody named the people to compare with
    levelled: bool  # whether people say themselves how large their groups are
    made: dict[int | None, tuple[Any, list[Any]]] = field(default_factory=dict, kw_only=True)

    @abstractmethod
    def make(self, options: Condensing) -> Any:
        """Make a release of everybody."""

    @abstractmethod
    def attacked(
        self, options: Condensing, rng: np.random.Generator, *, patient: bool, **how: Any
    ) -> Splits:
        """Attack releases of parts of the people."""

    @abstractmethod
    def audited(self, made: Any, splits: Splits | None, *, whole: bool) -> Audit:
        """Audit a release of everybody."""

    @property
    def chooses(self) -> bool:
        """Whether nobody said how large groups are."""
        said = self.options.k is not None or self.options.min_group is not None
        return self.options.audit and not said and not self.levelled

    def finished(self) -> tuple[Any, Climbed]:
        """Return the release to write, and how it was found."""
        if self.chooses:
            sizes = sizes_for(self.people, quick=self.options.quick)
            climbed = climb(sizes, self.measured, fresh=not self.by_hand)
        else:
            point = self.measured(None, "whole")
            climbed = Climbed(point, [point])
        made, warned = self.made[climbed.point.spec.k]
        for one in warned:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        return made, climbed

    def sized(self, k: int | None) -> Condensing:
        """Return the options for a k; None stands for what they say themselves."""
        # of classes too: a common divisor of their sizes would be another in each part of them
        return self.options if k is None else replace(self.options, k=k)

    def measured(self, k: int | None, round: Round) -> Point:
        """Make the release at a k, and judge it; one that cannot be made ends the search."""
        name, spec = f"{k}-{round}", Spec(round, self.options.synthesis, k=k)
        try:
            if k not in self.made:
                with warnings.catch_warnings(record=True) as warned:
                    warnings.simplefilter("always", PrivacyWarning)
                    self.made[k] = self.make(self.sized(k)), warned
        except (DataError, PrivacyError) as error:
            if not self.made:
                raise
            return Point(name, spec, self.size, error=str(error))
        made, whole = self.made[k][0], self.reported and round == "whole"
        audit = self.audited(made, self._splits(k, round, whole=whole), whole=whole)
        attacks = audit.result["attacks"]
        return Point(
            name, spec, self.size, made.size, **worst(attacks),
            attacks=attacks, verdict=audit.verdict, audit=dict(audit.result),
        )  # fmt: skip

    def _splits(self, k: int | None, round: Round, *, whole: bool) -> Splits | None:
        """Attack releases of parts of the people; None where others are there to compare with."""
        last, seed = round == "whole", self.options.seed
        if not self.options.audit or (self.by_hand and last):
            return None
        count, most = bounds(self.people, choosing=not last, quick=self.options.quick)
        # a part is tried, and never released: it may break rules
        options = replace(self.sized(k), accept_broken_rules=True)
        if options.small_classes == "error":  # nor need it have enough of every class
            options = replace(options, small_classes="pool")
        if options.time is not None:
            options = replace(options, time=options.time / count)
        # of other people in each round and at each k: none is judged by the splits that chose it
        own = None if seed is None else (seed, k or 0, last)
        rng = as_generator(None) if own is None else np.random.default_rng(own)
        try:
            return self.attacked(
                options, rng, count=count, most=most, quick=not whole,
                patient=last and not self.options.quick,
            )  # fmt: skip
        except TulleError:
            return None  # too few people for a release of a part of them

    def chosen(self, k: int | None, climbed: Climbed) -> dict[str, Any]:
        """Return the k that is released, what was tried, and why it is this one."""
        if self.levelled:
            return {"k": None, "tried": [], "why": ""}
        if self.chooses:
            return {"k": k, "tried": climbed.rows(), "why": climbed.why}
        given = self.options.k is not None or self.options.min_group is not None
        why = "it was given" if given else "nothing was attacked to choose it by"
        return {"k": k, "tried": [], "why": why}

    def judged(self, climbed: Climbed, chosen: dict[str, Any], accepted: str, **more: Any) -> Audit:
        """Return the audit of what is released, and what was tried before it."""
        return climbed.audit(
            context=dict(self.options.policy.context),
            accepted_risk=accepted,
            sections=size_section(chosen["tried"], chosen["why"]),
            tried=sorted({row["k"] for row in chosen["tried"]}),
            **more,
        )


def told_choice(chosen: dict[str, Any]) -> list[str]:
    """Say why it is this k, where several were tried."""
    return [f"Of the sizes tried, {chosen['why']}."] if chosen["tried"] else []
