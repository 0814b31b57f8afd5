"""The columns of a command: roles given as options, else those of the policy, else guesses."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import combinations
from typing import Any

import polars as pl

from tulle._commands._options import Options
from tulle._random import RandomState, as_generator, coarse_count
from tulle.condense._grouping import GroupFacts
from tulle.errors import DataError, ParameterError, nearest_name
from tulle.guessing.columns import Guess, guess_columns
from tulle.io._statistics_files import FileLabels
from tulle.table._series import free_name, is_class, is_opaque
from tulle.table.schema import Column, Kind, Role

_WIDEST = 1_000  # columns of a release


def plan_columns(
    table: pl.DataFrame,
    options: Options,
    *,
    target: str | None = None,
    levels: str | None = None,
    strict: bool = False,
) -> list[Column]:
    """Return the columns with their roles.

    Without a policy, kinds, identifiers and useless columns are inferred; a target and levels are
    used only if they are asked for. A column that may identify people, and that nothing decides
    about, is left out and its reason says so; if ``strict``, the table is refused.
    """
    refuse_two_roles(target, levels)
    declared = options.described(table.columns)
    _refuse_wide(sum(c.role.released for c in declared) if declared else table.width)
    columns = declared or guessed(table, decided=(target, levels), strict=strict)
    return with_roles(columns, target, levels)


def with_file_codes(columns: list[Column], labels: Any, table: pl.DataFrame) -> list[Column]:
    """Return columns with what their file says: codes for no answer, and values with labels."""
    if not isinstance(labels, FileLabels):
        return columns
    numbers = (Kind.INTEGER, Kind.DECIMAL, Kind.ORDERED)
    found = []
    for column in columns:
        own = labels.columns.get(column.name)
        if own is not None and column.kind in numbers and column.role.released:
            series = table[column.name].drop_nulls()
            codes = own.codes(series)
            values = {value for value in series.unique() if value not in codes}
            if column.kind is not Kind.ORDERED and own.values.keys() >= values:
                column = replace(column, kind=Kind.CATEGORY, reason="every value has a label")
            else:
                column = replace(column, missing=tuple(dict.fromkeys((*column.missing, *codes))))
        found.append(column)
    return found


def _refuse_wide(width: int) -> None:
    """Raise for more columns than can be compared in pairs; asked before any of them is read."""
    if width > _WIDEST:
        raise DataError(
            f"{width:,} columns would be released, and time and memory grow with their square: at "
            f"most {_WIDEST:,} may be. Choose them in a policy (`tulle inspect` writes one): "
            'role = "ignored" leaves a column out'
        )


def guessed(
    table: pl.DataFrame, decided: Collection[str | None], *, strict: bool = False
) -> list[Column]:
    """Return the guessed columns; of what a person has to decide about, the safe guess."""
    guesses = guess_columns(table)
    unsure = [g for g in guesses if g.needs_decision and g.column.name not in decided]
    if unsure and strict:
        _refuse_undecided(unsure)
    return [_safe(guess) for guess in guesses]


def _safe(guess: Guess) -> Column:
    """Return the column as it is used while nobody has decided about it."""
    column = guess.column
    if guess.needs_decision:
        counts = column.role is Role.PERSON
        done = "people counted by it, with new keys" if counts else "left out to be safe"
        return replace(column, reason=f"{column.reason}: not sure, {done}")
    return replace(column, role=Role.QUASI) if column.role in (Role.TARGET, Role.LEVEL) else column


def _refuse_undecided(guesses: list[Guess]) -> None:
    """Raise for columns that may identify people and that nobody has decided about."""
    shown = [f"column '{g.column.name}' ({g.column.reason})" for g in guesses]
    example = guesses[0].column
    raise DataError(
        f"{', '.join(shown)} may identify people: set a role in a policy (`tulle inspect` "
        f"writes one) and pass it with --policy. To leave '{example.name}' out: role = "
        f'"identifier"; to keep it: {to_keep(example)}. Without --strict they are left out'
    )


def to_keep(column: Column) -> str:
    """Return what to write into a policy to keep a column that is left out.

    >>> to_keep(Column("town", Kind.TEXT, Role.IDENTIFIER))
    'kind = "category", role = "quasi-identifier"'
    """
    if column.kind is Kind.TEXT and column.role is Role.IGNORED:
        return f'role = "{Role.QUASI}", text = "codes": a word of each text that k people use'
    kind = Kind.CATEGORY if column.kind is Kind.TEXT else column.kind
    return f'kind = "{kind}", role = "{Role.QUASI}"'


def left_out_rows(
    columns: Iterable[Column], released: Collection[str] = ()
) -> list[dict[str, str]]:
    """Return the columns that are not released, why, and what to write to keep each.

    ``released`` are those of the release, which has keys of its own for people.
    """
    return [
        {
            "column": column.name,
            "reason": column.reason or f"its role is '{column.role}'",
            "to_keep_it": to_keep(column),
        }
        for column in columns
        if column.role in (Role.IDENTIFIER, Role.PERSON, Role.IGNORED)
        and column.name not in released
    ]


# options of a column that a manifest tells where they are given
_TOLD = ("missing", "codes", "format", "keep_rare", "hierarchy", "text")
_VALUES = ("missing", "codes")  # options that name values of the table


def column_entries(
    columns: Iterable[Column], *, declared: bool, released: Collection[str] = ()
) -> dict[str, dict[str, Any]]:
    """Return what a manifest says of the columns; of those left out also why, and the remedy.

    Values are named where a policy declares them. One that was found in the table may be that of
    a single person: whether it is in the release, and how often, the release shows.
    """
    columns = list(columns)
    told = tuple(name for name in _TOLD if declared or name not in _VALUES)
    left_out = {row["column"]: row for row in left_out_rows(columns, released)}
    entries: dict[str, dict[str, Any]] = {}
    for column in columns:
        entry: dict[str, Any] = {"kind": column.kind.value, "role": column.role.value}
        if column.role.released:
            options = {option: getattr(column, option) for option in told}
            entry |= {option: _listed(value) for option, value in options.items() if value}
        row = left_out.get(column.name, {})
        entries[column.name] = entry | {k: text for k, text in row.items() if k != "column"}
    return entries


def told_counts(groups: GroupFacts, k: int | None) -> dict[str, Any]:
    """Return what a manifest counts in a condensed table: nothing that rests on a few people.

    Without ``k``, levels ask for the groups. Each is one person's own, who may be alone with the
    lowest or the highest: sizes are left out then.
    """
    counts: dict[str, Any] = {"groups": len(groups.counts)}
    if k is not None:
        counts |= {
            "smallest group": int(groups.counts.min()),
            "fewest people in a group": int(groups.people.min()),
            "suppressed": coarse_count(groups.suppressed, k),
            "degenerate groups": coarse_count(groups.degenerate, k),
        }
    return counts


def told_source(entry: dict[str, Any], options: Any) -> dict[str, Any]:
    """Return the source; where records may be withheld, its size would tell how many were."""
    withholds = "suppress" in (options.on_infeasible, options.small_classes)
    return {name: value for name, value in entry.items() if not (withholds and name == "records")}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def unit_of(columns: list[Column]) -> str:
    """Return what groups count and a release protects, as a manifest says it."""
    person = column_of(columns, Role.PERSON)
    return "record" if person is None else f"person (column '{person.name}')"


def unit_notes(columns: Iterable[Column]) -> list[str]:
    """Say what is protected where it is not the single row."""
    return [
        f"k and levels count the distinct people in column '{column.name}', not rows"
        for column in columns
        if column.role is Role.PERSON
    ]


def quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def refuse_two_roles(target: str | None, levels: str | None, person: str | None = None) -> None:
    """Raise if one column is given two roles: the second would silently replace the first."""
    given = {"--target": target, "--levels": levels, "--person": person}
    named = {word: name for word, name in given.items() if name is not None}
    for one, other in combinations(named, 2):
        if named[one] == named[other]:
            raise ParameterError(
                f"{one} and {other} both name column '{named[one]}': a column can have only one "
                "role. Drop one of the options, or name another column"
            )


def with_drawn_levels(
    table: pl.DataFrame, levels: str | None, seed: RandomState
) -> tuple[pl.DataFrame, str | None]:
    """Return the table with levels drawn evenly from a range such as ``6..10``, if that is asked.

    They are for trials, such as those of paper 000: a real level is a person's own wish.
    """
    match = re.fullmatch(r"(\d+)\.\.(\d+)", levels or "")
    if match is None or levels in table.columns:
        return table, levels
    low, high = map(int, match.groups())
    if not 1 <= low <= high:
        raise ParameterError("must rise, as in 6..10", subject="--levels")
    name = free_name("level", table.columns)
    drawn = as_generator(seed).integers(low, high + 1, table.height)
    return table.with_columns(pl.Series(name, drawn)), name


def with_roles(
    columns: list[Column], target: str | None, levels: str | None, person: str | None = None
) -> list[Column]:
    for name, role in ((target, Role.TARGET), (levels, Role.LEVEL), (person, Role.PERSON)):
        if name is not None:
            columns = _with_role(columns, name, role)
    return columns


def without_opaque(table: pl.DataFrame, columns: list[Column]) -> tuple[pl.DataFrame, list[Column]]:
    """Return the table without lists, objects and bytes that the policy ignores, and what is left.

    That is what the policy says of the columns that the table then has.
    """
    left_out = [c.name for c in columns if not c.role.released]
    table = table.drop(name for name in left_out if is_opaque(table.schema[name]))
    there = set(table.columns)
    return table, [column for column in columns if column.name in there]


def column_of(columns: list[Column], role: Role) -> Column | None:
    return next((column for column in columns if column.role is role), None)


def names_classes(column: Column, table: pl.DataFrame) -> bool:
    """Return whether a target names classes; a quantity is condensed with the other columns."""
    return is_class(table[column.name], column.kind)


def class_column(columns: list[Column], table: pl.DataFrame) -> Column | None:
    target = column_of(columns, Role.TARGET)
    return target if target is not None and names_classes(target, table) else None


def words_of(columns: Iterable[Any]) -> list[str]:
    """Return the columns known to hold words or codes, whatever they look like."""
    words = (Kind.CATEGORY, Kind.TEXT)
    return [c.name for c in columns if isinstance(c, Column) and c.kind in words]


def _with_role(columns: list[Column], name: str, role: Role) -> list[Column]:
    names = [column.name for column in columns]
    if name not in names:
        raise DataError(f"there is no column '{name}' for the {role}: {nearest_name(name, names)}")
    instead = Role.IDENTIFIER if role is Role.PERSON else Role.QUASI  # of a column that had it
    return [
        replace(column, role=role)
        if column.name == name
        else (replace(column, role=instead) if column.role is role else column)
        for column in columns
    ]
