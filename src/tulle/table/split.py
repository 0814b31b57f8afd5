"""A table split in two: members, who may be released, and a control, who are kept out.

A control answers the question that no release answers alone: does an attack work because of the
people in the data, or does it work on anybody? It is worth what its independence is worth, so the
unit is the person: all rows of one stay together. People are drawn evenly from the values of the
target, so that a rare class is in both parts as often as chance would have it, not more or less.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._checks import check_share
from tulle._random import RandomState, as_generator
from tulle._types import Ints
from tulle.errors import DataError, ParameterError, nearest_name
from tulle.table._frames import enter
from tulle.table._series import is_class, person_names

SHARE = 0.1
_QUANTILES = 10  # strata of a target that is a quantity


class Rows(NamedTuple):
    """The rows of each part, in their order, and how many people (or rows) there are in each."""

    members: Ints
    control: Ints
    people: int
    controls: int


def split(
    table: Any,
    share: float | str = SHARE,
    *,
    person: str | None = None,
    target: str | None = None,
    random_state: RandomState = None,
) -> tuple[Any, Any]:
    """Keep a share of the people apart, as the control of an audit.

    Parameters
    ----------
    table : DataFrame (pandas, polars), pyarrow Table, array or list of rows
        The table.
    share : float or str
        The share of the people (of the rows, without ``person``) to keep apart: 0.1 or "10%".
    person : str, optional
        The column that names the person of each row: the rows of a person are never separated.
    target : str, optional
        The column whose values both parts hold in the same shares: classes as they are, quantities
        by tenths.
    random_state : int, Generator, RandomState or None
        Draws the people; None takes the operating system's entropy.

    Returns
    -------
    members, control : tables of the same kind
        Their rows are in the order of ``table``.

    Raises
    ------
    DataError
        If one of the parts would be empty, or a column does not exist.

    Examples
    --------
    >>> import polars as pl
    >>> from tulle import split
    >>> visits = pl.DataFrame({"patient": [i // 2 for i in range(40)], "ill": [0, 0, 1, 1] * 10})
    >>> members, control = split(visits, "10%", person="patient", target="ill", random_state=0)
    >>> members.height, control.height, set(members["patient"]) & set(control["patient"])
    (36, 4, set())
    """
    frame, exit = enter(table)
    rows = split_rows(frame, share, person=person, target=target, random_state=random_state)
    return exit.leave(frame[rows.members]), exit.leave(frame[rows.control])


def split_rows(
    frame: pl.DataFrame,
    share: float | str = SHARE,
    *,
    person: str | None = None,
    target: str | None = None,
    random_state: RandomState = None,
) -> Rows:
    """Return which rows go into which part."""
    part = check_part(share)
    for option, name in (("person", person), ("target", target)):
        if name is not None and name not in frame.columns:
            hint = nearest_name(name, frame.columns)
            raise DataError(f"there is no column '{name}' for the {option}: {hint}")
    units = units_of(frame, person)
    strata = np.zeros(frame.height, np.int64) if target is None else _strata(frame[target])
    return draw_people(units, strata, part, as_generator(random_state))


def check_part(share: float | str) -> float:
    """Return the share to keep apart, which leaves somebody in both parts."""
    part = check_share("split", "share", share)
    if not 0 < part < 1:
        raise ParameterError(
            f"must leave somebody in both parts: above 0 and below 1. Got {part:g}.",
            parameter="share",
            subject="The 'share' parameter of split",
        )
    return part


def units_of(frame: pl.DataFrame, person: str | None) -> Ints:
    """Return the person of each row as a number; -1 where nobody is named."""
    if person is None:
        return np.arange(frame.height)
    ranks = person_names(frame[person]).rank("dense").cast(pl.Int64)
    return (ranks.fill_null(0) - 1).to_numpy()


def _strata(target: pl.Series) -> Ints:
    """Return the class of each row as a number, the most common first; quantities by tenths."""
    if not is_class(target):
        numbers = target.to_physical().cast(pl.Float64).fill_nan(None)
        places = (numbers.rank("ordinal") - 1) * _QUANTILES // max(1, numbers.count())
        return places.fill_null(_QUANTILES).cast(pl.Int64).to_numpy()
    _, codes, counts = np.unique(
        target.cast(pl.String).fill_null("").to_numpy(), return_inverse=True, return_counts=True
    )
    return np.argsort(np.argsort(-counts, kind="stable"))[codes.ravel()].astype(np.int64)


def draw_people(units: Ints, strata: Ints, share: float, rng: np.random.Generator) -> Rows:
    """Draw people at even steps through the strata, from a random start.

    A stratum of n people then gives n times the share, rounded down or up. Rows of nobody stay with
    the members: they may be anybody's. Who is in several strata counts in the rarest.
    """
    named = units >= 0
    order = _in_order(units, strata, rng)
    count = len(order)
    wanted = max(1, round(share * count))
    if wanted >= count:
        raise DataError(
            f"{count} people or rows cannot be split at {share:.3g}: one of the two parts would be "
            "empty. Give more records, or another share"
        )
    steps = (np.arange(wanted) + rng.random()) * count / wanted
    apart = np.zeros(count, dtype=bool)
    apart[order[steps.astype(np.int64)]] = True
    outside = named & apart[units]
    return Rows(np.flatnonzero(~outside), np.flatnonzero(outside), count, wanted)


def rotated(
    frame: pl.DataFrame,
    parts: int,
    *,
    person: str | None,
    target: str | None,
    rng: np.random.Generator,
) -> list[Rows]:
    """Deal people into parts of about the same size and strata, and keep out each part in turn."""
    units = units_of(frame, person)
    strata = np.zeros(frame.height, np.int64) if target is None else _strata(frame[target])
    order = _in_order(units, strata, rng)
    part = np.empty(len(order) + 1, np.int64)
    part[order] = np.arange(len(order)) % parts
    part[-1] = -1  # rows of nobody
    apart = part[units]
    held = [int((part == one).sum()) for one in range(parts)]
    return [
        Rows(np.flatnonzero(apart != one), np.flatnonzero(apart == one), len(order), held[one])
        for one in range(parts)
    ]


def _in_order(units: Ints, strata: Ints, rng: np.random.Generator) -> Ints:
    """Return all people by stratum, in random order within each; the rarest stratum of several."""
    named = units >= 0
    rarest = np.zeros(int(units.max(initial=-1)) + 1, np.int64)
    np.maximum.at(rarest, units[named], strata[named])
    order = rng.permutation(len(rarest))
    return order[np.argsort(rarest[order], kind="stable")]
