"""The language of rules: one line of text for each, read into a tree.

::

    admitted <= discharged                     order, also in chains: 0 <= age <= 120
    bmi = weight / (height / 100) ** 2         arithmetic; days between dates are numbers
    lwage = log(wage)                          functions: log, log10, exp, sqrt, abs, floor, ...
    black = race == "b"                        1 where something is so, 0 where it is not
    age = years(born, admitted)                whole years between dates
    industry -> sector                         a value of the first has one value of the second
    known(ward, diagnosis)                     only combinations that the table has
    one_of(north, south, west)                 one of these columns is 1 (or at_most_one_of)
    never sex = "m" and births > 0             what must not be
    income is missing if age < 15              what must be under a condition
    pregnant = "yes" only if sex = "f"         the same the other way round

Columns are written as they are called; in backticks where that can be misread. Text stands in
quotes, and dates are text: ``admitted >= "2020-01-01"``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tulle.errors import ParameterError, nearest_name

COMPARISONS = ("<=", "<", ">=", ">", "=", "!=")
FUNCTIONS = dict.fromkeys(("abs", "exp", "floor", "log", "log10", "round", "sqrt", "year"), 1)
FUNCTIONS |= {"years": 2, "days": 2, "min": 0, "max": 0}
SETS = ("known", "one_of", "at_most_one_of")  # what is said of a list of columns
_KEYWORDS = ("and", "or", "not", "never", "if", "then", "only", "is", "in", "missing")
_SAME = {"==": "=", "<>": "!=", "≤": "<=", "≥": ">=", "≠": "!=", "^": "**", "=>": "->", "→": "->"}
_SYMBOL = re.compile(r"->|=>|<=|>=|==|!=|<>|\*\*|[-+*/^()<>=,≤≥≠→]")
_NUMBER = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_WORD = re.compile(r"[^\W\d]\w*")
_CONDITIONS = frozenset({*COMPARISONS, "and", "or", "not", "if", "missing", "in", "->", *SETS})


@dataclass(frozen=True)
class Number:
    """A number that stands in a rule."""

    value: float


@dataclass(frozen=True)
class Word:
    """A text that stands in a rule: a category, or a date."""

    text: str


@dataclass(frozen=True)
class Name:
    """A column."""

    column: str


@dataclass(frozen=True)
class Call:
    """An operator or a function and what it works on."""

    op: str
    args: tuple[Node, ...]


Node = Number | Word | Name | Call


@dataclass(frozen=True)
class ColumnRule:
    """A rule as it was written, and the parts that must hold, each of them."""

    text: str
    parts: tuple[Call, ...]

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for part in self.parts for name in columns_of(part)))


def columns_of(node: Node) -> Iterator[str]:
    """Yield the columns of an expression, as often as they occur."""
    if isinstance(node, Name):
        yield node.column
    elif isinstance(node, Call):
        for part in node.args:
            yield from columns_of(part)


def is_condition(node: Node) -> bool:
    """Tell whether an expression is true or false rather than a quantity."""
    return isinstance(node, Call) and node.op in _CONDITIONS


def parse_rule(text: str, names: Collection[str]) -> ColumnRule:
    """Read a rule about a table with these columns.

    >>> parse_rule("admitted <= discharged", ["admitted", "discharged"]).columns
    ['admitted', 'discharged']
    >>> parse_rule("education -> education-num", ["education", "education-num"]).columns
    ['education', 'education-num']

    Raises
    ------
    ParameterError
        If it cannot be read, with the position, or names a column that is not there.
    """
    if not isinstance(text, str):
        raise ParameterError(
            f"'rules' must be texts such as 'a <= b'. Got a {type(text).__name__} in it.",
            parameter="rules",
        )
    parser = _Parser(text, names)
    return ColumnRule(text.strip(), tuple(parser.rule()))


def parse_condition(text: str, names: Collection[str], parameter: str = "where") -> Call:
    """Read a condition on the records of a table, such as ``age < 30 and sex == 'f'``.

    >>> list(columns_of(parse_condition("age < 30 and sex == 'f'", ["age", "sex"])))
    ['age', 'sex']
    """
    if not isinstance(text, str):
        raise ParameterError(
            f"'{parameter}' must be a text such as 'age < 30'. Got a {type(text).__name__}.",
            parameter=parameter,
        )
    return _Parser(text, names, "condition", parameter).condition()


def parse_terms(text: str, names: Collection[str], parameter: str) -> dict[str, Node]:
    """Read quantities that stand between ``+``, as the terms of a regression do, by their text."""
    return _Parser(text, names, "formula", parameter).terms()


def parse_quantity(text: str, names: Collection[str], parameter: str) -> Node:
    """Read one quantity, such as ``log(wage)`` or ``discharged - admitted``."""
    return _Parser(text, names, "formula", parameter).quantity()


def quote(name: str) -> str:
    """Write a column's name so that it is read as one, whatever other columns there are."""
    plain = _WORD.fullmatch(name) and name not in _KEYWORDS and name not in FUNCTIONS
    return name if plain and name not in SETS else f"`{name}`"


