"""``tulle mine``: baskets in, rules or itemsets out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from tulle._checks import check_choice, check_int
from tulle._choices import ITEMSETS, MINERS, SUPPORTS_OF
from tulle._commands._baskets import open_blocks, open_file
from tulle._commands._decision import Done
from tulle._commands._memory import half_of_memory, parse_size
from tulle._commands._options import Options, resolve
from tulle._commands._sources import check_files
from tulle._commands.site_union import PEOPLE, UNION
from tulle._commands.sites import ENCODED
from tulle._random import as_generator
from tulle._types import FilePath
from tulle.errors import ParameterError
from tulle.io._formats import Format, existing_file, format_of
from tulle.io.write import write_table
from tulle.releases import has_manifest, read_manifest
from tulle.rules._blocks import MinedItemsets, mine_blocks
from tulle.rules._rankings import confirmed, predictive
from tulle.rules.containers import is_table_name
from tulle.rules.mine import (
    fewest_of_rule,
    implications,
    itemsets_frame,
    rules_frame,
    with_frequent_antecedents,
)
from tulle.rules.mine import mine as mine_baskets
from tulle.rules.rule import NEEDS_QUOTES, confidence_share, support_count

_SHOWN = 20
_PER_BYTE = {Format.CSV: 12, Format.NDJSON: 8}  # bytes of memory for a byte of text
_PER_PACKED_BYTE = 60  # ... and for one of Parquet


@dataclass(frozen=True)
class Mining(Options):
    """The options of ``tulle mine``."""

    min_support: Any = None  # a share or a count; always asked for
    min_confidence: Any = None  # asked for unless there are itemsets
    itemsets: str | None = None
    max_consequent: int | None = None
    support_of: str = "rule"  # what the minimum support is of
    algorithm: str = "apriori"
    best: int | None = None  # rules; all, or 10 (tertius: values) and 100 of the others
    attributes: tuple[str, ...] | list[str] = ()
    seed: int | None = None  # of the prior of predictive-apriori
    basket: str | None = None
    item: str | None = None
    memory: str | None = None  # beyond which baskets are read in blocks; half of the machine's


def mine(
    source: FilePath, *, output: FilePath | None = None, force: bool = False, **given: Any
) -> Done:
    """Mine rules (or, with ``itemsets``, frequent itemsets) of a file, and write them.

    What was mined describes the original data: it is for the owner, not a release.
    """
    options = resolve("mine", Mining(), None, given)
    ranked = options.algorithm != "apriori"
    if options.itemsets is None and options.min_confidence is None and not ranked:
        raise ParameterError("rules need --min-confidence; for itemsets, pass --itemsets all")
    with options.naming():
        check_choice("mine", "support_of", options.support_of, SUPPORTS_OF)
        check_choice("mine", "algorithm", options.algorithm, MINERS)
        if options.best is not None:
            check_int("mine", "best", options.best, 1)
    for name in ("min_confidence", "max_consequent", "support_of", "algorithm", "best"):
        if options.itemsets is not None and name in options.words:
            raise ParameterError("is for rules, not for --itemsets", subject=options.word(name))
    if output is not None and format_of(output) is Format.SQL:
        raise ParameterError("the output must be a file, such as .csv or .parquet")
    check_files({"INPUT": source}, writes={"--output": output}, force=force)

    with options.naming(kind="--itemsets"):
        blockwise = _is_large(source, options)
        for name, usual in (("support_of", "rule"), ("algorithm", "apriori")):
            if blockwise and getattr(options, name) != usual:
                raise ParameterError(
                    f"{options.word(name)} needs all baskets in memory, and this file is larger: "
                    f"raise --memory, or take {usual}"
                )
        mined = _mined(source, options, blockwise=blockwise)
    found = _framed(mined, options)
    if output is not None:
        write_table(flat(found, output), output, private=True, force=force)
    about: dict[str, Any] = {}
    if mined.data is not None:
        lengths, unknown = mined.data.lengths, mined.data.unknown
        about = {
            "average_length": float(lengths.mean()),
            "shortest": int(lengths.min()),
            "longest": int(lengths.max()),
        }
        if unknown is not None:  # what is not counted
            about["blocked_cells"] = len(unknown.items)
    summary = {
        "baskets": mined.baskets,
        "items": len(mined.names),
        **about,
        "rules" if options.itemsets is None else f"itemsets_{options.itemsets}": found.height,
    }
    notes = [] if output is None else [f"all       {output}"]
    return Done(summary, {"the first": _joined(found.head(_SHOWN)).to_dicts()}, notes)


def _is_large(source: FilePath, options: Mining) -> bool:
    """Return whether baskets should not be read into memory whole, by the size of their file."""
    limit = half_of_memory() if options.memory is None else parse_size(options.memory)
    kind = format_of(source) if is_table_name(source) else Format.CSV
    if kind in (Format.SQL, Format.EXCEL):
        return False
    return existing_file(source).stat().st_size * _PER_BYTE.get(kind, _PER_PACKED_BYTE) > limit


def _mined(source: FilePath, options: Mining, *, blockwise: bool) -> MinedItemsets:
    basket, item = options.basket, options.item
    attributes = options.attributes
    if not attributes and has_manifest(source):  # of joined codes every column is one
        attributes = ("all",) if read_manifest(source).method in (ENCODED, UNION, PEOPLE) else ()
    if blockwise:
        with open_blocks(source, basket, item, attributes) as blocks:
            return mine_blocks(blocks, options.min_support)
    baskets = open_file(source, basket, item, attributes=attributes).baskets
    minimum = support_count("mine", options.min_support, len(baskets))
    if options.support_of == "antecedent":
        confidence = confidence_share("mine", options.min_confidence)
        minimum = fewest_of_rule(minimum, confidence, "antecedent")
    return MinedItemsets(mine_baskets(baskets, minimum), baskets.names, len(baskets), baskets)


def _framed(mined: MinedItemsets, options: Mining) -> pl.DataFrame:
    """Return itemsets, or rules with the strongest first."""
    sets, names, baskets, data = mined
    with options.naming(kind="--itemsets"):
        if options.itemsets is not None:
            kind = check_choice("mine", "kind", options.itemsets, ITEMSETS)
            return itemsets_frame(sets, names, baskets, kind)
        least = 0.0 if options.min_confidence is None else options.min_confidence
        confidence = confidence_share("mine", least)
        if options.max_consequent is not None:
            check_int("mine", "max_consequent", options.max_consequent, 1)
        rules = implications(sets, confidence, options.max_consequent)
        if options.support_of == "antecedent":
            minimum = support_count("mine", options.min_support, baskets)
            rules = with_frequent_antecedents(rules, minimum)
        if options.algorithm != "apriori" and data is not None:
            if options.algorithm == "tertius":
                rules, values = confirmed(rules, len(data), options.best or 10)
            else:
                rng = as_generator(options.seed)
                rules, values = predictive(rules, data, options.best or 100, rng)
            measure = "confirmation" if options.algorithm == "tertius" else "expected_accuracy"
            ranked = rules_frame(rules, names, baskets).drop("lift", "conviction")
            return ranked.with_columns(pl.Series(measure, values))
        found = rules_frame(rules, names, baskets)
    found = found.sort("confidence", "count", descending=True, maintain_order=True)
    return found if options.best is None else found.head(options.best)


def flat(found: pl.DataFrame, output: FilePath) -> pl.DataFrame:
    """Return lists as text for formats that have no lists."""
    return found if format_of(output) in (Format.PARQUET, Format.ARROW) else _joined(found)


def _joined(found: pl.DataFrame) -> pl.DataFrame:
    """Return sets as they are written in rules."""
    lists = [name for name, dtype in found.schema.items() if dtype.is_nested()]
    name = pl.element().cast(pl.String)
    inside = pl.concat_str(pl.lit('"'), name.str.replace_all('"', '""'), pl.lit('"'))
    text = pl.when(name.str.contains(NEEDS_QUOTES)).then(inside).otherwise(name)
    return found.with_columns(
        pl.col(name).list.eval(text).list.join(", ").alias(name) for name in lists
    )
