"""Table <-> numeric matrix, for the families that need numbers.

A column becomes one or several dimensions in its natural units: numbers as they are, booleans as 0
and 1, categories as indicators, points in time as ticks since the earliest, missing as a state of
its own. Dividing by :attr:`TableEncoder.scales_` makes the columns comparable: each then has a
total variance of its weight squared, whatever the number of its dimensions.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from tulle._checks import check_int
from tulle._columns import CategoryColumn, NumberColumn
from tulle._random import as_generator
from tulle._threads import on_all_cores
from tulle._types import Flags, Floats, Integers, Ints
from tulle.errors import DataError, nearest_name
from tulle.table._categories import CategoryCodec, unlisted
from tulle.table._codecs import (
    Affine,
    Codec,
    Problem,
    fields_from_json,
    fields_to_json,
    side_by_side,
)
from tulle.table._drawing import Grouped
from tulle.table._numbers import NumberCodec
from tulle.table._ordered import OrderedCodec
from tulle.table._precision import decimals_of
from tulle.table._rare import Crowd
from tulle.table._series import frame_of
from tulle.table.schema import Column, ColumnsLike, Kind, Schema, kind_of, natural_column

_NUMBERS = (Kind.INTEGER, Kind.DECIMAL)


class TableEncoder:
    """An invertible code from a frame to a matrix of floats.

    Parameters
    ----------
    columns : Schema, sequence of :class:`~tulle.table.schema.Column`, or mapping
        What is known of the columns (a mapping gives a Column, a role or a kind for a name); the
        others are inferred from their type. Columns whose role is identifier, level or ignored
        are left out.
    max_width : int
        The most dimensions that the categories of one column take. With more categories, the
        commonest get an indicator each and the others share one dimension, coded in order of
        frequency.
    weights : mapping or sequence of float
        How much each column counts in distances, in place of the weights in ``columns``.

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
        columns: ColumnsLike | Schema | None = None,
        max_width: int = 32,
        weights: Mapping[str, float] | Sequence[float] | None = None,
    ) -> None:
        self.columns = columns
        self.max_width = max_width
        self.weights = weights

    def fit(
        self,
        frame: pl.DataFrame,
        plain: Collection[str] = (),
        crowd: Crowd | None = None,
        *,
        heaps: bool = False,
    ) -> TableEncoder:
        """Learn kinds, ranges, domains and scales from a frame.

        The numbers of ``plain`` columns have no precision of their own to keep. With a ``crowd``,
        nothing is learnt to be shown that too few people share: rare values are merged, and bounds
        rest on many people; and numbers that very many share may be set apart as ``heaps``.
        """
        max_width = check_int("TableEncoder", "max_width", self.max_width, 2)
        schema = Schema.of(self.columns, frame).weighted(self.weights)
        if not schema.released:
            raise DataError("no column is left to encode: the roles exclude all of them")
        codecs = [
            _fitted(
                frame[name], schema[name], max_width, plain=name in plain, crowd=crowd, heaps=heaps
            )
            for name in schema.released
        ]
        self._store(frame.columns, codecs, schema)
        return self

    def fit_longer(
        self, frame: pl.DataFrame, more: Mapping[str, pl.Series], crowd: Crowd
    ) -> TableEncoder:
        """Learn from a frame whose columns go on with ``more`` values, each of one more person."""
        schema = Schema.of(self.columns, frame).weighted(self.weights)
        codecs = [
            _fitted(
                longer(frame[name], more),
                schema[name],
                self.max_width,
                plain=False,
                crowd=crowd.with_more(len(more.get(name, ()))),
            )
            for name in schema.released
        ]
        self._store(frame.columns, codecs, schema)
        return self

    def stretch(self, ratios: Mapping[str, float]) -> None:
        """Make numbers comparable in a table where they are spread wider than in this one."""
        for codec in self._codecs:
            if isinstance(codec, NumberCodec):
                codec.scales[0] *= ratios[codec.name]
        self.scales_ = np.concatenate([codec.scales for codec in self._codecs])

    def with_column(self, series: pl.Series) -> tuple[TableEncoder, Floats]:
        """Return an encoder that knows one more column, and the dimensions of that column."""
        wider = copy.copy(self)
        column = natural_column(series)
        codec = _fitted(series, column, self.max_width, plain=False)
        schema = Schema(self.columns_).with_column(column)
        wider._store([*self._names, series.name], [*self._codecs, codec], schema)
        block = np.empty((len(series), codec.width))
        codec.encode(series, block)
        return wider, block

    @property
    def codecs(self) -> dict[str, Codec]:
        return {codec.name: codec for codec in self._codecs}

    @property
    def growing(self) -> set[str]:
        """The columns whose domains a stream may extend."""
        return {c.name for c in self._codecs if isinstance(c, CategoryCodec) and c.on_new}

    def problems(self, frame: pl.DataFrame) -> list[Problem]:
        """Return the rows that :meth:`encode` refuses, and why, column by column."""
        return [problem for codec in self._codecs for problem in codec.problems(frame[codec.name])]

    def encode_release(self, frame: pl.DataFrame) -> Floats:
        """Return the matrix of a release of the fitted table, in natural units.

        A release may hold what the table does not: merged values, or missing ones. Such cells
        have no category, or are as an average number is.
        """
        matrix = np.zeros((frame.height, len(self.feature_names_)))
        for codec, place in zip(self._codecs, self.slices_.values()):
            series = frame[codec.name]
            known = np.ones(frame.height, dtype=bool)
            for problem in codec.problems(series):
                known &= ~problem.rows
            part = np.empty((int(known.sum()), codec.width))
            codec.encode(series.filter(known), part)
            matrix[known, place] = part
            if isinstance(codec, NumberCodec):
                matrix[~known, place.start] = codec.fill
        return matrix

    def encode(self, frame: pl.DataFrame) -> Floats:
        """Return the matrix of a frame, (n, d), in natural units."""
        if not hasattr(self, "_codecs"):
            raise DataError("this TableEncoder is not fitted yet: call fit first")
        matrix = np.empty((frame.height, len(self.feature_names_)))

        def fill(codec: Codec) -> None:
            try:
                series = frame.get_column(codec.name)
            except pl.exceptions.ColumnNotFoundError:
                hint = nearest_name(codec.name, frame.columns)
                raise DataError(f"column '{codec.name}' is not in the table: {hint}") from None
            codec.encode(series, matrix[:, self.slices_[codec.name]])

        on_all_cores(fill, self._codecs, matrix.size)
        return matrix

    def encode_arriving(self, frame: pl.DataFrame) -> tuple[Floats, dict[str, Flags]]:
        """Return the matrix of later records of a stream, and who waits for a new category.

        Where a category is new, the row holds the commonest one instead.
        """
        fresh = {
            codec.name: rows
            for codec in self._codecs
            if isinstance(codec, CategoryCodec) and codec.name in frame.columns
            for rows in [codec.newcomers(frame[codec.name])]
            if rows.any()
        }
        for codec in self._codecs:
            if codec.name in fresh and isinstance(codec, CategoryCodec):
                commonest = codec.domain[0] if len(codec.domain) else None
                known = pl.Series([commonest], dtype=codec.dtype)
                typed = frame[codec.name].cast(codec.dtype, strict=False)
                typed = typed.zip_with(~pl.Series(fresh[codec.name]), known)
                frame = frame.with_columns(typed.alias(codec.name))
        return self.encode(frame), fresh

    def grown(self, name: str, codec: CategoryCodec, way: Affine) -> tuple[TableEncoder, Affine]:
        """Return an encoder with a wider code of one column, and the way into its dimensions."""
        wider = copy.copy(self)
        wider._codecs = [codec if known.name == name else known for known in self._codecs]
        wider._collect()
        ways = [
            way if known.name == name else Affine(np.eye(known.width), np.zeros(known.width))
            for known in self._codecs
        ]
        return wider, side_by_side(ways)

    def decode(
        self,
        matrix: Floats,
        groups: Ints | None = None,
        rng: Any = None,
        *,
        means: Floats | None = None,
        snap: bool = True,
    ) -> pl.DataFrame:
        """Return a frame like the fitted one, from a matrix in natural units.

        Parameters
        ----------
        matrix : ndarray (n, d)
        groups : ndarray (n,), optional
            The group (0, 1, ...) of each row. Categories, booleans and missing states are
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
        decoded = []
        for codec, place in zip(self._codecs, self.slices_.values()):
            part = None if grouped is None else grouped.part(place)
            decoded.append(codec.decode(matrix[:, place], part, snap=snap))
        return frame_of(decoded)

    def plain(
        self, frame: pl.DataFrame, k: int, rng: np.random.Generator, people: Ints | None = None
    ) -> list[NumberColumn | CategoryColumn]:
        """Return the columns as the synthesis of shapes takes them, and learn what they may show.

        Nothing that fewer than ``k`` people hold is shown; ``people`` is the person of each row,
        if people have several.
        """
        for codec, _ in self._numbers():
            codec.learn_shown(frame[codec.name], k, rng, people)
        return [codec.as_known(frame[codec.name]) for codec in self._codecs]

    def merged(self) -> list[str]:
        return [codec.name for codec in self._codecs if codec.too_few[1]]

    def kept_rare(self) -> list[str]:
        return [column.name for column in self.columns_ if column.keep_rare]

    def unread(self) -> list[str]:
        """Return the columns of numbers or dates with values that were not understood."""
        return [codec.name for codec, _ in self._numbers() if codec.unread]

    def widen(
        self,
        matrix: Floats,
        people: Integers | None = None,
        farthest: dict[str, list[dict[int, int]]] | None = None,
    ) -> None:
        """Widen the observed ranges of numbers by encoded records; scales and domains stay.

        ``people``, where they have several records, count once: where they came ``farthest``.
        """
        for codec, place in self._numbers():
            own = None if farthest is None else farthest.setdefault(codec.name, [{}, {}])
            codec.widen(matrix[:, place], people, own)

    def confine(self, matrix: Floats, people: Integers | None) -> None:
        """Take the observed ranges of numbers from these encoded records alone."""
        for codec, place in self._numbers():
            codec.confine(matrix[:, place], people)

    def reach(self, means: Floats) -> None:
        """Let the ranges of numbers reach the means of groups, (g, d), in natural units."""
        for codec, place in self._numbers():
            codec.reach(means[:, place])

    def rescale(self, variances: Floats) -> TableEncoder:
        """Take the scales from the variances of the dimensions, (d,), in natural units."""
        for codec, place in zip(self._codecs, self.slices_.values()):
            codec.rescale(variances[place])
        self._collect()
        return self

    def grid(self, matrix: Floats) -> dict[str, float]:
        """Return the last decimal of each dimension that has one, from encoded records."""
        found = {
            codec.name: decimals_of(matrix[:, place.start], pl.Float64)
            for codec, place in self._numbers()
            if codec.kind is Kind.DECIMAL
        }
        return {name: 10.0**-places for name, places in found.items() if places is not None}

    def _numbers(self) -> Iterator[tuple[NumberCodec, slice]]:
        for codec, place in zip(self._codecs, self.slices_.values()):
            if isinstance(codec, NumberCodec):
                yield codec, place

    def merge(self, other: TableEncoder) -> tuple[TableEncoder, Affine, Affine]:
        """Return an encoder for the data of both, and the way of each into it.

        The scales are those of this one.
        """
        schemas = [[(column.name, column.kind) for column in e.columns_] for e in (self, other)]
        if schemas[0] != schemas[1]:
            raise DataError(
                "the two were fitted on different columns: merging needs the same names and "
                "kinds, in the same order"
            )
        pairs = zip(self._codecs, other._codecs)
        codecs, mine, theirs = zip(*(codec.merge(second) for codec, second in pairs))
        joined = copy.copy(self)
        joined._codecs = list(codecs)
        joined._collect()
        return joined, side_by_side(list(mine)), side_by_side(list(theirs))

    def with_codecs(self, codecs: list[Codec]) -> TableEncoder:
        """Return an encoder of the same columns with other codes of the same width."""
        changed = copy.copy(self)
        changed._codecs = codecs
        return changed

    def to_json(self) -> dict[str, Any]:
        return {
            "names": self._names,
            "codecs": [
                {"codec": type(codec).__name__, "fields": fields_to_json(codec)}
                for codec in self._codecs
            ],
            "columns": [column.to_json() for column in self.columns_],
        }

    @classmethod
    def from_json(cls, entries: dict[str, Any]) -> TableEncoder:
        encoder = cls()
        try:
            codecs = [
                _CODECS[part["codec"]](**fields_from_json(part["fields"]))
                for part in entries["codecs"]
            ]
            columns = Schema(Column.from_json(column) for column in entries["columns"])
            encoder._store(entries["names"], codecs, columns)
        except (KeyError, TypeError, ValueError, AttributeError, pl.exceptions.PolarsError):
            # whose words may quote the domain of a column
            raise DataError(
                "the saved encoder cannot be read: it was written by another version of Tulle"
            ) from None
        return encoder

    def _store(self, names: list[str], codecs: list[Codec], schema: Schema) -> None:
        self._codecs = codecs
        self._names = names
        self.columns_ = [replace(schema[codec.name], kind=codec.kind) for codec in codecs]
        kept = {codec.name for codec in codecs}
        self.dropped_ = [name for name in names if name not in kept]
        self._collect()

    def _collect(self) -> None:
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


_CODECS: dict[str, type[Any]] = {
    codec.__name__: codec for codec in (NumberCodec, CategoryCodec, OrderedCodec)
}


def longer(series: pl.Series, more: Mapping[str, pl.Series]) -> pl.Series:
    """Return a column that goes on with more values of its own type."""
    further = more.get(series.name)
    return series if further is None else pl.concat([series, further.cast(series.dtype)])


def unfit_values(frame: pl.DataFrame, schema: Schema) -> list[Problem]:
    """Return the rows that hold values no encoder could be fitted on, and why."""
    problems: list[Problem] = []
    for name in schema.released:
        series, column = frame[name], schema[name]
        if column.kind in _NUMBERS and series.dtype.is_numeric():
            problems += NumberCodec.unfit(series, column)
        if column.kind is Kind.CATEGORY:
            problems += unlisted(series, column)
    return problems


def _fitted(
    series: pl.Series,
    column: Column,
    max_width: int,
    *,
    plain: bool,
    crowd: Crowd | None = None,
    heaps: bool = False,
) -> Codec:
    kind = _agreed(column, series.dtype)
    if kind is Kind.CATEGORY:
        return CategoryCodec.fit(series, column, max_width=max_width, crowd=crowd)
    if kind in (Kind.ORDERED, Kind.BOOLEAN):
        return OrderedCodec.fit(series, column, crowd=crowd)
    return NumberCodec.fit(series, column, find_decimals=not plain, crowd=crowd, heaps=heaps)


def _agreed(column: Column, dtype: Any) -> Kind:
    """Return the declared kind, if values of that type can be of it."""
    declared, natural = column.kind, kind_of(dtype)
    if column.text:
        return Kind.CATEGORY
    if declared is Kind.TEXT:
        raise DataError(
            f"column '{column.name}' looks like free text or an identifier, since nearly every "
            "value is different, or is declared as text: free text cannot be condensed. Leave it "
            "out, give it the role 'identifier' or 'ignored', declare it a category, or ask for "
            'codes: text = "codes"'
        )
    if declared is Kind.CATEGORY or declared is natural:
        return declared
    if natural in _NUMBERS and declared in _NUMBERS:
        return natural  # the type knows better whether values are whole
    if declared is Kind.ORDERED and natural in (*_NUMBERS, Kind.CATEGORY):
        return declared
    if dtype in (pl.String, pl.Categorical) and declared in (*_NUMBERS, Kind.DATETIME):
        return declared  # written as text
    if declared is Kind.DATETIME and natural is Kind.INTEGER and column.format:
        return declared  # 20240131
    if declared is Kind.BOOLEAN and natural in (Kind.INTEGER, Kind.CATEGORY):
        return Kind.CATEGORY  # 0 and 1, yes and no: two categories in their own words
    raise DataError(
        f"column '{column.name}' is declared {declared}, but its type is {natural}: convert the "
        "column or correct the policy"
    )
