"""Rules as users write them: ``bread, milk -> beer``; and files of them."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tulle.errors import DataError, ParameterError

_SETTINGS = {"disclosure": "disclosure", "support": "min_support", "confidence": "min_confidence"}


@dataclass(frozen=True, init=False)
class Rule:
    """A rule to hide: antecedent -> consequent.

    Parameters
    ----------
    antecedent
        The whole rule as text, ``"bread, milk -> beer"``, or the items of the antecedent.
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
            raise ParameterError(f"{self}: the same item stands on both sides of the arrow")
        object.__setattr__(self, "disclosure", disclosure)
        object.__setattr__(self, "min_support", min_support)
        object.__setattr__(self, "min_confidence", min_confidence)

    @property
    def items(self) -> tuple[Hashable, ...]:
        """All items of the rule."""
        return self.antecedent + self.consequent

    def __str__(self) -> str:
        return " -> ".join(", ".join(map(str, side)) for side in (self.antecedent, self.consequent))

    def __repr__(self) -> str:
        return f"Rule({str(self)!r})"


class RuleFile(NamedTuple):
    """What a rules file says: rules to hide, and itemsets that must stay frequent."""

    rules: list[Rule]
    keep: list[tuple[Hashable, ...]]


def read_rules(path: str | os.PathLike[str]) -> RuleFile:
    """Reads a rules file.

    One rule a line, ``bread, milk -> beer``, perhaps followed by its own thresholds after
    semicolons: ``; disclosure=25%``, ``; support=0.2%``, ``; confidence=50%``. A line
    ``keep: bread, milk`` names an itemset that must stay frequent. ``#`` begins a comment.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"the rules file {path} does not exist") from None
    except UnicodeDecodeError:
        raise DataError(f"the rules file {path} is not UTF-8 text") from None
    except OSError as error:
        raise DataError(f"the rules file {path} cannot be read: {error.strerror}") from None
    found = RuleFile([], [])
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.partition("#")[0].strip()
        try:
            if line.startswith("keep:"):
                found.keep.append(_items(_split(line.removeprefix("keep:"))))
            elif line:
                found.rules.append(_parse_line(line))
        except ParameterError as error:
            raise ParameterError(f"{Path(path).name}, line {number}: {error}") from None
    if not found.rules:
        raise DataError(f"the rules file {path} holds no rule: write one a line, a, b -> c")
    return found


def as_rules(given: Any) -> RuleFile:
    """Rules from whatever a user passes: one or many Rules, texts or pairs, a frame, a file."""
    if isinstance(given, Rule):
        return RuleFile([given], [])
    if isinstance(given, str | os.PathLike):
        text = os.fspath(given)
        return RuleFile([Rule(text)], []) if "->" in text else read_rules(text)
    if hasattr(given, "columns") and {"antecedent", "consequent"} <= set(given.columns):
        sides = zip(given["antecedent"].to_list(), given["consequent"].to_list())
        rules = [Rule(list(left), list(right)) for left, right in sides]
    elif isinstance(given, Iterable):
        rules = [_as_rule(rule) for rule in given]
    else:
        raise ParameterError(f"rules must be rules or texts. Got {type(given).__name__}.")
    if not rules:
        raise ParameterError("there is no rule to hide")
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


def _sides(text: Any) -> tuple[list[str], list[str]]:
    sides = text.split("->") if isinstance(text, str) else []
    if len(sides) != 2:
        raise ParameterError("a rule is written with one arrow: bread, milk -> beer")
    return _split(sides[0]), _split(sides[1])


def _split(text: str) -> list[str]:
    tokens = text.split()
    if "," not in text and all(token.isdigit() for token in tokens):
        return tokens
    return [item.strip() for item in text.split(",") if item.strip()]


def _items(side: Any) -> tuple[Hashable, ...]:
    if isinstance(side, str) or not isinstance(side, Iterable):
        side = [side]
    return tuple(dict.fromkeys(side))


def _parse_line(line: str) -> Rule:
    text, *settings = line.split(";")
    options: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = (part.strip() for part in setting.partition("="))
        if name not in _SETTINGS or not equals:
            raise ParameterError(
                f"{setting.strip()!r} is no threshold: write disclosure=, support= or confidence="
            )
        options[_SETTINGS[name]] = value
    return Rule(text, **options)
