"""What the codes of several sites reveal.

Aliases hide names, not frequencies: anyone who knows how common each value is can match the ranks.
Graded codes hide scale, not order: anyone who knows a few people, or the distribution, can read the
rest between them. Each attack takes arrays: what the miner sees, what is true, and what the
attacker knows from elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tulle._attacks.result import AttackResult
from tulle._random import RandomState, as_generator
from tulle._types import Floats
from tulle.errors import DataError
from tulle.sites._columns import PARTS

_NEAR = 0.01  # a guess within this share of the range counts as right
_MOST_CATEGORIES = 1000  # more are matched by rank alone


def frequency_matching(
    aliases: Sequence[Any],
    values: Sequence[Any],
    public: Sequence[Any],
    *,
    split: float | None = None,
    name: str = "aliases",
) -> AttackResult:
    """Name aliases by how often they occur, knowing how often each value occurs elsewhere.

    ``aliases``: what the miner sees, one for each record. ``values``: what is true for the same
    records. ``public``: a sample of the same attribute from elsewhere (a census, an older survey).
    ``split``: the share at which frequent values were split into several aliases, which the
    attacker knows too.

    >>> values = ["Flu"] * 5 + ["Gastritis"] * 3 + ["Mumps"]
    >>> aliases = [{"Flu": "a", "Gastritis": "b", "Mumps": "c"}[value] for value in values]
    >>> frequency_matching(aliases, values, public=values).rate
    1.0
    """
    seen, alias_of, alias_counts = _counted(aliases)
    known, _, public_counts = _counted(public)
    true = np.asarray(values, dtype=object)[_present(aliases)]
    shares = public_counts / public_counts.sum()
    parts = np.ones(len(known), dtype=np.int64)
    if split is not None:
        parts = np.clip(np.ceil(shares / split), 1, PARTS).astype(np.int64)
    called = [value for value, count in zip(known, parts) for _ in range(count)]
    match = _match_shares(alias_counts / alias_counts.sum(), np.repeat(shares / parts, parts))
    named = np.array([called[place] if place >= 0 else None for place in match], dtype=object)
    right = int(np.count_nonzero(named[alias_of] == true))
    commonest = known[int(np.argmax(public_counts))]
    return AttackResult(
        f"frequency_matching:{name}",
        attempts=len(true),
        successes=right,
        baseline_successes=int(np.count_nonzero(true == commonest)),
        story=(
            "The miner knows from elsewhere how common each value is, and names the aliases in "
            "the order of their frequency; a record counts if its value is named correctly."
        ),
        details={"aliases": len(seen), "public values": len(known)},
    )


def known_pairs(
    codes: ArrayLike,
    values: ArrayLike,
    known: int,
    *,
    public_range: tuple[float, float] | None = None,
    attempts: int = 500,
    random_state: RandomState = None,
    name: str = "codes",
) -> AttackResult:
    """Read graded codes between those of a few people whose values the attacker knows.

    With one pair the attacker needs the public range to guess the scale; with two or more the
    values in between are read off a monotone, piecewise linear curve. Each attempt draws the known
    people again, and one other whose value is read. A guess within 1 % of the range of the values
    counts as right; guessing the median is the baseline.

    >>> ages = np.arange(20.0, 80.0)
    >>> known_pairs(ages / 15, ages, 2, random_state=0).rate
    1.0
    """
    x, y = _both_present(codes, values)
    rng = as_generator(random_state)
    near = _NEAR * max(float(np.ptp(y)), np.finfo(float).tiny)
    right, count = 0, len(x)
    for _ in range(attempts):
        # known people have nothing left to find out, unless there is nobody else
        drawn = rng.choice(count, size=min(known + 1, count), replace=False)
        insiders, tried = drawn[:-1] if count > 1 else drawn, drawn[-1:]
        guess = _read_between(x[insiders], y[insiders], x[tried], np.ptp(x), public_range)
        right += int(np.count_nonzero(np.abs(guess - y[tried]) <= near))
    lucky = float(np.mean(np.abs(np.median(y) - y) <= near)) * attempts
    return AttackResult(
        f"{known}_known_pair{'s' if known > 1 else ''}:{name}",
        attempts=attempts,
        successes=right,
        baseline_successes=lucky,
        story=(
            f"The miner knows the values of {known} of the people and reads the others off "
            "the curve through their codes; a guess within 1 % of the range counts."
        ),
        details={"known pairs": known},
    )


def order_matching(
    codes: ArrayLike, values: ArrayLike, public: ArrayLike, *, name: str = "codes"
) -> AttackResult:
    """Give each code the value of the same rank in a public sample.

    A guess within 1 % of the range of the values counts; guessing the median is the baseline.

    >>> ages = np.arange(20.0, 80.0)
    >>> order_matching(ages**3, ages, public=ages).rate
    1.0
    """
    x, y = _both_present(codes, values)
    sample = np.sort(_floats(public))
    sample = sample[~np.isnan(sample)]
    if not sample.size:
        raise DataError("order matching needs a public sample that contains values")
    ranks = np.searchsorted(np.sort(x), x, side="left")
    upper = np.searchsorted(np.sort(x), x, side="right")
    shares = (ranks + upper) / (2 * len(x))
    guess = np.quantile(sample, shares, method="inverted_cdf")
    near = _NEAR * max(float(np.ptp(y)), np.finfo(float).tiny)
    return AttackResult(
        f"order_matching:{name}",
        attempts=len(x),
        successes=int(np.count_nonzero(np.abs(guess - y) <= near)),
        baseline_successes=int(np.count_nonzero(np.abs(np.median(sample) - y) <= near)),
        story=(
            "The miner has a public sample of the attribute and gives each code the value of the "
            "same rank; a guess within 1 % of the range counts."
        ),
    )


def _read_between(
    x: Floats, y: Floats, wanted: Floats, width: float, ends: tuple[float, float] | None
) -> Floats:
    """Return values on the monotone curve through some pairs, straight beyond the outermost."""
    order = np.argsort(x)
    x, first = np.unique(x[order], return_index=True)
    y = np.maximum.accumulate(y[order][first])
    if len(x) > 1:
        slope = (y[-1] - y[0]) / (x[-1] - x[0])
    elif ends is not None and width > 0:
        slope = (ends[1] - ends[0]) / width
    else:
        slope = 0.0
    guess = np.interp(wanted, x, y)
    guess = np.where(wanted < x[0], y[0] + slope * (wanted - x[0]), guess)
    guess = np.where(wanted > x[-1], y[-1] + slope * (wanted - x[-1]), guess)
    return guess if ends is None else np.clip(guess, *ends)


def _match_shares(seen: Floats, known: Floats) -> NDArray[np.int64]:
    """Return the place of each alias's value, -1 if none is left, by the nearest shares."""
    match = np.full(len(seen), -1, dtype=np.int64)
    if max(len(seen), len(known)) <= _MOST_CATEGORIES:
        from scipy.optimize import linear_sum_assignment

        rows, columns = linear_sum_assignment(np.abs(seen[:, None] - known[None, :]))
    else:
        count = min(len(seen), len(known))
        rows = np.argsort(-seen, kind="stable")[:count]
        columns = np.argsort(-known, kind="stable")[:count]
    match[rows] = columns
    return match


def _counted(values: Sequence[Any]) -> tuple[list[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Return distinct values, the place of each record's value, and how often each occurs."""
    place: dict[Any, int] = {}
    places = np.array(
        [place.setdefault(value, len(place)) for value in values if not _is_missing(value)],
        dtype=np.int64,
    )
    if not len(places):
        raise DataError("frequency matching needs a column that contains values")
    return list(place), places, np.bincount(places)


def _present(values: Sequence[Any]) -> NDArray[np.bool_]:
    return np.array([not _is_missing(value) for value in values], dtype=bool)


def _is_missing(value: Any) -> bool:
    return value is None or value != value


def _both_present(codes: ArrayLike, values: ArrayLike) -> tuple[Floats, Floats]:
    x, y = _floats(codes), _floats(values)
    there = ~(np.isnan(x) | np.isnan(y)) if len(x) == len(y) else np.zeros(0, dtype=bool)
    if not there.any():
        raise DataError("the attack needs codes and values of the same records")
    return x[there], y[there]


def _floats(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)
