"""The survey's older techniques on the frontier of risk and use, next to condensation.

``TULLE_DATA=folder python -m benchmarks.bench_baselines [--quick]``.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import polars as pl
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.results import data_folder, save_chart, timed, write_table
from tulle import Condenser, PrivacyWarning, audit, generalize, randomize, rotate
from tulle.baselines.rotate import turned_back
from tulle.table._encoder import TableEncoder
from tulle.table.schema import Column, Kind, Role

SEED = 0
TABLES = {
    "Adult": ("adult_train", "class"),
    "Pima": ("pima", None),
    "German": ("german_symbolic", None),
}
RECORDS = 3_000
KS = (5, 20, 100)
DEMANDS: dict[str, dict[str, Any]] = {
    "2-diverse": {"diversity": 2},
    "0.2-close": {"closeness": 0.2},
}
TURNS = ((None, 0.0), (None, 0.5), (0.5, 0.0))  # share of the dimensions, noise
NOISES = ((0.1, 0.95), (0.3, 0.8), (1.0, 0.5))


def load(name: str, quick: bool) -> tuple[pl.DataFrame, str]:
    file, target = TABLES[name]
    table = pl.read_csv(data_folder() / "tables" / f"{file}.csv.gz", infer_schema_length=None)
    target = target or table.columns[-1]
    table = table.with_columns(pl.col(target).cast(pl.String))
    return table.sample(min(600 if quick else RECORDS, table.height), seed=SEED), target


def releases(table: pl.DataFrame, target: str) -> list[tuple[str, str, Any]]:
    """Every technique at three strengths: its name, its setting, and how to make it."""
    role = {target: "target"}
    made: list[tuple[str, str, Any]] = []
    for k in KS:
        made.append(
            (
                "condensation",
                f"k = {k}",
                lambda k=k: Condenser(k, random_state=SEED).fit_resample(table),
            )
        )
        made.append(
            (
                "generalisation",
                f"k = {k}",
                lambda k=k: generalize(table, k, columns=role, means=True).release,
            )
        )
    for words, demand in DEMANDS.items():
        hidden = [Column(target, Kind.CATEGORY, Role.SENSITIVE, **demand)]
        made.append(
            (
                f"generalisation, {words}",
                "k = 20",
                lambda hidden=hidden: generalize(table, 20, columns=hidden, means=True).release,
            )
        )
    for components, noise in TURNS:
        made.append(
            (
                "rotation, undone" if components is None else "projection, undone",
                f"noise {noise:g}" if components is None else "half of the dimensions",
                lambda components=components, noise=noise: undone(table, target, components, noise),
            )
        )
    for noise, keep in NOISES:
        made.append(
            (
                "randomisation",
                f"noise {noise:g}, keep {keep:g}",
                lambda noise=noise, keep=keep: (
                    randomize(table, noise=noise, keep=keep, random_state=SEED).release
                ),
            )
        )
    return made


def undone(table: pl.DataFrame, target: str, share: float | None, noise: float) -> pl.DataFrame:
    """What someone computes from a rotated table who knows twice as many records as dimensions.

    The columns of a rotated table are new ones: what can be attacked is the table turned back.
    """
    width = TableEncoder().fit(table.drop(target)).encode(table.head(1).drop(target)).shape[1]
    components = None if share is None else max(2, round(share * width))
    role = {target: "target"}
    made = rotate(table, components, noise=noise, columns=role, random_state=SEED).release
    return turned_back(table, made, role, np.random.default_rng(SEED))


def measured(
    table: pl.DataFrame, control: pl.DataFrame, release: Any, target: str
) -> dict[str, Any]:
    """The worst attack's gain, k-marginal score, and what a miner keeps."""
    found = audit(table, release, control=control, random_state=SEED)
    attacks = {name: one for name, one in found.result["attacks"].items() if "risk" in one}
    worst = max(attacks, key=lambda name: attacks[name]["risk"])
    scores = [nearest(part, control, target, table) for part in (table, release)]
    return {
        "risk": float(attacks[worst]["risk"]),
        "worst attack": worst.replace("_", " "),
        "verdict": found.verdict["privacy"]["level"],
        "k-marginal": float(found.result["metrics"].get("k_marginal", np.nan)),
        "accuracy kept": scores[1] / scores[0],
    }


def nearest(train: pl.DataFrame, test: pl.DataFrame, target: str, fitted: pl.DataFrame) -> float:
    """Accuracy of five nearest neighbours that learn from one table and are tested on another."""
    encoder = TableEncoder().fit(fitted.drop(target))
    X, y = (encoder.encode_release(part.drop(target)) / encoder.scales_ for part in (train, test))
    model = KNeighborsClassifier(5).fit(X, train[target].to_numpy())
    return float((model.predict(y) == test[target].to_numpy()).mean())


