"""Measure one release with tools that are not Tulle's; runs in an environment of its own.

    python frontier_judge.py MEMBERS RELEASE STRANGERS RESULT --target class [--attacks 300]

Members are the people of the release, strangers were drawn from the same population and never
seen by any method. Needs pandas, scikit-learn, anonymeter and SDMetrics, and imports nothing of
Tulle, so that no mistake of ours can flatter us.
"""

from __future__ import annotations

import argparse
import itertools
import json
import warnings

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import NearestNeighbors

MISSING = "(missing)"
SAMPLE = 5000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("members", "release", "strangers", "result"):
        parser.add_argument(name)
    parser.add_argument("--target", default=None)
    parser.add_argument("--within", default=None, help="column within which marginals are taken")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--attacks", type=int, default=0, help="anonymeter's attacks (0: none)")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    tables = [
        pd.read_csv(path, low_memory=False)
        for path in (options.members, options.release, options.strangers)
    ]
    measured = judge(*tables, options)
    with open(options.result, "w") as out:
        json.dump(measured, out, indent=1)


def judge(members, release, strangers, options) -> dict:
    """Return every measure of one release; columns it lacks are left out everywhere."""
    missing = [name for name in members if name not in release]
    names = [name for name in members if name in release]
    target = options.target if options.target in names else None
    numbers = [
        name for name in names if name != target and pd.api.types.is_numeric_dtype(members[name])
    ]
    members, release, strangers = (
        aligned(table[names], members, numbers) for table in (members, release, strangers)
    )
    cells = binned(members, (members, release, strangers), numbers)
    found = {
        "rows": len(release),
        "columns left out": missing,
        "AUC against strangers": told_apart(strangers, release, numbers, options.seed),
        "pMSE": propensity(members, release, numbers, options.seed),
        "TV3": variation(*cells[:2], 3, 100),
        "k-marginal": k_marginal(*cells[:2], options.within),
        "broken dependencies": broken_dependencies(members, release),
        "unique matches": unique_matches(members, release),
        "unique matches of strangers": unique_matches(members, strangers),
        **membership(members, release, strangers, numbers, options.seed),
    }
    if target:
        found["train on release"] = train_on(release, strangers, numbers, target, options.seed)
        found["train on members"] = train_on(members, strangers, numbers, target, options.seed)
    if options.attacks:
        found |= anonymeter(members, release, strangers, numbers, options)
        found |= sdmetrics(members, release, numbers)
    return found


def aligned(table, members, numbers):
    """Return numbers as floats, all else as text; missing texts are a text of their own."""
    out = {}
    for name in table:
        values = table[name]
        if name in numbers:
            out[name] = pd.to_numeric(values, errors="coerce").astype(float)
            continue
        if pd.api.types.is_float_dtype(values) and pd.api.types.is_integer_dtype(members[name]):
            values = values.round().astype("Int64")
        out[name] = values.astype(object).where(values.notna(), MISSING).astype(str)
    return pd.DataFrame(out)


def coded(frames, numbers):
    """Return categories as integers that mean the same in all frames."""
    out = [frame.copy() for frame in frames]
    for name in frames[0]:
        if name not in numbers:
            values = sorted(set().union(*(set(frame[name]) for frame in frames)))
            codes = {value: code for code, value in enumerate(values)}
            for frame in out:
                frame[name] = frame[name].map(codes).astype(float)
    return out


def booster(table, numbers, seed):
    categorical = [name not in numbers and table[name].nunique() <= 255 for name in table]
    return HistGradientBoostingClassifier(
        max_iter=100, early_stopping=False, random_state=seed, categorical_features=categorical
    )


def guesses(real, release, numbers, seed):
    """Return the origin of sampled rows and how likely each is a released one, cross-validated."""
    rows = min(SAMPLE, len(real), len(release))
    parts = [table.sample(rows, random_state=seed) for table in (real, release)]
    both = pd.concat(coded(parts, numbers), ignore_index=True)
    origin = np.repeat([0, 1], rows)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    model = booster(both, numbers, seed)
    return origin, cross_val_predict(model, both, origin, cv=folds, method="predict_proba")[:, 1]


def told_apart(real, release, numbers, seed) -> float:
    return float(roc_auc_score(*guesses(real, release, numbers, seed)))


def propensity(real, release, numbers, seed) -> float:
    _, guess = guesses(real, release, numbers, seed)
    return float(((guess - 0.5) ** 2).mean())


def train_on(train, test, numbers, target, seed) -> float:
    """Return the ROC AUC (mean over classes) on strangers of a model trained on a table."""
    train, test = coded([train, test], numbers)
    wanted, asked = train.pop(target), test.pop(target)
    if wanted.nunique() < 2:
        return 0.5
    model = booster(train, numbers, seed).fit(train, wanted)
    share = model.predict_proba(test)
    areas = [
        roc_auc_score(asked == label, share[:, at])
        for at, label in enumerate(model.classes_)
        if 0 < (asked == label).sum() < len(asked)
    ]
    return float(np.mean(areas))


