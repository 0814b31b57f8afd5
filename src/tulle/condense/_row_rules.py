"""Rules across rows and tables, in the language of rules: where each is kept, in whose words.

::

    visits.admitted <= visits.discharged       within a row of a table
    patients.born <= visits.admitted           a row and its parent
    patients.born <= min(visits.admitted)      a parent and all its rows; also max
    patients.n_visits = count(visits)          how many rows it has
    patients.paid = sum(visits.cost)           what they add up to
    next(visits.age) >= visits.age             a row and the one that follows it

A rule about a parent and its rows is one about the parent's own columns: the number of its rows,
their first and last time are among them. Where it is about each row (``born <= min(weight)`` holds
if every row's weight is larger), it is kept in the rows. A row that follows another is compared
with what is known of the row before. So every rule is about one row of one table, and is planned,
kept and verified as rules of any table are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tulle._relations.language import Call, ColumnRule, Name, Node, columns_of, parse_rule
from tulle.errors import ParameterError

BEFORE = "\0before "
_EACH = {("<=", "min"), ("<", "min"), (">=", "max"), (">", "max")}
_TURNED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<"}
_INSIDE = re.compile(r"\b(count|min|max|sum|next)\(\s*`?([^(),`]*?)`?\s*\)")


class TableNames(NamedTuple):
    """What rules may call the columns of a table."""

    columns: Sequence[str]
    parent: str | None
    time: str | None = None


class PlacedRule(NamedTuple):
    """A rule about one row of one table."""

    table: str
    rule: ColumnRule
    fixed: dict[str, str]  # columns of the parent, or of the row before, that it speaks of


class Sum(NamedTuple):
    """A column of a parent that its rows add up to."""

    table: str
    column: str
    child: str
    part: str
    text: str  # the rule


class _Meaning(NamedTuple):
    """What a name in a rule stands for."""

    column: str = ""  # none: the rows themselves, which are counted
    table: str | None = None  # None: not said
    function: str = ""


@dataclass
class Placing:
    """Finds the table of each rule, and rewrites it in the words of that table."""

    tables: Mapping[str, TableNames]
    rules: list[PlacedRule] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._means: dict[str, _Meaning] = {}
        for table, known in self.tables.items():
            of = f"{table}." if table else ""
            if table:
                self._means[f"count({table})"] = _Meaning("", table, "count")
            for column in known.columns:
                self._means[column] = _Meaning(column)
                self._means[f"next({column})"] = _Meaning(column, None, "next")
                self._means[f"next({of}{column})"] = _Meaning(column, table or None, "next")
                if table:
                    self._means[f"{of}{column}"] = _Meaning(column, table)
                    for function in ("min", "max", "sum"):
                        self._means[f"{function}({of}{column})"] = _Meaning(column, table, function)

    def place(self, text: str) -> None:
        """Take one rule."""
        plain = text
        if isinstance(text, str):
            plain = _INSIDE.sub(r"\1(\2)", re.sub(r"\.`([^`]*)`", r".\1", text))
            self._refuse_unknown(text, plain)
        rule = replace(parse_rule(plain, self._means), text=text.strip())
        names = {name: self._means[name] for name in rule.columns}
        if any(one.function not in ("", "next") for one in names.values()):
            self._across(rule, names)
        else:
            self._within(rule, names)

    def _refuse_unknown(self, text: str, plain: str) -> None:
        """Raise for a column that a table lacks: the parser would miss the table."""
        for table, known in self.tables.items():
            for column in re.findall(rf"\b{re.escape(table)}\.(\w+)", plain) if table else ():
                if not any(name.startswith(column) for name in known.columns):
                    raise _error(text, f"table '{table}' has no column '{column}'")

    # -- rules about the rows of a parent ---------------------------------------------------------

    def _across(self, rule: ColumnRule, names: Mapping[str, _Meaning]) -> None:
        summaries = {n: one for n, one in names.items() if one.function not in ("", "next")}
        children = {str(one.table) for one in summaries.values()}
        parents = {self.tables[child].parent for child in children}
        parent = str(parents.pop())
        if parents or parent not in self.tables:
            raise _error(rule.text, "it is about the rows of tables that have no common parent")
        sides = rule.parts[0].args if len(rule.parts) == 1 else ()
        if any(one.function == "sum" for one in summaries.values()):
            self._add_sum(rule, parent, sides, names)
        elif all(self._is_kept(one) for one in summaries.values()):
            self._add(rule, parent, names, kept=summaries)
        else:
            self._each(rule, sides, summaries)

    def _add_sum(
        self, rule: ColumnRule, parent: str, sides: Sequence[Node], names: Mapping[str, _Meaning]
    ) -> None:
        """Take ``parent.column = sum(child.column)``, either way round."""
        both = [names[side.column] for side in sides if isinstance(side, Name)]
        both.sort(key=lambda one: one.function)  # the column of the parent has none
        total = len(both) == 2 and [one.function for one in both] == ["", "sum"]
        if not total or rule.parts[0].op != "=" or both[0].table not in (None, parent):
            raise _error(rule.text, "a sum of rows must be a column: 'parent.column = sum(...)'")
        child, part = str(both[1].table), both[1].column
        self._check(rule, parent, both[0].column)
        self.sums.append(Sum(parent, both[0].column, child, part, rule.text))

    def _is_kept(self, one: _Meaning) -> bool:
        """Tell whether a summary is a column of the parent: a number of rows, or a time."""
        return one.function == "count" or one.column == self.tables[str(one.table)].time

    def _each(
        self, rule: ColumnRule, sides: Sequence[Node], summaries: Mapping[str, _Meaning]
    ) -> None:
        """Take ``a <= min(child.b)``, which says that ``a <= b`` in every row."""
        (name, one), *more = summaries.items()
        sign = rule.parts[0].op
        if sides and sides[0] == Name(name):
            sign = _TURNED.get(sign, "")
        if more or Name(name) not in sides or (sign, one.function) not in _EACH:
            raise _error(
                rule.text,
                "of the smallest or largest value of rows, a rule may say that something is below "
                "the smallest or above the largest",
            )
        said = renamed(rule, {name: f"{one.table}.{one.column}"})
        self._within(said, {name: self._means[name] for name in said.columns}, each=True)

    # -- rules about a row ------------------------------------------------------------------------

    def _within(
        self, rule: ColumnRule, names: Mapping[str, _Meaning], *, each: bool = False
    ) -> None:
        """Take a rule about a row, its parent, or the row that follows."""
        used = {one.table for one in names.values() if one.table is not None}
        table = self._deepest(rule, names, used)
        ends = {} if each or len(used) < 2 else self._at_the_end(rule, names, table)
        if ends:
            said, parent = renamed(rule, ends), str(self.tables[table].parent)
            self._add(said, parent, {name: self._means[name] for name in said.columns},
                      kept=ends.values())  # fmt: skip
        else:
            self._add(rule, table, names)

    def _at_the_end(
        self, rule: ColumnRule, names: Mapping[str, _Meaning], table: str
    ) -> dict[str, str]:
        """Read ``parent.a <= time``: true of all rows if it is of the first (or of the last)."""
        time, part = self.tables[table].time, rule.parts[0]
        for place, side in enumerate(part.args if len(rule.parts) == 1 else ()):
            times = isinstance(side, Name) and names[side.column].column == time
            others = [names[name] for name in columns_of(part.args[not place])] if times else []
            if part.op in _TURNED and others and all(one.table != table for one in others):
                sign = part.op if place else _TURNED[part.op]
                end = f"{'min' if '<' in sign else 'max'}({table}.{time})"
                return {side.column: end} if isinstance(side, Name) else {}
        return {}

    def _deepest(
        self, rule: ColumnRule, names: Mapping[str, _Meaning], used: Collection[str]
    ) -> str:
        """Return the table that a rule is kept in: a child rather than its parent."""
        for table in used:
            if {*used} <= {table, self.tables[table].parent}:
                return table
        if used:
            raise _error(rule.text, "it names tables of which none is the parent of the other")
        columns = {one.column for one in names.values()}
        fitting = [name for name, table in self.tables.items() if columns <= {*table.columns}]
        if len(fitting) != 1:
            many = "no table has" if not fitting else f"{len(fitting)} tables have"
            raise _error(rule.text, f"{many} all its columns: write 'table.column'")
        return fitting[0]

    def _add(
        self, rule: ColumnRule, table: str, names: Mapping[str, _Meaning],
        kept: Collection[str] = (),
    ) -> None:  # fmt: skip
        """Keep a rule in a table, in its own words; of rows that follow, as one of those before."""
        fixed, said = dict[str, str](), dict[str, str]()
        follows = any(one.function == "next" for one in names.values())
        for name, one in names.items():
            if name in kept:
                continue
            if one.table not in (None, table):  # of the parent
                fixed[name] = one.column
                continue
            self._check(rule, table, one.column)
            said[name] = one.column
            if follows and not one.function:
                said[name] = f"{BEFORE}{one.column}"
                fixed[said[name]] = one.column
        self.rules.append(PlacedRule(table, renamed(rule, said), fixed))

    def _check(self, rule: ColumnRule, table: str, column: str) -> None:
        if column not in self.tables[table].columns:
            raise _error(rule.text, f"table '{table}' has no column '{column}'")


def renamed(rule: ColumnRule, names: Mapping[str, str]) -> ColumnRule:
    """Return a rule about columns that are called otherwise."""

    def changed(node: Node) -> Node:
        if isinstance(node, Name):
            return Name(names.get(node.column, node.column))
        if isinstance(node, Call):
            return Call(node.op, tuple(map(changed, node.args)))
        return node

    parts = tuple(Call(part.op, tuple(map(changed, part.args))) for part in rule.parts)
    return replace(rule, parts=parts)


def _error(text: str, problem: str) -> ParameterError:
    return ParameterError(f"the rule '{text}' cannot be kept: {problem}", parameter="rules")
