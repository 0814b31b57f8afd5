"""Who is counted, and how tables are linked: ``[people]`` and ``[tables]`` of a policy.

::

    [people]                 # who is counted, in every table
    table = "patients"
    key = "patient_id"       # new keys in the release

    [tables.visits]
    parent = "patients"
    link = "patient_id"      # or several columns
    key = "visit_id"
    order = ["admitted"]     # without it a person's rows are a set

    [tables.icd]
    role = "look-up"         # not about people: kept where k people hold the key
    key = "code"
    link = ["visits.icd"]    # the columns that hold its key; else those of the same name

The metadata of the Synthetic Data Vault (SDV), a JSON file, say the same in other words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tulle.errors import PolicyError, nearest_name
from tulle.table.schema import Column, Kind, Role

LOOK_UP, LEFT_OUT = "look-up", "ignored"
_ROLES = (LOOK_UP, LEFT_OUT)
_LISTS = ("link", "key", "order")
_OPTIONS = ("parent", *_LISTS, "role", "columns", "reason")


@dataclass(frozen=True)
class PeopleSection:
    """Say which table and key name the people who are counted, and in which order rows come."""

    table: str = ""  # empty where one table with a column of the role person is all there is
    key: str = ""
    order: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableSection:
    """Say how one of several tables hangs together with the others, and what its columns are."""

    parent: str = ""
    link: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    role: str = ""
    columns: tuple[Column, ...] = ()
    reason: str = ""


Sections = Mapping[str, TableSection]


def people_section(entry: Mapping[str, Any]) -> PeopleSection:
    """Read ``[people]``."""
    known = ("table", "key", "order")
    for option in entry:
        if option not in known:
            raise PolicyError(f"[people] has no option '{option}': {nearest_name(option, known)}")
    table, key = (_text("[people]", entry, option) for option in ("table", "key"))
    if key and not table:
        raise PolicyError(
            "[people] key is the key of [people] table, which is missing: name that table, or, if "
            "there is only one, give its column the role 'person'"
        )
    return PeopleSection(table, key, _names("[people]", entry, "order"))


def table_sections(
    entries: Mapping[str, Any], read_column: Callable[[str, Any], Column]
) -> dict[str, TableSection]:
    """Read ``[tables]``, its columns with the reader of a policy's columns."""
    return {name: _section(name, entry, read_column) for name, entry in entries.items()}


def _section(name: str, entry: Any, read_column: Callable[[str, Any], Column]) -> TableSection:
    where = f"[tables.{name}]"
    if not isinstance(entry, dict):
        raise PolicyError(f"the table '{name}' needs a section {where}")
    for option in entry:
        if option not in _OPTIONS:
            raise PolicyError(f"{where} has no option '{option}': {nearest_name(option, _OPTIONS)}")
    columns = entry.get("columns", {})
    if not isinstance(columns, dict):
        raise PolicyError(f"'columns' in {where} must be sections: [tables.{name}.columns.COLUMN]")
    try:
        read = tuple(read_column(column, described) for column, described in columns.items())
    except PolicyError as error:
        raise PolicyError(f"{where}: {error}") from None
    parent, role, reason = (_text(where, entry, o) for o in ("parent", "role", "reason"))
    if role and role not in _ROLES:
        raise PolicyError(f"{where} has the unknown role '{role}': {nearest_name(role, _ROLES)}")
    lists = {option: _names(where, entry, option) for option in _LISTS}
    return TableSection(parent, **lists, role=role, columns=read, reason=reason)


def _text(where: str, entry: Mapping[str, Any], option: str) -> str:
    value = entry.get(option, "")
    if not isinstance(value, str):
        raise PolicyError(f"'{option}' in {where} must be a name in quotes")
    return value


def _names(where: str, entry: Mapping[str, Any], option: str) -> tuple[str, ...]:
    """Return one name or several."""
    value = entry.get(option, [])
    names = [value] if isinstance(value, str) else value
    listed = isinstance(names, list) and all(isinstance(name, str) and name for name in names)
    if not listed or len(set(names)) < len(names):
        raise PolicyError(f"'{option}' in {where} must be a column, or a list of different ones")
    return tuple(names)


