"""The default synthesis: a table's shape and the rules between its columns, learnt together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._columns import CategoryColumn, Column, NumberColumn, take_rows
from tulle._people import distinct_people, people_among
from tulle._plurals import counted
from tulle._relations.language import ColumnRule, parse_rule
from tulle._relations.plan import Plan, Planner
from tulle._relations.proposals import find_rules
from tulle._relations.values import as_released, writings_of
from tulle._shape.model import GROUP_PIECE, LEAF_PIECE, ShapeModel, fit_shape
from tulle._shape.trees import TREES
from tulle._types import Flags, Floats, Ints
from tulle.condense._classes import Labels, LabelSchema, Unit
from tulle.condense._diversity import Sensitive
from tulle.condense._grouping import Grouper, GroupFacts
from tulle.condense._levels import common_level
from tulle.condense._notes import relation_notes
from tulle.errors import GateError, ParameterError
from tulle.table._encoder import TableEncoder
from tulle.table._words import coordinate_pairs
from tulle.table.schema import Role

BOUNDS = "About where the lowest and highest values of a column lie: they rest on k people or more."
_LABEL = ""  # the classes, in a model of the columns
LABEL_CODES = "\0class"
_GAP = 0.2  # of a cell's width: nothing is drawn in an empty stretch this wide


class RuleSummary(NamedTuple):
    """A rule that a release keeps, and how the table stood to it."""

    rule: str
    found: bool  # in the table, rather than given
    share_broken: float  # of the table's records; 0 where fewer than about k people break it


@dataclass(frozen=True)
class Classes:
    """The classes of a table, and the units that are condensed: a class, or a pool of small ones.

    The classes of a pool are one class of the model. Which of them a record of the pool gets is
    drawn later at their rates: of a class of fewer than ``k`` people nothing else is kept.
    """

    labels: LabelSchema
    rates: list[Ints]  # of the classes in each unit, drawn once unless exact

    def draw(self, units: Ints, rng: np.random.Generator) -> Ints:
        """Return a class for each record: that of its unit, or in a pool one by lot."""
        classes = np.zeros(len(units), dtype=np.int64)
        for place, rates in enumerate(self.rates):
            rows = np.flatnonzero(units == place)
            classes[rows] = rng.choice(len(rates), len(rows), p=rates / rates.sum())
        return classes


class ClassRows(NamedTuple):
    """The classes of a table with those of each record, while a model is fitted."""

    classes: Classes
    codes: Ints
    units: Ints

    def at(self, rows: Flags | Ints) -> ClassRows:
        return ClassRows(self.classes, self.codes[rows], self.units[rows])


def classes_of(
    labels: Labels, units: Sequence[Unit], members: Ints, rng: np.random.Generator | None
) -> ClassRows:
    """Return the classes of the records that are in a group; without ``rng``, their exact rates."""
    inside, place_of = members >= 0, np.zeros(len(members), dtype=np.int64)
    rates = []
    for place, unit in enumerate(units):
        place_of[unit.rows] = place
        counts = np.bincount(labels.codes[unit.rows], minlength=len(labels.schema.classes))
        if rng is not None:
            counts = rng.multinomial(len(unit.rows), counts / len(unit.rows))
        rates.append(counts)
    classes = Classes(labels.schema, rates)
    return ClassRows(classes, labels.codes[inside], place_of[inside])


Rules = Sequence[tuple[ColumnRule, bool]]  # and whether each was found in the table


class Settled(NamedTuple):
    """What was decided for a whole table, of which a block is a part."""

    rules: Rules
    grown_on: int | None = None  # records that a tree is grown on, at most
    trees: int = TREES  # of a column
    person: str | None = None  # the column that names people, where these are released with rows
    block: tuple[int, int] = (0, 1)  # which of how many: new keys of people differ between them
    whole: pl.DataFrame | None = None  # values of columns to whose distribution groups are close


@dataclass(frozen=True)
class Block:
    """The records that are condensed together, while they are: a table, or a part of it."""

    frame: pl.DataFrame
    levels: Ints  # the smallest group that each record accepts
    people: Ints | None = None  # the person of each record, if people have several
    sensitive: Sequence[Sensitive] = ()
    classes: ClassRows | None = None
    settled: Settled | None = None  # the encoder too is then the whole table's

    def at(self, rows: Flags | Ints) -> Block:
        frame = self.frame.filter(rows) if rows.dtype == bool else self.frame[rows]
        return replace(
            self,
            frame=frame,
            levels=self.levels[rows],
            people=None if self.people is None else self.people[rows],
            sensitive=[column.at(rows) for column in self.sensitive],
            classes=None if self.classes is None else self.classes.at(rows),
        )


@dataclass(frozen=True)
class ShapedTable:
    """A model of the columns, and how rules between them are kept in what is drawn from it."""

    encoder: TableEncoder
    plan: Plan
    model: ShapeModel
    classes: Classes | None = None
    places: tuple[Places, ...] = ()  # pairs of coordinates, each one column of the model

    def draw(self, n: int | None, rng: np.random.Generator) -> pl.DataFrame:
        """Draw records; their classes, if there are some, are the last column."""
        frame = self._draw_once(self.model.n_rows if n is None else n, rng)
        return self.plan.redraw(frame, lambda size: self._draw_once(size, rng))

    def _draw_once(self, n: int, rng: np.random.Generator) -> pl.DataFrame:
        drawn: dict[str, Any] = dict(zip(self.model.names, self.model.sample(n, rng)))
        for places in self.places:
            drawn |= places.draw(drawn.pop(places.name), rng)
        fixed = {}
        if self.classes is not None:
            codes = pl.Series(self.classes.draw(drawn.pop(_LABEL).astype(np.int64), rng))
            labels = self.classes.labels
            fixed[label_name(labels, self.encoder)] = labels.domain.gather(codes)
            fixed[LABEL_CODES] = codes
        return self.plan.complete(drawn, self.encoder.codecs, fixed, rng)


def label_name(labels: LabelSchema, encoder: TableEncoder) -> str:
    """Return what rules call the classes: the name they came with, if no column has it."""
    name = labels.domain.name
    return f"{name} (class)" if name in encoder.codecs else name


def with_labels(
    frame: pl.DataFrame, labels: LabelSchema, codes: Ints, encoder: TableEncoder
) -> pl.DataFrame:
    classes = labels.domain.gather(pl.Series(codes))
    return frame.with_columns(classes.alias(label_name(labels, encoder)))


class Shape:
    """The synthesis that keeps the shape of a table: cells, forests and condensed groups."""

    def __init__(
        self,
        rules: Sequence[str | ColumnRule] | None,
        *,
        exact: bool = False,
        also: Sequence[str] = (),
        near: frozenset[str] = frozenset(),
    ) -> None:
        self.rules = rules
        self.also = also  # rules that hold by what the columns are
        self.near = near  # columns from which distances are modelled
        self.exact = exact
        self.tables: list[ShapedTable] = []  # several where condensers were merged
        self.shown: dict[str, int] = {}  # what a release shows, and of how many people at least
        self.notes: list[str] = []  # what a reader should know of this synthesis

    @property
    def plan(self) -> Plan:
        first, *others = (table.plan for table in self.tables)
        return reduce(Plan.joined, others, first)

    def fit(self, block: Block, encoder: TableEncoder, grouper: Grouper) -> GroupFacts:
        """Learn from the records of a block, and return what is known of their groups."""
        k, settled = common_level(block.levels), block.settled
        planner = replace(planner_of(block, encoder, k, grouper.rng), near=self.near)
        if settled is None:
            rules = settled_rules(planner, block, encoder, self.rules)
        else:
            rules = settled.rules
        also = [(rule, True) for rule, _ in _given(self.also, block.frame, planner)]
        plan, columns = planner.plan([*also, *rules])
        places = []
        asked = {column.demand.name for column in block.sensitive}
        for pair in coordinate_pairs(column.name for column in columns):
            if asked.isdisjoint(pair):
                columns, joined = join_coordinates(
                    columns, pair, k, block.people, block.levels <= k
                )
                places += [] if joined is None else [joined]
        label, classes = None, block.classes
        if classes is not None:
            label = _LABEL
            columns.append(CategoryColumn(_LABEL, classes.units, len(classes.classes.rates)))
        model = fit_shape(
            columns,
            k,
            grouper.rng,
            label=label,
            group=grouper,
            people=block.people,
            levels=block.levels,
            weights={column.name: column.weight for column in encoder.columns_},
            exact=self.exact,
            demands=[column.demand for column in block.sensitive],
            settled=settled is not None,
            most=None if settled is None else settled.grown_on,
            trees=TREES if settled is None else settled.trees,
        )
        self.shown = model.rests_on()
        self.tables = [
            ShapedTable(
                encoder, plan, model, None if classes is None else classes.classes, tuple(places)
            )
        ]
        people = block.people
        count = block.frame.height if people is None else len(np.unique(people))
        self.notes = relation_notes(count, k, model.leaf)
        return grouper.finish()

    def draw(self, n: int | None, rng: np.random.Generator) -> pl.DataFrame:
        """Draw records, from all merged tables by their numbers; classes are the last columns."""
        if len(self.tables) == 1:
            return self.tables[0].draw(n, rng)
        weights = np.array([table.model.n_rows for table in self.tables], dtype=float)
        n = int(weights.sum()) if n is None else n
        sizes = rng.multinomial(n, weights / weights.sum()).tolist()
        drawn = [table.draw(size, rng) for table, size in zip(self.tables, sizes)]
        return pl.concat(drawn, how="vertical_relaxed")[rng.permutation(n)]

    def merged(self, other: Shape) -> Shape:
        both = Shape(self.rules, exact=self.exact or other.exact)
        both.tables = self.tables + other.tables
        both.shown = fewest_of([self.shown, other.shown])
        both.notes = list(dict.fromkeys(self.notes + other.notes))
        return both

    def rests_on(self) -> dict[str, int]:
        return self.shown

    def sentence(self, *, sizes: bool = True) -> str:
        return shape_sentence(self.rests_on(), exact=self.exact, sizes=sizes)

    def limits(self) -> list[str]:
        totals = "totals are exact, as asked" if self.exact else "lots hide one person only in part"
        return [
            "What all people of a leaf or a group share: records drawn from it share it too.",
            f"Whether one person is in the table, to someone who knows everybody else: {totals}.",
            BOUNDS,
        ]


def fewest_of(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the fewest people that each piece of a release rests on in any of its parts."""
    found: dict[str, int] = {}
    for part in parts:
        for piece, people in part.items():
            found[piece] = min(people, found.get(piece, people))
    return found


