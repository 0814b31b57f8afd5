"""What one call of ``partial_fit`` brings: opened columns, a target, levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from tulle.condense.classes import NO_CLASSES, Labels, LabelSchema, open_labels
from tulle.condense.joint import JointEncoder
from tulle.condense.levels import check_levels
from tulle.condense.stream.sealing import Sealed
from tulle.errors import DataError
from tulle.moments import Floats, Ints
from tulle.tables.encoder import TableEncoder
from tulle.tables.frames import (
    Cells,
    Columns,
    Container,
    as_series,
    count_rows,
    is_plain,
    open_column,
    open_table,
)
from tulle.tables.kinds import family_of


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
