"""Table <-> numeric matrix, for the families that need numbers.

A column becomes one or several dimensions in its natural units: numbers as they are, truth values
as 0 and 1, categories as indicators, points in time as ticks since the earliest, missing as a
state of its own. Dividing by :attr:`TableEncoder.scales_` makes the columns comparable: each
then has a total variance of its weight squared, whatever the number of its dimensions.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import gcd
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.linalg import block_diag

from tulle._checks import check_int, check_real
from tulle._json import series_from_text, series_to_text
from tulle._moments import GroupMoments
from tulle._random import as_generator
from tulle._types import Floats, Ints
from tulle.errors import DataError, ParameterError, nearest_name
from tulle.table._categories import BooleanCodec, CategoryCodec
from tulle.table._codecs import Codec, codec_for, matching
from tulle.table._drawing import Grouped
from tulle.table._frames import (
    ArrayTable,
    Columns,
    Container,
    PolarsTable,
    RowList,
    count_rows,
    is_plain,
    open_table,
)
from tulle.table._numbers import NumberCodec
from tulle.table.schema import WEIGHTS, Column, Kind, Role

# What the user said of columns, by name: policy entries, weights, public bounds.


def by_name(
    columns: Sequence[Column] | Mapping[str, Column] | None, cells: Columns
) -> dict[str, Column]:
    if columns is None:
        return {}
    listed = list(columns.values()) if isinstance(columns, Mapping) else list(columns)
    known: dict[str, Column] = {}
    for column in listed:
        _known_name(column.name, cells, "the policy")
        if column.name in known:
            raise DataError(f"the policy names column '{column.name}' twice")
        known[column.name] = column
    return known


def weights_of(
    weights: Mapping[str, float] | Sequence[float] | NDArray[Any] | None,
    known: Mapping[str, Column],
    names: list[str],
) -> dict[str, float]:
    chosen = {name: known[name].weight if name in known else 1.0 for name in names}
    if weights is None:
        given: dict[str, float] = {}
    elif isinstance(weights, Mapping):
        given = {str(name): weight for name, weight in weights.items()}
    else:
        if len(weights) != len(names):
            raise ParameterError(
                f"'weights' has {len(weights)} entries, the table {len(names)} columns"
            )
        given = dict(zip(names, weights))
    for name in given:
        _known_name(name, names, "'weights'")
    every = (chosen | given).items()
    return {name: check_real("TableEncoder", "weights", weight, *WEIGHTS) for name, weight in every}


def bounds_of(
    bounds: Mapping[str, tuple[float, float]] | None,
    known: Mapping[str, Column],
    cells: Columns,
) -> dict[str, tuple[float, float]]:
    chosen = {name: column.bounds for name, column in known.items() if column.bounds is not None}
    for name, pair in (bounds or {}).items():
        _known_name(name, cells, "'bounds'")
        chosen[name] = pair
    for name, (low, high) in chosen.items():
        if not low <= high:
            raise ParameterError(f"the bounds of column '{name}' are in the wrong order")
    return chosen


def _known_name(name: str, names: Columns | list[str], owner: str) -> None:
    if name not in names:
        raise DataError(
            f"{owner} names column '{name}', which is not in the table: {nearest_name(name, names)}"
        )


_LEFT_OUT = (Role.IDENTIFIER, Role.LEVEL, Role.IGNORED)


class TableEncoder:
    """An invertible code from any table to a matrix of floats.

    Parameters
    ----------
    columns : sequence of :class:`~tulle.table.schema.Column`, or a mapping by name
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


# Two encoders of the same columns as one: categories, missing states and ranges of both. The
# dimensions of each part map into those of the whole by an affine function (other categories take
# other places, time counts from another start), under which means and covariances move exactly.
# So statistics of parts can be joined without the parts' records.


@dataclass(frozen=True)
class Affine:
    """``x @ linear + shift``: from the dimensions of a part to those of the whole."""

    linear: Floats
    shift: Floats

    def moved(self, moments: GroupMoments) -> GroupMoments:
        """The statistics of a part in the dimensions of the whole."""
        return GroupMoments(
            moments.counts,
            moments.means @ self.linear + self.shift,
            self.linear.T @ moments.scatters @ self.linear,
            moments.levels,
            moments.level_sums,
        )


def unite(first: TableEncoder, second: TableEncoder) -> tuple[TableEncoder, Affine, Affine]:
    """An encoder for the data of both, and the way of each into it; scales are the first's."""
    schemas = [[(column.name, column.kind) for column in part.columns_] for part in (first, second)]
    if schemas[0] != schemas[1]:
        raise DataError(
            "the two were fitted on different columns: merging needs the same names and kinds, "
            "in the same order"
        )
    joined = copy.deepcopy(first)
    maps: tuple[list[Affine], list[Affine]] = ([], [])
    for place, (mine, theirs) in enumerate(zip(joined._codecs, second._codecs)):
        joined._codecs[place], *ways = _union(mine, theirs)
        for ways_of_part, way in zip(maps, ways):
            ways_of_part.append(way)
    joined._collect()
    return joined, side_by_side(maps[0]), side_by_side(maps[1])