def binned(members, frames, numbers, bins=20):
    """Return frames of cells; a value that fills a cell is a cell of its own."""
    out = [pd.DataFrame(index=frame.index) for frame in frames]
    for name in members:
        if name in numbers:
            edges = np.nanquantile(members[name], np.linspace(0, 1, bins + 1), method="lower")
            edges, repeats = np.unique(edges, return_counts=True)
            edges = np.unique(np.r_[edges, np.nextafter(edges[repeats > 1], np.inf)])
            for table, frame in zip(out, frames):
                cell = np.searchsorted(edges, frame[name], side="right")
                table[name] = np.where(frame[name].isna(), 0, cell + 1)
        else:
            values = sorted(set().union(*(set(frame[name]) for frame in frames)))
            codes = {value: code for code, value in enumerate(values)}
            for table, frame in zip(out, frames):
                table[name] = frame[name].map(codes).to_numpy()
    return out


def distance(a, b, names) -> float:
    """Return the L1 distance of two tables' distributions over the cells of some columns."""
    first, second = np.zeros(len(a), np.int64), np.zeros(len(b), np.int64)
    for name in names:
        width = int(max(a[name].max(), b[name].max())) + 1
        first, second = first * width + a[name].to_numpy(), second * width + b[name].to_numpy()
    _, at = np.unique(np.r_[first, second], return_inverse=True)
    counts = [np.bincount(part, minlength=at.max() + 1) for part in (at[: len(a)], at[len(a) :])]
    return float(np.abs(counts[0] / len(a) - counts[1] / len(b)).sum())


def variation(a, b, ways, most, seed=0) -> float:
    """Return the mean total variation over random sets of columns."""
    sets = list(itertools.combinations(a.columns, ways))
    chosen = np.random.default_rng(seed).permutation(len(sets))[:most]
    return float(np.mean([distance(a, b, sets[at]) / 2 for at in chosen]))


def k_marginal(a, b, within) -> float:
    """Return NIST's score of all pairs of columns (1000: equal), within a column's values."""
    fixed = [within] if within in a else []
    names = [name for name in a if name not in fixed]
    pairs = [distance(a, b, [*fixed, *pair]) for pair in itertools.combinations(names, 2)]
    return float((2 - np.mean(pairs)) * 500)


def broken_dependencies(members, release) -> float | None:
    """Return the share of rows that break a dependency which holds for every member."""
    names = [name for name in members if 1 < members[name].nunique() <= min(300, len(members) / 10)]
    broken, found = np.zeros(len(release), bool), False
    for given, follows in itertools.permutations(names, 2):
        if (members.groupby(given)[follows].nunique() == 1).all():
            known = members.groupby(given)[follows].first()
            expected = release[given].map(known)
            broken |= (expected.notna() & (expected != release[follows])).to_numpy()
            found = True
    return float(broken.mean()) if found else None


def unique_matches(members, other) -> float:
    """Return the percentage of members alone in their values whom another table holds."""
    alone = set(map(tuple, members[~members.duplicated(keep=False)].astype(str).to_numpy()))
    held = set(map(tuple, other.astype(str).to_numpy()))
    return 100 * len(alone & held) / max(1, len(alone))


def positions(members, frames, numbers, ranks):
    """Return tables as points: numbers scaled or as ranks, categories as indicators."""
    blocks = [[] for _ in frames]
    for name in members:
        if name in numbers:
            base = np.sort(members[name].dropna().to_numpy())
            for block, frame in zip(blocks, frames):
                values = frame[name].fillna(np.median(base)).to_numpy()
                if ranks:
                    sides = [np.searchsorted(base, values, side) for side in ("left", "right")]
                    values = sum(sides) / (2 * len(base)) * np.sqrt(12)
                else:
                    values = values / (base.std() or 1)
                block.append(values[:, None])
        else:
            kinds = members[name].value_counts().index[:100]
            for block, frame in zip(blocks, frames):
                held = frame[name].to_numpy()[:, None] == kinds.to_numpy()[None, :]
                block.append(held / (np.sqrt(2) if ranks else 1))
    return [np.ascontiguousarray(np.hstack(block), dtype=np.float32) for block in blocks]


