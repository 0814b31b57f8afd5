"""``tulle inspect``: what a table holds, who stands out in it, and an initial policy for it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._commands._columns import left_out_rows, quoted, to_keep, with_file_codes
from tulle._commands._linked import ask, is_linked, proposed
from tulle._commands._memory import look_at, repeated_in
from tulle._commands._sources import check_files
from tulle._relations.proposals import LEAST, Proposal, propose_rules
from tulle._relations.values import as_released, writings_of
from tulle._types import FilePath
from tulle.condense._levels import locate_people
from tulle.condense._row_tables import find_order
from tulle.errors import DataError
from tulle.guessing.columns import Guess, guess_columns
from tulle.io._formats import STATISTICS, display_name, format_of, is_sql, split_sheet
from tulle.io.read import read_written
from tulle.table._encoder import TableEncoder
from tulle.table._linked import PeopleSection
from tulle.table._rare import Crowd
from tulle.table.policy import CONTEXT, Policy, write_policy
from tulle.table.schema import Column, Role, Schema
from tulle.table.uniqueness import SinglingOut, singling_out

SHOWN = 5  # combinations of each size
SILENT = "no evidence for another role"


class Inspection(NamedTuple):
    """What was found; counts and guesses, no value of the table."""

    summary: dict[str, Any]
    columns: list[dict[str, Any]]
    telling: list[dict[str, Any]]  # the rows of the columns that something was found out about
    left_out: list[dict[str, str]]
    combinations: list[dict[str, Any]]
    rules: list[dict[str, Any]]  # between columns, with their counts
    notes: list[str]
    policy: Policy


def inspect(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    force: bool = False,
) -> Inspection:
    """Look at a table and write an initial policy.

    Without ``output`` the policy goes into the current folder under the name of the table, unless
    there is one already.
    """
    target = policy_path(source) if output is None else Path(output)
    keep = output is None and target.exists() and not force
    if is_linked(source, Policy()):
        return _inspect_linked(source, target, keep=keep, force=force)
    format_of(source)
    writes = {} if keep else {"--output": target}
    check_files({"INPUT": source}, writes=writes, folders=("INPUT",), force=force)

    looked = look_at(source)
    table, notes = looked.table, looked.notes
    if not table.height:
        raise DataError(f"{display_name(source)} has no records: there is nothing to inspect")
    guesses = guess_columns(table)
    if format_of(source) in STATISTICS:
        known = with_file_codes([g.column for g in guesses], read_written(source)[1], table)
        guesses = [replace(guess, column=column) for guess, column in zip(guesses, known)]
    if looked.sampled:
        notes = notes + repeated_in(source, [g.column for g in guesses], looked.records)
    rules = _proposed_rules(table, [guess.column for guess in guesses])
    columns = [guess.column for guess in guesses]
    person = [column.name for column in columns if column.role is Role.PERSON]
    policy = Policy(
        tuple(_with_advice(guess) for guess in guesses),
        rules=tuple(rule.rule.text for rule in rules) if rules else None,
        rule_reasons={rule.rule.text: rule.reason for rule in rules},
        context=dict.fromkeys(CONTEXT, ""),
        people=PeopleSection(order=_order(table, columns, person)),
    )
    found = singling_out(table, policy.named(Role.QUASI))
    if not keep:
        write_policy(policy, target, made_for=Path(display_name(source)).name, force=force)
    summary = {
        "table": display_name(source),
        "records": looked.records,
        "number_of_columns": table.width,
        "unique_in_quasi_identifiers": found.together.unique,
        "share_unique": round(found.together.share, 4),
        "policy": os.fspath(target),
        "policy_written": not keep,
    }
    return Inspection(
        summary,
        [_column_row(guess) for guess in guesses],
        [_short_row(guess) for guess in guesses if guess.column.reason],
        left_out_rows([guess.column for guess in guesses], person),
        _combination_rows(found),
        [
            {"rule": one.rule.text, "records": one.records, "exceptions": one.exceptions}
            for one in rules
        ],
        [*notes, *_column_notes(guesses), *_order_notes(policy), *_notes(found, target, keep)],
        policy,
    )


def _inspect_linked(source: FilePath, target: Path, *, keep: bool, force: bool) -> Inspection:
    """Look at linked tables: who is counted, how tables lead to them, and what columns are."""
    writes = {} if keep else {"--output": target}
    check_files({"INPUT": source}, writes=writes, databases=("INPUT",), force=force)
    linked, plan = proposed(source)
    if not plan.people.table:
        raise DataError(ask(source, plan))
    sections, guesses = {}, {}
    for name, section in plan.tables.items():
        ways = {*section.key, *section.link, *([plan.people.key] if not section.parent else [])}
        table, second = linked.frames[name], plan.second.get(name, {})
        own, people = table.drop(ways, strict=False), plan.people.table
        guesses[name] = [] if section.role else _linked_guesses(own, second, people)
        columns = tuple(_with_advice(guess) for guess in guesses[name])
        order = _order(table, columns, section.link if section.parent else ())
        sections[name] = replace(section, columns=columns, order=order)
    policy = Policy(people=plan.people, tables=sections, context=dict.fromkeys(CONTEXT, ""))
    if not keep:
        write_policy(policy, target, made_for=Path(display_name(source)).name, force=force)
    summary = {
        "source": display_name(source),
        "tables": len(linked.frames),
        "people": linked.frames[plan.people.table].height,
        "policy": os.fspath(target),
        "policy_written": not keep,
    }
    rows = [(f"{name}.", guess) for name, of_table in guesses.items() for guess in of_table]
    return Inspection(
        summary,
        [{**_column_row(guess), "name": dot + guess.column.name} for dot, guess in rows],
        [{**_short_row(g), "name": dot + g.column.name} for dot, g in rows if g.column.reason],
        [
            {**row, "column": dot + row["column"]}
            for dot, g in rows
            for row in left_out_rows([g.column] if g.column.role is not Role.PERSON else [])
        ],
        [],
        [],
        [*plan.sentences, *_linked_notes(rows, plan.people.table, target, keep)],
        policy,
    )


def _linked_guesses(frame: pl.DataFrame, second: Mapping[str, str], people: str) -> list[Guess]:
    """Return what the columns are; what holds another key names people, and is not released.

    But the key of the people themselves is: as the new one.
    """
    found = []
    for guess in guess_columns(frame):
        of = second.get(guess.column.name)
        if of is not None:
            role = Role.PERSON if of == people else Role.IDENTIFIER
            column = replace(guess.column, role=role, reason=f"holds the key of {of}")
            guess = replace(guess, column=column, needs_decision=False)
        found.append(guess)
    return found


def _linked_notes(
    rows: list[tuple[str, Guess]], people: str, target: Path, kept: bool
) -> list[str]:
    undecided = [dot + guess.column.name for dot, guess in rows if guess.needs_decision]
    notes = [
        f"Which table is the people's decides whom a release protects: check that '{people}' has "
        "one row for each of them, and that nobody stands above.",
        "Roles are guessed from names and counts: check them before you release anything.",
    ]
    if undecided:
        notes.append(
            f"To be decided ({len(undecided)}): {quoted(undecided)}. The policy leaves them out."
        )
    return [*notes, _written(target, kept)]


def _order(table: pl.DataFrame, columns: Iterable[Column], by: Sequence[str]) -> tuple[str, ...]:
    """Return the time by which the rows of a person or a parent follow each other, if any."""
    if not by:
        return ()
    named = pl.concat_str([pl.col(name).cast(pl.String) for name in by], separator="\0")
    of = table.select(named.rank("dense").fill_null(0).cast(pl.Int64)).to_series().to_numpy()
    return find_order(table, Schema(columns), of)


def _order_notes(policy: Policy) -> list[str]:
    if not policy.people.order:
        return []
    names = ", ".join(f'"{name}"' for name in policy.people.order)
    return [
        f"The rows of a person are in an order: [people] order = [{names}] releases people with "
        "their rows in this order. Without it their rows have none."
    ]


def _proposed_rules(table: pl.DataFrame, columns: list[Column]) -> list[Proposal]:
    schema = Schema(columns)
    if not schema.released:
        return []
    people = locate_people(table, schema)
    crowd = Crowd.of_kept(LEAST, np.ones(table.height, dtype=bool), people, None)
    try:
        encoder = TableEncoder(schema).fit(table, crowd=crowd)
        plain = encoder.plain(table, LEAST, np.random.default_rng(0), people)
    except DataError:  # a column that a person has to decide about first
        return []
    known = {column.name: column for column in plain}
    seen = as_released(table, encoder.codecs, known)
    found = propose_rules(seen, known, LEAST, people, writings_of(encoder.codecs))
    weights = schema.named(Role.WEIGHT)  # calibrated at the end: no formula holds of them
    return [one for one in found if not {*weights} & {*one.rule.columns}]


def policy_path(source: str | os.PathLike[str]) -> Path:
    """Return the path of a table's policy: ``people.csv.gz`` -> ``people.policy.toml``."""
    name = display_name(source)
    if is_sql(source) and "#" in name:
        stem = name.rpartition("#")[2].replace("/", "_") or "table"
    else:
        stem = Path(split_sheet(name)[0].rpartition("://")[2]).name.split(".")[0]
    return Path(f"{stem}.policy.toml")


