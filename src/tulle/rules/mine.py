"""What users call to mine: frames of itemsets and rules."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import polars as pl

from tulle._checks import check_choice, check_int
from tulle._choices import ITEMSETS, SUPPORTS_OF
from tulle._random import RandomState, as_generator
from tulle._types import Codes, FilePath, Ints
from tulle.errors import DataError
from tulle.rules.containers import as_baskets, named, open_baskets
from tulle.rules.rule import Rule, Share, confidence_share, support_count
from tulle.transactions import Transactions

# Frequent itemsets as a tree of nodes.


@dataclass(frozen=True, eq=False)
class Itemsets:
    """Frequent itemsets: node i is the set of its parent and one item more.

    Node 0 is the empty set; parents come before their children.
    """

    parent: Codes
    item: Codes
    support: Codes

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def sizes(self) -> Ints:
        from tulle.rules._mining_kernels import set_sizes

        return set_sizes(self.parent)

    @cached_property
    def rows(self) -> tuple[Ints, Codes]:
        """All sets as compressed rows of ascending codes."""
        from tulle.rules._mining_kernels import fill_rows

        indptr = np.concatenate(([0], np.cumsum(self.sizes)))
        codes = np.empty(indptr[-1], dtype=np.int32)
        fill_rows(self.parent, self.item, indptr, codes)
        return indptr, codes

    @cached_property
    def hashes(self) -> npt.NDArray[np.uint64]:
        """A hash of each set: the exclusive or of its items' words."""
        indptr, codes = self.rows
        if len(codes) == 0:
            return np.zeros(len(self), dtype=np.uint64)
        words = hash_words(int(codes.max()) + 1)
        hashes = np.bitwise_xor.reduceat(words[codes], np.minimum(indptr[:-1], len(codes) - 1))
        hashes[self.sizes == 0] = 0
        return hashes

    def codes(self, node: int) -> Codes:
        indptr, flat = self.rows
        return flat[indptr[node] : indptr[node + 1]]


def hash_words(n_items: int) -> npt.NDArray[np.uint64]:
    """Return random words for the items, to hash sets; always the same ones, they hide nothing."""
    return np.random.default_rng(0x7E11E).integers(0, 2**64, size=n_items, dtype=np.uint64)


def mine(baskets: Transactions, minimum: int) -> Itemsets:
    """Return all itemsets in at least ``minimum`` baskets, the empty set among them.

    Bit sets are over all baskets, or, where items are rare, over each item's own.
    """
    from tulle.rules import _mining_kernels as kernels

    frequent = np.flatnonzero(baskets.counts >= minimum)
    order = frequent[np.argsort(baskets.counts[frequent], kind="stable")]
    rank = np.full(len(baskets.names), -1, dtype=np.int32)
    rank[order] = np.arange(len(order))
    heads = np.concatenate(([0], np.cumsum(baskets.counts[order])))
    dense = 24 * heads[-1] > len(order) * len(baskets)
    work = kernels.mine_dense if dense else kernels.mine_sparse
    try:
        nodes = work(baskets.indptr, baskets.items, rank, heads, minimum)
    except MemoryError:
        raise DataError(
            f"more than {kernels.MOST_SETS:,} itemsets are frequent: raise min_support"
        ) from None
    item = np.append(order, -1)[nodes[:, 1]].astype(np.int32)  # -1 of the root finds the end
    return Itemsets(nodes[:, 0], item, nodes[:, 2])


# Association rules as rows of node numbers: set, antecedent, consequent.

MOST_RULES = 1 << 27  # 1.6 GB of nodes


@dataclass(frozen=True, eq=False)
class Implications:
    """Rules antecedent -> consequent; each row is three nodes of the itemsets."""

    itemsets: Itemsets
    nodes: Codes

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def whole(self) -> Codes:
        return self.nodes[:, 0]

    @property
    def antecedent(self) -> Codes:
        return self.nodes[:, 1]

    @property
    def consequent(self) -> Codes:
        return self.nodes[:, 2]


def mine_rules(
    baskets: Transactions,
    minimum: int,
    confidence: Fraction,
    longest_consequent: int | None = None,
    support_of: str = "rule",
) -> Implications:
    """Mine the rules with enough confidence of which the whole, or the antecedent, is frequent."""
    itemsets = mine(baskets, fewest_of_rule(minimum, confidence, support_of))
    found = implications(itemsets, confidence, longest_consequent)
    return found if support_of == "rule" else with_frequent_antecedents(found, minimum)


