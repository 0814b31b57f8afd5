"""The public edition of a result: aggregates of at least ``k`` records, and nothing else.

The owner's edition holds everything. For the public one, cells of fewer than ``k`` records are
hidden, together with enough others that the hidden ones cannot be computed by subtraction; rates
are rounded to steps of at least ``k``; figures based on fewer than ``k`` people are left out; paths
and seeds are removed from the command.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from tulle._attacks.result import AttackFigures
from tulle._checks import check_choice
from tulle._choices import EDITIONS
from tulle._report.fitness import HEADLINES as USE
from tulle._report.model import (
    Block,
    Edition,
    Fact,
    Gate,
    Judgement,
    Level,
    Result,
    Table,
    Verdict,
    completed,
)
from tulle._report.verdict import HEADLINES, grade, verdict
from tulle._report.words import metric_words
from tulle.errors import PrivacyError

COUNTS = ("count", "released")  # fields of a chart's rows that count records
K = 10  # if a result names no k of its own


def edition_of(result: Result, edition: str) -> Edition:
    """Return the result as this edition may show it, with its verdict and every part present."""
    check_choice("render", "edition", edition, EDITIONS)
    whole = completed(result)
    k = whole["k"] or K
    if edition == "owner":
        return {**whole, "k": k, "edition": edition, "verdict": verdict(whole)}
    _refuse_few(whole["records"], k)
    return _public(whole, k)


def _public(whole: Result, k: int) -> Edition:
    least = k / max(k, whole["records"] or 1000 * k)  # a share of the records that counts k
    told = _told(whole["attacks"])
    shown: Result = {
        **whole,
        "metrics": {
            name: _counted(value, least * metric_words(name).counts)
            if metric_words(name).counts
            else _significant(value)
            for name, value in whole["metrics"].items()
            if whole["behind"].get(name, k) >= k
        },
        "behind": {},
        "chance": {name: round(value, 2) for name, value in whole["chance"].items()},
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
        "verdict": None,
        "provenance": {n: v for n, v in whole["provenance"].items() if "seed" not in n},
    }
    # the verdict is about all figures, its sentences quote those that are shown
    judged, quoted = verdict({**whole, "attacks": told}), verdict(shown)
    given = whole["verdict"] or {}
    final: Verdict = {
        "privacy": _quoting(judged["privacy"], quoted["privacy"], HEADLINES, "privacy" in given),
        "use": _quoting(judged["use"], quoted["use"], USE, "use" in given),
    }
    # whom attacks could be tried on decides what the verdict advises, and is nobody's business
    unsaid: Result = {**shown, "people": None, "apart": None}
    return {**unsaid, "k": k, "edition": "public", "verdict": final}


def _quoting(
    judged: Judgement, quoted: Judgement, headlines: Mapping[Level, str], given: bool
) -> Judgement:
    """Return a judgement in the words of the figures that are shown, else without figures.

    What a family wrote itself quotes figures in its details only.
    """
    if given:
        return {**judged, "details": []}
    if quoted["level"] == judged["level"]:
        return {**quoted, "next": judged["next"]}
    return {**judged, "reason": f"{headlines[judged['level']]}.", "details": []}


def _told(attacks: Mapping[str, AttackFigures]) -> dict[str, AttackFigures]:
    """Return the attacks that the public edition shows, graded before their figures are rounded."""
    return {
        name: {**attack, "grade": grade(name, attack, len(attacks))}
        for name, attack in attacks.items()
        if not attack.get("owner_only")
    }


def _refuse_few(records: int | None, k: int) -> None:
    if records is not None and records < k:
        raise PrivacyError(
            f"a public report shows aggregates of at least {k} records, but one of the tables "
            f"has {records}: use the owner's edition"
        )


def hide_small(
    rows: Sequence[Mapping[str, Any]], k: int, hide: str, count: str = "count"
) -> list[dict[str, Any]]:
    """Return rows with the field ``hide`` (and the count) None where ``count`` is below ``k``.

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


def _public_blocks(blocks: Sequence[Block], k: int, least: float) -> list[Block]:
    return [_public_block(block, k, least) for block in blocks if not block["owner_only"]]


def _public_block(block: Block, k: int, least: float) -> Block:
    if block["type"] == "chart":
        return {**block, "rows": _public_rows(block["chart"], block["rows"], k)}
    if block["type"] == "table":
        rows = _distances(block, k, least) if block["behind"] else _public_table(block, k)
        return {**block, "rows": rows, "behind": []}
    if block["type"] == "list":
        return block
    facts: list[Fact] = [{**fact, "value": _significant(fact["value"])} for fact in block["rows"]]
    return {**block, "rows": facts}