def shape_sentence(rests_on: Mapping[str, int], *, exact: bool, sizes: bool = True) -> str:
    """Return in words what every record of a shape was drawn from.

    Without ``sizes``, which levels of single people may have set, in parts of these levels.
    """
    counts = "kept as it is" if exact else "drawn once, by lot, from how often it does"
    if sizes:
        cell, leaf, group = (
            f"at least {people} people"
            for people in (min(rests_on.values()), rests_on[LEAF_PIECE], rests_on[GROUP_PIECE])
        )
        more = ""
    else:
        cell = "at least as many people as nine records of ten require"
        leaf, group = f"{'' if exact else 'twice '}as many people", "five times as many people"
        more = (
            " (or everybody, where there are fewer). Records that require more were replaced "
            "first, column by column, by what others of a group as large as they require have"
        )
    return (
        "Every value of a released record comes from a cell of its column (a category, a common "
        f"value or a stretch of numbers) that {cell} hold. Which cell a record gets comes from "
        f"leaves of {leaf} who are alike in other columns: how often a cell occurs in a leaf is "
        f"{counts}, and one person may be all there is behind it. Which records are alike comes "
        f"from condensed groups of {group}{more}."
    )


def settle_rules(
    block: Block, encoder: TableEncoder, rules: Sequence[str] | None, rng: np.random.Generator
) -> Rules:
    """Return the rules of a table of which the block is a sample; the encoder learns from it."""
    planner = planner_of(block, encoder, common_level(block.levels), rng)
    return settled_rules(planner, block, encoder, rules)


