"""The review's attacks, made again: what they got then, and what they get today."""

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
from tulle import Condenser, audit, read_table
from tulle._attacks.membership import membership
from tulle._attacks.planes import affine_hull
from tulle._attacks.values import exact_values
from tulle.auditing._refits import worst_cases
from tulle.auditing._tables import align
from tulle.errors import PrivacyError, PrivacyWarning

SEED = 1
PAPERS, SHAPE = "uniform", "shape"


def main(quick: bool = False) -> None:
    folder = data_folder() / "tables"
    tables = {
        name: read_table(folder / f"{name}.csv.gz").sample(fraction=1, shuffle=True, seed=SEED)
        for name in ("wdbc", "adult_train", "german_symbolic", "magic")
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # the papers' synthesis says so itself
        review(tables, quick)
        verdicts(quick)


def review(tables: dict[str, pl.DataFrame], quick: bool) -> None:
    """Write the table of attacks by what they got in the review, and get today."""
    wdbc = tables["wdbc"].select(pl.col(pl.Float64))
    rows = [
        [
            "exact moments, wdbc, k = 5: originals computed to the last digit",
            "451 of 569 people",
            exact_moments(wdbc),
            "not applicable",
        ],
        *(
            [
                f"affine hull, wdbc, k = {k}, 15 of 30 columns known: unknown numbers read, of "
                "members / strangers",
                then,
                *(planes(wdbc, k, synthesis) for synthesis in (PAPERS, SHAPE)),
            ]
            for k, then in ((3, "89 % / 22 %"), (5, "62 % / 24 %"))
        ),
        [
            "two releases that differ by one person, Adult, k = 20: people all of whose "
            "categories are read",
            "12 of 12",
            *(
                newcomers(tables["adult_train"], synthesis, 4 if quick else 12)
                for synthesis in (PAPERS, SHAPE)
            ),
        ],
        [
            "worst case, german, k = 20: AUC of an outlier / an ordinary person",
            "1.00 / 0.99",
            *(
                worst(tables["german_symbolic"], synthesis, 8 if quick else 40)
                for synthesis in (PAPERS, SHAPE)
            ),
        ],
        [
            "membership by the best score, Adult, k = 20: AUC; members named at 1 % false alarms",
            "0.626",
            *(
                members(tables["adult_train"], synthesis, 2_000 if quick else 10_000)
                for synthesis in (PAPERS, SHAPE)
            ),
        ],
        [
            "own numbers in the release, magic, k = 20: of members / strangers",
            "AUC 0.50 (plain CART 0.97)",
            *(
                numbers(tables["magic"], synthesis, 1_000 if quick else 6_000)
                for synthesis in (PAPERS, SHAPE)
            ),
        ],
    ]
    write_table(
        "attacks",
        "The review's attacks, then and now",
        ["attack", "review", "papers' synthesis today", "default (shape) today"],
        rows,
        notes="Figures of the review are those of its report, on the code of that time (and on "
        "splits of its own: 12 of 30 columns known at k = 3; its worst case on nine targets). An "
        "AUC of 0.5 is chance. The worst case is not a bound: more releases would tell more.",
        seed=SEED,
        quick=quick,
    )


def exact_moments(table: pl.DataFrame) -> str:
    try:
        Condenser(k=5, exact_moments=True, random_state=SEED).fit(table)
    except PrivacyError:
        return "refused"
    return "released"


def planes(table: pl.DataFrame, k: int, synthesis: str) -> str:
    people, strangers = table[:400], table[400:]
    release = Condenser(k=k, synthesis=synthesis, random_state=SEED).fit_resample(people)
    tables = align(people, release, strangers, None)
    rng = np.random.default_rng(SEED)
    found = affine_hull(tables.original, tables.release, rng, control=tables.control)
    shares = found.details.values() if found is not None else ()
    return " / ".join(f"{share:.0%}".replace("%", " %") for share in shares)


def newcomers(table: pl.DataFrame, synthesis: str, times: int) -> str:
    base = table[:1_500]
    words = [name for name in base.columns if base[name].dtype == pl.String]
    read = 0
    for turn in range(times):
        person = table[1_500 + turn]
        before, after = (
            Condenser(k=20, synthesis=synthesis, random_state=seed).fit_resample(part)
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


def worst(table: pl.DataFrame, synthesis: str, fits: int) -> str:
    rng = np.random.default_rng(SEED)
    condenser = Condenser(k=20, synthesis=synthesis)
    found = worst_cases(table, condenser, None, rng, fits=fits)
    return " / ".join(f"{result.details['area under the curve']:.2f}" for result in found)


def members(table: pl.DataFrame, synthesis: str, count: int) -> str:
    people, strangers = table[:count], table[count : 2 * count]
    release = Condenser(k=20, synthesis=synthesis, random_state=SEED).fit_resample(people)
    tables = align(people, release, strangers, None)
    assert tables.control is not None
    rng = np.random.default_rng(SEED)
    found = membership(tables.original, tables.release, tables.control, rng).details
    return f"{found['membership_auc']:.3f}; {found['membership_at_1_percent']:.1%}"


def numbers(table: pl.DataFrame, synthesis: str, count: int) -> str:
    people, strangers = table[:count], table[count : 2 * count]
    release = Condenser(k=20, synthesis=synthesis, random_state=SEED).fit_resample(people)
    tables = align(people, release, strangers, None)
    original, released, outside = (tables.numbers(place) for place in range(3))
    rng = np.random.default_rng(SEED)
    found = exact_values(original, released, tables.last_decimals(), rng, control=outside)
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
