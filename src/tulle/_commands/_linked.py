"""Linked tables in commands: read as a policy links them, whole or split by person."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tulle._commands._columns import guessed, left_out_rows
from tulle._random import as_generator
from tulle._types import FilePath
from tulle.auditing._database import linked_like
from tulle.database.database import Database
from tulle.errors import DataError, ParameterError, PolicyError, TulleError, nearest_name
from tulle.io._databases import LinkedFrames, is_database, read_tables, read_tables_like, tables_of
from tulle.io._formats import display_name, is_sql
from tulle.table._linked import LEFT_OUT, LOOK_UP, TableSection
from tulle.table._links import LinkedPlan, propose_links
from tulle.table.policy import Policy
from tulle.table.schema import Column, Role
from tulle.table.split import check_part, draw_people


def is_linked(source: FilePath, policy: Policy) -> bool:
    """Return whether a source is several tables: the policy says so, or the source itself."""
    return bool(policy.people.table or policy.tables) or is_database(source)


@dataclass(frozen=True)
class LinkedTables:
    """Tables as a policy links them; everything here is the owner's."""

    source: FilePath
    frames: Mapping[str, pl.DataFrame]
    columns: Mapping[str, list[Column]]  # without keys and links
    arguments: Mapping[str, Any]  # of a Database
    unstated: list[str]  # tables of the source that the policy says nothing about

    @cached_property
    def database(self) -> Database:
        """The tables, rows of nobody left out."""
        return Database(self.frames, **self.arguments, columns=self.columns)

    def like(self, frames: Mapping[str, Any]) -> Database:
        """Return other tables of the same names, linked as these are."""
        return linked_like(self.database, frames)

    def divided(self, share: float | str, seed: Any) -> tuple[LinkedTables, LinkedTables]:
        """Return the tables of the members and those of the people kept apart.

        Each person is in one of them with all rows; look-ups are in both.
        """
        everybody = np.arange(self.database.n_people)
        part, generator = check_part(share), as_generator(seed)
        drawn = draw_people(everybody, np.zeros_like(everybody), part, generator)
        return self.of(np.setdiff1d(everybody, drawn.control)), self.of(drawn.control)

    def of(self, people: Any) -> LinkedTables:
        """Return the rows of some people in all tables, and the look-ups."""
        database = self.database
        chosen = np.isin(np.arange(database.n_people), people)
        frames = {
            name: frame.filter(chosen[database.persons[name]])
            if name in database.persons
            else frame
            for name, frame in database.tables.items()
        }
        return replace(self, frames=frames)

    def left_out(self) -> list[dict[str, str]]:
        """Return the columns that are not released, why, and what to write to keep each."""
        return [
            {**row, "column": f"{name}.{row['column']}"}
            for name, columns in self.columns.items()
            for row in left_out_rows([c for c in columns if c.role is not Role.PERSON])
        ]

    def notes(self) -> list[str]:
        """Return what the policy does not say."""
        if not self.unstated:
            return []
        return [f"left out, for the policy does not state them: {', '.join(self.unstated)}"]


def open_linked(
    source: FilePath, policy: Policy, policy_file: FilePath | None, like: LinkedTables | None = None
) -> LinkedTables:
    """Read the tables that a policy states; in the types of others with ``like``."""
    if not policy.people.table:
        raise DataError(ask(source, proposed(source)[1]))
    sections = _stated(policy)
    there = list(tables_of(source))
    for name in sections:
        if name not in there:
            where = "[people] table" if name == policy.people.table else f"[tables.{name}]"
            hint = nearest_name(name, there)
            raise PolicyError(
                f"{policy_file}: {where}: {display_name(source)} has no table '{name}': {hint}"
            )
    if like is None:
        frames = read_tables(source, list(sections)).frames
    else:
        model = LinkedFrames(dict(like.frames), {}, [])
        frames = read_tables_like(source, model, like.source, list(sections))
    if not frames[policy.people.table].height:
        raise DataError(f"table '{policy.people.table}' of {display_name(source)} has no people")
    arguments = _arguments(policy, sections)
    columns = {
        name: _columns(name, frames[name], sections[name], arguments, policy_file)
        for name in frames
        if name not in arguments["look_ups"]
    }
    left = [name for name in there if name not in sections and name not in policy.tables]
    return LinkedTables(source, frames, columns, arguments, left)


def proposed(source: FilePath) -> tuple[LinkedFrames, LinkedPlan]:
    """Read all tables, and propose who is counted and how tables lead to them."""
    linked = read_tables(source)
    return linked, propose_links(linked.frames, linked.keys, linked.links)


