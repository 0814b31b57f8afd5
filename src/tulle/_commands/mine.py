"""``tulle mine``: baskets in, rules or itemsets out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tulle._commands._options import Options, resolve
from tulle._commands._sources import check_files
from tulle.errors import ParameterError
from tulle.io._formats import Format, format_of

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    import polars as pl

    from tulle._types import FilePath
    from tulle.transactions import Transactions

_SHOWN = 20


class Mined(NamedTuple):
    """The outcome of a finished run."""

    summary: dict[str, Any]
    top: list[dict[str, Any]]


@dataclass(frozen=True)
class Mining(Options):
    """The options of ``tulle mine``."""

    min_support: Any = None  # a share or a count; always asked for
    min_confidence: Any = None  # asked for unless there are itemsets
    itemsets: str | None = None
    max_consequent: int | None = None
    basket: str | None = None
    item: str | None = None


def mine(
    source: FilePath, *, output: FilePath | None = None, force: bool = False, **given: Any
) -> Mined:
    """Mine rules (or, with ``itemsets``, frequent itemsets) of a file, and write them.

    What was mined describes the original data: it is for the owner, not a release.
    """
    options = resolve("mine", Mining(), None, given)
    if options.itemsets is None and options.min_confidence is None:
        raise ParameterError("rules need --min-confidence; for itemsets, pass --itemsets all")
    for name in ("min_confidence", "max_consequent"):
        if options.itemsets is not None and name in options.words:
            raise ParameterError("is for rules, not for --itemsets", subject=options.word(name))
    if output is not None and format_of(output) is Format.SQL:
        raise ParameterError("the output must be a file, such as .csv or .parquet")
    check_files({"INPUT": source}, writes={"--output": output}, force=force)

    from tulle._commands._baskets import open_file
    from tulle.io.write import write_table

    baskets = open_file(source, options.basket, options.item).baskets
    with options.naming(kind="--itemsets"):
        found = _mined(baskets, options)
    if output is not None:
        write_table(flat(found, output), output, force=force)
    summary = {
        "baskets": len(baskets),
        "items": len(baskets.names),
        "rules" if options.itemsets is None else f"itemsets_{options.itemsets}": found.height,
    }
    return Mined(summary, _joined(found.head(_SHOWN)).to_dicts())


def _mined(baskets: Transactions, options: Mining) -> pl.DataFrame:
    """Return itemsets, or rules with the strongest first."""
    from tulle.rules.mine import association_rules, frequent_itemsets

    if options.itemsets is not None:
        return frequent_itemsets(baskets, min_support=options.min_support, kind=options.itemsets)
    return association_rules(
        baskets,
        min_support=options.min_support,
        min_confidence=options.min_confidence,
        max_consequent=options.max_consequent,
    ).sort("confidence", "count", descending=True, maintain_order=True)


def flat(found: pl.DataFrame, output: FilePath) -> pl.DataFrame:
    """Return lists as text for formats that have no lists."""
    return found if format_of(output) in (Format.PARQUET, Format.ARROW) else _joined(found)


def _joined(found: pl.DataFrame) -> pl.DataFrame:
    """Return sets as they are written in rules."""
    import polars as pl

    from tulle.rules.rule import NEEDS_QUOTES

    lists = [name for name, dtype in found.schema.items() if dtype.is_nested()]
    name = pl.element().cast(pl.String)
    inside = pl.concat_str(pl.lit('"'), name.str.replace_all('"', '""'), pl.lit('"'))
    text = pl.when(name.str.contains(NEEDS_QUOTES)).then(inside).otherwise(name)
    return found.with_columns(
        pl.col(name).list.eval(text).list.join(", ").alias(name) for name in lists
    )
