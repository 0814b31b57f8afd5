"""SWA from file to file in bounded memory: one window of baskets at a time.

A first pass counts the rules (to find absent ones, and how much of each must go), the second
sanitises, writes and counts again what it writes. If a rule is not hidden in what was written, an
error is raised before the file gets its name.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from tulle._progress import bar
from tulle._random import RandomState, as_generator
from tulle.errors import DataError
from tulle.rules._sensitive import Codes, Thresholds, count_sets, refuse_impossible
from tulle.rules._window import slide
from tulle.rules.hider import Pair, Report, checked, failure
from tulle.rules.rule import Rule, confidence_if_any, support_count
from tulle.transactions import Transactions, fimi_blocks, write_fimi

WINDOW = 50_000
_BLOCK = 5_000  # baskets to read at once, at least: small windows are worked on together


@dataclass(frozen=True)
class StreamResult:
    """What a streamed release cost."""

    report: Report
    n_transactions: int
    n_transactions_touched: int
    dif: float
    hiding_failure: float | None  # None without thresholds of mining


def hide_stream(
    source: str | os.PathLike[str],
    file: BinaryIO,
    rules: Sequence[Rule],
    thresholds: Thresholds,
    *,
    window: int = WINDOW,
    victim: str = "transaction",
    random_state: RandomState = None,
) -> StreamResult:
    """Write the baskets of a FIMI file of numbers with the rules hidden by SWA.

    The bytes are those that :class:`RuleHider` with the same window and seed would write.
    """
    seed = int(as_generator(random_state).integers(2**63))
    for rule in rules:  # what is wrong with thresholds is said before the file is read
        thresholds.of(rule, 1, 1)
    before, after = _Counter(rules), _Counter(rules)
    size = window * max(1, _BLOCK // window)
    with bar("counting rules", 1) as advance:
        for block in fimi_blocks(source, size):
            before.add(block)
            advance(0, note=f"{before.n_baskets:,} baskets")
    before.refuse_unknown()
    supports = [support for support, _ in before.pairs]
    refuse_impossible(rules, supports, before.n_baskets)
    limits = [thresholds.of(r, n, before.n_baskets) for r, n in zip(rules, supports)]
    leaving = [limit.leaving for limit in limits]

    touched = cells = 0
    with bar("hiding rules", before.n_baskets) as advance:
        for block in fimi_blocks(source, size):
            codes = [tuple(sorted(a + b)) for a, b in before.sides(block)]
            kept = slide(
                block, codes, leaving, window=window, victim=victim, seed=seed,
                first_row=after.n_baskets,
            )  # fmt: skip
            released = block.keeping(kept)
            after.add(released)
            cells += len(block.items)
            touched += int(np.count_nonzero(released.lengths < block.lengths))
            write_fimi(released, file)
            advance(len(block))
    if (after.n_baskets, cells) != (before.n_baskets, before.n_cells):
        raise DataError("the baskets file changed while it was read: nothing is released")
    report = checked(rules, before.pairs, after.pairs, limits, before.n_baskets, "swa")
    dif = 1 - after.n_cells / before.n_cells
    failed = _failure(report, thresholds, before.n_baskets)
    return StreamResult(report, before.n_baskets, touched, dif, failed)


def _failure(report: Report, thresholds: Thresholds, n_baskets: int) -> float | None:
    if thresholds.min_support is None:
        return None
    minimum = support_count(thresholds.owner, thresholds.min_support, n_baskets)
    return failure(report, minimum, confidence_if_any(thresholds.owner, thresholds.min_confidence))


class _Counter:
    """Supports of rules and of their antecedents, added up over blocks."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        try:
            self.rules = [
                (tuple(map(_number, rule.antecedent)), tuple(map(_number, rule.consequent)))
                for rule in rules
            ]
        except ValueError:
            raise DataError(
                "--stream requires numeric items: omit it, or number the items in the baskets and "
                "in the rules"
            ) from None
        self.pairs: list[Pair] = [(0, 0)] * len(rules)
        self.n_baskets = self.n_cells = 0
        self.items = sorted({item for sides in self.rules for side in sides for item in side})
        self.unseen = set(self.items)

    def add(self, block: Transactions) -> None:
        """Count one block."""
        sides = self.sides(block)
        found = _counts(block, [a + b for a, b in sides] + [a for a, _ in sides])
        whole, left = found[: len(sides)], found[len(sides) :]
        self.pairs = [(p + w, q + x) for (p, q), w, x in zip(self.pairs, whole, left)]
        self.n_baskets += len(block)
        self.n_cells += len(block.items)
        if self.unseen:
            self.unseen -= set(block.names.tolist())

    def sides(self, block: Transactions) -> list[tuple[Codes, Codes]]:
        """Return the rules in the codes of a block, -1 for an item that it does not hold."""
        place = np.searchsorted(block.names, self.items)
        found = block.names[np.minimum(place, len(block.names) - 1)] == self.items
        code = dict(zip(self.items, np.where(found, place, -1).tolist()))
        return [
            (tuple(code[item] for item in a), tuple(code[item] for item in b))
            for a, b in self.rules
        ]

    def refuse_unknown(self) -> None:
        if self.unseen:
            names = ", ".join(f"'{item}'" for item in sorted(self.unseen))
            raise DataError(
                f"the rules name {len(self.unseen)} items that no basket holds: {names}"
            )


def _number(item: object) -> int:
    return int(str(item))


def _counts(block: Transactions, itemsets: Sequence[Codes]) -> list[int]:
    present = [items for items in itemsets if min(items) >= 0]
    found = iter(count_sets(block, present)) if present else iter(())
    return [next(found) if min(items) >= 0 else 0 for items in itemsets]