def rotated(table: pl.DataFrame, control: pl.DataFrame, target: str) -> list[list[Any]]:
    """Rotation and projection: what a miner keeps, and what knowing some records undoes."""
    whole = pl.concat([table, control])
    encoder = TableEncoder().fit(whole.drop(target))
    plain = encoder.encode(whole.drop(target)) / encoder.scales_
    plain -= plain.mean(axis=0)
    rows = []
    width = plain.shape[1]
    for name, components, noise in (
        ("rotation", None, 0.0),
        ("rotation", None, 0.5),
        ("projection", max(2, width // 2), 0.0),
    ):
        made = rotate(
            whole, components, noise=noise, columns={target: "target"}, random_state=SEED
        ).release
        new = made.drop(target).to_numpy()
        n, y = table.height, whole[target].to_numpy()
        kept = _score(new[:n], y[:n], new[n:], y[n:]) / _score(plain[:n], y[:n], plain[n:], y[n:])
        setting = f"noise {noise:g}" if components is None else f"{components} of {width}"
        rows.append([name, setting, kept, _undone(plain, new)])
    return rows


def _score(X: np.ndarray, y: np.ndarray, X_new: np.ndarray, y_new: np.ndarray) -> float:
    return float((KNeighborsClassifier(5).fit(X, y).predict(X_new) == y_new).mean())


def _undone(plain: np.ndarray, new: np.ndarray) -> float:
    """The share of variance that someone recovers who knows twice as many records as columns."""
    back, known = _turned_back(plain, new)
    others = np.setdiff1d(np.arange(len(plain)), known)
    wrong = ((back[others] - plain[others]) ** 2).sum()
    return float(max(0.0, 1 - wrong / (plain[others] ** 2).sum()))


def _turned_back(plain: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The records turned back by least squares, and which of them were known."""
    known = np.random.default_rng(SEED).permutation(len(plain))[: 2 * plain.shape[1]]
    return new @ np.linalg.lstsq(new[known], plain[known], rcond=1e-9)[0], known


def main(quick: bool = False) -> None:
    warnings.simplefilter("ignore", PrivacyWarning)
    points, turned = [], []
    for name in ("Pima",) if quick else TABLES:
        whole, target = load(name, quick)
        cut = whole.height * 3 // 4
        table, control = whole[:cut], whole[cut:]
        for technique, setting, make in releases(table, target):
            release, seconds = timed(make)
            found = measured(table, control, release, target)
            points.append(
                {"table": name, "technique": technique, "setting": setting, **found, "s": seconds}
            )
            print(points[-1], flush=True)
        turned += [[name, *row] for row in rotated(table, control, target)]
    _write(points, turned, quick)


def _write(points: list[dict[str, Any]], turned: list[list[Any]], quick: bool) -> None:
    fields = ["table", "technique", "setting", "risk", "worst attack", "verdict", "k-marginal"]
    fields += ["accuracy kept", "s"]
    write_table(
        "baselines",
        "Older techniques next to condensation: risk and use",
        [*fields[:-1], "CPU s"],
        [[point[field] for field in fields] for point in points],
        notes=f"At most {RECORDS:,} records, a quarter of them as the control. Risk: how much "
        "more often the best attack of the audit is right about people in the data than about "
        "people who are not. k-marginal: 1000 is the original. Accuracy kept: five nearest "
        "neighbours that learn from the release, over those that learn from the original, tested "
        "on the control. Generalisation: all columns but the target, group means of numbers; "
        "demands (l-diversity, t-closeness) are on the target. Rotation and projection: the "
        "columns of the release are new ones, so the audit attacks, and the miner uses, what "
        "someone computes from it who knows twice as many records as there are dimensions. Rows "
        "of generalised and randomised tables belong to people one for one; those of condensed "
        "tables to nobody.",
        seed=SEED,
        quick=quick,
    )
    write_table(
        "baselines_rotation",
        "Rotation and random projection: what is kept, and what is undone",
        ["table", "technique", "setting", "accuracy kept", "variance recovered"],
        turned,
        notes="Recovered: the share of the variance of all other records that someone computes "
        "who knows twice as many records as there are columns (least squares). A rotation without "
        "noise is undone entirely. The columns are new ones, so the audit attacks the table "
        "turned back: see `baselines.md`.",
        seed=SEED,
        quick=quick,
    )
    import altair as alt

    chart = (
        alt.Chart(alt.Data(values=points))
        .mark_line(point=alt.OverlayMarkDef(size=50))
        .encode(
            x=alt.X("risk:Q", title="gain of the worst attack"),
            y=alt.Y("k-marginal:Q", scale=alt.Scale(zero=False)),
            color=alt.Color("technique:N", title=None),
            order="risk:Q",
        )
        .properties(width=230, height=190)
        .facet(facet=alt.Facet("table:N", title=None), columns=3)
        .resolve_scale(x="independent", y="independent")
    )
    save_chart("baselines", chart, quick=quick)


if __name__ == "__main__":
    main("--quick" in sys.argv)
