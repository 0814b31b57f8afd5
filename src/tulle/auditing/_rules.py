"""Rules between columns that the policy states: which rows of a release break them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._relations.language import parse_rule
from tulle._relations.values import Values, broken, is_text, unit_of
from tulle._report.model import Section
from tulle.auditing._tables import opened


class Stated(NamedTuple):
    """The share of released rows that break each rule, and any of them."""

    shares: dict[str, float]
    any: float


def stated(rules: Sequence[str], original: Any, release: Any) -> Stated | None:
    """Count the released rows that break rules; None if there are no rules.

    Numbers are compared with the precision of the original. A rule about a column that was not
    released is left out.
    """
    before, after = opened("original", original), opened("release", release)
    units = {name: unit_of(before[name]) for name in before.columns if name in after.columns}
    values = Values(after, units, _merged(before, after))
    parsed = [parse_rule(text, before.columns) for text in rules]
    kept = [rule for rule in parsed if all(name in after.columns for name in rule.columns)]
    if not kept:
        return None
    wrong = {rule.text: broken(rule, values) for rule in kept}
    shares = {text: float(rows.mean()) for text, rows in wrong.items()}
    return Stated(shares, float(np.any(list(wrong.values()), axis=0).mean()))


def _merged(before: pl.DataFrame, after: pl.DataFrame) -> dict[str, str]:
    """Return the words that stand for rare values: one in a column that the original lacks."""
    found = {}
    for name in after.columns:
        if name in before.columns and is_text(after.schema[name]):
            words = after[name].cast(pl.String).drop_nulls().unique()
            new = words.filter(~words.is_in(before[name].cast(pl.String).unique().implode()))
            if len(new) == 1:
                found[name] = str(new[0])
    return found


def rules_section(found: Stated) -> Section:
    """Show the rules of the policy, the one that is broken most often first."""
    rows = sorted(found.shares.items(), key=lambda pair: -pair[1])
    return {
        "id": "stated-rules",
        "title": "Rules of the policy",
        "text": "Share of released rows that break each rule that the policy states.",
        "blocks": [
            {"type": "table", "columns": ["rule", "broken"], "rows": [list(r) for r in rows]}
        ],
    }
