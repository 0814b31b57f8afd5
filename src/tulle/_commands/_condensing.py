"""How a table is condensed as the options of ``tulle condense`` ask for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tulle._checks import check_choice, check_flag, check_int
from tulle._choices import SMALL_CLASSES
from tulle._commands._columns import class_column, column_of
from tulle._commands._copies import draw_rows
from tulle._commands._decision import refuse_two_controls
from tulle._commands._options import Options
from tulle.errors import DataError, ParameterError
from tulle.table.schema import Column, Role

if TYPE_CHECKING:
    import polars as pl

    from tulle._types import FilePath
    from tulle.condense.class_condenser import ClassCondenser
    from tulle.condense.condenser import Condenser
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
