"""What one group size costs and gives: a release made, mined, and attacked.

The held-out records are split off before anything is fitted. Scales and groups come from the
training records alone (which categories there are, from all); the miner standardises by what the
miner sees, the release.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tulle.attacks.linkage import linkage
from tulle.attacks.nearest import nearest
from tulle.attacks.records import Records
from tulle.condense.classes import read_labels
from tulle.condense.pairing import fit_paired
from tulle.errors import DataError
from tulle.metrics.loss import interval_width
from tulle.tables.encoder import TableEncoder
from tulle.tables.frames import take_rows

ATTEMPTS = 500  # people whom the linkage attack tries to find


@dataclass(frozen=True)
class Trial:
    """One release of one size."""

    utility: float
    class_utilities: tuple[float, ...]  # the share of each class that is predicted rightly
    privacy: float
    risk: float
    seconds: float


@dataclass(frozen=True)
class Split:
    """Training and held-out records, as tables for the condenser and as numbers for the miner."""

    table: Any
    target: NDArray[Any]
    levels: NDArray[np.int64] | None
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    encoder: TableEncoder
    matrix: NDArray[np.float64]
    labels: NDArray[Any]  # the classes; empty for a regression

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        levels: Any,
        columns: Any,
        *,
        test_size: float,
        classes: bool,
        seed: int,
    ) -> Split:
        from sklearn.model_selection import train_test_split

        target = np.asarray(y)
        counts = np.bincount(read_labels(y).codes) if classes else np.array([], dtype=np.int64)
        _check_can_be_split(len(target), counts, test_size)
        encoder = TableEncoder(columns).fit(X)
        rows = np.arange(len(target))
        train, test = train_test_split(
            rows, test_size=test_size, random_state=seed, stratify=target if classes else None
        )
        labels = np.unique(target) if classes else np.array([])
        asked = None if levels is None else np.asarray(levels)
        matrix = encoder.encode(X)
        encoder.rescale(matrix[train].var(axis=0))
        return cls(X, target, asked, np.sort(train), np.sort(test), encoder, matrix, labels)

    def training(self) -> tuple[Any, NDArray[Any], NDArray[np.int64] | None]:
        levels = None if self.levels is None else self.levels[self.train]
        return take_rows(self.table, self.train), self.target[self.train], levels


def _check_can_be_split(records: int, counts: NDArray[np.int64], test_size: float) -> None:
    """Refuses before scikit-learn does, which would print the labels."""
    alone = int((counts < 2).sum())
    if alone:
        raise DataError(
            f"{alone} of {len(counts)} classes have a single record, which can be trained on or "
            "held out but not both: leave out or pool the small classes"
        )
    held = math.ceil(test_size * records)
    if held < max(1, len(counts)) or records - held < max(1, len(counts)):
        raise DataError(
            f"'test_size' {test_size:g} of {records} records cannot hold out and train on a record "
            f"of each of {len(counts)} classes: give more records or another test_size"
        )


def baseline(split: Split, miner: Any, scorer: Callable[..., float]) -> float:
    """The utility of a miner who gets the training records themselves."""
    from sklearn.base import clone

    model = clone(miner).fit(split.matrix[split.train], split.target[split.train])
    return float(scorer(model, split.matrix[split.test], split.target[split.test]))


def evaluate(
    condenser: Any, split: Split, miner: Any, scorer: Callable[..., float], rng: np.random.Generator
) -> Trial:
    """Condenses the training records, mines the release, measures privacy and risk."""
    from sklearn.base import clone

    start = time.perf_counter()
    table, target, levels = split.training()
    condenser = clone(condenser).set_params(random_state=rng)
    pairs = fit_paired(condenser, table, target, levels, rng)
    X_new, y_new = condenser.sample()
    released, labels = split.encoder.encode(X_new), np.asarray(y_new)

    model = clone(miner).fit(released, labels)
    held, truth = split.matrix[split.test], split.target[split.test]
    hits = model.predict(held) == truth if len(split.labels) else np.array([])
    by_class = tuple(float(hits[truth == label].mean()) for label in split.labels)
    return Trial(
        float(scorer(model, held, truth)),
        by_class,
        interval_width(*(pairs.together() if pairs else _beside_nearest(split, released))),
        _risk(split, released, rng),
        time.perf_counter() - start,
    )


def _beside_nearest(
    split: Split, released: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Records beside the released record nearest to them: what can be told without groups.

    That is at most as far away as one of their own group, so that privacy is not overstated.
    """
    scales = split.encoder.scales_
    originals = Records.of_numbers(split.matrix[split.train] / scales, split.encoder.feature_names_)
    others = Records.of_numbers(released / scales, split.encoder.feature_names_)
    found = nearest(originals, others).rows[:, 0]
    return split.matrix[split.train] / scales, released[found] / scales


def _risk(split: Split, released: NDArray[np.float64], rng: np.random.Generator) -> float:
    """How many more of the people in the data a linkage attack finds than of strangers."""
    scales = split.encoder.scales_

    def records(matrix: NDArray[np.float64]) -> Records:
        return Records.of_numbers(matrix / scales, split.encoder.feature_names_)

    result = linkage(
        records(split.matrix[split.train]),
        records(released),
        rng,
        control=records(split.matrix[split.test]),
        attempts=ATTEMPTS,
    )
    return float(result.risk)
