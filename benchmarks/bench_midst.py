"""Membership in released transactions, on the target sets of the MIDST challenge (SaTML 2025).

``TULLE_DATA=folder python -m benchmarks.bench_midst [--quick] [--tables transactions,accounts]
[--k 5,10,20] [--seeds 0,1,2] [--fits 256] [--options JSON] [--label NAME]
[--only distances curve]``

Each target set is 20,000 transactions of one bank; the attacker holds the release and the
transactions of the other sets, and names those of 300 members and 300 strangers (the challenge's
own 200 among them) who were in. Three distance attacks need nothing else. The ensemble is of the
winners' kind: Gower distances, density ratios (DOMIAS) and a classifier, each compared with what
shadow releases with and without the same candidate show (RMIA, likelihood ratios), put together by
a model that learnt on the shadows. A release takes a second, so the attacker can have many: how
the success grows with their number is the curve, of the first target set. Victims are that set's
release and the last of the shadows, each attacked by the others: half of the candidates were in it
by lot, and many of those say to the third decimal what an attack finds. What shadows show is kept
in ``TULLE_SHADOWS`` (default: ``tulle-midst`` in the folder for temporary files): a run that
is stopped goes on, and one with more ``--fits`` begins with those that are there. Empty it when the
library has changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.judged_measures import as_numbers, classified, margins
from benchmarks.judged_tables import (
    cell,
    options,
    ranged,
    released,
    rows_of,
    say,
    warm,
    write_versions,
)
from benchmarks.results import RESULTS, as_table, data_folder, run_parts, save_chart
from tulle import Column, Kind

NUMBERS = ("trans_date", "amount", "balance", "account")
TEXTS = ("trans_type", "operation", "k_symbol", "bank")
PERSON = "account_id"
ASKED, REFERENCE = 300, 200  # of each kind, and never-members that the attacker compares with
FEW = 10_000  # rows of each side that the classifier and the margins see
DISTANCES = {"nearest": 0, "nearest over the attacker's own": 1, "ten nearest over them": 3}
WAYS = {"transactions": False, "accounts": True}
CURVE = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
ENSEMBLE_K = 10
LEARNT = 64  # shadow releases that the model learns on; all of them are compared with
VICTIMS = 64  # shadow releases that are attacked by the others
PUBLISHED = (  # share of members named at 10 % false alarms
    ["one table, release only", "TabDDPM, TabSyn", "25 %, 22 %"],
    ["one table, model known", "TabDDPM, TabSyn", "46 %, 39 %"],
    ["several tables, release only", "ClavaDDPM", "23 %, 20 %"],
    ["several tables, model known", "ClavaDDPM", "35 %"],
)
SOURCE = "docs/index.md of VectorInstitute/MIDST on GitHub"
NAMED = ("the set's release", "nothing to find there", "releases by lot", "nothing to find in them")


class Target(NamedTuple):
    """A training set, whom the attacker asks about, who of them was in, and all other people."""

    training: pd.DataFrame
    asked: pd.DataFrame
    truth: np.ndarray
    population: pd.DataFrame


def main(quick: bool = False) -> None:
    run_parts({"distances": distances, "curve": curve})


def distances(quick: bool) -> None:
    """Attack releases of each k by distances, on all target sets."""
    asked = options(WAYS, seeds=(0,) if quick else (0, 1, 2), k=(10,) if quick else (5, 10, 20))
    sets = seen_targets(quick, asked.rows)
    rows = [["the training set itself", "", *copied(sets), ""]]
    for way in asked.tables:
        for k in asked.k:
            cells = Attack(k, WAYS[way], asked.options).by_distance(sets, asked.seeds)
            rows.append([way, k, *cells])
    write_versions(
        "midst",
        "MIDST: members named among transactions, at 10 % false alarms",
        ["people are", "k", *DISTANCES, "CPU s"],
        rows,
        asked.label,
        quick,
        keys=2,
        notes="Share of members above 90 % of the strangers (chance: 0.10), mean over the target "
        "sets; means over seeds with the smallest and the largest. People are transactions, or "
        "accounts (`account_id` has the role person). CPU: of a release of 20,000 transactions. "
        "What an ensemble with shadow releases finds: [midst_curve](midst_curve.md).\n\n"
        f"Published winners against other generators ({SOURCE}; other target sets of the same "
        "bank):\n\n" + as_table(["track", "generators", "first, second"], PUBLISHED),
        seed=asked.seeds[0],
    )


def curve(quick: bool) -> None:
    """Attack releases of the first target set by the ensemble, with more and more shadows."""
    asked = options(WAYS, seeds=(0,) if quick else (0, 1, 2), k=(ENSEMBLE_K,))
    shadows = asked.fits or (6 if quick else 256)
    (one,) = seen_targets(quick, asked.rows)[:1]
    rows = []
    for way in asked.tables:
        for k in asked.k:
            attack = Attack(k, WAYS[way], asked.options)
            found = attack.by_ensemble(*one, asked.seeds, shadows)
            rows += [[way, k, size, *cells] for size, cells in found.items()]
    write_versions(
        "midst_curve",
        "MIDST: members named by the ensemble, by the number of shadow releases",
        ["people are", "k", "shadow releases", *NAMED],
        rows,
        asked.label,
        quick,
        keys=3,
        notes="One of the target sets, as in [midst](midst.md); share of the members named at 10 % "
        f"false alarms. The set's release: mean of {len(asked.seeds)} seeds with the smallest and "
        "the largest; of 300 members and 300 strangers a share has a standard error of 0.02, and "
        "the seeds share their shadows. Nothing to find there: the same attack on releases of "
        "which nobody asked about was part. Releases by lot: the same attack on "
        f"{VICTIMS} releases of the attacker's transactions, in which half of the 600 were by lot: "
        "the last of the shadows, each attacked without itself and by a model that learnt on none "
        "of them; mean with the 95 % interval over releases. Nothing to find in them: the same "
        "scores, asked who was in another of these releases.",
        seed=asked.seeds[0],
    )
    if not quick:
        save_chart("midst", chart())


def seen_targets(quick: bool, rows: int | None) -> list[tuple[Target, Sight]]:
    warm()
    few = targets(rows or (2000 if quick else None), 60 if quick else ASKED)
    return [(target, Sight(target)) for target in few]


def chart() -> Any:
    """Draw success against the number of shadow releases, with its range as a band."""
    import altair as alt

    points = [
        {"who": who, "releases": int(size), "people": f"people are {way}"}
        | dict(zip(("mean", "low", "high"), numbers(cell)))
        for _, way, k, size, *cells in rows_of((RESULTS / "midst_curve.md").read_text())
        for who, cell in zip(NAMED, cells)
        if int(k) == ENSEMBLE_K
    ]
    colours = ["#e8871e", "#c9c9c9", "#b03a2e", "#7f7f7f"]
    base = alt.Chart(pd.DataFrame(points)).encode(
        x=alt.X("releases:Q", title="shadow releases of the attacker").scale(type="log", base=2),
        color=alt.Color("who:N", title=None, sort=NAMED)
        .scale(domain=NAMED, range=colours)
        .legend(orient="top", columns=2, labelLimit=300),
    )
    share = alt.Y("mean:Q", title="members named at 10 % false alarms").axis(format="%")
    line = base.mark_line(point=True).encode(y=share.scale(domain=[0, 0.3]))
    band = base.mark_area(opacity=0.2).encode(y="low:Q", y2="high:Q")
    winner = alt.Chart().transform_aggregate(n="count()", groupby=["people"])
    winner = winner.encode(y=alt.datum(0.25))
    rule = winner.mark_rule(strokeDash=[4, 4], color="#4c78a8")
    text = winner.mark_text(align="left", dy=-7, x=4, color="#4c78a8").encode(
        text=alt.datum("published winner against TabDDPM and TabSyn")
    )
    drawn = alt.layer(band, line, rule, text, data=pd.DataFrame(points))
    return drawn.properties(width=420, height=280).facet(alt.Facet("people:N", title=None))


def numbers(cell: str) -> list[float]:
    """Return mean, smallest and largest of a cell; one value is all three."""
    found = [float(number) for number in re.findall(r"-?[0-9.]+", cell)]
    return found if len(found) == 3 else found * 3


# -- people ----------------------------------------------------------------------------------------


def targets(rows: int | None, count: int) -> Iterator[Target]:
    """Yield the target sets that there are; every other set is the attacker's."""
    folder = data_folder() / "yardsticks" / "midst"
    sets = {
        path.name.split("_")[0]: pd.read_csv(path)
        for path in sorted(folder.glob("model*_train_with_id.csv.gz"))
    }
    for name, training in sets.items():
        challenge = pd.read_csv(folder / f"{name}_challenge_with_id.csv.gz")
        inside = pd.read_csv(folder / f"{name}_challenge_label.csv.gz").iloc[:, 0].to_numpy() == 1
        if rows:
            kept = training.trans_id.isin(challenge.trans_id)
            training = pd.concat([training[kept], training[~kept].head(rows)])
        own = pd.concat([challenge[inside], training.sample(frac=1, random_state=0)])
        others = pd.concat([part for other, part in sets.items() if other != name])
        others = others[~others.trans_id.isin(training.trans_id)].sample(frac=1, random_state=0)
        strangers = pd.concat([challenge[~inside], others])
        own, strangers = (part.drop_duplicates("trans_id")[:count] for part in (own, strangers))
        asked = pd.concat([own, strangers], ignore_index=True)
        population = others[~others.trans_id.isin(asked.trans_id)].drop_duplicates("trans_id")
        yield Target(training, asked, np.arange(2 * count) < count, population)


