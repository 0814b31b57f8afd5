"""Policies: what is known of the columns of a table, and with which parameters it is released.

A policy is a TOML file that a person can read and edit; ``tulle inspect`` writes the first one,
every command reads it. It holds no value of the data but special ones that many people share::

    [columns.age]
    kind = "integer"
    role = "quasi-identifier"
    bounds = [0, 120]      # public, may be left out
    weight = 2             # counts twice in distances, may be left out
    missing = [999]        # stands for "no value", as do texts; each a state of its own
    codes = {N = "not applicable"}

    [condense]
    k = 10

    [rules]                # between columns; without this section they are looked for
    order = "admitted <= discharged"

    [people]               # of a table with a column of the role person: their rows in order
    order = ["year"]

    [estimates]            # that matter, for an error ledger
    wages = "ols(lwage ~ educ + exper)"

    [context]              # for reports; a field that is empty is shown as empty
    recipient = "the cancer registry, under contract 2026-14"

Linked tables have sections of their own (:mod:`tulle.table._linked`).
"""

from __future__ import annotations

import datetime
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tulle.errors import PolicyError, nearest_name
from tulle.table._linked import (
    PeopleSection,
    TableSection,
    check_sections,
    people_section,
    sdv_sections,
    table_sections,
)
from tulle.table.schema import WEIGHTS, Column, Kind, Role, contradiction

# commands whose parameters a policy may keep
COMMANDS = ("condense", "baseline", "explore", "tune", "stream", "hide", "sketch", "sites", "audit")
# what a report says of the situation in which data are released, and what it asks
CONTEXT: Mapping[str, str] = MappingProxyType(
    {
        "recipient": "Who receives it",
        "purpose": "What it is for",
        "knowledge": "What recipients may know already",
        "safeguards": "What binds them (contract, secure room, no copies)",
        "until": "Until when this assessment holds",
        "decided_by": "Who decides",
    }
)
_ONLY_ONE = (Role.PERSON, Role.TARGET, Role.LEVEL, Role.WEIGHT)
_LISTED = 'a list of numbers and texts, such as [9999, "N"]'
_ONE_BY_ONE = 'a text for each value, such as {N = "not applicable"}'
_MORE_GENERAL = (
    "the lengths of more general beginnings, longest first, such as [3, 1], or a more general "
    "value for each"
)
COLUMN_OPTIONS: Mapping[str, tuple[Callable[[Any], bool], str]] = MappingProxyType(
    {  # of a column in a policy: whether a value is one, and what it must be
        "kind": (lambda v: v in list(Kind), ""),
        "role": (lambda v: v in list(Role), ""),
        "weight": (
            lambda v: _is_number(v) and WEIGHTS[0] <= v <= WEIGHTS[1],
            f"a number from {WEIGHTS[0]:g} to {WEIGHTS[1]:g}",
        ),
        "bounds": (lambda v: _are_numbers(v, 2) and v[0] <= v[1], "[lowest, highest]"),
        "missing": (lambda v: _are_values(v), _LISTED),
        "codes": (lambda v: _are_texts(v), _ONE_BY_ONE),
        "format": (lambda v: isinstance(v, str), "a text"),
        "keep_rare": (lambda v: isinstance(v, bool), "true or false"),
        "hierarchy": (lambda v: _are_texts(v) or _are_lengths(v), _MORE_GENERAL),
        "diversity": (lambda v: True, ""),
        "closeness": (lambda v: True, ""),
        "categories": (lambda v: _are_values(v), _LISTED),
        "on_new": (lambda v: isinstance(v, str), "a text"),
        "text": (lambda v: isinstance(v, str), "a text"),
        "reason": (lambda v: isinstance(v, str), "a text"),
    }
)
_LONGEST = 4 << 20  # characters: 10,000 columns take half of it
_MOST_DOTS = 100  # in a line
_SECTIONS = ("columns", "rules", "estimates", "context", "people", "tables", *COMMANDS)


