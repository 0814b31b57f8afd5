"""Measures of releases in which people have rows: columns, pairs, next rows, and whole people.

Columns are cut into ten bins of the original; an accuracy is one minus the total variation of the
shares of bins. One row of each person, by lot, and the row after it stand for the person's rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

WIDE = 40  # more than there are bins


def bins_of(column: pd.Series, n: int) -> Any:
    """Return the borders of a number, or the places of the commonest categories."""
    if not pd.api.types.is_numeric_dtype(column):
        counts = column.astype("string").fillna("(n/a)").value_counts().head(n)
        return {value: place for place, value in enumerate(counts.index)}
    values = np.sort(column.dropna().to_numpy(float))
    different = np.unique(values)
    if len(different) <= n:
        return np.r_[different, different[-1] + 1]
    return np.unique(values[np.linspace(0, len(values) - 1, n + 1).astype(int)])


def binned(column: pd.Series, bins: Any) -> np.ndarray:
    """Return the bin of each value."""
    if isinstance(bins, dict):
        words = column.astype("string").fillna("(n/a)")
        return words.map(bins).fillna(len(bins)).to_numpy().astype(int)
    values = pd.to_numeric(column, errors="coerce").to_numpy(float)
    inside = np.clip(values, bins[0], bins[-1])
    places = np.clip(np.searchsorted(bins, inside, side="right") - 1, 0, len(bins) - 1)
    return np.where(np.isfinite(values), places, len(bins))


def alike(first: np.ndarray, second: np.ndarray) -> float:
    """Return one minus the total variation between the shares of two sets of bins."""
    size = int(max(first.max(), second.max())) + 1
    shares = [np.bincount(one, minlength=size) / len(one) for one in (first, second)]
    return 1 - 0.5 * float(np.abs(shares[0] - shares[1]).sum())


def one_row(table: pd.DataFrame, key: str, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return a row of each person, the row after it, and how many rows the person has."""
    people = pd.factorize(table[key])[0]
    order = np.argsort(people, kind="stable")
    table, counts = table.iloc[order], np.bincount(people)
    begin = np.cumsum(counts) - counts
    row = begin + ((counts - 1) * rng.random(len(counts))).astype(int)
    after = np.where(counts > 1, np.minimum(row + 1, len(table) - 1), row)
    return table.iloc[row].reset_index(drop=True), table.iloc[after].reset_index(drop=True), counts


def rows_alike(
    original: pd.DataFrame, release: pd.DataFrame, key: str, seed: int = 0
) -> dict[str, float]:
    """Return how alike columns, pairs and triples of rows are, and consecutive rows."""
    rng, names = np.random.default_rng(seed), [c for c in original if c != key]
    first, second = (one_row(table, key, rng) for table in (original, release[original.columns]))
    borders = {name: bins_of(first[0][name], 10) for name in names}
    cells = [{n: binned(rows[n], borders[n]) for n in names} for rows in (first[0], second[0])]
    after = [{n: binned(rows[n], borders[n]) for n in names} for rows in (first[1], second[1])]
    several = [first[2] > 1, second[2] > 1]

    def of(*columns: str) -> float:
        joined = [sum(part[c] * WIDE**i for i, c in enumerate(columns)) for part in cells]
        return alike(joined[0], joined[1])

    parts = list(zip(cells, after, several))
    following = [
        alike(*(np.where(many, now[n] * WIDE + then[n], WIDE**2) for now, then, many in parts))
        for n in names
    ]
    return {
        "columns": float(np.mean([of(name) for name in names])),
        "pairs": float(np.mean([of(*pair) for pair in itertools.combinations(names, 2)])),
        "triples": float(np.mean([of(*three) for three in itertools.combinations(names, 3)])),
        "next row": float(np.mean(following)),
        "rows per person": alike(np.minimum(first[2], 60), np.minimum(second[2], 60)),
    }


def parent_child_alike(
    parents: tuple[pd.DataFrame, pd.DataFrame],
    rows: tuple[pd.DataFrame, pd.DataFrame],
    key: str,
    names: Sequence[str],
    seed: int = 0,
) -> float:
    """Return how alike pairs of a column of the parent and one of a row of it are.

    ``parents`` and ``rows`` are those of the original and of the release.
    """
    rng, cells = np.random.default_rng(seed), []
    some = [one_row(table[rows[0].columns], key, rng)[0] for table in rows]
    above = [table.set_index(key).loc[part[key]] for table, part in zip(parents, some)]
    for tables, columns in ((above, names), (some, [c for c in some[0] if c != key])):
        borders = {name: bins_of(tables[0][name], 10) for name in columns}
        cells.append([[binned(t[n], borders[n]) for n in columns] for t in tables])
    first, second = zip(*cells)
    return float(np.mean([
        alike(a * WIDE + b, c * WIDE + d)
        for a, c in zip(first[0], second[0]) for b, d in zip(first[1], second[1])
    ]))  # fmt: skip