# -- what an attacker sees -------------------------------------------------------------------------


class Sight:
    """What of each candidate shows in a release, next to the attacker's own transactions."""

    def __init__(self, target: Target) -> None:
        own = target.population.sample(frac=1, random_state=1)
        never, own = own[:REFERENCE], own[REFERENCE:]
        self.never = never.trans_id
        self.own = own[: len(target.training)]
        self.asked = pd.concat([target.asked, never])
        self.known = {name: np.sort(self.own[name].to_numpy(float)) for name in NUMBERS}
        self.usual = self._near(self.own)

    def signals(self, made: pd.DataFrame, seed: int, deep: bool = True) -> np.ndarray:
        """Return signals that are larger for members: distances, and with ``deep`` densities."""
        near = self._near(made)
        found = [-near[:, 0], *(self.usual - near)[:, [0, 1, 2]].T]
        if deep:
            names = [*NUMBERS, *TEXTS]
            few = [table[names].astype(float)[:FEW] for table in (self.asked, made, self.own)]
            for text in TEXTS:
                for table in few:
                    table[text] = table[text].astype(int).astype(str)
            (asked, here, there), numeric = as_numbers(few)
            found += [classified(here, there, asked), margins(here, there, asked, numeric, 0)]
        luck = np.random.default_rng(seed).random((len(self.asked), len(found)))
        return np.column_stack(found) + 1e-9 * luck

    def _near(self, table: pd.DataFrame) -> np.ndarray:
        """Return the logs of Gower's distance to the nearest, to five and to ten of a table."""
        far = np.zeros((len(self.asked), len(table)), dtype=np.float32)
        for name in NUMBERS:
            one, two = (self._ranks(t[name], name) for t in (self.asked, table))
            far += np.abs(one[:, None] - two)
        for name in TEXTS:
            far += self.asked[name].to_numpy()[:, None] != table[name].to_numpy()
        ends = np.sort(np.partition(far, 9, axis=1)[:, :10], axis=1)
        return np.log(np.column_stack([ends[:, :n].mean(axis=1) for n in (1, 5, 10)]) + 1e-3)

    def _ranks(self, column: pd.Series, name: str) -> np.ndarray:
        known, values = self.known[name], column.to_numpy(float)
        sides = [np.searchsorted(known, values, side) for side in ("left", "right")]
        return ((sides[0] + sides[1]) / 2 / len(known)).astype(np.float32)


