"""Condensation of a stream: groups that follow it, pseudo-data at any moment."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from tulle._checks import check_choice, check_flag, check_int
from tulle._choices import DISTRIBUTIONS, GROUPINGS, SPLITS
from tulle._files import atomic_write
from tulle._moments import GroupMoments
from tulle._plurals import counted
from tulle._random import RandomState, as_generator
from tulle._shape.model import weigh_people
from tulle._types import Flags, Floats, Ints
from tulle.condense._classes import refuse_quantity
from tulle.condense._diversity import refuse_demands
from tulle.condense._estimators import takes_any_table
from tulle.condense._levels import check_levels, level_column, level_problems, locate_levels
from tulle.condense._notes import column_notes, privacy_notes
from tulle.condense._people import person_column
from tulle.condense._synthesis import count_degenerate
from tulle.errors import DataError, KeyMaterialError, ParameterError, PrivacyError
from tulle.keys import SecretKey
from tulle.stream._batches import Aside, Batch
from tulle.stream._beginning import fit_encoder, group_initial, largest_feasible
from tulle.stream._exclusive import alone, changing, check_whole
from tulle.stream._fitted import Fitted, waiting_numbers
from tulle.stream._groups import Groups
from tulle.stream._newcomers import (
    Growth,
    Newcomer,
    Newcomers,
    hide_few,
)
from tulle.stream._people import People, PersonHash
from tulle.stream._ranges import Range, confined, draw, next_ranges, stacked
from tulle.stream._snapshots import Change
from tulle.stream._state import StreamState, check_reach, reach_problems
from tulle.table._codecs import first_reasons
from tulle.table._encoder import TableEncoder
from tulle.table._frames import Border, enter
from tulle.table._numbers import EXACT
from tulle.table.schema import ColumnsLike, Role, Schema

_GROUPING, DRAWING = 0, 1  # what a derived generator is for
_PART = 10_000  # records looked at together where some of them have a new category


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
    synthesis : {"uniform", "normal", "mean"}
        How records are drawn along a group's eigenvectors.
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
    _level_column: str | None = None
    _persons: PersonHash | None = None  # where people have several records
    _shown_ranges: list[Range] | None = None  # of the last snapshot
    _location: Floats  # the mean of the initial records
    _encoder: TableEncoder
    _border: Border
    _states: dict[Any, StreamState]
    _pending: list[Batch] | None  # the initial records, until they are complete
    _example: list[Batch]  # a record, in the types that hold all pending ones

    def __init__(
        self,
        k: int = 10,
        *,
        init_size: int | None = None,
        split: str = "paper",
        grouping: str = "fast",
        classwise: bool = False,
        synthesis: str = "uniform",
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
        first = not getattr(self, "n_seen_", 0)  # nothing taken yet: any columns may come
        if not first:
            check_whole(self)
            if (y is not None) != self._has_target:
                raise DataError("y must be given in every batch of a stream, or in none")
        names = None if first else self._names
        batch = Batch.of(X, y, classwise=self.classwise, names=names)
        if first:
            schema = Schema.of(self.columns, batch.features, complete=False)
            plain = batch.border.table.plain
            refuse_demands(schema, "a stream")
            levels, schema = locate_levels(batch.frame, levels, schema, plain=plain)
        else:
            levels = self._located(batch.frame, levels)
        if len(batch):
            asked = check_levels(self.k if levels is None else levels, len(batch))
            batch = replace(batch, levels=asked)
        validate_data(self, X, skip_check_array=True, reset=first)
        if first:
            self._begin(batch, schema)
        self._check_goes_on(batch)
        if not len(batch):
            return self
        if self._pending is None:
            self._absorb(batch)
        else:
            self._collect(batch)
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
        self._require_groups()
        frame = enter(X)[0]
        problems = [] if self._level_column is None else level_problems(frame[self._level_column])
        problems += self._encoder.problems(frame)
        reasons = first_reasons(problems)
        fine = np.setdiff1d(np.arange(frame.height), list(reasons))
        with np.errstate(over="ignore"):
            standard = self._standardised(self._encoder.encode_arriving(frame[fine])[0])
        far = first_reasons(reach_problems(standard))
        return reasons | {int(fine[row]): reason for row, reason in far.items()}

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
        if hasattr(self, "n_seen_"):
            del self.n_seen_
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
        self._require_groups()
        _check_size("sample", n_samples)
        shown = [state.groups for state in self._states.values()]
        return self._drawn(shown, n_samples, self._encoder, self._next_draw())

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
        self._require_groups()
        _check_size("snapshot", n_samples)
        parts = [state.publish() for state in self._states.values()]
        shown, arrived, changes = (list(part) for part in zip(*parts, strict=True))
        self.last_change_ = Change.total(changes)
        if self.split == "strict" and self.last_change_.small:
            raise PrivacyError(
                f"{counted(self.last_change_.small, 'group')} of the snapshot would be smaller "
                "than the level of a member: nothing is released"
            )
        before = self._shown_ranges
        known = before if self.last_change_.held_back else None
        self._shown_ranges = next_ranges(self._encoder, known, arrived, self._location)
        if self.last_change_.fresh or self._shown_ranges != before:
            self._shown_draw = self._next_draw()
        ranges = confined(self._encoder, self._shown_ranges)
        return self._drawn(shown, n_samples, ranges, self._shown_draw)

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
        merged._restore(self._kept().merged(other._kept()))
        with changing(merged):
            merged._newcomers.recognise(merged._encoder)
            merged._join(merged._newcomers.pop_known())
            while growth := merged._newcomers.due(merged._encoder):
                merged._grow(growth)
        return merged

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
        if waiting == "seal" and key is None and self.n_waiting_:
            raise KeyMaterialError(
                f"{counted(self.n_waiting_, 'record', 'is')} waiting: pass a key to seal them, or "
                "waiting='plain' to write them unencrypted"
            )
        with atomic_write(path, force=force, mode=0o600) as file:
            write_state(file, self, waiting=waiting, key=key)

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
        from tulle.stream._saved import read_state, state_from_bytes

        condenser, _, owed = state_from_bytes(cls, read_state(path), key=key, origin=str(path))
        if owed:
            raise KeyMaterialError(
                f"{counted(len(owed), 'record', 'is')} waiting in {path}, sealed or left out: "
                "pass the key that sealed them"
            )
        return condenser

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
        return means * self._encoder.scales_ + self._location if self._states else means

    @property
    def covariances_(self) -> Floats:
        covariances = self._moments.covariances
        if not self._states:
            return covariances
        scales = self._encoder.scales_
        return covariances * scales[:, None] * scales

    @property
    def n_waiting_(self) -> int:
        self._require_seen()
        pending = 0 if self._pending is None else sum(len(batch) for batch in self._pending)
        waiting = sum(len(state.waiting) for state in self._states.values())
        return pending + waiting + len(self._newcomers)

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
        notes = privacy_notes(self)
        if self._states:
            notes += column_notes(self._encoder, self.k)
        if self.n_small_:
            notes.append(
                f"{self.n_small_} of {len(self.counts_)} groups have fewer members than the "
                "largest level among them, because their statistics were split; split='strict' "
                "prevents this"
            )
        if self._newcomers:
            notes.append(
                f"{counted(len(self._newcomers), 'record', 'have')} a category that too few others "
                "have so far"
            )
        if self.n_waiting_:
            notes.append(
                f"{counted(self.n_waiting_, 'record', 'is')} waiting for enough others, and not "
                "released"
            )
        return notes

    @property
    def classes_(self) -> list[Any]:
        return [] if self._labels is None else list(self._states)

    @property
    def class_counts_(self) -> list[int]:
        return [] if self._labels is None else [s.condensed for s in self._states.values()]

    @property
    def history_(self) -> list[dict[str, Any]]:
        self._require_seen()
        shown = ("seen", "groups", "waiting", "drift")
        rows = []
        for label, state in self._states.items():
            named = {} if self._labels is None else {"class": label}
            rows += [named | {name: row[name] for name in shown} for row in state.history.rows]
        return rows

    def waiting_numbers(self) -> list[int]:
        """Return the numbers in the stream of the records that wait, to find them again.

        Returns
        -------
        list of int
        """
        return sorted([*waiting_numbers(self._states), *self._newcomers.numbers])

    def _kept(self) -> Fitted:
        """Return what a save, a merge or a resupply of waiting records needs."""
        check_whole(self)
        return Fitted(
            seen=self.n_seen_,
            names=self._names,
            level_column=self._level_column,
            persons=self._persons,
            has_target=self._has_target,
            labels=self._labels,
            border=self._border,
            encoder=self._encoder,
            location=self._location,
            states=self._states,
            aside=self._aside,
            newcomers=self._newcomers,
            seed=self._seed,
            draws=self._draws,
            shown_draw=self._shown_draw,
            shown_ranges=self._shown_ranges,
        )

    def _restore(self, fitted: Fitted) -> None:
        """Continue from what another condenser has kept."""
        self._check_parameters()
        if (fitted.strict, fitted.labels is not None) != (self.split == "strict", self.classwise):
            raise DataError("the state of the stream does not match its parameters")
        self.n_seen_ = fitted.seen
        self._names = fitted.names
        self._level_column = fitted.level_column
        self._persons = fitted.persons
        self._has_target = fitted.has_target
        self._labels = fitted.labels
        self._border = fitted.border
        self._encoder = fitted.encoder
        self._location = fitted.location
        self._states = fitted.states
        self._aside = fitted.aside
        self._newcomers = fitted.newcomers
        self._seed = fitted.seed
        self._draws = fitted.draws
        self._shown_draw = fitted.shown_draw
        self._shown_ranges = fitted.shown_ranges
        self._fixed = self.split, self.classwise
        self._pending, self._example = None, []

    def _check_parameters(self) -> None:
        check_int("StreamCondenser", "k", self.k, 2, EXACT)
        if self.init_size is not None:
            check_int("StreamCondenser", "init_size", self.init_size, 2)
        check_choice("StreamCondenser", "split", self.split, SPLITS)
        check_choice("StreamCondenser", "grouping", self.grouping, GROUPINGS)
        check_choice("StreamCondenser", "synthesis", self.synthesis, DISTRIBUTIONS)
        check_flag("StreamCondenser", "classwise", self.classwise)

    def _check_goes_on(self, batch: Batch) -> None:
        """Raise if a batch is of another kind than the first."""
        if (self.split, self.classwise) != self._fixed:
            raise ParameterError(
                "'split' and 'classwise' cannot change during a stream: start a new one"
            )
        if self._labels is not None:
            batch.labels(self._labels)

    # The way of records into the groups: everything that can refuse a record happens before a
    # group changes. Numbers are released within the range of the records that are in groups:
    # those who wait do not show in it.

    def _begin(self, batch: Batch, schema: Schema) -> None:
        self._names = batch.frame.columns
        self._level_column = next(iter(schema.named(Role.LEVEL)), None)
        person = person_column(schema)
        self._persons = None if person is None else PersonHash(person)
        self._has_target = self.classwise or batch.border.target is not None
        self._fixed = self.split, self.classwise
        self._labels = batch.labels(None).schema if self.classwise else None
        self._border = batch.border
        self._states = {}
        self._pending, self._example = [], []
        self._aside = Aside()
        self._newcomers = Newcomers()
        self._shown_ranges = None
        self._seed = as_generator(self.random_state).integers(0, 2**63, size=4).tolist()
        self._draws = self._shown_draw = 0  # how many there were; that of the last snapshot
        self.n_seen_ = 0
        self._cut_off = False

    def _collect(self, batch: Batch) -> None:
        """Keep records until the initial batch is complete, then start the groups."""
        assert self._pending is not None
        wanted = self._initial_size
        example = Batch.joined([*self._example, batch])
        if sum(len(part) for part in self._pending) + len(batch) < wanted:
            fit_encoder(self, example, complete=False)
            with changing(self):
                self._example = [example.part(0, 1)]
                self._pending.append(batch)
                self.n_seen_ += len(batch)
            return
        collected = Batch.joined([*self._pending, batch])
        initial, rest = collected.part(0, wanted), collected.part(wanted, len(collected))
        encoder = fit_encoder(self, initial, complete=True)
        matrix = encoder.encode(initial.frame)
        later, fresh = encoder.encode_arriving(rest.frame)
        location = matrix.mean(axis=0)
        standards = [(part - location) / encoder.scales_ for part in (matrix, later)]
        for standard in standards:
            check_reach(standard)
        if self._labels is not None:
            refuse_quantity(len(self._by_class(initial)), len(initial))
        people = self._people(initial), self._people(rest)
        with changing(self):
            self._encoder, self._location = encoder, location
            self._pending, self._example = None, []
            self._start(initial, matrix, standards[0], people[0])
            self._take(rest, later, fresh, wanted, people[1])
            self.n_seen_ += len(batch)

    def _people(self, batch: Batch) -> Ints | None:
        """Return a word for the person of each record, where people have several."""
        return None if self._persons is None else self._persons.words(batch.frame)

    def _located(self, frame: pl.DataFrame, levels: Any) -> Any:
        """Return the levels of a later batch: as given, or from the column of levels."""
        levels = self._level_column if levels is None else levels
        return level_column(frame, levels, plain=False) if isinstance(levels, str) else levels

    def _start(self, initial: Batch, matrix: Floats, standard: Floats, people: Ints | None) -> None:
        """Group the initial records class by class; those that fit in no group are absorbed."""
        numbers = np.arange(len(initial))
        means = []
        for label, rows in self._by_class(initial):
            state = self._state_of(label)
            own = None if people is None else people[rows]
            grouped = largest_feasible(initial.levels[rows], own)
            if grouped.any():
                inside = rows[grouped]
                groups, moments = group_initial(
                    standard[inside],
                    initial.levels[inside],
                    None if own is None else own[grouped],
                    self._generator(_GROUPING),
                    self.grouping,
                )
                means.append(moments.means * self._encoder.scales_ + self._location)
                state.start(moments, groups, None if people is None else people[inside])
            left = rows[~grouped]
            own = None if people is None else people[left]
            state.absorb(standard[left], initial.levels[left], numbers[left], own)
        waiting = waiting_numbers(self._states)
        joined = self._aside.exchange(waiting, matrix, numbers)
        if self._persons is not None and people is not None:
            people = np.delete(people, waiting)
            self._persons.first_seen(people)
        if len(joined) < len(matrix):
            self._encoder.confine(joined, weigh_people(people, len(joined)))
        for part in means:
            self._encoder.reach(part)

    def _absorb(self, batch: Batch) -> None:
        """Condense a batch that comes after the initial records."""
        matrix, fresh = self._encoder.encode_arriving(batch.frame)
        check_reach(self._standardised(matrix))
        people = self._people(batch)
        with changing(self):
            if self._fresh_container:
                self._adopt_container(batch)
            self._take(batch, matrix, fresh, self.n_seen_, people)
            self.n_seen_ += len(batch)

    def _adopt_container(self, batch: Batch) -> None:
        """Return future releases in the container of this batch."""
        if self._labels is not None:
            schema = batch.labels(None).schema
            schema.converted(self._labels.of(list(self._states)).domain)
            self._labels = schema
        self._border = batch.border
        self._fresh_container = False

    def _take(
        self,
        batch: Batch,
        matrix: Floats,
        fresh: Mapping[str, Flags],
        number: int,
        people: Ints | None,
    ) -> None:
        """Let checked records join the groups; those with a new category wait for others.

        Where people have several records, new categories are refused, and nobody waits so.
        """
        numbers = number + np.arange(len(batch))
        if not fresh:
            self._insert(batch, matrix, numbers, people)
            return
        for start in range(0, len(batch), _PART):
            stop = min(len(batch), start + _PART)
            self._take_part(batch.part(start, stop), numbers[start:stop])

    def _take_part(self, batch: Batch, numbers: Ints) -> None:
        """Take records in their order: a domain grows with the record that makes it due."""
        while len(batch):
            matrix, fresh = self._encoder.encode_arriving(batch.frame)
            waits = np.any([*fresh.values(), np.zeros(len(batch), dtype=bool)], axis=0)
            stop, growth = len(batch), None
            for row in np.flatnonzero(waits).tolist():
                growth = self._newcomers.add(
                    Newcomer(
                        matrix[row].copy(),
                        int(batch.levels[row]),
                        int(numbers[row]),
                        self._by_class(batch.part(row, row + 1))[0][0],
                        {name: batch.frame[name][row] for name, rows in fresh.items() if rows[row]},
                    ),
                    self._encoder,
                )
                if growth is not None:
                    stop = row + 1
                    break
            known = np.flatnonzero(~waits[:stop])
            self._insert(batch.only(known), matrix[known], numbers[known], None)
            batch, numbers = batch.part(stop, len(batch)), numbers[stop:]
            if growth is not None:
                self._grow(growth)

    def _grow(self, growth: Growth) -> None:
        """Add a category to a domain; who waited for it alone joins the groups."""
        for waiting in self._newcomers.people:
            self._state_of(waiting.label)
        before, self._cut_off = self._cut_off, False
        self._restore(self._kept().grown(growth))
        self._cut_off = before
        self._join(self._newcomers.pop_known())

    def _join(self, people: Sequence[Newcomer]) -> None:
        """Let records that waited for a category join the groups."""
        for person in people:
            matrix, number = person.record[None, :], np.array([person.number])
            standard = self._standardised(matrix)
            level = np.array([person.level])
            self._state_of(person.label).absorb(standard, level, number)
            waiting = waiting_numbers(self._states)
            self._encoder.widen(self._aside.exchange(waiting, matrix, number))

    def _insert(self, batch: Batch, matrix: Floats, numbers: Ints, people: Ints | None) -> None:
        """Let checked records join the groups."""
        standard = self._standardised(matrix)
        for label, rows in self._by_class(batch):
            own = None if people is None else people[rows]
            self._state_of(label).absorb(standard[rows], batch.levels[rows], numbers[rows], own)
        self._note_joined(matrix, numbers, people)

    def _note_joined(self, matrix: Floats, numbers: Ints, people: Ints | None) -> None:
        """Extend the ranges of numbers by the records that have joined groups."""
        waiting = waiting_numbers(self._states)
        joined = self._aside.exchange(waiting, matrix, numbers)
        if self._persons is not None and people is not None:
            # by one record of each person, and not by those that came late: nobody counts twice
            there = ~np.isin(numbers, waiting)
            joined = matrix[there][self._persons.first_seen(people[there])]
        self._encoder.widen(joined)

    def _standardised(self, matrix: Floats) -> Floats:
        """Return records as the groups see them."""
        standardised: Floats = (matrix - self._location) / self._encoder.scales_
        return standardised

    def _by_class(self, batch: Batch) -> list[tuple[Any, Ints]]:
        """Return the records of each class, in the order in which the classes appear."""
        if self._labels is None:
            return [(None, np.arange(len(batch)))]
        labels = batch.labels(self._labels)
        classes, first = np.unique(labels.codes, return_index=True)
        values = labels.schema.domain.to_list()
        return [
            (values[code], np.flatnonzero(labels.codes == code))
            for code in classes[np.argsort(first)].tolist()
        ]

    def _state_of(self, label: Any) -> StreamState:
        if label not in self._states:
            dimensions = len(self._encoder.scales_)
            people = None if self._persons is None else People()
            strict = self.split == "strict"
            self._states[label] = StreamState(dimensions, strict=strict, people=people)
        return self._states[label]

    @property
    def _initial_size(self) -> int:
        return 10 * self.k if self.init_size is None else self.init_size

    def _generator(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([*self._seed, *purpose])

    # What leaves, and what can be read at any moment: all of it is statistics.

    def _require_groups(self) -> None:
        if not hasattr(self, "n_seen_"):
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

    def _next_draw(self) -> int:
        """Return the number of the next draw."""
        self._draws += 1
        return self._draws - 1

    def _drawn(
        self, shown: list[Groups], n_samples: int | None, encoder: TableEncoder, number: int
    ) -> Any:
        frame, owners = draw(
            encoder,
            self._location,
            shown,
            self._generator(DRAWING, number),
            distribution=self.synthesis,
            n_samples=n_samples,
        )
        table = self._border.leave(hide_few(frame, encoder, shown, self._location))
        if self._labels is None:
            return table
        return table, self._labels.of(list(self._states)).leave(owners)

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

    def _require_seen(self) -> None:
        if not hasattr(self, "n_seen_"):
            raise AttributeError("this StreamCondenser has seen nothing yet: call partial_fit")

    def __sklearn_tags__(self) -> Tags:
        return takes_any_table(super().__sklearn_tags__())


def _check_size(owner: str, n_samples: int | None) -> None:
    if n_samples is not None:
        check_int(owner, "n_samples", n_samples, 1)
