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

from tulle._relations.language import ColumnRule, parse_rule, quote
from tulle.errors import ParameterError

BEFORE = "\0before "
_SUMMARIES = "count|min|max|sum"
_EACH = {("<=", "min"), ("<", "min"), (">=", "max"), (">", "max")}
_TURNED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<"}


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


@dataclass
class Placing:
    """Finds the table of each rule, and rewrites it in the words of that table."""

    tables: Mapping[str, TableNames]
    rules: list[PlacedRule] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)

    def place(self, text: str, original: str | None = None) -> None:
        """Take one rule; errors and summaries have its ``original`` words."""
        if not isinstance(text, str):
            parse_rule(text, [])  # which says what is wrong
        tables = sorted((name for name in self.tables if name), key=len, reverse=True)
        named = "|".join(map(re.escape, tables)) or r"(?!)"
        summaries = re.compile(rf"`?\b({_SUMMARIES})\(\s*({named})(?:\.([^()]+?))?\s*\)`?")
        found = list(summaries.finditer(text))
        if found:
            self._across(text, summaries, found, original or text)
        else:
            self._within(text, named)

    # -- rules about the rows of a parent ---------------------------------------------------------

    def _across(
        self, text: str, summaries: re.Pattern[str], found: list[re.Match[str]], original: str
    ) -> None:
        parents = {self.tables[match.group(2)].parent for match in found}
        if len(parents) > 1 or None in parents:
            raise self._error(text, "it is about the rows of tables that have no common parent")
        parent = str(parents.pop())
        for match in found:
            self._check_column(text, match.group(2), match.group(3))
        total = self._total(text, found)
        if total is not None:
            self.sums.append(total)
        elif all(self._is_kept(match) for match in found):
            said = summaries.sub(lambda m: f"`{self._summary(m)}`", text)
            columns = [*self.tables[parent].columns, *map(self._summary, found)]
            self._add(parent, original, self._own(said, parent), columns, {})
        else:
            self._each(text, summaries, found, parent)

    def _total(self, text: str, found: list[re.Match[str]]) -> Sum | None:
        """Read ``parent.column = sum(child.column)``, either way round."""
        if len(found) != 1 or found[0].group(1) != "sum":
            return None
        sides = [side.strip() for side in re.split(r"(?<![<>!=])==?(?!=)", text)]
        other = [side for side in sides if side != found[0].group(0)]
        if len(sides) != 2 or len(other) != 1:
            raise self._error(text, "a sum of rows must be a column: 'parent.column = sum(...)'")
        child = found[0].group(2)
        parent = str(self.tables[child].parent)
        column = other[0].removeprefix(f"{parent}.").strip("`")
        self._check_column(text, parent, column)
        return Sum(parent, column, child, found[0].group(3), text.strip())

    def _is_kept(self, match: re.Match[str]) -> bool:
        """Tell whether a summary is a column of the parent: a number of rows, or a time."""
        function, child, column = match.groups()
        if function == "count":
            return column is None
        return function in ("min", "max") and column == self.tables[child].time

    def _summary(self, match: re.Match[str]) -> str:
        inside = ".".join(part for part in match.groups()[1:] if part)
        return f"{match.group(1)}({inside})"

    def _each(
        self, text: str, summaries: re.Pattern[str], found: list[re.Match[str]], parent: str
    ) -> None:
        """Take ``a <= min(child.b)``, which says that ``a <= b`` in every row."""
        parts = re.split(r"(<=|>=|<|>)", text)
        if len(found) == 1 and len(parts) == 3:
            left, sign, right = (part.strip() for part in parts)
            if left == found[0].group(0):
                left, sign, right = right, _TURNED[sign], left
            if right == found[0].group(0) and (sign, found[0].group(1)) in _EACH:
                child, column = found[0].group(2), found[0].group(3)
                said = f"{left} {sign} {child}.{column}"
                self._within(said, "|".join(map(re.escape, (child, parent))), text)
                return
        raise self._error(
            text,
            "of the smallest or largest value of rows, a rule may say that something is below the "
            "smallest or above the largest",
        )

    # -- rules about a row ------------------------------------------------------------------------

    def _within(self, text: str, named: str, original: str | None = None) -> None:
        """Take a rule about a row, its parent, or the row that follows."""
        used = {m.group(1) for m in re.finditer(rf"`?\b({named})\.", text)}
        used = {table for table in used if self._names_column(text, table)}
        table = self._deepest(text, used)
        turned = self._at_the_end(text, table) if len(used) > 1 else None
        if turned is not None:
            self.place(turned, original or text)
            return
        fixed: dict[str, str] = {}
        said = text
        if "next(" in re.sub(r"\s", "", text):
            said, fixed = self._follows(text, table)
        parent = self.tables[table].parent
        if parent in used and parent is not None:
            for column in self.tables[parent].columns:
                name = f"{parent}.{column}"
                if name in said:
                    fixed[name] = column
        columns = [*self.tables[table].columns, *fixed]
        self._add(table, original or text, self._own(said, table), columns, fixed)

    def _at_the_end(self, text: str, table: str) -> str | None:
        """Read ``parent.a <= time``: true of all rows if it is of the first (or of the last)."""
        parts, time = re.split(r"(<=|>=|<|>)", text), self.tables[table].time
        if len(parts) != 3 or time is None:
            return None
        left, sign, right = (part.strip() for part in parts)
        if left in (time, f"{table}.{time}"):
            left, sign, right = right, _TURNED[sign], left
        if right not in (time, f"{table}.{time}") or f"{table}." in left:
            return None
        return f"{left} {sign} {'min' if '<' in sign else 'max'}({table}.{time})"

    def _follows(self, text: str, table: str) -> tuple[str, dict[str, str]]:
        """Rewrite a rule about the next row into one about the row before."""
        prefix = re.escape(f"{table}.") if table else ""
        columns = sorted(self.tables[table].columns, key=len, reverse=True)
        names = "|".join(map(re.escape, columns))
        both = re.compile(
            rf"next\(\s*(?:{prefix})?`?({names})`?\s*\)|(?<!\w)`?(?:{prefix})?`?({names})`?(?!\w)"
        )
        fixed = {}

        def rewritten(match: re.Match[str]) -> str:
            later, now = match.groups()
            if later is not None:
                return f"`{later}`"
            fixed[f"{BEFORE}{now}"] = now
            return f"`{BEFORE}{now}`"

        return both.sub(rewritten, text), fixed

    def _deepest(self, text: str, used: Collection[str]) -> str:
        """Return the table that a rule is kept in: a child rather than its parent."""
        if not used:
            return self._unnamed(text)
        for table in used:
            if {*used} <= {table, self.tables[table].parent}:
                return table
        raise self._error(text, "it names tables of which none is the parent of the other")

    def _unnamed(self, text: str) -> str:
        """Return the one table that has all columns of a rule that names no table."""
        plain = re.sub(r"\bnext\(([^()]*)\)", r"\1", text)
        fitting, problem = [], None
        for name, table in self.tables.items():
            try:
                parse_rule(plain, table.columns)
                fitting.append(name)
            except ParameterError as error:
                problem = error
        if len(fitting) == 1 or (fitting and len(self.tables) == 1):
            return fitting[0]
        if problem is not None and not fitting and len(self.tables) <= 2:
            raise problem
        many = "no table has" if not fitting else f"{len(fitting)} tables have"
        raise self._error(text, f"{many} all its columns: write 'table.column'")

    # -- parts ------------------------------------------------------------------------------------

    def _own(self, text: str, table: str) -> str:
        """Write the columns of the rule's own table without its name."""
        for column in sorted(self.tables[table].columns, key=len, reverse=True):
            if table:
                text = re.sub(
                    rf"(?<![\w`]){re.escape(table)}\.`?{re.escape(column)}`?(?!\w)",
                    lambda _, column=column: quote(column),  # type: ignore[misc]
                    text,
                )
        return text

    def _names_column(self, text: str, table: str) -> bool:
        return any(f"{table}.{c}" in text.replace("`", "") for c in self.tables[table].columns)

    def _check_column(self, text: str, table: str, column: str | None) -> None:
        if column is not None and column.strip("`") not in self.tables[table].columns:
            raise self._error(text, f"table '{table}' has no column '{column}'")

    def _add(
        self, table: str, text: str, said: str, columns: Sequence[str], fixed: dict[str, str]
    ) -> None:
        rule = parse_rule(said, columns)
        self.rules.append(PlacedRule(table, replace(rule, text=text.strip()), fixed))

    def _error(self, text: str, problem: str) -> ParameterError:
        return ParameterError(f"the rule '{text}' cannot be kept: {problem}", parameter="rules")
