"""Condensation of each class on its own, so that no group mixes classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tulle._checks import check_choice, check_int
from tulle._choices import SMALL_CLASSES
from tulle._plurals import counted
from tulle._random import RandomState, as_generator
from tulle._types import Ints
from tulle.condense._classes import Labels, Unit, approximate_gcd, read_labels, units_of
from tulle.condense._diversity import locate_sensitive
from tulle.condense._estimators import Estimator, check_is_fitted, note_features, takes_any_table
from tulle.condense._grouping import Watcher
from tulle.condense._levels import check_levels, feasible, locate_levels, locate_people
from tulle.condense._notes import fact_notes, table_notes, warn_weaker
from tulle.condense._shaped import (
    LABEL_CODES,
    Block,
    classes_of,
    rule_notes,
    summarise_rules,
    with_labels,
)
from tulle.condense._weights import WeightTotals
from tulle.condense.condenser import CondensedTable, Condenser
from tulle.errors import ParameterError
from tulle.table._encoder import TableEncoder
from tulle.table._frames import enter
from tulle.table.schema import Column, Kind, Schema

if TYPE_CHECKING:
    from sklearn.utils import Tags

_DEFAULT_MIN_GROUP = 10


class ClassCondenser(CondensedTable, Estimator):
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
        the labels of a pool come out at their rates in it.
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
    group_classes_ : ndarray (g,)
        Of the papers' synthesis: the place in ``classes_`` of each group's class, -1 in the pool.
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
        warn_weaker(fact_notes(self.groups_, exact=self._template.exact_totals))
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
        released = np.concatenate([unit.rows for unit in units])
        kept = np.isin(np.arange(frame.height), released)
        crowd = template._crowd(asked, kept, people, rng)
        encoder = TableEncoder(schema).fit(frame, frame.columns if exit.plain else (), crowd)
        labelled = with_labels(frame, labels.schema, labels.codes, encoder)
        known = schema.with_column(Column(labelled.columns[-1], Kind.CATEGORY))
        self._totals = WeightTotals.of(labelled, known, crowd, kept, exact=template.exact_totals)
        note_features(self, frame.columns, plain=exit.plain)
        places = np.full(frame.height, -1, dtype=np.int64)
        for place, unit in enumerate(units):
            able = feasible(asked[unit.rows], template.on_infeasible, "k")
            places[unit.rows[able]] = place
        inside = places >= 0
        whole = Block(frame, asked, people, locate_sensitive(frame, schema))
        lots = None if template.exact_totals else rng
        block = replace(whole.at(inside), classes=classes_of(labels, units, places, lots))
        synthesis = template._unfitted()
        grouper = template._grouper(block, rng, watch, places[inside])
        facts = synthesis.fit(block, encoder, grouper)

        self._synthesis, self._encoder, self._rng = synthesis, encoder, rng
        self._exit, self._template = exit, template.cloned()
        self._labels, self._units = labels.schema, [unit.classes for unit in units]
        self.classes_ = labels.schema.classes
        self.class_counts_ = np.bincount(labels.codes[released], minlength=len(self.classes_))
        lost = frame.height - int(inside.sum())
        self.groups_ = replace(facts, suppressed=lost)
        self.rules_ = summarise_rules(self._rule_plan)
        withheld = frame.height - len(released)
        notes = _class_notes(withheld) + fact_notes(facts, exact=template.exact_totals)
        notes += table_notes(replace(facts, suppressed=lost - withheld), encoder)
        self.notes_ = notes + synthesis.notes + rule_notes(template.rules, self.rules_)

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
        drawn = self._sampled(n_samples, where, accept=self._template.accept_broken_rules)
        codes = drawn[LABEL_CODES].to_numpy()
        return self._exit.leave(drawn.select(list(self._encoder.codecs))), self._labels.leave(codes)

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
    def group_classes_(self) -> Ints:
        own = [classes[0] if len(classes) == 1 else -1 for classes in self._units]
        return np.array(own)[self._papers.units]

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

    def __sklearn_tags__(self) -> Tags:
        tags = takes_any_table(super().__sklearn_tags__())
        tags.target_tags.required = True
        return tags


def _class_notes(withheld: int) -> list[str]:
    if not withheld:
        return []
    return [
        f"{counted(withheld, 'record', 'is')} withheld: the class is too small, or the level too "
        "high for it"
    ]