def coherence(original: pd.DataFrame, release: pd.DataFrame, key: str) -> dict[str, float]:
    """Return how alike the numbers of different values a person has are, and who holds a value."""
    kept, named = [], [c for c in original if c != key]
    people = [pd.factorize(table[key])[0].astype(np.int64) for table in (original, release)]
    for name in named:
        borders = bins_of(original[name], 30)
        pairs = [
            np.unique(who * 99 + binned(table[name], borders))
            for who, table in zip(people, (original, release))
        ]
        different = [np.minimum(np.bincount(one // 99), 30) for one in pairs]
        kept.append((alike(*different), alike(*(one % 99 for one in pairs))))
    found = np.mean(kept, axis=0)
    return {"different values": float(found[0]), "people of a value": float(found[1])}


def whole_people(
    table: pd.DataFrame, key: str, commonest: Mapping[str, Sequence[Any]]
) -> pd.DataFrame:
    """Return a row for each person: what their rows are like as a whole."""
    groups = table.groupby(key, sort=False)
    found: dict[str, Any] = {"rows": groups.size()}
    for name in table.columns.drop(key):
        if name in commonest:
            for value in commonest[name]:
                found[f"{name}={value}"] = (table[name] == value).groupby(table[key]).mean()
            found[f"{name} different"] = groups[name].nunique()
        else:
            column = groups[name]
            found |= {f"{name} mean": column.mean(), f"{name} sd": column.std()}
            found |= {f"{name} first": column.first(), f"{name} last": column.last()}
    return pd.DataFrame(found)


def commonest_of(table: pd.DataFrame, key: str) -> dict[str, list[Any]]:
    """Return the commonest values of columns that are not numbers."""
    words = [c for c in table if c != key and not pd.api.types.is_numeric_dtype(table[c])]
    return {name: list(table[name].value_counts().index[:6]) for name in words}


def told_apart(strangers: pd.DataFrame, released: pd.DataFrame) -> float:
    """Return how surely a classifier tells released people from people it has never seen."""
    size = min(len(strangers), len(released), 6_000)
    both = [part.sample(size, random_state=0) for part in (strangers, released)]
    labels = np.repeat([0, 1], size)
    model = HistGradientBoostingClassifier(max_iter=60, random_state=0)
    rows = pd.concat(both).to_numpy(float)
    scores = cross_val_predict(model, rows, labels, cv=3, method="predict_proba")[:, 1]
    return float(roc_auc_score(labels, scores))


def nearness(
    members: pd.DataFrame, strangers: pd.DataFrame, released: pd.DataFrame
) -> tuple[float, float]:
    """Return the share of released people nearer to a member than to a stranger, and how well the
    distance to the release tells members from strangers.
    """
    from sklearn.neighbors import NearestNeighbors

    size = min(len(members), len(strangers), 5_000)
    middle, spread = strangers.mean(), strangers.std().replace(0, 1)

    def points(table: pd.DataFrame, n: int) -> np.ndarray:
        some = table.sample(min(n, len(table)), random_state=1)
        return ((some - middle) / spread).fillna(0).clip(-5, 5).to_numpy(np.float32)

    inside, outside, new = points(members, size), points(strangers, size), points(released, 4_000)
    own, other = (
        NearestNeighbors(n_neighbors=1).fit(part).kneighbors(new)[0][:, 0]
        for part in (inside, outside)
    )
    share = float((own < other).mean() + 0.5 * (own == other).mean())
    near = NearestNeighbors(n_neighbors=1).fit(points(released, 20_000))
    distances = [near.kneighbors(part)[0][:, 0] for part in (inside, outside)]
    labels = np.repeat([1, 0], [len(part) for part in distances])
    return share, float(roc_auc_score(labels, -np.concatenate(distances)))


def nearness_error(strangers: pd.DataFrame, released: pd.DataFrame, rounds: int = 20) -> float:
    """Return the standard error of the share of :func:`nearness`, where nobody is a member.

    Strangers are halved at random: which half is nearer is chance alone. Halves of whole sets
    vary more, by the root of two.
    """
    rng, shares = np.random.default_rng(0), []
    for _ in range(rounds):
        inside = rng.permutation(len(strangers)) < len(strangers) // 2
        shares.append(nearness(strangers[inside], strangers[~inside], released)[0])
    return float(np.std(shares) / np.sqrt(2))


def coefficients(
    table: pd.DataFrame, target: str, columns: Sequence[str], person: str | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the coefficients of a regression and their standard errors; of a person's own
    differences from their mean, where a person is given.
    """
    kept = table[[target, *columns, *([person] if person else [])]].dropna()
    values = kept[[target, *columns]].astype(float)
    free = len(values) - len(columns) - 1
    if person:
        values = values - values.groupby(kept[person].to_numpy()).transform("mean")
        free -= kept[person].nunique()
    design = values[list(columns)].to_numpy()
    if not person:
        design = np.c_[design, np.ones(len(design))]
    found = np.linalg.lstsq(design, values[target].to_numpy(), rcond=None)[0]
    left = values[target].to_numpy() - design @ found
    errors = np.sqrt(np.diag(np.linalg.pinv(design.T @ design)) * (left @ left) / max(free, 1))
    return found[: len(columns)], errors[: len(columns)]
