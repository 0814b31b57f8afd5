"""SWA from file to file in bounded memory: one window of baskets at a time.

A first pass counts the rules (to find absent ones, and how much of each must go), the second
sanitises, writes and counts again what it writes. If a rule is not hidden in what was written, an
error is raised before the file gets its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tulle._progress import bar
from tulle._random import RandomState, as_generator
from tulle.errors import DataError
from tulle.rules._sensitive import Codes, Thresholds, count_sets, refuse_impossible
from tulle.rules._window import slide
from tulle.rules.hider import Pair, Report, checked, failure
from tulle.rules.rule import Rule, confidence_if_any, support_count
from tulle.transactions import Transactions

WINDOW = 50_000
_BLOCK = 5_000  # baskets to read at once, at least: small windows are worked on together


class HidingStream:
    """Baskets that are read twice, block by block: to count the rules, and to hide them.

    Parameters
    ----------
    blocks : callable
        Reads the baskets from the beginning, so many at a time.
    """

    def __init__(
        self,
        blocks: Callable[[int], Iterator[Transactions]],
        rules: Sequence[Rule],
        thresholds: Thresholds,
        *,
        window: int,
        victim: str,
        lookahead: str = "always",
        random_state: RandomState,
    ) -> None:
        self._seed = int(as_generator(random_state).integers(2**63))
        for rule in rules:  # what is wrong with thresholds is said before the file is read
            thresholds.of(rule, 1, 1)
        self._rules, self._thresholds = rules, thresholds
        self._window, self._victim, self._lookahead = window, victim, lookahead
        self._blocks, self._size = blocks, window * max(1, _BLOCK // window)
        self._touched = self._cells = 0

    def released(self) -> Iterator[Transactions]:
        """Yield the baskets with the rules hidden."""
        self._before, self._after = before, after = _Counter(self._rules), _Counter(self._rules)
        with bar("counting rules", 1) as advance:
            for block in self._blocks(self._size):
                before.add(block)
                advance(0, note=f"{before.n_baskets:,} baskets")
        before.refuse_unknown()
        supports = [support for support, _ in before.pairs]
        refuse_impossible(self._rules, supports, before.n_baskets)
        self._limits = [
            self._thresholds.of(rule, support, before.n_baskets)
            for rule, support in zip(self._rules, supports)
        ]
        leaving = [limit.leaving for limit in self._limits]
        with bar("hiding rules", before.n_baskets) as advance:
            for block in self._blocks(self._size):
                codes = [tuple(sorted(a + b)) for a, b in before.sides(block)]
                kept = slide(
                    block, codes, leaving, window=self._window, victim=self._victim,
                    lookahead=self._lookahead, seed=self._seed, first_row=after.n_baskets,
                )  # fmt: skip
                released = block.keeping(kept)
                after.add(released)
                self._cells += len(block.items)
                self._touched += int(np.count_nonzero(released.lengths < block.lengths))
                yield released
                advance(len(block))

    def result(self) -> tuple[Report, dict[str, Any], float | None]:
        """Return the report, counts, and the hiding failure if there are thresholds of mining.

        Raise if a rule is not hidden in what was yielded.
        """
        before, after = self._before, self._after
        if (after.n_baskets, self._cells) != (before.n_baskets, before.n_cells):
            raise DataError("the baskets file changed while it was read: nothing is released")
        report = checked(
            self._rules, before.pairs, after.pairs, self._limits, before.n_baskets, "swa"
        )
        dif = 1 - after.n_cells / before.n_cells
        counts = {"baskets": before.n_baskets, "baskets_touched": self._touched, "dif": dif}
        asked, failed = self._thresholds, None
        if asked.min_support is not None:
            minimum = support_count(asked.owner, asked.min_support, before.n_baskets)
            sure = confidence_if_any(asked.owner, asked.min_confidence)
            failed = failure(report, minimum, sure)
        return report, counts, failed


class _Counter:
    """Supports of rules and of their antecedents, added up over blocks."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._texts = [
            (tuple(map(str, rule.antecedent)), tuple(map(str, rule.consequent))) for rule in rules
        ]
        self.rules: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = []
        self.pairs: list[Pair] = [(0, 0)] * len(rules)
        self.n_baskets = self.n_cells = 0
        self.items: list[Any] = []
        self.unseen: set[Any] = set()

    def _begin(self, numbers: bool) -> None:
        """Read the items of the rules as those of the baskets: as numbers or as words."""
        kind: type = int if numbers else str
        try:
            self.rules = [(tuple(map(kind, a)), tuple(map(kind, b))) for a, b in self._texts]
        except ValueError:
            raise DataError(
                "the items of the baskets are numbers, and those of a rule are not: number the "
                "items in the rules too"
            ) from None
        self.items = sorted({item for sides in self.rules for side in sides for item in side})
        self.unseen = set(self.items)

    def add(self, block: Transactions) -> None:
        if not self.rules:
            self._begin(block.names.dtype.kind in "iu")
        sides = self.sides(block)
        found = count_sets(block, [a + b for a, b in sides] + [a for a, _ in sides])
        whole, left = found[: len(sides)], found[len(sides) :]
        self.pairs = [(p + w, q + x) for (p, q), w, x in zip(self.pairs, whole, left)]
        self.n_baskets += len(block)
        self.n_cells += len(block.items)
        if self.unseen:
            self.unseen -= set(block.names.tolist())

    def sides(self, block: Transactions) -> list[tuple[Codes, Codes]]:
        """Return the rules in the codes of a block, -1 for an item that it does not hold."""
        wanted = np.array(self.items, dtype=block.names.dtype)
        place = np.searchsorted(block.names, wanted)
        found = np.append(block.names, [None])[np.minimum(place, len(block.names))] == wanted
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
