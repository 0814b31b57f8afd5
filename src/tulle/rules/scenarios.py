"""Sensitive rules chosen for experiments: the paper's scenarios S1 to S4."""

from __future__ import annotations

from typing import Any

import numpy as np

from tulle._checks import check_choice, check_int
from tulle._choices import SUPPORTS_OF
from tulle._random import RandomState, as_generator
from tulle._types import Ints
from tulle.errors import DataError
from tulle.rules.containers import as_baskets
from tulle.rules.mine import Implications, mine_rules
from tulle.rules.rule import Rule, Share, confidence_share, support_count

SCENARIOS = ("S1", "S2", "S3", "S4")


def choose_rules(
    data: Any,
    n_rules: int = 20,
    *,
    min_support: Share,
    min_confidence: Share,
    scenario: str = "S2",
    max_items: int = 4,
    support_of: str = "rule",
    random_state: RandomState = None,
) -> list[Rule]:
    """Choose rules to hide among those that can be mined, for trials and benchmarks.

    Parameters
    ----------
    data : baskets
        As for :func:`frequent_itemsets`.
    n_rules : int
        How many rules to choose.
    min_support, min_confidence : float or str
        As for :func:`association_rules`; consequents have one item.
    scenario : {"S1", "S2", "S3", "S4"}
        ``"S1"``: rules that share no item; ``"S2"``: at random; ``"S3"``: of highest support;
        ``"S4"``: of lowest support.
    max_items : int
        Most items in a rule.
    support_of : {"rule", "antecedent"}
        As for :func:`association_rules`.
    random_state : int, Generator, RandomState or None
        Seed of the choice (S1, S2).

    Returns
    -------
    list of Rule

    Examples
    --------
    >>> from tulle import choose_rules
    >>> baskets = [["bread", "milk"], ["bread", "milk", "beer"], ["milk"], ["beer"]]
    >>> choose_rules(baskets, 1, min_support=2, min_confidence=0.5, scenario="S3")
    [Rule('bread -> milk')]
    """
    check_choice("choose_rules", "scenario", scenario, SCENARIOS)
    check_int("choose_rules", "n_rules", n_rules, 1)
    check_int("choose_rules", "max_items", max_items, 2)
    check_choice("choose_rules", "support_of", support_of, SUPPORTS_OF)
    baskets = as_baskets(data)
    minimum = support_count("choose_rules", min_support, len(baskets))
    confidence = confidence_share("choose_rules", min_confidence)
    found = mine_rules(baskets, minimum, confidence, 1, support_of)
    support = found.itemsets.support[found.whole]
    fits = (found.itemsets.sizes[found.whole] <= max_items) & (support < len(baskets))
    short = np.flatnonzero(fits)
    order = as_generator(random_state).permutation(short)
    if scenario in ("S3", "S4"):
        sign = -1 if scenario == "S3" else 1
        order = short[np.argsort(sign * support[short].astype(np.int64), kind="stable")]
        order = order[np.sort(np.unique(found.whole[order], return_index=True)[1])]
    chosen = _disjoint(found, order, n_rules) if scenario == "S1" else order[:n_rules].tolist()
    if len(chosen) < n_rules:
        raise DataError(
            f"scenario {scenario} asks for {n_rules} rules, but only {len(chosen)} can be found: "
            "lower min_support or ask for fewer"
        )
    return [_as_rule(found, rule, baskets.names) for rule in chosen]


def _disjoint(found: Implications, order: Ints, wanted: int) -> list[int]:
    used: set[int] = set()
    chosen: list[int] = []
    for rule in order.tolist():
        items = set(found.itemsets.codes(int(found.whole[rule])).tolist())
        if not items & used:
            used |= items
            chosen.append(rule)
        if len(chosen) == wanted:
            break
    return chosen


def _as_rule(found: Implications, rule: int, names: Any) -> Rule:
    left, right = (
        names[found.itemsets.codes(int(node))].tolist()
        for node in (found.antecedent[rule], found.consequent[rule])
    )
    return Rule(left, right)
