"""Score one release as the TabSyn benchmark does; runs in an environment of its own.

    python tabsyn_judge.py TRAINING RELEASE TEST ROLES RESULT

Needs pandas and scikit-learn; with SDMetrics its own report is added to Shape and Trend, with
XGBoost the model is the benchmark's. Imports nothing of Tulle. ROLES is a JSON file: which columns
(by place) are numbers and categories, the target, and the kind of task.
"""

from __future__ import annotations

import itertools
import json
import sys
import warnings

import numpy as np
import pandas as pd
from scipy.stats import ks_2samp
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, RobustScaler

MOST_NEIGHBOURS = 10_000  # rows of each side for precision and recall


def main() -> None:
    warnings.filterwarnings("ignore")
    training, release, test, roles, result = sys.argv[1:]
    tables = [pd.read_csv(path, skipinitialspace=True) for path in (training, release, test)]
    with open(roles) as file:
        found = judge(*tables, json.load(file))
    with open(result, "w") as out:
        json.dump(found, out)


def judge(training, release, test, roles: dict) -> dict[str, float]:
    """Return every score of one release."""
    numbers, texts = columns_of(training, roles)
    training, release, test = (typed(t[list(training)], numbers) for t in (training, release, test))
    precision, recall = precision_recall(*encoded([training, release], numbers, texts))
    return {
        "shape": shape(training, release, numbers, texts),
        "trend": trend(training, release, numbers, texts),
        **sdmetrics_report(training, release, numbers),
        "model": model_score(release, test, numbers, texts, roles),
        "precision": precision,
        "recall": recall,
        "c2st": c2st(*encoded([training, release], numbers, texts)),
    }


def columns_of(training, roles: dict) -> tuple[list[str], list[str]]:
    names = list(training)
    target = [names[at] for at in roles["target_col_idx"]]
    numbers = [names[at] for at in roles["num_col_idx"]]
    texts = [names[at] for at in roles["cat_col_idx"]]
    return (numbers + target, texts) if _regression(roles) else (numbers, texts + target)


def _regression(roles: dict) -> bool:
    return roles["task_type"] == "regression"


def typed(table, numbers: list[str]):
    """Return numbers as floats and all else as text, written alike in all three tables."""
    out = {}
    for name in table:
        if name in numbers:
            out[name] = pd.to_numeric(table[name], errors="coerce").astype(float)
            continue
        values = table[name]
        if pd.api.types.is_float_dtype(values):  # codes, read from a file where one is missing
            values = values.astype("Int64")
        out[name] = values.astype(str).str.strip().str.rstrip(".")
    return pd.DataFrame(out)


# -- columns and pairs, in per cent --------------------------------------------------------------


def shape(real, made, numbers, texts) -> float:
    errors = [ks_2samp(real[name], made[name]).statistic for name in numbers]
    errors += [variation(real[name], made[name]) for name in texts]
    return 100 * float(np.mean(errors))


def trend(real, made, numbers, texts) -> float:
    """Return the mean error of pairs: of correlations, or of tables with numbers in ten bins."""
    cells = [binned(real, real, numbers), binned(real, made, numbers)]
    moved = (real[numbers].corr() - made[numbers].corr()).abs() / 2
    errors = []
    for one, two in itertools.combinations([*numbers, *texts], 2):
        if two in numbers:
            errors.append(moved.loc[one, two])
        else:
            errors.append(variation(*(table[one] + "|" + table[two] for table in cells)))
    return 100 * float(np.nanmean(errors))


def binned(real, table, numbers):
    out = table.copy()
    for name in numbers:
        edges = np.histogram_bin_edges(real[name].dropna())
        out[name] = np.digitize(table[name], edges).astype(str)
    return out


def variation(first, second) -> float:
    shares = [column.value_counts(normalize=True) for column in (first, second)]
    return float(shares[0].subtract(shares[1], fill_value=0).abs().sum() / 2)


