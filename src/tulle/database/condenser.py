"""Condensation of several tables about the same people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import polars as pl

from tulle._checks import check_flag, check_int
from tulle._people import distinct_people, draw_threshold
from tulle._plurals import counted
from tulle._random import RandomState, as_generator
from tulle._types import Ints
from tulle.condense._estimators import Estimator, check_is_fitted
from tulle.condense._grouping import Grouper, check_facts
from tulle.condense._histories import Histories, new_keys
from tulle.condense._levels import check_levels, check_people, common_level, level_column
from tulle.condense._notes import warn_weaker
from tulle.condense._row_tables import RowTable
from tulle.condense._shaped import rule_notes
from tulle.condense._weights import WeightTotals
from tulle.database.database import Database
from tulle.errors import ParameterError
from tulle.table._rare import Crowd
from tulle.table.schema import Kind, Role, Schema

_EXACT = (
    "totals are exact, as asked: someone who knows everybody else in the tables can tell whether "
    "one person was in them"
)


class DatabaseCondenser(Estimator):
    """Condense the tables of some people, and draw the tables of other people from them.

    People are condensed first, one row each: their own columns, how many rows they have in other
    tables, when these begin and end, and what never changes in them. Then rows are drawn, each
    given its parent and the rows before it. Every cell of a column, number of rows and step of
    time rests on at least ``k`` different people, and every dependence, also that of one row on the
    row before, on at least ``2 k``. A released history as a whole is invented: it is not shared by
    ``k`` people.

    Parameters
    ----------
    k : int
        The fewest different people that anything in the release rests on. A column of the table of
        people with the role level says for each of them how many it takes, instead.
    rules : sequence of str, optional
        Rules that the release keeps, also between rows and tables: ``"visits.admitted <=
        visits.discharged"``, ``"patients.born <= min(visits.admitted)"``, ``"patients.n_visits =
        count(visits)"``, ``"patients.paid = sum(visits.cost)"``, ``"next(visits.age) >=
        visits.age"``. By default those that the tables themselves follow in nearly all rows; an
        empty list keeps none.
    exact_totals : bool
        Keep how often each value occurs, with leaves of ``k`` instead of ``2 k`` people.
    accept_broken_rules : bool
        Release tables in which a given rule could not be kept everywhere; ``broken_rules_`` counts
        the rows.
    random_state : int, Generator, RandomState or None
        None takes the operating system's entropy.

    Attributes
    ----------
    rests_on_ : dict of str to dict of str to int
        For each table, what a release shows, and of how many people at least each piece of it is.
    rules_ : list of RuleSummary
        The rules that are kept.
    broken_rules_ : dict of str to int
        How many rows of the last sample break a rule that hardly anybody breaks in the tables.
    notes_ : list of str
        What a reader of the release should know, in sentences without data.
    groups_ : GroupFacts
        What is known of the groups of people.

    What may leave
    --------------
    What ``sample`` returns. The fitted object holds no row and no key, but statistics of groups,
    ranges and domains: it is for the owner of the data. Not protected: how many people and rows
    there are, which categories at least ``k`` people hold, and what all people of a leaf share.

    Examples
    --------
    >>> import numpy as np, polars as pl
    >>> from tulle import Database, DatabaseCondenser
    >>> rng = np.random.default_rng(0)
    >>> patients = pl.DataFrame({"id": range(300), "born": rng.integers(1930, 2000, 300)})
    >>> who = rng.integers(0, 300, 900)
    >>> visits = pl.DataFrame({"id": who, "year": rng.integers(2000, 2020, 900)})
    >>> hospital = Database({"patients": patients, "visits": visits}, people="patients", key="id",
    ...                     links={"visits": ("id", "patients")}, order={"visits": ["year"]})
    >>> released = DatabaseCondenser(k=20, random_state=7).fit_resample(hospital)
    >>> released["patients"].height, bool(released["visits"]["id"].is_in(range(1, 301)).all())
    (300, True)
    """

    def __init__(
        self,
        k: int = 10,
        *,
        rules: Sequence[str] | None = None,
        exact_totals: bool = False,
        accept_broken_rules: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.k = k
        self.rules = rules
        self.exact_totals = exact_totals
        self.accept_broken_rules = accept_broken_rules
        self.random_state = random_state

    def fit(self, database: Database) -> Self:
        """Learn from the tables.

        Parameters
        ----------
        database : Database
            The tables, and how their rows lead to people.

        Returns
        -------
        self
        """
        self._check_parameters(database)
        rng, name = as_generator(self.random_state), database.people
        schema = _schema(database, name)
        levels = self._levels(database, schema)
        check_people(np.zeros(len(levels), np.int64), levels, np.arange(len(levels)))
        self._histories = Histories(self.rules, exact=self.exact_totals)
        self.groups_ = self._histories.fit(
            name, database.tables[name], schema, _row_tables(database), levels, Grouper(rng, levels)
        )
        self._rng, self._database = rng, _KeyedTables(database)
        self._totals = self._weights_of(database, levels, rng)
        lots = None if self.exact_totals else rng
        self._look_ups = _look_ups(database, int(levels.max()), lots)
        self.rules_ = self._histories.rules_kept()
        notes = [
            _left_out(name, count, shown=database.strays[name] >= levels.max())
            for name, count in database.orphans.items()
            if count
        ]
        weaker = [_EXACT] if self.exact_totals else []
        self.notes_ = weaker + notes + self._histories.notes + rule_notes(self.rules, self.rules_)
        warn_weaker(weaker)
        return self

    def sample(self, people: int | None = None) -> dict[str, Any]:
        """Draw the tables of other people, with new keys in random order.

        Parameters
        ----------
        people : int, optional
            How many; by default as many as there were.

        Returns
        -------
        dict of str to table
            The kind of tables that came in; rows of a parent stand together, in order.
        """
        check_is_fitted(self, "groups_")
        if people is not None:
            check_int("sample", "people", people, 1)
        check_facts(self.groups_)
        frames, owners = self._histories.draw(people, self._rng, accept=self.accept_broken_rules)
        self.broken_rules_ = self._histories.broken
        released = self._database.with_keys(frames, owners, self._rng)
        persons = self._histories.persons_of(owners)
        for name, totals in self._totals.items():
            released[name] = totals.calibrate(released[name], persons.get(name))
        released |= self._database.empty | self._look_ups
        exits = self._database.exits
        return {name: exits[name].leave(frame) for name, frame in released.items()}

    def fit_resample(self, database: Database) -> dict[str, Any]:
        """Learn from the tables, and draw those of as many other people.

        Parameters
        ----------
        database : Database
            The tables, and how their rows lead to people.

        Returns
        -------
        dict of str to table
        """
        return self.fit(database).sample()

    @property
    def rests_on_(self) -> dict[str, dict[str, int]]:
        return self._histories.rests_on()

    def sentence(self) -> str:
        """Return in words what a release rests on.

        Returns
        -------
        str
        """
        check_is_fitted(self, "groups_")
        return self._histories.sentence()

    def _levels(self, database: Database, schema: Schema) -> Ints:
        """Return how many people each person takes."""
        names = schema.named(Role.LEVEL)
        if not names:
            return np.full(database.n_people, self.k)
        frame = database.tables[database.people]
        return check_levels(level_column(frame, names[0], plain=False), frame.height)

    def _weights_of(
        self, database: Database, levels: Ints, rng: np.random.Generator
    ) -> dict[str, WeightTotals]:
        """Return what the survey weights of each table that has some add up to."""
        found, k = {}, common_level(levels)
        for name, persons in database.persons.items():
            table, schema = database.tables[name], _schema(database, name)
            every = np.ones(table.height, dtype=bool)
            crowd = Crowd.of_kept(k, levels[persons] <= k, persons, rng)
            totals = WeightTotals.of(table, schema, crowd, every, exact=self.exact_totals)
            if totals is not None:
                found[name] = totals
        return found

    def _check_parameters(self, database: Database) -> None:
        if not isinstance(database, Database):
            raise ParameterError(
                f"'database' must be a Database. Got a {type(database).__name__}.",
                parameter="database",
            )
        check_int("DatabaseCondenser", "k", self.k, 2)
        check_flag("DatabaseCondenser", "exact_totals", self.exact_totals)
        check_flag("DatabaseCondenser", "accept_broken_rules", self.accept_broken_rules)


class _KeyedTables:
    """What the tables of a database look like: columns, keys and links, but no row."""

    def __init__(self, database: Database) -> None:
        self.exits = dict(database.exits)
        self.types = {name: dict(table.schema) for name, table in database.tables.items()}
        self.keys, self.links = dict(database.keys), dict(database.links)
        self.parents = dict(database.parents)
        self.empty = {name: table.select(_shown(database, name))
                      for name, table in database.tables.items() if not table.height}  # fmt: skip

    def with_keys(
        self, frames: dict[str, pl.DataFrame], owners: dict[str, Ints], rng: np.random.Generator
    ) -> dict[str, pl.DataFrame]:
        """Return the tables with new keys, and links that join."""
        made: dict[str, dict[str, pl.Series]] = {}
        for name, frame in frames.items():
            keys: dict[str, pl.Series] = {}
            if name in self.links:
                above = made[self.parents[name]]
                for column, there in zip(self.links[name], self.keys[self.parents[name]]):
                    keys[column] = above[there][owners[name]]
            for key in self.keys.get(name, ()):
                if key not in keys and key not in frame.columns:
                    keys[key] = new_keys(len(owners[name]), self.types[name][key], rng)
            made[name] = dict(zip(frame.columns, frame)) | keys
        return {
            name: pl.DataFrame(
                [made[name][n].alias(n) for n in self.types[name] if n in made[name]]
            )
            for name in frames
        }


def _left_out(table: str, count: int, *, shown: bool) -> str:
    """Say that rows lead to nobody; how many only where they name as many people as anybody asks.

    Rows of one person whom the table of people lacks, however many, would be counted else.
    """
    rows = counted(count, "row", "lead") if shown else "some rows lead"
    return f"table '{table}': {rows} to nobody: left out"


def _schema(database: Database, name: str) -> Schema:
    """Return the schema of a table, in which keys and links name rows and look-ups categories."""
    schema = Schema.of(database.columns.get(name), database.tables[name])
    order = database.order.get(name) or ()
    named = [*database.links.get(name, ())]
    named += [key for key in database.keys.get(name, ()) if key not in order[:1]]
    for column in named:
        schema = schema.with_column(replace(schema[column], role=Role.IDENTIFIER))
    for references in database.references.values():
        for table, column in references:
            if table == name and schema[column].role.released:
                kind = replace(schema[column], kind=Kind.CATEGORY, format="", missing=(), codes={})
                schema = schema.with_column(kind)
    return schema


def _shown(database: Database, name: str) -> list[str]:
    """Return the columns of a table that a release has: keys, links, and what is released."""
    named = {*database.keys.get(name, ()), *database.links.get(name, ())}
    known = {*_schema(database, name).released} | named
    return [column for column in database.tables[name].columns if column in known]


def _row_tables(database: Database) -> list[RowTable]:
    """Return the tables of rows, parents first."""
    return [
        RowTable(
            name, database.parents[name], table, _schema(database, name), database.owners[name],
            database.persons[name], database.order.get(name),
        )
        for name, table in database.tables.items()
        if name in database.parents and table.height
    ]  # fmt: skip


def _look_ups(
    database: Database, k: int, rng: np.random.Generator | None
) -> dict[str, pl.DataFrame]:
    """Return the rows of look-ups whose key at least ``k`` different people hold.

    With ``rng``, a few more than ``k``: whoever knows all holders but one learns nothing for sure.
    """
    kept, enough = {}, draw_threshold(k, rng)
    for name in database.look_ups:
        table, (key,) = database.tables[name], database.keys[name]
        names = table[key].cast(pl.String)
        places = {value: place for place, value in enumerate(names.to_list())}
        codes, people = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for child, column in database.references[name]:
            series = database.tables[child][column].cast(pl.String)
            codes.append(
                series.replace_strict(places, default=-1, return_dtype=pl.Int64).to_numpy()
            )
            people.append(database.persons[child])
        held = distinct_people(np.concatenate(codes), np.concatenate(people), table.height)
        kept[name] = table.select(_shown(database, name)).filter(pl.Series(held >= enough))
    return kept