def fewest_of_rule(minimum: int, confidence: Fraction, support_of: str) -> int:
    """Return how many baskets hold a rule at least, if a minimum is that of its antecedent."""
    return minimum if support_of == "rule" else max(1, math.ceil(minimum * confidence))


def with_frequent_antecedents(found: Implications, minimum: int) -> Implications:
    frequent = found.itemsets.support[found.antecedent] >= minimum
    return Implications(found.itemsets, found.nodes[frequent])


def implications(
    itemsets: Itemsets, confidence: Fraction, longest_consequent: int | None = None
) -> Implications:
    """Return all rules of frequent itemsets with enough confidence."""
    from tulle.rules._implication_kernels import hash_sets
    from tulle.rules._implication_kernels import implications as kernel

    words = hash_words(int(itemsets.item.max(initial=0)) + 1)
    hashes, table = hash_sets(itemsets.parent, itemsets.item, words)
    try:
        nodes = kernel(
            itemsets.parent,
            itemsets.item,
            itemsets.support,
            words,
            hashes,
            table,
            confidence.numerator,
            confidence.denominator,
            longest_consequent or len(itemsets),
            MOST_RULES,
        )
    except MemoryError:
        raise DataError(
            f"there are more than {MOST_RULES:,} rules: raise min_support or min_confidence, or "
            "bound max_consequent"
        ) from None
    return Implications(itemsets, nodes)


# what is not a frame of pandas gives a frame of polars
_Baskets = pl.DataFrame | Transactions | FilePath | Sequence[Collection[Any]]


@overload
def frequent_itemsets(data: _Baskets, *, min_support: Share, kind: str = "all") -> pl.DataFrame: ...


@overload
def frequent_itemsets(data: Any, *, min_support: Share, kind: str = "all") -> Any: ...


def frequent_itemsets(data: Any, *, min_support: Share, kind: str = "all") -> Any:
    """Find the itemsets that occur in enough baskets.

    Parameters
    ----------
    data : baskets
        Lists of items, a scipy sparse or NumPy 0/1 matrix, a wide 0/1 frame, a frame of two
        columns (basket, item), :class:`Transactions`, or the path of a FIMI file or table.
    min_support : float, int or str
        Least support: a float in (0, 1] or ``"0.1%"`` is a share of the baskets, an int a count.
    kind : {"all", "closed", "maximal"}
        ``"closed"`` keeps only sets that no larger set equals in support, ``"maximal"`` only sets
        of which no larger set is frequent.

    Returns
    -------
    polars.DataFrame (pandas if pandas came in)
        Columns ``itemset`` (list), ``count``, ``support``; most frequent first.

    Examples
    --------
    >>> from tulle import frequent_itemsets
    >>> baskets = [["bread", "milk"], ["bread", "milk", "beer"], ["milk"]]
    >>> frequent_itemsets(baskets, min_support=2)["itemset"].to_list()
    [['milk'], ['bread'], ['bread', 'milk']]
    """
    check_choice("frequent_itemsets", "kind", kind, ITEMSETS)
    source = open_baskets(data)
    minimum = support_count("frequent_itemsets", min_support, len(source.baskets))
    found = mine(source.baskets, minimum)
    frame = itemsets_frame(found, source.baskets.names, len(source.baskets), kind)
    return as_given(frame, pandas=source.pandas)


@overload
def association_rules(
    data: _Baskets,
    *,
    min_support: Share,
    min_confidence: Share,
    max_consequent: int | None = None,
    support_of: str = "rule",
) -> pl.DataFrame: ...


@overload
def association_rules(
    data: Any,
    *,
    min_support: Share,
    min_confidence: Share,
    max_consequent: int | None = None,
    support_of: str = "rule",
) -> Any: ...