def sdmetrics_report(real, made, numbers) -> dict[str, float]:
    """Return Shape and Trend of SDMetrics' own report, or nothing if it is not installed."""
    try:
        from sdmetrics.reports.single_table import QualityReport
    except ImportError:
        return {}
    kinds = {n: {"sdtype": "numerical" if n in numbers else "categorical"} for n in real}
    report = QualityReport()
    # Today's report leaves out pairs that hardly depend; that of the published figures did not.
    report.real_correlation_threshold = report.real_association_threshold = 0
    report.generate(real, made, {"columns": kinds}, verbose=False)
    scores = report.get_properties().set_index("Property")["Score"]
    return {
        "SDMetrics shape": 100 * (1 - float(scores["Column Shapes"])),
        "SDMetrics trend": 100 * (1 - float(scores["Column Pair Trends"])),
    }


# -- models --------------------------------------------------------------------------------------


def encoded(tables, numbers, texts) -> list[np.ndarray]:
    """Return tables as numbers; categories that the first table lacks are all zero."""
    coder = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(tables[0][texts])
    return [np.hstack([t[numbers].to_numpy(), coder.transform(t[texts])]) for t in tables]


def learners(regression: bool) -> list:
    """Return models of the benchmark's grid that are tried, the best on a ninth being taken."""
    grid = list(itertools.product((5, 10), (100, 300) if regression else (50, 100)))
    try:
        from xgboost import XGBClassifier, XGBRegressor
    except ImportError:
        kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
        return [kind(max_depth=d, max_iter=n, random_state=0) for d, n in grid]
    kind = XGBRegressor if regression else XGBClassifier
    return [
        kind(max_depth=d, n_estimators=n, learning_rate=0.1, tree_method="hist", n_jobs=1)
        for d, n in grid
    ]


def model_score(train, test, numbers, texts, roles: dict) -> float:
    """Return the AUC (regression: RMSE of the log) on real test rows of the best model."""
    target = list(train)[roles["target_col_idx"][0]]
    inputs = [[name for name in part if name != target] for part in (numbers, texts)]
    X, Z = encoded([train, test], *inputs)
    regression = _regression(roles)
    if regression:
        y, truth = (np.log(np.clip(table[target].to_numpy(), 1, 20_000)) for table in (train, test))
    else:
        positive = sorted(test[target].unique())[-1]
        y, truth = ((table[target] == positive).to_numpy(int) for table in (train, test))
    order = np.random.default_rng(0).permutation(len(X))
    held, used = np.split(order, [len(X) // 9])

    def score(model, X, y) -> float:
        if regression:
            return -float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))
        return float(roc_auc_score(y, model.predict_proba(X)[:, 1]))

    models = [model.fit(X[used], y[used]) for model in learners(regression)]
    return abs(score(max(models, key=lambda model: score(model, X[held], y[held])), Z, truth))


def c2st(real: np.ndarray, made: np.ndarray) -> float:
    """Return SDMetrics' detection score by logistic regression: 1 if nothing can be told apart."""
    origin = np.repeat([1, 0], [len(real), len(made)])
    model = make_pipeline(RobustScaler(), LogisticRegression())
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    areas = cross_val_score(model, np.vstack([real, made]), origin, scoring="roc_auc", cv=folds)
    return float(np.mean(2 - 2 * np.maximum(areas, 0.5)))


def precision_recall(real: np.ndarray, made: np.ndarray) -> tuple[float, float]:
    """Return alpha-precision and beta-recall in per cent (synthcity's naive form)."""
    rng = np.random.default_rng(0)
    real, made = (t[rng.permutation(len(t))[:MOST_NEIGHBOURS]] for t in (real, made))
    low, span = real.min(axis=0), np.ptp(real, axis=0)
    real, made = ((t - low) / np.where(span > 0, span, 1) for t in (real, made))
    shares = np.linspace(0, 1, 30)
    away = [np.linalg.norm(t - real.mean(axis=0), axis=1) for t in (real, made)]
    precision = [(away[1] <= radius).mean() for radius in np.quantile(away[0], shares)]
    own = NearestNeighbors(n_neighbors=2).fit(real).kneighbors(real)[0][:, 1]
    near, at = (part[:, 0] for part in NearestNeighbors(n_neighbors=1).fit(made).kneighbors(real))
    centre = np.linalg.norm(made[at] - made.mean(axis=0), axis=1)
    recall = [((near <= own) & (centre <= radius)).mean() for radius in np.quantile(centre, shares)]
    first, second = (
        100 * (1 - np.abs(shares - found).sum() / shares.sum()) for found in (precision, recall)
    )
    return float(first), float(second)


if __name__ == "__main__":
    main()