def side_by_side(ways: list[Affine]) -> Affine:
    """The ways of several columns as one."""
    linear = block_diag(*(way.linear for way in ways))
    return Affine(linear, np.concatenate([way.shift for way in ways]))


def _union(first: Any, second: Any) -> tuple[Any, Affine, Affine]:
    if isinstance(first, NumberCodec):
        return _union_of_numbers(first, second)
    if isinstance(first, CategoryCodec):
        return _union_of_categories(first, second)
    return _union_of_booleans(first, second)


def _union_of_numbers(
    first: NumberCodec, second: NumberCodec
) -> tuple[NumberCodec, Affine, Affine]:
    observed = [codec for codec in (first, second) if codec.observed] or [first]
    _refuse_other_type(first.name, observed)
    joined = replace(
        first,
        dtype=observed[0].dtype,
        extra=sorted({*first.extra, *second.extra}),
        observed=first.observed + second.observed,
        decimals=_coarsest(observed),
    )
    if first.kind is Kind.DATETIME:
        joined.origin = min(codec.origin for codec in observed)
        offsets = (codec.origin - joined.origin for codec in observed)
        joined.tick = gcd(*(codec.tick for codec in observed), *offsets)
    joined.fill = _moved(observed[0].fill, observed[0], joined)
    if first.public is None:
        joined.low = min(_moved(codec.low, codec, joined) for codec in observed)
        joined.high = max(_moved(codec.high, codec, joined) for codec in observed)
    pairs = {_moved_pair(codec, joined) for codec in observed}
    joined.pair = pairs.pop() if len(pairs) == 1 else None
    joined.scales = np.concatenate([first.scales[:1], np.ones(len(joined.extra))])
    return joined, _way_of_numbers(first, joined), _way_of_numbers(second, joined)


def _refuse_other_type(name: str, codecs: Sequence[NumberCodec | CategoryCodec]) -> None:
    """A narrower type could not hold the values of both, and time counts in its own unit."""
    if any(codec.dtype != codecs[0].dtype for codec in codecs):
        raise DataError(
            f"column '{name}' has another type in the two tables: convert it to the same type in "
            "both, and fit again"
        )


def _coarsest(observed: list[NumberCodec]) -> int | None:
    """The decimals that hold the values of all parts."""
    decimals = [codec.decimals for codec in observed]
    return None if None in decimals else max(places for places in decimals if places is not None)


def _moved(value: float, codec: NumberCodec, joined: NumberCodec) -> float:
    """A value in the units of the whole: ticks since its start."""
    return value * (codec.tick / joined.tick) + (codec.origin - joined.origin) / joined.tick


def _moved_pair(codec: NumberCodec, joined: NumberCodec) -> tuple[float, float] | None:
    if codec.pair is None:
        return None
    low, high = codec.pair
    return _moved(low, codec, joined), _moved(high, codec, joined)


def _way_of_numbers(codec: NumberCodec, joined: NumberCodec) -> Affine:
    linear = np.zeros((codec.width, joined.width))
    shift = np.zeros(joined.width)
    linear[0, 0] = codec.tick / joined.tick
    shift[0] = _moved(0.0, codec, joined)
    for place, state in enumerate(codec.extra, start=1):
        linear[place, 1 + joined.extra.index(state)] = 1.0
        # a missing record now shows the fill of the whole
        linear[place, 0] = joined.fill - _moved(codec.fill, codec, joined)
    return Affine(linear, shift)


def _union_of_categories(
    first: CategoryCodec, second: CategoryCodec
) -> tuple[CategoryCodec, Affine, Affine]:
    known = [codec for codec in (first, second) if len(codec.domain)] or [first]
    _refuse_other_type(first.name, known)
    alike = first.domain.equals(second.domain)
    if not alike and (first.tail or second.tail):
        raise DataError(
            f"column '{first.name}' has so many categories that some share a code, and not the "
            "same ones in the two tables: fit both parts with fewer categories"
        )
    domain = known[0].domain
    if not alike and len(known) == 2:
        new = second.domain.filter(~second.domain.is_in(domain.implode()))
        domain = pl.concat([domain, new])
    joined = replace(
        first,
        dtype=known[0].dtype,
        domain=domain,
        top=first.top if alike else len(domain),
        missing=first.missing or second.missing,
        counts=_counts(first, domain) + _counts(second, domain),
    )
    joined.scales = np.full(joined.width, first.scales[0])
    return joined, _way_of_categories(first, joined), _way_of_categories(second, joined)