def ask(source: FilePath, plan: LinkedPlan) -> str:
    """Say which table is probably that of the people, and what to write if it is."""
    name = display_name(source)
    if not plan.people.table:
        return (
            f"{name} holds {len(plan.left_out)} tables, and no link between them was found: state "
            "in a policy which is the people's ([people] table) and how the others lead to it "
            "([tables.NAME] parent, link). If they are parts of one table, give them the same "
            "columns"
        )
    lines = f'[people] table = "{plan.people.table}" key = "{plan.people.key}"'
    return (
        f"{name} is several tables, and which one is the people's decides whom a release protects: "
        f"state it in a policy. Proposed: {plan.sentences[0]} If that is right: {lines}; "
        f"`tulle inspect {name} -o policy.toml` writes it with all links, to check and to pass "
        "with --policy"
    )


def _stated(policy: Policy) -> dict[str, TableSection]:
    """Return the tables that are not left out, that of the people first."""
    people = policy.people.table
    sections = {people: policy.tables.get(people, TableSection()), **policy.tables}
    return {name: section for name, section in sections.items() if section.role != LEFT_OUT}


def _arguments(policy: Policy, sections: Mapping[str, TableSection]) -> dict[str, Any]:
    """Return the links of the policy as a Database takes them."""
    people = policy.people
    links: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for name, section in sections.items():
        if section.parent:
            links.setdefault(name, []).append((section.link, section.parent))
        for column in section.link if section.role == LOOK_UP else ():
            child, dot, named = column.partition(".")
            if not dot or child not in sections:
                raise PolicyError(
                    f"[tables.{name}] is a look-up: its link must name columns that hold its key, "
                    f'such as "{people.table}.{column}"'
                )
            links.setdefault(child, []).append(((named,), name))
    keys = {name: section.key for name, section in sections.items() if section.key}
    if people.key:
        keys[people.table] = (people.key,)
    for name, section in sections.items():
        if section.role == LOOK_UP and name not in keys:
            raise PolicyError(f"[tables.{name}] is a look-up and needs a key")
    if people.table not in keys:
        raise PolicyError(f"[people] needs a key: the column of '{people.table}' that names people")
    return {
        "people": people.table,
        "links": links,
        "keys": keys,
        "order": {name: section.order for name, section in sections.items() if section.order},
        "look_ups": [name for name, section in sections.items() if section.role == LOOK_UP],
    }


def _columns(
    name: str,
    frame: pl.DataFrame,
    section: TableSection,
    arguments: Mapping[str, Any],
    policy_file: FilePath | None,
) -> list[Column]:
    """Return the columns of a table without keys and links: the policy's, or guesses."""
    ways = {*arguments["keys"].get(name, ()), *section.link}
    for column in (*ways, *section.order):
        if column not in frame.columns:
            hint = nearest_name(column, frame.columns)
            raise PolicyError(
                f"{policy_file}: [tables.{name}]: the table has no column '{column}': {hint}"
            )
    kept = {*section.order} & ways  # part of a key, and a time: it is modelled
    names = [column for column in frame.columns if column not in ways - kept]
    try:
        declared = Policy(tuple(c for c in section.columns if c.name not in ways - kept))
        return declared.resolve(names) or guessed(frame.select(names), decided=())
    except PolicyError as error:
        raise PolicyError(f"{policy_file}: [tables.{name}]: {error}") from None
    except TulleError as error:
        raise DataError(f"table '{name}': {error}") from None


# Files of several tables.


def suffix_of(source: FilePath) -> str:
    """Return the ending of the files of a release: that of a folder's files, else Parquet."""
    if is_sql(source) or not Path(source).is_dir():
        return ".parquet"
    first = next(iter(tables_of(source).values()))
    return "".join(
        Path(first).suffixes[-2:] if str(first).endswith(".gz") else [Path(first).suffix]
    )


def refuse_no_folder(output: FilePath, word: str) -> None:
    """Raise for a place where several tables cannot go."""
    if is_sql(output) or Path(output).suffix:
        raise ParameterError(f"{word} is a folder, one file a table: give a name without an ending")
    if os.path.isfile(output):
        raise ParameterError(f"{word} is a folder, one file a table, and {output} is a file")


def file_of(table: str, suffix: str) -> str:
    """Return the name of a table's file."""
    if Path(table).name != table or table.startswith((".", "_")):
        raise DataError(f"the table '{table}' cannot be a file: rename it")
    return table + suffix
