"""The verdict: what a reader must know first, in plain words.

In order of importance: a broken guarantee, a gate that failed, an attack with an excess
that is large and real. Many attacks are tried at once, so an excess is real only beyond the bound
of Bonferroni for their number. Having been in the data is a smaller secret than what is in it,
and no method here hides it: membership weighs less. A rule that is suspected is not yet known:
its recovery asks for a closer look only. Without a control it is unknown whether an attack on a
table does well because of the people in it or because columns are related for anyone: then only
copies and links of many people are grave, and an inference never is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist

from tulle._attacks.result import AttackFigures
from tulle._plurals import counted
from tulle._report.model import Gate, Level, Verdict, Whole
from tulle._report.words import attack_label, control_words, number

NOTABLE = 0.02  # an excess of two points over people who were never in the data
GRAVE = 0.10
_GRAVE_OF = {
    "membership": 0.50,
    **dict.fromkeys(("rule_recovery", "rule_steps", "removed_items"), math.inf),
}
_GRAVE_WITHOUT_CONTROL = {
    # strangers in one dimension reach a fifth
    **dict.fromkeys(("exact_copies", "near_copies", "linkage", "linkage_one_to_one"), 0.30),
    **dict.fromkeys(("singling_out", "inference"), math.inf),
}
_MOST_TOLD = 5  # kinds of attacks


def verdict(result: Whole) -> Verdict:
    """Return ``level`` (good, caution, bad, none), ``text``, and the ``reasons`` behind them."""
    if result["verdict"]:
        return result["verdict"]
    broken = _broken(result)
    grave, notable = _attacks_graded(result, "grave"), _attacks_graded(result, "notable")
    if broken:
        return _verdict("bad", "Do not release this: what was asked for does not hold.", broken)
    if grave:
        text = "Do not release this: it reveals something about people in the data."
        return _verdict("bad", text, grave + notable)
    if notable:
        asked = _no_control(result["attacks"])
        than = "guessing, and there is no control to compare it with" if asked else "expected"
        text = f"Look closer before you release this: an attack does better than {than}."
        return _verdict("caution", text, notable + asked)
    if not result["attacks"]:
        untried = "No attack was tried on this release."
        if result["guarantee"] and result["guarantee"]["rows"]:
            return _verdict("good", "What was asked for holds.", [untried])
        return _verdict("none", untried, [])
    text = "No attack revealed more about people in the data than about anyone else."
    return _verdict("good", text, _caveats(result["attacks"]))


def _verdict(level: Level, text: str, reasons: list[str]) -> Verdict:
    return {"level": level, "text": text, "reasons": reasons}


def _broken(result: Whole) -> list[str]:
    promises = result["guarantee"]["rows"] if result["guarantee"] else []
    reasons = [
        f"Guarantee not met: {row['name']} is {number(row['found'])}, required "
        f"{number(row['asked'])}."
        for row in promises
        if not row["holds"]
    ]
    return reasons + [_gate_told(gate) for gate in result["gates"] if not gate["holds"]]


def _gate_told(gate: Gate) -> str:
    limit = number(gate["limit"])
    if gate["value"] is None:  # the public edition may not tell it
        return f"Gate failed: {gate['name']}; the limit is {limit}."
    return f"Gate failed: {gate['name']} is {number(gate['value'])}, the limit is {limit}."


def grade(name: str, attack: AttackFigures, tried: int) -> str:
    """Return 'grave', 'notable' or '' for the excess of one of ``tried`` attacks.

    A grade that was given before stays: the public edition rounds figures, not grades.
    """
    if "grade" in attack:
        return attack["grade"]
    spread = (attack["risk"] - attack["risk_low"]) / NormalDist().inv_cdf(0.975)
    needed = NormalDist().inv_cdf(1 - 0.025 / max(1, tried)) * spread
    if attack["risk"] < max(NOTABLE, needed):
        return ""
    kind = name.partition(":")[0]
    limit = _GRAVE_OF.get(kind, GRAVE)
    if attack["control"] is None:
        limit = _GRAVE_WITHOUT_CONTROL.get(kind, limit)
    return "grave" if attack["risk"] >= limit else "notable"


def _attacks_graded(result: Whole, wanted: str) -> list[str]:
    """Describe the attacks of a grade: the worst of each kind, the worst first."""
    attacks = result["attacks"]
    found = [n for n, attack in attacks.items() if grade(n, attack, len(attacks)) == wanted]
    found.sort(key=lambda name: -attacks[name]["risk"])
    worst: dict[str, str] = {}
    for name in found:
        worst.setdefault(name.partition(":")[0], name)
    told = [_told(name, attacks[name]) for name in list(worst.values())[:_MOST_TOLD]]
    rest = len(found) - len(told)
    more = f"{counted(rest, 'more attack')}: see the table of attacks."
    return [*told, more] if rest else told


def _told(name: str, attack: AttackFigures) -> str:
    guessing = attack["control"] is None
    against = "by guessing" if guessing else f"for {control_words(name)}"
    reference = attack["baseline"] if guessing else attack["control"]
    return (
        f"{attack_label(name)}: right in {number(attack['rate'], 'share')} of the attempts, "
        f"{against} in {number(reference, 'share')}."
    )


def _caveats(attacks: Mapping[str, AttackFigures]) -> list[str]:
    notes = ["This is evidence about these attacks, not proof against all attacks."]
    notes += _no_control(attacks)
    failed = sum(bool(attack["failed"]) for attack in attacks.values())
    if failed:
        notes.append(
            f"{failed} of {len(attacks)} attacks did no better than guessing: that is not "
            "evidence of safety."
        )
    return notes


def _no_control(attacks: Mapping[str, AttackFigures]) -> list[str]:
    """Say what is missing if attacks that a control would explain have none."""
    explained = [n for n in attacks if n.partition(":")[0] in _GRAVE_WITHOUT_CONTROL]
    if not explained or any(attacks[name]["control"] is not None for name in explained):
        return []
    return [
        "No control was given: the attacks are compared with guessing only, and what the "
        "release reveals about anyone counts as a risk. Keep some records out of the release "
        "and pass them as the control."
    ]