def _with_advice(guess: Guess) -> Column:
    """Return the column for the policy; one that needs a decision says what to write."""
    column = guess.column
    if not guess.needs_decision:
        return column
    advice = f"Check this role. To keep the column: {to_keep(column)}"
    return replace(column, reason=f"{column.reason}. {advice}")


def _column_row(guess: Guess) -> dict[str, Any]:
    column = guess.column
    return {
        "name": column.name,
        "kind": column.kind.value,
        "role": column.role.value,
        "missing": guess.absent,
        "distinct": guess.distinct,
        "special": len(column.special),
        "not_understood": guess.unread,
        "action": guess.action,
        "reason": column.reason or SILENT,
    }


def _short_row(guess: Guess) -> dict[str, Any]:
    """Return what fits on one line of a terminal."""
    row = _column_row(guess)
    return {key: row[key] for key in ("name", "kind", "role", "distinct", "action", "reason")}


def _column_notes(guesses: list[Guess]) -> list[str]:
    """Return notes about several columns at once, and about people with several rows."""
    notes = []
    silent = [guess.column.name for guess in guesses if not guess.column.reason]
    if silent:
        notes.append(
            f"Treated as quasi-identifiers for lack of other evidence ({len(silent)}): "
            f"{quoted(silent)}."
        )
    undecided = [guess.column.name for guess in guesses if guess.needs_decision]
    if undecided:
        notes.append(
            f"To be decided ({len(undecided)}): {quoted(undecided)}. The policy leaves them out, "
            "and so do commands without a policy; with --strict they refuse the table."
        )
    notes += [
        f"Column '{guess.column.name}' identifies people who have several rows: with the role "
        f"'{Role.PERSON}', k counts people, not rows."
        for guess in guesses
        if guess.column.role is Role.PERSON
    ]
    return notes


def _combination_rows(found: SinglingOut) -> list[dict[str, Any]]:
    rows = []
    for size in range(1, 4):
        some = [one for one in found.combinations if len(one.columns) == size]
        rows += [
            {"columns": " + ".join(one.columns), "unique": one.unique, "share": round(one.share, 4)}
            for one in some[:SHOWN]
        ]
    return rows


def _notes(found: SinglingOut, target: Path, kept: bool) -> list[str]:
    notes = ["Roles are guessed from names and counts: check them before you release anything."]
    if not found.together.columns:
        notes.append("No column is treated as a quasi-identifier: no combination was examined.")
    elif found.examined < found.possible:
        notes.append(
            f"{found.examined} of {found.possible} combinations were examined: those of the "
            "columns with the most distinct values first, and none with a subset that singles "
            "out a fifth of the records."
        )
    return [*notes, _written(target, kept)]


def _written(target: Path, kept: bool) -> str:
    if kept:
        return f"{target} already exists and was kept: pass --force to replace it."
    return f"Edit {target} and pass it to other commands with --policy."
