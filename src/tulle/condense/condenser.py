"""Condensation of a table: groups, their statistics, and pseudo-data drawn from them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from tulle._checks import check_choice, check_flag, check_int, check_real
from tulle._choices import GROUPINGS, ON_INFEASIBLE, SYNTHESES
from tulle._moments import GroupMoments
from tulle._random import RandomState, as_generator, spawn
from tulle._relations.plan import Plan
from tulle._types import Flags, Floats, Ints
from tulle.condense._diversity import Sensitive, check_sensitive, locate_sensitive
from tulle.condense._estimators import note_features, takes_any_table
from tulle.condense._joining import join_groups
from tulle.condense._levels import (
    check_groups,
    check_levels,
    check_moments,
    feasible,
    join_summaries,
    locate_levels,
    summarise_levels,
)
from tulle.condense._notes import privacy_notes, relation_notes, table_notes, warn_weaker
from tulle.condense._people import check_people, count_people, locate_people, too_few_people
from tulle.condense._shaped import (
    ShapedTable,
    fit_shaped,
    plan_checks,
    refuse_broken,
    rests_on,
    rule_notes,
    summarise_rules,
)
from tulle.condense._statistics import (
    information_loss,
    refuse_beyond_floats,
    refuse_beyond_memory,
    rescaled,
)
from tulle.condense._synthesis import count_degenerate, leave_grid, synthesize
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.table._drawing import allot
from tulle.table._encoder import TableEncoder
from tulle.table._frames import Border, enter_with_target
from tulle.table._rare import Crowd
from tulle.table.schema import ColumnsLike, Role, Schema, natural_column

# sees the standardised records, their groups and the groups' statistics while a fit runs
Watcher = Callable[[Floats, Ints, GroupMoments], None]


class GroupedRecords(NamedTuple):
    """The records that are released, standardised, and the group of each."""

    matrix: Floats
    demands: Ints  # the smallest group that each accepts
    people: Ints | None
    groups: Ints
    kept: Flags  # which of all records they are


class Condenser(BaseEstimator):
    """Condense a table into groups of at least ``k`` records and draw a look-alike from them.

    Records are put into groups of similar ones. Of each group only the count, the mean and the
    covariance are kept, and new records are drawn from these. Categories, booleans, missing
    and special values come out at each group's own rates; every column keeps its type and
    precision. Values that fewer than ``k`` people hold are merged or suppressed, and the bounds of
    numbers rest on at least ``k`` people.

    Parameters
    ----------
    k : int
        The smallest group. Not used where ``fit`` gets ``levels``: those are then the only demand.
    grouping : {"fast", "best", "levels", "modified", "original", "mdav"}
        How groups are found. ``"fast"`` loses least for its time, ``"best"`` searches on until
        ``time_budget`` ends; the others are those of the papers, for comparison.
    time_budget : float
        Seconds for ``grouping="best"``.
    synthesis : {"shape", "uniform", "normal", "mean"}
        How records are drawn. ``"shape"`` keeps the distribution of each column (heaps, tails,
        missing values) and what columns say of each other: groups give each record a place, trees
        with leaves of at least ``k`` people and quantiles over at least ``k`` people its values.
        The others are those of the papers: along a group's eigenvectors; ``"mean"`` repeats the
        group's mean (plain microaggregation).
    exact_moments : bool
        Draw as ``"uniform"`` and give each group's records exactly its mean and covariance instead
        of on average (in a column with a fixed number of decimals, to a fraction of the last one:
        an exact sum would lie on the grid of these decimals and identify the group). Decimals are
        then neither rounded nor clipped; whole numbers, dates and categories still are. Refused
        where a group has no more records than dimensions: its records could be computed from the
        release.
    exact_totals : bool
        With ``synthesis="shape"``: keep how often each value occurs in a leaf and in the table,
        with leaves of ``k`` instead of ``2 k`` people, instead of drawing totals at random.
        Closer to the table, but whoever knows everybody else can tell whether one person was in
        it.
    weights : mapping of column to float, or sequence
        How much columns count when records are compared (1 by default).
    target_weight : float
        How much the target ``y`` counts when records are compared ("weight of the class label" in
        paper 001): above 1, groups mix fewer classes.
    columns : sequence of :class:`~tulle.table.schema.Column`, or mapping
        What a policy says of the columns: kinds, roles, weights, public bounds. A mapping gives
        each name a Column, a role or a kind: ``{"name": "identifier", "zip": "category"}``.
        Identifiers and ignored columns are left out of the release; a column with the role level
        gives the levels. A column with the role person names the person of each row: every
        group then holds at least ``k`` different people.
    on_infeasible : {"error", "suppress"}
        What to do if records ask for a larger group than there are records: stop, or withhold
        those records and count them in ``n_suppressed_``.
    rules : sequence of str, optional
        Rules between columns that the release keeps, such as ``"admitted <= discharged"``,
        ``"bmi = weight / (height / 100) ** 2"``, ``"industry -> sector"`` or ``"income is missing
        if age < 15"``; see :doc:`/condensation`. By default those that the table itself follows
        in nearly all records are kept; an empty list keeps none.
    accept_broken_rules : bool
        Release a table in which a given rule that the original follows could not be kept
        everywhere; ``broken_rules_`` counts the records.
    random_state : int, Generator, RandomState or None
        None takes the operating system's entropy.

    Attributes
    ----------
    counts_ : ndarray (g,)
        Records in each group.
    people_ : ndarray (g,)
        Different people in each group; its records, unless a column has the role person.
    means_, covariances_ : ndarray (g, d) and (g, d, d)
        In the units of the encoded columns: an array's own units.
    levels_ : ndarray (g,)
        The largest level in each group; never above its count.
    moments_ : GroupMoments
        The same, on standardised columns.
    information_loss_ : float
        100 SSQ / SST on standardised columns.
    diversity_loss_ : float
        How much of it the demands on sensitive columns cost.
    level_summary_ : list of LevelSummary
        For each level: its records, and the smallest group that holds one of them.
    n_suppressed_ : int
        Records withheld.
    n_verbatim_ : int
        Records alone in a group (they asked for level 1), which the papers' synthesis releases as
        they are.
    n_degenerate_ : int
        Groups whose records are all alike: they disclose what their members share.
    n_singular_ : int
        Groups of no more records than dimensions, whose pseudo-records lie in the plane that the
        group's own records span: who knows some columns of a member can compute the others. 0
        with ``synthesis="shape"``, which draws from the covariance within all groups.
    rules_ : list of RuleSummary
        The rules that are kept: the text, whether it was found in the table, and the share of its
        records that break it (0 where fewer than about ``k`` people do).
    broken_rules_ : dict of str to int
        How many records of the last sample break a rule that hardly anybody breaks in the table.
    rests_on_ : dict of str to int
        What a release shows, and of how many people at least each piece of it is.
    notes_ : list of str
        What a reader of the release should know, in sentences without data.
    merged_ : dict
        For each column with values that too few people hold: how many values, and in how many
        records they were merged with others or suppressed.
    encoded_names_ : list of str
        The names of the ``d`` dimensions.

    What may leave
    --------------
    What ``sample`` returns. The fitted object holds no row, but statistics of groups, ranges and
    domains: it is for the owner of the data. Not protected: the number of records, about where
    each column ends (give public bounds), which categories at least ``k`` people hold, and what all
    people of a leaf or a group share (``n_degenerate_``). With the papers' synthesis also exact
    totals, and that many draws from one fit average to its means. Group sizes bound what can be
    linked to a person, they are not proof against an attacker with other knowledge: audit a
    release.

    Notes
    -----
    Readings of the papers: a group that stays undersized merges into its nearest; a column's
    scale is its standard deviation; eigenvectors are those of the standardised columns.

    Examples
    --------
    >>> import numpy as np
    >>> from tulle import Condenser
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> condenser = Condenser(k=20, random_state=0).fit(X)
    >>> bool(condenser.counts_.min() >= 20)
    True
    >>> condenser.sample().shape
    (200, 3)
    """

    # what records are drawn from; several where condensers were merged
    _shapes: list[ShapedTable]

    def __init__(
        self,
        k: int = 10,
        *,
        grouping: str = "fast",
        time_budget: float | None = None,
        synthesis: str = "shape",
        exact_moments: bool = False,
        exact_totals: bool = False,
        weights: Mapping[str, float] | Sequence[float] | None = None,
        target_weight: float = 1.0,
        columns: ColumnsLike | None = None,
        on_infeasible: str = "error",
        rules: Sequence[str] | None = None,
        accept_broken_rules: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.k = k
        self.grouping = grouping
        self.time_budget = time_budget
        self.synthesis = synthesis
        self.exact_moments = exact_moments
        self.exact_totals = exact_totals
        self.weights = weights
        self.target_weight = target_weight
        self.columns = columns
        self.on_infeasible = on_infeasible
        self.rules = rules
        self.accept_broken_rules = accept_broken_rules
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, levels: Any = None) -> Self:
        """Group the records and keep the groups' statistics.

        Parameters
        ----------
        X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
            The table.
        y : array-like, optional
            A regression target to condense together with the features.
        levels : array-like of int >= 1, or the name of a column of ``X``, optional
            The smallest group that each record accepts, in place of ``k``.

        Returns
        -------
        self
        """
        self._fit(X, y, levels)
        warn_weaker(self)
        return self

    def sample(self, n_samples: int | None = None) -> Any:
        """Draw new records, in random order.

        Parameters
        ----------
        n_samples : int, optional
            How many; by default as many as were condensed.

        Returns
        -------
        table, or pair of tables
            The kind of table that was fitted; ``(X_new, y_new)`` if it was fitted with a target.
        """
        check_is_fitted(self, "moments_")
        if n_samples is not None:
            check_int("sample", "n_samples", n_samples, 1)
        drawn = self._draw(n_samples)
        self.broken_rules_ = refuse_broken(self._rule_plan, drawn, accept=self.accept_broken_rules)
        return self._border.leave(drawn)

    def _draw(self, n_samples: int | None) -> pl.DataFrame:
        """Draw records as a frame; the target, if there is one, is its last column."""
        check_moments(self.moments_)
        if self._shapes:
            return self._draw_shape(int(self.counts_.sum()) if n_samples is None else n_samples)
        sizes = None
        if n_samples is not None:
            total = np.array([n_samples])
            sizes = allot(self.counts_[None, :].astype(float), total, self._rng)[0]
        matrix, groups = synthesize(
            self.moments_,
            self._rng,
            distribution="uniform" if self.synthesis == "shape" else self.synthesis,
            exact=self.exact_moments,
            sizes=sizes,
        )
        order = self._rng.permutation(len(groups))
        matrix, groups = matrix[order], groups[order]
        matrix *= self._encoder.scales_
        for name, unit in self._grid.items():
            leave_grid(matrix[:, self._encoder.slices_[name].start], groups, unit, self._rng)
        snap = not self.exact_moments
        return self._encoder.decode(matrix, groups, self._rng, means=self.means_, snap=snap)

    def _draw_shape(self, n_samples: int) -> pl.DataFrame:
        """Draw records from the models of all merged parts, at random by their numbers."""
        weights = np.array([part.model.n_rows for part in self._shapes], dtype=float)
        sizes = self._rng.multinomial(n_samples, weights / weights.sum()).tolist()
        drawn = [part.draw(size, self._rng) for part, size in zip(self._shapes, sizes)]
        order = self._rng.permutation(n_samples)
        return pl.concat(drawn, how="vertical_relaxed")[order]

    def fit_resample(self, X: Any, y: Any = None, levels: Any = None) -> Any:
        """Fit the table and draw a look-alike of the same size.

        Parameters
        ----------
        X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
            The table.
        y : array-like, optional
            A regression target.
        levels : array-like of int >= 1, or the name of a column of ``X``, optional
            As for :meth:`fit`.

        Returns
        -------
        table, or pair of tables
            ``X_new``, or ``(X_new, y_new)`` if there is a target.
        """
        return self.fit(X, y, levels).sample()

    def merge(self, other: Condenser) -> Condenser:
        """Combine the groups of two condensers that were fitted on the same columns.

        Scales become those of both tables together; categories and ranges hold both.

        Parameters
        ----------
        other : Condenser
            Fitted on a table with the same columns.

        Returns
        -------
        Condenser
            A new one.
        """

        merged = merge(self, other)
        warn_weaker(merged)
        return merged

    @property
    def means_(self) -> Floats:
        return self.moments_.means * self._encoder.scales_

    @property
    def covariances_(self) -> Floats:
        scales = self._encoder.scales_
        return self.moments_.covariances * scales[:, None] * scales

    @property
    def merged_(self) -> dict[str, tuple[int, int]]:
        return self._encoder.merged()

    @property
    def encoded_names_(self) -> list[str]:
        return self._encoder.feature_names_

    def _fit(self, X: Any, y: Any, levels: Any, watch: Watcher | None = None) -> None:
        """Fit without a word; ``watch`` sees the groups, which the fitted object does not keep."""
        self._check_parameters()
        frame, border = enter_with_target(X, y)
        features = border.features(frame)
        schema = Schema.of(self.columns, frame[:, : len(features)]).weighted(self.weights)
        levels, schema = locate_levels(frame, levels, schema, plain=border.table.plain)
        if border.target is not None:
            target = natural_column(frame.to_series(-1), Role.TARGET)
            schema = schema.with_column(replace(target, weight=float(self.target_weight)))
        people = locate_people(frame, schema)
        sensitive = locate_sensitive(frame, schema)
        rng = as_generator(self.random_state)
        crowd = self._crowd(levels, frame.height, people, rng)
        encoder = TableEncoder(schema).fit(frame, border.plain(frame), crowd)
        note_features(self, features, plain=border.table.plain)
        matrix = encoder.encode(frame)
        kept, groups = self._fit_encoded(
            matrix, levels, encoder, border, watch, people, rng, sensitive
        )
        people = None if people is None else people[kept]
        least, table = int(self.levels_.max()), frame.filter(kept)
        if self._keeps_shape:
            demands = [column.demand for column in sensitive]
            shaped = fit_shaped(
                table, encoder, self.rules, least, self._rng, groups, people,
                demands=demands, exact=self.exact_totals,
            )  # fmt: skip
            self._shapes, self._rule_plan = [shaped], shaped.plan
            self.notes_ += relation_notes(table.height, people, least, shaped.model.leaf)
        else:
            self._rule_plan = plan_checks(table, encoder, self.rules, least, self._rng, people)
        self.rules_ = summarise_rules(self._rule_plan)
        self.notes_ += rule_notes(self.rules, self.rules_)

    def _fit_encoded(
        self,
        matrix: Floats,
        levels: Any,
        encoder: TableEncoder,
        border: Border,
        watch: Watcher | None = None,
        people: Ints | None = None,
        rng: np.random.Generator | None = None,
        sensitive: Sequence[Sensitive] = (),
    ) -> tuple[Flags, Ints]:
        """Group encoded records, and return which were kept and the group of each of those.

        The matrix is used up.
        """
        rng = as_generator(self.random_state) if rng is None else rng
        found = self._group_encoded(matrix, levels, encoder, people, rng, sensitive)
        self._keep(found, encoder, border, rng)
        if watch is not None:
            watch(found.matrix, found.groups, self.moments_)
        return found.kept, found.groups

    def _group_encoded(
        self,
        matrix: Floats,
        levels: Any,
        encoder: TableEncoder,
        people: Ints | None,
        rng: np.random.Generator,
        sensitive: Sequence[Sensitive] = (),
    ) -> GroupedRecords:
        """Group encoded records that can have the group they ask for; the matrix is used up."""
        self._grid = encoder.grid(matrix) if self.exact_moments else {}
        matrix /= encoder.scales_
        demands, kept = self._demands(levels, len(matrix))
        if not kept.all():
            matrix, demands = matrix[kept], demands[kept]
            people = None if people is None else people[kept]
            sensitive = [column.at(kept) for column in sensitive]
        groups = self._group(matrix, demands, rng, people, list(sensitive))
        return GroupedRecords(matrix, demands, people, groups, kept)

    def _keep(
        self, found: GroupedRecords, encoder: TableEncoder, border: Border, rng: np.random.Generator
    ) -> None:
        """Keep the statistics of the groups."""
        refuse_beyond_memory(int(found.groups.max()) + 1, found.matrix.shape[1])
        self._encoder = encoder
        self._border = border
        self._rng = rng
        self._shapes = []
        self._rule_plan = Plan()
        self.people_ = count_people(found.groups, found.people)
        self.level_summary_ = summarise_levels(found.demands, found.groups, self.people_)
        self.n_suppressed_ = int((~found.kept).sum())
        self._store(GroupMoments.of(found.matrix, found.groups, found.demands))
        encoder.reach(self.means_)

    def _demands(self, levels: Any, rows: int) -> tuple[Ints, Flags]:
        """Return the smallest group that each record accepts, and which records can have it."""
        demands = check_levels(self.k if levels is None else levels, rows)
        return demands, feasible(demands, self.on_infeasible, "k" if levels is None else "level")

    def _crowd(
        self, levels: Any, rows: int, people: Ints | None, rng: np.random.Generator
    ) -> Crowd:
        """Return how many people must share what the release shows: as many as anybody asks for."""
        demands, kept = self._demands(levels, rows)
        return Crowd.of_kept(int(demands[kept].max()), kept, people, rng)

    @property
    def rests_on_(self) -> dict[str, int]:
        return rests_on(self, self._shapes if self._keeps_shape else ())

    @property
    def _keeps_shape(self) -> bool:
        return self.synthesis == "shape" and not self.exact_moments

    def _check_parameters(self) -> None:
        check_int("Condenser", "k", self.k, 2)
        check_choice("Condenser", "grouping", self.grouping, GROUPINGS)
        if self.time_budget is not None:
            check_real("Condenser", "time_budget", self.time_budget, 0, closed="neither")
        check_real("Condenser", "target_weight", self.target_weight, 0, closed="neither")
        check_choice("Condenser", "synthesis", self.synthesis, SYNTHESES)
        check_flag("Condenser", "exact_moments", self.exact_moments)
        check_flag("Condenser", "exact_totals", self.exact_totals)
        if self.exact_totals and not self._keeps_shape:
            raise ParameterError(
                "exact_totals is a choice of synthesis='shape'; the papers' synthesis keeps totals "
                "as they are: drop it",
                parameter="exact_totals",
            )
        check_choice("Condenser", "on_infeasible", self.on_infeasible, ON_INFEASIBLE)
        check_flag("Condenser", "accept_broken_rules", self.accept_broken_rules)

    def _group(
        self,
        matrix: Floats,
        demands: Ints,
        rng: np.random.Generator,
        people: Ints | None,
        sensitive: list[Sensitive],
    ) -> Ints:
        from tulle.condense.groupings import group_records

        groups = group_records(
            matrix, demands, rng, method=self.grouping, time_budget=self.time_budget
        )
        if people is not None:
            short = partial(too_few_people, demands=demands, people=people)
            groups = join_groups(matrix, groups, short)
            check_people(groups, demands, people)
        self.diversity_loss_ = 0.0
        if sensitive:
            before = information_loss(GroupMoments.of(matrix, groups, demands))
            for column in sensitive:
                groups = join_groups(matrix, groups, column.falls_short)
            check_sensitive(groups, sensitive)
            after = information_loss(GroupMoments.of(matrix, groups, demands))
            self.diversity_loss_ = after - before
        check_groups(groups, demands)
        return groups

    def _store(self, moments: GroupMoments) -> None:
        """Set what follows from the groups' statistics."""
        self.moments_ = moments
        self.counts_ = moments.counts
        self.levels_ = moments.levels
        self.information_loss_ = information_loss(moments)
        self.n_verbatim_ = 0 if self._keeps_shape else int((moments.counts == 1).sum())
        self.n_degenerate_ = count_degenerate(moments)
        singular = int((moments.counts <= moments.means.shape[1]).sum())
        self.n_singular_ = 0 if self._keeps_shape else singular
        if self.exact_moments and self.n_singular_:
            raise PrivacyError(
                f"exact_moments would reveal the records of {self.n_singular_} of "
                f"{len(self.counts_)} groups: they have no more records than the "
                f"{moments.means.shape[1]} dimensions. Ask for larger groups, leave columns out, "
                "or set exact_moments=False",
                parameter="exact_moments",
            )
        self.notes_ = privacy_notes(self) + table_notes(self)

    def __sklearn_tags__(self) -> Tags:
        return takes_any_table(super().__sklearn_tags__())