def association_rules(
    data: Any,
    *,
    min_support: Share,
    min_confidence: Share,
    max_consequent: int | None = None,
    support_of: str = "rule",
) -> Any:
    """Find the rules antecedent -> consequent with enough support and confidence.

    Counts are whole numbers and thresholds exact fractions: a rule at exactly a threshold is in.

    Parameters
    ----------
    data : baskets
        As for :func:`frequent_itemsets`.
    min_support : float, int or str
        As for :func:`frequent_itemsets`.
    min_confidence : float or str
        Least confidence: a float in [0, 1] or ``"60%"``.
    max_consequent : int, optional
        Most items in a consequent; None for any number.
    support_of : {"rule", "antecedent"}
        What must have ``min_support``: antecedent and consequent together, or the antecedent alone,
        as Borgelt's miner used to define it and older papers count.

    Returns
    -------
    polars.DataFrame (pandas if pandas came in)
        Columns ``antecedent`` and ``consequent`` (lists), ``support``, ``confidence``, ``lift``,
        ``conviction`` (infinite if the rule always holds) and ``count``, in no special order.

    Examples
    --------
    >>> from tulle import association_rules
    >>> baskets = [["bread", "milk"], ["bread", "milk", "beer"], ["milk"]]
    >>> rules = association_rules(baskets, min_support=2, min_confidence=0.6)
    >>> rules.sort("confidence").select("antecedent", "consequent", "confidence").rows()
    [(['milk'], ['bread'], 0.6666666666666666), (['bread'], ['milk'], 1.0)]
    """
    confidence = confidence_share("association_rules", min_confidence)
    if max_consequent is not None:
        check_int("association_rules", "max_consequent", max_consequent, 1)
    check_choice("association_rules", "support_of", support_of, SUPPORTS_OF)
    source = open_baskets(data)
    minimum = support_count("association_rules", min_support, len(source.baskets))
    found = mine_rules(source.baskets, minimum, confidence, max_consequent, support_of)
    frame = rules_frame(found, source.baskets.names, len(source.baskets))
    return as_given(frame, pandas=source.pandas)


def itemsets_frame(found: Itemsets, names: Any, n_baskets: int, kind: str) -> pl.DataFrame:
    """Return itemsets of a kind: the most frequent first, of these the smallest."""
    chosen = np.arange(1, len(found)) if kind == "all" else _border(found, kind)
    order = np.lexsort((found.hashes[chosen], found.sizes[chosen], -found.support[chosen]))
    chosen = chosen[order]
    count = found.support[chosen].astype(np.int64)
    return pl.DataFrame(
        {
            "itemset": _lists(found, names).gather(chosen),
            "count": count,
            "support": count / n_baskets,
        }
    )


def rules_frame(rules: Implications, names: Any, n_baskets: int) -> pl.DataFrame:
    support = rules.itemsets.support.astype(np.int64)
    whole, antecedent, consequent = rules.nodes.T
    confidence, share = support[whole] / support[antecedent], support[consequent] / n_baskets
    sides = _lists(rules.itemsets, names).gather(np.concatenate((antecedent, consequent)))
    with np.errstate(divide="ignore", invalid="ignore"):
        conviction = np.where(confidence < 1, (1 - share) / (1 - confidence), np.inf)
    return pl.DataFrame(
        {
            "antecedent": sides.head(len(rules)),
            "consequent": sides.tail(len(rules)),
            "support": support[whole] / n_baskets,
            "confidence": confidence,
            "lift": confidence / share,
            "conviction": conviction,
            "count": support[whole],
        }
    )


def as_given(frame: pl.DataFrame, *, pandas: bool) -> Any:
    if not pandas:
        return frame
    import pandas as pd

    return pd.DataFrame({column.name: column.to_list() for column in frame})


def _lists(itemsets: Itemsets, names: Any) -> pl.Series:
    """Return the itemsets as a column of lists of names: all as long as the longest, then cut."""
    codes = itemsets.rows[1]
    if not len(codes):
        return pl.Series("items", [[]] * len(itemsets), dtype=pl.List(named([], names).dtype))
    padded = np.zeros((len(itemsets), int(itemsets.sizes.max())), dtype=np.int32)
    padded[np.arange(padded.shape[1]) < itemsets.sizes[:, None]] = codes
    flat = named(padded.ravel(), names)
    whole = flat.reshape(padded.shape).cast(pl.List(flat.dtype))
    frame = pl.DataFrame({"items": whole, "size": itemsets.sizes})
    return frame.select(pl.col("items").list.head("size")).to_series()


def _border(itemsets: Itemsets, kind: str) -> Ints:
    """Return nodes without a frequent superset (of equal support); one more item will do."""
    indptr, codes = itemsets.rows
    words = hash_words(int(codes.max(initial=0)) + 1)
    owner = np.repeat(np.arange(len(itemsets)), np.diff(indptr))
    hashes = itemsets.hashes
    order = np.argsort(hashes)
    below = order[np.searchsorted(hashes, hashes[owner] ^ words[codes], sorter=order)]
    if kind == "closed":
        below = below[itemsets.support[below] == itemsets.support[owner]]
    inner = np.zeros(len(itemsets), dtype=bool)
    inner[below] = True
    inner[0] = True
    return np.flatnonzero(~inner)


# Sensitive rules chosen for experiments: the scenarios S1 to S4 of paper 002.

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
