"""The public edition of a result: aggregates of at least ``k`` records, and nothing else.

The owner's edition holds everything. For the public one, cells of fewer than ``k`` records are
hidden, and with them so many others that the hidden ones cannot be had by subtraction; rates are
rounded so coarsely that they count no fewer than ``k``; paths and seeds leave the command.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from tulle.checks import check_choice
from tulle.errors import PrivacyError
from tulle.report.contract import completed
from tulle.report.verdict import grade, verdict

EDITIONS = ("owner", "public")
K = 10  # if a result names no k of its own


def edition_of(result: Mapping[str, Any], edition: str) -> dict[str, Any]:
    """The result as this edition may show it, with its verdict and every part present."""
    check_choice("render", "edition", edition, EDITIONS)
    whole = completed(result)
    k, tried = least_count(whole), len(whole["attacks"])
    shown = {**whole, "k": k, "edition": edition}
    if edition == "public":
        _refuse_few(whole["records"], k)
        shown |= {
            "metrics": {n: _significant(v) for n, v in whole["metrics"].items()},
            "attacks": {
                name: _coarse(name, attack, k, tried)
                for name, attack in whole["attacks"].items()
                if not attack.get("owner_only")
            },
            "gates": [_coarse_gate(gate) for gate in whole["gates"]],
            "sections": [
                {**section, "blocks": _public_blocks(section["blocks"], k)}
                for section in whole["sections"]
                if not section["owner_only"]
            ],
            "command": _public_command(whole["command"]),
            # reasons that a family wrote quote figures that are not rounded
            "verdict": whole["verdict"] and {**whole["verdict"], "reasons": []},
            "provenance": {n: v for n, v in whole["provenance"].items() if "seed" not in n},
        }
    # from the figures as shown: its sentences quote them
    return shown | {"verdict": verdict(shown)}


def _refuse_few(records: int | None, k: int) -> None:
    if records is not None and records < k:
        raise PrivacyError(
            f"a public report shows aggregates of at least {k} records, and there are {records}: "
            "keep to the owner's edition"
        )


def least_count(result: Mapping[str, Any]) -> int:
    """The least number of records behind a public aggregate."""
    return int(result.get("k") or K)


def hide_small(rows: Sequence[Mapping[str, Any]], k: int, hide: Sequence[str]) -> list[Any]:
    """Rows with the fields ``hide`` set to None where ``count`` is below ``k``.

    The hidden cells together hold at least ``k`` records: otherwise the smallest others go with
    them, because a total less the visible cells is the hidden one.

    >>> rows = [{"count": c, "share": c / 30} for c in (3, 12, 15)]
    >>> [row["share"] for row in hide_small(rows, 5, ["share"])]
    [None, None, 0.5]
    """
    counts = [row["count"] or 0 for row in rows]
    hidden = {i for i, count in enumerate(counts) if count < k}
    total = sum(counts[i] for i in hidden)
    for i in sorted(set(range(len(rows))) - hidden, key=lambda i: counts[i]):
        if not hidden or total >= k:
            break
        hidden.add(i)
        total += counts[i]
    return [
        {**row, "count": None, **dict.fromkeys(hide)} if i in hidden else dict(row)
        for i, row in enumerate(rows)
    ]


def _public_blocks(blocks: Sequence[Mapping[str, Any]], k: int) -> list[dict[str, Any]]:
    return [_public_block(block, k) for block in blocks if not block["owner_only"]]


def _public_block(block: Mapping[str, Any], k: int) -> dict[str, Any]:
    if block["type"] == "chart":
        return {**block, "rows": _public_rows(block["chart"], block["rows"], k)}
    if block["type"] == "table":
        return {**block, "rows": _public_table(block, k)}
    if block["type"] == "list":
        return dict(block)
    facts = [{**fact, "value": _significant(fact["value"])} for fact in block["rows"]]
    return {**block, "rows": facts}


def _public_rows(kind: str, rows: Sequence[Mapping[str, Any]], k: int) -> list[Any]:
    if kind == "histogram":
        return _rounded(hide_small(rows, k, ["original"]))
    if kind == "density":
        kept = [row for row in rows if row["of"] == "release" or (row["count"] or 0) >= k]
        return _rounded(kept)
    if kind == "groups":
        return [row for row in rows if (row["count"] or 0) >= k]
    return _rounded(rows)


def _rounded(rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [
        {name: None if name == "count" else _significant(value) for name, value in row.items()}
        for row in rows
    ]


def _public_table(block: Mapping[str, Any], k: int) -> list[list[Any]]:
    counted = {i for i, name in enumerate(block["columns"]) if name in block["counts"]}
    return [
        [
            f"< {k}" if i in counted and _is_below(cell, k) else _significant(cell)
            for i, cell in enumerate(row)
        ]
        for row in block["rows"]
    ]


def _is_below(cell: Any, k: int) -> bool:
    return isinstance(cell, int | float) and cell < k


def _coarse(name: str, attack: Mapping[str, Any], k: int, tried: int) -> dict[str, Any]:
    """Rates in steps that count at least ``k`` attempts; no counts, no details."""
    tries = (attack["attempts"], attack.get("control_attempts") or attack["attempts"])
    steps = [max(0.01, k / count) for count in tries]

    def coarse(value: float | None, step: float) -> float | None:
        return None if value is None else round(min(1.0, round(value / step) * step), 4)

    shown = {field: attack[field] for field in ("name", "failed", "note", "story")}
    for field in ("rate", "low", "high", "baseline"):
        shown[field] = coarse(attack[field], steps[0])
    shown["control"] = coarse(attack["control"], steps[1])
    for field in ("risk", "risk_low", "risk_high"):
        shown[field] = coarse(attack[field], max(steps))
    return shown | {"grade": grade(name, attack, tried)}


def _coarse_gate(gate: Mapping[str, Any]) -> dict[str, Any]:
    return {**gate, "value": None if gate["value"] is None else round(gate["value"], 2)}


def _significant(value: Any, digits: int = 3) -> Any:
    if not isinstance(value, float) or value == 0 or not math.isfinite(value):
        return value
    rounded = round(value, digits - 1 - math.floor(math.log10(abs(value))))
    return 0.999 if rounded == 1 and value < 1 else rounded  # not quite perfect is never 1


def _public_command(command: str) -> str:
    """The command without folders and seeds."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    for place, word in enumerate(words):
        option, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
        after_seed = place > 0 and words[place - 1] == "--seed"
        hidden = after_seed or option == "--seed"
        words[place] = option + equals + ("..." if hidden and value else value.rpartition("/")[2])
    return shlex.join(words)
