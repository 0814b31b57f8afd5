"""Rules as users write them: ``bread, milk -> beer``; and files of them.

An item whose name has a comma, an arrow or the like in it stands in double quotes, a quote in it
twice: ``"milk, whole" -> "3"" nails"``.
"""

from __future__ import annotations

import ast
import math
import os
import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

from tulle._checks import check_share, wrong
from tulle.errors import DataError, ParameterError

_SETTINGS = {"disclosure": "disclosure", "support": "min_support", "confidence": "min_confidence"}
_ARROW = "->|=>"
_QUOTED = re.compile(r'(?:^|,|->|=>|:)\s*("(?:[^"]|"")*")\s*(?=,|->|=>|;|#|$)')
NEEDS_QUOTES = r'[,;"]|->|=>|(^|\s)#|^\s|\s$|^$|^\d+(\s+\d+)+$'
_SIDES = (("antecedent", "consequent"), ("antecedents", "consequents"))  # ours, and mlxtend's
_FROZEN = re.compile(r"frozenset\(\{(.*)\}\)", re.DOTALL)


@dataclass(frozen=True, init=False)
class Rule:
    """Name a rule to hide: antecedent -> consequent.

    Parameters
    ----------
    antecedent
        The whole rule as text, ``"bread, milk -> beer"``, or the items of the antecedent. In a
        text, names with commas, arrows and the like stand in double quotes.
    consequent
        The items of the consequent, if the antecedent was given as items.
    disclosure
        Share of the supporting baskets that may stay as they are, in [0, 1]; for this rule
        instead of the hider's.
    min_support, min_confidence
        Thresholds for this rule instead of the hider's.

    Examples
    --------
    >>> Rule("bread, milk -> beer")
    Rule('bread, milk -> beer')
    >>> Rule(["bread"], ["beer"]).items
    ('bread', 'beer')
    """

    antecedent: tuple[Hashable, ...]
    consequent: tuple[Hashable, ...]
    disclosure: float | str | None
    min_support: float | int | str | None
    min_confidence: float | str | None

    def __init__(
        self,
        antecedent: str | Iterable[Hashable],
        consequent: Iterable[Hashable] | None = None,
        *,
        disclosure: float | str | None = None,
        min_support: float | int | str | None = None,
        min_confidence: float | str | None = None,
    ) -> None:
        if consequent is None:
            antecedent, consequent = _sides(antecedent)
        sides = {"antecedent": _items(antecedent), "consequent": _items(consequent)}
        for name, items in sides.items():
            if not items:
                raise ParameterError(f"a rule needs an item on each side: the {name} is empty")
            object.__setattr__(self, name, items)
        both = set(sides["antecedent"]) & set(sides["consequent"])
        if both:
            raise ParameterError(f"{self}: the same item is on both sides of the arrow")
        object.__setattr__(self, "disclosure", disclosure)
        object.__setattr__(self, "min_support", min_support)
        object.__setattr__(self, "min_confidence", min_confidence)
        if disclosure is not None and self.has_thresholds:
            raise ParameterError(f"{self}: give disclosure or thresholds, not both")

    @property
    def items(self) -> tuple[Hashable, ...]:
        """All items of the rule."""
        return self.antecedent + self.consequent

    @property
    def has_thresholds(self) -> bool:
        """Whether the rule has a support or confidence of its own to fall below."""
        return self.min_support is not None or self.min_confidence is not None

    def __str__(self) -> str:
        sides = (self.antecedent, self.consequent)
        return " -> ".join(", ".join(map(quoted, side)) for side in sides)

    def __repr__(self) -> str:
        return f"Rule({str(self)!r})"


class RuleFile(NamedTuple):
    """What a rules file says: rules to hide, and itemsets that must stay frequent."""

    rules: list[Rule]
    keep: list[tuple[Hashable, ...]]