class _Token(NamedTuple):
    kind: str  # "name", "number", "text", "function", "end", or the symbol or keyword itself
    value: str
    place: int


class _Parser:
    """A reader by recursive descent: one method for each level of binding."""

    def __init__(
        self, text: str, names: Collection[str], what: str = "rule", parameter: str = "rules"
    ) -> None:
        self.text, self.what, self.parameter = text, what, parameter
        self.names = sorted(names, key=len, reverse=True)
        self.plain = [name for name in self.names if name and _is_inner(name[0])]
        self.tokens = list(self._tokens())
        self.at = 0

    # -- tokens ----------------------------------------------------------------------------------

    def _tokens(self) -> Iterator[_Token]:
        place = 0
        while place < len(self.text):
            if self.text[place].isspace():
                place += 1
                continue
            token, place = self._token(place)
            yield token
        yield _Token("end", "", len(self.text))

    def _token(self, place: int) -> tuple[_Token, int]:
        letter = self.text[place]
        if letter in "`'\"":
            return self._quoted(place, letter)
        number, word = _NUMBER.match(self.text, place), _WORD.match(self.text, place)
        name = self._name_at(place)
        found = word.group() if word else number.group() if number else ""
        if name is not None and (len(name) > len(found) or (word and found not in _KEYWORDS)):
            called = found in (*FUNCTIONS, *SETS) and self._opens(place + len(found))
            if not called or len(name) > len(found):
                return _Token("name", name, place), place + len(name)
        if number:
            return _Token("number", number.group(), place), number.end()
        if word:
            return self._word(found, place), place + len(found)
        symbol = _SYMBOL.match(self.text, place)
        if symbol is None:
            raise self._error(place, f"'{letter}' has no meaning here")
        sign = symbol.group()
        return _Token(_SAME.get(sign, sign), sign, place), symbol.end()

    def _quoted(self, place: int, mark: str) -> tuple[_Token, int]:
        end = self.text.find(mark, place + 1)
        if end < 0:
            raise self._error(place, f"the quote {mark} does not end")
        inside = self.text[place + 1 : end]
        if mark != "`":
            return _Token("text", inside, place), end + 1
        if inside not in self.names:
            raise self._unknown(place, inside)
        return _Token("name", inside, place), end + 1

    def _name_at(self, place: int) -> str | None:
        """Return the longest column name that the text goes on with, as a whole word."""
        for name in self.plain:
            end = place + len(name)
            within = end < len(self.text) and _is_inner(name[-1]) and _is_inner(self.text[end])
            if self.text.startswith(name, place) and not within:
                return name
        return None

    def _word(self, word: str, place: int) -> _Token:
        small = "missing" if word.casefold() == "null" else word.casefold()
        if small in _KEYWORDS:
            return _Token(small, word, place)
        if small in ("true", "false"):
            return _Token("number", "1" if small == "true" else "0", place)
        if small in (*FUNCTIONS, *SETS) and self._opens(place + len(word)):
            return _Token("function", small, place)
        raise self._unknown(place, word)

    def _opens(self, place: int) -> bool:
        return self.text[place:].lstrip().startswith("(")

    # -- errors ----------------------------------------------------------------------------------

    def _error(self, place: int, problem: str) -> ParameterError:
        return ParameterError(
            f"the {self.what} '{self.text}' cannot be read at position {place + 1}: {problem}",
            parameter=self.parameter,
        )

    def _unknown(self, place: int, name: str) -> ParameterError:
        hint = nearest_name(name, sorted(self.names))
        return self._error(place, f"there is no column '{name}' ({hint}); text stands in quotes")

    # -- rules -----------------------------------------------------------------------------------

    def rule(self) -> list[Call]:
        if any(token.kind == "->" for token in self.tokens):
            parts = self._dependency()
        elif self._take("if"):
            given = self._condition()
            self._expect("then")
            parts = [Call("if", (self._condition(), given))]
        elif self._take("never"):
            parts = [Call("not", (self._condition(),))]
        else:
            parts = self._statement()
        self._expect("end")
        return parts

    def condition(self) -> Call:
        """Return the condition that the whole text is."""
        said = self._condition()
        self._expect("end")
        return said

    def quantity(self) -> Node:
        """Return the quantity that the whole text is."""
        said = self._quantity(self._sum())
        self._expect("end")
        return said

    def terms(self) -> dict[str, Node]:
        """Return the quantities that the text adds up, by how they are written."""
        found: dict[str, Node] = {}
        while True:
            place = self._next.place
            term = self._quantity(self._product())
            found[self.text[place : self._next.place].strip()] = term
            if not self._take("+"):
                self._expect("end")
                return found

    def _dependency(self) -> list[Call]:
        sources = self._columns()
        self._expect("->")
        targets = self._columns()
        return [Call("->", (*sources, target)) for target in targets]

    def _columns(self) -> list[Name]:
        columns = [Name(self._expect("name").value)]
        while self._take(","):
            columns.append(Name(self._expect("name").value))
        return columns

    def _statement(self) -> list[Call]:
        said = self._condition()
        if self._take("only"):
            self._expect("if")
            return [Call("if", (self._condition(), said))]
        if self._take("if"):
            return [Call("if", (said, self._condition()))]
        return list(_conjuncts(said))

    def _condition(self) -> Call:
        place = self._next.place
        said = self._or()
        if isinstance(said, Name):
            return Call("=", (said, Number(1.0)))  # a column of true and false
        if not is_condition(said) or not isinstance(said, Call):
            raise self._error(place, "this is a quantity: what must hold of it?")
        return said

    # -- expressions, from the loosest binding to the tightest -----------------------------------

    def _or(self) -> Node:
        return self._joined("or", lambda: self._joined("and", self._not))

    def _joined(self, word: str, part: Callable[[], Node]) -> Node:
        place = self._next.place
        parts = [part()]
        while self._take(word):
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        return Call(word, tuple(self._as_condition(one, place) for one in parts))

    def _not(self) -> Node:
        place = self._next.place
        if self._take("not"):
            return Call("not", (self._as_condition(self._not(), place),))
        return self._comparison()

    def _as_condition(self, node: Node, place: int) -> Node:
        if isinstance(node, Name):
            return Call("=", (node, Number(1.0)))
        if not is_condition(node):
            raise self._error(place, "'and', 'or' and 'not' join conditions, not quantities")
        return node

    def _comparison(self) -> Node:
        left = self._sum()
        if self._next.kind in ("is", "in", "not"):
            return self._property(left)
        links: list[Node] = []
        while self._next.kind in COMPARISONS:
            sign = self._step()
            right = self._sum()
            if sign.value == "=" and self._next.value == "==":  # 1 where that is so
                self._step()
                right = Call("=", (self._quantity(right), self._quantity(self._sum())))
            if sign.kind != "=" or links:
                right = self._quantity(right)
            links.append(Call(sign.kind, (self._quantity(left), right)))
            left = right
        if not links:
            return left
        return links[0] if len(links) == 1 else Call("and", tuple(links))

    def _property(self, left: Node) -> Node:
        """Read ``x is missing``, ``x is not missing``, ``x in (...)`` and ``x not in (...)``."""
        token = self._step()
        if not isinstance(left, Name):
            raise self._error(token.place, f"'{token.value}' follows a column")
        if token.kind == "is":
            negated = self._take("not")
            self._expect("missing")
            found = Call("missing", (left,))
        else:
            negated = token.kind == "not"
            if negated:
                self._expect("in")
            self._expect("(")
            options = [self._quantity(self._sum())]
            while self._take(","):
                options.append(self._quantity(self._sum()))
            self._expect(")")
            found = Call("in", (left, *options))
        return Call("not", (found,)) if negated else found

    def _sum(self) -> Node:
        return self._chain(("+", "-"), self._product)

    def _product(self) -> Node:
        return self._chain(("*", "/"), self._signed)

    def _chain(self, signs: tuple[str, ...], part: Callable[[], Node]) -> Node:
        left = part()
        while self._next.kind in signs:
            op = self._step().kind
            left = Call(op, (self._quantity(left), self._quantity(part())))
        return left

    def _signed(self) -> Node:
        if self._take("-"):
            inner = self._quantity(self._signed())
            return Number(-inner.value) if isinstance(inner, Number) else Call("neg", (inner,))
        base = self._atom()
        if self._take("**"):
            return Call("**", (self._quantity(base), self._quantity(self._signed())))
        return base

    def _atom(self) -> Node:
        token = self._step()
        if token.kind == "name":
            return Name(token.value)
        if token.kind == "number":
            return Number(float(token.value))
        if token.kind == "text":
            return Word(token.value)
        if token.kind == "function":
            return self._function(token)
        if token.kind == "(":
            inner = self._or()
            self._expect(")")
            return inner
        what = f"the {self.what} ends" if token.kind == "end" else f"'{token.value}' stands"
        raise self._error(token.place, f"{what} where a column, a number or text should be")

    def _function(self, token: _Token) -> Node:
        self._expect("(")
        if token.value in SETS:
            columns = self._columns()
            self._expect(")")
            return Call(token.value, tuple(columns))
        args = [self._quantity(self._sum())]
        while self._take(","):
            args.append(self._quantity(self._sum()))
        self._expect(")")
        wanted = FUNCTIONS[token.value]
        if wanted and len(args) != wanted:
            raise self._error(token.place, f"{token.value}() takes {wanted}, not {len(args)}")
        return Call(token.value, tuple(args))

    # -- moving on -------------------------------------------------------------------------------

    def _quantity(self, node: Node) -> Node:
        if is_condition(node):
            raise self._error(self._next.place, "a condition stands where a quantity should be")
        return node

    @property
    def _next(self) -> _Token:
        return self.tokens[self.at]

    def _step(self) -> _Token:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def _take(self, kind: str) -> bool:
        if self._next.kind != kind or kind == "end":
            return False
        self._step()
        return True

    def _expect(self, kind: str) -> _Token:
        token = self._next
        if token.kind != kind:
            wanted = {"end": "the end", "name": "a column"}.get(kind, f"'{kind}'")
            found = "the end" if token.kind == "end" else f"'{token.value}'"
            raise self._error(token.place, f"{wanted} should stand here, not {found}")
        return self._step()


def _is_inner(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


def _conjuncts(condition: Call) -> Iterator[Call]:
    """Yield what must hold, each: the parts of ``and``, and of chains of comparisons."""
    if condition.op == "and":
        for part in condition.args:
            if isinstance(part, Call):
                yield from _conjuncts(part)
    else:
        yield condition