def settled_rules(
    planner: Planner, block: Block, encoder: TableEncoder, rules: Sequence[str | ColumnRule] | None
) -> Rules:
    """Return the rules that were given, else those that the block follows.

    A sensitive column with a demand follows from none that nobody gave, nor does a survey weight.
    """
    if rules is not None:
        return _given(rules, block.frame, planner)
    writings = writings_of(encoder.codecs)
    rows = np.flatnonzero(planner.counted)
    columns = {name: take_rows(column, rows) for name, column in planner.columns.items()}
    people = None if planner.people is None else planner.people[rows]
    found = find_rules(planner.frame[rows], columns, planner.k, people, writings, planner.rng)
    asked = {column.demand.name for column in block.sensitive}
    asked |= {column.name for column in encoder.columns_ if column.role is Role.WEIGHT}
    return [(rule, True) for rule in found if asked.isdisjoint(rule.columns)]


def plan_checks(
    block: Block,
    encoder: TableEncoder,
    rules: Sequence[str] | None,
    k: int,
    rng: np.random.Generator,
) -> Plan:
    """Return a plan that only checks given rules, for the papers' synthesis."""
    if not rules:
        return Plan()
    planner = planner_of(block, encoder, k, rng)
    return replace(planner.plan(_given(rules, block.frame, planner))[0], steps=(), merged={})


