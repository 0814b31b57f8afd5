"""Fitness for use: what a release is good for, measured as others measure it, worst first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import polars as pl

from tulle._attacks.records import Records, chosen
from tulle._metrics import k_marginal, sense
from tulle._metrics.cells import MOST_VALUES, Cells, joined, number_cells
from tulle._metrics.clusters import cluster_scores
from tulle._metrics.effects import effects
from tulle._metrics.heaps import LEAST as heap_share
from tulle._metrics.heaps import Heaps, heaps
from tulle._metrics.marginals import total_variation
from tulle._metrics.models import Propensity, propensity
from tulle._metrics.subgroups import (
    Line,
    Subgroup,
    SubgroupDistance,
    line,
    marginals_within,
    subgroups,
)
from tulle._types import Codes, Flags, Floats, Ints
from tulle.auditing._measures import Associations, ranked
from tulle.auditing._tables import Aligned
from tulle.table.schema import Kind, Role

MOST_RECORDS = 200_000  # of each table; more are sampled
MOST_SETS = 300  # of columns
MOST_GROUPS = 60
_SETS_OF_SAMPLES = 60
_CLUSTERED = 5000  # records of each side that are clustered
_TOLD, _TOLD_QUICKLY = 4000, 1000  # records of each side that a classifier learns to tell apart
_FRESH = 100  # records of the control from which it stands for the people to be told apart from
_REGRESSED = 20_000  # records of each side
_MOST_DUMMIES, _MOST_CAUSES, _FEWEST_EFFECTS = 8, 60, 5
_SAME_ORDER = 0.99  # correlation of ranks: one column is the other in another scale
_SEVERAL = 0.05  # of the people: what fewer have is not regressed on
_LINE = 30  # people of a subgroup that a line is drawn through


class Pair(NamedTuple):
    """Two columns, and NIST's score of their combinations."""

    first: str
    second: str
    score: float


class ColumnFitness(NamedTuple):
    """What became of one column."""

    name: str
    score: float  # k-marginal of the pairs that it is in
    heaps: Heaps | None  # of numbers
    odd: float  # share of released values of a kind that the original does not have
    missing: float  # how much more often it is missing in the release
    given_away: float  # what a classifier that tells release from people owes to it


class LawKept(NamedTuple):
    """What every original keeps, and the share of rows that break it."""

    kind: str
    source: str
    target: str
    broken: float
    broken_control: float | None


class SubgroupLine(NamedTuple):
    """One number over another within a subgroup, in original and release."""

    group: Subgroup
    original: Line
    release: Line | None

    @property
    def agrees(self) -> bool:
        """Whether the slopes differ by no more than chance would have it."""
        if self.release is None:
            return False
        error = np.hypot(self.original.error, self.release.error)
        apart = abs(self.original.slope - self.release.slope)
        return bool(apart <= 1.96 * error + 1e-9 * abs(self.original.slope))


@dataclass(frozen=True)
class Fitness:
    """Everything that was measured; columns, pairs, laws and subgroups with the worst first."""

    metrics: dict[str, float]
    columns: list[ColumnFitness]
    pairs: list[Pair]
    laws: list[LawKept]
    groups: list[SubgroupDistance]
    lines: list[SubgroupLine]
    axes: tuple[str, str] | None  # of the lines
    tables: Aligned  # what was measured: samples of large tables
    cells: Cells  # of these
    facts: dict[str, str]  # how it was measured
    lost: str | None = None  # an effect that the release has no longer

    @property
    def where(self) -> dict[str, str]:
        """Which column or relation the worst figures are about."""
        named = {"propensity_auc": max(self.columns, key=lambda c: c.given_away).name}
        known = [column for column in self.columns if column.heaps is not None]
        kept = [(c.heaps.kept, c.name) for c in known if c.heaps and c.heaps.kept is not None]
        if kept:
            named["heaps_kept_min"] = min(kept)[1]
        if known:
            named["heaps_piled"] = max((c.heaps.piled, c.name) for c in known if c.heaps)[1]
        named["odd_values"] = max(self.columns, key=lambda c: c.odd).name
        found = {measure: f"column '{name}'" for measure, name in named.items()}
        if self.lost:
            found["effects_lost"] = self.lost
        if self.laws:
            found["rules_broken"] = f"columns '{self.laws[0].source}' and '{self.laws[0].target}'"
        return found


