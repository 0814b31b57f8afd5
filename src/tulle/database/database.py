"""Several tables about the same people, and how their rows lead to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from tulle._plurals import counted
from tulle._types import Ints
from tulle.errors import DataError, ParameterError, nearest_name
from tulle.table._frames import Exit, enter
from tulle.table.schema import Column

_NONE: Mapping[str, Any] = MappingProxyType({})
_ROW = "\0row"

Names = str | Sequence[str]
Link = tuple[Names, str]  # the columns that name a row of the parent, and the parent


class Database:
    """Hold the tables of some people: who is counted, and how rows lead to them.

    Every table but look-ups has one parent, up to the table of people. Rows that lead to nobody
    are left out and counted.

    Parameters
    ----------
    tables : mapping of str to DataFrame (pandas, polars) or pyarrow Table
        The tables, by name.
    people : str
        The table with one row for each person who is counted.
    key : str, optional
        The column that names the person; by default the table's key in ``keys``.
    links : mapping of str to pair
        For each other table the column or columns that name a row of its parent, and the parent:
        ``{"visits": ("patient_id", "patients")}``. A list of pairs where some lead to look-ups.
    keys : mapping of str to str or sequence of str
        The column or columns that name a row of a table itself. Keys are never modelled: a release
        has new ones, in random order.
    order : mapping of str to sequence of str
        The columns by which the rows of a parent are ordered, a time first. Without it they are a
        set, in random order.
    look_ups : sequence of str
        Tables that are not about people (wards, drugs): their rows are kept where enough people
        hold the key.
    columns : mapping of str to sequence of Column
        What is known of the columns of each table.

    Attributes
    ----------
    tables : dict of str to polars.DataFrame
        The tables, people first, then parents before children; look-ups last.
    orphans : dict of str to int
        The rows of each table that led to nobody.

    What may leave
    --------------
    Nothing: it holds the rows as they are.

    Raises
    ------
    DataError
        If tables lead round in a circle, to two people, or to nobody.

    Examples
    --------
    >>> import polars as pl
    >>> from tulle import Database
    >>> patients = pl.DataFrame({"id": [1, 2, 3], "born": [1950, 1961, 1972]})
    >>> visits = pl.DataFrame({"id": [1, 1, 3, 9], "day": [4, 2, 7, 1]})
    >>> hospital = Database({"patients": patients, "visits": visits}, people="patients", key="id",
    ...                     links={"visits": ("id", "patients")}, order={"visits": ["day"]})
    >>> hospital.orphans
    {'visits': 1}
    >>> hospital.tables["visits"]["day"].to_list()
    [2, 4, 7]
    """

    def __init__(
        self,
        tables: Mapping[str, Any],
        *,
        people: str,
        key: str | None = None,
        links: Mapping[str, Link | Sequence[Link]] = _NONE,
        keys: Mapping[str, Names] = _NONE,
        order: Mapping[str, Sequence[str]] = _NONE,
        look_ups: Sequence[str] = (),
        columns: Mapping[str, Sequence[Column]] = _NONE,
    ) -> None:
        entered = {name: enter(table) for name, table in tables.items()}
        self.tables: dict[str, pl.DataFrame] = {name: pair[0] for name, pair in entered.items()}
        self.exits: dict[str, Exit] = {name: pair[1] for name, pair in entered.items()}
        self.people = people
        self.look_ups = list(look_ups)
        self.columns = {name: list(given) for name, given in columns.items()}
        options = {"people": [people], "links": links, "keys": keys, "order": order}
        for option, named in (options | {"look_ups": look_ups, "columns": columns}).items():
            self._known(option, named)
        self.keys = {name: _tuple(given) for name, given in keys.items()}
        self.order = {name: _tuple(given) for name, given in order.items()}
        if key is not None:
            self.keys[people] = (key,)
        if people not in self.keys:
            raise ParameterError(
                f"'key' must name the column of '{people}' that names each person", parameter="key"
            )
        self.links: dict[str, tuple[str, ...]] = {}
        self.parents: dict[str, str] = {}
        self.references: dict[str, list[tuple[str, str]]] = {}  # columns that name look-ups' rows
        for child, given in links.items():
            self._link(child, given)
        for name, named in (*self.keys.items(), *self.order.items(), *self.links.items()):
            self._has(name, named)
        self._arrange()
        self._refer()
        self._lead()

    def __repr__(self) -> str:
        return f"Database({list(self.tables)!r}, people={self.people!r})"

    # -- what was given ---------------------------------------------------------------------------

    def _known(self, option: str, named: Any) -> None:
        for name in named:
            if name not in self.tables:
                hint = nearest_name(str(name), self.tables)
                raise ParameterError(
                    f"'{option}' names table '{name}', which is not there: {hint}", parameter=option
                )

    def _has(self, table: str, named: Sequence[str]) -> None:
        for name in named:
            if name not in self.tables[table].columns:
                hint = nearest_name(name, self.tables[table].columns)
                raise DataError(f"table '{table}' has no column '{name}': {hint}", subject=name)

    def _link(self, child: str, given: Link | Sequence[Link]) -> None:
        """Take the parent of a table, and the look-ups that it names."""
        pairs: Any = [given] if len(given) == 2 and isinstance(given[1], str) else given
        for columns, parent in pairs:
            self._known("links", [parent])
            if parent in self.look_ups:
                if len(_tuple(columns)) != 1:
                    raise DataError(
                        f"table '{child}' names rows of the look-up '{parent}' by "
                        f"{len(_tuple(columns))} columns: one is supported"
                    )
                self._has(child, _tuple(columns))
                self.references.setdefault(parent, []).append((child, _tuple(columns)[0]))
            elif child in self.parents:
                raise DataError(
                    f"table '{child}' has two parents, '{self.parents[child]}' and '{parent}': its "
                    "rows may be of two people. Keep the link that leads to the people who are "
                    "counted, and state the other table in look_ups or leave it out",
                    parameter="links",
                )
            else:
                self.parents[child], self.links[child] = parent, _tuple(columns)

    def _arrange(self) -> None:
        """Put parents before children, and refuse tables that lead to nobody."""
        if self.people in self.parents:
            raise DataError(
                f"table '{self.people}' is the table of people, but has a parent itself: "
                "state the table above it, whose people must be counted",
                parameter="people",
            )
        try:
            graph = {child: {parent} for child, parent in self.parents.items()}
            found = list(TopologicalSorter(graph).static_order())
        except CycleError as error:
            named = " -> ".join(f"'{name}'" for name in error.args[1])
            raise DataError(
                f"the tables lead round in a circle ({named}): leave out one link",
                parameter="links",
            ) from None
        for name in self.tables:
            if self._root(name) not in (self.people, *self.look_ups):
                raise DataError(
                    f"table '{name}' leads to nobody: state its link, or that it is a look-up, or "
                    "leave it out",
                    parameter="links",
                )
        children = [name for name in found if name in self.parents]
        self.tables = {n: self.tables[n] for n in (self.people, *children, *self.look_ups)}

    def _root(self, name: str) -> str:
        while name in self.parents:
            name = self.parents[name]
        return name

    def _refer(self) -> None:
        """Find the columns that name rows of look-ups where nobody stated them."""
        for name in self.look_ups:
            if name not in self.keys:
                raise ParameterError(
                    f"'keys' must name the key of the look-up '{name}'", parameter="keys"
                )
            (key, *more) = self.keys[name]
            if more:
                raise DataError(
                    f"the look-up '{name}' has a key of several columns: one is supported"
                )
            stated = self.references.setdefault(name, [])
            if not stated:
                others = [table for table in self.tables if table not in self.look_ups]
                stated += [(table, key) for table in others if key in self.tables[table].columns]

    # -- whose rows are whose ---------------------------------------------------------------------

    def _lead(self) -> None:
        """Find the person of every row, sort rows by parent and order, leave orphans out."""
        named = self.tables[self.people].select(self.keys[self.people]).drop_nulls()
        if named.n_unique() < named.height:
            raise DataError(
                f"the key of '{self.people}' repeats, so its rows are several a person: state a "
                "table with one row for each person. If there is none, condense this table alone, "
                "with the role person for the column",
                parameter="people",
            )
        self.orphans: dict[str, int] = {}
        self.strays: dict[str, int] = {}  # different links of these: about how many people's
        self.owners: dict[str, Ints] = {}  # the row of the parent, for each row
        self.persons: dict[str, Ints] = {}  # the person of each row, numbered from 0
        places = named.with_row_index(_ROW)
        self.n_people = places.height
        self._follow(self.people, places, self.keys[self.people])
        self.persons[self.people] = self.owners[self.people]
        for name in self.tables:
            if name in self.parents:
                parent = self.parents[name]
                self._follow(name, self._places(parent, name), self.links[name])
                self.persons[name] = self.persons[parent][self.owners[name]]

    def _places(self, parent: str, child: str) -> pl.DataFrame:
        """Return the keys of a table and their rows, as the link of a child names them."""
        link = self.links[child]
        key = self.keys.get(parent, link)
        self._has(parent, key)
        if len(key) != len(link):
            raise DataError(
                f"table '{child}' names rows of '{parent}' by {counted(len(link), 'column')}, but "
                f"the key has {len(key)}",
                parameter="links",
            )
        self.keys[parent] = key
        table = self.tables[parent].select(key).with_row_index(_ROW)
        if table.select(key).n_unique() < table.height:
            raise DataError(
                f"the key of table '{parent}' repeats: rows of '{child}' may belong to several of "
                "its rows, and to several people",
                parameter="keys",
            )
        return table.rename(dict(zip(key, link)))

    def _follow(self, name: str, places: pl.DataFrame, link: tuple[str, ...]) -> None:
        table = self.tables[name]
        types = {column: places.schema[column] for column in link}
        try:
            asked = table.select(link).cast(types)  # type: ignore[arg-type]
            found = asked.join(places, on=list(link), how="left", maintain_order="left")[_ROW]
        except pl.exceptions.PolarsError:
            raise DataError(
                f"the link of table '{name}' has another type than the key it names: convert one",
                parameter="links",
            ) from None
        known = found.is_not_null()
        if name != self.people or not known.all():
            self.orphans[name] = int((~known).sum())
            self.strays[name] = asked.filter(~known).n_unique()
        table = table.with_columns(found.alias(_ROW)).filter(known)
        by = [_ROW, *self.order.get(name, ())]
        table = table.sort(by, maintain_order=True, nulls_last=True)
        self.owners[name] = table[_ROW].to_numpy().astype(np.int64)
        self.tables[name] = table.drop(_ROW)


def _tuple(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
