"""Condensation of a stream: groups that follow it, pseudo-data at any moment."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, overload

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from tulle._checks import check_choice, check_flag, check_int
from tulle._choices import GROUPINGS, SPLITS, SYNTHESES
from tulle._files import atomic_write
from tulle._moments import GroupMoments
from tulle._plurals import counted
from tulle._random import RandomState
from tulle._types import Container, Floats, Ints
from tulle.condense._diversity import refuse_demands
from tulle.condense._estimators import takes_any_table
from tulle.condense._levels import check_levels, level_column, locate_levels
from tulle.condense._notes import column_notes, privacy_notes
from tulle.condense._synthesis import count_degenerate
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.keys import SecretKey
from tulle.stream._batches import Batch, alone, changing, check_whole
from tulle.stream._fitted import Beginning, Checked, Fitted
from tulle.stream._groups import StreamGroups
from tulle.stream._relations import complete
from tulle.stream._snapshots import Change, ShapeOfNumbers, confined, draw, next_ranges, stacked
from tulle.stream._state import StreamState
from tulle.table._encoder import TableEncoder
from tulle.table._precision import EXACT
from tulle.table.schema import ColumnsLike, Schema

DRAWING = 1  # what a derived generator is for
_OWNERS = "\0owner"  # the column that says of which class a drawn record is


class StreamCondenser(BaseEstimator):
    """Condense a stream, so that a look-alike of it can be drawn at any moment.

    The first ``init_size`` records are grouped as a table is. Every later record joins the
    nearest group that has at least its level minus one members; a group that has grown to twice
    the mean level of its members splits in two. Records that no group may take yet wait, and are
    not released. Batches of any size give the same groups as single records do.

    Parameters
    ----------
    k : int
        The smallest group, where ``partial_fit`` gets no ``levels``.
    init_size : int or None
        Records to collect before the first groups are made; ``10 * k`` by default. Column
        kinds, scales and the domains of categories come from them.
    split : {"paper", "strict"}
        When a group splits. ``"paper"``: when it has twice the mean level of its members; as
        statistics are split and not people, the paper holds that nobody's level is violated.
        ``"strict"``: only if, in addition, both halves are as large as the largest level.
    grouping : str
        How the initial records are grouped, as in :class:`~tulle.Condenser`.
    classwise : bool
        Treat ``y`` as classes and never let a group mix them; otherwise ``y`` is a number that
        is condensed with the features.
    synthesis : {"shape", "uniform", "normal", "mean"}
        ``"shape"`` keeps the heaps of numeric columns: a value that stands out among the initial
        records (no gains, 40 hours), of at least as many people as anybody asks for, is drawn at
        each group's rate. Other numbers are drawn as with ``"uniform"``, and get the form of their
        column. The others draw all numbers along a group's eigenvectors, as in the papers.
    rules : sequence of str, or None
        Rules between columns that releases keep (``"total = price * number"``), with
        ``synthesis="shape"``; those that the initial records follow by default.
    scales : mapping of column to float, or sequence, or None
        What one standard deviation of each column of numbers is; from the initial records by
        default.
    weights : mapping of column to float, or sequence
        How much columns count when records are compared.
    columns : sequence of :class:`~tulle.table.schema.Column`, or mapping
        What a policy says of the columns, as in :class:`~tulle.Condenser`.
    random_state : int, Generator, RandomState or None
        None takes the operating system's entropy.

    Attributes
    ----------
    counts_, levels_ : ndarray (g,)
        Records in each group, and the largest level that ever joined it.
    people_ : ndarray (g,)
        Different people in each group, at least: its records, unless a column has the role
        person. Then groups, splits and snapshots count people, who are kept as keyed hashes.
    means_, covariances_ : ndarray (g, d) and (g, d, d)
        In the units of the encoded columns.
    n_seen_, n_waiting_ : int
        Records that came, and those that no group may take yet: seen = condensed + waiting.
    n_small_ : int
        Groups with fewer members than the largest level in them; 0 with ``split="strict"``.
    n_verbatim_, n_degenerate_ : int
        Groups of one record (of level 1), and groups whose records are all alike.
    notes_ : list of str
        What a reader of a release should know, in sentences without data.
    classes_, class_counts_ : list
        With ``classwise``, the classes seen so far, and the records condensed of each.
    last_change_ : Change
        What the last ``snapshot`` showed beyond the one before: ``changed`` groups, the
        ``fewest`` newcomers behind one of them, the records ``held_back`` until later, and the
        groups whose statistics are ``fresh``; and of all groups shown the ``smallest``, and how
        many are ``small``, ``verbatim`` and ``degenerate``, as above.
    history_ : list of dict
        How it went: ``seen``, ``groups``, ``waiting`` and ``drift`` (the distance of recent
        records from the first, in standard deviations) every thousand records or more.

    What may leave
    --------------
    What ``sample`` and ``snapshot`` return. The object holds statistics of groups, ranges and
    domains, and the waiting records themselves (fewer than the largest level asks for): it is
    for the owner of the data. A pickle of it with waiting records opens in this process only.
    Anyone who has two samples can subtract them and learn about the records in between:
    where more than one release of a stream leaves, take ``snapshot``.

    Notes
    -----
    Readings of the paper: groups within ``d2 <= 1e-8 * d`` of a record (standardised units) are
    equally near and the oldest takes it; a group of odd size splits into fractions
    ceil(n/2)/n and floor(n/2)/n; s waiting records of level s or less form a group.

    Examples
    --------
    >>> import numpy as np
    >>> from tulle import StreamCondenser
    >>> rng = np.random.default_rng(0)
    >>> stream = StreamCondenser(k=10, random_state=0)
    >>> for _ in range(20):
    ...     stream = stream.partial_fit(rng.normal(size=(50, 3)))
    >>> stream.n_seen_, stream.n_waiting_, int(stream.counts_.sum())
    (1000, 0, 1000)
    >>> stream.sample().shape
    (1000, 3)
    """

    _fresh_container = False  # loaded from a file: the kind of table is not known yet
    _cut_off = False  # a batch was interrupted while groups changed
    _body: Beginning | Fitted | None = None  # None before the first batch

    def __init__(
        self,
        k: int = 10,
        *,
        init_size: int | None = None,
        split: str = "paper",
        grouping: str = "fast",
        classwise: bool = False,
        synthesis: str = "shape",
        rules: Sequence[str] | None = None,
        scales: Mapping[str, float] | Sequence[float] | None = None,
        weights: Mapping[str, float] | Sequence[float] | None = None,
        columns: ColumnsLike | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.k = k
        self.init_size = init_size
        self.split = split
        self.grouping = grouping
        self.classwise = classwise
        self.synthesis = synthesis
        self.rules = rules
        self.scales = scales
        self.weights = weights
        self.columns = columns
        self.random_state = random_state

    @alone
    def partial_fit(self, X: Any, y: Any = None, levels: Any = None) -> Self:
        """Take in more records: all of them, or none if one is refused.

        Parameters
        ----------
        X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
            The new records.
        y : array-like, optional
            A number to condense with the features or, with ``classwise``, the class; given in
            every batch or in none.
        levels : array-like of int >= 1, or the name of a column of ``X``, optional
            The smallest group that each record accepts, in place of ``k``. A column that was
            named once holds the levels of later batches too.

        Returns
        -------
        self
        """
        self._check_parameters()
        body = self._body
        if body is None or not body.seen:  # nothing taken yet: any columns may come
            batch, schema = self._first(X, y, levels)
            validate_data(self, X, skip_check_array=True, reset=True)
            self._body = body = Beginning.of(self, batch, schema)
            self._cut_off = self._fresh_container = False
        else:
            check_whole(self)
            batch = self._next(body, X, y, levels)
            validate_data(self, X, skip_check_array=True, reset=False)
        if len(batch):
            self._take(body, batch)
        return self

    def refusals(self, X: Any) -> dict[int, str]:
        """Return the records that ``partial_fit`` would refuse, by row, and why.

        The other records may then be given without these.

        Parameters
        ----------
        X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
            The records.

        Returns
        -------
        dict of int to str
            A reason holds no value of the record.
        """
        return self._screened(Batch.of(X, None, classwise=False, names=None))[0]

    @alone
    def _take_fine(self, X: Any, y: Any) -> dict[int, str]:
        """Take in the records that are not refused; return the others by row, and why."""
        body = self._require_groups()
        refused, records = self._screened(
            Batch.of(X, y, classwise=self.classwise, names=body.names)
        )
        if len(records.batch):
            self._admit(body, records)
        return refused

    def _screened(self, batch: Batch) -> tuple[dict[int, str], Checked]:
        """Return which records are refused, and the others as the groups take them."""
        fitted = self._require_groups()
        refused = fitted.reasons(batch.frame)
        fine = np.setdiff1d(np.arange(len(batch)), list(refused))
        if refused:
            batch = batch.only(fine)
        name = fitted.level_column
        levels = None if name is None else level_column(batch.frame, name, plain=False)
        far, records = fitted.screened(self._with_levels(batch, levels))
        return refused | {int(fine[row]): reason for row, reason in far.items()}, records

    def fit(self, X: Any, y: Any = None, levels: Any = None) -> Self:
        """Forget what was seen and take these records as the whole stream so far.

        Parameters
        ----------
        X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
            The records.
        y : array-like, optional
            As for :meth:`partial_fit`.
        levels : array-like of int >= 1, or the name of a column of ``X``, optional
            As for :meth:`partial_fit`.

        Returns
        -------
        self
        """
        self._body = None
        self.partial_fit(X, y, levels)
        if not self.n_seen_:
            raise DataError("the table has 0 records: there is nothing to condense")
        return self

    @alone
    def sample(self, n_samples: int | None = None) -> Any:
        """Draw new records, in random order.

        Parameters
        ----------
        n_samples : int, optional
            How many; by default as many as are condensed.

        Returns
        -------
        table, or pair of tables
            The kind of table that came in; ``(X_new, y_new)`` if there is a target.
        """
        fitted = self._require_groups()
        _check_size("sample", n_samples)
        shown = [state.groups for state in fitted.states.values()]
        forms = {name: form.whole() for name, form in fitted.forms.items()}
        return self._drawn(shown, n_samples, fitted.encoder, forms, fitted.next_draw())

    @alone
    def snapshot(self, n_samples: int | None = None) -> Any:
        """Draw new records that may be released in addition to earlier snapshots.

        A group's statistics are updated only when as many records have joined it, or what has split
        off it, as the largest level in it asks for; then their sum is added to what was shown, and
        the result is split again. The difference between two snapshots describes a valid group of
        newcomers, never one of them. While records are held back, ranges of numbers grow only as
        far as the means of the updated groups. Where there is nothing new to show, the records are
        exactly those of the snapshot before.

        Parameters
        ----------
        n_samples : int, optional
            How many; by default as many as are shown.

        Returns
        -------
        table, or pair of tables
            As for :meth:`sample`.
        """
        fitted = self._require_groups()
        _check_size("snapshot", n_samples)
        parts = [state.publish() for state in fitted.states.values()]
        shown, arrived, changes = (list(part) for part in zip(*parts, strict=True))
        self.last_change_ = Change.total(changes)
        if fitted.strict and self.last_change_.small:
            raise PrivacyError(
                f"{counted(self.last_change_.small, 'group')} of the snapshot would be smaller "
                "than the level of a member: nothing is released"
            )
        before = fitted.shown_ranges
        known = before if self.last_change_.held_back else None
        fitted.shown_ranges = next_ranges(fitted.encoder, known, arrived, fitted.units)
        forms = {name: form.renewed() for name, form in fitted.forms.items()}
        fresh = any((form.shown != fitted.forms[name].shown).any() for name, form in forms.items())
        fitted.forms = forms
        if self.last_change_.fresh or fitted.shown_ranges != before or fresh:
            fitted.shown_draw = fitted.next_draw()
        ranges = confined(fitted.encoder, fitted.shown_ranges)
        return self._drawn(shown, n_samples, ranges, forms, fitted.shown_draw)

    def merge(self, other: StreamCondenser) -> StreamCondenser:
        """Combine two streams that have the same columns.

        Scales are this stream's; categories and ranges hold both. What the snapshots of either
        have shown, ranges included, stays shown until enough newcomers have joined.

        Parameters
        ----------
        other : StreamCondenser
            The other stream.

        Returns
        -------
        StreamCondenser
            A new one that has seen both.
        """
        if not isinstance(other, type(self)):
            raise ParameterError(
                f"a stream can only be merged with a stream, not with a {type(other).__name__}"
            )
        if other is self:
            raise ParameterError(
                "a stream cannot be merged with itself: every record would count twice"
            )
        for part in (self, other):
            part._require_groups()
        merged = copy.deepcopy(self)
        fitted = self._fitted.merged(other._fitted)
        merged._continue(fitted)
        with changing(merged):
            fitted.admit_known()
        return merged

    @overload
    def fit_resample(self, X: Container, y: None = None, levels: Any = None) -> Container: ...

    @overload
    def fit_resample(self, X: Any, y: Any = None, levels: Any = None) -> Any: ...

    def fit_resample(self, X: Any, y: Any = None, levels: Any = None) -> Any:
        """Fit the records and draw a look-alike of the same size.

        Parameters
        ----------
        X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
            The records.
        y : array-like, optional
            As for :meth:`partial_fit`.
        levels : array-like of int >= 1, or the name of a column of ``X``, optional
            As for :meth:`partial_fit`.

        Returns
        -------
        table, or pair of tables
            ``X_new``, or ``(X_new, y_new)`` if there is a target.
        """
        return self.fit(X, y, levels).sample()

    @alone
    def save(
        self,
        path: str | os.PathLike[str],
        *,
        key: SecretKey | None = None,
        waiting: str = "seal",
        force: bool = False,
    ) -> None:
        """Write the state: a zip of NumPy arrays with a JSON header, a version and a digest.

        Parameters
        ----------
        path : path-like
            The file to create.
        key : SecretKey, optional
            Seals the records that wait. Without a key, saving is refused while records wait.
        waiting : {"seal", "plain"}
            ``"plain"`` allows waiting records to be written unencrypted, without a key.
        force : bool
            Replace a file that exists.
        """
        from tulle.stream._saved import write_state

        check_choice("save", "waiting", waiting, ("seal", "plain"))
        self._require_groups()
        with atomic_write(path, force=force, mode=0o600) as file:
            write_state(file, self, key, plain=waiting == "plain")

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, key: SecretKey | None = None) -> StreamCondenser:
        """Read a saved condenser; it continues as if it had never stopped.

        Frames come back as polars until the next ``partial_fit`` shows another kind.

        Parameters
        ----------
        path : path-like
            The file that :meth:`save` wrote.
        key : SecretKey, optional
            The key that sealed it.

        Returns
        -------
        StreamCondenser
        """
        from tulle.stream._saved import load_state

        return load_state(cls, path, key)[0]

    @property
    def n_seen_(self) -> int:
        return self._require_seen().seen

    @property
    def counts_(self) -> Ints:
        return self._whole_numbers("counts")

    @property
    def people_(self) -> Ints:
        return self._whole_numbers("people")

    @property
    def levels_(self) -> Ints:
        return self._whole_numbers("levels")

    @property
    def means_(self) -> Floats:
        means = self._moments.means
        return self._fitted.units.natural(means) if self._states else means

    @property
    def covariances_(self) -> Floats:
        covariances = self._moments.covariances
        if not self._states:
            return covariances
        scales = self._fitted.encoder.scales_
        return covariances * scales[:, None] * scales

    @property
    def n_waiting_(self) -> int:
        return self._require_seen().waiting

    @property
    def n_small_(self) -> int:
        return int((self.people_ < self.levels_).sum())

    @property
    def n_verbatim_(self) -> int:
        return int((self.people_ == 1).sum())

    @property
    def n_degenerate_(self) -> int:
        return count_degenerate(self._moments)

    @property
    def notes_(self) -> list[str]:
        notes = privacy_notes(
            len(self.counts_), verbatim=self.n_verbatim_, degenerate=self.n_degenerate_
        )
        if self._states:
            notes += column_notes(self._fitted.encoder, self.k)
            notes += self._fitted.relations.notes(self.k)
        if self.n_small_:
            notes.append(
                f"{self.n_small_} of {len(self.counts_)} groups have fewer members than the "
                "largest level among them, because their statistics were split; the strict split "
                "(split=, --split) prevents this"
            )
        newcomers = len(self._fitted.held.for_category()) if self._states else 0
        if newcomers:
            notes.append(
                f"{counted(newcomers, 'record', 'have')} a category that too few others have so far"
            )
        if self.n_waiting_:
            notes.append(
                f"{counted(self.n_waiting_, 'record', 'is')} waiting for enough others, and not "
                "released"
            )
        return notes

    @property
    def classes_(self) -> list[Any]:
        return list(self._states) if self.classwise else []

    @property
    def class_counts_(self) -> list[int]:
        return [state.condensed for state in self._states.values()] if self.classwise else []

    @property
    def history_(self) -> list[dict[str, Any]]:
        self._require_seen()
        shown = ("seen", "groups", "waiting", "drift")
        rows = []
        for label, state in self._states.items():
            named = {"class": label} if self.classwise else {}
            rows += [named | {n: getattr(row, n) for n in shown} for row in state.history.rows]
        return rows

    @property
    def _fitted(self) -> Fitted:
        """What a save, a merge or a resupply of waiting records needs."""
        check_whole(self)
        assert isinstance(self._body, Fitted)
        return self._body

    @property
    def _states(self) -> dict[Any, StreamState]:
        return self._body.states if isinstance(self._body, Fitted) else {}

    def _continue(self, fitted: Fitted) -> None:
        """Continue from what another condenser has kept."""
        self._check_parameters()
        if (fitted.strict, fitted.labels is not None) != (self.split == "strict", self.classwise):
            raise DataError("the state of the stream does not match its parameters")
        self._body = fitted

    def _check_parameters(self) -> None:
        check_int("StreamCondenser", "k", self.k, 2, EXACT)
        if self.init_size is not None:
            check_int("StreamCondenser", "init_size", self.init_size, 2)
        check_choice("StreamCondenser", "split", self.split, SPLITS)
        check_choice("StreamCondenser", "grouping", self.grouping, GROUPINGS)
        check_choice("StreamCondenser", "synthesis", self.synthesis, SYNTHESES)
        check_flag("StreamCondenser", "classwise", self.classwise)

    def _first(self, X: Any, y: Any, levels: Any) -> tuple[Batch, Schema]:
        """Return the first batch, and what is known of its columns."""
        batch = Batch.of(X, y, classwise=self.classwise, names=None)
        schema = Schema.of(self.columns, batch.features, complete=False)
        refuse_demands(schema, "a stream")
        plain = batch.border.table.plain
        levels, schema = locate_levels(batch.frame, levels, schema, plain=plain)
        return self._with_levels(batch, levels), schema

    def _next(self, body: Beginning | Fitted, X: Any, y: Any, levels: Any) -> Batch:
        """Return a later batch, if it is of the same kind as the first."""
        if (y is not None) != body.has_target:
            raise DataError("y must be given in every batch of a stream, or in none")
        if (self.split == "strict", self.classwise) != (body.strict, body.labels is not None):
            raise ParameterError(
                "'split' and 'classwise' cannot change during a stream: start a new one"
            )
        batch = Batch.of(X, y, classwise=self.classwise, names=body.names)
        levels = body.level_column if levels is None else levels
        if isinstance(levels, str):
            levels = level_column(batch.frame, levels, plain=False)
        batch = self._with_levels(batch, levels)
        if body.labels is not None:
            batch.labels(body.labels)
        return batch

    def _with_levels(self, batch: Batch, levels: Any) -> Batch:
        if not len(batch):
            return batch
        return replace(batch, levels=check_levels(self.k if levels is None else levels, len(batch)))

    def _take(self, body: Beginning | Fitted, batch: Batch) -> None:
        """Condense records, or keep them until the initial ones are complete."""
        if isinstance(body, Fitted):
            self._admit(body, body.checked(batch))
        elif body.seen + len(batch) < self._initial_size:
            body.keep(self, batch)
        else:
            collected = Batch.joined([*body.pending, batch])
            fitted, initial = body.settled(self, collected.part(0, self._initial_size))
            rest = fitted.checked(collected.part(self._initial_size, len(collected)))
            with changing(self):
                fitted.start(initial, self.grouping, forms=self.synthesis == "shape")
                fitted.admit(rest)
                self._body = fitted

    def _admit(self, fitted: Fitted, records: Checked) -> None:
        with changing(self):
            if self._fresh_container:
                fitted.adopt(records.batch)
                self._fresh_container = False
            fitted.admit(records)

    @property
    def _initial_size(self) -> int:
        return 10 * self.k if self.init_size is None else self.init_size

    # What leaves, and what can be read at any moment: all of it is statistics.

    def _require_groups(self) -> Fitted:
        if self._body is None:
            raise NotFittedError("this StreamCondenser has seen nothing yet: call partial_fit")
        check_whole(self)
        for state in self._states.values():
            state.check()
        if not any(len(state.groups) for state in self._states.values()):
            raise PrivacyError(
                f"no group exists yet: {counted(self.n_waiting_, 'record', 'is')} waiting for "
                f"the initial {self._initial_size}, or for enough records of their level; "
                "nothing is released"
            )
        return self._fitted

    def _drawn(
        self,
        shown: list[StreamGroups],
        n_samples: int | None,
        encoder: TableEncoder,
        forms: dict[str, ShapeOfNumbers],
        number: int,
    ) -> Any:
        fitted, rng = self._fitted, self._fitted.generator(DRAWING, number)
        how = "uniform" if self.synthesis == "shape" else self.synthesis  # along eigenvectors

        def once(size: int | None) -> pl.DataFrame:
            frame, owners = draw(
                encoder, fitted.units, shown, forms, rng, distribution=how, n_samples=size
            )
            return frame.with_columns(pl.Series(_OWNERS, owners))

        frame = complete(fitted.plan(), encoder, once, n_samples, rng)
        owners = frame.drop_in_place(_OWNERS).to_numpy()
        table = fitted.border.leave(frame)
        if fitted.labels is None:
            return table
        return table, fitted.labels.of(list(fitted.states)).leave(owners)

    def _whole_numbers(self, name: str) -> Ints:
        """Return one of the arrays of all groups, without the cost of their scatters."""
        self._require_seen()
        parts = [getattr(state.groups.view(), name) for state in self._states.values()]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])

    @property
    def _moments(self) -> GroupMoments:
        self._require_seen()
        states = list(self._states.values()) or [StreamState(self.n_features_in_)]
        return stacked([state.groups.moments() for state in states])

    def _require_seen(self) -> Beginning | Fitted:
        if self._body is None:
            raise AttributeError("this StreamCondenser has seen nothing yet: call partial_fit")
        return self._body

    def __sklearn_tags__(self) -> Tags:
        return takes_any_table(super().__sklearn_tags__())


def _check_size(owner: str, n_samples: int | None) -> None:
    if n_samples is not None:
        check_int(owner, "n_samples", n_samples, 1)
