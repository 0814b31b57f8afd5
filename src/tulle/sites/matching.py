"""The same people at several sites: their columns, joined by pseudonyms that the sites agree on.

A pseudonym is a keyed digest of the person's key: sites that share the agreement give the same
person the same one, and whoever lacks it cannot tell who that is. Whoever has it can compute the
pseudonym of anybody they know: joined tables are pseudonymised, no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl

from tulle._plurals import counted
from tulle.errors import DataError, ParameterError, nearest_name
from tulle.keys import SecretKey
from tulle.sites._values import present, texts_of
from tulle.table._frames import enter


class MatchedPeople(NamedTuple):
    """Hold people who are in all of several tables; :func:`tulle.match_people` makes it.

    Parameters
    ----------
    table : table
        The columns of all tables, one record for each person, without the pseudonym.
    left_out : tuple of int
        For each table, how many of its people are not in all the others.

    Examples
    --------
    >>> MatchedPeople([[1, 2.5]], (0, 3)).left_out
    (0, 3)
    """

    table: Any
    left_out: tuple[int, ...]


def match_people(tables: Sequence[Any], by: str) -> MatchedPeople:
    """Join the columns of several sites, for the people who are in all of their tables.

    Parameters
    ----------
    tables : sequence of tables
        Tables that :meth:`SiteCodec.transform <tulle.SiteCodec.transform>` encoded under one
        agreement with ``match``, each with other columns.
    by : str
        The column with the pseudonyms.

    Returns
    -------
    MatchedPeople
        The table is of the kind of the first one, in the order of the pseudonyms, which is nobody's
        order.

    Raises
    ------
    DataError
        If a person occurs twice in a table, has no pseudonym, if two tables have the same column,
        or if nobody is in all tables.

    Examples
    --------
    >>> import polars as pl
    >>> from tulle import SiteAgreement, SiteCodec, match_people
    >>> clinic = pl.DataFrame({"insured": ["A1", "B2", "C3"], "smoker": [True, False, True]})
    >>> insurer = pl.DataFrame({"insured": ["C3", "A1", "D4"], "cost": [90, 870, 15]})
    >>> agreement = SiteAgreement.create(
    ...     {"insured": "text", "smoker": "boolean", "cost": "integer"},
    ...     ranges={"cost": (0, 10_000)},
    ...     match="insured",
    ... )
    >>> codec = SiteCodec(agreement)
    >>> found = match_people([codec.transform(clinic), codec.transform(insurer)], "insured")
    >>> found.table.columns, found.table.height, found.left_out
    (['smoker', 'cost'], 2, (1, 1))
    """
    if isinstance(tables, str) or len(tables) < 2:
        raise ParameterError("match_people needs at least two tables")
    entered = [enter(table) for table in tables]
    frames = [frame for frame, _ in entered]
    seen: dict[str, int] = {}
    for place, frame in enumerate(frames, start=1):
        if by not in frame.columns:
            raise DataError(
                f"table {place} has no column '{by}': {nearest_name(by, frame.columns)}"
            )
        missing = frame[by].null_count()
        if missing:
            raise DataError(
                f"table {place}: {counted(missing, 'record')} without a pseudonym in '{by}'"
            )
        refuse_repeated(frame[by], f"table {place}")
        for name in frame.columns:
            if name != by and name in seen:
                raise DataError(
                    f"tables {seen[name]} and {place} both have the column '{name}', and it is not "
                    "known which of them is right: drop it at one site"
                )
            seen[name] = place
    joined = frames[0]
    for frame in frames[1:]:
        joined = joined.join(frame, on=by, how="inner")
    if joined.is_empty():
        raise DataError(
            f"nobody is in all {len(frames)} tables: the sites must encode under the same "
            f"agreement and release label, and write '{by}' alike"
        )
    table = joined.sort(by).drop(by)
    left_out = tuple(frame.height - joined.height for frame in frames)
    return MatchedPeople(entered[0][1].leave(table), left_out)


def pseudonyms_of(series: pl.Series, key: SecretKey) -> pl.Series:
    """Return the pseudonyms of a column of people; raise if one is missing or occurs twice."""
    texts = pl.Series(series.name, texts_of(present(series).drop_nulls()), dtype=pl.String)
    texts = texts.str.strip_chars()
    missing = len(series) - len(texts) + int((texts == "").sum())
    if missing:
        raise DataError(
            f"column '{series.name}': {counted(missing, 'record')} without a value cannot be "
            "matched with anybody: leave them out"
        )
    found = key.pseudonyms(texts, use=f"sites/match/{series.name}")
    pseudonyms = pl.Series(series.name, found, dtype=pl.String)
    refuse_repeated(pseudonyms, "the table")
    return pseudonyms


def refuse_repeated(pseudonyms: pl.Series, where: str) -> None:
    """Raise if somebody occurs twice: which of their records belongs to that of another site?"""
    repeated = int(pseudonyms.is_duplicated().sum())
    if repeated:
        raise DataError(
            f"column '{pseudonyms.name}': {counted(repeated, 'record')} of {where} are of people "
            "who occur more than once: sum them up to one record for each person"
        )
