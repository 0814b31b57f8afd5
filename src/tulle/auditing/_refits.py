"""Releases made again and again, with a person and without: what the worst case is tried on."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from tulle._attacks.records import chosen
from tulle._attacks.result import AttackResult
from tulle._attacks.worst_case import Releaser, outlier_and_ordinary, worst_case
from tulle._progress import bar
from tulle._random import spawn
from tulle.auditing._tables import align, without_names
from tulle.errors import DataError, ParameterError, PrivacyWarning
from tulle.table._frames import enter

Maker = Callable[[pl.DataFrame, int], pl.DataFrame]  # a table and a seed -> a release of it

FITS = 40  # releases with each target, and as many without
_RECORDS = 400  # in each of them
_LEAST = 60
_FEWEST = 4  # releases: with fewer there is nothing to learn from


def worst_cases(
    table: Any, method: Any, policy: Any, generator: np.random.Generator, *, fits: int = FITS
) -> list[AttackResult]:
    """Try the worst case of a method on the most outlying of some records and an ordinary one.

    Both take each other's place with one of the records that are kept out: plain removal would
    show in the number of rows.
    """
    original, make, fits = enter(table)[0], _maker_of(method), max(fits, _FEWEST)
    draw, attack = spawn(generator, 2)
    original = _one_each(original, policy, draw)
    if original.height < _LEAST:
        raise DataError(
            f"the worst case needs at least {_LEAST} records, there are {original.height}"
        )
    sample = original[chosen(original.height, 2 * _RECORDS, draw)]
    order = draw.permutation(sample.height)
    half = min(_RECORDS, 2 * sample.height // 3)
    base, reserve = sample[order[:half]], sample[order[half:]]
    targets = outlier_and_ordinary(align(base, without_names(base, policy), None, policy).original)
    others = base[[row for row in range(base.height) if row not in targets.values()]]
    people = {who: base[[row]] for who, row in targets.items()}
    with bar("releases", (len(people) + 1) * fits) as advance:

        def made(people: list[pl.DataFrame]) -> list[pl.DataFrame]:
            releases = []
            for person in people:
                table = pl.concat([others, person])
                shuffled = table[draw.permutation(table.height)]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", PrivacyWarning)  # said of the release itself
                    releases.append(make(shuffled, int(draw.integers(2**31))))
                advance(1)
            return releases

        places = draw.integers(reserve.height, size=fits).tolist()
        without = made([reserve[[place]] for place in places])
        found = []
        for (who, person), rng in zip(people.items(), spawn(attack, len(people))):
            whole = pl.concat([others, person])
            shown = without_names(whole, policy)
            mine, theirs = (
                [_release(release, whole, policy) for release in releases]
                for releases in (made([person] * fits), without)
            )
            found.append(worst_case(who, mine, theirs, _release(shown, whole, policy), rng))
    return found


def _one_each(table: pl.DataFrame, policy: Any, rng: np.random.Generator) -> pl.DataFrame:
    """Return one record of each person: how many somebody has would show in the number of rows."""
    records = align(table, without_names(table, policy), None, policy).original
    return table if records.people is None else table[records.sample(len(records), rng)]


def _maker_of(method: Any) -> Maker:
    """Return a function that makes releases: an estimator with new seeds, or the one given."""
    if hasattr(method, "fit_resample"):
        from sklearn.base import clone

        def make(table: pl.DataFrame, seed: int) -> pl.DataFrame:
            return enter(clone(method).set_params(random_state=seed).fit_resample(table))[0]

        return make
    if not callable(method):
        raise ParameterError(
            "The 'worst_case' of audit is a condenser, or a function from a table and a seed to a "
            f"release. Got a {type(method).__name__}."
        )
    return lambda table, seed: enter(method(table, seed))[0]


def _release(release: pl.DataFrame, whole: pl.DataFrame, policy: Any) -> Releaser:
    """Return a release in the codes and units of the records, whose last one is the target."""
    tables = align(whole, release, None, policy)
    return Releaser(tables.release, tables.original.take(np.array([whole.height - 1])))