@dataclass(frozen=True)
class Policy:
    """Describe a table's columns and the options of commands, as a policy file does.

    Parameters
    ----------
    columns : tuple of Column
        What is known of each column; empty if roles are to be inferred.
    parameters : mapping
        For each command (``"condense"``, ...) its options by name.
    rules : tuple of str, optional
        Rules between columns, such as ``"admitted <= discharged"``; None if nothing is said of
        them, and they are looked for.
    rule_reasons : mapping
        Why ``tulle inspect`` proposes a rule.
    context : mapping
        Who receives a release, what for, and who decides: words for reports, by the names
        ``recipient``, ``purpose``, ``knowledge``, ``safeguards``, ``until`` and ``decided_by``.
    people : PeopleSection
        The table and key that name the people of linked tables; or the order of a person's rows.
    tables : mapping
        Of linked tables, each with its parent, link, key, order, role and columns.
    estimates : tuple of str
        Estimates that matter, such as ``"ols(wage ~ educ)"``, which an error ledger measures.

    Examples
    --------
    >>> from tulle import Column, Kind, Policy, Role
    >>> policy = Policy((Column("name", Kind.TEXT, Role.IDENTIFIER), Column("age", Kind.INTEGER)))
    >>> policy.named(Role.IDENTIFIER)
    ['name']
    """

    columns: tuple[Column, ...] = ()
    parameters: Mapping[str, Mapping[str, Any]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    rules: tuple[str, ...] | None = None
    rule_reasons: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    context: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    people: PeopleSection = field(default_factory=PeopleSection)
    tables: Mapping[str, TableSection] = field(default_factory=lambda: MappingProxyType({}))
    estimates: tuple[str, ...] = ()

    def named(self, *roles: Role) -> list[str]:
        """Return the names of the columns that have one of these roles.

        Parameters
        ----------
        *roles : Role
            The roles.

        Returns
        -------
        list of str
        """
        return [column.name for column in self.columns if column.role in roles]

    def options(self, command: str, known: Iterable[str]) -> dict[str, Any]:
        """Return the parameters of a command.

        Parameters
        ----------
        command : str
            The command, such as ``"condense"``.
        known : iterable of str
            The parameters that it has; any other is an error.

        Returns
        -------
        dict

        Raises
        ------
        PolicyError
            If the policy gives the command a parameter that it does not have.
        """
        names = list(known)
        given = dict(self.parameters.get(command, {}))
        for name in given:
            if name not in names:
                hint = nearest_name(name, names)
                raise PolicyError(f"[{command}] has no option '{name}': {hint}")
        return given

    def resolve(self, table: Any) -> list[Column]:
        """Return the columns of a table, in its order.

        All of them, and no others, must be known. A policy that describes no column gives an empty
        list: then roles are inferred.

        Parameters
        ----------
        table : frame or sequence of str
            The table, or its column names.

        Returns
        -------
        list of Column
        """
        there = [str(name) for name in getattr(table, "columns", table)]
        if not self.columns:
            return []
        known = {column.name: column for column in self.columns}
        for name in known:
            if name not in there:
                hint = nearest_name(name, there)
                raise PolicyError(
                    f"the policy names column '{name}', which is not in the table: {hint}"
                )
        unknown = [name for name in there if name not in known]
        if unknown:
            shown = ", ".join(f"'{name}'" for name in unknown[:5])
            more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
            raise PolicyError(
                f'the policy says nothing about column {shown}{more}: add it (role = "ignored" '
                "leaves it out), or run `tulle inspect` again"
            )
        return [known[name] for name in there]


def load_policy(path: str | os.PathLike[str], names: Iterable[str] | None = None) -> Policy:
    r"""Read a policy file.

    Parameters
    ----------
    path : path-like
        The TOML file.
    names : iterable of str, optional
        The columns of the table; the policy must name the same ones.

    Returns
    -------
    Policy

    Raises
    ------
    PolicyError
        If the file is not valid, or names columns, kinds or roles that do not exist.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from tulle import load_policy
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "policy.toml"
    >>> _ = path.write_text('[columns.age]\nkind = "integer"\nrole = "quasi-identifier"\n')
    >>> load_policy(path, ["age"]).columns[0].name
    'age'
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise PolicyError(f"{path}: no such policy file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"{path}: cannot be read as text ({type(error).__name__})") from None
    try:
        policy = parse_policy(text)
        if names is not None:
            policy.resolve(names)
    except PolicyError as error:
        raise PolicyError(f"{path}: {error}") from None
    return policy


def parse_policy(text: str) -> Policy:
    """Parse a policy from TOML, or from the metadata of SDV, which are JSON."""
    if text.lstrip().startswith("{"):
        return _sdv_policy(text)
    _refuse_nested(text)
    try:
        entries = tomllib.loads(text)
    except RecursionError:
        raise PolicyError("not valid TOML: nested too deeply") from None
    except ValueError as error:  # of the TOML, or of a number with thousands of digits
        raise PolicyError(_explained(str(error), text)) from None
    rules = _rules(entries.pop("rules")) if "rules" in entries else None
    estimates = _rules(entries.pop("estimates", {}), "estimates", "mean(a) by b")
    for name, value in entries.items():
        if name not in _SECTIONS:
            raise PolicyError(f"no section [{name}]: {nearest_name(name, _SECTIONS)}")
        if not isinstance(value, dict):
            raise PolicyError(f"'{name}' must be a section: [{name}]")
    columns = tuple(_column(name, entry) for name, entry in entries.pop("columns", {}).items())
    for role in _ONLY_ONE:
        having = [f"'{column.name}'" for column in columns if column.role is role]
        if len(having) > 1:
            raise PolicyError(f"only one column can be the {role}, not {' and '.join(having)}")
    context = MappingProxyType(_context(entries.pop("context", {})))
    people = people_section(entries.pop("people", {}))
    tables = table_sections(entries.pop("tables", {}), _column)
    check_sections(people, tables, columns=bool(columns))
    kept = MappingProxyType(entries)
    return Policy(
        columns, kept, rules, context=context, people=people, tables=tables, estimates=estimates
    )


def _sdv_policy(text: str) -> Policy:
    from tulle._json import read_json

    try:
        entries = read_json(text)
    except (ValueError, RecursionError):
        raise PolicyError("not valid JSON (as the metadata of SDV are)") from None
    people, tables = sdv_sections(entries)
    if "" in tables:
        return Policy(tables[""].columns, people=people)
    check_sections(people, tables, columns=False)
    return Policy(people=people, tables=tables)


def _rules(entry: Any, section: str = "rules", example: str = "a <= b") -> tuple[str, ...]:
    """Return the lines of a section: under any names, each a text or a list of texts."""
    named = entry if isinstance(entry, dict) else {section: entry}
    rules: list[str] = []
    for name, value in named.items():
        texts = value if isinstance(value, list) else [value]
        if not all(isinstance(text, str) for text in texts):
            raise PolicyError(
                f"'{name}' in [{section}] must be a text such as \"{example}\", or several"
            )
        rules += texts
    return tuple(rules)


def _refuse_nested(text: str) -> None:
    """Raise for what takes a TOML parser hours or gigabytes: keys of thousands of dotted parts."""
    if len(text) > _LONGEST:
        raise PolicyError(f"longer than {_LONGEST >> 20} MiB: a policy is a short file")
    for number, line in enumerate(text.splitlines(), 1):
        if line.count(".") > _MOST_DOTS and not line.lstrip().startswith("#"):
            raise PolicyError(
                f"line {number}: more than {_MOST_DOTS} dots: split it, or quote less"
            )


def _context(entries: Mapping[str, Any]) -> dict[str, str]:
    """Return the words of the section [context]; a date may be written as TOML writes it."""
    found = {}
    for name, value in entries.items():
        if name not in CONTEXT:
            raise PolicyError(f"[context] has no field '{name}': {nearest_name(name, CONTEXT)}")
        if not isinstance(value, str | datetime.date):
            raise PolicyError(f"the field '{name}' of [context] must be a text in quotes")
        found[name] = str(value).strip()
    return found


def _column(name: str, entry: Any) -> Column:
    if not isinstance(entry, dict):
        raise PolicyError(f"the column '{name}' needs a section [columns.{_key(name)}]")
    for option in entry:
        if option not in COLUMN_OPTIONS:
            hint = nearest_name(option, COLUMN_OPTIONS)
            raise PolicyError(f"the column '{name}' has no option '{option}': {hint}")
    for option, words in (("kind", Kind), ("role", Role)):
        allowed = [str(word) for word in words]
        if option not in entry:
            raise PolicyError(f"the column '{name}' needs a {option}: one of {', '.join(allowed)}")
        if entry[option] not in allowed:
            hint = nearest_name(str(entry[option]), allowed)
            raise PolicyError(
                f"the column '{name}' has the unknown {option} '{entry[option]}': {hint}"
            )
    for option, value in entry.items():
        is_one, what = COLUMN_OPTIONS[option]
        if not is_one(value):
            raise PolicyError(f"'{option}' of column '{name}' must be {what}")
    numbers = {option: entry[option] for option in ("weight", "bounds") if option in entry}
    column = Column.from_json({"name": name, **entry, **_as_floats(numbers)})
    wrong = contradiction(column)
    if wrong:
        raise PolicyError(f"the column '{name}' {wrong}")
    return column


def _as_floats(numbers: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: [float(one) for one in value] if isinstance(value, list) else float(value)
        for name, value in numbers.items()
    }


def _are_numbers(value: Any, count: int) -> bool:
    return isinstance(value, list) and len(value) == count and all(map(_is_number, value))


def _are_values(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) or _is_number(v) for v in value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _are_lengths(value: Any) -> bool:
    whole = isinstance(value, list) and all(type(v) is int and v > 0 for v in value)
    return whole and bool(value) and sorted(set(value), reverse=True) == value


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the largest float
        return False


def _explained(message: str, text: str) -> str:
    """Explain what a TOML error means in a policy."""
    match = re.search(r"at line (\d+)", message)
    number = int(match.group(1)) if match else 0
    lines = text.splitlines()
    line = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    if "Cannot declare" in message and line.startswith("["):
        return f"line {number}: the section {line.partition('#')[0].strip()} appears twice"
    if "Cannot overwrite" in message and "=" in line:
        return f"line {number}: '{line.partition('=')[0].strip()}' is given twice"
    return f"not valid TOML: {message}"


# -- writing ----------------------------------------------------------------------------------

_HEAD = """\
# A policy of Tulle{made_for}. Check it, edit it, and pass it with --policy.
#
# role   identifier         names a person; never released
#        person             names the person of each row, who may have several: groups count
#                           people, not rows; released as new keys, or not at all (at most one)
#        quasi-identifier   others may know it; together such columns single people out
#        sensitive          what others may want to learn
#        target             what a miner wants to predict (at most one)
#        level              the privacy level of each record (at most one)
#        weight             of a survey: totals and means are kept as weighted by it (at most one)
#        ignored            left out of the release
# kind   integer, decimal, category, ordered (answers 1-5, stages), boolean, datetime or text
# bounds = [lowest, highest]   limits that everybody knows; without them limits come from
#                              statistics of at least k people
# missing = [9999, "k.A."]     what stands for "no value" among numbers or dates
# codes = {{N = "not applicable"}}   other special values; each is a state of its own
# format = "1.234.567,89 €"    how numbers are written; of dates "%d.%m.%Y"
# keep_rare = true             release values held by fewer than k people as they are
# hierarchy = [3, 1]           rare codes are merged into their first 3 letters, then 1; or
#                              {{Chur = "Graubünden"}}: into a more general value
# categories = ["A", "B"]      the categories that are expected; others are refused, or treated as
#                              on_new says in a stream: "wait" (until k people hold it), "other",
#                              "reject"
# text = "codes"               of remarks (kind text): one word of each that k people use
# diversity = 3                of a sensitive column: different values that each group must hold
# closeness = 0.2              of a sensitive column: how far a group's values may lie from all
# weight = 2                   the column counts twice when records are compared
"""

_RULES_HEAD = """\
# Rules between columns that a release keeps: delete what holds by chance, add what you know, as
# "admitted <= discharged", "total = a + b", "industry -> sector", "income is missing if age < 15"
# or "never sex = 'm' and births > 0". An empty list keeps none; without this section they are
# looked for."""


def dump_policy(policy: Policy, *, made_for: str = "") -> str:
    parts = [_HEAD.format(made_for=f" for {_one_line(made_for)}" if made_for else "")]
    parts += _linked_sections(policy)
    parts += [_column_section("columns", column) for column in policy.columns]
    if policy.context:
        lines = ["[context]", "# printed on page one of every report; what is empty is shown so"]
        for name, question in CONTEXT.items():
            lines.append(f"{name} = {_value(policy.context.get(name, ''))}  # {question.lower()}")
        parts.append("\n".join(lines) + "\n")
    for command, options in policy.parameters.items():
        lines = [f"[{_key(command)}]"]
        given = {name: value for name, value in options.items() if value is not None}
        lines += [f"{_key(name)} = {_value(value)}" for name, value in given.items()]
        parts.append("\n".join(lines) + "\n")
    if policy.estimates:
        parts.append(f"[estimates]\nasked = {_value(policy.estimates)}\n")
    if policy.rules is not None:
        parts.append(_rules_section(policy.rules, policy.rule_reasons))
    return "\n".join(parts)


def _linked_sections(policy: Policy) -> list[str]:
    """Return the people, and each of the linked tables followed by its columns."""
    sections = {
        "people": policy.people,
        **{f"tables.{_key(n)}": t for n, t in policy.tables.items()},
    }
    parts = []
    for name, section in sections.items():
        given = {option: value for option, value in vars(section).items() if value}
        columns = given.pop("columns", ())
        one = {n: v[0] for n, v in given.items() if n in ("link", "key") and len(v) == 1}
        lines = [f"{option} = {_value(value)}" for option, value in (given | one).items()]
        if lines:
            parts.append("\n".join([f"[{name}]", *lines]) + "\n")
        parts += [_column_section(f"{name}.columns", column) for column in columns]
    return parts


def _column_section(where: str, column: Column) -> str:
    lines = [f"[{where}.{_key(column.name)}]"]
    lines += [f"kind = {_value(str(column.kind))}", f"role = {_value(str(column.role))}"]
    plain = Column(column.name, column.kind, column.role)
    lines += [
        f"{option} = {_value(getattr(column, option))}"
        for option in [*COLUMN_OPTIONS][2:]
        if getattr(column, option) != getattr(plain, option)
    ]
    return "\n".join(lines) + "\n"


def _rules_section(rules: Iterable[str], reasons: Mapping[str, str]) -> str:
    lines = [_RULES_HEAD, "[rules]", "between = ["]
    for rule in rules:
        if rule in reasons:
            lines.append(f"  # {_one_line(reasons[rule])}")
        lines.append(f"  {_value(rule)},")
    return "\n".join([*lines, "]"]) + "\n"


def write_policy(
    policy: Policy, path: str | os.PathLike[str], *, made_for: str = "", force: bool = False
) -> None:
    """Write a policy file for a person to edit.

    Parameters
    ----------
    policy : Policy
        The policy.
    path : path-like
        The TOML file to create.
    made_for : str
        The name of the table, for the comment at the top.
    force : bool
        Replace a file that exists.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from tulle import Column, Kind, Policy, load_policy, write_policy
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "policy.toml"
    >>> write_policy(Policy((Column("age", Kind.INTEGER),)), path)
    >>> len(load_policy(path).columns)
    1
    """
    from tulle._files import atomic_write

    # it may name codes that a single person has, until somebody has read it
    with atomic_write(path, force=force, mode=0o600) as file:
        file.write(dump_policy(policy, made_for=made_for).encode())


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(_escaped(letter) for letter in value) + '"'
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
    if _is_number(value):
        return repr(value) if isinstance(value, int) else repr(float(value))
    raise PolicyError(f"a policy cannot hold a {type(value).__name__}")


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)
