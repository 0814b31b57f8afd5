"""Counting again, in the release itself, before anything is given back."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tulle.errors import DataError, PrivacyError
from tulle.rules.counts import count_sets
from tulle.rules.itemsets import Itemsets, Longs
from tulle.rules.measures import Mined
from tulle.rules.rule import Rule
from tulle.rules.sensitive import Codes, Limit, Sensitive, Thresholds, is_hidden
from tulle.transactions import Transactions

Report = list[dict[str, Any]]
Pair = tuple[int, int]  # support of a rule, support of its antecedent


def verified(
    sensitive: Sensitive, released: Transactions, thresholds: Thresholds, method: str
) -> Report:
    """The report of each rule; an error if any is not hidden in the release.

    Open cells do not count: supports are those of baskets that surely hold the items. Nor do
    baskets of which nothing is left: many a file cannot hold them, and many a miner skips them.
    """
    before = _supports(sensitive, sensitive.baskets)
    filled = released.n_filled
    limits = [thresholds.of(rule, n, filled) for rule, (n, _) in zip(sensitive.rules, before)]
    after = _supports(sensitive, released)
    return checked(sensitive.rules, before, after, limits, len(released), method)


def checked(
    rules: Sequence[Rule],
    before: Sequence[Pair],
    after: Sequence[Pair],
    limits: Sequence[Limit],
    n_baskets: int,
    method: str,
) -> Report:
    """The report from counts (support, antecedent's support); an error if a rule is visible."""
    seen = [
        str(rule)
        for rule, counts, limit in zip(rules, after, limits)
        if not is_hidden(*counts, limit)
    ]
    if seen:
        raise PrivacyError(
            f"method '{method}' left {len(seen)} of {len(rules)} rules above their "
            f"thresholds ({'; '.join(seen)}): nothing is released; use method='best'"
        )
    counted = zip(rules, before, after, limits)
    return [_line(str(rule), b, a, limit, n_baskets) for rule, b, a, limit in counted]


def failure(report: Report, minimum: int, sure: Fraction) -> float:
    """Hiding failure: of the rules that could be mined before, the share that still can."""
    before = sum(_minable(line, "before", minimum, sure) for line in report)
    after = sum(_minable(line, "after", minimum, sure) for line in report)
    return after / before if before else 0.0


def refuse_contradictions(
    sensitive: Sensitive, keep: Sequence[Codes], mined: Mined | None, *, adding: bool
) -> None:
    """Explains why a rule cannot be hidden while an itemset that contains it stays frequent.

    Where items may be added, confidence can fall and the itemset stay as it is.
    """
    for items in keep:
        assert mined is not None
        name = _named(sensitive.baskets, items)
        support = len(sensitive.baskets.rows_with(items))
        if support < mined.minimum:
            raise DataError(
                f"{name} shall stay frequent, but it is in {support} baskets, fewer than "
                f"min_support ({mined.minimum})"
            )
        for r, rule in enumerate(sensitive.rules):
            if adding and sensitive.confidence[r] is not None:
                continue
            most = _most_support(sensitive, r)
            if set(sensitive.whole[r]) <= set(items) and most < mined.minimum:
                raise DataError(
                    f"the wishes contradict each other: to hide '{rule}' its items may be "
                    f"together in at most {most} baskets, but {name}, which contains them, "
                    f"shall stay in at least {mined.minimum}; give up one of the two"
                )


def require_kept(
    released: Transactions, keep: Sequence[Codes], mined: Mined | None, method: str
) -> None:
    """An error if an itemset that should stay frequent is not."""
    if not keep or mined is None:
        return
    counts = count_sets(released, keep)
    lost = [_named(released, items) for items, n in zip(keep, counts) if n < mined.minimum]
    if lost:
        hint = "" if method == "best" else "; method='best' takes them into account"
        raise DataError(f"{', '.join(lost)} did not stay frequent: nothing is released{hint}")


def nodes_of(itemsets: Itemsets, wanted: Sequence[Codes]) -> Longs:
    """The nodes of some frequent itemsets."""
    indptr, codes = itemsets.rows
    owner = np.repeat(np.arange(len(itemsets)), np.diff(indptr))
    nodes = []
    for items in wanted:
        held = np.bincount(owner[np.isin(codes, items)], minlength=len(itemsets))
        nodes.append(int(np.flatnonzero((held == len(set(items))) & (itemsets.sizes == held))[0]))
    return np.array(nodes, dtype=np.int64)


def _supports(sensitive: Sensitive, baskets: Transactions) -> list[Pair]:
    whole = count_sets(baskets, sensitive.whole)
    return list(zip(whole, count_sets(baskets, sensitive.antecedent)))


def _line(rule: str, before: Pair, after: Pair, limit: Limit, n_baskets: int) -> dict[str, Any]:
    return {
        "rule": rule,
        "count_before": before[0],
        "count_after": after[0],
        "support_before": before[0] / n_baskets,
        "support_after": after[0] / n_baskets,
        "confidence_before": before[0] / before[1],
        "confidence_after": after[0] / after[1] if after[1] else 0.0,
        "antecedent_before": before[1],
        "antecedent_after": after[1],
        "support_limit": limit.support / n_baskets,
        "confidence_limit": None if limit.confidence is None else float(limit.confidence),
    }


def _minable(line: dict[str, Any], when: str, minimum: int, sure: Fraction) -> bool:
    count, antecedent = line[f"count_{when}"], line[f"antecedent_{when}"]
    return bool(count >= minimum and count * sure.denominator >= sure.numerator * antecedent)


def _most_support(sensitive: Sensitive, r: int) -> int:
    """The most baskets that may still support a hidden rule."""
    most = int(sensitive.limit[r]) - 1
    sure = sensitive.confidence[r]
    if sure is None:
        return most
    antecedent = len(sensitive.baskets.rows_with(sensitive.antecedent[r]))
    return max(most, (antecedent * sure.numerator - 1) // sure.denominator)


def _named(baskets: Transactions, items: Codes) -> str:
    return "{" + ", ".join(str(baskets.names[item]) for item in items) + "}"