# Two condensed tables as one: their groups side by side, on the scales of both together.


def merge(first: Condenser, second: Condenser) -> Condenser:
    """Return a condenser with the groups of both; neither is changed."""
    if not isinstance(second, type(first)):
        raise ParameterError(
            f"a Condenser merges with another Condenser, not with a {type(second).__name__}"
        )
    if second is first:
        raise ParameterError(
            "a condenser cannot be merged with itself: every record would count twice"
        )
    check_is_fitted(first, "moments_")
    check_is_fitted(second, "moments_")
    if (first._border.target is None) != (second._border.target is None):
        raise DataError("one condenser has a target and the other has none")
    if bool(first._shapes) != bool(second._shapes):
        raise ParameterError(
            "condensers merge if they draw records in the same way, but one has "
            f"synthesis='{first.synthesis}' and the other synthesis='{second.synthesis}'",
            parameter="synthesis",
        )
    scales = first._encoder.scales_, second._encoder.scales_
    refuse_beyond_floats(*scales)
    encoder, *ways = first._encoder.merge(second._encoder)
    mine, theirs = (
        way.moved(rescaled(part.moments_, units))
        for way, part, units in zip(ways, (first, second), scales)
    )
    moments = mine.stacked(theirs)
    encoder.rescale(np.diagonal(moments.pooled().covariances[0]))

    merged = copy.deepcopy(first)
    merged._rng = spawn(first._rng, 1)[0]  # what one of them draws, the other must not draw again
    merged._encoder = encoder
    merged._shapes = first._shapes + second._shapes
    merged._rule_plan = first._rule_plan.joined(second._rule_plan)
    merged.rules_ = summarise_rules(merged._rule_plan)
    merged._grid = {
        name: min(part._grid.get(name, np.inf) for part in (first, second))
        for name in {**first._grid, **second._grid}
    }
    merged.level_summary_ = join_summaries(first.level_summary_, second.level_summary_)
    merged.people_ = np.concatenate([first.people_, second.people_])
    merged.n_suppressed_ = first.n_suppressed_ + second.n_suppressed_
    merged._store(rescaled(moments, 1 / encoder.scales_))
    return merged