def membership(members, release, strangers, numbers, seed, most=3000) -> dict:
    """Attack with distances, density ratios and exact values; the attacker has a reference list."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(strangers))
    reference, outside = (strangers.iloc[part] for part in np.array_split(order, 2))
    size = min(most, len(outside), len(members))
    inside = members.iloc[rng.permutation(len(members))[:size]]
    asked = pd.concat([inside, outside.iloc[:size]])
    truth = np.repeat([1, 0], size)
    areas, caught, far_areas = {}, {}, {}
    for ranks in (False, True):
        points = positions(members, (release, reference, asked), numbers, ranks)
        scores, far = distance_scores(*points)
        for name, score in scores.items():
            score = score + rng.normal(0, 1e-9, len(score))
            key = f"{name}{' ranks' if ranks else ''}"
            areas[key] = roc_auc_score(truth, score)
            caught[key] = true_positives(truth, score)
            far_areas[key] = roc_auc_score(truth[far], score[far])
    own = own_values(release, reference, asked, numbers) + rng.normal(0, 1e-9, 2 * size)
    return {
        "membership": float(max(areas.values())),
        "membership of outliers": float(max(far_areas.values())),
        "membership by exact values": float(roc_auc_score(truth, own)),
        "caught at 1 % false alarms": float(max(*caught.values(), true_positives(truth, own))),
    }


def distance_scores(release, reference, asked):
    """Return the scores of five distance attacks, and who lies farthest from the reference."""
    near, usual = (
        NearestNeighbors(n_neighbors=10, algorithm="brute").fit(points).kneighbors(asked)[0] + 1e-6
        for points in (release, reference)
    )
    scores = {
        "nearest": -near[:, 0],
        "ratio of 1": np.log(usual[:, 0] / near[:, 0]),
        "ratio of 5": np.log(usual[:, :5].mean(1) / near[:, :5].mean(1)),
        "ratio of 10": np.log(usual.mean(1) / near.mean(1)),
        "density": np.log(usual[:, 9] / near[:, 9]),
    }
    return scores, usual[:, 0] >= np.quantile(usual[:, 0], 0.9)


def true_positives(truth, score, alarms=0.01) -> float:
    limit = np.quantile(score[truth == 0], 1 - alarms)
    return float((score[truth == 1] > limit).mean())


def own_values(release, reference, asked, numbers):
    """Return how much more often a candidate's own numbers stand in the release than elsewhere."""
    score = np.zeros(len(asked))
    for name in numbers:
        held, usual = (
            asked[name].map(table[name].value_counts()).fillna(0).to_numpy() / len(table)
            for table in (release, reference)
        )
        score += np.log((held + 1 / len(release)) / (usual + 1 / len(reference)))
    return score


def anonymeter(members, release, strangers, numbers, options, most=10_000) -> dict:
    """Return anonymeter's risks over the control: singling out, linkability, inference."""
    from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator

    np.random.seed(options.seed)  # noqa: NPY002 - anonymeter draws from the global generator
    tables = [
        table.sample(min(most, len(table)), random_state=options.seed).reset_index(drop=True)
        for table in (members, release, strangers)
    ]
    known = {"control": tables[2], "n_attacks": min(options.attacks, len(tables[2]))}
    names = list(members.columns)
    half = len(names) // 2
    secrets = list(np.random.default_rng(options.seed).permutation(names)[:4])
    if options.target in names:
        secrets = [options.target, *(name for name in secrets if name != options.target)][:5]
    tried = {
        "singling out": (
            SinglingOutEvaluator(*tables[:2], n_cols=4, **known),
            {"mode": "multivariate"},
        ),
        "linkability": (
            LinkabilityEvaluator(*tables[:2], aux_cols=(names[:half], names[half:]), **known),
            {"n_jobs": 1},
        ),
    }
    for secret in secrets:
        others = [name for name in names if name != secret]
        made = InferenceEvaluator(
            *tables[:2], aux_cols=others, secret=secret, regression=secret in numbers, **known
        )
        tried[f"inference {secret}"] = (made, {"n_jobs": 1})
    risks = {name: risk(evaluator, asked) for name, (evaluator, asked) in tried.items()}
    inferred = [risks.pop(f"inference {secret}") for secret in secrets]
    inferred = [value for value in inferred if value is not None]
    return {**risks, "inference": float(np.mean(inferred)) if inferred else None}


def risk(evaluator, asked) -> float | None:
    try:
        evaluator.evaluate(**asked)
        return float(evaluator.risk().value)
    except Exception:  # anonymeter gives up on some columns; a gap in the table says so
        return None


def sdmetrics(members, release, numbers, most=10_000) -> dict:
    from sdmetrics.reports.single_table import QualityReport

    kinds = {n: {"sdtype": "numerical" if n in numbers else "categorical"} for n in members}
    parts = [table.sample(min(most, len(table)), random_state=0) for table in (members, release)]
    report = QualityReport()
    report.generate(*parts, {"columns": kinds}, verbose=False)
    scores = report.get_properties().set_index("Property")["Score"]
    return {
        "SDMetrics shapes": float(scores["Column Shapes"]),
        "SDMetrics pairs": float(scores["Column Pair Trends"]),
    }


if __name__ == "__main__":
    main()