def fitness(
    tables: Aligned,
    found: Associations,
    target: str | None,
    k: int,
    rng: np.random.Generator,
    *,
    quick: bool = False,
    derived: Sequence[str] = (),
) -> Fitness:
    """Measure the fitness of a release; ``found`` are the associations of its columns.

    ``quick`` takes fewer records for the classifier, and leaves out the samples that give a scale.
    Columns that are ``derived`` from the same as another one are not regressed on it. Survey
    weights were calibrated: they are judged by what they are for, weighted figures.
    """
    tables, facts = _bounded(tables, rng)
    plain = _unweighted(tables)
    cells = celled(tables)
    told = _told_apart(plain, rng, _TOLD_QUICKLY if quick else _TOLD)
    two = k_marginal.sets_of(len(cells.names), 2, MOST_SETS, rng)
    apart = k_marginal.differences(cells.original, cells.release, cells.sizes, two)
    laws, broken, broken_control = _laws(tables)
    grouping = [i for i, name in enumerate(cells.names) if _has_groups(tables, name)]
    groups = list(marginals_within(cells, subgroups(cells, grouping, k, MOST_GROUPS)))
    axes = _axes(found, target)
    lines = [] if axes is None else _lines(tables, cells, axes, [g.group for g in groups])
    columns = _columns(plain, cells, k_marginal.by_column(apart, two, len(cells.names)), told, k)
    kept, lost = _effects(tables, rng, derived)
    metrics = {
        "k_marginal": k_marginal.score(apart),
        "propensity_auc": told.auc,
        "propensity_pmse": told.pmse,
        **({} if quick else _scaled_metrics(cells, rng)),
        **_heap_metrics(columns),
        **_sense_metrics(tables, cells, laws, broken, broken_control, columns),
        **_group_metrics(groups, lines),
        **kept,
        **({} if quick else cluster_metrics(tables, rng)),
    }
    pairs = [
        Pair(cells.names[some[0]], cells.names[some[-1]], 500 * (2 - float(value)))
        for value, some in zip(apart, two)
    ]
    most = _TOLD_QUICKLY if quick else _TOLD
    facts["distinguishability"] = (
        f"released records against {_fresh(tables)[0]}, at most {most:,} of each"
    )
    return Fitness(
        metrics,
        sorted(columns, key=lambda column: column.score),
        sorted(pairs, key=lambda pair: pair.score),
        sorted(laws, key=lambda law: -law.broken),
        sorted(groups, key=lambda group: group.by_chance - group.distance),
        sorted(lines, key=lambda one: one.agrees),
        axes,
        tables,
        cells,
        facts,
        lost,
    )


def whole_cells(tables: Aligned, known: Cells) -> Cells:
    """Return the cells of all records: those that are known, unless they are of samples."""
    heights = [len(records) for records in compared(tables)]
    return known if heights == [len(table) for table in known.tables] else celled(tables)


def celled(tables: Aligned) -> Cells:
    """Cut the columns of the tables into cells, alike in all of them."""
    codes, sizes = [], []
    for name in tables.columns:
        parts = column_cells(tables, name)
        codes.append(parts)
        sizes.append(max(int(part.max(initial=0)) for part in parts) + 1)
    stacked = tuple(np.column_stack(parts).astype(np.int32) for parts in zip(*codes))
    return Cells(tables.columns, tuple(sizes), stacked)


def compared(tables: Aligned) -> tuple[Records, ...]:
    """Return original, release and, if there is one, control."""
    both = (tables.original, tables.release)
    return both if tables.control is None else (*both, tables.control)


def column_cells(tables: Aligned, name: str) -> list[Codes]:
    """Return the cells of one column in each table; missing is 0."""
    if name in tables.original.number_names:
        return number_cells([_numbers(frame[name]) for frame in tables.frames])
    place = tables.original.code_names.index(name)
    return [records.codes[:, place] for records in compared(tables)]


def exact_codes(tables: Aligned) -> list[list[Ints]]:
    """Return a number for each exact value, alike in all tables; missing is 0."""
    found = []
    for name in tables.columns:
        if name not in tables.original.number_names:
            found.append([part.astype(np.int64) for part in column_cells(tables, name)])
            continue
        numbers = [_numbers(frame[name]) for frame in tables.frames]
        values = np.unique(np.concatenate(numbers))
        values = values[~np.isnan(values)]
        places = [np.where(np.isnan(n), 0, np.searchsorted(values, n) + 1) for n in numbers]
        found.append([part.astype(np.int64) for part in places])
    return found


def exact_keys(tables: Aligned, columns: Sequence[str]) -> list[Ints]:
    """Return a number for each exact combination of some columns, alike in all tables."""
    places = [tables.columns.index(name) for name in columns]
    codes = exact_codes(tables)
    stacked = [np.column_stack(parts) for parts in zip(*codes)]
    sizes = [max(int(part.max(initial=0)) for part in parts) + 1 for parts in codes]
    return [key.astype(np.int64) for key in joined(stacked, sizes, places)]


