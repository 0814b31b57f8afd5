"""What one group size costs and gives: a release made, mined, and attacked.

Groups come from the training records alone; the miner standardises by what the miner sees, the
release.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._attacks.linkage import linkage
from tulle._attacks.records import Records, nearest
from tulle._attacks.result import Scene
from tulle._metrics.marginals import interval_widths
from tulle._metrics.models import Lesson, asked, taught
from tulle._types import Floats, Ints
from tulle.condense._classes import read_labels
from tulle.condense._levels import check_levels, count_people, locate_people
from tulle.condense._papers import refuse_beyond_floats
from tulle.condense._synthesis import fit_paired
from tulle.errors import DataError
from tulle.table._encoder import TableEncoder
from tulle.table._frames import Exit, enter, enter_column
from tulle.table._series import is_class
from tulle.table.schema import Schema
from tulle.table.split import Rows, draw_people

# Records to train on and records held out, parted before anything is fitted. Scales come from the
# training records alone; which categories there are, from all.

_MANY_CLASSES = 50  # more words than this are not classes


@dataclass(frozen=True)
class Split:
    """Training and held-out records, as tables for the condenser and as numbers for the miner."""

    frame: pl.DataFrame
    exit: Exit
    target: NDArray[Any]
    levels: Ints | None
    train: Ints
    test: Ints
    encoder: TableEncoder
    matrix: Floats
    labels: NDArray[Any]  # the classes; empty for a regression
    people: Ints | None = None  # the person of each record, where people have several

    @classmethod
    def of(
        cls,
        frame: pl.DataFrame,
        exit: Exit,
        y: Any,
        levels: Any,
        schema: Schema,
        *,
        test_size: float,
        classes: bool,
        seed: int,
        small: bool = False,
    ) -> Split:
        """Split the records; ``small``: a part may lack classes of one record.

        The records of a person are never separated.
        """
        # a miner takes what a release holds, within public bounds or not
        unbounded = Schema(replace(column, bounds=None) for column in schema)
        encoder = TableEncoder(unbounded).fit(frame, frame.columns if exit.plain else ())
        refuse_beyond_floats(encoder.scales_)
        matrix = encoder.encode(frame)
        target = values_of(y)
        if len(target) != len(matrix):
            raise DataError(
                f"y has {len(target)} entries, but X has {len(matrix)} records: inconsistent "
                "numbers of samples"
            )
        codes = read_labels(y, len(matrix)).codes if classes else np.zeros(len(matrix), np.int64)
        asked = None if levels is None else check_levels(levels, len(matrix))
        people = locate_people(frame, schema)
        train, test, *_ = _parted(codes, people, test_size, seed, small=small)
        labels = np.unique(target) if classes else np.array([])
        encoder.rescale(matrix[train].var(axis=0))
        rows = np.sort(train), np.sort(test)
        return cls(frame, exit, target, asked, *rows, encoder, matrix, labels, people)

    def training(self, k: int) -> tuple[Any, NDArray[Any], Ints | None]:
        """Return the training records, their target, and their levels where groups have at least
        k.
        """
        levels = self.demands(k)
        return (
            self.exit.leave(self.frame[self.train]),
            self.target[self.train],
            None if levels is None else levels[self.train],
        )

    def class_sizes(self) -> list[int]:
        """Return how many people each class has in training; all of them, without classes."""
        target, people = self.target[self.train], self.people
        codes = np.zeros(len(target), dtype=np.int64)
        if len(self.labels):
            codes = np.unique(target, return_inverse=True)[1]
        own = None if people is None else people[self.train]
        return [int(count) for count in count_people(codes, own)]

    def lesson(self, rows: Ints) -> Lesson:
        """Return some records as a miner takes them."""
        return Lesson(self.matrix[rows], self.target[rows])

    def records(self, matrix: Floats, rows: Ints | None = None) -> Records:
        """Return encoded records for an attack; of the table, if their ``rows`` are given."""
        people = None if self.people is None or rows is None else self.people[rows]
        scaled = matrix / self.encoder.scales_
        return Records.of_numbers(scaled, self.encoder.feature_names_, people)

    def demands(self, k: int) -> Ints | None:
        """Return the levels, of which none is below k; None where there are none."""
        return None if self.levels is None else np.maximum(self.levels, k)


def values_of(y: Any) -> NDArray[Any]:
    """Return a target as an array, whatever container it came in."""
    values = enter_column(y, "y")[0].to_numpy()
    return values if values.dtype.kind in "biufmM" else values.astype(object)


def are_classes(y: Any) -> bool:
    """Return whether a target looks like labels; refuse what is neither labels nor numbers."""
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
    return is_class(enter_column(y, "y")[0])


def _parted(codes: Ints, people: Ints | None, test_size: float, seed: int, *, small: bool) -> Rows:
    """Return the rows to train on and those held out: people, drawn evenly from the classes."""
    count, found = len(codes), np.unique(codes)
    held, parts = math.ceil(test_size * count), max(1, len(found))
    if held < parts or count - held < parts:
        raise DataError(
            f"'test_size' {test_size:g} of {count} records cannot hold out and train on a record "
            f"of each of {parts} classes: give more records or another test_size"
        )
    counts = np.bincount(codes)
    rarest = np.argsort(np.argsort(-counts, kind="stable"))[codes]
    units = np.arange(count) if people is None else np.unique(people, return_inverse=True)[1]
    rows = draw_people(units, rarest, test_size, np.random.default_rng(seed))
    untaught = np.setdiff1d(found, codes[rows.members])
    lacking = len(np.union1d(untaught, np.flatnonzero(counts == 1)))
    if lacking and not small:
        raise DataError(
            f"{lacking} of {parts} classes have too few people to train on and hold out: leave out "
            "or pool the small classes"
        )
    return rows


ATTEMPTS = 500  # people whom the linkage attack tries to find


@dataclass(frozen=True)
class Trial:
    """One release of one size."""

    utility: float
    class_utilities: tuple[float, ...]  # the share of each class that is predicted rightly
    privacy: float  # the mean interval over the columns, each at most as wide as its range
    interval: float  # the same uncut, as the paper prints it
    risk: float
    seconds: float


def baseline(split: Split, miner: Any, scorer: Callable[..., float]) -> float:
    """Return the utility of a miner who gets the training records themselves."""
    return asked(taught(miner, split.lesson(split.train), False), split.lesson(split.test), scorer)


def evaluate(
    condenser: Any,
    k: int,
    split: Split,
    miner: Any,
    scorer: Callable[..., float],
    rng: np.random.Generator,
) -> Trial:
    """Condense the training records, mine the release, and measure privacy and risk."""
    from sklearn.base import clone

    start = time.perf_counter()
    table, target, levels = split.training(k)
    condenser = clone(condenser).set_params(k=k, random_state=rng)
    pairs = fit_paired(condenser, table, target, levels, rng)
    X_new, y_new = condenser.sample()
    released, labels = split.encoder.encode_release(enter(X_new)[0]), np.asarray(y_new)

    model, held = taught(miner, Lesson(released, labels), False), split.lesson(split.test)
    return Trial(
        asked(model, held, scorer),
        _shares(model.predict(held.columns) == held.target, held.target, split.labels),
        *_intervals(*(pairs.together() if pairs else _beside_nearest(split, released))),
        _risk(split, released, rng),
        time.perf_counter() - start,
    )


def _shares(
    hits: NDArray[np.bool_], truth: NDArray[Any], labels: NDArray[Any]
) -> tuple[float, ...]:
    """Return the share of each class that is predicted correctly; NaN where none of it was held
    out.
    """
    of_class = [hits[truth == label] for label in labels]
    return tuple(float(some.mean()) if len(some) else float("nan") for some in of_class)


def _intervals(original: Floats, counterparts: Floats) -> tuple[float, float]:
    """Return the mean interval of the columns: cut at the range of each, and uncut."""
    widths = interval_widths(original, counterparts)
    known = widths[~np.isnan(widths)]
    if not len(known):
        return float("nan"), float("nan")
    return float(np.minimum(known, 1.0).mean()), float(known.mean())


def _beside_nearest(
    split: Split, released: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pair records with the released record nearest to them: what can be known without groups.

    That is at most as far away as one of their own group, so that privacy is not overstated.
    """
    originals, others = split.records(split.matrix[split.train]), split.records(released)
    found = nearest(originals, others).rows[:, 0]
    return originals.numbers, others.numbers[found]


def _risk(split: Split, released: NDArray[np.float64], rng: np.random.Generator) -> float:
    """Return how many more of the people in the data a linkage attack finds than of strangers."""
    scene = Scene(
        split.records(split.matrix[split.train], split.train),
        split.records(released),
        split.records(split.matrix[split.test], split.test),
        ATTEMPTS,
    )
    return float(linkage(scene, rng).risk)