def read_rules(path: str | os.PathLike[str]) -> RuleFile:
    r"""Read a rules file.

    Each line holds one rule, ``bread, milk -> beer``, optionally followed by its own thresholds
    after semicolons: ``; disclosure=25%``, ``; support=0.2%``, ``; confidence=50%``. A line
    ``keep: bread, milk`` names an itemset that must stay frequent. ``#`` at the beginning of a
    line or after a blank begins a comment. ``=>`` is an arrow, too. A table that ``tulle mine``
    wrote (CSV, Parquet), or a CSV of mlxtend's rules, is read as well: each row is a rule.

    Parameters
    ----------
    path : path-like
        The rules file.

    Returns
    -------
    RuleFile
        A pair: ``rules`` (a list of :class:`Rule`) and ``keep`` (the itemsets to keep).

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from tulle import read_rules
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "secret.txt"
    >>> _ = path.write_text("bread, milk -> beer ; support=5%\n")
    >>> read_rules(path).rules
    [Rule('bread, milk -> beer')]
    """
    from tulle.io.read import read_table

    if str(path).lower().endswith((".parquet", ".arrow", ".feather")):
        return RuleFile(_rules_of_frame(read_table(path)), [])
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"the rules file {path} does not exist") from None
    except UnicodeDecodeError:
        raise DataError(f"the rules file {path} is not UTF-8 text") from None
    except OSError as error:
        raise DataError(f"the rules file {path} cannot be read: {error.strerror}") from None
    first = next((line for line in text.splitlines() if line.strip()), "")
    names = {name.strip().strip('"') for name in re.split(r"[,;\t|]", first)}
    if any(names.issuperset(pair) for pair in _SIDES):  # a CSV file
        return RuleFile(_rules_of_frame(read_table(path)), [])
    found = RuleFile([], [])
    for number, raw in enumerate(text.splitlines(), start=1):
        line = _cut(raw, r"(?:^|\s)#")[0].strip()
        try:
            if line.startswith("keep:"):
                found.keep.append(_itemset(line.removeprefix("keep:")))
            elif line:
                found.rules.append(_parse_line(line))
        except ParameterError as error:
            raise ParameterError(f"{Path(path).name}, line {number}: {error}") from None
    if not found.rules:
        raise DataError(
            f"the rules file {path} contains no rules: write one per line, such as a, b -> c"
        )
    return found


def as_itemsets(given: Any) -> list[tuple[Hashable, ...]]:
    """Return itemsets that must stay frequent, from texts ``"bread, milk"`` or lists of items."""
    return [_itemset(items) for items in ([given] if isinstance(given, str) else given)]


def quoted(item: Hashable) -> str:
    """Return an item as it is written in a rule.

    >>> quoted("bread"), quoted("milk, whole")
    ('bread', '"milk, whole"')
    """
    text = str(item)
    return '"{}"'.format(text.replace('"', '""')) if re.search(NEEDS_QUOTES, text) else text


def as_rules(given: Any) -> RuleFile:
    """Return rules from one or many Rules, texts or pairs, a frame, or a file."""
    if isinstance(given, Rule):
        return RuleFile([given], [])
    if isinstance(given, str | os.PathLike):
        text = os.fspath(given)
        return RuleFile([Rule(text)], []) if re.search(_ARROW, text) else read_rules(text)
    if hasattr(given, "columns"):
        rules = _rules_of_frame(given)
    elif isinstance(given, Iterable):
        rules = [_as_rule(rule) for rule in given]
    else:
        raise ParameterError(f"rules must be rules or texts. Got {type(given).__name__}.")
    if not rules:
        raise ParameterError("there are no rules to hide")
    return RuleFile(rules, [])


def _as_rule(given: Any) -> Rule:
    if isinstance(given, Rule):
        return given
    if isinstance(given, str):
        return Rule(given)
    if isinstance(given, tuple | list) and len(given) == 2:
        return Rule(given[0], given[1])
    raise ParameterError(
        "a rule is a Rule, a text 'a, b -> c' or a pair (antecedent, consequent). "
        f"Got {type(given).__name__}."
    )


def _rules_of_frame(given: Any) -> list[Rule]:
    names = getattr(given, "column_names", given.columns)  # pyarrow's `columns` are the data
    known = {str(name) for name in names}
    sides = next((pair for pair in _SIDES if known.issuperset(pair)), None)
    if sides is None:
        raise ParameterError(
            "a frame of rules has columns 'antecedent' and 'consequent' (or, as mlxtend calls "
            "them, 'antecedents' and 'consequents')"
        )
    columns = (given[name] for name in sides)  # of pandas, polars or pyarrow
    left, right = (c.to_pylist() if hasattr(c, "to_pylist") else c.to_list() for c in columns)
    rules = [Rule(_side(before), _side(after)) for before, after in zip(left, right)]
    if not rules:
        raise ParameterError("there are no rules to hide: the table of rules has no row")
    return rules


def _side(cell: Any) -> list[Any]:
    """Return the items of a cell: a list, a set, or a text as it stands in a CSV file."""
    if isinstance(cell, set | frozenset):
        return sorted(cell, key=repr)
    if not isinstance(cell, str):
        return list(cell) if isinstance(cell, Iterable) else [cell]
    frozen = _FROZEN.fullmatch(cell.strip())
    if frozen is None:
        return list(_split(cell))
    try:
        return sorted(ast.literal_eval(f"[{frozen[1]}]"), key=repr)
    except (ValueError, SyntaxError):
        raise ParameterError("a set of items in the table of rules cannot be read") from None


