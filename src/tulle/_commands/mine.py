"""``tulle mine``: baskets in, rules or itemsets out."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

from tulle._commands._baskets import open_file
from tulle._files import refuse_existing, refuse_same
from tulle._types import FilePath
from tulle.errors import ParameterError
from tulle.io._formats import Format, format_of
from tulle.io.write import write_table
from tulle.rules.mine import association_rules, frequent_itemsets
from tulle.rules.rule import NEEDS_QUOTES

_SHOWN = 20


class Mined(NamedTuple):
    """What is to be said of what was found."""

    summary: dict[str, Any]
    top: list[dict[str, Any]]


def mine(
    source: FilePath,
    *,
    min_support: float | int | str,
    min_confidence: float | str | None = None,
    itemsets: str | None = None,
    max_consequent: int | None = None,
    basket: str | None = None,
    item: str | None = None,
    output: FilePath | None = None,
    force: bool = False,
) -> Mined:
    """Mines rules (or, with ``itemsets``, frequent itemsets) of a file, and writes them.

    What was mined speaks of the data as they are: it is for the owner, not a release.
    """
    if itemsets is None and min_confidence is None:
        raise ParameterError("rules need --min-confidence; ask for itemsets with --itemsets all")
    if itemsets is not None and (min_confidence is not None or max_consequent is not None):
        raise ParameterError("--min-confidence and --max-consequent are for rules, not --itemsets")
    if output is not None:
        if format_of(output) is Format.SQL:
            raise ParameterError("what is mined goes to a file: name it .csv, .parquet or the like")
        refuse_existing(output, force=force)
        refuse_same(source, output)
    baskets = open_file(source, basket, item).baskets
    if min_confidence is not None:
        found = association_rules(
            baskets,
            min_support=min_support,
            min_confidence=min_confidence,
            max_consequent=max_consequent,
        ).sort("confidence", "count", descending=True, maintain_order=True)
    else:
        found = frequent_itemsets(baskets, min_support=min_support, kind=itemsets or "all")
    if output is not None:
        write_table(_flat(found, output), output, force=force)
    summary = {
        "baskets": len(baskets),
        "items": len(baskets.names),
        "rules" if itemsets is None else f"itemsets_{itemsets}": found.height,
    }
    return Mined(summary, _joined(found.head(_SHOWN)).to_dicts())


def _flat(found: pl.DataFrame, output: FilePath) -> pl.DataFrame:
    """Lists as text in formats that have no lists."""
    return found if format_of(output) in (Format.PARQUET, Format.ARROW) else _joined(found)


def _joined(found: pl.DataFrame) -> pl.DataFrame:
    """Sets as they are written in rules."""
    lists = [name for name, dtype in found.schema.items() if dtype.is_nested()]
    name = pl.element().cast(pl.String)
    inside = pl.concat_str(pl.lit('"'), name.str.replace_all('"', '""'), pl.lit('"'))
    text = pl.when(name.str.contains(NEEDS_QUOTES)).then(inside).otherwise(name)
    return found.with_columns(
        pl.col(name).list.eval(text).list.join(", ").alias(name) for name in lists
    )
