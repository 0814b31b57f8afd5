"""The measures of an audit: what is lost, and how close the release is to people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._attacks.linkage import closest_distances
from tulle._attacks.records import MISMATCH, Records, chosen, nearest, spacing
from tulle._metrics.covariance import agreement, association, spread_behind
from tulle._metrics.marginals import interval_width, range_coverage, total_variation, wasserstein
from tulle._metrics.peers import adversarial_accuracy, dcr_share, epsilon_risk
from tulle._people import distinct_people
from tulle._relations.language import parse_rule
from tulle._relations.values import Values, broken, is_text, unit_of
from tulle._report.model import Block, Changes, Section, table
from tulle._threads import on_all_cores
from tulle._types import Floats
from tulle.auditing._tables import Aligned, opened
from tulle.table.schema import Role

_FEW, _REST = 10, -1  # records of a category that is one of its own, and the code of the others
_TOGETHER = 0.1  # of the records have both of two columns, at least
_MOST_COMPARED = 4_000  # records of each table, all with all


class Associations(NamedTuple):
    """How strongly every two columns are associated, in original and release."""

    names: tuple[str, ...]
    original: Floats
    release: Floats
    behind: NDArray[np.int64]  # on how many originals the spread of each column rests
    numbers: tuple[str, ...] = ()  # the names of those that are numbers

    @property
    def behind_each(self) -> dict[str, int]:
        """The same by column name."""
        return dict(zip(self.names, self.behind.tolist()))


def associations(tables: Aligned) -> Associations:
    """Compute the associations of the columns; missingness is not a column of its own.

    Categories that hardly anybody has are one, and two columns of which hardly anybody has both
    have none: these say nothing that a release could keep, or an analyst would look for.
    """
    numbers = tables.original.number_names
    categories = [name for name in tables.original.code_names if name not in numbers]
    both = (tables.original, tables.release)
    codes = [records.only(categories).codes.copy() for records in both]
    for place in range(len(categories)):
        values, counts = np.unique(codes[0][:, place], return_counts=True)
        for part in codes:
            part[~np.isin(part[:, place], values[counts >= _FEW]), place] = _REST
    matrices = [(_with_gaps(records), part) for records, part in zip(both, codes)]
    known = (~np.isnan(matrices[0][0])).astype(np.float64)
    known = np.hstack([known, np.ones((len(known), len(categories)))])
    original = association(*matrices[0])
    return Associations(
        (*numbers, *categories),
        np.where(known.T @ known >= _TOGETHER * len(known), original, np.nan),
        association(*matrices[1]),
        spread_behind(*matrices[0]),
        numbers,
    )


def _with_gaps(records: Records) -> Floats:
    """Return the numbers, NaN where they are missing."""
    numbers = records.numbers.copy()
    for place, name in enumerate(records.number_names):
        if name in records.code_names:
            gone = records.codes[:, records.code_names.index(name)] != 0
            numbers[gone, place] = np.nan
    return numbers


def covariance_compatibility(tables: Aligned) -> float:
    """Compute how well covariances survive: the figure in summaries and reports."""
    original, release = (tables.view.moments(frame)[1] for frame in tables.frames[:2])
    return agreement(original, release)


def structure(tables: Aligned, found: Associations) -> dict[str, float]:
    """Compute covariances and associations."""
    pairs = np.triu_indices(len(found.names), 1)
    gaps = np.abs(found.original - found.release)[pairs]
    gaps = np.round(gaps[~np.isnan(gaps)], 12)  # what another order of the records leaves
    figures = {"covariance_compatibility": covariance_compatibility(tables)}
    if len(gaps):
        figures["correlation_difference"] = float(gaps.mean())
        figures["correlation_difference_max"] = float(gaps.max())
    return figures


def marginals(tables: Aligned) -> dict[str, dict[str, Any]]:
    """Return each column's distance, and how often it is missing in original and release."""
    size = len(tables.columns) * len(tables.release.codes)
    found = on_all_cores(lambda name: _marginal(tables, name), tables.columns, size)
    return dict(zip(tables.columns, found))