def _numbers(series: pl.Series) -> Floats:
    return np.asarray(series.fill_null(float("nan")).to_numpy(), dtype=np.float64)


def _unweighted(tables: Aligned) -> Aligned:
    """Return the tables without survey weights."""
    names = [name for name in tables.columns if name not in tables.of_role(Role.WEIGHT)]
    if not names or len(names) == len(tables.columns):
        return tables
    return replace(
        tables,
        original=tables.original.only(names),
        release=tables.release.only(names),
        control=None if tables.control is None else tables.control.only(names),
        kinds={name: tables.kinds[name] for name in names},
    )


def _bounded(tables: Aligned, rng: np.random.Generator) -> tuple[Aligned, dict[str, str]]:
    """Draw a sample of each large table, and say so."""
    parts = compared(tables)
    if max(map(len, parts)) <= MOST_RECORDS:
        return tables, {}
    rows = [chosen(len(records), MOST_RECORDS, rng) for records in parts]
    records = [part.take(some) for part, some in zip(parts, rows)]
    sampled = replace(
        tables,
        original=records[0],
        release=records[1],
        control=records[2] if len(records) > 2 else None,
        frames=tuple(frame[some] for frame, some in zip(tables.frames, rows)),
    )
    return sampled, {"fitness for use": f"measured on samples of {MOST_RECORDS:,} records"}


# What a classifier sees.


def _fresh(tables: Aligned) -> tuple[str, int]:
    """Return what the release is compared with: people who were kept out, if there are enough."""
    if tables.control is not None and len(tables.control) >= _FRESH:
        return "people who were kept out", 2
    return "the original", 0


def _told_apart(tables: Aligned, rng: np.random.Generator, most: int) -> Propensity:
    people = compared(tables)[_fresh(tables)[1]]
    rows, released = (ranked(records, tables.original) for records in (people, tables.release))
    return propensity(rows, released, rng, most=most, people=people.people)


def _given_away(tables: Aligned, told: Propensity, name: str) -> float:
    """Return what a classifier owes to a column and to whether it is missing."""
    records = tables.original
    owners = [*records.number_names, *records.code_names]
    return float(sum(loss for owner, loss in zip(owners, told.given_away) if owner == name))


# Marginals and single columns.


