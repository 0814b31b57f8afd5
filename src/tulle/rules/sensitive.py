"""The rules to hide, in codes, with the baskets that support them and how far each must fall.

All ways to say how much must go end in one form: rule r is hidden when its support is below
``limit[r]`` baskets or its confidence below ``confidence[r]`` (None: by support only).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from tulle.errors import DataError, nearest_name
from tulle.rules.itemsets import Longs
from tulle.rules.rule import Rule
from tulle.rules.thresholds import exact_share, support_count
from tulle.transactions import Transactions

Codes = tuple[int, ...]


@dataclass(frozen=True)
class Thresholds:
    """How far rules must fall: a share that may stay (way a), or mining thresholds (way b)."""

    owner: str
    min_support: Any = None
    min_confidence: Any = None
    margin: float = 0.0
    disclosure: Any = None

    def of(self, rule: Rule, support: int, n_baskets: int) -> tuple[int, Fraction | None]:
        """The limits of one rule: support count below which it is hidden, and confidence."""
        stays = rule.disclosure if rule.disclosure is not None else self.disclosure
        if stays is not None and rule.min_support is None:
            psi = exact_share(self.owner, "disclosure", stays)
            return support - math.ceil(support * (1 - psi)) + 1, None
        least = rule.min_support if rule.min_support is not None else self.min_support
        sure = rule.min_confidence if rule.min_confidence is not None else self.min_confidence
        slack = 1 - exact_share(self.owner, "margin", self.margin)
        limit = math.ceil(support_count(self.owner, least, n_baskets) * slack)
        if limit < 1:
            raise DataError("margin=1 leaves no support at all: choose a smaller margin")
        if sure is None:
            return limit, None
        confidence = exact_share(self.owner, "min_confidence", sure) * slack
        return limit, confidence or None


@dataclass(frozen=True, eq=False)
class Sensitive:
    """Sensitive rules on one set of baskets."""

    baskets: Transactions
    rules: tuple[Rule, ...]
    antecedent: tuple[Codes, ...]
    consequent: tuple[Codes, ...]
    limit: Longs
    confidence: tuple[Fraction | None, ...]

    @classmethod
    def find(
        cls, baskets: Transactions, rules: Sequence[Rule], thresholds: Thresholds
    ) -> Sensitive:
        """Looks the rules up in the data; unknown items and absent rules are named."""
        codes = _Lookup(baskets)
        sides = [(codes.of(rule.antecedent), codes.of(rule.consequent)) for rule in rules]
        codes.refuse_unknown()
        left, right = tuple(zip(*sides))
        supports = [len(baskets.rows_with(a + b)) for a, b in zip(left, right)]
        refuse_impossible(rules, supports, len(baskets))
        limits = [
            thresholds.of(rule, support, len(baskets)) for rule, support in zip(rules, supports)
        ]
        return cls(
            baskets,
            tuple(rules),
            left,
            right,
            np.array([limit for limit, _ in limits], dtype=np.int64),
            tuple(confidence for _, confidence in limits),
        )

    def __len__(self) -> int:
        return len(self.rules)

    def only(self, some: Sequence[int]) -> Sensitive:
        """Some of the rules."""
        return Sensitive(
            self.baskets,
            tuple(self.rules[r] for r in some),
            tuple(self.antecedent[r] for r in some),
            tuple(self.consequent[r] for r in some),
            self.limit[list(some)],
            tuple(self.confidence[r] for r in some),
        )

    @cached_property
    def whole(self) -> tuple[Codes, ...]:
        """All items of each rule, ascending."""
        return tuple(tuple(sorted(a + b)) for a, b in zip(self.antecedent, self.consequent))

    @cached_property
    def rows(self) -> tuple[Longs, ...]:
        """The baskets that support each rule."""
        return tuple(self.baskets.rows_with(items) for items in self.whole)

    @cached_property
    def quota(self) -> Longs:
        """How many supporting baskets must lose each rule if it falls by support alone."""
        support = np.array([len(rows) for rows in self.rows], dtype=np.int64)
        return np.maximum(0, support - self.limit + 1)

    @cached_property
    def degree(self) -> Longs:
        """Conflict degree: number of sensitive rules that each basket supports."""
        degree = np.zeros(len(self.baskets), dtype=np.int64)
        for rows in self.rows:
            degree[rows] += 1
        return degree

    def hidden(self, r: int, support: int, antecedent_support: int) -> bool:
        """Whether rule r is hidden at these counts."""
        return is_hidden(support, antecedent_support, int(self.limit[r]), self.confidence[r])


def is_hidden(support: int, antecedent: int, limit: int, sure: Fraction | None) -> bool:
    """Whether a rule is below its support limit or its confidence."""
    if support < limit:
        return True
    return sure is not None and support * sure.denominator < sure.numerator * antecedent


class _Lookup:
    """Codes of the user's items, by value or by text; collects what it does not know."""

    def __init__(self, baskets: Transactions) -> None:
        self.index = baskets.index
        self.texts: dict[str, int] | None = None
        self.unknown: dict[str, None] = {}

    def of(self, items: Sequence[Any]) -> Codes:
        return tuple(self._code(item) for item in items)

    def _code(self, item: Any) -> int:
        found = self.index.get(item)
        if found is None:
            if self.texts is None:
                self.texts = {str(name): code for name, code in self.index.items()}
            found = self.texts.get(str(item))
        if found is None:
            self.unknown[str(item)] = None
            return -1
        return found

    def refuse_unknown(self) -> None:
        if self.unknown:
            names = ", ".join(f"'{name}'" for name in self.unknown)
            hint = nearest_name(next(iter(self.unknown)), map(str, self.index))
            raise DataError(
                f"the rules name {len(self.unknown)} items that no basket holds: {names}"
                + (f" ({hint})" if hint.startswith("did") else "")
            )


def refuse_impossible(rules: Sequence[Rule], supports: Sequence[int], n_baskets: int) -> None:
    """Names rules that no basket supports, and rules that every basket supports."""
    absent = [str(rule) for rule, support in zip(rules, supports) if support == 0]
    if absent:
        raise DataError(
            f"{len(absent)} rules are not in the data (no basket holds all their items): "
            + "; ".join(absent)
        )
    universal = [str(rule) for rule, support in zip(rules, supports) if support == n_baskets]
    if universal:
        raise DataError(
            f"{len(universal)} rules hold in every basket: {'; '.join(universal)}. Whoever knows "
            "one basket knows such a rule: leave one of its items out of the data instead"
        )


def lookup(baskets: Transactions, itemsets: Sequence[Sequence[Any]]) -> list[Codes]:
    """The codes of the user's itemsets; unknown items are named."""
    codes = _Lookup(baskets)
    found = [codes.of(tuple(items)) for items in itemsets]
    codes.refuse_unknown()
    return found