def _marginal(tables: Aligned, name: str) -> dict[str, Any]:
    original, release = tables.original.only([name]), tables.release.only([name])
    if not original.numbers.shape[1]:
        return {
            "distance": total_variation(original.codes[:, 0], release.codes[:, 0]),
            "range": None,
            "missing_original": float((original.codes[:, 0] == 0).mean()),
            "missing_release": float((release.codes[:, 0] == 0).mean()),
        }
    gone = [records.codes.any(axis=1) for records in (original, release)]
    values = [records.numbers[~lost, 0] for records, lost in zip((original, release), gone)]
    rates = [float(lost.mean()) for lost in gone]
    known = all(len(part) for part in values)
    # few values move by chance: as far as all of them would, weighed by the root of their share
    moved = math.sqrt(1 - rates[0]) * wasserstein(*values) if known else 0.0
    return {
        "distance": moved + abs(rates[0] - rates[1]),
        "range": range_coverage(*values) if known else None,
        "missing_original": rates[0],
        "missing_release": rates[1],
    }


def weighted(tables: Aligned, k: int) -> dict[str, float]:
    """Compute how far survey weights moved shares that ``k`` people hold, and means."""
    names, both = tables.of_role(Role.WEIGHT), (tables.original, tables.release)
    if len(names) != 1:
        return {}
    weights = [frame[names[0]].fill_null(0).to_numpy().astype(float) for frame in tables.frames[:2]]
    shares = [w / w.sum() for w in weights]
    gaps = [abs(float(weights[1].sum() / weights[0].sum()) - 1)]
    for name in tables.columns:
        parts = [records.only([name]) for records in both]
        if parts[0].numbers.shape[1] and name != names[0]:
            columns = [_with_gaps(part)[:, 0] for part in parts]
            there = [np.isfinite(column) for column in columns]
            means = [s[t] @ c[t] / s[t].sum() for s, t, c in zip(shares, there, columns) if t.any()]
            gaps.append(abs(float(np.subtract(*means))) if len(means) == 2 else 0.0)
        elif parts[0].codes.shape[1]:
            size = max(int(part.codes.max(initial=0)) for part in parts) + 1
            sums = [np.bincount(p.codes[:, 0], s, size) for p, s in zip(parts, shares)]
            held = distinct_people(parts[0].codes[:, 0], parts[0].people, size) >= k
            gaps.append(float(np.abs(sums[0] - sums[1])[held].max(initial=0.0)))
    return {"weighted_difference": max(gaps)}


