"""Condensation of each class on its own, so that no group mixes classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl

from tulle import _progress as progress
from tulle._checks import check_choice, check_int
from tulle._choices import SMALL_CLASSES
from tulle._plurals import counted
from tulle._random import RandomState, as_generator, spawn
from tulle._relations.plan import Plan
from tulle._types import Floats, Ints
from tulle.condense._classes import Labels, Unit, approximate_gcd, read_labels, units_of
from tulle.condense._conditions import draw_where
from tulle.condense._diversity import locate_sensitive
from tulle.condense._estimators import Estimator, check_is_fitted, note_features, takes_any_table
from tulle.condense._grouping import GroupAttributes, GroupFacts, Watcher, check_facts
from tulle.condense._histories import LinkedRows
from tulle.condense._levels import check_levels, feasible, locate_levels, locate_people
from tulle.condense._notes import fact_notes, table_notes, warn_weaker
from tulle.condense._papers import Papers
from tulle.condense._shaped import (
    LABEL_CODES,
    Block,
    Shape,
    classes_of,
    fewest_of,
    plan_checks,
    refuse_broken,
    rule_notes,
    split_classes,
    summarise_rules,
    with_labels,
)
from tulle.condense._weights import WeightTotals
from tulle.condense.condenser import Condenser
from tulle.errors import ParameterError
from tulle.table._drawing import allot
from tulle.table._encoder import TableEncoder
from tulle.table._frames import Border, Exit, enter, enter_column
from tulle.table._rare import Crowd
from tulle.table._series import free_name
from tulle.table.schema import Column, Kind, Schema

if TYPE_CHECKING:
    from sklearn.utils import Tags

_DEFAULT_MIN_GROUP = 10


class ClassCondenser(GroupAttributes, Estimator):
    """Condense each class of a labelled table on its own, with exact labels, for training.

    Parameters
    ----------
    condenser : Condenser, optional
        Gives grouping, synthesis, weights, policy and rules between columns (which may name the
        classes by the name of ``y``); a plain ``Condenser()`` by default. Its
        time budget is that of all classes together. A stream condenses class by class with
        ``StreamCondenser(classwise=True)``.
    k : int, optional
        The smallest group, the same in all classes. By default that of the given condenser; if
        none is given, or ``min_group`` is, the approximate GCD of the class sizes.
    min_group : int, optional
        The smallest group size acceptable (``t`` in paper 001; 10 by default): the approximate
        GCD is a multiple of it, ``k`` may not be smaller, and smaller classes are what
        ``small_classes`` says.
    small_classes : {"error", "suppress", "pool"}
        What to do with classes that have fewer records than a group needs: stop, withhold them,
        or condense them together (joined by the next smallest class if they are still too few);
        the labels of a pool come out at each group's own rates, and records are then drawn as
        with ``synthesis="uniform"``.
    random_state : int, Generator, RandomState or None
        None takes that of the condenser, else the operating system's entropy.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    class_counts_ : ndarray
        Records of each class that were condensed; 0 for suppressed ones.
    k_ : int or None
        The group size used; None where ``fit`` got levels.
    condensers_ : list
        The fitted condenser of each class (the pool's last).
    counts_, means_, covariances_, levels_, information_loss_, level_summary_, n_suppressed_,
    n_verbatim_, n_degenerate_, n_singular_, rules_, broken_rules_, notes_
        As in :class:`Condenser`, over all classes. Scales are those of the whole table.

    What may leave
    --------------
    What ``sample`` returns, with the limits of :class:`Condenser`. Class sizes are released
    exactly, except for suppressed classes and the rarer ones of a pool of more than 32.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tulle import ClassCondenser
    >>> X, y = load_iris(return_X_y=True)
    >>> condenser = ClassCondenser(k=10, random_state=0)
    >>> X_new, y_new = condenser.fit_resample(X, y)
    >>> X_new.shape, condenser.class_counts_.tolist()
    ((150, 4), [50, 50, 50])
    """

    _withheld = 0  # records of classes that are suppressed

    groups_: GroupFacts
    condensers_: list[Condenser]  # of the classes, in the papers' synthesis
    _synthesis: Shape | Papers | None  # of all classes together
    _rule_plan: Plan
    _totals: WeightTotals | None = None

    def __init__(
        self,
        condenser: Condenser | None = None,
        *,
        k: int | None = None,
        min_group: int | None = None,
        small_classes: str = "error",
        random_state: RandomState = None,
    ) -> None:
        self.condenser = condenser
        self.k = k
        self.min_group = min_group
        self.small_classes = small_classes
        self.random_state = random_state

    def fit(self, X: Any, y: Any, levels: Any = None) -> Self:
        """Condense each class.

        Parameters
        ----------
        X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
            The table.
        y : array-like
            The class of each record.
        levels : array-like of int >= 1, or the name of a column of ``X``, optional
            The smallest group that each record accepts, in place of ``k``.

        Returns
        -------
        self
        """
        self._fit(X, y, levels)
        warn_weaker(self._weaker())
        return self

    def _fit(self, X: Any, y: Any, levels: Any, watch: Watcher | None = None) -> None:
        """Fit without emitting warnings; ``watch`` sees the groups of each class."""
        self._check_parameters()
        template = Condenser() if self.condenser is None else self.condenser
        template._check_parameters()
        frame, exit = enter(X)
        schema = Schema.of(template.columns, frame).weighted(template.weights)
        levels, schema = locate_levels(frame, levels, schema, plain=exit.plain)
        people = locate_people(frame, schema)
        sensitive = locate_sensitive(frame, schema)
        labels = read_labels(y, frame.height)
        demands = None if levels is None else check_levels(levels, frame.height)
        units, self.k_ = self._plan(
            labels,
            demands,
            lambda unit: len(unit.rows) if people is None else len(np.unique(people[unit.rows])),
        )
        seed = template.random_state if self.random_state is None else self.random_state
        rng = as_generator(seed)
        asked = check_levels(self.k_ if demands is None else demands, frame.height)
        crowd = self._crowd(template, units, demands, people, frame.height, rng)
        encoder = TableEncoder(schema).fit(frame, frame.columns if exit.plain else (), crowd)
        labelled = with_labels(frame, labels.schema, labels.codes, encoder)
        known = schema.with_column(Column(labelled.columns[-1], Kind.CATEGORY))
        kept = np.isin(np.arange(frame.height), np.concatenate([unit.rows for unit in units]))
        self._totals = WeightTotals.of(labelled, known, crowd, kept, exact=template.exact_totals)
        note_features(self, frame.columns, plain=exit.plain)
        from sklearn.base import clone

        self._template = clone(template)
        if self.k_ is not None:
            self._template.set_params(k=self.k_)
        self._exit, self._rng, self._encoder = exit, rng, encoder
        self._units = [unit.classes for unit in units]
        self._labels = labels.schema
        self.classes_ = labels.schema.classes
        whole = Block(frame, asked, people, sensitive)
        if template._keeps_shape:
            self._fit_shape(whole, labels, units, watch)
        else:
            self._fit_papers(whole, labels, units, watch)
        released = np.concatenate([unit.rows for unit in units])
        self.class_counts_ = np.bincount(labels.codes[released], minlength=len(self.classes_))
        withheld = frame.height - int(self.class_counts_.sum())
        self.groups_ = replace(self.groups_, suppressed=self.groups_.suppressed + withheld)
        self.rules_ = summarise_rules(self._rule_plan)
        self.notes_ = self._notes(withheld) + rule_notes(template.rules, self.rules_)

    def _fit_shape(
        self, whole: Block, labels: Labels, units: list[Unit], watch: Watcher | None
    ) -> None:
        """Learn from all classes together; no group mixes them."""
        kept = np.zeros(len(whole.levels), dtype=bool)
        for unit in units:
            asked = whole.levels[unit.rows]
            kept[unit.rows] = feasible(asked, self._template.on_infeasible, "k")
        members = np.where(kept, _places(units, len(kept)), -1)
        lots = None if self._template.exact_totals else self._rng
        block = replace(whole.at(kept), classes=classes_of(labels, units, members, lots))
        grouper = self._template._grouper(block, self._rng, watch, members[kept])
        synthesis = self._template._unfitted()
        facts = synthesis.fit(block, self._encoder, grouper)
        lost = sum(len(unit.rows) for unit in units) - int(kept.sum())
        self.groups_ = replace(facts, suppressed=lost)
        self._synthesis = synthesis
        self._rule_plan = synthesis.plan
        self.condensers_ = []

    def _fit_papers(
        self, whole: Block, labels: Labels, units: list[Unit], watch: Watcher | None
    ) -> None:
        """Condense each class by itself: records of one class are drawn from its own groups."""
        matrix, condensers = self._encoder.encode(whole.frame), []
        inside = np.zeros(len(matrix), dtype=bool)
        with progress.bar("condensing classes", len(units)) as advance:
            for unit, child in zip(units, spawn(self._rng, len(units))):
                part = self._unfitted(len(unit.rows) / len(matrix), child)
                note_features(part, whole.frame.columns, plain=self._exit.plain)
                rows, encoder, part._border = _of_unit(
                    unit, matrix, labels, self._encoder, self._exit
                )
                kept = feasible(whole.levels[unit.rows], part.on_infeasible, "k")
                some = unit.rows[kept]
                block = whole.at(some)
                papers, part._rng = Papers(None, part.synthesis, exact=part.exact_moments), child
                grouper = part._grouper(block, child, watch)
                facts = papers.fit_encoded(rows[kept], block.levels, encoder, grouper)
                part._keep(papers, encoder, replace(facts, suppressed=int((~kept).sum())))
                inside[some] = True
                condensers.append(part)
                advance(1)
        self.condensers_ = condensers
        self._synthesis = None
        self.groups_ = GroupFacts.joined([part.groups_ for part in condensers])
        members = np.where(inside, _places(units, len(inside)), -1)
        rules, least = self._template.rules, int(self.levels_.max())
        classes = classes_of(labels, units, members, self._rng)
        block = replace(whole.at(inside), classes=classes)
        self._rule_plan = plan_checks(block, self._encoder, rules, least, self._rng)

    def sample(self, n_samples: int | None = None, *, where: str | None = None) -> tuple[Any, Any]:
        """Draw new records and their labels, in random order.

        Parameters
        ----------
        n_samples : int, optional
            How many; by default as many as were condensed, or as many of them as meet ``where``.
        where : str, optional
            A condition on the records, as for :meth:`Condenser.sample`; the classes have the name
            that ``y`` came with (``y``, if it had none).

        Returns
        -------
        pair of tables
            ``(X_new, y_new)``.
        """
        check_is_fitted(self, "groups_")
        if n_samples is not None:
            check_int("sample", "n_samples", n_samples, 1)
        check_facts(self.groups_)
        if where is None:
            drawn, codes = self._draw(n_samples)
        else:
            drawn, codes = split_classes(self._draw_where(n_samples, where), self._encoder)
        whole = with_labels(drawn, self._labels, codes, self._encoder)
        if self._totals is not None and where is None:
            whole = self._totals.calibrate(whole)
            drawn = whole.select(drawn.columns)
        self.broken_rules_ = refuse_broken(
            self._rule_plan, whole, accept=self._template.accept_broken_rules
        )
        return self._exit.leave(drawn), self._labels.leave(codes)

    def _draw_where(self, n_samples: int | None, where: str) -> pl.DataFrame:
        """Draw records that meet a condition, with their classes."""

        def draw(size: int) -> pl.DataFrame:
            drawn, codes = self._draw(size)
            whole = with_labels(drawn, self._labels, codes, self._encoder)
            return whole.with_columns(pl.Series(LABEL_CODES, codes))

        least = min(self.rests_on_.values())
        return draw_where(draw, where, n_samples, self._encoder, self.groups_, k=least)

    def _draw(self, n_samples: int | None) -> tuple[pl.DataFrame, Ints]:
        """Draw records as a frame, and their classes as places among the labels."""
        if self._synthesis is not None:
            return split_classes(self._synthesis.draw(n_samples, self._rng), self._encoder)
        totals = np.array([int(np.sum(part.counts_)) for part in self.condensers_])
        sizes: list[int | None] = [None] * len(totals)
        if n_samples is not None:
            wanted = np.array([n_samples])
            sizes = allot(totals[None, :].astype(float), wanted, self._rng)[0].tolist()
        parts = [
            _draw_unit(condenser, classes, size)
            for condenser, classes, total, size in zip(self.condensers_, self._units, totals, sizes)
            if total and size != 0
        ]
        drawn = pl.concat([frame for frame, _ in parts])
        codes = np.concatenate([part for _, part in parts])
        order = self._rng.permutation(len(codes))
        return drawn[order], codes[order]

    def fit_resample(self, X: Any, y: Any, levels: Any = None) -> tuple[Any, Any]:
        """Fit the table and draw a training set of the same size.

        Parameters
        ----------
        X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
            The table.
        y : array-like
            The class of each record.
        levels : array-like of int >= 1, or the name of a column of ``X``, optional
            As for :meth:`fit`.

        Returns
        -------
        pair of tables
            ``(X_new, y_new)``.
        """
        return self.fit(X, y, levels).sample()

    @property
    def means_(self) -> Floats:
        return np.concatenate([part.means_[:, : self._width] for part in self._parts])

    @property
    def covariances_(self) -> Floats:
        width = self._width
        return np.concatenate([part.covariances_[:, :width, :width] for part in self._parts])

    @property
    def _parts(self) -> list[Condenser]:
        """Return the condensers of the classes, which only the papers' synthesis has."""
        return self.condensers_ or [Condenser._papers.fget(self)]  # type: ignore[attr-defined]

    @property
    def _width(self) -> int:
        """Return the number of dimensions to show: a pool has additional ones for its labels."""
        return len(self._encoder.scales_)

    @property
    def merged_(self) -> list[str]:
        return self._encoder.merged()

    @property
    def rests_on_(self) -> dict[str, int]:
        if self._synthesis is not None:
            return self._synthesis.rests_on()
        return fewest_of(part.rests_on_ for part in self.condensers_)

    @property
    def _weakest(self) -> Shape | Papers | LinkedRows:
        """Return the synthesis of all classes, or that of the class with the smallest group."""
        if self._synthesis is not None:
            return self._synthesis
        return min(self.condensers_, key=lambda part: int(part.people_.min()))._synthesis

    def _weaker(self) -> list[str]:
        """Return where protection is weaker than it looks."""
        return fact_notes(self.groups_, exact=self._template.exact_totals)

    def _notes(self, withheld: int) -> list[str]:
        """Return the notes of all classes: once if a note holds for all, else with its class."""
        notes = []
        if withheld:
            notes.append(
                f"{counted(withheld, 'record', 'is')} withheld: the class is too small, or "
                "the level too high for it"
            )
        if self._synthesis is not None:
            notes += self._weaker() + table_notes(self.groups_, self._encoder)
            return notes + self._synthesis.notes
        first, *others = self.condensers_
        shared = [note for note in first.notes_ if all(note in part.notes_ for part in others)]
        shared = shared if others else []
        for part, classes in zip(self.condensers_, self._units):
            names = ", ".join(f"'{self.classes_[place]}'" for place in classes)
            notes += [f"class {names}: {note}" for note in part.notes_ if note not in shared]
        return notes + shared

    def _check_parameters(self) -> None:
        if self.k is not None:
            check_int("ClassCondenser", "k", self.k, 2)
        if self.min_group is not None:
            check_int("ClassCondenser", "min_group", self.min_group, 2)
        check_choice("ClassCondenser", "small_classes", self.small_classes, SMALL_CLASSES)
        if not (self.condenser is None or isinstance(self.condenser, Condenser)):
            raise ParameterError(
                "The 'condenser' parameter of ClassCondenser must be a Condenser (a stream takes "
                "classes itself: StreamCondenser(classwise=True)). "
                f"Got a {type(self.condenser).__name__} instead."
            )

    def _plan(
        self, labels: Labels, demands: Ints | None, size_of: Callable[[Unit], int]
    ) -> tuple[list[Unit], int | None]:
        """Return the classes (and the pool) to condense, and the group size.

        ``size_of`` counts the people of a class.
        """
        if demands is not None:
            partly = getattr(self.condenser, "on_infeasible", "error") == "suppress"
            asked = "their highest level"
            return units_of(labels, demands, self.small_classes, asked, partly=partly), None
        k = self.k
        if k is None and self.min_group is None and self.condenser is not None:
            k = check_int("ClassCondenser", "condenser.k", self.condenser.k, 2)
        if k is not None and k < (self.min_group or k):
            raise ParameterError(
                f"k={k} is smaller than min_group={self.min_group}: leave one of them out",
                parameter="k",
            )
        if k is not None:
            return units_of(labels, k, self.small_classes, f"k={k}"), k
        t = self.min_group or _DEFAULT_MIN_GROUP
        units = units_of(labels, t, self.small_classes, f"min_group={t}")
        return units, approximate_gcd(map(size_of, units), t)

    def _crowd(
        self,
        template: Condenser,
        units: list[Unit],
        demands: Ints | None,
        people: Ints | None,
        rows: int,
        rng: np.random.Generator,
    ) -> Crowd:
        """Return how many people must share what the release shows, and who of them counts."""
        kept = np.zeros(rows, dtype=bool)
        for unit in units:
            asked = None if demands is None else feasible(demands[unit.rows], "suppress", "level")
            kept[unit.rows] = True if asked is None else asked
        if demands is None:
            demands = np.full(rows, self.k_)
        return template._crowd(demands, kept, people, rng)

    def _unfitted(self, share: float, rng: np.random.Generator) -> Condenser:
        """Return the unfitted condenser of one class, which has a share of the records."""
        from sklearn.base import clone

        part: Condenser = clone(self._template).set_params(random_state=rng)
        if part.time_budget is not None:  # for all classes together
            part.set_params(time_budget=part.time_budget * share)
        return part

    def __sklearn_tags__(self) -> Tags:
        tags = takes_any_table(super().__sklearn_tags__())
        tags.target_tags.required = True
        return tags


def _places(units: Sequence[Unit], rows: int) -> Ints:
    """Return the unit of each record, -1 where its class is withheld."""
    places = np.full(rows, -1, dtype=np.int64)
    for place, unit in enumerate(units):
        places[unit.rows] = place
    return places


def _of_unit(
    unit: Unit, matrix: Floats, labels: Labels, encoder: TableEncoder, exit: Exit
) -> tuple[Floats, TableEncoder, Border]:
    """Return the encoded records of a class; in a pool the labels are one more column."""
    rows = matrix[unit.rows]
    if len(unit.classes) == 1:
        return rows, encoder, Border(exit)
    # as a category, whatever the labels are, so that each group keeps its rates
    words = [str(code) for code in labels.codes[unit.rows].tolist()]
    name = free_name("label", encoder.slices_)
    label, label_exit = enter_column(pl.Series(name, words, dtype=pl.Categorical))
    wider, column = encoder.with_column(label)
    return np.hstack([rows, column]), wider, Border(exit, label_exit)


def _draw_unit(
    condenser: Condenser, classes: Sequence[int], size: int | None
) -> tuple[pl.DataFrame, Ints]:
    """Draw new records of a class or a pool, and their labels."""
    drawn = condenser._synthesis.draw(size, condenser._rng)
    if len(classes) == 1:
        return drawn, np.full(drawn.height, classes[0], dtype=np.int64)
    words = drawn.to_series(-1)
    return drawn[:, :-1], words.cast(pl.String).cast(pl.Int64).to_numpy()