def planner_of(block: Block, encoder: TableEncoder, k: int, rng: np.random.Generator) -> Planner:
    """Return a planner of the rules of a block; the encoder learns what its columns may show."""
    frame, classes = block.frame, block.classes
    if block.settled is None:
        columns = {column.name: column for column in encoder.plain(frame, k, rng, block.people)}
    else:
        columns = {name: codec.as_known(frame[name]) for name, codec in encoder.codecs.items()}
    table = as_released(frame, encoder.codecs, columns)
    if classes is not None:
        table = with_labels(table, classes.classes.labels, classes.codes, encoder)
    part = block.settled is not None
    return Planner(
        table, encoder.codecs, columns, k, block.people, rng, block.levels <= k, part=part
    )


def _given(
    rules: Sequence[str | ColumnRule], frame: pl.DataFrame, planner: Planner
) -> list[tuple[ColumnRule, bool]]:
    """Read the rules that were given; those about columns that are not released say nothing."""
    if isinstance(rules, str) or not isinstance(rules, Sequence):
        raise ParameterError(
            f"'rules' must be a list of texts. Got a {type(rules).__name__}.", parameter="rules"
        )
    released = planner.frame.columns
    names = dict.fromkeys([*released, *frame.columns])
    parsed = [text if isinstance(text, ColumnRule) else parse_rule(text, names) for text in rules]
    return [(rule, False) for rule in parsed if {*rule.columns} <= {*released}]


def summarise_rules(plan: Plan) -> list[RuleSummary]:
    return [RuleSummary(kept.rule.text, kept.found, kept.share) for kept in plan.rules]


def refuse_broken(plan: Plan, released: pl.DataFrame, *, accept: bool) -> dict[str, int]:
    """Return how many released records break rules that the table follows.

    Refuses them unless they are accepted, or the rule was not asked for.
    """
    counts = zip(plan.rules, plan.count_broken(released))
    wrong = {kept: count for kept, count in counts if count}
    asked = [(kept, count) for kept, count in wrong.items() if not kept.found]
    if asked and not accept:
        kept, count = asked[0]
        more = f" (and {counted(len(asked) - 1, 'more rule')})" if asked[1:] else ""
        raise GateError(
            f"{count:,} of {counted(released.height, 'released record')} would break the rule "
            f"'{kept.rule.text}'{more}: correct or leave out the rule, ask for smaller groups, or "
            "accept it (accept_broken_rules)",
            parameter="accept_broken_rules",
        )
    return {kept.rule.text: count for kept, count in wrong.items()}


def rule_notes(given: Sequence[str] | None, kept: Sequence[RuleSummary]) -> list[str]:
    """Return what a reader should know of the rules."""
    texts = {one.rule for one in kept}
    notes = [
        f"the rule '{text}' is about a column that is not released"
        for text in given or ()
        if text.strip() not in texts
    ]
    return notes + [
        f"the rule '{one.rule}' is broken in {one.share_broken:.1%} of the table's records: leave "
        "it out if the release need not follow it"
        for one in kept
        if one.share_broken
    ]


# Pairs of coordinates are one column: a place is drawn where people are, never between them. The
# plane is cut into cells of at least 2 k people, at gaps where there are some. A cell is a number
# along the cuts, so that near numbers are near places, and all that the rest of the synthesis sees.
# It becomes a place again by a draw about the mean of the densest half of its people.
@dataclass(frozen=True)
class Places:
    """The cells of a pair of coordinates, and where each draws from."""

    name: str  # of the one column
    pair: tuple[str, str]
    centres: Floats  # (cells, 2), each the mean of at least k people
    reach: Floats  # (cells, 2), their standard deviations
    decimals: tuple[int | None, ...]  # what each coordinate is written with

    def draw(self, cells: Floats, rng: np.random.Generator) -> dict[str, Floats]:
        """Return both coordinates of each record, missing together."""
        known = np.isfinite(cells)
        places = np.full((len(cells), 2), np.nan)
        at = cells[known].astype(np.int64)
        places[known] = self.centres[at] + self.reach[at] * rng.uniform(-1, 1, (len(at), 2))
        drawn = (
            values if digits is None else values.round(digits)
            for values, digits in zip(places.T, self.decimals)
        )
        return dict(zip(self.pair, drawn))


