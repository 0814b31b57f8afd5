"""Class labels, and which classes are condensed alone, together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._checks import check_int
from tulle._types import Ints
from tulle.condense._levels import able
from tulle.errors import DataError, PrivacyError
from tulle.table._codecs import family_of
from tulle.table._frames import ColumnExit, check_length, enter_column

NO_CLASSES = "requires y to be passed, but the target y is None: pass the class of each record"
_MANY = 50  # from here on, mostly different labels are not classes


@dataclass(frozen=True)
class LabelSchema:
    """The labels that there are, and the way back into the container that they came in."""

    domain: pl.Series
    exit: ColumnExit

    @property
    def classes(self) -> NDArray[Any]:
        return np.asarray(self.domain.to_list()) if self._plain else self.domain.to_numpy()

    @property
    def _plain(self) -> bool:
        return self.domain.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Boolean)

    def leave(self, codes: Ints) -> Any:
        return self.exit.leave(self.domain.gather(pl.Series(codes)))

    def of(self, classes: Sequence[Any]) -> LabelSchema:
        return replace(self, domain=pl.Series(self.domain.name, classes, dtype=self.domain.dtype))

    def converted(self, classes: pl.Series) -> pl.Series:
        """Return classes that came later in the type of the first ones; refuse another type."""
        fits = family_of(classes.dtype) == family_of(self.domain.dtype)
        try:
            converted = classes.cast(self.domain.dtype, strict=True)
            fits = fits and bool((converted.cast(classes.dtype, strict=True) == classes).all())
        except pl.exceptions.PolarsError:
            fits = False
        if not fits:
            raise DataError(
                f"y has another type ({classes.dtype.base_type()}), or other categories, than the "
                f"first y ({self.domain.dtype.base_type()}): convert it to the same type"
            )
        return converted


class Labels(NamedTuple):
    """The class of each record, as its place in the schema."""

    codes: Ints
    schema: LabelSchema
    records: int | None = None  # of the table, where these are only some


def read_labels(y: Any, n_records: int | None = None) -> Labels:
    """Return all the labels of a table: numbers, text, categories, booleans; none is missing."""
    if y is None:
        raise DataError(NO_CLASSES)
    series, exit = enter_column(y, "y")
    labels = labels_of(series, exit)
    if n_records is not None:
        check_length(series, n_records)
    refuse_quantity(len(labels.schema.domain), len(labels.codes))
    return labels


def labels_of(series: pl.Series, exit: ColumnExit) -> Labels:
    """Return the labels of some records, from the column that holds them."""
    floating = series.dtype.is_float()
    missing = series.null_count() + (int(series.is_nan().sum()) if floating else 0)
    if missing:
        raise DataError(
            f"is missing (null or NaN) in {missing} records: every record needs a class",
            parameter="y",
            subject="y",
        )
    if floating and not series.is_finite().all():
        raise DataError(
            "contains infinity: classes must be finite numbers or text", parameter="y", subject="y"
        )
    domain = series.unique().sort()
    codes = (
        series.replace_strict(
            domain, pl.Series(np.arange(len(domain))), return_dtype=pl.Int64
        ).to_numpy()
        if len(domain)
        else np.zeros(0, dtype=np.int64)
    )
    return Labels(codes, LabelSchema(domain, exit))


def refuse_quantity(classes: int, records: int) -> None:
    """Refuse a target whose values are mostly different, so that they are not classes."""
    if classes >= _MANY and classes > records / 2:
        raise DataError(
            f"Unknown label type: y has {classes} different values in {records} records, so they "
            "are not classes; to condense a continuous target with the features, use "
            "Condenser().fit(X, y), or StreamCondenser() for a stream",
            parameter="y",
        )


@dataclass(frozen=True)
class Unit:
    """Records that are condensed together: a class, or the pool of small ones."""

    classes: list[int]
    rows: Ints


def units_of(
    labels: Labels, demands: Ints | int, small_classes: str, asked: str, *, partly: bool = False
) -> list[Unit]:
    """Return the classes that are large enough, and what becomes of the others.

    ``demands`` is the smallest group, or the level of each record; a class is small if it has
    fewer records than its highest demand. With ``partly``, the records that ask too much are
    withheld, and a class is small if none is left.
    """
    levels = np.broadcast_to(np.asarray(demands), labels.codes.shape)

    def short(unit: Unit) -> bool:
        kept = able(levels[unit.rows])
        return not (kept.any() if partly else kept.all())

    units = [
        Unit([place], np.flatnonzero(labels.codes == place))
        for place in range(len(labels.schema.domain))
    ]
    small = [unit for unit in units if short(unit)]
    large = [unit for unit in units if not short(unit)]
    if small and (small_classes == "error" or (small_classes == "suppress" and not large)):
        raise _too_small(labels, small, len(units), asked)
    if small and small_classes == "pool":
        large = _pooled(small, large, short, labels, asked)
    return [Unit(unit.classes, unit.rows[able(levels[unit.rows])]) for unit in large]


def _pooled(
    small: list[Unit], large: list[Unit], short: Callable[[Unit], bool], labels: Labels, asked: str
) -> list[Unit]:
    """Pool small classes into one unit, joined by the next smallest until it is large enough."""
    pool = Unit(
        [place for unit in small for place in unit.classes],
        np.concatenate([unit.rows for unit in small]),
    )
    others = sorted(large, key=lambda unit: len(unit.rows))
    while short(pool):
        if not others:
            raise _too_small(labels, small, len(small) + len(large), asked)
        joined = others.pop(0)
        pool = Unit(pool.classes + joined.classes, np.concatenate([pool.rows, joined.rows]))
    return [*sorted(others, key=lambda unit: unit.classes), pool]


def _too_small(labels: Labels, small: list[Unit], total: int, asked: str) -> PrivacyError:
    """Return the error for classes that are too small, with counts only: the name of a class
    with few members is a fact about them.
    """
    least = min(len(unit.rows) for unit in small)
    records = labels.records or len(labels.codes)
    return PrivacyError(
        f"{len(small)} of {total} classes (n_samples={records}) have fewer records than "
        f"{asked} (the smallest has {least}): lower it, or withhold them with "
        "small_classes='suppress', or condense them together with small_classes='pool'",
        parameter="y",
    )


# The group size that fits several classes at once ('approximate GCD', paper 001).


def approximate_gcd(sizes: Iterable[int], t: int) -> int:
    """Compute the largest multiple of ``t`` that divides each class, counted in blocks of ``t``.

    It is ``g * t`` with ``g`` the greatest common divisor of ``size // t`` over the classes:
    every class is then filled by groups of that size, with fewer than ``t`` records to spare.

    Parameters
    ----------
    sizes : iterable of int
        The number of records of each class.
    t : int
        The smallest acceptable group.

    Returns
    -------
    int

    Examples
    --------
    >>> from tulle import approximate_gcd
    >>> approximate_gcd([15, 10], 5)
    5
    >>> approximate_gcd([1001, 501], 20)
    500
    """
    check_int("approximate_gcd", "t", t, 1)
    blocks = [int(size) // t for size in sizes]
    short = sum(block == 0 for block in blocks)
    if short or not blocks:
        raise PrivacyError(
            f"{short} of {len(blocks)} classes have fewer than t={t} records: lower t, or "
            "suppress or pool those classes"
        )
    return gcd(*blocks) * t
