"""What users call to mine: frames of itemsets and rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tulle.checks import check_choice, check_int
from tulle.rules.frames import named
from tulle.rules.implications import Implications, implications
from tulle.rules.inputs import open_baskets
from tulle.rules.itemsets import Itemsets, Longs, hash_words, mine
from tulle.rules.thresholds import Share, confidence_share, support_count


def frequent_itemsets(data: Any, *, min_support: Share, kind: str = "all") -> Any:
    """The itemsets that occur in enough baskets.

    Parameters
    ----------
    data
        Lists of items, a scipy sparse or NumPy 0/1 matrix, a wide 0/1 frame, a frame of two
        columns (basket, item), :class:`~tulle.transactions.Transactions`, or the path of a FIMI
        file or table.
    min_support
        Least support: a float in (0, 1] or ``"0.1%"`` is a share of the baskets, an int a count.
    kind
        ``"all"``; ``"closed"``: only sets that no larger set equals in support; ``"maximal"``:
        only sets that no larger set is frequent.

    Returns
    -------
    polars.DataFrame (pandas if pandas came in)
        Columns ``itemset`` (list), ``count``, ``support``; most frequent first.

    Examples
    --------
    >>> baskets = [["bread", "milk"], ["bread", "milk", "beer"], ["milk"]]
    >>> frequent_itemsets(baskets, min_support=2)["itemset"].to_list()
    [['milk'], ['bread'], ['bread', 'milk']]
    """
    check_choice("frequent_itemsets", "kind", kind, ("all", "closed", "maximal"))
    source = open_baskets(data)
    minimum = support_count("frequent_itemsets", min_support, len(source.baskets))
    found = mine(source.baskets, minimum)
    chosen = np.arange(1, len(found)) if kind == "all" else _border(found, kind)
    order = np.argsort(-found.support[chosen], kind="stable")
    chosen = chosen[order]
    count = found.support[chosen].astype(np.int64)
    frame = pl.DataFrame(
        {
            "itemset": _lists(found, source.baskets.names).gather(chosen),
            "count": count,
            "support": count / len(source.baskets),
        }
    )
    return as_given(frame, pandas=source.pandas)


def association_rules(
    data: Any,
    *,
    min_support: Share,
    min_confidence: Share,
    max_consequent: int | None = None,
) -> Any:
    """The rules antecedent -> consequent with enough support and confidence.

    Counts are whole numbers and thresholds exact fractions: a rule at exactly a threshold is in.

    Parameters
    ----------
    data, min_support
        As for :func:`frequent_itemsets`.
    min_confidence
        Least confidence: a float in [0, 1] or ``"60%"``.
    max_consequent
        Most items in a consequent; None for any number.

    Returns
    -------
    polars.DataFrame (pandas if pandas came in)
        Columns ``antecedent`` and ``consequent`` (lists), ``support``, ``confidence``, ``lift``,
        ``conviction`` (infinite if the rule always holds) and ``count``, in no special order.

    Examples
    --------
    >>> baskets = [["bread", "milk"], ["bread", "milk", "beer"], ["milk"]]
    >>> rules = association_rules(baskets, min_support=2, min_confidence=0.6)
    >>> rules.sort("confidence").select("antecedent", "consequent", "confidence").rows()
    [(['milk'], ['bread'], 0.6666666666666666), (['bread'], ['milk'], 1.0)]
    """
    confidence = confidence_share("association_rules", min_confidence)
    if max_consequent is not None:
        check_int("association_rules", "max_consequent", max_consequent, 1)
    source = open_baskets(data)
    minimum = support_count("association_rules", min_support, len(source.baskets))
    found = implications(mine(source.baskets, minimum), confidence, max_consequent)
    frame = rules_frame(found, source.baskets.names, len(source.baskets))
    return as_given(frame, pandas=source.pandas)


def rules_frame(rules: Implications, names: Any, n_baskets: int) -> pl.DataFrame:
    """Rules with their measures."""
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
    """The frame as pandas, if pandas came in."""
    if not pandas:
        return frame
    import pandas as pd

    return pd.DataFrame({column.name: column.to_list() for column in frame})


def _lists(itemsets: Itemsets, names: Any) -> pl.Series:
    """The itemsets as a column of lists of names: all as long as the longest, then cut."""
    codes = itemsets.rows[1]
    if not len(codes):
        return pl.Series("items", [[]] * len(itemsets), dtype=pl.List(named([], names).dtype))
    padded = np.zeros((len(itemsets), int(itemsets.sizes.max())), dtype=np.int32)
    padded[np.arange(padded.shape[1]) < itemsets.sizes[:, None]] = codes
    flat = named(padded.ravel(), names)
    whole = flat.reshape(padded.shape).cast(pl.List(flat.dtype))
    frame = pl.DataFrame({"items": whole, "size": itemsets.sizes})
    return frame.select(pl.col("items").list.head("size")).to_series()


def _border(itemsets: Itemsets, kind: str) -> Longs:
    """Nodes without a frequent superset (of the same support): one item more is enough to look."""
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
