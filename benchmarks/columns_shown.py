"""What a release shows of values that few people hold: nothing, unless somebody asked for it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl

from tulle import Condenser
from tulle.errors import PrivacyWarning
from tulle.guessing.columns import guess_columns
from tulle.table.schema import Column, Kind, Role

DISCRETE = (Kind.CATEGORY, Kind.ORDERED, Kind.BOOLEAN)


def planned(table: pl.DataFrame) -> list[Column]:
    """Return the columns as they are guessed, targets and levels condensed like any other."""
    return [
        guess.column
        if guess.column.role not in (Role.TARGET, Role.LEVEL)
        else Column(guess.column.name, guess.column.kind)
        for guess in guess_columns(table)
    ]


def release_of(
    table: pl.DataFrame, columns: list[Column], k: int
) -> tuple[Condenser, pl.DataFrame]:
    """Condense a table by default."""
    condenser = Condenser(k, columns=columns, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return condenser, condenser.fit_resample(table)


def held_by(values: pl.Series, people: pl.Series | None) -> dict[Any, int]:
    """Return by how many people each value is held; None is missing."""
    person = pl.Series("p", np.arange(len(values))) if people is None else people.alias("p")
    table = pl.DataFrame({"v": values, "p": person})
    return dict(table.group_by("v").agg(pl.col("p").n_unique()).iter_rows())


def shown_by_few(
    before: pl.Series,
    after: pl.Series,
    k: int,
    people: pl.Series | None,
    *,
    only: Iterable[Any] | None = None,
) -> int:
    """Count the values shown that neither k people hold nor stand for all that are not shown.

    ``only`` some values are looked at, such as the codes among numbers.
    """
    held = held_by(before, people)
    values = after.unique().to_list()
    common = [value for value in values if held.get(value, 0) >= k]
    merged = held_by(~before.is_in(common, nulls_equal=True), people).get(True, 0)
    shown = set(values) if only is None else set(values) & set(only)
    whole = len(values) == 1  # nothing else was left to show
    return sum(
        held.get(value, 0) < k
        and not ((value not in held or value is None) and (merged >= k or whole))
        for value in shown
    )


def shown_columns(
    table: pl.DataFrame, release: pl.DataFrame, columns: list[Column], k: int
) -> dict[str, int]:
    """Return the values that few hold and a release shows, of each released column.

    Of numbers the special values and missing ones count: others are drawn, and may equal somebody's
    by chance.
    """
    who = next((column.name for column in columns if column.role is Role.PERSON), None)
    people = None if who is None else table[who]
    return {
        column.name: shown_by_few(
            table[column.name],
            release[column.name],
            k,
            people,
            only=None if column.kind in DISCRETE else [None, *column.special],
        )
        for column in columns
        if column.role.released
    }
