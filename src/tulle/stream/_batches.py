"""What one call of ``partial_fit`` brings: opened columns, a target, levels."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import polars as pl

from tulle._checks import check_real
from tulle._types import Floats, Ints
from tulle.condense._classes import NO_CLASSES, Labels, LabelSchema, open_labels
from tulle.condense._joint import JointEncoder
from tulle.condense._levels import check_levels
from tulle.errors import DataError, KeyMaterialError, ParameterError, nearest_name
from tulle.keys import SecretKey
from tulle.table._codecs import family_of
from tulle.table._encoder import Affine, TableEncoder
from tulle.table._frames import (
    Cells,
    Columns,
    Container,
    as_series,
    count_rows,
    is_plain,
    open_column,
    open_table,
)
from tulle.table._numbers import NumberCodec

# Records that leave this process only under a key that ends with it. A pickle may reach a disk.
# So what a stream keeps of records as they are is in a pickle only in sealed form: a copy in this
# process opens it, any other process is told to use a saved state.

_PICKLE_USE = "stream/pickle"
_PICKLE_BOUND = b"tulle-stream-pickle-v1"  # what the sealed bytes are bound to


class Sealed:
    """Anything of a length that is sealed when it is pickled, unless it is empty."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {"sealed": _locked(self.__dict__)} if len(self) else self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(_opened(state["sealed"]) if "sealed" in state else state)


@cache
def _key() -> SecretKey:
    return SecretKey.generate()


def _locked(content: dict[str, Any]) -> bytes:
    return _key().seal(pickle.dumps(content), _PICKLE_USE, _PICKLE_BOUND)


def _opened(sealed: bytes) -> Any:
    try:
        content = _key().unseal(sealed, _PICKLE_USE, _PICKLE_BOUND)
    except KeyMaterialError:
        raise KeyMaterialError(
            "the pickle of a stream holds waiting records, which only the process that made it "
            "can open: keep a stream with save(path, key=...)"
        ) from None
    return pickle.loads(content)  # our own: the tag says so


@dataclass(frozen=True)
class Batch(Sealed):
    """Some records of the stream, not encoded yet."""

    cells: Columns
    container: Container
    target: Columns | None
    target_container: Container | None
    levels: Ints

    def __len__(self) -> int:
        return len(self.levels)

    def __repr__(self) -> str:
        return f"Batch({len(self)} hidden)"

    @classmethod
    def of(cls, X: Any, y: Any, levels: Any, k: int, names: Sequence[str] | None = None) -> Batch:
        """Opens a table; an array takes the ``names`` of the columns known so far.

        So does a frame in a stream that began with arrays, whose columns are x0, x1, ...
        """
        cells, container = open_table(X)
        rows = count_rows(cells)
        by_place = is_plain(container) or (names is not None and not set(names) & set(cells))
        if names is not None and by_place and len(names) == len(cells):
            cells = dict(zip(names, cells.values()))
        target, target_container = (None, None) if y is None else open_column(y)
        if target is not None and count_rows(target) != rows:
            raise DataError(
                f"y has {count_rows(target)} entries, but X has {rows} records: inconsistent "
                "numbers of samples"
            )
        demands = np.zeros(0, dtype=np.int64)
        if rows:
            demands = check_levels(k if levels is None else levels, rows)
        return cls(cells, container, target, target_container, demands)

    def part(self, start: int, stop: int) -> Batch:
        """Some of the records."""
        rows = slice(start, stop)
        target = None
        if self.target is not None:
            target = {name: cells[rows] for name, cells in self.target.items()}
        cells = {name: column[rows] for name, column in self.cells.items()}
        return Batch(cells, self.container, target, self.target_container, self.levels[rows])

    def detached(self) -> Batch:
        """A copy that does not change when the owner of the data uses the arrays again."""
        cells = {name: _copied(column) for name, column in self.cells.items()}
        target = None
        if self.target is not None:
            target = {name: _copied(column) for name, column in self.target.items()}
        return replace(self, cells=cells, target=target)

    @classmethod
    def joined(cls, batches: list[Batch]) -> Batch:
        """Batches one after the other."""
        first = batches[0]
        if len(batches) == 1:
            return first
        target = None
        if first.target is not None:
            target = _stacked([batch.target or {} for batch in batches])
        return cls(
            _stacked([batch.cells for batch in batches]),
            first.container,
            target,
            first.target_container,
            np.concatenate([batch.levels for batch in batches]),
        )

    def labels(self, first: LabelSchema | None) -> Labels:
        """The class of each record, in the type of the first ones."""
        labels = self._labels
        if first is None:
            return labels
        return Labels(labels.codes, replace(first, domain=first.converted(labels.schema.domain)))

    @cached_property
    def _labels(self) -> Labels:
        if self.target is None or self.target_container is None:
            raise DataError(NO_CLASSES)
        return open_labels(self.target, self.target_container)


