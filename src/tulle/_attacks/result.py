"""The honest result of an attack: a rate with its interval, next to guessing and a control.

A rate alone says little. *Baseline* is what the attacker gets by guessing, without the release.
*Control* is what the same attack gets on people who were never in the data: what the release
tells about anyone. What remains is the *risk*: the excess over the control (over the baseline,
if there is no control), with the interval of Newcombe for a difference of two shares. Where the
same people are tried in several releases, inside some and outside others, the interval counts
people, not attempts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np

from tulle._attacks.records import Records
from tulle._types import Flags, Ints
from tulle.errors import ParameterError

NO_EVIDENCE = "the attack failed: this is not evidence of safety"

_Z95 = 1.959963984540054


class Interval(NamedTuple):
    """The two ends of a 95 % interval."""

    low: float
    high: float


class Tries(NamedTuple):
    """Whom an attack was tried on, and whether it was right: one entry for each attempt."""

    people: Ints
    right: Flags


def _tries_of(people: Records | Ints | None, right: Flags | None) -> Tries | None:
    """Return the attempts on people who can be told apart; None where nothing numbers them."""
    whose = people.people if isinstance(people, Records) else people
    return None if whose is None or right is None else Tries(whose, right)


@dataclass(frozen=True)
class Scene:
    """What an attack is tried on: people, the release made of them, people who were kept out.

    At most ``attempts`` of both are attacked; all records are searched.
    """

    original: Records
    release: Records
    control: Records | None = None
    attempts: int = 1000

    def people(self, rng: np.random.Generator) -> tuple[Ints, Records]:
        """Draw those who are attacked: which records of the original, and these."""
        rows = self.original.sample(self.attempts, rng)
        return rows, self.original.take(rows)

    def strangers(self, rng: np.random.Generator) -> Records | None:
        """Draw those of the control who are attacked in the same way."""
        if self.control is None:
            return None
        return self.control.take(self.control.sample(self.attempts, rng))


class AttackFigures(TypedDict):
    """A result as plain numbers and words, for reports and JSON.

    Counts and details are the owner's: a public edition has rates only.
    """

    name: str
    rate: float
    low: float
    high: float
    baseline: float
    control: float | None
    risk: float
    risk_low: float
    risk_high: float
    failed: bool
    note: str
    story: str
    attempts: NotRequired[int]
    independent: NotRequired[int]
    successes: NotRequired[int]
    control_attempts: NotRequired[int | None]
    details: NotRequired[dict[str, Any]]
    owner_only: NotRequired[bool]
    grade: NotRequired[str]  # set where figures are rounded: rounding must not change it


def wilson(successes: float, attempts: int) -> Interval:
    """Compute Wilson's 95 % interval for a share; also right at 0 and 1, where others break.

    >>> wilson(0, 50)
    Interval(low=0.0, high=0.071...)
    """
    share = successes / attempts
    weight = _Z95**2 / attempts
    middle = (share + weight / 2) / (1 + weight)
    spread = math.sqrt(weight * share * (1 - share) + weight**2 / 4) / (1 + weight)
    # the formula is exact at both ends, floating point is not
    low = 0.0 if successes <= 0 else max(0.0, middle - spread)
    high = 1.0 if successes >= attempts else min(1.0, middle + spread)
    return Interval(low, high)


@dataclass(frozen=True)
class AttackResult:
    """What an attack got, out of how many attempts, and what it would have got anyway.

    Parameters
    ----------
    name
        The key of the attack in a report.
    attempts, successes
        How often the attacker tried and was right.
    baseline_successes
        How often guessing would have been right in as many attempts; may be an expectation.
    control_successes, control_attempts
        The same attack on people who were never in the data; as many attempts unless said.
    independent
        How many of the attempts do not hang together, if fewer than all: people, where several
        values of each are tried. The interval is as wide as theirs.
    error
        The standard error of the excess, if it is not that of independent attempts.
    inside, outside
        The attempts on people in the data and on the control, where people are numbered.
    story
        Who the attacker is, what they hold and what counts as a success, in one sentence.
    details
        Plain numbers and words that help to read the result; never a cell of the data.

    Examples
    --------
    >>> result = AttackResult("linkage", 200, 150, 1, control_successes=20)
    >>> result.rate, result.control, round(result.risk, 3), result.failed
    (0.75, 0.1, 0.65, False)
    >>> AttackResult("linkage", 200, 2, 1).note
    'the attack failed: this is not evidence of safety'
    """

    name: str
    attempts: int
    successes: int
    baseline_successes: float
    control_successes: int | None = None
    control_attempts: int | None = None
    independent: int | None = None
    story: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    error: float | None = None
    inside: Tries | None = field(default=None, compare=False, repr=False)
    outside: Tries | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        name: str,
        right: Flags,
        guessed: float,
        strange: Flags | None = None,
        *,
        people: Records | Ints | None = None,
        strangers: Records | Ints | None = None,
        story: str = "",
        details: Mapping[str, Any] = MappingProxyType({}),
    ) -> AttackResult:
        """Return the result of an attack that was ``right`` about these and those ``strange`` ones.

        ``people`` and ``strangers`` are their records or numbers, where something numbers them.
        """
        known = strange is not None and len(strange) > 0
        return cls(
            name,
            len(right),
            int(right.sum()),
            float(guessed),
            int(strange.sum()) if strange is not None and known else None,
            len(strange) if strange is not None and known else None,
            story=story,
            details=details,
            inside=_tries_of(people, right),
            outside=_tries_of(strangers, strange) if known else None,
        )

    def __post_init__(self) -> None:
        _check_counts(self.name, "successes", self.successes, self.attempts)
        _check_counts(self.name, "baseline_successes", self.baseline_successes, self.attempts)
        if self.independent is not None:
            _check_counts(self.name, "independent", self.independent, self.attempts)
        if self.control_successes is not None:
            if self.control_attempts is None:
                object.__setattr__(self, "control_attempts", self.attempts)
            tried = self.control_attempts or 0
            _check_counts(self.name, "control_successes", self.control_successes, tried)

    @property
    def rate(self) -> float:
        """The share of attempts that succeeded."""
        return self.successes / self.attempts

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the rate."""
        if self.independent is None:
            return wilson(self.successes, self.attempts)
        return wilson(self.rate * self.independent, self.independent)

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval of the rate."""
        return self.interval.low

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval of the rate."""
        return self.interval.high

    @property
    def baseline(self) -> float:
        """The share that guessing gets right."""
        return self.baseline_successes / self.attempts

    @property
    def control(self) -> float | None:
        """The share on people who were never in the data; None without a control."""
        if self.control_successes is None or self.control_attempts is None:
            return None
        return self.control_successes / self.control_attempts

    @property
    def risk(self) -> float:
        """The excess over the control, or over the baseline if there is no control."""
        reference = self.baseline if self.control is None else self.control
        return max(0.0, self.rate - reference)

    @property
    def risk_interval(self) -> Interval:
        """The 95 % interval of the excess; above 0 only if the excess is real."""
        rate, own = self.rate, self.interval
        if self.control is None or self.control_successes is None or not self.control_attempts:
            return Interval(own.low - self.baseline, own.high - self.baseline)
        excess = rate - self.control
        if self.error is not None:
            return Interval(excess - _Z95 * self.error, excess + _Z95 * self.error)
        other = wilson(self.control_successes, self.control_attempts)
        low = excess - math.hypot(rate - own.low, other.high - self.control)
        high = excess + math.hypot(own.high - rate, self.control - other.low)
        return Interval(low, high)

    @property
    def failed(self) -> bool:
        """True if the attack did not beat its own baseline beyond chance."""
        return self.low <= self.baseline

    @property
    def note(self) -> str:
        """What must be said next to the figure; empty if the attack worked."""
        return NO_EVIDENCE if self.failed else ""

    def to_dict(self) -> AttackFigures:
        """Return plain numbers and words, ready for a report or for JSON."""
        risk = self.risk_interval
        return {
            "name": self.name,
            "attempts": self.attempts,
            "independent": self.attempts if self.independent is None else self.independent,
            "successes": self.successes,
            "rate": self.rate,
            "low": self.low,
            "high": self.high,
            "baseline": self.baseline,
            "control": self.control,
            "control_attempts": self.control_attempts,
            "risk": self.risk,
            "risk_low": risk.low,
            "risk_high": risk.high,
            "failed": self.failed,
            "note": self.note,
            "story": self.story,
            "details": dict(self.details),
        }


