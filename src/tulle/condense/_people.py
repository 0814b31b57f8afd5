"""People with several rows: groups then count different people, not rows."""

from __future__ import annotations

import numpy as np
import polars as pl

from tulle._people import distinct_people
from tulle._types import Flags, Ints
from tulle.errors import DataError, PrivacyError
from tulle.table._series import person_names
from tulle.table.schema import Role, Schema


def locate_people(frame: pl.DataFrame, schema: Schema) -> Ints | None:
    """Return the person of each row as a number, if a column names them and some have several.

    Rows without a person count as those of one person: they are not known to be several.
    """
    name = person_column(schema)
    if name is None:
        return None
    ranks = person_names(frame[name]).rank("dense").fill_null(0).to_numpy().astype(np.int64)
    return None if len(np.unique(ranks)) == len(ranks) else ranks


def person_column(schema: Schema) -> str | None:
    """Return the column that names the person of each row, if there is one."""
    names = schema.named(Role.PERSON)
    if len(names) > 1:
        raise DataError(f"{len(names)} columns have the role 'person': at most one may")
    return names[0] if names else None


def count_people(groups: Ints, people: Ints | None) -> Ints:
    """Return how many different people each group holds; without a person, its rows."""
    return distinct_people(groups, people, int(groups.max(initial=-1)) + 1)


def too_few_people(groups: Ints, demands: Ints, people: Ints) -> Flags:
    """Return which groups hold fewer people than a record in them requires."""
    return count_people(groups, people) < _asked(groups, demands)


def check_people(groups: Ints, demands: Ints, people: Ints) -> None:
    """Refuse a grouping in which a group holds fewer people than a record in it requires."""
    short = too_few_people(groups, demands, people)
    if short.any() and len(short) == 1:
        raise PrivacyError(
            f"there are only {int(count_people(groups, people)[0])} different people, but a group "
            f"must hold {int(demands.max())}: lower the group size, or add people",
            parameter="k",
        )
    if short.any():
        raise PrivacyError(
            f"{int(short.sum())} of {len(short)} groups hold fewer people than the level of a "
            "record in them: nothing is released"
        )


def _asked(groups: Ints, demands: Ints) -> Ints:
    """Return the highest demand in each group."""
    asked = np.zeros(int(groups.max()) + 1, dtype=np.int64)
    np.maximum.at(asked, groups, demands)
    return asked
