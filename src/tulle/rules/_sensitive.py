"""The rules to hide, in codes, with the baskets that support them and how far each must fall.

All ways to say how much must go end in one form: rule r is hidden when its support is below
``limit[r]`` baskets or its confidence below ``confidence[r]`` (None: by support only).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tulle._types import Flags, Ints, Words
from tulle.errors import DataError, ParameterError, nearest_name
from tulle.rules.mine import Implications, hash_words, mine_rules
from tulle.rules.rule import Rule, confidence_if_any, exact_share, support_count
from tulle.transactions import Transactions
from tulle.transactions.baskets import _among

Codes = tuple[int, ...]
_WIDTH = Fraction(1, 10)  # random margins take up to so much off a threshold,
_FEW = 10  # but at least so many baskets, as long as this is
_MOST = Fraction(1, 2)  # no more than half of it
_STEPS = 1000  # coarse enough for whole numbers of 64 bits, finer than a basket


class HidingLimit(NamedTuple):
    """Where a rule is hidden, and which share of any of its baskets SWA has to break for it."""

    support: int  # hidden below so many baskets,
    confidence: Fraction | None  # or below this confidence (None: by support only)
    leaving: Fraction


class RuleMargin(NamedTuple):
    """How far below its thresholds a rule must end."""

    share: Fraction  # of the thresholds, or
    draw: Fraction | None = None  # of how far random margins reach

    def below(self, limit: int) -> Fraction:
        """Return the margin as a share, for a threshold of so many baskets."""
        if self.draw is None:
            return self.share
        return self.draw * max(_WIDTH, min(_MOST, Fraction(_FEW, limit)))


def drawn_margins(
    owner: str, rules: Sequence[Rule], margin: float | str, rng: np.random.Generator
) -> dict[Rule, RuleMargin]:
    """Return the margin of each rule.

    One margin for all rules puts them all at one level, where whoever finds it finds them. So
    ``"random"`` draws one for each rule, all of them at some distance: by chance, too, no two rules
    shall meet more than they must. The draws are told to nobody.
    """
    if margin != "random":
        return dict.fromkeys(rules, RuleMargin(exact_share(owner, "margin", margin)))
    draws = (rng.permutation(len(rules)) + rng.random(len(rules))) / len(rules)
    steps = np.floor(draws * _STEPS).astype(int).tolist()
    return {
        rule: RuleMargin(Fraction(0), Fraction(step, _STEPS)) for rule, step in zip(rules, steps)
    }


@dataclass(frozen=True)
class Thresholds:
    """How far rules must fall: a share that may stay (way a), or mining thresholds (way b)."""

    owner: str
    min_support: Any = None
    min_confidence: Any = None
    disclosure: Any = None
    margins: Mapping[Rule, RuleMargin] = field(default_factory=dict)

    def of(self, rule: Rule, support: int, n_baskets: int) -> HidingLimit:
        """Return the limits of one rule, given its support and the number of baskets.

        What the rule says itself comes first, then disclosure, then the common thresholds.
        """
        stays = self.disclosure if rule.disclosure is None else rule.disclosure
        if stays is not None and not rule.has_thresholds:
            psi = exact_share(self.owner, "disclosure", stays)
            return HidingLimit(support - math.ceil(support * (1 - psi)) + 1, None, 1 - psi)
        least = self.min_support if rule.min_support is None else rule.min_support
        sure = self.min_confidence if rule.min_confidence is None else rule.min_confidence
        if least is None:
            raise ParameterError(
                f"no threshold is set for '{rule}': give min_support (and min_confidence) or "
                "disclosure, for all rules or for this one"
            )
        drawn = self.margins.get(rule, RuleMargin(Fraction(0)))
        margin = drawn.below(support_count(self.owner, least, n_baskets))
        limit = support_count(self.owner, least, n_baskets, margin)
        if limit < 1:
            raise DataError("margin=1 leaves no support at all: choose a smaller margin")
        confidence = confidence_if_any(self.owner, sure) * (1 - margin)
        return HidingLimit(
            limit, confidence or None, Fraction(max(0, support - limit + 1), support)
        )


@dataclass(frozen=True, eq=False)
class SensitiveRules:
    """Sensitive rules on one set of baskets."""

    baskets: Transactions
    rules: tuple[Rule, ...]
    antecedent: tuple[Codes, ...]
    consequent: tuple[Codes, ...]
    limits: tuple[HidingLimit, ...]

    @classmethod
    def find(
        cls, baskets: Transactions, rules: Sequence[Rule], thresholds: Thresholds
    ) -> SensitiveRules:
        """Look the rules up in the data; unknown items and absent rules are named.

        A share is one of the baskets that hold anything: leaving the empty ones out does
        not find the rules either.
        """
        codes = _Lookup(baskets)
        sides = [(codes.of(rule.antecedent), codes.of(rule.consequent)) for rule in rules]
        codes.refuse_unknown()
        left, right = tuple(zip(*sides))
        supports = [len(baskets.rows_with(a + b)) for a, b in zip(left, right)]
        refuse_impossible(rules, supports, len(baskets))
        filled = baskets.n_filled
        limits = tuple(thresholds.of(rule, n, filled) for rule, n in zip(rules, supports))
        return cls(baskets, tuple(rules), left, right, limits)

    def __len__(self) -> int:
        return len(self.rules)

    @cached_property
    def limit(self) -> Ints:
        return np.array([limit.support for limit in self.limits], dtype=np.int64)

    @cached_property
    def confidence(self) -> tuple[Fraction | None, ...]:
        return tuple(limit.confidence for limit in self.limits)

    @cached_property
    def whole(self) -> tuple[Codes, ...]:
        """All items of each rule, ascending."""
        return tuple(tuple(sorted(a + b)) for a, b in zip(self.antecedent, self.consequent))

    @cached_property
    def rows(self) -> tuple[Ints, ...]:
        """The baskets that support each rule."""
        return tuple(self.baskets.rows_with(items) for items in self.whole)

    @cached_property
    def quota(self) -> Ints:
        """How many supporting baskets must lose each rule if it falls by support alone."""
        support = np.array([len(rows) for rows in self.rows], dtype=np.int64)
        return np.maximum(0, support - self.limit + 1)

    @cached_property
    def degree(self) -> Ints:
        """The conflict degree: the number of sensitive rules that each basket supports."""
        degree = np.zeros(len(self.baskets), dtype=np.int64)
        for rows in self.rows:
            degree[rows] += 1
        return degree

    def hidden(self, r: int, support: int, antecedent_support: int) -> bool:
        return is_hidden(support, antecedent_support, self.limits[r])


def is_hidden(support: int, antecedent: int, limit: HidingLimit) -> bool:
    sure = limit.confidence
    if support < limit.support:
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
    """Refuse rules that no basket supports, and rules that every basket supports."""
    absent = [str(rule) for rule, support in zip(rules, supports) if support == 0]
    if absent:
        raise DataError(
            f"{len(absent)} rules are not in the data (no basket holds all their items): "
            + "; ".join(absent)
        )
    universal = [str(rule) for rule, support in zip(rules, supports) if support == n_baskets]
    if universal:
        raise DataError(
            f"{len(universal)} rules hold in every basket: {'; '.join(universal)}. Anyone who "
            "knows one basket knows such a rule: remove one of its items from the data instead"
        )


def lookup(baskets: Transactions, itemsets: Sequence[Sequence[Any]]) -> list[Codes]:
    """Return the codes of the user's itemsets; unknown items are named."""
    codes = _Lookup(baskets)
    found = [codes.of(tuple(items)) for items in itemsets]
    codes.refuse_unknown()
    return found


