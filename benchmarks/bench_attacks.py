"""The review's attacks, made again on the version that it broke and on today's.

``TULLE_DATA=folder TULLE_BEFORE=python python -m benchmarks.bench_attacks [--quick]``

``TULLE_BEFORE`` is the Python of an environment that holds the version of the review (commit
b9a4b15); without it the column of that version stays empty.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from benchmarks.broken_releases import (
    from_leaves,
    measured,
    of_one_secret,
    own_planes,
    survey,
    with_exact_totals,
)
from benchmarks.results import data_folder, write_table
from benchmarks.version_before import VersionBefore
from tulle import Condenser, audit, read_table
from tulle._attacks.membership import membership
from tulle._attacks.reconstruction import affine_hull, exact_values, sums_on_grid
from tulle._attacks.result import Scene
from tulle.auditing._tables import align
from tulle.auditing._worst_case import worst_cases
from tulle.errors import PrivacyError, PrivacyWarning

SEED = 1
Maker = Callable[..., pl.DataFrame]  # a table, and the parameters of a Condenser -> its release


def of_papers(table: pl.DataFrame, **options: Any) -> pl.DataFrame:
    return Condenser(synthesis="uniform", **options).fit_resample(table)


def of_shape(table: pl.DataFrame, **options: Any) -> pl.DataFrame:
    return Condenser(**options).fit_resample(table)


def main(quick: bool = False) -> None:
    folder = data_folder() / "tables"
    tables = {
        name: read_table(folder / f"{name}.csv.gz").sample(fraction=1, shuffle=True, seed=SEED)
        for name in ("wdbc", "adult_train", "german_symbolic", "magic")
    }
    with warnings.catch_warnings(), VersionBefore.started() as before:
        warnings.simplefilter("ignore", PrivacyWarning)  # the papers' synthesis says so itself
        review(tables, before, quick)
        verdicts(quick)


def review(tables: dict[str, pl.DataFrame], before: VersionBefore | None, quick: bool) -> None:
    """Write the table of attacks by what they got in the review, then, and get today."""
    makers = (before.release if before else None, of_papers, of_shape)
    wdbc = tables["wdbc"].select(pl.col(pl.Float64)).unique(maintain_order=True)
    adult, german, magic = (tables[n] for n in ("adult_train", "german_symbolic", "magic"))
    size = 2_000 if quick else 10_000
    attacks: list[tuple[str, str, Callable[[Maker], str]]] = [
        (
            "exact moments, wdbc, k = 5: rows whose group its exact sum names",
            "451 of 569 people computed to the last digit",
            lambda make: exact_moments(wdbc, make),
        ),
        *(
            (
                f"affine hull, wdbc, k = {k}, 15 of 30 columns known: unknown numbers read, of "
                "members / strangers",
                then,
                lambda make, k=k: planes(wdbc, k, make),  # type: ignore[misc]
            )
            for k, then in ((3, "89 % / 22 %"), (5, "62 % / 24 %"))
        ),
        (
            "two releases that differ by one person, Adult, k = 20: people all of whose "
            "categories are read",
            "12 of 12",
            lambda make: newcomers(adult, make, 4 if quick else 12),
        ),
        (
            "worst case, german, k = 20: AUC of an outlier / an ordinary person",
            "1.00 / 0.99 (another table)",
            lambda make: worst(german, make, 8 if quick else 40),
        ),
        (
            "membership by traces, Adult, k = 20: AUC; members named at 1 % false alarms",
            "0.626",
            lambda make: members(adult, make, size),
        ),
        (
            "own numbers in the release, magic, k = 20: of members / strangers",
            "not tried",
            lambda make: numbers(magic, make, 1_000 if quick else 6_000),
        ),
    ]
    write_table(
        "attacks",
        "The review's attacks, then and now",
        ["attack", "figure of the review", "version before", "papers' synthesis today"]
        + ["default (shape) today"],
        [
            [name, told, *("-" if make is None else attack(make) for make in makers)]
            for name, told, attack in attacks
        ],
        notes="The last three columns are measured by the same attacks on the same people; the "
        "version before is the one that the review broke (its default is the papers' synthesis). "
        "The review used its own splits: 12 of 30 columns known at k = 3, nine targets in the "
        "worst case. Two releases: today's papers' synthesis keeps exact totals, and says so; the "
        "default does not. An AUC of 0.5 is chance. The worst case is not a bound: more releases "
        "would tell more. Hidden rules are in `hiding_attacks.md`, files in `attacks_files.md`.",
        seed=SEED,
        quick=quick,
    )


def exact_moments(table: pl.DataFrame, make: Maker) -> str:
    try:
        release = make(table, k=5, exact_moments=True, random_state=SEED)
    except PrivacyError:
        return "refused"
    tables = align(table, release, None, None)
    rng = np.random.default_rng(SEED)
    found = sums_on_grid(tables.numbers(1), tables.release, tables.steps(), rng)
    return "-" if found is None else f"{found.rate:.0%}".replace("%", " %")


def planes(table: pl.DataFrame, k: int, make: Maker) -> str:
    people, strangers = table[:400], table[400:]
    tables = align(people, make(people, k=k, random_state=SEED), strangers, None)
    rng = np.random.default_rng(SEED)
    found = affine_hull(Scene(tables.original, tables.release, tables.control), rng)
    shares = found.details.values() if found is not None else ()
    return " / ".join(f"{share:.0%}".replace("%", " %") for share in shares)


def newcomers(table: pl.DataFrame, make: Maker, times: int) -> str:
    base = table[:1_500]
    words = [name for name in base.columns if base[name].dtype == pl.String]
    read = 0
    for turn in range(times):
        person = table[1_500 + turn]
        before, after = (
            make(part, k=20, random_state=seed)
            for seed, part in ((turn, base), (900 + turn, pl.concat([base, person])))
        )
        read += all(
            _difference(before[name], after[name]) == {person[name][0]: 1} for name in words
        )
    return f"{read} of {times}"


def _difference(before: pl.Series, after: pl.Series) -> dict[Any, int]:
    old, new = (dict(part.value_counts().iter_rows()) for part in (before, after))
    changed = {value: new.get(value, 0) - old.get(value, 0) for value in {**old, **new}}
    return {value: count for value, count in changed.items() if count}


def worst(table: pl.DataFrame, make: Maker, fits: int) -> str:
    rng = np.random.default_rng(SEED)

    def method(people: pl.DataFrame, seed: int) -> pl.DataFrame:
        return make(people, k=20, random_state=seed)

    found = worst_cases(table, method, None, rng, fits=fits)
    return " / ".join(f"{result.details['area under the curve']:.2f}" for result in found)


def members(table: pl.DataFrame, make: Maker, count: int) -> str:
    people, strangers = table[:count], table[count : 2 * count]
    tables = align(people, make(people, k=20, random_state=SEED), strangers, None)
    assert tables.control is not None
    rng = np.random.default_rng(SEED)
    found = membership(Scene(tables.original, tables.release, tables.control), rng).details
    return f"{found['membership_auc']:.3f}; {found['membership_at_1_percent']:.1%}"


def numbers(table: pl.DataFrame, make: Maker, count: int) -> str:
    people, strangers = table[:count], table[count : 2 * count]
    tables = align(people, make(people, k=20, random_state=SEED), strangers, None)
    original, released, outside = (tables.numbers(place) for place in range(3))
    rng = np.random.default_rng(SEED)
    found = exact_values(original, released, tables.steps(), rng, control=outside)
    return "-" if found is None else f"{found.rate:.1%} / {found.control or 0:.1%}"


# The audit on releases that are broken on purpose.


def verdicts(quick: bool) -> None:
    """Write the table of what the audit says of each broken release."""
    rng = np.random.default_rng(SEED)
    count = 200 if quick else 400
    people, strangers = measured(rng, count, 20), measured(rng, count, 20)
    answers = survey(rng, count)
    shared = of_one_secret(rng, count // 10, 10)
    broken: dict[str, Callable[[], Any]] = {
        "exact sums, groups of 5, no control": lambda: audit(
            people, own_planes(people, 5, rng, exact=True), random_state=SEED
        ),
        "planes of groups of 3": lambda: audit(
            people, own_planes(people, 3, rng), strangers, random_state=SEED
        ),
        "planes of groups of 5": lambda: audit(
            people, own_planes(people, 5, rng), strangers, random_state=SEED
        ),
        "numbers drawn from leaves of 20 (plain CART)": lambda: audit(
            people, from_leaves(people, 20, rng), strangers, random_state=SEED
        ),
        "exact totals, one person more than before": lambda: audit(
            answers,
            with_exact_totals(answers, rng),
            earlier=with_exact_totals(answers[1:], rng),
            random_state=SEED,
        ),
        "groups of 10 that share a secret": lambda: audit(*shared, random_state=SEED),
        "the default, k = 10": lambda: audit(
            people, Condenser(k=10, random_state=SEED).fit_resample(people), strangers,
            random_state=SEED,
        ),
    }  # fmt: skip
    rows = []
    for name, make in broken.items():
        found = make().verdict["privacy"]
        rows.append([name, found["level"], found["reason"]])
    write_table(
        "attacks_verdicts",
        "What the audit says of releases that are broken on purpose",
        ["release", "verdict", "first reason"],
        rows,
        seed=SEED,
        quick=quick,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    main(parser.parse_args().quick)
