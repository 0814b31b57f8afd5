"""What the codes of several sites reveal.

Aliases hide names, not frequencies: anyone who knows how common each value is can match the ranks.
Graded codes hide scale, not order: anyone who knows a few people, or the distribution, can read the
rest between them. Each attack takes arrays: what the miner sees, what is true, and what the
attacker knows from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from tulle._attacks.result import AttackResult
from tulle._random import RandomState, as_generator
from tulle._types import Floats
from tulle.errors import DataError, nearest_name
from tulle.sites._columns import PARTS
from tulle.sites._values import as_number
from tulle.table._frames import to_polars

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


KNOWN_PAIRS = (1, 2, 5, 10)
WARNING = (
    "Codes hide names and scales from a reader, not frequencies and order from an adversary who "
    "knows the distribution of an attribute or a few of the people. Send them only to a miner "
    "who is bound by contract not to try."
)
_SERIOUS = 0.5  # rates from here on are said in strong words


def attack_tables(
    plain: Any,
    encoded: Any,
    public: Any = None,
    *,
    splits: Mapping[str, float] | None = None,
    random_state: RandomState = None,
) -> list[AttackResult]:
    """Run all attacks on every coded column of a table.

    ``plain``, ``encoded``: a table and its codes, row by row. ``public``: a table of the same
    attributes from elsewhere. Without it the attacker knows the exact distribution of the plain
    table: the worst case. ``splits``: columns whose frequent values were split, and at which share.
    """
    truth, seen = to_polars(plain), to_polars(encoded)
    known = truth if public is None else to_polars(public)
    rng = as_generator(random_state)
    results: list[AttackResult] = []
    for name in seen.columns:
        if name not in truth.columns or seen[name].equals(truth[name]):
            continue
        if name not in known.columns:
            raise DataError(
                f"the public table has no column '{name}': {nearest_name(name, known.columns)}"
            )
        if not (_any_left(seen[name]) and _any_left(known[name])):
            continue
        if seen[name].dtype.is_numeric():
            results += _attack_codes(seen[name], truth[name], known[name], rng)
        else:
            columns = (seen[name].to_list(), truth[name].to_list(), known[name].to_list())
            split = (splits or {}).get(name)
            results.append(frequency_matching(*columns, split=split, name=name))
    return results


def worst_of(results: Iterable[AttackResult]) -> dict[str, AttackResult]:
    """Return the most successful attack on each column, worst column first."""
    worst: dict[str, AttackResult] = {}
    for result in sorted(results, key=lambda result: -result.rate):
        worst.setdefault(result.name.partition(":")[2], result)
    return worst


def warnings_of(results: Iterable[AttackResult]) -> list[str]:
    """Say in plain words which attacks worked, worst column first."""
    lines = []
    for column, result in worst_of(results).items():
        if result.failed:
            continue
        strength = "most" if result.rate >= _SERIOUS else "some"
        lines.append(
            f"{column}: {strength} values are recovered by {_means(result)} "
            f"({result.rate:.0%} of records; guessing {result.baseline:.0%})."
        )
    return [*lines, WARNING] if lines else []


def _means(result: AttackResult) -> str:
    """Describe how the attacker did it, in words that need no explanation."""
    known = result.details.get("known pairs")
    if known is not None:
        return f"someone who knows {known} of the people"
    return result.name.partition(":")[0].replace("_", " ")


def _attack_codes(
    codes: pl.Series, values: pl.Series, public: pl.Series, rng: np.random.Generator
) -> list[AttackResult]:
    x, y, sample = (_plain_numbers(series) for series in (codes, values, public))
    if np.isnan(sample).all() or np.isnan(y).all():
        return []
    ends = (float(np.nanmin(sample)), float(np.nanmax(sample)))
    found = [
        known_pairs(x, y, known, public_range=ends, random_state=rng, name=codes.name)
        for known in KNOWN_PAIRS
    ]
    return [*found, order_matching(x, y, sample, name=codes.name)]


def _any_left(series: pl.Series) -> bool:
    there = series.fill_nan(None) if series.dtype.is_float() else series
    return bool(there.null_count() < len(there))


def _plain_numbers(series: pl.Series) -> Floats:
    if series.dtype == pl.String:
        return np.array([_number(text) for text in series.to_list()], dtype=np.float64)
    numbers = series.to_physical() if series.dtype.is_temporal() else series
    return np.asarray(numbers.cast(pl.Float64).fill_null(float("nan")).to_numpy())


def _number(text: str | None) -> float:
    """Convert a number or moment stored as text; NaN for anything else."""
    if text is None:
        return float("nan")
    with suppress(ValueError):
        return float(text)
    with suppress(ValueError):
        return float(as_number(text, "timestamp"))
    return float("nan")
