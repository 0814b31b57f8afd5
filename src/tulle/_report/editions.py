"""The public edition of a result: aggregates of at least ``k`` records, and nothing else.

The owner's edition holds everything. For the public one, cells of fewer than ``k`` records are
hidden, and with them so many others that the hidden ones cannot be had by subtraction; rates are
rounded so coarsely that they count no fewer than ``k``; figures that fewer than ``k`` people are
behind are left out; paths and seeds leave the command.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from tulle._checks import check_choice
from tulle._choices import EDITIONS
from tulle._report.contract import completed
from tulle._report.verdict import grade, verdict
from tulle.errors import PrivacyError

COUNTS = ("count", "released")  # fields of a chart's rows that count records
_COUNTING = ("marginal_distance", "marginal_distance_max", "suppressed_share")  # shares of records
K = 10  # if a result names no k of its own


def edition_of(result: Mapping[str, Any], edition: str) -> dict[str, Any]:
    """The result as this edition may show it, with its verdict and every part present."""
    check_choice("render", "edition", edition, EDITIONS)
    whole = completed(result)
    shown = {**whole, "k": least_count(whole), "edition": edition}
    if edition == "owner":
        return shown | {"verdict": verdict(shown)}
    _refuse_few(whole["records"], shown["k"])
    return _public(shown)


def _public(whole: Mapping[str, Any]) -> dict[str, Any]:
    k, tried = whole["k"], len(whole["attacks"])
    least = k / max(k, whole["records"] or 1000 * k)  # a share of the records that counts k
    told = {
        name: {**attack, "grade": grade(name, attack, tried)}
        for name, attack in whole["attacks"].items()
        if not attack.get("owner_only")
    }
    # reasons that a family wrote quote figures that are not rounded
    given = whole["verdict"] and {**whole["verdict"], "reasons": []}
    shown = {
        **whole,
        "metrics": {
            name: _counted(value, least) if name in _COUNTING else _significant(value)
            for name, value in whole["metrics"].items()
            if whole["behind"].get(name, k) >= k
        },
        "behind": {},
        "attacks": {
            n: _coarse(attack, k) for n, attack in told.items() if min(_tried(attack)) >= k
        },
        "gates": [_coarse_gate(gate, k) for gate in whole["gates"]],
        "sections": [
            {**section, "blocks": _public_blocks(section["blocks"], k, least)}
            for section in whole["sections"]
            if not section["owner_only"]
        ],
        "command": _public_command(whole["command"]),
        "verdict": given,
        "provenance": {n: v for n, v in whole["provenance"].items() if "seed" not in n},
    }
    # the verdict is about all figures, its sentences quote those that are shown
    judged = verdict({**whole, "attacks": told, "verdict": given})
    quoted = verdict(shown)["reasons"] if shown["attacks"] or not told else []
    return shown | {"verdict": {**judged, "reasons": quoted}}


def _refuse_few(records: int | None, k: int) -> None:
    if records is not None and records < k:
        raise PrivacyError(
            f"a public report shows aggregates of at least {k} records, and one of the tables has "
            f"{records}: keep to the owner's edition"
        )


def least_count(result: Mapping[str, Any]) -> int:
    """The least number of records behind a public aggregate."""
    return int(result.get("k") or K)


def hide_small(
    rows: Sequence[Mapping[str, Any]], k: int, hide: str, count: str = "count"
) -> list[dict[str, Any]]:
    """Rows with the field ``hide`` (and the count) set to None where ``count`` is below ``k``.

    The hidden cells together hold at least ``k`` records: otherwise the smallest others go with
    them, because a total less the visible cells is the hidden one. Rows without a count stay.

    >>> rows = [{"count": c, "share": c / 30} for c in (3, 12, 15)]
    >>> [row["share"] for row in hide_small(rows, 5, "share")]
    [None, None, 0.5]
    """
    counts = {i: row[count] for i, row in enumerate(rows) if row.get(count) is not None}
    hidden = {i for i, records in counts.items() if records < k}
    total = sum(counts[i] for i in hidden)
    for i in sorted(set(counts) - hidden, key=lambda i: counts[i]):
        if not hidden or total >= k:
            break
        hidden.add(i)
        total += counts[i]
    return [
        {**row, count: None, hide: None} if i in hidden else dict(row) for i, row in enumerate(rows)
    ]


def _public_blocks(
    blocks: Sequence[Mapping[str, Any]], k: int, least: float
) -> list[dict[str, Any]]:
    return [_public_block(block, k, least) for block in blocks if not block["owner_only"]]


def _public_block(block: Mapping[str, Any], k: int, least: float) -> dict[str, Any]:
    if block["type"] == "chart":
        return {**block, "rows": _public_rows(block["chart"], block["rows"], k)}
    if block["type"] == "table":
        rows = _distances(block, k, least) if block["behind"] else _public_table(block, k)
        return {**block, "rows": rows, "behind": []}
    if block["type"] == "list":
        return dict(block)
    facts = [{**fact, "value": _significant(fact["value"])} for fact in block["rows"]]
    return {**block, "rows": facts}


def _public_rows(kind: str, rows: Sequence[Mapping[str, Any]], k: int) -> list[Any]:
    if kind == "histogram":
        shown = hide_small(hide_small(rows, k, "original"), k, "release", "released")
        return _rounded(shown)
    if kind == "density":
        kept = [row for row in rows if row["of"] == "release" or (row["count"] or 0) >= k]
        return _rounded(kept)
    if kind == "groups":
        return [row for row in rows if (row["count"] or 0) >= k]
    if kind == "correlation":
        few = [row.get("count") is not None and row["count"] < k for row in rows]
        return _rounded([{**row, "original": None} if f else row for f, row in zip(few, rows)])
    return _rounded(rows)


def _rounded(rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [
        {name: None if name in COUNTS else _significant(value) for name, value in row.items()}
        for row in rows
    ]


def _public_table(block: Mapping[str, Any], k: int) -> list[list[Any]]:
    counted = {i for i, name in enumerate(block["columns"]) if name in block["counts"]}
    return [_public_cells(row, counted, k) for row in block["rows"]]


def _distances(block: Mapping[str, Any], k: int, least: float) -> list[list[Any]]:
    """Rows of distances between tables: as coarse as ``k`` records, none that rests on fewer."""
    hidden = [behind < k for behind in block["behind"]]
    return [
        [None if few and _is_decimal(cell) else _counted(cell, least) for cell in row]
        for few, row in zip(hidden, block["rows"])
    ]


def _counted(value: Any, least: float) -> Any:
    """A share of the records, or a distance in such shares, in steps of the least that is told."""
    return round(round(value / least) * least, 4) if _is_decimal(value) else value


def _public_cells(row: Sequence[Any], counted: set[int], k: int) -> list[Any]:
    """A row of a table; beside a count that is hidden, a share would tell it."""
    small = {i for i in counted if isinstance(row[i], Real) and row[i] < k}
    cells = [None if small and _is_decimal(cell) else _significant(cell) for cell in row]
    return [f"< {k}" if i in small else cell for i, cell in enumerate(cells)]


def _coarse(attack: Mapping[str, Any], k: int) -> dict[str, Any]:
    """Rates in steps that count at least ``k`` attempts; no counts, no details."""
    own, other = (_step(count, k) for count in _tried(attack))
    shown = {field: attack[field] for field in ("name", "failed", "note", "story", "grade")}
    for field in ("rate", "low", "high", "baseline"):
        shown[field] = _stepped(attack[field], own)
    shown["control"] = _stepped(attack["control"], other)
    for field in ("risk", "risk_low", "risk_high"):
        shown[field] = _stepped(attack[field], max(own, other))
    return shown


def _tried(attack: Mapping[str, Any]) -> tuple[int, int]:
    """How many people an attack was tried on, in the data and outside."""
    own = attack.get("independent") or attack["attempts"]
    return own, attack.get("control_attempts") or own


def _step(count: int, k: int) -> float:
    return max(0.01, k / count)


def _stepped(value: float | None, step: float) -> float | None:
    return None if value is None else round(min(1.0, round(value / step) * step), 4)


def _coarse_gate(gate: Mapping[str, Any], k: int) -> dict[str, Any]:
    """The value as coarse as the figure it is about; none where it would belie the outcome."""
    people, value = gate.get("people") or k, gate["value"]
    shown = {name: part for name, part in gate.items() if name != "people"}
    if value is None or people < k:
        return shown | {"value": None}
    share = gate["name"].startswith("max_")
    coarse = _stepped(value, _step(people, k)) if share else _significant(value)
    told = (coarse > gate["limit"]) == (value > gate["limit"])
    return shown | {"value": coarse if told else None}


def _is_decimal(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, Integral)


def _significant(value: Any, digits: int = 3) -> Any:
    if not _is_decimal(value) or value == 0 or not math.isfinite(value):
        return value
    rounded = round(float(value), digits - 1 - math.floor(math.log10(abs(value))))
    return 0.999 if rounded == 1 and value < 1 else rounded  # not quite perfect is never 1


def _public_command(command: str) -> str:
    """The command without folders and seeds."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    return shlex.join(
        "..." if place and words[place - 1] == "--seed" else _public_word(word)
        for place, word in enumerate(words)
    )


def _public_word(word: str) -> str:
    """A word without folders; they may follow an option directly (``-o/home/..``)."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    if option == "--seed" and equals:
        return "--seed=..."
    short = re.match(r"-[a-zA-Z](?=.)", value)
    option += short.group() if short else ""
    return option + equals + re.split(r"[/\\]", value)[-1].removeprefix(option)