def pooled(results: Sequence[AttackResult]) -> AttackResult:
    """Join the same attack on several releases, each of another part of the same people.

    Whoever was tried several times adds all their attempts to the rates, but counts once in the
    interval. An attack that does not say whom it tried counts as if there were one release.
    """
    results = [one for one in results if one.control is not None] or list(results)
    first = results[0]
    if len(results) == 1:
        return first
    told = f"{first.story} Tried in {len(results)} releases, each of another part of the people."
    inside = [one.inside for one in results if one.inside is not None]
    outside = [one.outside for one in results if one.outside is not None]
    numbered = len(inside) == len(outside) == len(results)
    share = 1.0 if numbered else 1 / len(results)
    strange = [one.control_successes for one in results if one.control_successes is not None]
    apart = [one.control_attempts for one in results if one.control_attempts is not None]
    members = _joined(inside) if numbered else None
    return replace(
        first,
        attempts=math.ceil(share * sum(one.attempts for one in results)),
        successes=round(share * sum(one.successes for one in results)),
        baseline_successes=share * sum(one.baseline_successes for one in results),
        control_successes=round(share * sum(strange)) if strange else None,
        control_attempts=math.ceil(share * sum(apart)) if strange else None,
        independent=None if members is None else len(np.unique(members.people)),
        error=None if members is None else error_by_people(members, _joined(outside)),
        story=told,
        details=_usual([one.details for one in results]),
        inside=None,
        outside=None,
    )


