"""Fitness for use: what a release is good for, measured as others measure it, worst first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import polars.selectors as cs

from tulle._attacks.records import Records, chosen
from tulle._metrics.cells import (
    MOST_VALUES,
    Cells,
    Line,
    Subgroup,
    SubgroupDistance,
    by_column,
    differences,
    equivalent_share,
    joined,
    line,
    marginals_within,
    number_cells,
    score,
    sets_of,
    subgroups,
)
from tulle._metrics.covariance import cluster_scores, effects
from tulle._metrics.marginals import LEAST as heap_share
from tulle._metrics.marginals import Heaps, heaps, total_variation
from tulle._metrics.models import Propensity, propensity
from tulle._metrics.sense import dependencies, orders, unseen_pairs
from tulle._people import surely_enough
from tulle._plurals import counted
from tulle._report.fitness import graded
from tulle._report.model import Block, Section, chart, sentences, table
from tulle._types import Floats, Ints
from tulle.auditing._learning import ranked
from tulle.auditing._measures import (
    Associations,
    associations,
    distance_metrics,
    marginals,
    moved,
    structure,
    weighted,
)
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


@dataclass(frozen=True)
class Fitness:
    """What was measured, which column or relation the worst figures are about, and the page."""

    metrics: dict[str, float]
    where: dict[str, str]
    cells: Cells  # of samples of large tables
    facts: dict[str, str]  # how it was measured
    section: Section


def fitness(
    tables: Aligned,
    found: Associations,
    target: str | None,
    k: int,
    rng: np.random.Generator,
    *,
    quick: bool = False,
    derived: Sequence[str] = (),
    rows: Sequence[Sequence[pl.DataFrame]] = (),
) -> Fitness:
    """Measure the fitness of a release; ``found`` are the associations of its columns.

    ``quick`` takes fewer records for the classifier, and leaves out the samples that give a scale.
    Columns that are ``derived`` from the same as another one are not regressed on it. Survey
    weights were calibrated: they are judged by what they are for, weighted figures. Relations are
    looked for in ``rows``, if records are summaries of somebody's rows in several tables.
    """
    tables, facts = _bounded(tables, rng)
    plain = _unweighted(tables)
    cells = celled(tables)
    most = _TOLD_QUICKLY if quick else _TOLD
    whom, place = _fresh(tables)
    facts["distinguishability"] = f"released records against {whom}, at most {most:,} of each"
    people = compared(plain)[place]
    seen, shown = (ranked(records, plain.original) for records in (people, plain.release))
    told = propensity(seen, shown, rng, most=most, people=people.people)
    two = sets_of(len(cells.names), 2, MOST_SETS, rng)
    apart = differences(cells.original, cells.release, cells.sizes, two)
    laws, broken = _worst_laws(rows, rng) if rows else _laws(tables.frames)
    grouping = [i for i, name in enumerate(cells.names) if _has_groups(tables, name)]
    groups = list(marginals_within(cells, subgroups(cells, grouping, k, MOST_GROUPS)))
    axes = _axes(found, target)
    lines = [] if axes is None else _lines(tables, cells, axes, groups)
    columns = _columns(plain, cells, by_column(apart, two, len(cells.names)), told, k)
    kept, lost = _effects(tables, rng, derived)
    metrics = {
        "k_marginal": score(apart),
        "propensity_auc": told.auc,
        "propensity_pmse": told.pmse,
        **({} if quick else _scaled_metrics(cells, rng)),
        **_heap_metrics(columns),
        "odd_values": max(column.odd for column in columns),
        **broken,
        **_unseen(tables, cells),
        **_group_metrics(groups, lines),
        **kept,
        **({} if quick else cluster_metrics(tables, rng)),
    }
    pairs = [
        (cells.names[some[0]], cells.names[some[-1]], (2 - float(value)) / 2)
        for value, some in zip(apart, two)
    ]
    behind = found.behind_each
    blocks = [
        *_column_blocks(sorted(columns, key=lambda column: column.score), behind),
        _pair_block(sorted(pairs, key=lambda pair: pair[2])[:_MOST_SHOWN], behind),
        *_law_blocks(laws),
        *_group_blocks(tables, cells, groups, k),
        *_line_blocks(tables, cells, axes, sorted(lines, key=lambda one: one[3])),
    ]
    section: Section = {
        "id": "fitness",
        "title": "Fitness for use",
        "text": "What the release is good for, measured as others measure it. The worst comes "
        "first: look there before you rely on it.",
        "blocks": blocks,
    }
    where = _worst_columns(columns)
    if lost:
        where["effects_lost"] = lost
    if laws:
        where["rules_broken"] = f"columns '{laws[0].source}' and '{laws[0].target}'"
    return Fitness(metrics, where, cells, facts, section)


def whole_cells(tables: Aligned, known: Cells) -> Cells:
    """Return the cells of all records: those that are known, unless they are of samples."""
    heights = [len(records) for records in compared(tables)]
    return known if heights == [len(table) for table in known.tables] else celled(tables)


def celled(tables: Aligned) -> Cells:
    """Cut the columns of the tables into cells, alike in all of them; missing is 0."""
    codes, sizes, parts = [], [], compared(tables)
    for name in tables.columns:
        if name in tables.original.number_names:
            found = number_cells([_numbers(frame[name]) for frame in tables.frames])
        else:
            place = tables.original.code_names.index(name)
            found = [records.codes[:, place] for records in parts]
        codes.append(found)
        sizes.append(max(int(part.max(initial=0)) for part in found) + 1)
    stacked = tuple(np.column_stack(part).astype(np.int32) for part in zip(*codes))
    return Cells(tables.columns, tuple(sizes), stacked)


def compared(tables: Aligned) -> tuple[Records, ...]:
    """Return original, release and, if there is one, control."""
    both = (tables.original, tables.release)
    return both if tables.control is None else (*both, tables.control)


def exact_codes(frames: Sequence[pl.DataFrame]) -> dict[str, list[Ints]]:
    """Return a number for each exact value of each column, alike in all tables; missing is 0."""
    ends = np.cumsum([frame.height for frame in frames])[:-1]
    whole = pl.concat(frames).select(pl.all().rank("dense").fill_null(0).cast(pl.Int64))
    return {column.name: np.split(column.to_numpy(), ends) for column in whole}


def exact_keys(tables: Aligned, columns: Sequence[str]) -> list[Ints]:
    """Return a number for each exact combination of some columns, alike in all tables."""
    codes = exact_codes([frame.select(columns) for frame in tables.frames])
    stacked = [np.column_stack(parts) for parts in zip(*codes.values())]
    sizes = [max(int(part.max(initial=0)) for part in parts) + 1 for parts in codes.values()]
    return joined(stacked, sizes, range(len(columns)))


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


# Marginals and single columns.


def _scaled_metrics(cells: Cells, rng: np.random.Generator) -> dict[str, float]:
    found = {}
    columns = len(cells.names)
    if columns > 2:
        three = sets_of(columns, 3, MOST_SETS // 3, rng)
        lost = differences(cells.original, cells.release, cells.sizes, three)
        found["k_marginal_3"] = score(lost)
    few = sets_of(columns, 2, _SETS_OF_SAMPLES, rng)
    lost = differences(cells.original, cells.release, cells.sizes, few)
    found["equivalent_subsample"] = equivalent_share(cells, few, score(lost), rng)
    return found


class ColumnFitness(NamedTuple):
    """What became of one column."""

    name: str
    score: float  # k-marginal of the pairs that it is in
    heaps: Heaps | None  # of numbers
    odd: float  # share of released values of a kind that the original does not have
    missing: float  # how much more often it is missing in the release
    given_away: float  # what a classifier that tells release from people owes to it


def _columns(
    tables: Aligned, cells: Cells, scores: Floats, told: Propensity, k: int
) -> list[ColumnFitness]:
    """Measure single columns; what hardly ``k`` people share, no release has to keep."""
    owners = [*tables.original.number_names, *tables.original.code_names]
    rows = []
    for place, name in enumerate(cells.names):
        if name not in tables.kinds:
            continue
        before, after = (frame[name] for frame in tables.frames[:2])
        rates = [part.null_count() / len(part) for part in (before, after)]
        known = [part.drop_nulls() for part in (before, after)]
        is_number = before.dtype == pl.Float64
        many = max(heap_share, surely_enough(k) / max(len(known[0]), 1))
        rows.append(
            ColumnFitness(
                name,
                float(scores[place]),
                heaps(known[0].to_numpy(), known[1].to_numpy(), many) if is_number else None,
                _odd(*known, kind=tables.kinds[name]),
                rates[1] - rates[0],
                float(sum(loss for owner, loss in zip(owners, told.given_away) if owner == name)),
            )
        )
    return rows


def _worst_columns(columns: list[ColumnFitness]) -> dict[str, str]:
    """Say which columns the worst figures of single columns are about."""
    named = {
        "propensity_auc": max(columns, key=lambda column: column.given_away).name,
        "odd_values": max(columns, key=lambda column: column.odd).name,
    }
    heaped = [(column.heaps, column.name) for column in columns if column.heaps is not None]
    if heaped:
        named["heaps_piled"] = max((one.piled, name) for one, name in heaped)[1]
    kept = [(one.kept, name) for one, name in heaped if one.kept is not None]
    if kept:
        named["heaps_kept_min"] = min(kept)[1]
    return {measure: f"column '{name}'" for measure, name in named.items()}


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


class LawKept(NamedTuple):
    """What every original keeps, and the share of rows that break it."""

    kind: str
    source: str
    target: str
    broken: float
    broken_control: float | None

    @property
    def said(self) -> str:
        """The law in a sentence."""
        return _SAYS[self.kind].format(source=f"'{self.source}'", target=f"'{self.target}'")


def _laws(frames: Sequence[pl.DataFrame]) -> tuple[list[LawKept], dict[str, float]]:
    """Find what every original keeps, and the share of rows that break any of it."""
    exact, ordered = exact_codes(frames), frames[0].select(cs.float()).columns
    names, codes = tuple(exact), list(exact.values())
    gaps = [[np.minimum(part, 1) for part in parts] for parts in codes]
    numbers = [[_numbers(frame[name]) for frame in frames] for name in ordered]
    follows = list(dependencies(codes, "follows", codes))
    known = {(law.source, law.target) for law in follows}
    missing = dependencies(codes, "missing", gaps)
    follows += [law for law in missing if (law.source, law.target) not in known]
    found = [(law, names) for law in follows]
    found += [(law, tuple(ordered)) for law in orders(numbers)]
    if not found:
        return [], {}
    kept = []
    for law, named in found:
        shares = [float(some.mean()) for some in law.broken]
        control = shares[1] if len(shares) > 1 else None
        kept.append(LawKept(law.kind, named[law.source], named[law.target], shares[0], control))
    tables_broken = zip(*(law.broken for law, _ in found))
    totals = [float(np.any(rows, axis=0).mean()) for rows in tables_broken]
    kept.sort(key=lambda law: -law.broken)
    return kept, dict(zip(("rules_broken", "rules_broken_control"), totals))


def _worst_laws(
    rows: Sequence[Sequence[pl.DataFrame]], rng: np.random.Generator
) -> tuple[list[LawKept], dict[str, float]]:
    """Find the laws of the table of which most rows break one; samples of large ones."""
    some = [
        [frame[chosen(frame.height, MOST_RECORDS, rng)] if frame.height > MOST_RECORDS else frame
         for frame in frames]
        for frames in rows
    ]  # fmt: skip
    found = [_laws(parts) for parts in some if parts[0].width and all(p.height for p in parts)]
    return max(found, key=lambda one: one[1].get("rules_broken", -1.0), default=([], {}))


def _unseen(tables: Aligned, cells: Cells) -> dict[str, float]:
    """Count rows with a pair of categories, or a set of missing values, that nobody has."""
    found = {}
    words = [i for i, name in enumerate(cells.names) if name not in tables.original.number_names]
    if len(words) > 1:
        parts = [table[:, words].astype(np.int64) for table in cells.tables]
        sizes = [cells.sizes[i] for i in words]
        known = [parts[0], *parts[2:]]
        found["unseen_pairs"] = float(unseen_pairs(known, parts[1], sizes).mean())
        if len(parts) > 2:
            strange = unseen_pairs(parts[:1], parts[2], sizes)
            found["unseen_pairs_control"] = float(strange.mean())
    gaps = [(table == 0).astype(np.int32) for table in cells.tables[:2]]
    if any(part.any() for part in gaps):
        width = len(cells.names)
        found["missing_patterns"] = total_variation(*joined(gaps, [2] * width, range(width)))
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
    tables: Aligned, cells: Cells, axes: tuple[str, str], groups: list[SubgroupDistance]
) -> list[tuple[Subgroup, Line, Line | None, bool]]:
    """Draw one number over another within each subgroup of both tables.

    The slopes agree if they differ by no more than chance would have it.
    """
    values = [[_numbers(frame[name]) for name in axes] for frame in tables.frames[:2]]
    found = []
    for group in (one.group for one in groups):
        if group.people < _LINE or cells.names[group.column] in axes:
            continue
        rows = [table[:, group.column] == group.cell for table in cells.tables[:2]]
        before, after = (line(x[some], y[some]) for (x, y), some in zip(values, rows))
        if before is not None:
            agrees = after is not None and abs(before.slope - after.slope) <= (
                1.96 * np.hypot(before.error, after.error) + 1e-9 * abs(before.slope)
            )
            found.append((group, before, after, bool(agrees)))
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


def _group_metrics(groups: list[SubgroupDistance], lines: list[Any]) -> dict[str, float]:
    found = {}
    if groups:
        found["subgroup_distance"] = float(np.mean([group.distance for group in groups]))
        worst = max(groups, key=lambda group: group.distance - group.by_chance)
        found["subgroup_distance_max"] = worst.distance
    if lines:
        found["regression_kept"] = float(np.mean([agrees for *_, agrees in lines]))
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


_DRAWN = 9  # times that people are drawn again
_PERFECT = {  # measures that depend on who happens to be drawn, and what is best
    **dict.fromkeys(("correlation_difference", "correlation_difference_max"), 0.0),
    **dict.fromkeys(("marginal_distance_max", "weighted_difference", "effects_lost"), 0.0),
    "covariance_compatibility": 1.0,
}


def by_chance(
    tables: Aligned, metrics: Mapping[str, float], k: int, derived: Sequence[str],
    rng: np.random.Generator,
) -> dict[str, float]:  # fmt: skip
    """Return how far from perfect poor measures are where people are only drawn once more.

    The worst of several draws of as many people, with replacement: an association that rests on
    one outlier is gone in every third of them, and a release need not have it either.
    """
    compared = min(len(tables.original), len(tables.release))
    poor = [
        name
        for name in _PERFECT
        if name in metrics and (graded(name, metrics[name], compared) or ("good",))[0] != "good"
    ]
    if not poor:
        return {}
    tables, _ = _bounded(tables, rng)
    found = [_drawn_again(tables, k, derived, rng) for _ in range(_DRAWN)]
    return {
        name: max(abs(_PERFECT[name] - one.get(name, _PERFECT[name])) for one in found)
        for name in poor
    }


def _drawn_again(
    tables: Aligned, k: int, derived: Sequence[str], rng: np.random.Generator
) -> dict[str, float]:
    """Measure people of the original, drawn with replacement, as if they were a release."""
    people = tables.original.people
    _, whose = np.unique(np.arange(len(tables.original)) if people is None else people,
                         return_inverse=True)  # fmt: skip
    times = np.bincount(rng.integers(whose.max() + 1, size=whose.max() + 1))
    times = np.pad(times, (0, int(whose.max()) + 1 - len(times)))
    rows = np.repeat(np.arange(len(whose)), times[whose.ravel()])
    again = replace(
        tables,
        release=replace(tables.original.take(rows), people=None),
        control=None,
        frames=(tables.frames[0], tables.frames[0][rows]),
    )
    far = moved(again, marginals(again))
    return {
        **structure(again, associations(again)),
        **distance_metrics(far),
        **weighted(again, k),
        **_effects(again, rng, derived)[0],
    }


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


# The section of a report: the worst first, with pictures.

_MOST_SHOWN = 20  # pairs, laws or subgroups
_SAYS = {
    "follows": "{target} follows from {source}",
    "missing": "whether {target} is missing follows from {source}",
    "order": "{source} is never larger than {target}",
}


def _column_blocks(columns: list[ColumnFitness], behind: Mapping[str, int]) -> list[Block]:
    ranking: list[dict[str, Any]] = [
        {"label": c.name, "value": 1000 - c.score, "mark": None, "count": behind[c.name]}
        for c in columns
    ]
    said = "k-marginal (of 1)", "heaps kept", "piled up", "odd", "missing more often", "gives away"
    rows = [
        [c.name, c.score / 1000, *(c.heaps[1:] if c.heaps else (None, None)), c.odd, c.missing,
         max(0.0, c.given_away)]
        for c in columns
    ]  # fmt: skip
    return [
        chart(
            "ranking", ranking, title="Points that each column loses",
            owner_only=True,  # the table rounds
            help="1000 less NIST's k-marginal score of the pairs that the column is in: 0 is "
            "perfect, 1000 nothing in common.",
        ),
        table(
            ("column", *said), rows, behind=[behind[c.name] for c in columns],
            title="Heaps are numbers that 5 % of the records share. Kept: how much of them is "
            "still there; piled up: the most that one value gained from nowhere. Odd: released "
            "values of a kind that the original does not have. Gives away: what the AUC of a "
            "classifier that tells the release from people owes to the column.",
        ),
    ]  # fmt: skip


def _pair_block(pairs: list[tuple[str, str, float]], behind: Mapping[str, int]) -> Block:
    return table(
        ("first", "second", "k-marginal (of 1)"), [list(pair) for pair in pairs],
        folded="The pairs of columns that suffered most",
        behind=[min(behind[first], behind[second]) for first, second, _ in pairs],
    )  # fmt: skip


def _law_blocks(laws: list[LawKept]) -> list[Block]:
    if not laws:
        return []
    broken = [law for law in laws if law.broken > 0]
    total, hold = counted(len(laws), "relation"), "holds" if len(laws) == 1 else "hold"
    said = (
        f"{total} between columns {hold} for every original; the release breaks "
        f"{len(broken) or 'none'} of them."
    )
    rows = [[law.said, law.broken, law.broken_control] for law in broken[:_MOST_SHOWN]]
    title = "Share of rows that break what every original keeps."
    columns = "relation", "release", "people who were kept out"
    # it says something about everybody in the original
    shown = [table(columns, rows, title=title, owner_only=True)] if rows else []
    return [sentences([said]), *shown]


def _group_blocks(
    tables: Aligned, cells: Cells, groups: list[SubgroupDistance], k: int
) -> list[Block]:
    shown = [group for group in groups if group.released >= k or not group.released]
    shown.sort(key=lambda group: group.by_chance - group.distance)
    rows = [
        {"label": _label(tables, cells, one.group), "value": one.distance, "mark": one.by_chance,
         "count": one.group.people}
        for one in shown[:_MOST_SHOWN]
    ]  # fmt: skip
    told = chart(
        "ranking", rows, title="Subgroups: how far their other columns moved",
        owner_only=True,  # of few people, a difference counts one
        help=f"Mean total variation within each category of at least {k} people; the mark is what "
        "chance moves between two samples of these sizes.",
    )  # fmt: skip
    return [told] if rows else []


def _line_blocks(
    tables: Aligned, cells: Cells, axes: tuple[str, str] | None, lines: list[Any]
) -> list[Block]:
    if axes is None or not lines:
        return []
    rows = [
        [_label(tables, cells, group), group.people, before.slope, after and after.slope, agrees]
        for group, before, after, agrees in lines[:_MOST_SHOWN]
    ]
    columns = "subgroup", "people", "slope, original", "slope, release", "agrees"
    told = table(
        columns, rows, folded=f"Regression of {axes[1]} on {axes[0]} by subgroup",
        counts=["people"], owner_only=True,
        title=f"Slope of '{axes[1]}' over '{axes[0]}', by least squares; agrees: no further apart "
        "than chance would have it.",
    )  # fmt: skip
    return [told]


def _label(tables: Aligned, cells: Cells, group: Subgroup) -> str:
    """Name a subgroup: its column and the value that all of it share."""
    name = cells.names[group.column]
    if group.cell == 0:
        return f"{name}: (missing)"
    if name in tables.domains:
        return f"{name}: {tables.domains[name][group.cell]}"
    rows = cells.original[:, group.column] == group.cell
    return f"{name}: {tables.frames[0][name].filter(rows)[0]:g}"