def check_sections(people: PeopleSection, tables: Sections, *, columns: bool) -> None:
    """Raise unless every table leads to the people, is a look-up table, or is left out.

    ``columns`` says that the policy describes the columns of a single table as well.
    """
    if (tables or people.table) and columns:
        raise PolicyError(
            "[columns] describes a single table: of linked tables write "
            "[tables.NAME.columns.COLUMN]"
        )
    if people.table and people.order:
        raise PolicyError(
            f"[people] has an order, which the rows of other tables have, not people: write order "
            f"in [tables.NAME], not for '{people.table}'"
        )
    known = [*tables, people.table]
    for name, section in tables.items():
        where = f"[tables.{name}]"
        if name == people.table and (section.parent or section.role):
            raise PolicyError(f"{where} is [people] table: it has neither a parent nor a role")
        if section.role and section.parent:
            raise PolicyError(f"{where} has a parent and the role '{section.role}': drop one")
        if section.parent and section.parent not in known:
            hint = nearest_name(section.parent, known)
            raise PolicyError(f"{where}: its parent '{section.parent}' has no section: {hint}")
        if section.parent and not section.link:
            raise PolicyError(
                f"{where} needs a link: its column, or columns, with the key of '{section.parent}'"
            )
        if people.table and not (section.parent or section.role or name == people.table):
            raise PolicyError(
                f'{where} needs a parent, or role = "{LOOK_UP}" if it is not about people, or '
                f'role = "{LEFT_OUT}" to leave it out'
            )
        _refuse_detours(name, tables, people.table)


def _refuse_detours(name: str, tables: Sections, people: str) -> None:
    """Raise for parents that lead in a circle, or not to the people."""
    seen, at = [name], tables[name].parent
    while at and at in tables and at not in seen:
        seen.append(at)
        at = tables[at].parent
    if at in seen:
        circle = " -> ".join([*seen[seen.index(at) :], at])
        raise PolicyError(
            f"[tables.{name}]: its parents lead in a circle ({circle}), and nobody is counted in a "
            "circle: leave out one parent, and give that column the role 'ignored'"
        )
    if people and len(seen) > 1 and not at and seen[-1] != people:
        raise PolicyError(
            f"[tables.{name}]: its parents lead to '{seen[-1]}', not to [people] table '{people}'"
        )


# The metadata of SDV.

_KINDS = {
    "numerical": Kind.DECIMAL,
    "categorical": Kind.CATEGORY,
    "boolean": Kind.BOOLEAN,
    "datetime": Kind.DATETIME,
}


def sdv_sections(entries: Any) -> tuple[PeopleSection, dict[str, TableSection]]:
    """Read the metadata of several tables, or of one (under the name ""), as SDV writes them.

    The people are in the table that has no parent, if there is only one; SDV does not say. Kinds
    are taken where they are plain; what SDV would invent (names, addresses) names people.
    """
    several = isinstance(entries, Mapping) and "tables" in entries
    listed = entries["tables"] if several else {"": entries}
    if not isinstance(listed, Mapping) or not all(
        isinstance(table, Mapping) and isinstance(table.get("columns"), Mapping)
        for table in listed.values()
    ):
        raise PolicyError("JSON, but not the metadata of SDV, which name the columns of tables")
    tables = {str(name): _sdv_table(table) for name, table in listed.items()}
    for one in entries.get("relationships") or ():
        child, parent = (one.get(f"{who}_table_name") for who in ("child", "parent"))
        if child not in tables or parent not in tables:
            raise PolicyError("a relationship of the SDV metadata names a table that is not there")
        link = _listed(one.get("child_foreign_key"))
        tables[child] = replace(tables[child], parent=parent, link=link)
    roots = [name for name, table in tables.items() if not table.parent]
    if not several:
        return PeopleSection(order=tables[""].order), tables
    return PeopleSection(roots[0] if len(roots) == 1 else ""), tables


def _sdv_table(entry: Mapping[str, Any]) -> TableSection:
    person = entry.get("sequence_key")
    columns = tuple(_sdv_column(str(n), e, n == person) for n, e in entry["columns"].items())
    key, order = _listed(entry.get("primary_key")), _listed(entry.get("sequence_index"))
    return TableSection(key=key, order=order, columns=columns)


def _sdv_column(name: str, entry: Any, person: bool) -> Column:
    said = entry.get("sdtype", "") if isinstance(entry, Mapping) else ""
    kind = _KINDS.get(said, Kind.TEXT)
    form = str(entry.get("datetime_format", "")) if kind is Kind.DATETIME else ""
    if person:
        return Column(name, kind, Role.PERSON, reason="SDV's sequence key")
    if said in _KINDS:
        return Column(name, kind, format=form)
    return Column(name, kind, Role.IDENTIFIER, reason=f"SDV's sdtype is {said or 'missing'}")


def _listed(value: Any) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(map(str, value))
