"""Condensation of a stream: groups that follow it, pseudo-data at any moment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from tulle.checks import check_choice, check_flag, check_int
from tulle.condense.condenser import GROUPINGS
from tulle.condense.joint import takes_any_table
from tulle.condense.levels import locate_levels
from tulle.condense.stream.batches import Batch
from tulle.condense.stream.exclusive import alone, check_whole
from tulle.condense.stream.releasing import Releasing
from tulle.condense.synthesis import DISTRIBUTIONS
from tulle.errors import DataError, ParameterError
from tulle.keys import SecretKey
from tulle.random import RandomState
from tulle.tables.schema import Column

SPLITS = ("paper", "strict")


class StreamCondenser(Releasing, BaseEstimator):
    """A look-alike of a stream, at any moment, from statistics of groups that follow it.

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
        Treat ``y`` as classes and never let a group mix them, as
        :class:`~tulle.ClassCondenser` of a ``StreamCondenser`` asks for; otherwise ``y`` is a
        number that is condensed with the features.
    synthesis : {"uniform", "normal", "mean"}
        How records are drawn along a group's eigenvectors.
    scales : mapping of column to float, or sequence, or None
        What one standard deviation of each column of numbers is; from the initial records by
        default.
    weights : mapping of column to float, or sequence
        How much columns count when records are compared.
    columns : sequence of :class:`~tulle.tables.schema.Column`
        What a policy says of the columns.
    random_state : int, Generator, RandomState or None
        None takes the operating system's entropy.

    Attributes
    ----------
    counts_, levels_ : ndarray (g,)
        Records in each group, and the largest level that ever joined it.
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
    Of two samples, whoever holds both can subtract them and learn of the records in between:
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
        columns: Sequence[Column] | None = None,
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
        """Takes more records; all of them, or none if one is refused.

        Parameters
        ----------
        X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
        y : array-like, optional
            A number to condense with the features or, with ``classwise``, the class; given in
            every batch or in none.
        levels : array-like of int >= 1, or the name of a column of ``X``, optional
            The smallest group that each record accepts, in place of ``k``. A column that was
            named once holds the levels of later batches too.
        """
        self._check_parameters()
        first = not getattr(self, "n_seen_", 0)  # nothing taken yet: any columns may come
        if not first:
            check_whole(self)
            levels = self._level_column if levels is None else levels
        levels, columns = locate_levels(X, levels, self.columns)
        batch = Batch.of(X, y, levels, self.k, None if first else self._names)
        validate_data(self, X, skip_check_array=True, reset=first)
        if first:
            self._begin(batch, columns)
        self._check_goes_on(batch)
        if not len(batch):
            return self
        if self._pending is None:
            self._absorb(batch)
        else:
            self._collect(batch)
        return self

    def fit(self, X: Any, y: Any = None, levels: Any = None) -> Self:
        """Forgets what was seen and takes these records as the whole stream so far."""
        if hasattr(self, "n_seen_"):
            del self.n_seen_
        self.partial_fit(X, y, levels)
        if not self.n_seen_:
            raise DataError("the table has 0 records: there is nothing to condense")
        return self

    def merge(self, other: StreamCondenser) -> StreamCondenser:
        """A condenser that has seen both streams, which must have the same columns.

        Scales are this stream's; categories and ranges hold both. What the snapshots of either
        have shown, ranges included, stays shown until enough newcomers have joined.
        """
        from tulle.condense.stream.merging import merge

        return merge(self, other)

    def fit_resample(self, X: Any, y: Any = None, levels: Any = None) -> Any:
        """Fits and samples: ``X_new``, or ``(X_new, y_new)`` if there is a target."""
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
        """Writes the state: a zip of NumPy arrays with a JSON header, a version and a digest.

        Records that wait are sealed by ``key``. Without a key, saving is refused while records
        wait, unless ``waiting="plain"`` allows to write them as they are.
        """
        from tulle.condense.stream.saving import save

        save(self, path, key=key, waiting=waiting, force=force)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, key: SecretKey | None = None) -> StreamCondenser:
        """The condenser that was saved; it goes on as if it had never stopped.

        Frames come back as polars until the next ``partial_fit`` shows another kind.
        """
        from tulle.condense.stream.saving import load

        return load(cls, path, key=key)

    def _check_parameters(self) -> None:
        check_int("StreamCondenser", "k", self.k, 2)
        if self.init_size is not None:
            check_int("StreamCondenser", "init_size", self.init_size, 2)
        check_choice("StreamCondenser", "split", self.split, SPLITS)
        check_choice("StreamCondenser", "grouping", self.grouping, GROUPINGS)
        check_choice("StreamCondenser", "synthesis", self.synthesis, DISTRIBUTIONS)
        check_flag("StreamCondenser", "classwise", self.classwise)

    def _check_goes_on(self, batch: Batch) -> None:
        """Refuses a batch that is of another kind than the first."""
        if (batch.target is not None) != self._has_target:
            raise DataError("y must be given in every batch of a stream or in none")
        if (self.split, self.classwise) != self._fixed:
            raise ParameterError(
                "'split' and 'classwise' cannot change while a stream goes on: begin a new one"
            )
        if self._labels is not None:
            batch.labels(self._labels)

    def __sklearn_tags__(self) -> Tags:
        return takes_any_table(super().__sklearn_tags__())
