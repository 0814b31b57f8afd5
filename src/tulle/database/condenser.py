"""Condensation of several tables about the same people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tulle._checks import check_flag, check_int
from tulle._random import RandomState, as_generator
from tulle._types import Ints
from tulle.condense._grouping import Grouper, check_facts
from tulle.condense._histories import Histories, RowTable
from tulle.database.database import Database
from tulle.errors import ParameterError, PrivacyError
from tulle.table.schema import Role, Schema

_PEOPLE = "\0people"


class DatabaseCondenser(BaseEstimator):
    """Condense the tables of some people, and draw tables of others from them."""

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
        """Learn from the tables."""
        self._check_parameters(database)
        rng = as_generator(self.random_state)
        levels = np.full(database.n_people, self.k)
        self._histories = Histories(self.rules, exact=self.exact_totals)
        name = _PEOPLE if database.repeats else database.people
        frame = pl.DataFrame() if database.repeats else database.tables[name]
        schema = Schema() if database.repeats else _schema(database, name)
        self.groups_ = self._histories.fit(
            name, frame, schema, _row_tables(database, name), levels, self.k, Grouper(rng, levels)
        )
        self._rng = rng
        self.notes_ = self._histories.notes
        self._keep(database)
        return self

    def _keep(self, database: Database) -> None:
        self._exits = dict(database.exits)
        self._layout = {n: t.columns for n, t in database.tables.items()}
        self._types = {n: dict(t.schema) for n, t in database.tables.items()}
        self._keys, self._links = dict(database.keys), dict(database.links)
        self._parents = dict(database.parents)
        self._people, self._made = database.people, database.repeats

    def _check_parameters(self, database: Database) -> None:
        if not isinstance(database, Database):
            raise ParameterError(
                f"'database' must be a Database. Got a {type(database).__name__}.",
                parameter="database",
            )
        check_int("DatabaseCondenser", "k", self.k, 2)
        check_flag("DatabaseCondenser", "exact_totals", self.exact_totals)
        check_flag("DatabaseCondenser", "accept_broken_rules", self.accept_broken_rules)
        if database.n_people < self.k:
            raise PrivacyError(
                f"there are only {database.n_people} different people, but k is {self.k}: lower "
                "it, or add people",
                parameter="k",
            )

    def sample(self, people: int | None = None) -> dict[str, Any]:
        """Draw the tables of other people."""
        check_is_fitted(self, "groups_")
        if people is not None:
            check_int("sample", "people", people, 1)
        check_facts(self.groups_)
        frames, owners = self._histories.draw(people, self._rng)
        if self._made:
            frames, owners = {self._people: frames[""]}, {self._people: owners[""]}
        frames = self._with_keys(frames, owners)
        return {name: self._exits[name].leave(frame) for name, frame in frames.items()}

    def _with_keys(
        self, frames: dict[str, pl.DataFrame], owners: dict[str, Ints]
    ) -> dict[str, pl.DataFrame]:
        made: dict[str, dict[str, pl.Series]] = {}
        out = {}
        for name, frame in frames.items():
            keys: dict[str, pl.Series] = {}
            if name == self._people and self._made:
                (key,) = self._keys[name]
                people = int(owners[name].max(initial=-1)) + 1
                new = _new_keys(people, self._types[name][key], self._rng)
                keys[key] = new[owners[name]].alias(key)
            elif name in self._links:
                parent = self._parents[name]
                above = made[parent]
                for column, there in zip(self._links[name], self._keys[parent]):
                    keys[column] = above[there][owners[name]].alias(column)
            for key in self._keys.get(name, ()):
                if key not in keys and key not in frame.columns:
                    keys[key] = _new_keys(frame.height, self._types[name][key], self._rng).alias(key)
            made[name] = {n: s for n, s in (*zip(frame.columns, frame), *keys.items())}
            out[name] = pl.DataFrame([made[name][n] for n in self._layout[name] if n in made[name]])
        return out

    def fit_resample(self, database: Database) -> dict[str, Any]:
        """Learn from the tables, and draw those of as many other people."""
        return self.fit(database).sample()


def _schema(database: Database, name: str) -> Schema:
    """Return the schema of a table, in which keys and links are identifiers."""
    table = database.tables[name]
    schema = Schema.of(database.columns.get(name), table)
    order = database.order.get(name, ())
    named = [*database.links.get(name, ())]
    named += [key for key in database.keys.get(name, ()) if key not in order]
    for column in named:
        from dataclasses import replace
        schema = schema.with_column(replace(schema[column], role=Role.IDENTIFIER))
    return schema


def _row_tables(database: Database, root: str) -> list[RowTable]:
    tables = []
    for name in database.tables:
        if name in database.look_ups or name == root:
            continue
        order = database.order.get(name)
        key = database.keys.get(name, ())
        tables.append(
            RowTable(
                "" if database.repeats else name,
                database.parents.get(name, root),
                database.tables[name],
                _schema(database, name),
                database.owners[name],
                database.persons[name],
                order,
                bool(order) and order[0] in key,
            )
        )
    return tables


def _new_keys(n: int, dtype: Any, rng: np.random.Generator) -> pl.Series:
    """Return new keys in random order, of the type of the old ones."""
    numbers = pl.Series(1 + rng.permutation(n))
    if dtype.is_integer():
        return numbers
    width = len(str(n))
    return numbers.cast(pl.String).str.zfill(width)