def _public_rows(kind: str, rows: Sequence[Mapping[str, Any]], k: int) -> list[Any]:
    if kind == "histogram":
        shown = hide_small(hide_small(rows, k, "original"), k, "release", "released")
        return _rounded(shown)
    if kind == "density":
        kept = [row for row in rows if row["of"] == "release" or (row["count"] or 0) >= k]
        return _rounded(kept)
    if kind == "ranking":
        return _rounded([row for row in rows if row.get("count") is None or row["count"] >= k])
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


def _public_table(block: Table, k: int) -> list[list[Any]]:
    counted = {i for i, name in enumerate(block["columns"]) if name in block["counts"]}
    return [_public_cells(row, counted, k) for row in block["rows"]]


def _distances(block: Table, k: int, least: float) -> list[list[Any]]:
    """Return distances between tables: as coarse as ``k`` records, none that rests on fewer."""
    hidden = [behind < k for behind in block["behind"]]
    return [
        [None if few and _is_decimal(cell) else _counted(cell, least) for cell in row]
        for few, row in zip(hidden, block["rows"])
    ]


def _counted(value: Any, least: float) -> Any:
    """Round a share of the records, or a distance in shares, to the smallest step shown."""
    return round(round(value / least) * least, 4) if _is_decimal(value) else value


def _public_cells(row: Sequence[Any], counted: set[int], k: int) -> list[Any]:
    """Return a row of a table; next to a hidden count, a share would give it away."""
    small = {i for i in counted if isinstance(row[i], Real) and row[i] < k}
    cells = [None if small and _is_decimal(cell) else _significant(cell) for cell in row]
    return [f"< {k}" if i in small else cell for i, cell in enumerate(cells)]


def _coarse(attack: AttackFigures, k: int) -> AttackFigures:
    """Return rates in steps that count at least ``k`` attempts; no counts, no details."""
    own, other = (_step(count, k) for count in _tried(attack))
    both, control = max(own, other), attack["control"]
    return {
        "name": attack["name"],
        "rate": _stepped(attack["rate"], own),
        "low": _stepped(attack["low"], own),
        "high": _stepped(attack["high"], own),
        "baseline": _stepped(attack["baseline"], own),
        "control": None if control is None else _stepped(control, other),
        "risk": _stepped(attack["risk"], both),
        "risk_low": _stepped(attack["risk_low"], both),
        "risk_high": _stepped(attack["risk_high"], both),
        "failed": attack["failed"],
        "note": attack["note"],
        "story": attack["story"],
        "grade": attack["grade"],
    }


def _tried(attack: AttackFigures) -> tuple[int, int]:
    """Return how many people an attack was tried on, in the data and outside."""
    own = attack.get("independent") or attack["attempts"]
    return own, attack.get("control_attempts") or own


def _step(count: int, k: int) -> float:
    return max(0.01, k / count)


def _stepped(value: float, step: float) -> float:
    return round(min(1.0, round(value / step) * step), 4)


def _coarse_gate(gate: Gate, k: int) -> Gate:
    """Return the value as coarse as its figure; none where it would contradict the outcome."""
    people, value = gate.get("people") or k, gate["value"]
    hidden: Gate = {
        "name": gate["name"],
        "limit": gate["limit"],
        "value": None,
        "holds": gate["holds"],
    }
    if value is None or people < k:
        return hidden
    share = gate["name"].startswith("max_")
    coarse = _stepped(value, _step(people, k)) if share else _significant(value)
    told = (coarse > gate["limit"]) == (value > gate["limit"])
    return {**hidden, "value": coarse} if told else hidden


def _is_decimal(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, Integral)


_DIGITS = 3  # of a rounded figure


def _significant(value: Any) -> Any:
    if not _is_decimal(value) or value == 0 or not math.isfinite(value):
        return value
    rounded = round(float(value), _DIGITS - 1 - math.floor(math.log10(abs(value))))
    return 0.999 if rounded == 1 and value < 1 else rounded  # not quite perfect is never 1


def _public_command(command: str) -> str:
    """Return the command without folders and seeds."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    return shlex.join(
        "..." if place and words[place - 1] == "--seed" else _public_word(word)
        for place, word in enumerate(words)
    )


def _public_word(word: str) -> str:
    """Return a word without folders; they may follow an option directly (``-o/home/..``)."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    if option == "--seed" and equals:
        return "--seed=..."
    short = re.match(r"-[a-zA-Z](?=.)", value)
    option += short.group() if short else ""
    return option + equals + re.split(r"[/\\]", value)[-1].removeprefix(option)
