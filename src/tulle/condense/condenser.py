"""Condensation of a table: groups, their statistics, and pseudo-data drawn from them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
import polars as pl

from tulle._checks import check_choice, check_flag, check_int, check_real
from tulle._choices import GROUPINGS, ON_INFEASIBLE, SYNTHESES
from tulle._moments import GroupMoments
from tulle._random import RandomState, as_generator, spawn
from tulle._types import Container, Flags, Floats, Ints
from tulle.condense._conditions import IMPUTE_FROM, draw_where, fill_missing
from tulle.condense._diversity import locate_sensitive
from tulle.condense._estimators import Estimator, check_is_fitted, note_features, takes_any_table
from tulle.condense._grouping import GroupAttributes, Grouper, GroupFacts, Watcher, check_facts
from tulle.condense._histories import LinkedRows
from tulle.condense._levels import (
    check_levels,
    common_level,
    feasible,
    have_histories,
    locate_levels,
    locate_people,
    person_column,
)
from tulle.condense._notes import fact_notes, table_notes, warn_weaker
from tulle.condense._papers import Papers
from tulle.condense._shaped import (
    Block,
    ClassRows,
    Settled,
    Shape,
    refuse_broken,
    rule_notes,
    summarise_rules,
)
from tulle.condense._weights import WeightTotals
from tulle.errors import DataError, ParameterError, nearest_name
from tulle.table._encoder import TableEncoder
from tulle.table._frames import enter, enter_with_target
from tulle.table._rare import Crowd
from tulle.table.schema import ColumnsLike, Role, Schema, natural_column

if TYPE_CHECKING:
    from sklearn.utils import Tags


class CondensedTable(GroupAttributes):
    """What condensers of a table share once they are fitted: what they know, and the draw."""

    _synthesis: Shape | Papers | LinkedRows
    _encoder: TableEncoder
    _rng: np.random.Generator
    _totals: WeightTotals | None = None  # of survey weights

    def _sampled(self, n_samples: int | None, where: str | None, *, accept: bool) -> pl.DataFrame:
        """Draw records with their classes, if there are some, and check them."""
        check_is_fitted(self, "groups_")
        if n_samples is not None:
            check_int("sample", "n_samples", n_samples, 1)
        check_facts(self.groups_)
        if where is not None:
            drawn = self._drawn_where(n_samples, where)
        else:
            drawn = self._draw(n_samples)
            drawn = drawn if self._totals is None else self._totals.calibrate(drawn)
        self.broken_rules_ = refuse_broken(self._rule_plan, drawn, accept=accept)
        return drawn

    def _draw(self, n_samples: int | None) -> pl.DataFrame:
        return self._synthesis.draw(n_samples, self._rng)

    def _drawn_where(self, n_samples: int | None, where: str) -> pl.DataFrame:
        if isinstance(self._synthesis, LinkedRows):
            raise ParameterError(
                "people have several rows here, and a condition on rows would tear them apart: "
                "draw people and take those that you want",
                parameter="where",
            )
        least = min(self.rests_on_.values())
        return draw_where(self._draw, where, n_samples, self._encoder, self.groups_, k=least)

    @property
    def moments_(self) -> GroupMoments:
        return self._papers.moments

    @property
    def means_(self) -> Floats:
        return self._papers.means

    @property
    def covariances_(self) -> Floats:
        return self._papers.covariances

    @property
    def _papers(self) -> Papers:
        if isinstance(self._synthesis, Papers):
            return self._synthesis
        raise AttributeError(
            "only the papers' synthesis keeps the means and covariances of groups: use "
            "synthesis='uniform', 'normal' or 'mean'"
        )

    @property
    def encoded_names_(self) -> list[str]:
        return self._encoder.feature_names_

    @property
    def rests_on_(self) -> dict[str, int]:
        return self._synthesis.rests_on()

    @property
    def _rule_plan(self) -> Any:
        return self._synthesis.plan


class Condenser(CondensedTable, Estimator):
    """Condense a table into statistics of at least ``k`` people and draw a look-alike from them.

    Columns are cut into cells that at least ``k`` people hold, forests with leaves of at least
    ``2 k`` people learn how columns depend on each other, and groups of at least ``5 k`` similar
    people say which records are alike; new records are drawn from these. The papers' synthesis
    draws from the mean and covariance of groups of ``k`` instead. Every column keeps its type and
    precision. Values that fewer than ``k`` people hold are merged or suppressed, and the bounds of
    numbers rest on at least ``k`` people.

    Parameters
    ----------
    k : int
        The fewest people that anything in the release rests on. Not used where ``fit`` gets
        ``levels``: those are then the only demand.
    grouping : {"fast", "best", "levels", "modified", "original", "mdav"}
        How groups are found. ``"fast"`` loses least for its time, ``"best"`` searches on until
        ``time_budget`` ends; the others are those of the papers, for comparison.
    time_budget : float
        Seconds for ``grouping="best"``.
    synthesis : {"shape", "uniform", "normal", "mean"}
        How records are drawn. ``"shape"`` keeps the distribution of each column (heaps, tails,
        missing values) and what columns say of each other. The others are those of the papers:
        along a group's eigenvectors; ``"mean"`` repeats the group's mean (plain microaggregation).
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
        gives the levels. A column with the role person names the person of each row: ``k`` then
        counts different people, and the release has people, too (see ``order``).
    order : sequence of str, optional
        Where people have several rows, the columns by which these are ordered, a time first: a
        released person has a number of rows, a first time and steps of time, and each row depends
        on the row before. By default a time that rises within people; without one their rows are a
        set, in random order. An empty sequence takes rows in the order in which they stand. The
        person column of the release holds new keys.
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
    groups_ : GroupFacts
        What is known of the groups; the following attributes are its own.
    counts_ : ndarray (g,)
        Records in each group.
    people_ : ndarray (g,)
        Different people in each group; its records, unless a column has the role person.
    levels_ : ndarray (g,)
        The largest level in each group; never above its count. Where few records ask for more than
        nine of ten do, groups hold what stands for them (see ``level_summary_``).
    means_, covariances_ : ndarray (g, d) and (g, d, d)
        Of the papers' synthesis, in the units of the encoded columns: an array's own units.
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
        with ``synthesis="shape"``, which uses the covariance within all groups.
    rules_ : list of RuleSummary
        The rules that are kept: the text, whether it was found in the table, and the share of its
        records that break it (0 where fewer than about ``k`` people do).
    broken_rules_ : dict of str to int
        How many records of the last sample break a rule that hardly anybody breaks in the table.
    rests_on_ : dict of str to int
        What a release shows, and of how many people at least each piece of it is.
    notes_ : list of str
        What a reader of the release should know, in sentences without data.
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
        order: Sequence[str] | None = None,
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
        self.order = order
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
        warn_weaker(self._weaker())
        return self

    def sample(self, n_samples: int | None = None, *, where: str | None = None) -> Any:
        """Draw new records, in random order.

        Parameters
        ----------
        n_samples : int, optional
            How many; by default as many as were condensed, or as many of them as meet ``where``.
            Where people have several rows, so many people, each with all rows.
        where : str, optional
            A condition on the records, such as ``"age < 30 and sex == 'f'"``, in the language of
            rules. Refused unless the model puts at least ``k`` people behind it, and where people
            have several rows.

        Returns
        -------
        table, or pair of tables
            The kind of table that was fitted; ``(X_new, y_new)`` if it was fitted with a target.
        """
        drawn = self._sampled(n_samples, where, accept=self.accept_broken_rules)
        return self._border.leave(drawn)

    def impute(self, X: Container) -> Container:
        """Fill in the missing values of a table from the model: a tool for the owner of the data.

        A row gets what it lacks from one drawn record, by lot one of the five that are most like
        it in the columns that tell most of those it lacks. What was there stays as it is: the
        result is the original with its gaps filled, not a release. Rules between columns are not
        looked at.

        Parameters
        ----------
        X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
            A table with the columns that were fitted, without a target.

        Returns
        -------
        table
            The same kind of table.
        """
        check_is_fitted(self, "groups_")
        if self._border.target is not None:
            raise DataError("values are filled in by a condenser that was fitted without a target")
        frame, exit = enter(X)
        drawn = self._draw(max(self.groups_.everybody, IMPUTE_FROM))
        for name in drawn.columns:
            if name not in frame.columns:
                hint = nearest_name(name, frame.columns)
                raise DataError(f"column '{name}' is not in the table: {hint}")
            given, fitted = frame.schema[name], drawn.schema[name]
            if given.is_numeric() != fitted.is_numeric() and frame[name].count():
                raise DataError(
                    f"column '{name}' holds {given} here and {fitted} in the table that was "
                    "fitted: convert it"
                )
        return exit.leave(fill_missing(frame, drawn, self._encoder, self._rng))

    @overload
    def fit_resample(self, X: Container, y: None = None, levels: Any = None) -> Container: ...

    @overload
    def fit_resample(self, X: Any, y: Any = None, levels: Any = None) -> Any: ...

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
        warn_weaker(merged._weaker())
        return merged

    def _fit(self, X: Any, y: Any, levels: Any, watch: Watcher | None = None) -> None:
        """Fit without emitting warnings; ``watch`` sees the groups, which nothing keeps."""
        self._check_parameters()
        frame, border = enter_with_target(X, y)
        features = border.features(frame)
        schema = Schema.of(self.columns, frame[:, : len(features)]).weighted(self.weights)
        levels, schema = locate_levels(frame, levels, schema, plain=border.table.plain)
        if border.target is not None:
            target = natural_column(frame.to_series(-1), Role.TARGET)
            schema = schema.with_column(replace(target, weight=float(self.target_weight)))
        people = locate_people(frame, schema)
        rng = as_generator(self.random_state)
        demands, kept = self._demands(levels, frame.height)
        crowd = self._crowd(demands, kept, people, rng)
        self._totals = WeightTotals.of(frame, schema, crowd, kept, exact=self.exact_totals)
        encoder = TableEncoder(schema).fit(frame, border.plain(frame), crowd)
        note_features(self, features, plain=border.table.plain)
        whole = Block(frame, demands, people, locate_sensitive(frame, schema))
        self._border, self._rng = border, rng
        person = person_column(schema) if people is not None and self._keeps_shape else None
        withheld = int((~kept).sum())
        alone = people is not None and not have_histories(people)
        own = None if alone else person
        self._learn(whole.at(kept), encoder, watch, withheld=withheld, person=own)
        if person is not None and alone:
            self.notes_.append(
                f"hardly anybody in column '{person}' has several rows: the rows of the release "
                "are people of their own, and the column is left out"
            )

    def _fit_part(
        self,
        frame: pl.DataFrame,
        schema: Schema,
        encoder: TableEncoder,
        settled: Settled,
        rng: np.random.Generator,
        classes: ClassRows | None = None,
    ) -> Self:
        """Fit one block of a larger table, for which the encoder and the rules are settled."""
        levels, _ = locate_levels(frame, None, schema, plain=False)
        demands, kept = self._demands(levels, frame.height)
        people = locate_people(frame, schema)
        sensitive = locate_sensitive(frame, schema, settled.whole)
        if people is None and settled.person is not None:
            people = np.arange(frame.height)  # in this block nobody has several rows
        whole = Block(frame, demands, people, sensitive, classes, settled)
        crowd = self._crowd(demands, kept, people, rng)
        self._totals = WeightTotals.of(frame, schema, crowd, kept, exact=self.exact_totals)
        self._rng = rng
        withheld = int((~kept).sum())
        self._learn(whole.at(kept), encoder, None, withheld=withheld, person=settled.person)
        return self

    def _learn(
        self,
        block: Block,
        encoder: TableEncoder,
        watch: Watcher | None,
        *,
        withheld: int,
        person: str | None = None,
    ) -> None:
        """Learn what records are drawn from, and keep what is known of the groups."""
        synthesis = self._unfitted(person)
        facts = synthesis.fit(block, encoder, self._grouper(block, self._rng, watch))
        self._keep(synthesis, encoder, replace(facts, suppressed=withheld))

    def _keep(
        self, synthesis: Shape | Papers | LinkedRows, encoder: TableEncoder, facts: GroupFacts
    ) -> None:
        self._synthesis, self._encoder, self.groups_ = synthesis, encoder, facts
        self.rules_ = summarise_rules(synthesis.plan)
        notes = self._weaker() + table_notes(facts, encoder) + synthesis.notes
        self.notes_ = notes + rule_notes(self.rules, self.rules_)

    def _weaker(self) -> list[str]:
        return fact_notes(self.groups_, exact=self.exact_totals)

    def _unfitted(self, person: str | None = None) -> Shape | Papers | LinkedRows:
        if person is not None:
            return LinkedRows(
                self.rules, person, self.order,
                exact=self.exact_totals, accept=self.accept_broken_rules,
            )  # fmt: skip
        if self._keeps_shape:
            return Shape(self.rules, exact=self.exact_totals)
        return Papers(self.rules, self.synthesis, exact=self.exact_moments)

    def _grouper(
        self,
        block: Block,
        rng: np.random.Generator,
        watch: Watcher | None = None,
        units: Ints | None = None,
    ) -> Grouper:
        return Grouper(
            rng,
            block.levels,
            block.people,
            block.sensitive,
            units,
            method=self.grouping,
            time_budget=self.time_budget,
            watch=watch,
        )

    def _demands(self, levels: Any, rows: int) -> tuple[Ints, Flags]:
        """Return the smallest group that each record accepts, and which records can have it."""
        demands = check_levels(self.k if levels is None else levels, rows)
        return demands, feasible(demands, self.on_infeasible, "k" if levels is None else "level")

    def _crowd(
        self, demands: Ints, kept: Flags, people: Ints | None, rng: np.random.Generator
    ) -> Crowd:
        """Return how many people must share what the release shows, and who of them counts.

        The papers' synthesis shows everybody's values: as many as anybody asks for. A shape is
        learnt from those who ask for no more than nine of ten do.
        """
        if not self._keeps_shape:
            return Crowd.of_kept(int(demands[kept].max()), kept, people, rng)
        k = common_level(demands[kept])
        return Crowd.of_kept(k, kept & (demands <= k), people, rng)

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
    check_is_fitted(first, "groups_")
    check_is_fitted(second, "groups_")
    if (first._border.target is None) != (second._border.target is None):
        raise DataError("one condenser has a target and the other has none")
    if type(first._synthesis) is not type(second._synthesis):
        raise ParameterError(
            "condensers merge if they draw records in the same way, but one has "
            f"synthesis='{first.synthesis}' and the other synthesis='{second.synthesis}'",
            parameter="synthesis",
        )
    merged = copy.deepcopy(first)
    merged._totals = None  # of both together nothing is known
    merged._rng = spawn(first._rng, 1)[0]  # what one of them draws, the other must not draw again
    synthesis = first._synthesis.merged(second._synthesis)  # type: ignore[arg-type]
    if isinstance(synthesis, Papers):
        encoder = synthesis.encoder
    else:
        encoder = first._encoder.merge(second._encoder)[0]
    facts = GroupFacts.joined([first.groups_, second.groups_])
    merged._keep(synthesis, encoder, facts)
    return merged
