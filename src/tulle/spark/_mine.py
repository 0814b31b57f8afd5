"""Frequent itemsets and rules of baskets on Spark: mined part by part, counted everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tulle._checks import check_choice, check_int
from tulle._choices import ITEMSETS
from tulle._commands._baskets import lists_of
from tulle.rules._blocks import (
    CandidateItemsets,
    MinedItemsets,
    count_block,
    mine_block,
    refuse_empty,
    settled,
    share_of,
)
from tulle.rules.mine import implications, itemsets_frame, rules_frame
from tulle.rules.rule import Share, confidence_share, support_count
from tulle.spark._jobs import Block, answer, answers, over_rows, reported, require_spark
from tulle.spark._session import refuse_other_versions, versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def frequent_itemsets(
    df: DataFrame, items: str, *, min_support: Share, kind: str = "all"
) -> pl.DataFrame:
    """Find the itemsets that occur in enough baskets of a Spark table.

    Each part of the table is mined on its own at the same share; what is frequent in one is then
    counted in all. The result is that of :func:`tulle.frequent_itemsets` on the whole. What was
    mined describes the original data: it is for the owner, not a release.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        One basket a row.
    items : str
        The column of arrays of items (numbers or text).
    min_support : float, int or str
        Least support: a float in (0, 1] or ``"0.1%"`` is a share of the baskets, an int a count.
    kind : {"all", "closed", "maximal"}
        As for :func:`tulle.frequent_itemsets`.

    Returns
    -------
    polars.DataFrame
        Columns ``itemset`` (list), ``count``, ``support``; most frequent first.

    Examples
    --------
    >>> from tulle import spark
    >>> found = spark.frequent_itemsets(df, "items", min_support="0.5%")  # doctest: +SKIP
    """
    check_choice("frequent_itemsets", "kind", kind, ITEMSETS)
    found = _mined(df, items, min_support, "frequent_itemsets")
    return itemsets_frame(found.itemsets, found.names, found.baskets, kind)


def association_rules(
    df: DataFrame,
    items: str,
    *,
    min_support: Share,
    min_confidence: Share,
    max_consequent: int | None = None,
) -> pl.DataFrame:
    """Find the rules with enough support and confidence in the baskets of a Spark table.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        One basket a row.
    items : str
        The column of arrays of items (numbers or text).
    min_support : float, int or str
        As for :func:`frequent_itemsets`.
    min_confidence : float or str
        Least confidence: a float in [0, 1] or ``"60%"``.
    max_consequent : int, optional
        Most items in a consequent; None for any number.

    Returns
    -------
    polars.DataFrame
        As from :func:`tulle.association_rules`.

    Examples
    --------
    >>> from tulle import spark
    >>> rules = spark.association_rules(  # doctest: +SKIP
    ...     df, "items", min_support="0.5%", min_confidence="60%"
    ... )
    """
    confidence = confidence_share("association_rules", min_confidence)
    if max_consequent is not None:
        check_int("association_rules", "max_consequent", max_consequent, 1)
    found = _mined(df, items, min_support, "association_rules")
    rules = implications(found.itemsets, confidence, max_consequent)
    return rules_frame(rules, found.names, found.baskets)


def _mined(df: DataFrame, items: str, min_support: Share, owner: str) -> MinedItemsets:
    """Return the frequent itemsets of a table."""
    require_spark()
    rows = df.select(f"`{items}`")
    with reported():
        baskets = max(1, rows.count())
    share = share_of(owner, min_support, baskets)

    def look(frames: Iterator[pl.DataFrame]) -> Iterator[Block]:
        found = CandidateItemsets()
        for frame in frames:
            if frame.height:
                found.add(mine_block(lists_of(frame), share))
        yield answer((versions(), found))

    whole = CandidateItemsets()
    for of_worker, found in answers(over_rows(rows, look)):
        refuse_other_versions([of_worker])
        whole.add(found)
    refuse_empty(whole)
    wanted = sorted(whole.counts)

    def count(frames: Iterator[pl.DataFrame]) -> Iterator[Block]:
        counts = np.zeros(len(wanted), dtype=np.int64)
        for frame in frames:
            if frame.height:
                counts += count_block(lists_of(frame), wanted)
        yield answer(counts)

    counts = np.zeros(len(wanted), dtype=np.int64)
    for counted in answers(over_rows(rows, count)) if wanted else ():
        counts += counted
    whole.counts = dict(zip(wanted, counts.tolist()))
    return settled(whole, support_count(owner, min_support, baskets))
