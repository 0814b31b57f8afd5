"""The audit of people who have several rows, in one table or in several.

One row is made of each person: what the table of people says, and of every other table the number
of rows, means, first and last values, commonest categories and gaps. On these rows the whole audit
of a table runs, so that it tells people apart, links and infers people, never single rows. Attacks
that need the rows themselves (:mod:`tulle._attacks.histories`) are added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._attacks.histories import HistoryRows, alone_joined, linkage_of_rows, walked
from tulle._attacks.records import chosen, nearest
from tulle._attacks.result import AttackResult
from tulle._plurals import counted
from tulle.auditing._tables import (
    NUMBERS,
    Aligned,
    align,
    as_frames,
    coded_alike,
    read_values,
    refuse_true_keys,
)
from tulle.condense._row_tables import find_order
from tulle.database.database import Database
from tulle.table._series import person_names
from tulle.table.schema import Column, Kind, Role, Schema

_PERSON = "\0person"
_MOST, _MOST_QUICKLY = 60, 25  # traits of people that are compared
_LINKED = 200  # people who are linked by their rows
_NEARER = 2_000  # released people whose nearest person is looked for
_NEVER_ALONE = (Kind.CATEGORY, Kind.BOOLEAN, Kind.ORDERED)  # a place alone links nobody
_MOST_STEPS = 50  # categories of a column whose steps are looked at
_WHICH = ("original", "release", "control")
_TIMES = (pl.Date, pl.Datetime)

OF_HISTORIES = (
    "A released history as a whole is invented, and not shared by k people: each of its steps "
    "rests on many people, all of them together on nobody."
)


class Trait(NamedTuple):
    """A column of the table of people: a statistic of a column of their rows."""

    table: str
    column: str  # empty: the number of rows
    statistic: str
    role: Role
    word: bool  # a category, also where it is written in numbers

    @property
    def name(self) -> str:
        of = ".".join(part for part in (self.table, self.column) if part)
        told = f"({self.statistic})" if of else self.statistic  # of a single table, "rows"
        return f"{of} {told}".strip() if self.statistic else of

    @property
    def entry(self) -> Column | Role:
        """What an audit knows of it."""
        return Column(self.name, Kind.CATEGORY, self.role) if self.word else self.role


def derived_traits(traits: Sequence[Trait]) -> list[str]:
    """Return all traits of a column but the first: a mean and a last value are not two facts."""
    first = {(trait.table, trait.column): trait for trait in reversed(traits)}
    return [trait.name for trait in traits if first[trait.table, trait.column] is not trait]


class ComparedPeople:
    """The people of the original, of the release and, if there is one, of the control.

    Their tables have the same names, keys and links. ``columns`` are those that are compared, by
    table.
    """

    def __init__(
        self,
        original: Database,
        release: Database,
        control: Database | None,
        columns: Mapping[str, Sequence[Column]],
    ) -> None:
        self.databases = [original, release, *([] if control is None else [control])]
        self.columns: dict[str, list[Column]] = {}
        self.rows: dict[str, list[pl.DataFrame]] = {}
        for name in original.tables:
            if name in original.look_ups:
                continue
            ways = {*original.keys.get(name, ()), *original.links.get(name, ())}
            there = set.intersection(*({*one.tables[name].columns} for one in self.databases))
            known = [c for c in columns.get(name, ()) if c.name in there - ways and c.role.released]
            if name == original.people and not known:  # nothing but their keys
                continue
            self.columns[name] = known
            chosen = [column.name for column in known]
            entries = {column.name: column for column in known}
            parts = {w: one.tables[name].select(chosen) for w, one in zip(_WHICH, self.databases)}
            self.rows[name] = list(read_values(parts, entries, chosen).values())

    def traits(self) -> list[Trait]:
        """Return what is compared of people, the most telling first: one trait of each column."""
        original, found = self.databases[0], []
        for name, columns in self.columns.items():
            if name == original.people:
                found += [(0, Trait(name, c.name, "", c.role, _is_word(c))) for c in columns]
                continue
            found.append((0, Trait(name, "", "rows", Role.QUASI, False)))
            rows, people = self.rows[name][0], original.persons[name]
            for column in columns:
                statistics = _statistics(rows[column.name], column, people, name in original.order)
                found += [
                    (place, Trait(name, column.name, one, column.role, _is_word(column, one)))
                    for place, one in enumerate(statistics)
                ]
        return [trait for _, trait in sorted(found, key=lambda one: one[0])]

    def people(self, place: int, traits: Sequence[Trait]) -> pl.DataFrame:
        """Return one row for each person of one of the databases."""
        database = self.databases[place]
        whole = pl.DataFrame({_PERSON: np.arange(database.n_people)})
        for name, tables in self.rows.items():
            wanted = [trait for trait in traits if trait.table == name]
            if not wanted:
                continue
            rows = tables[place].with_columns(pl.Series(_PERSON, database.persons[name]))
            found = rows.group_by(_PERSON, maintain_order=True).agg(
                _EXPRESSIONS[trait.statistic](trait.column).alias(trait.name) for trait in wanted
            )
            whole = whole.join(found, on=_PERSON, how="left", maintain_order="left")
        none = [trait.name for trait in traits if not trait.column]
        return whole.drop(_PERSON).with_columns(pl.col(none).fill_null(0))

    def aligned(self, quick: bool, *, numbered: bool = False) -> tuple[Aligned, list[Trait]]:
        """Return one row a person of all databases as the audit of a table takes them.

        ``numbered``: the same key names the same person in original and control.
        """
        traits = self.traits()[: _MOST_QUICKLY if quick else _MOST]
        parts = [self.people(place, traits) for place in range(len(self.databases))]
        entries = {trait.name: trait.entry for trait in traits}
        if numbered:
            entries[_PERSON] = Role.PERSON
            for place in range(0, len(parts), 2):
                parts[place] = parts[place].with_columns(self._keys(place).alias(_PERSON))
        return align(parts[0], parts[1], parts[2] if len(parts) > 2 else None, entries), traits

    def _keys(self, place: int) -> pl.Series:
        """Return the key of each person of one of the databases."""
        database = self.databases[place]
        return database.tables[database.people][database.keys[database.people][0]]

    def summary(self) -> str:
        """Say how many people and rows are compared."""
        told = []
        for word, database in zip(("original", "released", "kept apart"), self.databases):
            rows = sum(len(who) for name, who in database.persons.items() if name in self.rows)
            told.append(f"{database.n_people:,} people {word} ({counted(rows, 'row')})")
        return f"{', '.join(told)}; {counted(len(self.rows), 'table')} of people."

    def frames(self) -> list[Sequence[pl.DataFrame]]:
        """Return the rows of each table, in each of the databases, with values of one type."""
        return [
            as_frames(rows, {column.name: column for column in self.columns[name]})[0]
            for name, rows in self.rows.items()
        ]

    def histories(self, name: str, columns: Sequence[str]) -> list[HistoryRows]:
        """Return the rows of a table in each of the databases, by some columns."""
        entries = {column.name: column for column in self.columns[name]}
        coded = coded_alike([table.select(columns) for table in self.rows[name]], entries)
        return [
            HistoryRows(records, database.persons[name], database.n_people)
            for records, database in zip(coded, self.databases)
        ]


def compared_databases(
    original: Database, release: Mapping[str, Any], control: Any = None
) -> ComparedPeople:
    """Compare a database with a release of it, and with people who were kept out of it."""
    others = [
        None if one is None else one if isinstance(one, Database) else linked_like(original, one)
        for one in (release, control)
    ]
    assert others[0] is not None
    refuse_known_keys(original, others[0])
    columns = {
        name: list(Schema.of(original.columns.get(name), table))
        for name, table in original.tables.items()
    }
    return ComparedPeople(original, others[0], others[1], columns)


def refuse_known_keys(original: Database, release: Database) -> None:
    """Raise if a release has the keys of the original, of people or of rows of theirs."""
    for name, keys in original.keys.items():
        data = {*original.order.get(name, ()), *original.links.get(name, ())}
        for key in () if name in original.look_ups or data & {*keys} else keys:
            own, new = original.tables[name][key], release.tables[name][key]
            if name == original.people:
                refuse_true_keys(key, own, new)
            elif own.dtype == pl.String:  # numbers of some rows of a release coincide by chance
                refuse_true_keys(f"{name}.{key}", own, new)


def linked_like(database: Database, tables: Mapping[str, Any]) -> Database:
    """Return other tables of the same names, linked as those of a database are."""
    links = {child: [(link, database.parents[child])] for child, link in database.links.items()}
    for look_up, references in database.references.items():
        for child, column in references:
            links.setdefault(child, []).append(((column,), look_up))
    return Database(
        {name: table for name, table in tables.items() if name in database.tables},
        people=database.people,
        links=links,
        keys=database.keys,
        order=database.order,
        look_ups=database.look_ups,
    )


def compared_rows(
    tables: Sequence[pl.DataFrame | None], columns: Sequence[Column], order: Sequence[str] = ()
) -> ComparedPeople | None:
    """Compare the people of one table (original, release, control) in which they have several rows.

    None if the release does not say whose its rows are. Without an order, the one that a time that
    rises within people gives.
    """
    original, release = tables[0], tables[1]
    assert original is not None
    assert release is not None
    person = [c.name for c in columns if c.role is Role.PERSON and c.name in release.columns]
    if not person or original[person[0]].n_unique() == original.height:
        return None
    if not order:
        who = person_names(original[person[0]]).rank("dense").fill_null(0).cast(pl.Int64)
        order = find_order(original, Schema(columns), who.to_numpy())
    databases = [
        None
        if table is None
        else Database(
            {"": table, _PERSON: table.select(person).drop_nulls().unique(maintain_order=True)},
            people=_PERSON, key=person[0], links={"": (person[0], _PERSON)},
            order={"": order} if order else {},
        )
        for table in tables
    ]  # fmt: skip
    assert databases[0] is not None
    assert databases[1] is not None
    return ComparedPeople(databases[0], databases[1], databases[2], {"": columns})


# What is said of a column of somebody's rows.

_EXPRESSIONS: dict[str, Callable[[str], pl.Expr]] = {
    "": lambda name: pl.col(name).first(),
    "rows": lambda name: pl.len(),
    "mean": lambda name: pl.col(name).mean(),
    "first": lambda name: pl.col(name).drop_nulls().first(),  # the first known one
    "last": lambda name: pl.col(name).drop_nulls().last(),
    "least": lambda name: pl.col(name).min(),
    "most": lambda name: pl.col(name).max(),
    "mean gap": lambda name: pl.col(name).sort().diff().mean().dt.total_seconds() / 86_400,
    "commonest": lambda name: pl.col(name).drop_nulls().mode().sort().first(),
    "different": lambda name: pl.col(name).n_unique(),
}


def _statistics(series: pl.Series, column: Column, people: Any, ordered: bool) -> tuple[str, ...]:
    """Return what is asked of a column, the most telling first; one thing if it never changes."""
    pairs = pl.DataFrame({_PERSON: people, "value": series})
    if pairs.n_unique() == pairs[_PERSON].n_unique():
        return ("",)
    if _is_word(column) or not (series.dtype.is_numeric() or series.dtype in _TIMES):
        return ("commonest", "different")
    if series.dtype in _TIMES:
        return ("least", "most", "mean gap")
    return ("mean", "first", "last") if ordered else ("mean", "least", "most")


def _is_word(column: Column, statistic: str = "") -> bool:
    return column.kind in (Kind.CATEGORY, Kind.TEXT) and statistic != "different"


# Attacks on the rows.

_Attack = Callable[[np.random.Generator], AttackResult | None]


def planned_on_rows(
    people: ComparedPeople, tables: Aligned, traits: Sequence[Trait], attempts: int | None
) -> Iterator[_Attack]:
    """Yield each attack on rows, waiting for its generator."""
    by_table = [[t.name for t in traits if t.table == name] for name in people.rows]
    known = tables.original, tables.release
    yield partial(alone_joined, *known, by_table, control=tables.control)
    original = people.databases[0]
    for name, columns in people.columns.items():
        if name == original.people:
            continue
        steps = [c.name for c in columns if _may_be_steps(people.rows[name][0][c.name], c)]
        if steps and name in original.order:
            rows = people.histories(name, steps)
            whose = known[0].people, None if tables.control is None else tables.control.people
            yield partial(walked, rows[0], rows[1], control=_third(rows), whose=whose, name=name)
        seen = [c for c in columns if c.role is not Role.SENSITIVE and c.kind is not Kind.DECIMAL]
        if any(column.kind not in _NEVER_ALONE for column in seen) or len(seen) > 1:
            rows = people.histories(name, [column.name for column in seen])
            control = None if tables.control is None else (rows[2], tables.control)
            link = partial(linkage_of_rows, rows[0], rows[1], known[0], known[1], control=control)
            yield partial(link, attempts=min(attempts or _LINKED, _LINKED), name=name)


def _third(rows: list[HistoryRows]) -> HistoryRows | None:
    return rows[2] if len(rows) > 2 else None


def _may_be_steps(series: pl.Series, column: Column) -> bool:
    return column.kind not in (*NUMBERS, Kind.DATETIME) and 1 < series.n_unique() <= _MOST_STEPS


def nearer_members(tables: Aligned, rng: np.random.Generator) -> dict[str, float]:
    """Return the share of released people who lie nearer to a member than to a stranger.

    There are as many members as strangers, so that a half is chance.
    """
    if tables.control is None:
        return {}
    count = min(len(tables.original), len(tables.control))
    released = tables.release.take(chosen(len(tables.release), _NEARER, rng))
    far = [
        nearest(released, table.take(chosen(len(table), count, rng))).distances[:, 0]
        for table in (tables.original, tables.control)
    ]
    return {"nearest_record_share": float(np.mean((far[0] < far[1]) + 0.5 * (far[0] == far[1])))}
