"""A result as Markdown: the same story as the page, without the pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tulle._report.words import as_given, attack_label, number


def as_markdown(shown: Mapping[str, Any]) -> str:
    """The text of a result that :mod:`tulle._report.editions` has prepared."""
    return "\n".join(line for part in _parts(shown) for line in (*part, "")) + "\n"


def _parts(shown: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    judged = shown["verdict"]
    yield [f"# {_inline(shown['title'])}"]
    reasons = [f"- {_inline(reason)}" for reason in judged["reasons"]]
    yield [f"**{_inline(judged['text'])}**", "", *reasons]
    if shown["summary"]:
        yield [_inline(shown["summary"])]
    if shown["guarantee"]:
        yield ["## Guarantee", "", _inline(shown["guarantee"]["text"])]
        rows = shown["guarantee"]["rows"]
        if rows:
            cells = [[r["name"], r.get("asked"), r.get("found"), r.get("holds")] for r in rows]
            yield _table(["promise", "asked", "found", "holds"], cells)
    if shown["gates"]:
        gates = [[g["name"], g["limit"], g["value"], g["holds"]] for g in shown["gates"]]
        yield ["## Gates", "", *_table(["gate", "limit", "value", "holds"], gates)]
    if shown["attacks"]:
        yield ["## Attacks", "", *_attack_table(shown["attacks"])]
    if shown["figures"]:
        rows = [[f["label"], f["text"], f["help"]] for f in shown["figures"]]
        yield ["## Measures", "", *_table(["measure", "value", "meaning"], rows)]
    for section in shown["sections"]:
        yield from _section(section)
    if shown["limits"]:
        limits = [f"- {_inline(limit)}" for limit in shown["limits"]]
        yield ["## What this does not protect", "", *limits]
    if shown["command"]:
        yield ["## How it was made", "", *_fenced(shown["command"])]
    if shown["provenance"]:
        yield _table(["", ""], [[n, as_given(value)] for n, value in shown["provenance"].items()])


def _attack_table(attacks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    header = ["attack", "rate", "95 % interval", "guessing", "control", "risk", "note"]
    rows = []
    for name, a in attacks.items():
        rate, low, high, guess, control, risk = (
            number(a[field], "share")
            for field in ("rate", "low", "high", "baseline", "control", "risk")
        )
        rows.append([attack_label(name), rate, f"{low} to {high}", guess, control, risk, a["note"]])
    return _table(header, rows)


def _section(section: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    yield [f"## {_inline(section['title'])}", "", _inline(section["text"])]
    for block in section["blocks"]:
        if block["type"] == "facts":
            rows = [[r["name"], number(r["value"], r["style"]), r["help"]] for r in block["rows"]]
            yield _table(["", "value", "meaning"], rows)
        elif block["type"] == "table":
            yield _table(block["columns"], block["rows"])
        elif block["type"] == "list":
            yield [f"- {_inline(line)}" for line in block["rows"]]
        else:
            yield [f"*{_inline(block['title'] or block['chart'])}* (chart: see the page)"]


def _fenced(text: str) -> list[str]:
    """Text as it is, within a fence that nothing in it can close."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence, text, fence]


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    lines = [_row(header), "|" + " --- |" * len(header)]
    return lines + [_row(row) for row in rows]


def _row(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(_inline(number(cell)) for cell in cells) + " |"


def _inline(text: str) -> str:
    """Text that cannot start markup, break out of a table cell or carry HTML."""
    plain = " ".join(str(text).split())
    for character in "\\`*_[]|":
        plain = plain.replace(character, "\\" + character)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