def error_by_people(inside: Tries, outside: Tries) -> float:
    """Compute the standard error of the rate inside minus that outside, with people as the unit.

    Each person adds something to the difference, by all their attempts on both sides; the error
    is that of a sum of so many independent parts. Half a person more who is found only inside and
    half a one only outside keep it above 0 (as Agresti and Min do for pairs).
    """
    people = np.concatenate([inside.people, outside.people])
    _, place = np.unique(people, return_inverse=True)
    parts = (inside.right - inside.right.mean()) / len(inside.right)
    others = (outside.right.mean() - outside.right) / len(outside.right)
    added = np.bincount(place.ravel(), np.concatenate([parts, others]))
    fewest = min(len(np.unique(side.people)) for side in (inside, outside))
    spread = float((added**2).sum()) * len(added) / max(1, len(added) - 1)
    return math.sqrt(spread + 1 / (fewest + 2) ** 2)


def _joined(tries: Sequence[Tries]) -> Tries:
    people, right = zip(*tries)
    return Tries(np.concatenate(people), np.concatenate(right))


def _usual(details: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what most releases agree on: the mean of numbers, and the commonest word."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for one in details for name in one):
        values = [one[name] for one in details if name in one]
        if 2 * len(values) <= len(details):
            continue  # chance in one of them
        words = [value for value in values if isinstance(value, str)]
        found[name] = max(words, key=words.count) if words else float(np.mean(values))
    return found


def _check_counts(name: str, what: str, count: float, attempts: int) -> None:
    if attempts < 1:
        raise ParameterError(f"The attack '{name}' needs at least one attempt. Got {attempts}.")
    if not 0 <= count <= attempts:
        raise ParameterError(
            f"The attack '{name}' has {what}={count:g} outside the range [0, {attempts}]."
        )
