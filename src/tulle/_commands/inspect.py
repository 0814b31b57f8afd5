"""``tulle inspect``: what a table holds, who stands out in it, and an initial policy for it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tulle._commands._columns import left_out_rows, quoted, to_keep
from tulle._commands._large import look_at, repeated_in
from tulle._commands._sources import check_files
from tulle.errors import DataError
from tulle.io._formats import display_name, format_of, is_sql, split_sheet
from tulle.table.policy import CONTEXT, Policy, write_policy
from tulle.table.schema import Column, Role

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    import polars as pl

    from tulle._relations.proposals import Proposal
    from tulle.guessing.columns import Guess
    from tulle.table.uniqueness import SinglingOut

SHOWN = 5  # combinations of each size


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
    format_of(source)
    writes = {} if keep else {"--output": target}
    check_files({"INPUT": source}, writes=writes, folders=("INPUT",), force=force)

    from tulle.guessing.columns import guess_columns
    from tulle.table.uniqueness import singling_out

    looked = look_at(source)
    table, notes = looked.table, looked.notes
    if not table.height:
        raise DataError(f"{display_name(source)} has no records: there is nothing to inspect")
    guesses = guess_columns(table)
    if looked.sampled:
        notes = notes + repeated_in(source, [g.column for g in guesses], looked.records)
    rules = _proposed_rules(table, [guess.column for guess in guesses])
    policy = Policy(
        tuple(_with_advice(guess) for guess in guesses),
        rules=tuple(rule.rule.text for rule in rules) if rules else None,
        rule_reasons={rule.rule.text: rule.reason for rule in rules},
        context=dict.fromkeys(CONTEXT, ""),
    )
    found = singling_out(table, policy.named(Role.QUASI))
    if not keep:
        write_policy(policy, target, made_for=Path(display_name(source)).name, force=force)
    summary = {
        "table": display_name(source),
        "records": looked.records,
        "unique_in_quasi_identifiers": found.together.unique,
        "share_unique": round(found.together.share, 4),
        "policy": os.fspath(target),
        "policy_written": not keep,
    }
    return Inspection(
        summary,
        [_column_row(guess) for guess in guesses],
        [_short_row(guess) for guess in guesses if guess.column.reason],
        left_out_rows(guess.column for guess in guesses),
        _combination_rows(found),
        [
            {"rule": one.rule.text, "records": one.records, "exceptions": one.exceptions}
            for one in rules
        ],
        [*notes, *_column_notes(guesses), *_notes(found, target, keep)],
        policy,
    )


def _proposed_rules(table: pl.DataFrame, columns: list[Column]) -> list[Proposal]:
    """Return the rules between columns that the table follows."""
    import numpy as np

    from tulle._relations.proposals import LEAST, propose_rules
    from tulle._relations.values import as_released, writings_of
    from tulle.condense._people import locate_people
    from tulle.table._encoder import TableEncoder
    from tulle.table._rare import Crowd
    from tulle.table.schema import Schema

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
    return propose_rules(seen, known, LEAST, people, writings_of(encoder.codecs))


def policy_path(source: str | os.PathLike[str]) -> Path:
    """Return the path of a table's policy: ``people.csv.gz`` -> ``people.policy.toml``."""
    name = display_name(source)
    if is_sql(source):
        stem = name.rpartition("#")[2].replace("/", "_") or "table"
    else:
        stem = Path(split_sheet(name)[0]).name.split(".")[0]
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
        "reason": column.reason or "no evidence for another role",
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
            {
                "columns": " + ".join(one.columns),
                "unique": one.unique,
                "share": round(one.share, 4),
            }
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
    if kept:
        notes.append(f"{target} already exists and was kept: pass --force to replace it.")
    else:
        notes.append(f"Edit {target} and pass it to other commands with --policy.")
    return notes