def fit_encoder(encoder: JointEncoder, batch: Batch, *, with_target: bool, complete: bool) -> None:
    """Learns columns, scales and domains from the initial records, or from some of them."""
    encoder.features.fit_opened(batch.cells, batch.container, complete=complete)
    if with_target and batch.target is not None and batch.target_container is not None:
        encoder.target = TableEncoder().fit_opened(
            batch.target, batch.target_container, complete=complete
        )


def encode(encoder: JointEncoder, batch: Batch) -> Floats:
    """The records as numbers, in natural units."""
    matrix = encoder.features.encode_opened(batch.cells)
    if encoder.target is None:
        return matrix
    return np.hstack([matrix, encoder.target.encode_opened(batch.target or {})])


def _copied(cells: Cells) -> Cells:
    return cells.copy() if isinstance(cells, np.ndarray) else cells


def _stacked(parts: list[Columns]) -> Columns:
    return {name: _concatenated(name, [part[name] for part in parts]) for name in parts[0]}


def _concatenated(name: str, cells: list[Cells]) -> Cells:
    if all(isinstance(part, np.ndarray) for part in cells):
        return np.concatenate(cells)
    frames = [as_series("cells", part).alias("cells").to_frame() for part in cells]
    types = [frame.dtypes[0] for frame in frames if frame.dtypes[0] != pl.Null]
    try:
        if len({family_of(dtype) for dtype in types}) <= 1:
            return pl.concat(frames, how="vertical_relaxed").to_series(0).alias(name)
    except pl.exceptions.PolarsError:  # categories, for example, of which each batch has its own
        pass
    words = ", ".join(sorted({str(dtype.base_type()) for dtype in types}))
    raise DataError(
        f"column '{name}' comes in types that do not go together ({words}): convert it to one "
        "type in all batches"
    )


# The records that no group may take yet. They are the one place where a stream keeps records as
# they are; they are never released. The buffer stays small: as soon as s records of level s or
# less wait, they form a group of their own, so fewer records wait than the largest level asks
# for.


@dataclass(frozen=True)
class Waiter:
    """One record that waits; ``number`` counts the records of the stream from 0."""

    record: Floats
    level: int
    number: int

    def __repr__(self) -> str:
        return "Waiter(hidden)"