def moved(tables: Aligned, distances: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Return how far each column moved; survey weights are meant to, and are judged as weights."""
    found = {name: row["distance"] for name, row in distances.items()}
    return {n: far for n, far in found.items() if n not in tables.of_role(Role.WEIGHT)} or found


def distance_metrics(far: dict[str, float]) -> dict[str, float]:
    """Return how far columns moved on average, and at most."""
    several = list(far.values())
    return {
        "marginal_distance": float(np.mean(several)),
        "marginal_distance_max": float(np.max(several)),
    }


def worst_column(far: dict[str, float]) -> dict[str, str]:
    """Return which column moved most."""
    return {"marginal_distance_max": f"column '{max(far, key=lambda name: far[name])}'"}


def worst_places(far: dict[str, float], found: Associations) -> dict[str, str]:
    """Return which column moved most, and which two columns lost most of their association."""
    places = worst_column(far)
    gaps = np.triu(np.abs(found.original - found.release), 1)
    if np.nanmax(gaps, initial=0.0) > 0:
        first, second = np.unravel_index(np.nanargmax(gaps), gaps.shape)
        places["correlation_difference_max"] = (
            f"columns '{found.names[first]}' and '{found.names[second]}'"
        )
    return places


def nearness(tables: Aligned, rng: np.random.Generator, attempts: int) -> dict[str, float]:
    """Compute how far people are from the nearest released record."""
    people = tables.original.take(tables.original.sample(attempts, rng))
    found = nearest(people, tables.release)
    counterparts = tables.release.take(found.rows[:, 0])
    spread = _total_spread(tables.original)
    figures = {
        "nearest_record_loss": 100 * float((found.distances**2).mean()) / spread if spread else 0.0,
        "closest_original": float(np.median(found.distances)),
    }
    if people.numbers.shape[1] and len(people) > 1:
        figures["interval_width"] = interval_width(
            _with_gaps(people),
            _with_gaps(counterparts),
            extent=np.ptp(tables.original.numbers, axis=0),
        )
    if tables.control is not None:
        outside = closest_distances(tables.control, tables.release, rng, attempts=attempts)
        figures["closest_control"] = float(np.median(outside))
    return {name: value for name, value in figures.items() if not math.isnan(value)}


def peers(tables: Aligned, rng: np.random.Generator, attempts: int) -> dict[str, float]:
    """Compute the figures by distance that others print, on as many records of each table.

    For epsilon risk, some people are compared with everybody.
    """
    original, release, control = tables.original, tables.release, tables.control
    rows = original.sample(attempts, rng)
    to_release = nearest(original.take(rows), release).distances[:, 0]
    figures = {
        "nnaa": _adversarial_accuracy(*_as_many((original, release), rng)),
        "epsilon_risk": epsilon_risk(to_release, spacing(rows, original)),
    }
    if control is not None:
        people, released, strangers = _as_many((original, release, control), rng)
        of_people, of_strangers = (_adversarial_accuracy(p, released) for p in (people, strangers))
        figures["nnaa_privacy_loss"] = of_strangers - of_people
        both = (nearest(released, those).distances[:, 0] for those in (people, strangers))
        figures["dcr_share"] = dcr_share(*both)
    return figures


def _as_many(tables: Sequence[Records], rng: np.random.Generator) -> list[Records]:
    """Return as many records of each table: of more there would be a nearer one by chance."""
    size = min(_MOST_COMPARED, *map(len, tables))
    return [table.take(chosen(len(table), size, rng)) for table in tables]


def _adversarial_accuracy(people: Records, released: Records) -> float:
    sides = [
        (nearest(one, other).distances[:, 0], spacing(np.arange(len(one)), one))
        for one, other in ((people, released), (released, people))
    ]
    return adversarial_accuracy(*sides[0], *sides[1])


def _total_spread(records: Records) -> float:
    """Compute the mean squared distance to the middle, in the distance that attacks use."""
    spread = float(records.numbers.var(axis=0).sum())
    for place in range(records.codes.shape[1]):
        shares = np.unique(records.codes[:, place], return_counts=True)[1] / len(records)
        spread += MISMATCH * (1 - float(shares @ shares)) / 2
    return spread


# Rules of the policy.


def stated_rules(rules: Sequence[str], original: Any, release: Any) -> Changes:
    """Count the released rows that break rules of the policy, the worst rule first.

    Numbers are compared with the precision of the original. A rule about a column that was not
    released is left out.
    """
    before, after = opened("original", original), opened("release", release)
    units = {name: unit_of(before[name]) for name in before.columns if name in after.columns}
    values = Values(after, units, _merged(before, after))
    parsed = [parse_rule(text, before.columns) for text in rules]
    kept = [rule for rule in parsed if all(name in after.columns for name in rule.columns)]
    if not kept:
        return {}
    wrong = {rule.text: broken(rule, values) for rule in kept}
    shares: list[list[Any]] = [[text, float(rows.mean())] for text, rows in wrong.items()]
    shares.sort(key=lambda row: -row[1])
    text = "Share of released rows that break each rule that the policy states."
    shown: list[Block] = [table(("rule", "broken"), shares)]
    section: Section = {"title": "Rules of the policy", "text": text, "blocks": shown}
    any_broken = float(np.any(list(wrong.values()), axis=0).mean())
    return {
        "metrics": {"stated_rules_broken": any_broken},
        "sections": [{**section, "id": "stated-rules"}],
    }


def _merged(before: pl.DataFrame, after: pl.DataFrame) -> dict[str, str]:
    """Return the words that stand for rare values: one in a column that the original lacks."""
    found = {}
    for name in after.columns:
        if name in before.columns and is_text(after.schema[name]):
            words = after[name].cast(pl.String).drop_nulls().unique()
            new = words.filter(~words.is_in(before[name].cast(pl.String).unique().implode()))
            if len(new) == 1:
                found[name] = str(new[0])
    return found
