"""Checks what a family hands to the report, and fills in what it left out.

The shape is written down in :mod:`tulle._report`. A wrong shape is a mistake in code, so the
message says which section and which field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tulle._checks import check_choice
from tulle.errors import ParameterError, nearest_name

_DEFAULTS: dict[str, Any] = {
    "title": None,
    "summary": "",
    "guarantee": None,
    "k": None,
    "records": None,
    "metrics": {},
    "behind": {},
    "attacks": {},
    "sections": [],
    "limits": [],
    "gates": [],
    "command": "",
    "provenance": {},
    "verdict": None,
}
_BLOCK_FIELDS = {
    "facts": ("rows",),
    "table": ("columns", "rows"),
    "chart": ("chart", "rows"),
    "list": ("rows",),
}


def completed(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result with every optional part present; refuses what the page could not show."""
    unknown = [name for name in result if name not in _DEFAULTS]
    if unknown:
        hint = nearest_name(unknown[0], _DEFAULTS)
        raise ParameterError(f"A result for the report has no part '{unknown[0]}': {hint}")
    if not result.get("title"):
        raise ParameterError("A result for the report needs a 'title'.")
    whole = {name: result.get(name) or default for name, default in _DEFAULTS.items()}
    if whole["guarantee"]:
        whole["guarantee"] = {"text": "", "rows": [], **whole["guarantee"]}
    whole["sections"] = [
        _section(section, place) for place, section in enumerate(whole["sections"])
    ]
    return whole


def _section(section: Mapping[str, Any], place: int) -> dict[str, Any]:
    if not section.get("title"):
        raise ParameterError(f"Section {place} of a result for the report needs a 'title'.")
    blocks = [_block(block, section["title"]) for block in section.get("blocks") or []]
    defaults = {"id": f"section-{place}", "text": "", "owner_only": False}
    return {**defaults, **section, "blocks": blocks}


def _block(block: Mapping[str, Any], title: str) -> dict[str, Any]:
    kind = check_choice(f"the section '{title}'", "type", block.get("type"), _BLOCK_FIELDS)
    for field in _BLOCK_FIELDS[kind]:
        if field not in block:
            raise ParameterError(f"A {kind} in the section '{title}' lacks '{field}'.")
    words = dict.fromkeys(("title", "help", "folded"), "")
    defaults = {**words, "counts": [], "behind": [], "owner_only": False}
    if kind == "facts":
        return {
            **defaults,
            **block,
            "rows": [{"help": "", "style": "plain", **row} for row in block["rows"]],
        }
    return {**defaults, **block}