class Waiting(Sealed):
    """Waiting records in the order of their arrival, standardised."""

    def __init__(self, waiters: list[Waiter] | None = None) -> None:
        self.waiters = list(waiters or [])

    def __len__(self) -> int:
        return len(self.waiters)

    def __repr__(self) -> str:
        return f"Waiting({len(self)} hidden)"

    @property
    def least_need(self) -> int | None:
        """How many members a group must have before it can take the least demanding waiter."""
        return min(waiter.level for waiter in self.waiters) - 1 if self.waiters else None

    def add(self, record: Floats, level: int, number: int) -> None:
        """Keeps a copy of a record."""
        self.waiters.append(Waiter(np.array(record), int(level), int(number)))

    def pop_for(self, members: int) -> Waiter | None:
        """The first to arrive whom a group of so many members may take."""
        for place, waiter in enumerate(self.waiters):
            if waiter.level - 1 <= members:
                return self.waiters.pop(place)
        return None

    def pop_group(self) -> list[Waiter]:
        """The smallest set that is a valid group by itself, or nobody."""
        levels = np.sort([waiter.level for waiter in self.waiters])
        enough = np.flatnonzero(np.arange(1, len(levels) + 1) >= levels)
        if not len(enough):
            return []
        largest = levels[enough[0]]
        taken = [waiter for waiter in self.waiters if waiter.level <= largest]
        self.waiters = [waiter for waiter in self.waiters if waiter.level > largest]
        return taken

    def arrays(self, dimensions: int) -> tuple[Floats, Ints, Ints]:
        """Records, levels and numbers, for merging."""
        records = np.array([waiter.record for waiter in self.waiters]).reshape(-1, dimensions)
        levels = np.array([waiter.level for waiter in self.waiters], dtype=np.int64)
        numbers = np.array([waiter.number for waiter in self.waiters], dtype=np.int64)
        return records, levels, numbers

    def moved(self, way: Affine, after: int) -> Waiting:
        """The same in other dimensions, numbered as of a stream that came ``after`` others."""
        return Waiting(
            [
                Waiter(waiter.record @ way.linear + way.shift, waiter.level, after + waiter.number)
                for waiter in self.waiters
            ]
        )


class Aside(Sealed):
    """The waiting records in natural units: ranges may not show them before they join a group."""

    def __init__(self, rows: dict[int, Floats] | None = None) -> None:
        self.rows = dict(rows or {})  # by their number in the stream

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Aside({len(self)} hidden)"

    def exchange(self, waiting: Sequence[int], matrix: Floats, first: int) -> Floats:
        """Keeps those who wait now; the others of ``matrix`` and of those kept have joined.

        The rows of ``matrix`` have the numbers from ``first`` on.
        """
        still = set(waiting)
        late = [row for number, row in self.rows.items() if number not in still]
        new = [number - first for number in waiting if number >= first]
        kept = {number: row for number, row in self.rows.items() if number in still}
        self.rows = kept | {first + place: matrix[place].copy() for place in new}
        joined = np.delete(matrix, new, axis=0) if new else matrix
        return np.vstack([joined, *late]) if late else joined

    def moved(self, way: Affine, after: int) -> Aside:
        """The same in other dimensions, numbered as of a stream that came ``after`` others."""
        rows = self.rows.items()
        return Aside({after + number: row @ way.linear + way.shift for number, row in rows})


# Scales that the owner gives, in place of those of the initial records.


def fix_scales(encoder: TableEncoder, scales: Mapping[str, float] | Sequence[float] | None) -> None:
    """Replaces the standard deviations that a fitted encoder found."""
    if scales is None:
        return
    codecs = {codec.name: codec for codec in encoder._codecs}
    if not isinstance(scales, Mapping):
        if len(scales) != len(codecs):
            raise ParameterError(
                f"'scales' has {len(scales)} entries, but {len(codecs)} columns are condensed"
            )
        scales = dict(zip(codecs, scales))
    for name, scale in scales.items():
        if name not in codecs:
            raise ParameterError(f"'scales' names '{name}': {nearest_name(name, codecs)}")
        codec = codecs[name]
        if not isinstance(codec, NumberCodec):
            raise ParameterError(
                f"'scales' names '{name}', which is no column of numbers: use 'weights'"
            )
        deviation = check_real("StreamCondenser", "scales", scale, 0, closed="neither")
        own = codec.scales.copy()
        # where values can be missing, the value and the states of missing share the weight
        own[0] = deviation * (own[1] if len(own) > 1 else 1.0 / codec.weight)
        codec.scales = own
    encoder._collect()
