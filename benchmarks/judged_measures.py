"""What a release is good for and what it tells: members made it, strangers are kept apart.

Nothing of Tulle is imported here, so that no mistake of ours can flatter us. These measures are for
judging: nothing in the library may be chosen by them on the tables that are reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

Floats = np.ndarray
ATTACKS = ("nearest", "ratio", "classifier", "margins")
MOST_ATTACKED = 1500  # members, and as many strangers


def judge(
    release: pd.DataFrame, members: pd.DataFrame, strangers: pd.DataFrame, target: str, seed: int
) -> dict[str, float]:
    """Measure a release; ``membership`` and ``tpr`` are those of the best of four attacks."""
    (made, own, others), numeric = as_numbers([release[list(members)], members, strangers])
    place = list(members).index(target)
    far = triple_distance(made, others, own, numeric)
    lost = model_score(own, others, place, numeric) - model_score(made, others, place, numeric)
    return {
        "apart": told_apart(made, others),
        "tv": far - triple_distance(own, others, own, numeric),
        "model": lost,
        **best_of(membership(made, own, others, numeric, seed)),
    }


def as_numbers(frames: Sequence[pd.DataFrame]) -> tuple[list[Floats], Floats]:
    """Return tables as floats, and which columns are numbers; categories are coded over all."""
    out = [np.empty((len(frame), frames[0].shape[1])) for frame in frames]
    numeric = np.array([pd.api.types.is_numeric_dtype(frames[0][name]) for name in frames[0]])
    for at, name in enumerate(frames[0]):
        columns = [frame[name] for frame in frames]
        if numeric[at]:
            codes = [pd.to_numeric(column, errors="coerce") for column in columns]
        else:
            texts = [column.map(lambda v: "\0" if pd.isna(v) else str(v)) for column in columns]
            known = {text: code for code, text in enumerate(sorted(set(pd.concat(texts))))}
            codes = [text.map(known) for text in texts]
        for table, column in zip(out, codes):
            table[:, at] = column
    return out, numeric


def boosting(kind: Any = HistGradientBoostingClassifier) -> Any:
    return kind(
        max_iter=60, learning_rate=0.12, max_leaf_nodes=15, random_state=0, early_stopping=False
    )


def told_apart(made: Floats, others: Floats) -> float:
    """Return the AUC of gradient boosting that tells two tables apart, cross-validated."""
    truth = np.repeat([1, 0], [len(made), len(others)])
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    both = np.vstack([made, others])
    guess = cross_val_predict(boosting(), both, truth, cv=folds, method="predict_proba")
    return float(roc_auc_score(truth, guess[:, 1]))


# -- cells ---------------------------------------------------------------------------------------


def in_cells(tables: Sequence[Floats], like: Floats, numeric: Floats, most: int) -> list[Any]:
    """Return columns in at most so many cells of equal share of ``like``, missing its own."""
    out = [np.zeros(table.shape, dtype=np.int64) for table in tables]
    for at in range(like.shape[1]):
        known = like[~np.isnan(like[:, at]), at]
        values, counts = np.unique(known, return_counts=True)
        if not numeric[at] and len(values) > most:
            common = values[np.argsort(-counts)[: most - 1]]
            for cells, table in zip(out, tables):
                for cell, value in enumerate(common, 1):  # all others share the cell 0
                    cells[table[:, at] == value, at] = cell
        else:
            fine = np.quantile(known, np.arange(1, most) / most)
            edges = values if len(values) <= most else np.unique(fine)
            for cells, table in zip(out, tables):
                cells[:, at] = np.searchsorted(edges, table[:, at])
        for cells, table in zip(out, tables):
            cells[np.isnan(table[:, at]), at] = most + 1
    return out


def some_columns(columns: int, count: int, width: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.choice(columns, min(width, columns), replace=False) for _ in range(count)]


def counted(tables: Sequence[Any], columns: Any) -> Iterator[tuple[Any, Any]]:
    """Yield for each table the joint cell of its rows and how many rows each such cell has."""
    base = max(int(table[:, columns].max()) for table in tables) + 1
    powers = base ** np.arange(len(columns))[::-1]
    keys = [table[:, columns] @ powers for table in tables]
    size = max(int(key.max()) for key in keys) + 1
    for key in keys:
        yield key, np.bincount(key, minlength=size)


def triple_distance(made: Floats, others: Floats, like: Floats, numeric: Floats) -> float:
    """Return the mean total variation of two tables over 60 triples of columns in 6 cells."""
    tables = in_cells([made, others], like, numeric, 6)
    found = []
    for columns in some_columns(made.shape[1], 60, 3):
        (_, first), (_, second) = counted(tables, columns)
        found.append(np.abs(first / len(made) - second / len(others)).sum() / 2)
    return float(np.mean(found))


# -- models --------------------------------------------------------------------------------------


def model_score(train: Floats, test: Floats, target: int, numeric: Floats) -> float:
    """Return R2 or the mean AUC over classes, on ``test``, of a model trained on ``train``."""
    train, test = (table[~np.isnan(table[:, target])] for table in (train, test))
    X, Z = (np.delete(table, target, axis=1) for table in (train, test))
    y, truth = train[:, target], test[:, target]
    values = np.unique(truth)
    if numeric[target] and len(values) > 10:
        model = boosting(HistGradientBoostingRegressor).fit(X, y)
        return float(r2_score(truth, model.predict(Z)))
    if len(np.unique(y)) < 2:
        return 0.5
    model = boosting().fit(X, y)
    share = dict(zip(model.classes_, model.predict_proba(Z).T))
    nothing = np.zeros(len(truth))
    asked = [v for v in values[:20] if 10 <= (truth == v).sum() < len(truth)]
    return float(np.mean([roc_auc_score(truth == v, share.get(v, nothing)) for v in asked]))


# -- membership ----------------------------------------------------------------------------------


def membership(
    made: Floats, own: Floats, others: Floats, numeric: Floats, seed: int
) -> dict[str, tuple[float, float]]:
    """Return AUC and true positives at 1 % false ones of four attacks.

    The attacker holds the release and half of the strangers; the other half is asked about.
    """
    rng = np.random.default_rng(seed)
    others = others[rng.permutation(len(others))]
    known, tested = np.split(others, [len(others) // 2])
    inside = own[rng.permutation(len(own))[:MOST_ATTACKED]]
    asked = np.vstack([inside, tested[:MOST_ATTACKED]])
    truth = np.arange(len(asked)) < len(inside)
    luck = rng.random(len(asked)) * 1e-9  # ties are broken by lot
    scores = {
        **distances(made, known, asked, numeric),
        "classifier": classified(made, known, asked),
        "margins": margins(made, known, asked, numeric, seed),
    }
    return {name: caught(truth, score + luck) for name, score in scores.items()}


def best_of(found: dict[str, tuple[float, float]]) -> dict[str, float]:
    return {
        "membership": max(auc for auc, _ in found.values()),
        "tpr": max(rate for _, rate in found.values()),
    }


def caught(truth: Any, score: Floats) -> tuple[float, float]:
    """Return the AUC and the share of members above 99 % of the strangers."""
    bar = np.quantile(score[~truth], 0.99)
    return float(roc_auc_score(truth, score)), float((score[truth] > bar).mean())


def distances(made: Floats, known: Floats, asked: Floats, numeric: Floats) -> dict[str, Floats]:
    points = as_points([made, known, asked], np.vstack([made, known]), numeric)
    to_made, to_known = (nearest(points[2], table) for table in points[:2])
    ratio = np.log((to_known.mean(axis=1) + 0.05) / (to_made.mean(axis=1) + 0.05))
    return {"nearest": -to_made[:, 0], "ratio": ratio}


def nearest(asked: Floats, table: Floats) -> Floats:
    """Return the city-block distances to the three nearest rows, the nearest first."""
    return np.partition(cdist(asked, table, "cityblock"), [0, 2], axis=1)[:, :3]


def as_points(tables: Sequence[Floats], like: Floats, numeric: Floats) -> list[Floats]:
    """Return points whose city-block distance is Gower's: ranks, and categories one or nothing."""
    parts: list[list[Floats]] = [[] for _ in tables]
    for at in range(like.shape[1]):
        known = np.sort(like[~np.isnan(like[:, at]), at])
        values = np.unique(known)
        for part, table in zip(parts, tables):
            column = table[:, at]
            if not numeric[at] or len(values) <= 2:
                part.append((column[:, None] == values[:60]) * 0.5)
                continue
            sides = [np.searchsorted(known, column, side) for side in ("left", "right")]
            rank = (sides[0] + sides[1]) / 2 / len(known)
            missing = np.isnan(column)
            part.append(np.where(missing, 0.5, rank)[:, None])
            if len(known) < len(like):
                part.append(missing[:, None] * 0.5)
    return [np.hstack(part) for part in parts]


def classified(made: Floats, known: Floats, asked: Floats) -> Floats:
    """Return how much a classifier of release against known strangers takes rows for released."""
    truth = np.repeat([1, 0], [len(made), len(known)])
    weights = np.where(truth == 1, 1.0, len(made) / len(known))
    model = boosting().fit(np.vstack([made, known]), truth, sample_weight=weights)
    return np.asarray(model.decision_function(asked))


def margins(made: Floats, known: Floats, asked: Floats, numeric: Floats, seed: int) -> Floats:
    """Return log ratios of shares, release over known strangers, summed over 240 margins."""
    tables = in_cells([made, known, asked], np.vstack([made, known]), numeric, 12)
    total = np.zeros(len(asked))
    for width in (2, 3, 4):
        for columns in some_columns(made.shape[1], 80, width, seed + width):
            (_, here), (_, there), (key, _) = counted(tables, columns)
            total += np.log((here[key] + 1) / len(made)) - np.log((there[key] + 1) / len(known))
    return total
