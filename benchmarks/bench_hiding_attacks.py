"""Attacks on hidden rules, with one margin for all rules and with random ones.

``TULLE_DATA=folder python -m benchmarks.bench_hiding_attacks [--quick]``
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.results import data_folder, write_table
from tulle import RuleHider, Transactions, choose_rules, read_fimi
from tulle._attacks.rules import removed_items, rule_recovery, rule_steps

SEED = 0
RULES = 15
MARGINS: tuple[tuple[str, float | str], ...] = (
    ("none", 0.0),
    ("a tenth for all", 0.1),
    ("random", "random"),
)


def generated(rng: np.random.Generator) -> Transactions:
    """Pairs of items that are bought together more or less often, on both sides of 100 times."""
    pairs = [(i, j) for i in range(25) for j in range(i)]
    counts = rng.integers(40, 180, size=len(pairs))
    lists = [list(pair) for pair, count in zip(pairs, counts) for _ in range(count)]
    return Transactions.from_lists(lists)


def attacked(baskets: Transactions, support: float, sure: float, draws: int) -> list[list[Any]]:
    """Hide rules and attack them; one row for each kind of margin."""
    rows = []
    least = math.ceil(support * len(baskets))
    for words, margin in MARGINS:
        found = []
        for seed in range(draws):
            limits = {"min_support": support, "min_confidence": sure}
            rules = choose_rules(baskets, RULES, scenario="S2", random_state=seed, **limits)
            hider = RuleHider(rules, margin=margin, random_state=seed, **limits)
            released = hider.fit_transform(baskets)
            asked = (released, hider.rules, least, Fraction(str(sure)))
            near = rule_recovery(*asked, np.random.default_rng(0))
            steps = rule_steps(*asked)
            removed = removed_items(baskets, released, hider.rules, np.random.default_rng(0))
            assert removed is not None
            found.append(
                [
                    *(steps.successes, steps.details["rules suspected"]),
                    *(steps.baseline * steps.attempts, near.successes),
                    *(removed.rate, removed.baseline, hider.misses_cost_),
                ]
            )
        rows.append([words, *(round(float(value), 3) for value in np.mean(found, axis=0))])
    return rows


def main(quick: bool) -> None:
    draws = 1 if quick else 3
    made = generated(np.random.default_rng(SEED))
    rows = [["generated pairs", *row] for row in attacked(made, 100 / len(made), 0.0, draws)]
    if not quick:
        shop = read_fimi(data_folder() / "transactions" / "BMS-WebView-1.dat.gz")
        rows += [["BMS-WebView-1", *row] for row in attacked(shop, 0.002, 0.3, draws)]
    write_table(
        "hiding_attacks",
        f"Attacks on {RULES} hidden rules, by margin",
        ["file", "margin", "found by steps", "suspects", "found by guessing", "found as nearest"]
        + ["removed items found", "by guessing", "rules lost"],
        rows,
        notes=f"Means of {draws} draws of {RULES} rules, method `best`. By steps: all rules are "
        "suspected that stop one step below the level where too many stop; guessing names as many. "
        "Nearest: as many suspects as rules were hidden, those nearest to the thresholds. Removed "
        "items: an insider who knows the rules names the baskets that were changed.",
        seed=SEED,
        quick=quick,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