def _sides(text: Any) -> tuple[list[str], list[str]]:
    sides = _cut(text, _ARROW) if isinstance(text, str) else []
    if len(sides) != 2:
        raise ParameterError("a rule is written with one arrow: bread, milk -> beer (or =>)")
    return _split(sides[0]), _split(sides[1])


def _split(text: str) -> list[str]:
    tokens = text.split()
    if "," not in text and all(token.isdigit() for token in tokens):
        return tokens
    return [_unquoted(item.strip()) for item in _cut(text, ",") if item.strip()]


def _cut(text: str, mark: str) -> list[str]:
    """Return the parts of a text between marks, except marks inside quoted items."""
    quotes = [item.span(1) for item in _QUOTED.finditer(text)]
    ends = [
        found.span()
        for found in re.finditer(mark, text)
        if not any(begin <= found.start() < end for begin, end in quotes)
    ]
    begins = [0, *(end for _, end in ends)]
    return [text[begin:end] for begin, end in zip(begins, [*(b for b, _ in ends), len(text)])]


def _unquoted(text: str) -> str:
    return text[1:-1].replace('""', '"') if _QUOTED.fullmatch(text) else text


def _itemset(given: Any) -> tuple[Hashable, ...]:
    items = _items(_split(given) if isinstance(given, str) else given)
    if not items:
        raise ParameterError("an itemset to keep needs at least one item")
    return items


def _items(side: Any) -> tuple[Hashable, ...]:
    if isinstance(side, str) or not isinstance(side, Iterable):
        side = [side]
    try:
        return tuple(dict.fromkeys(side))
    except TypeError:
        raise ParameterError("an item is a number, a text or another value, not a list") from None


def _parse_line(line: str) -> Rule:
    text, *settings = _cut(line, ";")
    options: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = (part.strip() for part in setting.partition("="))
        if name not in _SETTINGS or not equals:
            raise ParameterError(
                f"{setting.strip()!r} is not a threshold: write disclosure=, support= or "
                "confidence="
            )
        options[_SETTINGS[name]] = value
    return Rule(text, **options)


# Thresholds as exact numbers: a support is a whole count, a confidence a fraction. Floats decide
# nothing: a rule at exactly the threshold is kept, on any machine.

Share = float | int | str
_SUPPORT = "a share in the range (0, 1] or a count of at least 1"
_MOST_DIGITS = 18
_FINEST = 10**9  # denominators up to here: products with counts stay whole numbers of 64 bits


def exact_share(owner: str, name: str, value: Any) -> Fraction:
    """Return a share in [0, 1] as a fraction: 0.6, "60%".

    >>> exact_share("mine", "min_confidence", "60%")
    Fraction(3, 5)
    """
    given = Fraction(check_share(owner, name, value))
    # a tiny share is still more than none
    return given.limit_denominator(_FINEST) or (Fraction(1, _FINEST) if given else given)


def support_count(owner: str, value: Any, n_baskets: int, margin: Fraction = Fraction(0)) -> int:
    """Return the minimum number of baskets: a float is a share of them, an int is a count.

    With a margin, the least number that is not below (1 - margin) times the threshold.

    >>> support_count("mine", 0.001, 88162), support_count("mine", 25, 88162)
    (89, 25)
    >>> support_count("mine", 0.1, 101), support_count("mine", 0.1, 101, Fraction(1, 20))
    (11, 10)
    """
    if is_count(value):
        digits = str(value).strip()
        if isinstance(value, str) and len(digits) > _MOST_DIGITS:
            raise wrong(owner, "min_support", _SUPPORT, f"a number of {len(digits)} digits")
        if int(digits) < 1:
            raise wrong(owner, "min_support", _SUPPORT, value)
        return math.ceil(int(digits) * (1 - margin))
    return math.ceil(support_share(owner, value) * n_baskets * (1 - margin))


def is_count(value: Any) -> bool:
    """Return whether a support is a number of baskets rather than a share of them."""
    if isinstance(value, str):
        return value.strip().isdecimal()
    return isinstance(value, Integral) and not isinstance(value, bool)


def support_share(owner: str, value: Any) -> Fraction:
    """Return the minimum share of the baskets, as a fraction."""
    share = exact_share(owner, "min_support", value)
    if share == 0:
        raise wrong(owner, "min_support", _SUPPORT, value)
    return share


def confidence_share(owner: str, value: Any) -> Fraction:
    """Return the minimum confidence, as a fraction."""
    return exact_share(owner, "min_confidence", value)


def confidence_if_any(owner: str, value: Any) -> Fraction:
    """Return the minimum confidence, as a fraction; None asks for none."""
    return confidence_share(owner, 0 if value is None else value)
