"""Verdicts on releases of which everybody knows what they are: bad, fair and good.

Each table gives its people, a control, and other people of the same kind. The releases are made in
a way that settles what a verdict has to say: a copy, a part of the copy and a resample hold real
records; other people are as useful as data can be and tell nothing about those in the data; columns
that are shuffled each on its own still show everybody's own numbers, those of large groups do not
and are useless. What condensation makes lies in between,
and nothing but the size of groups is known of it beforehand: tiny groups must not be called good.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from benchmarks.results import data_folder, write_table
from tulle import Condenser, audit

SEED = 0
TABLES = {  # and the target, if there is one
    "adult_train": "class",
    "magic": None,
    "waveform_noise": None,
    "abalone": None,
    "german_symbolic": None,
    "wdbc": None,
}
MOST = 3000  # people, control and others: the whole takes a quarter of an hour

Release = Callable[[pl.DataFrame, pl.DataFrame, np.random.Generator], pl.DataFrame]


def noisy(people: pl.DataFrame, _: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """A thousandth of a standard deviation on every number; whole numbers stay whole."""
    made = []
    for series in people:
        if series.dtype.is_numeric():
            moved = series + pl.Series(rng.normal(0, 0.001, len(series))) * series.std()
            whole = series.dtype.is_integer()
            series = moved.round().cast(series.dtype) if whole else moved
        made.append(series)
    return pl.DataFrame(made)


def shuffled(people: pl.DataFrame, _: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    return pl.DataFrame([series.gather(rng.permutation(len(series))) for series in people])


def scattered(people: pl.DataFrame, others: pl.DataFrame, rng: np.random.Generator) -> Any:
    """Columns of large groups, each shuffled: nobody's values, and nothing between columns."""
    return shuffled(groups(100)(people, others, rng), others, rng)


def taken(people: pl.DataFrame, rng: np.random.Generator, share: float, again: bool) -> Any:
    count = round(share * people.height)
    return people[rng.choice(people.height, count, replace=again).tolist()]


def held(count: int, *, outlying: bool = False) -> Release:
    """Groups of 20, in which so many people's own records stand in for as many others."""

    def release(people: pl.DataFrame, others: pl.DataFrame, rng: np.random.Generator) -> Any:
        made = groups(20)(people, others, rng)
        rows = farthest(people)[:count] if outlying else rng.permutation(people.height)[:count]
        own = people[rows.tolist()].with_columns(
            pl.col(n).cast(made[n].dtype) for n in made.columns
        )
        return pl.concat([made[: max(0, made.height - count)], own.select(made.columns)])

    return release


def farthest(people: pl.DataFrame) -> np.ndarray:
    """Rows by how far the fifth nearest person is, by numbers; the farthest first."""
    from scipy.spatial import cKDTree

    numbers = people.select(cs.numeric().fill_null(strategy="mean")).to_numpy().astype(float)
    scaled = (numbers - numbers.mean(axis=0)) / (numbers.std(axis=0) + 1e-9)
    return np.argsort(-cKDTree(scaled).query(scaled, 6)[0][:, -1])


