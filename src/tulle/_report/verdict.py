"""The verdict: one sentence on privacy and one on fitness for use, each with what to do next.

On privacy, in order of importance: a broken guarantee, a gate that failed, an attack with an excess
that is large and real. Many attacks are tried at once, so an excess is real only beyond the bound
of Bonferroni for their number: one false alarm in a hundred releases at most. An attack that found
nothing decides nothing unless it could have found something: where the interval of its excess
reaches what would be grave, it is not decided; nor is membership where an excess that would be
notable may be chance. Having been in the data is a smaller secret than what is in it, and no method
here hides it: membership weighs less. A rule that is suspected is not yet known: its recovery asks
for a closer look only. Without a control it is unknown whether an attack on a table does well
because of the people in it or because columns are related for anyone: then only copies and links of
many people are grave, and an inference never is. Fitness for use is judged in
:mod:`tulle._report.fitness`. Where what helps the one would harm the other, both name the same
step, which harms neither; and no step is named that this table cannot take. A release that is of no
use hides people as a cipher does: nothing found in it is nothing decided.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist

from tulle._attacks.linkage import BEYOND_CHANCE
from tulle._attacks.result import AttackFigures
from tulle._plurals import counted
from tulle._report.fitness import SMALLER, fitness, lost_in
from tulle._report.model import Gate, Judgement, Level, Result, Verdict
from tulle._report.words import PRESETS, WRITTEN, attack_label, control_words, number

NOTABLE = 0.02  # an excess of two points over people who were never in the data
GRAVE = 0.10
_NOTABLE_OF, _GRAVE_OF, _GRAVE_WITHOUT_CONTROL = (
    WRITTEN["excess"][what] for what in ("notable", "grave", "grave_without_control")
)
_COPIES = ("exact_copies", "near_copies")
FEWEST = PRESETS[0].k
_FALSE_ALARM = 0.01  # of all attacks on a release together
_MOST_TOLD = 5  # kinds of attacks
_Z = NormalDist().inv_cdf(0.975)
_CLOSEST = 0.03  # to a limit, for which the size of a control is still worked out

LARGER = "take larger groups"
_MORE = (LARGER, "raise --margin", "look for a delta")  # the words of advice that costs use
_ADVICE: Mapping[str, str] = WRITTEN["advice"]  # against an attack, by the beginning of its name
HEADLINES: Mapping[Level, str] = WRITTEN["headlines"]["privacy"]
CLASSES = (
    "Classes may survive where neighbours do not: keep a label (--keep) and try tulle learn "
    "--classes."
)
_KEEP_APART = "keep a control apart (--holdout 10%, or tulle split) and run this again"
_DECIDE = (
    "have whoever decides read what this does not protect, and file the report with the decision"
)


def verdict(result: Result) -> Verdict:
    """Return the judgements on privacy and on use; what a family judged itself stands."""
    given = result["verdict"] or {}
    privacy, use = given.get("privacy") or _privacy(result), given.get("use") or fitness(result)
    likeness = not given and "propensity_auc" in result["metrics"]  # of tables
    if likeness and (privacy["level"], use["level"]) == ("good", "bad"):
        reason = (
            "no attack found anything, but the release is so unlike the data that attacks may have "
            f"looked for the wrong thing. {use['reason']}"
        )
        privacy = _judged("undecided", reason, "make a release that is fit for use", [])
    for step, more, less in () if given else zip(_steps(result), _MORE, SMALLER):
        asks = more in privacy["next"].lower(), less in use["next"].lower()
        if all(asks) or ((result["tried"] or result["remedy"]) and any(asks)):
            privacy = {**privacy, "next": step} if asks[0] else privacy
            use = {**use, "next": step} if asks[1] else use
    if result["remedy"] and privacy["level"] == "bad":  # it was tried: no other advice was
        privacy = {**privacy, "next": result["remedy"]}
    return {"privacy": privacy, "use": use}


def _steps(result: Result) -> tuple[str, ...]:
    """Return what helps where more protection would cost use, and less would cost privacy."""
    read = inferred(result["attacks"])
    column = lost_in(result) or (f"column '{read}'" if read else "columns that nobody needs")
    why = "a larger k would cost use, a smaller one privacy"
    if result["tried"]:
        why = f"of k = {', '.join(map(str, result['tried']))} this is the best"
    step = f"Change columns, not k: {why}. Leave out or coarsen {column}, and run this again."
    return (
        result["remedy"] or step,
        "Hide fewer rules, or share rules instead of baskets (--share rules): a larger margin "
        "would cost use, a smaller one privacy.",
        result["remedy"]
        or "See what each delta costs (tulle sketch --target-risk lists its trials): one that "
        "hides more would cost use, one that hides less privacy."
        + ("" if "classes_kept" in result["metrics"] else f" {CLASSES}"),
    )


def inferred(attacks: Mapping[str, AttackFigures]) -> str | None:
    """Return the column that is inferred best, if one is that should not be."""
    read = [name for name in _graded(attacks, "grave", "notable") if name.startswith("inference:")]
    return read[0].partition(":")[2].partition(" (")[0] if read else None


def _privacy(result: Result) -> Judgement:
    broken, attacks = _broken(result), result["attacks"]
    grave, notable, unclear = (_graded(attacks, g) for g in ("grave", "notable", "undecided"))
    if broken:
        after = "change the parameters until guarantee and gates hold, or set other gates"
        return _judged("bad", f"what was asked for does not hold. {broken[0]}", after, broken)
    if grave:
        reason = f"it reveals something about people in the data. {_told(attacks, grave[0])}"
        return _judged("bad", reason, advice(grave[0]), _listed(attacks, [*grave, *notable]))
    if notable:
        asked = _no_control(attacks)
        than = "guessing, and there is no control to compare it with" if asked else "expected"
        reason = f"an attack does better than {than}. {_told(attacks, notable[0])}"
        after = _KEEP_APART if asked else advice(notable[0])
        return _judged("caution", reason, after, [*_listed(attacks, notable), *asked])
    small = result["smallest_group"]
    if small is not None and small < FEWEST:
        reason = (
            f"groups hold as few as {counted(small, 'member')}, below every customary minimum, "
            "whatever the attacks found."
        )
        return _judged("caution", reason, f"{LARGER}, of at least {FEWEST}", [])
    if unclear:
        return _not_decided(attacks, unclear, result)
    if not attacks:
        return _judged("undecided", "no attack was tried on this release.", result["untried"], [])
    return _judged("good", _harmless(attacks), _DECIDE, _caveats(attacks))


def _judged(level: Level, reason: str, after: str, details: list[str]) -> Judgement:
    return {
        "level": level,
        "reason": f"{HEADLINES[level]}: {reason}",
        "next": after[:1].upper() + after[1:] + ".",
        "details": details,
    }


def _harmless(attacks: Mapping[str, AttackFigures]) -> str:
    than = "on people in the data than on people who were never in it"
    if next(iter(attacks)).startswith("rule_"):
        than = "on the hidden rules than on rules that nobody hid"
    if all(attack["control"] is None for attack in attacks.values()):
        than = "than guessing"
    if len(attacks) == 1:
        return f"the only attack tried did not do notably better {than}."
    return f"none of {len(attacks)} attacks did notably better {than}."


def _not_decided(
    attacks: Mapping[str, AttackFigures], names: list[str], result: Result
) -> Judgement:
    """Say how many attacks were tried on too few people, and how many people it would take."""
    people, apart = result["people"], result["apart"]
    decided = len(attacks) - len(names)
    which = f" ({attack_label(names[0]).lower()})" if len(names) == 1 else ""
    reason = (
        f"{counted(len(names), 'attack')} of {len(attacks)}{which} had too few attempts to rule "
        "out a grave leak."
    )
    needed = max(_attempts_needed(name, attacks[name]) for name in names)
    told = _round_up(needed)
    if result["more_splits"] > result["splits"] and needed <= (people or 0) * result["more_splits"]:
        after = (
            f"run it without --quick: {counted(result['more_splits'], 'release')} are judged then, "
            f"in place of {result['splits']}"
        )
    elif result["splits"]:
        after = (
            "leave out a column that nobody needs, or decide by k and by who receives it: "
            f"everybody was tried in {counted(result['splits'], 'release')} already, and this "
            "table has no more people"
        )
    elif people is not None and min(people, apart or 0) >= needed:
        after = f"try each attack on about {told} people (tulle audit --attempts)"
    elif people is not None and people + (apart or 0) < 2 * needed:
        after = (
            "decide by k, by who receives it and by the columns that they need: attacks would take "
            f"about {told} people kept apart and as many released, more than this table has"
        )
    else:
        after = (
            f"keep about {told} people apart as the control (--holdout, or tulle split), and "
            "release at least as many"
        )
    open_ones = [f"{attack_label(name)}: not decided." for name in names[:_MOST_TOLD]]
    rest = len(names) - len(open_ones)
    more = [f"{counted(rest, 'more attack')}: see the table of attacks."] if rest else []
    found = [f"{counted(decided, 'attack')} found nothing notable."] if decided else []
    return _judged("undecided", reason, after, [*open_ones, *more, *found])


def _attempts_needed(name: str, attack: AttackFigures) -> int:
    """Return how many people in and outside the data would bring the interval below the limit."""
    share = min(0.5, max(attack["rate"], attack["control"] or 0.0, 0.05))
    room = max(_CLOSEST, grave_from(name, attack) - attack["risk"])
    if _not_beyond_chance(name.partition(":")[0], attack):
        room = attack["risk"]  # is it more than nothing?
    return math.ceil(2 * share * (1 - share) * (_Z / room) ** 2)


def _round_up(count: int) -> str:
    step = 10 ** max(1, len(str(count)) - 2)
    return f"{-(-count // step) * step:,}"


def _broken(result: Result) -> list[str]:
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
    """Return 'grave', 'notable', 'undecided' or '' for the excess of one of ``tried`` attacks.

    A grade that was given before stays: the public edition rounds figures, not grades.
    """
    if "grade" in attack:
        return attack["grade"]
    copied = attack.get("details", {}).get(BEYOND_CHANCE)
    if copied is not None:  # single people, whatever share of everybody they are
        return "grave" if max(copied, attack["risk"]) >= GRAVE else "notable"
    spread = (attack["risk"] - attack["risk_low"]) / _Z
    needed = NormalDist().inv_cdf(1 - _FALSE_ALARM / max(1, tried)) * spread
    limit = grave_from(name, attack)
    kind = name.partition(":")[0]
    notable = _NOTABLE_OF.get(kind, NOTABLE)
    if kind in _COPIES and attack["control"] and attack["rate"] <= 2 * attack["control"]:
        notable = GRAVE / 2  # strangers' records are there as well: a copy tells next to nothing
    if attack["risk"] < max(notable, needed):
        open_still = attack["risk_high"] >= limit or _not_beyond_chance(kind, attack)
        return "undecided" if open_still else ""
    return "grave" if attack["risk"] >= limit else "notable"


def _not_beyond_chance(kind: str, attack: AttackFigures) -> bool:
    """Return whether an excess that would be notable may be chance: few people were tried.

    Only of an attack with a limit of its own: others reach two points by chance all the time.
    """
    return attack["risk"] >= _NOTABLE_OF.get(kind, math.inf)


def grave_from(name: str, attack: AttackFigures) -> float:
    """Return the excess from which an attack is grave."""
    kind = name.partition(":")[0]
    limit = _GRAVE_OF.get(kind, GRAVE)
    return limit if attack["control"] is not None else _GRAVE_WITHOUT_CONTROL.get(kind, limit)


def _graded(attacks: Mapping[str, AttackFigures], *wanted: str) -> list[str]:
    """Return the attacks of some grades, the worst first."""
    found = [n for n, attack in attacks.items() if grade(n, attack, len(attacks)) in wanted]
    return sorted(found, key=lambda name: -attacks[name]["risk"])


def _listed(attacks: Mapping[str, AttackFigures], names: list[str]) -> list[str]:
    """Say what the attacks found: the worst of each kind."""
    worst: dict[str, str] = {}
    for name in names:
        worst.setdefault(name.partition(":")[0], name)
    told = [_told(attacks, name) for name in list(worst.values())[:_MOST_TOLD]]
    rest = len(names) - len(told)
    more = f"{counted(rest, 'more attack')}: see the table of attacks."
    return [*told, more] if rest else told


def _told(attacks: Mapping[str, AttackFigures], name: str) -> str:
    attack = attacks[name]
    guessing = attack["control"] is None
    against = "by guessing" if guessing else f"for {control_words(name)}"
    reference = attack["baseline"] if guessing else attack["control"]
    return (
        f"{attack_label(name)}: right in {number(attack['rate'], 'share')} of the attempts, "
        f"{against} in {number(reference, 'share')}."
    )


def advice(name: str) -> str:
    """Return what helps against an attack."""
    return next(text for start, text in _ADVICE.items() if name.startswith(start))


def _caveats(attacks: Mapping[str, AttackFigures]) -> list[str]:
    notes = ["This is evidence about these attacks, not proof against all attacks."]
    notes += _no_control(attacks)
    failed = sum(bool(attack["failed"]) for attack in attacks.values())
    if failed:
        notes.append(
            f"{failed} of {counted(len(attacks), 'attack')} did no better than guessing: that is "
            "not evidence of safety."
        )
    return notes


def _no_control(attacks: Mapping[str, AttackFigures]) -> list[str]:
    """Return what is missing if attacks that a control would explain have none."""
    explained = [n for n in attacks if n.partition(":")[0] in _GRAVE_WITHOUT_CONTROL]
    if not explained or any(attacks[name]["control"] is not None for name in explained):
        return []
    return [
        "No control was given: the attacks are compared with guessing only, and what the "
        "release reveals about anyone counts as a risk."
    ]