def _scaled_metrics(cells: Cells, rng: np.random.Generator) -> dict[str, float]:
    found = {}
    columns = len(cells.names)
    if columns > 2:
        three = k_marginal.sets_of(columns, 3, MOST_SETS // 3, rng)
        lost = k_marginal.differences(cells.original, cells.release, cells.sizes, three)
        found["k_marginal_3"] = k_marginal.score(lost)
    few = k_marginal.sets_of(columns, 2, _SETS_OF_SAMPLES, rng)
    lost = k_marginal.differences(cells.original, cells.release, cells.sizes, few)
    found["equivalent_subsample"] = k_marginal.equivalent_share(
        cells, few, k_marginal.score(lost), rng
    )
    return found


def _columns(
    tables: Aligned, cells: Cells, scores: Floats, told: Propensity, k: int
) -> list[ColumnFitness]:
    """Measure single columns; what fewer than ``k`` people share, no release keeps."""
    rows = []
    many = max(heap_share, k / max(tables.original.n_people, 1))
    for place, name in enumerate(cells.names):
        if name not in tables.kinds:
            continue
        before, after = (frame[name] for frame in tables.frames[:2])
        rates = [part.null_count() / len(part) for part in (before, after)]
        is_number = before.dtype == pl.Float64
        known = [part.drop_nulls() for part in (before, after)]
        rows.append(
            ColumnFitness(
                name,
                float(scores[place]),
                heaps(known[0].to_numpy(), known[1].to_numpy(), many) if is_number else None,
                _odd(*known, kind=tables.kinds[name]),
                rates[1] - rates[0],
                _given_away(tables, told, name),
            )
        )
    return rows


def _odd(before: pl.Series, after: pl.Series, *, kind: Kind) -> float:
    """Return the share of values that cannot be: fractions, below zero, words nobody has.

    A word that stands for rare ones is not odd, as long as it is no more common than they were.
    """
    if not len(after) or not len(before):
        return 0.0
    if before.dtype != pl.Float64:
        new, gone = _lacking(after, before), _lacking(before, after)
        return max(0.0, new - gone)
    numbers, originals = after.to_numpy(), before.to_numpy()
    odd = np.zeros(len(numbers), bool)
    if kind is not Kind.DATETIME and (originals == np.rint(originals)).all():
        odd |= numbers != np.rint(numbers)
    if originals.min() >= 0:
        odd |= numbers < 0
    return float(odd.mean())


def _lacking(words: pl.Series, others: pl.Series) -> float:
    """Return the share of words that are not among others."""
    return 1 - float(words.is_in(others.unique().implode()).sum()) / len(words)


def _heap_metrics(columns: list[ColumnFitness]) -> dict[str, float]:
    known = [column.heaps for column in columns if column.heaps is not None]
    kept = [(one.kept, one.share) for one in known if one.kept is not None]
    found = {"heaps_piled": max((one.piled for one in known), default=0.0)}
    if kept:
        found["heaps_kept"] = sum(k * s for k, s in kept) / sum(s for _, s in kept)
        found["heaps_kept_min"] = min(k for k, _ in kept)
    return found


# Rows that make no sense.


def _laws(tables: Aligned) -> tuple[list[LawKept], Flags, Flags | None]:
    """Find what every original keeps, and which rows of release and control break any of it."""
    codes = exact_codes(tables)
    gaps = [[np.minimum(part, 1) for part in parts] for parts in codes]
    numbers = [
        [_numbers(frame[name]) for frame in tables.frames]
        for name in tables.columns
        if name in tables.original.number_names
    ]
    names = tables.columns
    ordered = [name for name in names if name in tables.original.number_names]
    found = [(law, names, names) for law in sense.dependencies(codes, "follows", codes)]
    known = {(law.source, law.target) for law, *_ in found}
    missing = sense.dependencies(codes, "missing", gaps)
    found += [(law, names, names) for law in missing if (law.source, law.target) not in known]
    found += [(law, tuple(ordered), tuple(ordered)) for law in sense.orders(numbers)]
    broken = [np.zeros(len(records), bool) for records in compared(tables)[1:]]
    kept = []
    for law, sources, targets in found:
        for total, some in zip(broken, law.broken):
            total |= some
        shares = [float(some.mean()) for some in law.broken]
        control = shares[1] if len(shares) > 1 else None
        kept.append(LawKept(law.kind, sources[law.source], targets[law.target], shares[0], control))
    return kept, broken[0], broken[1] if len(broken) > 1 else None


def _sense_metrics(
    tables: Aligned,
    cells: Cells,
    laws: list[LawKept],
    broken: Flags,
    broken_control: Flags | None,
    columns: list[ColumnFitness],
) -> dict[str, float]:
    found = {"odd_values": max((column.odd for column in columns), default=0.0)}
    if laws:
        found["rules_broken"] = float(broken.mean())
        if broken_control is not None:
            found["rules_broken_control"] = float(broken_control.mean())
    words = [i for i, name in enumerate(cells.names) if name not in tables.original.number_names]
    if len(words) > 1:
        parts = [table[:, words].astype(np.int64) for table in cells.tables]
        sizes = [cells.sizes[i] for i in words]
        known = [parts[0], *parts[2:]]
        found["unseen_pairs"] = float(sense.unseen_pairs(known, parts[1], sizes).mean())
        if len(parts) > 2:
            strange = sense.unseen_pairs(parts[:1], parts[2], sizes)
            found["unseen_pairs_control"] = float(strange.mean())
    gaps = [table == 0 for table in cells.tables[:2]]
    if any(part.any() for part in gaps):
        keys = joined([part.astype(np.int32) for part in gaps], [2] * len(cells.names),
                      range(len(cells.names)))  # fmt: skip
        found["missing_patterns"] = total_variation(keys[0], keys[1])
    return found


# Subgroups.


def _has_groups(tables: Aligned, name: str) -> bool:
    """Return whether the values of a column are subgroups: words, or few whole numbers."""
    if name not in tables.original.number_names:
        return True
    return tables.kinds[name] is Kind.INTEGER and tables.frames[0][name].n_unique() <= MOST_VALUES


def _axes(found: Associations, target: str | None) -> tuple[str, str] | None:
    """Choose what lines are drawn through: the target, or the two numbers that go together most."""
    numbers = [i for i, name in enumerate(found.names) if name in found.numbers]
    strength = np.abs(np.nan_to_num(found.original))
    best: tuple[float, str, str] | None = None
    for j in numbers:
        for i in numbers:
            if i == j or (target in found.numbers and found.names[j] != target):
                continue
            if best is None or strength[i, j] > best[0]:
                best = (float(strength[i, j]), found.names[i], found.names[j])
    return None if best is None or best[0] == 0 else best[1:]


def _lines(
    tables: Aligned, cells: Cells, axes: tuple[str, str], groups: list[Subgroup]
) -> list[SubgroupLine]:
    values = [[_numbers(frame[name]) for name in axes] for frame in tables.frames[:2]]
    found = []
    for group in groups:
        if group.people < _LINE or cells.names[group.column] in axes:
            continue
        rows = [table[:, group.column] == group.cell for table in cells.tables[:2]]
        lines = [line(x[some], y[some]) for (x, y), some in zip(values, rows)]
        if lines[0] is not None:
            found.append(SubgroupLine(group, lines[0], lines[1]))
    return found


def cluster_metrics(tables: Aligned, rng: np.random.Generator) -> dict[str, float]:
    """Return how well clusters of the release fit the originals."""
    parts = [
        tables.view.matrix(frame[chosen(frame.height, _CLUSTERED, rng)])
        for frame in tables.frames[:2]
    ]
    found = cluster_scores(parts[0], parts[1], int(rng.integers(2**31)))
    if found is None:
        return {}
    return {"cluster_agreement": found.agreement, "cluster_error": found.error}


def _group_metrics(groups: list[SubgroupDistance], lines: list[SubgroupLine]) -> dict[str, float]:
    found = {}
    if groups:
        found["subgroup_distance"] = float(np.mean([group.distance for group in groups]))
        worst = max(groups, key=lambda group: group.distance - group.by_chance)
        found["subgroup_distance_max"] = worst.distance
    if lines:
        found["regression_kept"] = float(np.mean([one.agrees for one in lines]))
    return found


def _effects(
    tables: Aligned, rng: np.random.Generator, derived: Sequence[str] = ()
) -> tuple[dict[str, float], str | None]:
    """Return the share of clear effects that the release lost, and one of them; none of few."""
    told = [
        name
        for name in tables.columns
        if name not in derived and _is_told_of_many(tables.original.only([name]))
    ]
    repeated = _repeated(tables.original.only(told)) if told else ()
    told = [name for name in told if name not in repeated]
    if not told:
        return {}, None
    original, release = tables.original.only(told), tables.release.only(told)
    names, columns = _causes(original)
    outcomes = len(original.number_names)
    rows = [chosen(len(part), _REGRESSED, rng) for part in (original, release)]
    before, after = (
        np.hstack([part.numbers, *(part.codes[:, [i]] == value for i, value in columns)])[some]
        for part, some in zip((original, release), rows)
    )
    people = tables.original.people
    width = min(before.shape[1], _MOST_CAUSES)
    outcomes = min(outcomes, width)
    whose = None if people is None else people[rows[0]]
    found = effects(before[:, :width], after[:, :width], outcomes, whose)
    if len(found.lost) < _FEWEST_EFFECTS:
        return {}, None
    gone = np.flatnonzero(found.lost)[:1]
    told = [f"that of '{names[found.causes[i]]}' on '{names[found.outcomes[i]]}'" for i in gone]
    return {"effects_lost": found.share}, told[0] if told else None


def _repeated(records: Records) -> list[str]:
    """Name the numbers that are another one in another scale, such as its logarithm.

    Next to both, the effect of either is that of what bends the scale, which nobody asks for.
    """
    from scipy.stats import rankdata

    if len(records.number_names) < 2:
        return []
    alike = np.abs(np.nan_to_num(np.corrcoef(rankdata(records.numbers, axis=0), rowvar=False)))
    later = np.triu(alike > _SAME_ORDER, 1).any(axis=0)
    return [name for name, repeats in zip(records.number_names, later) if repeats]


def _is_told_of_many(column: Records) -> bool:
    """Return whether most people have a value, and several one that is not the commonest.

    What a regression finds in the rest rests on a few people.
    """
    if column.number_names and column.codes.sum() > len(column) / 2:
        return False
    values = column.numbers if column.number_names else column.codes
    return bool(np.unique(values, return_counts=True)[1].max() <= (1 - _SEVERAL) * len(column))


def _causes(records: Records) -> tuple[list[str], list[tuple[int, int]]]:
    """Return the names of what numbers are regressed on, and each category of few as a 0 or 1."""
    names, columns = list(records.number_names), []
    for place, name in enumerate(records.code_names):
        values, times = np.unique(records.codes[:, place], return_counts=True)
        if name in records.number_names or len(values) > _MOST_DUMMIES:
            continue
        for place_of in np.argsort(-times, kind="stable")[1:]:
            if times[place_of] >= _SEVERAL * len(records):
                names.append(name)
                columns.append((place, int(values[place_of])))
    return names, columns