def mirrored(people: pl.DataFrame, _: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Everybody's record in a simple cipher: numbers mirrored, categories renamed."""
    made = []
    for series in people:
        if series.dtype.is_numeric():
            series = (series.max() + series.min()) - series  # type: ignore[operator]
        else:
            known = series.drop_nulls().unique().sort()
            series = series.replace(known, known.gather(rng.permutation(len(known))))
        made.append(series)
    return pl.DataFrame(made)


def one_person(people: pl.DataFrame, *_: Any) -> pl.DataFrame:
    return people[[int(farthest(people)[0])] * people.height]


def groups(k: int) -> Release:
    def release(people: pl.DataFrame, _: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made: pl.DataFrame = Condenser(k, random_state=rng).fit_resample(people)
        return made

    return release


RELEASES: dict[str, tuple[Release, str, str]] = {  # release, allowed for privacy, for use
    "copy": (lambda p, o, rng: p, "bad", "good"),
    "half of the records": (lambda p, o, rng: taken(p, rng, 0.5, False), "bad", "good caution"),
    "resample": (lambda p, o, rng: taken(p, rng, 1, True), "bad", "good caution"),
    # whole numbers move off what many share: of those who earned nothing hardly anybody is left
    "noise of 0.001": (noisy, "bad", "good caution bad"),
    "groups of 2": (groups(2), "bad caution undecided", "good caution"),
    "groups of 5": (groups(5), "bad caution undecided good", "good caution"),
    "groups of 20": (groups(20), "caution undecided good", "good caution"),
    "groups of 100": (groups(100), "caution undecided good", "good caution bad"),
    "other people": (lambda p, o, rng: o, "good undecided", "good caution"),
    "columns shuffled": (shuffled, "bad caution", "bad caution"),
    "groups of 100, shuffled": (scattered, "undecided", "bad"),
    # the review's (attacks on known bad releases): single people in clear, and ciphers
    "groups of 20 + 30 people": (held(30), "bad caution", "good caution bad"),
    "groups of 20 + 60 people": (held(60), "bad caution", "good caution bad"),
    "groups of 20 + 10 outliers": (held(10, outlying=True), "bad caution", "good caution bad"),
    "5 % of the records": (lambda p, o, rng: taken(p, rng, 0.05, False), "bad", "good caution bad"),
    "everybody, in a cipher": (mirrored, "bad caution undecided", "bad caution"),
    "one person, again and again": (one_person, "bad caution undecided", "bad"),
}


def parts(name: str, quick: bool) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """People, control and other people: two, one and two fifths of a table."""
    table = pl.read_csv(data_folder() / "tables" / f"{name}.csv.gz", null_values="?")
    most = min(table.height, 1500 if quick else MOST)
    table = table.sample(most, seed=SEED, shuffle=True)
    cut = 2 * most // 5
    return table[:cut], table[2 * cut :], table[cut : 2 * cut]


def judged(name: str, target: str | None, quick: bool) -> list[list[str]]:
    """Rows of one table: each release, its verdict, and whether that is as it must be."""
    rows = []
    people, control, others = parts(name, quick)
    for what, (make, privacy, use) in RELEASES.items():
        release = make(people, others, np.random.default_rng(SEED))
        found = audit(people, release, control=control, target=target, random_state=SEED)
        if what.startswith("groups of "):
            size = int(what.split()[2].strip(","))
            found = found.extended(smallest_group=size)
        verdict = found.verdict
        levels = verdict["privacy"]["level"], verdict["use"]["level"]
        fits = levels[0] in privacy.split() and levels[1] in use.split()
        worst = max(found.result["attacks"].values(), key=lambda attack: attack["risk"])
        rows.append(
            [
                f"{name} ({people.height:,} + {control.height:,})",
                what,
                *levels,
                f"{worst['name']} {worst['risk']:.3f}",
                "yes" if fits else "**no**",
            ]
        )
    return rows


def main(quick: bool) -> None:
    report([row for name, target in TABLES.items() for row in judged(name, target, quick)], quick)


def report(rows: list[list[str]], quick: bool) -> None:
    wrong = sum(row[-1] != "yes" for row in rows)
    write_table(
        "verdicts",
        "Verdicts on releases that are known to be bad, fair and good",
        [
            "table (people + control)",
            "release",
            "privacy",
            "use",
            "largest excess",
            "as it must be",
        ],
        rows,
        notes=f"{len(rows) - wrong} of {len(rows)} are as they must be. A copy, half of it, a "
        "resample and a thousandth of noise must be bad; so must shuffled columns, "
        "which still hold everybody's own numbers. Ten, thirty or sixty people's own records among "
        "others must not be good, a twentieth of the records alone must be bad. Other people and "
        "shuffled columns of large groups must not be bad or notable; what is useless (the latter, "
        "a cipher, one person again and again) must not be good. 'undecided' is right where the "
        "control is too small to rule a leak out.",
        seed=SEED,
        quick=quick,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
