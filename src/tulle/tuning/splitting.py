"""Records to train on and records held out, parted before anything is fitted.

Scales come from the training records alone; which categories there are, from all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tulle.condense.classes import few_enough, read_labels
from tulle.condense.levels import check_levels
from tulle.condense.statistics import refuse_beyond_floats
from tulle.errors import DataError
from tulle.moments import Floats, Ints
from tulle.tables.encoder import TableEncoder
from tulle.tables.frames import as_series, open_column, take_rows
from tulle.tables.schema import Column

_MANY_CLASSES = 50  # words beyond this are no classes


@dataclass(frozen=True)
class Split:
    """Training and held-out records, as tables for the condenser and as numbers for the miner."""

    table: Any
    target: NDArray[Any]
    levels: Ints | None
    train: Ints
    test: Ints
    encoder: TableEncoder
    matrix: Floats
    labels: NDArray[Any]  # the classes; empty for a regression

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        levels: Any,
        columns: Sequence[Column] | None,
        *,
        test_size: float,
        classes: bool,
        seed: int,
        small: bool = False,
    ) -> Split:
        """Parts the records; ``small``: classes of one record are none that a part could lack."""
        from sklearn.model_selection import train_test_split

        # a miner takes what a release holds, within public bounds or not
        encoder = TableEncoder([replace(column, bounds=None) for column in columns or []]).fit(X)
        refuse_beyond_floats(encoder.scales_)
        matrix = encoder.encode(X)
        target = values_of(y)
        strata = _strata(y, len(matrix), small) if classes else None
        _check_can_be_split(len(target), len(matrix), strata, test_size)
        asked = None if levels is None else check_levels(levels, len(matrix))
        train, test = train_test_split(
            np.arange(len(matrix)), test_size=test_size, random_state=seed, stratify=strata
        )
        labels = np.unique(target) if classes else np.array([])
        encoder.rescale(matrix[train].var(axis=0))
        return cls(X, target, asked, np.sort(train), np.sort(test), encoder, matrix, labels)

    def training(self, k: int) -> tuple[Any, NDArray[Any], Ints | None]:
        """The training records, their target, and their levels where groups have at least k."""
        levels = self.demands(k)
        return (
            take_rows(self.table, self.train),
            self.target[self.train],
            None if levels is None else levels[self.train],
        )

    def demands(self, k: int) -> Ints | None:
        """The levels, of which none is below k; None where there are none."""
        return None if self.levels is None else np.maximum(self.levels, k)


def values_of(y: Any) -> NDArray[Any]:
    """A target as an array, whatever it came in."""
    (name, cells), *_ = open_column(y, "y")[0].items()
    values = as_series(name, cells).to_numpy()
    return values if values.dtype.kind in "biufmM" else values.astype(object)


def are_classes(y: Any) -> bool:
    """Whether a target looks like labels; refuses what is neither labels nor numbers."""
    from sklearn.utils.multiclass import type_of_target

    values = values_of(y)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise DataError(
            f"the target is missing or infinite in {int((~np.isfinite(values)).sum())} records: "
            "leave them out"
        )
    words = values.dtype.kind not in "biufmM"
    distinct = len(set(values.tolist()))
    if values.dtype.kind in "mM" or (words and distinct > _MANY_CLASSES):
        raise DataError(
            f"the target is neither numbers nor at most {_MANY_CLASSES} classes: how well it is "
            "predicted cannot be measured"
        )
    few = few_enough(distinct, len(values))
    return words or (few and type_of_target(values) in ("binary", "multiclass"))


def _strata(y: Any, records: int, small: bool) -> Ints:
    """The class of each record; with ``small``, those of one record go with the largest class."""
    codes = read_labels(y, records).codes
    counts = np.bincount(codes)
    alone = counts < 2
    if alone.any() and not small:
        raise DataError(
            f"{int(alone.sum())} of {len(counts)} classes have a single record, which can be "
            "trained on or held out but not both: leave out or pool the small classes"
        )
    return np.where(alone[codes], counts.argmax(), codes) if len(counts) else codes


def _check_can_be_split(values: int, records: int, strata: Ints | None, test_size: float) -> None:
    """Refuses before scikit-learn does, which would print the labels."""
    if values != records:
        raise DataError(
            f"y has {values} entries, but X has {records} records: inconsistent numbers of samples"
        )
    parts = max(1, 0 if strata is None else len(np.unique(strata)))
    held = math.ceil(test_size * records)
    if held < parts or records - held < parts:
        raise DataError(
            f"'test_size' {test_size:g} of {records} records cannot hold out and train on a record "
            f"of each of {parts} classes: give more records or another test_size"
        )
