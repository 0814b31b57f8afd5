"""The verdict: what a reader must know first, in plain words.

The order of what counts: a broken guarantee, a gate that is passed, an attack with an excess
that is real (its 95 % interval lies above the control) and large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tulle.report.words import attack_label, number

GRAVE = 0.10  # an excess of ten points over people who were never in the data
NOTABLE = 0.02


def verdict(result: Mapping[str, Any]) -> dict[str, Any]:
    """``level`` (good, caution, bad, none), ``text``, and the ``reasons`` behind them."""
    given = result.get("verdict")
    if given:
        return {"reasons": [], **given}
    broken = _broken(result)
    grave, notable = _attacks_graded(result, "grave"), _attacks_graded(result, "notable")
    if broken:
        return _verdict("bad", "Do not release this: what was asked for does not hold.", broken)
    if grave:
        text = "Do not release this: it tells about people who are in the data."
        return _verdict("bad", text, grave + notable)
    if notable:
        text = "Look closer before you release this: an attack does better than it should."
        return _verdict("caution", text, notable)
    if not result.get("attacks"):
        return _verdict("none", "No attack was tried on this release.", [])
    text = "No attack that was tried tells more about people in the data than about anybody."
    return _verdict("good", text, _caveats(result["attacks"].values()))


def _verdict(level: str, text: str, reasons: list[str]) -> dict[str, Any]:
    return {"level": level, "text": text, "reasons": reasons}


def _broken(result: Mapping[str, Any]) -> list[str]:
    promises: Sequence[Mapping[str, Any]] = (result.get("guarantee") or {}).get("rows") or []
    reasons = [
        f"Guarantee not met: {row['name']} is {number(row.get('found'))}, "
        f"asked was {number(row.get('asked'))}."
        for row in promises
        if row.get("holds") is False
    ]
    return reasons + [
        f"Gate not met: {gate['name']} is {number(gate['value'])}, the limit is "
        f"{number(gate['limit'])}."
        for gate in result.get("gates") or []
        if not gate["holds"]
    ]


def grade(attack: Mapping[str, Any]) -> str:
    """'grave', 'notable' or '' for the excess of an attack; a grade given before stays."""
    if "grade" in attack:
        return str(attack["grade"])
    if attack["risk_low"] <= 0 or attack["risk"] < NOTABLE:
        return ""
    return "grave" if attack["risk"] >= GRAVE else "notable"


def _attacks_graded(result: Mapping[str, Any], wanted: str) -> list[str]:
    return [
        _told(name, attack)
        for name, attack in (result.get("attacks") or {}).items()
        if grade(attack) == wanted
    ]


def _told(name: str, attack: Mapping[str, Any]) -> str:
    guessing = attack["control"] is None
    against = "by guessing" if guessing else "for people who were never in the data"
    reference = attack["baseline"] if guessing else attack["control"]
    return (
        f"{attack_label(name)} succeeds in {number(attack['rate'], 'share')} of the attempts; "
        f"{against} it is {number(reference, 'share')}."
    )


def _caveats(attacks: Any) -> list[str]:
    listed = list(attacks)
    notes = ["This is evidence about these attacks, not a proof against all."]
    if all(attack["control"] is None for attack in listed):
        notes.append(
            "No control was given: the attacks are compared with guessing only. Keep some records "
            "out of the release and pass them as the control."
        )
    failed = sum(bool(attack["failed"]) for attack in listed)
    if failed:
        notes.append(
            f"{failed} of {len(listed)} attacks did no better than guessing: that is no evidence "
            "of safety."
        )
    return notes