# What a hiding method decided: cells that go, cells that come, cells left open.


def _none() -> Ints:
    return np.empty(0, dtype=np.int64)


@dataclass(eq=False)
class Edits:
    """Edits of baskets: lives only while a release is made, and is never written.

    ``kept`` and ``blocked`` are masks over the cells of the baskets (blocked ones become
    unknown); the added cells are pairs of row and item, as are the blocked cells where the
    basket did not hold the item.
    """

    kept: Flags
    added_rows: Ints = field(default_factory=_none)
    added_items: Ints = field(default_factory=_none)
    blocked: Flags | None = None
    open_rows: Ints = field(default_factory=_none)
    open_items: Ints = field(default_factory=_none)

    @classmethod
    def none(cls, baskets: Transactions) -> Edits:
        return cls(np.ones(len(baskets.items), dtype=bool))

    def apply(self, baskets: Transactions) -> Transactions:
        if self.blocked is not None:
            sure = baskets.keeping(self.kept & ~self.blocked)
            unknown = baskets.keeping(self.blocked).adding(self.open_rows, self.open_items)
            return Transactions(sure.indptr, sure.items, sure.names, unknown)
        released = baskets.keeping(self.kept)
        if len(self.added_rows):
            released = released.adding(self.added_rows, self.added_items)
        return released

    def n_touched(self, baskets: Transactions) -> int:
        """Count the baskets in which any cell changed."""
        touched = np.zeros(len(baskets), dtype=bool)
        changed = ~self.kept if self.blocked is None else ~self.kept | self.blocked
        touched[baskets.row_of[changed]] = True
        touched[self.added_rows] = True
        touched[self.open_rows] = True
        return int(np.count_nonzero(touched))


# Supports of sensitive rules in edited baskets, kept up to date from the inverted file.


