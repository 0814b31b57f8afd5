"""Plain words for the names of measures and attacks, and for numbers.

The words themselves are data (``words.toml``); here they are only looked up.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Words(NamedTuple):
    """How a measure is called, what it says, and how its number is written."""

    label: str
    help: str
    style: str = "plain"  # or share, percent (a number that is per cent already)
    about: str = "mining"  # what is left to mine; or people: how near it stays to them; or peers
    counts: float = 0.0  # a share of the records: how much all of them are


class Criterion(NamedTuple):
    """One of the questions that a data-protection officer asks, and the attacks that answer it."""

    name: str
    question: str
    attacks: list[str]  # beginnings of their names


class Preset(NamedTuple):
    """A group size that is customary somewhere, and where."""

    k: int
    source: str


WRITTEN = tomllib.loads((Path(__file__).parent / "words.toml").read_text("utf-8"))
METRICS = {name: Words(**row) for name, row in WRITTEN["measures"].items()}  # as a report has them
ATTACKS: Mapping[str, str] = WRITTEN["attacks"]
CRITERIA = [Criterion(**row) for row in WRITTEN["criteria"]]
PRESETS = [Preset(**row) for row in WRITTEN["presets"]]
ROLES: Mapping[str, str] = WRITTEN["roles"]  # what each role of a column means
GATE_WORDS: Mapping[str, str] = WRITTEN["gates"]  # limits that a user may set
BOUND = (
    "They bound one thing: the chance 1/k of picking a person's own record when only the group is "
    "known. They are custom, not law, and say nothing of inference, membership or outliers."
)
_FOUND = {"grave": "grave", "notable": "notable", "undecided": "not decided"}
FINDINGS = {**_FOUND, "": "nothing notable"}  # what an attack comes to


def criterion_of(name: str) -> str:
    """Return the question that an attack answers; empty for one that nobody has filed.

    >>> criterion_of("inference:income"), criterion_of("5_known_pairs:age")
    ('Inference', 'Inference')
    """
    kind = name.partition(":")[0]
    kind = kind.partition("_")[2] if kind[:1].isdigit() else kind
    return next((c.name for c in CRITERIA if kind.startswith(tuple(c.attacks))), "")


def metric_words(name: str) -> Words:
    """Return what a report says of a measure; an unknown one keeps its own name."""
    return METRICS.get(name, Words(_spaced(name), ""))


def metric_rank(name: str) -> int:
    """Return the position of a measure in a report; unknown ones come last, in the order given."""
    return list(METRICS).index(name) if name in METRICS else len(METRICS)


def attack_label(name: str) -> str:
    """Return the label of an attack; ``inference:income`` reads 'Inference: income'.

    >>> attack_label("inference:income")
    'Inference: income'
    """
    kind, colon, column = name.partition(":")
    label = ATTACKS.get(kind, _spaced(kind))
    return f"{label}: {column}" if colon else label


def control_words(name: str) -> str:
    """Say who or what the control of an attack is."""
    hidden = name.startswith("rule_")
    return "rules that nobody hid" if hidden else "people who were never in the data"


def number(value: Any, style: str = "plain") -> str:
    r"""Format a number for people; words pass through.

    >>> number(32561), number(0.98765), number(0.0512, "share"), number(None), number(True)
    ('32,561', '0.988', '5.1\xa0%', '-', 'yes')
    >>> number(1.0), number(0.99999), number(0.99969)
    ('1', '> 0.9999', '0.9996')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {number(entry)}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(number(entry) for entry in value)
    if not isinstance(value, int | float):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "-"
    if style == "share":
        return _share(float(value))
    if style == "percent":
        return f"{value:.3g}\N{NO-BREAK SPACE}%"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if 0.9995 <= value < 1:
        return _almost_one(value)
    return f"{value:.3g}"


def as_given(value: Any) -> str:
    """Format a seed or a version as one would type it; everything else for people."""
    return str(value) if isinstance(value, int) else number(value)


def _almost_one(value: float) -> str:
    """Format a value that is not quite perfect, never as 1."""
    return f"{math.floor(value * 1e4) / 1e4:g}" if value < 0.9999 else "> 0.9999"


def _share(value: float) -> str:
    percent = 100 * value
    if 0 < percent < 0.05:
        return "<\N{NO-BREAK SPACE}0.1\N{NO-BREAK SPACE}%"
    if 99.95 <= percent < 100:
        return ">\N{NO-BREAK SPACE}99.9\N{NO-BREAK SPACE}%"
    digits = 0 if percent in (0, 100) else 1
    return f"{percent:.{digits}f}\N{NO-BREAK SPACE}%"


def _spaced(name: str) -> str:
    text = name.replace("_", " ")
    return text[:1].upper() + text[1:]


def answer(verdict: Mapping[str, Any]) -> tuple[str, str]:
    """Return the answer to "may we send it?", and what it means."""
    privacy, use = verdict["privacy"]["level"], verdict["use"]["level"]
    row = WRITTEN["answers"]["useless" if (privacy, use) == ("good", "bad") else privacy]
    return row["answer"], row["meaning"]


_ATTACKED = {  # what an attack is right about, and its control: people, but for those on rules
    "rule_": ("hidden rules", "rules that nobody hid"),
    "removed_items": ("removed items", "items that were not removed"),
    "": ("people in the data", "people who were never in it"),
}


def worst_told(name: str, of_hundred: list[int], *, strangers: bool) -> dict[str, Any]:
    """Say how many of 100 people an attack is right about, and of 100 others or by guessing.

    >>> worst_told("rule_recovery", [25, 23], strangers=False)["text"]
    'it is right about 25 of 100 hidden rules; guessing is about 23.'
    """
    right, others = of_hundred
    what, control = next(pair for start, pair in _ATTACKED.items() if name.startswith(start))
    if name.partition(":")[0] == "membership" and strangers:
        text = (f"of 100 people in the data it says of {right} that they are in it, and it says "
                f"so of {others} of 100 who are not.")  # fmt: skip
    elif strangers:
        text = f"it is right about {right} of 100 {what}, and about {others} of 100 {control}: "
        text += "only the difference is the release's fault."
    else:
        text = f"it is right about {right} of 100 {what}; guessing is about {others}."
    return {"text": text, "who": (what, control if strangers else "by guessing")}
