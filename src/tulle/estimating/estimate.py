"""What a release answers: several copies as one, with an interval that covers the original."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tulle._files import digest
from tulle._json import read_json
from tulle._relations.values import Values, truth
from tulle.errors import DataError, GateError, ParameterError, nearest_name
from tulle.estimating._questions import (
    REGRESSIONS,
    Figure,
    Key,
    Question,
    answer,
    parse_question,
    unknown_words,
)
from tulle.estimating.ledger import (
    FORMAT,
    LEAST,
    MOST,
    NORMAL,
    as_copies,
    name_of,
    pooled,
    without_codes,
)
from tulle.releases import has_manifest, named_beside, read_manifest
from tulle.table.schema import Role

UNANSWERED = "this cannot be answered from this release"
_LARGEST = 16 << 20  # bytes of a ledger


def estimate(
    releases: Any,
    question: str,
    *,
    ledger: Mapping[str, Any] | None = None,
    records: int | None = None,
    weight: str | None = None,
    population: bool = False,
) -> pl.DataFrame:
    """Answer a question from a release, with an interval that covers the original's answer.

    Parameters
    ----------
    releases : path-like, DataFrame, pyarrow Table, or list of DataFrames
        A release: its file (the other copies and the ledger are found through its manifest), or
        one or more tables drawn from one fitted model.
    question : str
        ``mean(x)``, ``share(x > 3)``, ``total(x)``, ``quantile(x, 0.9)``, ``median(x)``,
        ``ols(y ~ a + b)`` or ``logit(z == "yes" ~ a + b)``, each with ``by COLUMN, ...`` and
        ``where CONDITION`` if wanted.
    ledger : mapping, optional
        What :func:`error_ledger` returned. Without one there are no intervals: how far a release
        lies from its original cannot be seen in the release.
    records : int, optional
        How many records the original has, for totals; by default what the manifest says, or as
        many as the release.
    weight : str, optional
        The column of survey weights; by default the one that the manifest names, ``""`` for none.
    population : bool
        Widen the intervals by the sampling error of the original, to cover the value in the
        population it was drawn from.

    Returns
    -------
    polars.DataFrame
        A row for each group and term: ``estimate`` (the mean of the copies), ``standard_error``
        (that of an original of the release's size), ``low`` and ``high`` (95 of 100 such intervals
        cover), ``records`` behind it, and a ``note`` where there is no answer.

    Examples
    --------
    >>> import polars as pl
    >>> from tulle import estimate
    >>> estimate(pl.DataFrame({"x": [1.0, 2.0, 3.0, 6.0] * 10}), "mean(x)")["estimate"].to_list()
    [3.0]
    """
    if isinstance(releases, str | os.PathLike):
        releases, kept, height, weights = read_copies(releases)
        ledger = kept if ledger is None else ledger
        records = height if records is None else records
        weight = weights if weight is None else weight
    copies, weight = as_copies(releases), weight or None
    if weight is not None and weight not in copies[0].columns:
        hint = nearest_name(weight, copies[0].columns)
        raise ParameterError(
            f"there is no column '{weight}' of weights: {hint}", parameter="weight"
        )
    asked = parse_question(question, copies[0])
    if ledger is not None:
        _refuse_broken(ledger)
    answers = pooled([answer(asked, copy, weight=weight) for copy in copies])
    _refuse_empty(asked, copies[0], answers)
    scale = 1.0
    if asked.kind == "total" and records is not None and weight is None:
        scale = records / copies[0].height
    sampled = 0.0  # times its variance is that of the original
    if population:
        sampled = 1.0 if records is None else copies[0].height / records
    rows = []
    for key, figure in answers.items():
        factor, note = None, "no error ledger: how far this lies from the original is not known"
        if ledger is not None:
            factor, note = _factor(asked, key, figure, ledger, len(copies), weight)
        error = scale * math.sqrt(figure.variance)
        value = figure.value * scale
        half = None if factor is None else error * math.sqrt(factor**2 + NORMAL**2 * sampled)
        shown = ledger is None or half is not None
        rows.append(
            {
                **dict(zip(asked.by, key.group)),
                "term": key.term,
                "estimate": value if shown else None,
                "standard_error": error if shown else None,
                "low": None if half is None else value - half,
                "high": None if half is None else value + half,
                "records": figure.records,
                "note": note,
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


def _refuse_empty(asked: Question, release: pl.DataFrame, answers: Mapping[Key, Figure]) -> None:
    """Raise for words that no record has, and where there is no number at all."""
    for column, word in unknown_words(asked, release):
        raise ParameterError(
            f"no released record has '{word}' in column '{column}': share({column}) shows what "
            "there is; what too few people hold is not released",
            parameter="question",
        )
    if not answers:
        where = asked.where is not None and not truth(asked.where, Values(release, {}))[0].any()
        why = "columns follow from each other, or tell the classes apart"
        why = "no released record meets the condition" if where else why
        why = why if where or asked.kind in REGRESSIONS else "no released record has a value"
        raise GateError(f"'{asked.text}': {UNANSWERED}: {why}")


def _factor(
    asked: Question,
    key: Key,
    found: Figure,
    ledger: Mapping[str, Any],
    copies: int,
    weight: str | None = None,
) -> tuple[float | None, str]:
    """Look up how many standard errors such estimates are off, or say why that is not known."""
    if ledger.get("weight") != weight:
        measured = ledger.get("weight") or "none"
        return None, f"{UNANSWERED}: its error ledger is of weight {measured}"
    least = max(2 * int(ledger["k"]), LEAST)
    if found.records < least:
        return None, f"{UNANSWERED}: fewer than {least} records behind it"
    if not found.variance > 0:
        return None, f"{UNANSWERED}: all records agree"
    own = ledger["asked"].get(asked.text, {}).get(name_of(key))
    kind = ledger["kinds"].get(asked.kind)
    if own is None and kind is None:
        return None, f"{UNANSWERED}: too few estimates of this kind were measured"
    if own is None:
        names = set().union(*(asked.columns(term) for term in asked.terms))
        named = [kind["columns"].get(name, kind["factor"]) for name in names]
        own = max(named, default=kind["factor"])
    if copies < ledger["copies"]:  # fewer draws than were measured
        own = math.sqrt(own**2 + NORMAL**2 * (1 / copies - 1 / ledger["copies"]))
    if own > MOST:
        return None, f"{UNANSWERED}: such estimates are off by more than {MOST:.0f} standard errors"
    return own, ""


def read_copies(
    path: str | os.PathLike[str],
) -> tuple[list[pl.DataFrame], Mapping[str, Any] | None, int | None, str | None]:
    """Read all copies of a release, its ledger, the original's size, and the weights' column."""
    from tulle.io._statistics_files import FileLabels
    from tulle.io.read import read_table, read_written

    (first, written), ledger = read_written(path), None
    codes: dict[str, Any] = {}
    if isinstance(written, FileLabels):
        codes = {name: own.codes(first[name]) for name, own in written.columns.items()}
    if not has_manifest(path):
        return [without_codes(first, codes)], None, None, None
    manifest, copies, weight = read_manifest(path), [first], None
    for name, entry in manifest.columns.items():
        codes[name] = (*codes.get(name, ()), *entry.get("missing", ()))
        weight = name if entry.get("role") == Role.WEIGHT else weight
    for place, sha256 in named_beside(path, manifest.output).items():
        if ".codebook." in place.name:
            continue
        if not place.is_file() or digest(place) != sha256:
            raise DataError(
                f"{place.name} is not what the manifest of {Path(path).name} names: it is missing "
                "or changed"
            )
        if not place.name.endswith(".ledger.json"):
            copies.append(read_table(place))
        elif place.stat().st_size > _LARGEST:
            raise DataError(f"{place.name} is too large for an error ledger")
        else:
            ledger = read_json(place.read_bytes())
    apart = manifest.counts.get("kept apart as the control", 0)
    records = manifest.source.get("records")
    known = isinstance(records, int) and isinstance(apart, int)
    blank = [without_codes(copy, codes) for copy in copies]
    return blank, ledger, records - apart if known else None, weight


def _refuse_broken(ledger: Mapping[str, Any]) -> None:
    """Raise unless a ledger has the form of this version."""
    try:
        factors = [one for kind in ledger["kinds"].values() for one in kind["columns"].values()]
        factors += [kind["factor"] for kind in ledger["kinds"].values()]
        factors += [one for own in ledger["asked"].values() for one in own.values()]
        good = ledger["format"] == FORMAT and min(ledger["k"], ledger["copies"], *factors) > 0
    except (KeyError, TypeError, AttributeError):
        good = False
    if not good:
        raise DataError("this is not an error ledger of this version of Tulle: make it again")