class EditedCounts:
    """Counts sets in baskets of which some cells are gone or were added."""

    def __init__(self, sensitive: SensitiveRules, edits: Edits) -> None:
        self.baskets = sensitive.baskets
        self.edits = edits

    def rows(self, items: Iterable[int]) -> Ints:
        """Return the baskets that hold all of some items, ascending."""
        lists = sorted((self._rows_of(item) for item in items), key=len)
        found = lists[0]
        for other in lists[1:]:
            found = found[_among(found, other)]
        return found

    def _rows_of(self, item: int) -> Ints:
        cells = self.baskets.cells(item)
        rows = self.baskets.row_of[cells[self.edits.kept[cells]]]
        more = self.edits.added_rows[self.edits.added_items == item]
        return np.union1d(rows, more) if len(more) else rows

    def visible(self, sensitive: SensitiveRules, r: int) -> bool:
        support = len(self.rows(sensitive.whole[r]))
        return not sensitive.hidden(r, support, len(self.rows(sensitive.antecedent[r])))


def count_sets(baskets: Transactions, itemsets: Sequence[Sequence[int]]) -> list[int]:
    """Count the supports of some itemsets from the rows, in one pass over the cells.

    An item of -1 is one that no basket holds.
    """
    wanted = sorted({item for items in itemsets for item in items} - {-1})
    wide = len(wanted) >= 2**16  # 16 bits are sorted by counting
    table: Any = np.full(len(baskets.names), len(wanted), dtype=np.int64 if wide else np.uint16)
    table[wanted] = np.arange(len(wanted))
    local = table[baskets.items]
    cells = np.flatnonzero(local < len(wanted))
    rows = baskets.row_of[cells]
    order = np.argsort(local[cells], kind="stable")
    borders = np.searchsorted(local[cells[order]], np.arange(len(wanted) + 1))
    held: list[npt.NDArray[np.uint8]] = []
    for begin, end in pairwise(borders.tolist()):
        mask = np.zeros(len(baskets), dtype=bool)
        mask[rows[order[begin:end]]] = True
        held.append(np.packbits(mask))
    return [
        0 if min(items) < 0 else int(np.bitwise_count(_common(held, table[list(items)])).sum())
        for items in itemsets
    ]


def _common(held: list[npt.NDArray[np.uint8]], places: Any) -> npt.NDArray[np.uint8]:
    common = held[places[0]]
    for place in places[1:]:
        common = common & held[place]
    return common


# What hiding cost: rules mined before and after at the same thresholds, compared. Rules are those
# with one item in the consequent. 0/0 is 0.


@dataclass(frozen=True, eq=False)
class MinedRules:
    """The rules of baskets at some thresholds, each with a key that other baskets share."""

    rules: Implications
    keys: Words
    minimum: int
    confidence: Fraction

    @classmethod
    def of(
        cls, baskets: Transactions, minimum: int, confidence: Fraction, support_of: str = "rule"
    ) -> MinedRules:
        """Mine the rules with one item in the consequent."""
        found = mine_rules(baskets, minimum, confidence, 1, support_of)
        hashes = found.itemsets.hashes
        keys = _mixed(hashes[found.whole], hashes[found.antecedent])
        return cls(found, keys, minimum, confidence)

    def sensitive(self, sensitive: SensitiveRules) -> Flags:
        words = hash_words(len(sensitive.baskets.names))
        whole = np.array([_xor(words, items) for items in sensitive.whole])
        left = np.array([_xor(words, items) for items in sensitive.antecedent])
        return np.isin(self.keys, _mixed(whole, left))


def side_effects(
    before: MinedRules, after: MinedRules, sensitive: SensitiveRules
) -> dict[str, float]:
    """Compute misses cost, also of rules that need not fall, and artifactual patterns."""
    spared = ~before.sensitive(sensitive)
    itemsets = before.rules.itemsets
    indptr, codes = itemsets.rows
    owner = np.repeat(np.arange(len(itemsets)), np.diff(indptr))
    contains = np.zeros(len(itemsets), dtype=bool)  # sets that may fall with a sensitive one
    for items in sensitive.whole:
        held = np.bincount(owner[np.isin(codes, items)], minlength=len(itemsets))
        contains |= held == len(items)
    avoidable = spared & ~contains[before.rules.whole]
    lost = ~np.isin(before.keys, after.keys)
    new = ~np.isin(after.keys, before.keys)
    return {
        "misses_cost": _share(lost & spared, spared),
        "misses_cost_avoidable": _share(lost & avoidable, avoidable),
        "artifactual": _share(new, np.ones_like(new)),
    }


def changed_share(before: Transactions, after: Transactions) -> float:
    """Compute dif: item occurrences that differ or are blocked, as a share of all there were."""
    width = max(len(before.names), 1)
    old = before.row_of * width + before.items
    new = after.row_of * width + after.items
    return len(np.setxor1d(old, new, assume_unique=True)) / len(old)


def _share(part: Flags, whole: Flags) -> float:
    total = int(np.count_nonzero(whole))
    return int(np.count_nonzero(part)) / total if total else 0.0


def _xor(words: Words, items: tuple[int, ...]) -> np.uint64:
    return np.bitwise_xor.reduce(words[list(items)])


def _mixed(whole: Words, antecedent: Words) -> Words:
    with np.errstate(over="ignore"):
        return whole * np.uint64(0x9E3779B97F4A7C15) + antecedent