def _places(codec: CategoryCodec, domain: pl.Series) -> list[int]:
    where = {value: place for place, value in enumerate(domain.to_list())}
    return [where[value] for value in codec.domain.to_list()]


def _counts(codec: CategoryCodec, domain: pl.Series) -> Any:
    counts = np.zeros(len(domain), dtype=np.int64)
    counts[_places(codec, domain)] = codec.counts
    return counts


def _way_of_categories(codec: CategoryCodec, joined: CategoryCodec) -> Affine:
    linear = np.zeros((codec.width, joined.width))
    for place, target in enumerate(_places(codec, joined.domain)[: codec.top]):
        linear[place, target] = 1.0
    if codec.tail:
        linear[codec.top, joined.top] = 1.0
    if codec.missing:
        linear[-1, -1] = 1.0
    return Affine(linear, np.zeros(joined.width))


def _union_of_booleans(
    first: BooleanCodec, second: BooleanCodec
) -> tuple[BooleanCodec, Affine, Affine]:
    joined = replace(
        first,
        missing=first.missing or second.missing,
        observed=first.observed + second.observed,
        constant=first.constant and second.constant,
    )
    joined.scales = np.full(joined.width, first.scales[0])
    ways = [
        Affine(np.eye(codec.width, joined.width), np.zeros(joined.width))
        for codec in (first, second)
    ]
    return joined, ways[0], ways[1]


# A fitted encoder as JSON, for states that outlive a process. Numbers are written so that they
# read back bit by bit; types and domains of columns as Arrow IPC. No row is in it, but the range
# and the domain of each column are: it is for the owner of the data.

_CODECS: dict[str, type[Any]] = {
    codec.__name__: codec for codec in (NumberCodec, CategoryCodec, BooleanCodec)
}


def encoder_to_json(encoder: TableEncoder) -> dict[str, Any]:
    """Everything that encoding and decoding need, as plain JSON values."""
    return {
        "names": encoder._names,
        "container": _container_to_json(encoder._container),
        "codecs": [
            {"codec": type(codec).__name__}
            | {part.name: _to_json(getattr(codec, part.name)) for part in fields(codec)}  # type: ignore[arg-type]
            for codec in encoder._codecs
        ],
        "columns": [
            [column.name, column.kind.value, column.role.value, column.weight, column.bounds]
            for column in encoder.columns_
        ],
    }


def encoder_from_json(entries: dict[str, Any]) -> TableEncoder:
    """The encoder again; tables come back as polars frames, arrays as arrays."""
    encoder = TableEncoder()
    try:
        codecs = [_codec_from_json(codec) for codec in entries["codecs"]]
        columns = {
            name: Column(name, Kind(kind), Role(role), weight, tuple(bounds) if bounds else None)
            for name, kind, role, weight, bounds in entries["columns"]
        }
        container = _container_from_json(entries["container"])
        encoder._store(entries["names"], container, codecs, columns)
    except (KeyError, TypeError, ValueError, AttributeError, pl.exceptions.PolarsError):
        # whose words may quote the domain of a column
        raise DataError("the saved encoder cannot be read: it is of another version") from None
    return encoder


def _codec_from_json(entries: dict[str, Any]) -> Any:
    kind = _CODECS[entries["codec"]]
    return kind(**{name: _from_json(value) for name, value in entries.items() if name != "codec"})


def _to_json(value: Any) -> Any:
    if isinstance(value, Kind):
        return {"kind": value.value}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return {"tuple": list(value)}
    if isinstance(value, np.dtype):
        return {"dtype": value.str}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": value.dtype.str}
    if isinstance(value, pl.Series):
        return {"series": series_to_text(value)}
    if isinstance(value, pl.DataType) or (
        isinstance(value, type) and issubclass(value, pl.DataType)
    ):
        return {"type": series_to_text(pl.Series("type", [], dtype=value))}
    return value


def _from_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "kind" in value:
        return Kind(value["kind"])
    if "tuple" in value:
        return tuple(value["tuple"])
    if "array" in value:
        return np.array(value["array"], dtype=value["dtype"])
    if "dtype" in value:
        return np.dtype(value["dtype"])
    if "series" in value:
        return series_from_text(value["series"])
    return series_from_text(value["type"]).dtype


def _container_to_json(container: Container) -> dict[str, str]:
    if isinstance(container, RowList):
        return {"rows": _container_to_json(container.array)["array"]}
    return (
        {"array": container.dtype.str} if isinstance(container, ArrayTable) else {"frame": "polars"}
    )


def _container_from_json(entries: dict[str, str]) -> Container:
    if "array" in entries:
        return ArrayTable(np.dtype(entries["array"]))
    if "rows" in entries:
        return RowList(ArrayTable(np.dtype(entries["rows"])))
    return PolarsTable()
