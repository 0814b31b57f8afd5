"""People with several rows: groups then count different people, not rows."""

from __future__ import annotations

import numpy as np
import polars as pl

from tulle._types import Floats, Ints
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.table.schema import Role, Schema

_CELLS = 4_000_000  # distances at a time


def locate_people(frame: pl.DataFrame, schema: Schema) -> Ints | None:
    """Return the person of each row as a number, if a column names them.

    Rows without a person count as those of one person: they are not known to be several.
    """
    names = schema.named(Role.PERSON)
    if not names:
        return None
    if len(names) > 1:
        raise DataError(f"{len(names)} columns have the role 'person': at most one may")
    ranks = frame[names[0]].cast(pl.String).rank("dense").fill_null(0)
    return ranks.to_numpy().astype(np.int64)


def refuse_people(schema: Schema, what: str) -> None:
    """Refuse a table with several rows for a person where rows are counted."""
    for name in schema.named(Role.PERSON):
        raise ParameterError(
            f"column '{name}' names people with several rows, but {what} counts rows: keep one row "
            "of each person and give the column the role 'identifier', or use condense"
        )


def count_people(groups: Ints, people: Ints | None) -> Ints:
    """Return how many different people each group holds; without a person, its rows."""
    if people is None:
        return np.bincount(groups)
    width = int(people.max(initial=0)) + 1
    return np.bincount(np.unique(groups * width + people) // width)


def join_until_enough(matrix: Floats, groups: Ints, demands: Ints, people: Ints) -> Ints:
    """Join groups with too few different people to their nearest ones, until all have enough.

    Every round joins all such groups at once, so there are few rounds.
    """
    while True:
        held = count_people(groups, people)
        short = np.flatnonzero(held < _asked(groups, demands))
        if not len(short):
            return groups
        if len(held) == 1:
            raise PrivacyError(
                f"there are only {int(held[0])} different people, but a group must hold "
                f"{int(demands.max())}: lower the group size, or add people",
                parameter="k",
            )
        groups = _joined(groups, short, _nearest(matrix, groups, short))


def check_people(groups: Ints, demands: Ints, people: Ints) -> None:
    """Refuse a grouping in which a group holds fewer people than a record in it requires."""
    held = count_people(groups, people)
    small = int((held < _asked(groups, demands)).sum())
    if small:
        raise PrivacyError(
            f"{small} of {len(held)} groups hold fewer people than the level of a record in them: "
            "nothing is released"
        )


def _asked(groups: Ints, demands: Ints) -> Ints:
    """Return the highest demand in each group."""
    asked = np.zeros(int(groups.max()) + 1, dtype=np.int64)
    np.maximum.at(asked, groups, demands)
    return asked


def _nearest(matrix: Floats, groups: Ints, some: Ints) -> Ints:
    """Return, for some groups, the other group with the nearest mean."""
    counts = np.bincount(groups)
    sums = [np.bincount(groups, weights=column) for column in matrix.T]
    means = np.stack(sums, axis=1) / counts[:, None]
    squares = (means**2).sum(axis=1)
    nearest = np.empty(len(some), dtype=np.int64)
    step = max(1, _CELLS // len(means))
    for first in range(0, len(some), step):
        part = some[first : first + step]
        away = squares - 2 * means[part] @ means.T  # the own square is the same in a row
        away[np.arange(len(part)), part] = np.inf
        nearest[first : first + step] = away.argmin(axis=1)
    return nearest


def _joined(groups: Ints, first: Ints, second: Ints) -> Ints:
    """Return the groups with each of the first joined to its second, numbered without gaps."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size = int(groups.max()) + 1
    links = coo_array((np.ones(len(first)), (first, second)), shape=(size, size))
    _, parts = connected_components(links, directed=False)
    return np.asarray(parts, dtype=np.int64)[groups]