# -- attacks ---------------------------------------------------------------------------------------


class Attack:
    """Releases of one kind, attacked."""

    def __init__(self, k: int, by_person: bool, more: dict[str, Any]) -> None:
        self.k, self.by_person, self.more = k, by_person, more

    def release(self, rows: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, float]:
        kinds: dict[str, Any] = {name: Column(name, Kind.CATEGORY) for name in TEXTS}
        names = [*NUMBERS, *TEXTS]
        if self.by_person:
            kinds[PERSON] = "person"
            names = [PERSON, *names]
        rows = rows[names].sample(frac=1, random_state=seed).reset_index(drop=True)
        return released(rows, self.k, seed, columns=kinds, **self.more)

    def by_distance(self, sets: list[tuple[Target, Sight]], seeds: list[int]) -> list[str]:
        """Return a cell for each distance attack, and the CPU seconds of a release."""
        found, cpu = [], []
        for seed in seeds:
            shares = []
            for target, sight in sets:
                made, seconds = self.release(target.training, seed)
                cpu.append(seconds)
                shares.append(by_each(sight.signals(made, seed, deep=False), target.truth))
            found.append(np.mean(shares, axis=0))
            say(self.k, self.by_person, seed, found[-1].round(3))
        return [*(ranged(values) for values in np.transpose(found).tolist()), ranged(cpu)]

    def by_ensemble(
        self, target: Target, sight: Sight, seeds: list[int], shadows: int
    ) -> dict[int, list[str]]:
        """Return by the number of shadow releases the shares that are named, and their nulls."""
        seen, inside = self.learn(target, sight, shadows)
        victims = range(max(shadows - VICTIMS, shadows // 2), shadows)
        made = [self.release(target.training, seed)[0] for seed in seeds]
        absent = [
            self.release(self._shadow(target, sight, 10**6 + seed, None), seed)[0] for seed in seeds
        ]
        known, nobody = ([sight.signals(*one) for one in zip(t, seeds)] for t in (made, absent))
        found = {}
        for size in [*(size for size in CURVE if size < shadows), shadows]:
            score = ensemble(seen[:size], inside[:size], min(size, LEARNT, victims[0]))
            shares = [[caught(score(one), target.truth) for one in t] for t in (known, nobody)]
            lots = [score(seen[at], inside[at] if at < size else None) for at in victims]
            for shift in (0, 1):  # the second: who was in another of these releases
                chosen = inside[np.roll(victims, shift)]
                shares.append([caught(*one) for one in zip(lots, chosen)])
            found[size] = [*map(ranged, shares[:2]), *map(with_interval, shares[2:])]
            say(self.k, self.by_person, size, found[size])
        return found

    def learn(self, target: Target, sight: Sight, shadows: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the signals of all candidates in shadow releases, and who was in which."""
        rng = np.random.default_rng(7)
        inside = rng.random((shadows, len(target.asked))) < 0.5
        seen = []
        kept = self._kept(target)
        for shadow, chosen in enumerate(inside):
            place = kept / f"{shadow}.npy"
            if not place.exists():
                people = self._shadow(target, sight, shadow, chosen)
                found = sight.signals(self.release(people, 100 + shadow)[0], shadow)
                with place.with_suffix(".part").open("wb") as part:
                    np.save(part, found)
                place.with_suffix(".part").rename(place)
            seen.append(np.load(place))
        return np.array(seen), inside

    def _kept(self, target: Target) -> Path:
        """Return the folder of what shadows of this kind and target have shown."""
        given = os.environ.get("TULLE_SHADOWS")
        folder = Path(given or Path(tempfile.gettempdir()) / "tulle-midst")
        people = pd.util.hash_pandas_object(target.asked.trans_id).to_numpy().tobytes()
        what = f"{self.k} {self.by_person} {self.more} {len(target.training)}".encode()
        place = folder / hashlib.sha256(people + what).hexdigest()[:16]
        place.mkdir(parents=True, exist_ok=True)
        return place

    def _shadow(self, target: Target, sight: Sight, seed: int, chosen: Any) -> pd.DataFrame:
        """Return as many of the attacker's transactions as were released, some candidates in."""
        inside = target.asked[:0] if chosen is None else target.asked[chosen]
        own = target.population[~target.population.trans_id.isin(sight.never)]
        own = own.sample(min(len(target.training) - len(inside), len(own)), random_state=seed)
        return pd.concat([own, inside])


def ensemble(
    seen: np.ndarray, inside: np.ndarray, learnt: int = LEARNT
) -> Callable[..., np.ndarray]:
    """Learn on the first shadow releases how signals tell who is in; all are compared with."""
    sums = Sums(seen, inside)
    first = range(min(len(seen), learnt))
    X = np.concatenate([sums.features(seen[at], inside[at]) for at in first])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500))
    model.fit(X, inside[: len(first)].ravel())
    return lambda *signals: model.decision_function(sums.features(*signals))


class Sums:
    """What shadow releases show together, so that one of them can be compared with the others."""

    def __init__(self, seen: np.ndarray, inside: np.ndarray) -> None:
        self.releases, self.total = len(seen), seen.sum(axis=0)
        own = seen[:, : inside.shape[1]]
        sides = [side[:, :, None].astype(float) for side in (~inside, inside)]
        self.sides = [
            (side.sum(axis=0), (side * own).sum(axis=0), (side * own**2).sum(axis=0))
            for side in sides
        ]

    def features(self, signals: np.ndarray, chosen: np.ndarray | None = None) -> np.ndarray:
        """Return signals, their ratios to the shadows' (RMIA) and likelihood ratios of in and out.

        ``chosen`` says who was in a shadow release, which is compared with the others.
        """
        shadow, count = chosen is not None, len(self.sides[0][0])
        centred = signals - (self.total - shadow * signals) / (self.releases - shadow)
        own, never = centred[:count], np.sort(centred[count:], axis=0)
        ranks = np.column_stack(
            [np.searchsorted(never[:, n], own[:, n]) / len(never) for n in range(own.shape[1])]
        )
        here, means, spreads = signals[:count], [], []
        for inside, (number, first, second) in zip((False, True), self.sides):
            less = (chosen == inside)[:, None] if shadow else np.zeros((count, 1))
            left = np.maximum(number - less, 1)
            means.append((first - less * here) / left)
            spreads.append((second - less * here**2) / left - means[-1] ** 2)
        spread = np.maximum(sum(spreads).mean(axis=0) / 2, 0) + 1e-6  # one for all candidates
        likelier = [-((here - mean) ** 2) / (2 * spread) for mean in means]
        return np.hstack([here, own, ranks, likelier[1] - likelier[0]])


def copied(sets: list[tuple[Target, Sight]]) -> list[str]:
    """Return the cells of a release that is the training set: the attacks must find everybody."""
    shares = [
        by_each(sight.signals(target.training, 0, deep=False), target.truth)
        for target, sight in sets
    ]
    return [ranged([share]) for share in np.mean(shares, axis=0).tolist()]


def by_each(signals: np.ndarray, truth: np.ndarray) -> list[float]:
    return [caught(signals[: len(truth), at], truth) for at in DISTANCES.values()]


def caught(score: np.ndarray, truth: np.ndarray) -> float:
    """Return the share of members whose score is above that of 90 % of the strangers."""
    return float((score[truth] > np.quantile(score[~truth], 0.9)).mean())


def with_interval(shares: list[float]) -> str:
    """Return the mean of shares with its 95 % interval."""
    mean, away = float(np.mean(shares)), 1.96 * float(np.std(shares)) / len(shares) ** 0.5
    return f"{cell(mean)} ({cell(mean - away)} to {cell(mean + away)})"


if __name__ == "__main__":
    main("--quick" in sys.argv)
