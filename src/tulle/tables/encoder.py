"""Table <-> numeric matrix, for the families that need numbers.

A column becomes one or several dimensions in its natural units: numbers as they are, truth values
as 0 and 1, categories as indicators, points in time as ticks since the earliest, missing as a
state of its own. Dividing by :attr:`TableEncoder.scales_` makes the columns comparable: each
then has a total variance of its weight squared, whatever the number of its dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tulle.checks import check_int
from tulle.errors import DataError, nearest_name
from tulle.random import as_generator
from tulle.tables.column_options import bounds_of, by_name, weights_of
from tulle.tables.frames import Columns, Container, count_rows, is_plain, open_table
from tulle.tables.kinds import Codec, codec_for, matching
from tulle.tables.numbers import NumberCodec
from tulle.tables.quotas import Floats, Grouped, Ints
from tulle.tables.schema import Column, Role

_LEFT_OUT = (Role.IDENTIFIER, Role.LEVEL, Role.IGNORED)


class TableEncoder:
    """An invertible code from any table to a matrix of floats.

    Parameters
    ----------
    columns : sequence of :class:`~tulle.tables.schema.Column`, or a mapping by name
        What is known of the columns; the others are inferred from their type. Columns whose role
        is identifier, level or ignored are left out.
    max_width : int
        The most dimensions that the categories of one column take. With more categories, the
        commonest get an indicator each and the others share one dimension, coded in order of
        frequency.
    weights : mapping or sequence of float
        How much each column counts in distances (1 by default).
    bounds : mapping of name to (low, high)
        Public bounds of numbers. Without them, decoded numbers are clipped to the smallest and
        largest value observed, which the release then reveals.

    Attributes
    ----------
    feature_names_ : list of str
        A name for each of the ``d`` dimensions.
    scales_ : ndarray (d,)
        Positive divisors that make distances comparable. A plain column of numbers gets its
        population standard deviation, a constant one 1.
    columns_ : list of Column
        The columns that are encoded, with their kinds.
    slices_ : dict
        Which dimensions belong to which column.
    dropped_ : list of str
        Columns left out because of their role.
    constant_, empty_ : list of str
        Columns with one value only, and columns that are missing throughout.

    What may leave
    --------------
    The fitted encoder holds no row, but the range of each number, the domain and counts of each
    category: it is for the owner of the data. Decoded tables stay within these ranges and
    domains, so a release shows them.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.DataFrame({"age": [31, 47, None], "city": ["Bern", "Bern", "Chur"]})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.feature_names_
    ['age', 'age=(missing)', 'city=Bern', 'city=Chur']
    >>> encoder.decode(encoder.encode(table)).equals(table)
    True
    """

    def __init__(
        self,
        columns: Sequence[Column] | Mapping[str, Column] | None = None,
        max_width: int = 32,
        weights: Mapping[str, float] | Sequence[float] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        self.columns = columns
        self.max_width = max_width
        self.weights = weights
        self.bounds = bounds

    def fit(self, X: Any) -> TableEncoder:
        """Learns kinds, ranges, domains and scales from a table."""
        return self.fit_opened(*open_table(X))

    def fit_encode(self, X: Any) -> Floats:
        """Fits and encodes, opening the table once."""
        cells, container = open_table(X)
        return self.fit_opened(cells, container).encode_opened(cells)

    def fit_opened(
        self, cells: Columns, container: Container, *, complete: bool = True
    ) -> TableEncoder:
        """Learns from the columns of a table that is open already.

        Unless it is ``complete``, one cannot tell yet whether a column of text has categories.
        """
        max_width = check_int("TableEncoder", "max_width", self.max_width, 2)
        known = by_name(self.columns, cells)
        weights = weights_of(self.weights, known, list(cells))
        bounds = bounds_of(self.bounds, known, cells)

        kept = [name for name in cells if name not in known or known[name].role not in _LEFT_OUT]
        if not kept:
            raise DataError("no column is left to encode: the roles leave all of them out")
        codecs = [
            codec_for(
                name,
                cells[name],
                known.get(name),
                weight=weights[name],
                bounds=bounds.get(name),
                max_width=max_width,
                find_decimals=not is_plain(container),
                complete=complete,
            )
            for name in kept
        ]
        self._store(list(cells), container, codecs, known)
        return self

    def encode(self, X: Any) -> Floats:
        """The matrix of a table, (n, d), in natural units."""
        return self.encode_opened(self._matching(X))

    def encode_opened(self, cells: Columns) -> Floats:
        """The matrix of the columns of a table that is open already."""
        matrix = np.empty((count_rows(cells), len(self.feature_names_)))
        for codec, place in zip(self._codecs, self.slices_.values()):
            codec.encode(matching(codec, cells[codec.name]), matrix[:, place])
        return matrix

    def decode(
        self,
        matrix: Floats,
        groups: Ints | None = None,
        rng: Any = None,
        *,
        means: Floats | None = None,
        snap: bool = True,
    ) -> Any:
        """A table of the kind that was fitted, from a matrix in natural units.

        Parameters
        ----------
        matrix : ndarray (n, d)
        groups : ndarray (n,), optional
            The group (0, 1, ...) of each row. Categories, truth values and missing states are
            then given out so that each group gets the counts that its means stand for; without
            groups each row takes its most likely state.
        rng : int, Generator or None
            Settles fractions of counts and equal scores.
        means : ndarray (g, d), optional
            The means of the groups' original records, if ``matrix`` is a draw around them.
        snap : bool
            Round decimals to the column's precision and clip them to its range. Whole numbers
            and points in time always are.
        """
        matrix = np.asarray(matrix, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[1] != len(self.feature_names_):
            raise DataError(f"the matrix must have {len(self.feature_names_)} columns")
        grouped = None
        if groups is not None:
            grouped = Grouped.of(matrix, np.asarray(groups), means, as_generator(rng))
        decoded = {}
        for codec, place in zip(self._codecs, self.slices_.values()):
            part = None if grouped is None else grouped.part(place)
            decoded[codec.name] = codec.decode(matrix[:, place], part, snap=snap)
        return self._container.restore(decoded)

    @property
    def input_names(self) -> list[str]:
        """All columns of the table that was fitted, left out or not."""
        return list(self._names)

    @property
    def named(self) -> bool:
        """Whether the table came with column names."""
        return not is_plain(self._container)

    def rare_categories(self, k: int) -> dict[str, int]:
        """For each column of categories, how many are held by fewer than ``k`` records."""
        rare = {codec.name: codec.rare(k) for codec in self._codecs if hasattr(codec, "rare")}
        return {name: count for name, count in rare.items() if count}

    def widen(self, matrix: Floats) -> None:
        """Widens the observed ranges of numbers by encoded records; scales and domains stay."""
        for codec, place in self._numbers():
            codec.widen(matrix[:, place])

    def confine(self, matrix: Floats) -> None:
        """Takes the observed ranges of numbers from these encoded records alone."""
        for codec, place in self._numbers():
            codec.confine(matrix[:, place])

    def rescale(self, variances: Floats) -> TableEncoder:
        """Takes the scales from the variances of the dimensions, (d,), in natural units."""
        for codec, place in zip(self._codecs, self.slices_.values()):
            codec.rescale(variances[place])
        self._collect()
        return self

    def _numbers(self) -> Iterator[tuple[NumberCodec, slice]]:
        for codec, place in zip(self._codecs, self.slices_.values()):
            if isinstance(codec, NumberCodec):
                yield codec, place

    def _store(
        self,
        names: list[str],
        container: Container,
        codecs: list[Codec],
        known: Mapping[str, Column],
    ) -> None:
        self._container = container
        self._codecs = codecs
        self._names = names
        self.columns_ = [_described(codec, known.get(codec.name)) for codec in codecs]
        kept = {codec.name for codec in codecs}
        self.dropped_ = [name for name in names if name not in kept]
        self._collect()

    def _collect(self) -> None:
        """Gathers what the codes of the columns know."""
        codecs = self._codecs
        self.feature_names_ = [word for codec in codecs for word in codec.feature_names]
        edges = np.cumsum([0, *(codec.width for codec in codecs)]).tolist()
        self.slices_ = {
            codec.name: slice(start, stop)
            for codec, start, stop in zip(codecs, edges[:-1], edges[1:])
        }
        self.scales_ = np.concatenate([codec.scales for codec in codecs])
        self.constant_ = [codec.name for codec in codecs if codec.constant]
        self.empty_ = [codec.name for codec in codecs if not codec.observed]

    def _matching(self, X: Any) -> Columns:
        """The columns of a table, which must be the ones that were fitted."""
        if not hasattr(self, "_codecs"):
            raise DataError("this TableEncoder is not fitted yet: call fit first")
        cells, container = open_table(X)
        if is_plain(container) and not is_plain(self._container):
            if len(cells) != len(self._names):
                raise DataError(
                    f"the array has {len(cells)} columns, the fitted table {len(self._names)}"
                )
            return dict(zip(self._names, cells.values()))
        for codec in self._codecs:
            if codec.name not in cells:
                raise DataError(
                    f"column '{codec.name}' is not in the table: {nearest_name(codec.name, cells)}"
                )
        return cells


def _described(codec: Codec, known: Column | None) -> Column:
    """What is known of a column after fitting."""
    if known is None:
        return Column(codec.name, codec.kind)
    return Column(codec.name, codec.kind, known.role, known.weight, known.bounds, known.reason)