def join_coordinates(
    columns: list[Column], pair: tuple[str, str], k: int, people: Ints | None, counted: Flags
) -> tuple[list[Column], Places | None]:
    """Return the columns with a pair of coordinates as one, and how to part them again.

    None, and the columns as they are, if they are not coordinates in degrees, have special values,
    are missing in different records, or are the lines of a grid. Only records that are ``counted``
    are learnt from.
    """
    axes = {c.name: c for c in columns if c.name in pair and isinstance(c, NumberColumn)}
    if len(axes) != 2 or any(axis.specials for axis in axes.values()):
        return columns, None
    points = np.stack([axes[name].values for name in pair], axis=1)
    known = np.isfinite(points).all(axis=1)
    degrees = bool((np.abs(points[known]) <= (90, 180)).all())
    together = bool((np.isfinite(points).any(axis=1) == known).all())
    if not (degrees and together) or people_among(known & counted, people) < 2 * k:
        return columns, None
    if _is_grid(points[known & counted], k, None if people is None else people[known & counted]):
        return columns, None
    cells = np.full(len(points), np.nan)
    leaves = _cut(points, np.flatnonzero(known & counted), k, people)
    for place, rows in enumerate(leaves):
        cells[rows] = place
    inner = [_densest(points, rows, people) for rows in leaves]
    centres = np.array([points[rows].mean(axis=0) for rows in inner])
    for row in np.flatnonzero(known & ~counted).tolist():
        cells[row] = int(((points[row] - centres) ** 2).sum(axis=1).argmin())
    reach = np.array([points[rows].std(axis=0) for rows in inner])
    decimals = tuple(axes[name].decimals for name in pair)
    places = Places(", ".join(pair), pair, centres, reach, decimals)
    joint = NumberColumn(places.name, cells, 0, coded=True)
    return [joint, *(column for column in columns if column.name not in pair)], places


def _is_grid(points: Floats, k: int, people: Ints | None) -> bool:
    """Tell rows and columns of a field, each shared by many, from places that people share."""
    shared = []
    for keys in (points[:, 0], points[:, 1], points):
        codes = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
        held = distinct_people(codes, people, int(codes.max()) + 1)
        shared.append(float(np.mean(held[codes] >= k)))
    return min(shared[:2]) > 0.5 > shared[2]


def _cut(points: Floats, rows: Ints, k: int, people: Ints | None) -> list[Ints]:
    """Return the rows of each cell: cut across the longer side, at its widest gap or the median."""
    width = np.ptp(points[rows], axis=0)
    for side in np.argsort(-width):
        order = rows[np.argsort(points[rows, side], kind="stable")]
        values = points[order, side]
        ends = [_least(order, k, people), len(order) - _least(order[::-1], k, people)]
        steps = np.diff(values)[ends[0] - 1 : ends[1]]  # between which there are 2k on either side
        if ends[0] > ends[1] or not steps.size or steps.max() <= 0:
            continue
        middle = int(np.argmin(np.abs(np.arange(len(steps)) + ends[0] - len(order) / 2)))
        gap = int(steps.argmax())
        at = gap if steps[gap] > _GAP * width[side] or steps[middle] <= 0 else middle
        low, high = order[: ends[0] + at], order[ends[0] + at :]
        return _cut(points, low, k, people) + _cut(points, high, k, people)
    return [rows]


def _least(order: Ints, k: int, people: Ints | None) -> int:
    """Return how many of the first rows hold 2k people; more than all if they do not."""
    if people is None:
        return 2 * k
    first = np.sort(np.unique(people[order], return_index=True)[1])
    return int(first[2 * k - 1]) + 1 if len(first) >= 2 * k else len(order) + 1


def _densest(points: Floats, rows: Ints, people: Ints | None) -> Ints:
    """Return a row of each of the half of a cell's people who live closest, on its longer side."""
    if people is not None:  # however often somebody came
        rows = rows[np.unique(people[rows], return_index=True)[1]]
    side = int(np.ptp(points[rows], axis=0).argmax())
    order = rows[np.argsort(points[rows, side], kind="stable")]
    half = (len(order) + 1) // 2
    widths = points[order[half - 1 :], side] - points[order[: len(order) - half + 1], side]
    begin = int(widths.argmin())
    return order[begin : begin + half]
