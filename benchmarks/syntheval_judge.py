"""Score releases of one table with SynthEval; runs in an environment of its own.

    python syntheval_judge.py TRAINING TEST TARGET RESULT RELEASE...

Imports nothing of Tulle. RESULT is a JSON file: for each release its measures, the means of
SynthEval's own normalised scores of usefulness and of privacy, and the sum of all (its rank).
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import warnings

import numpy as np
import pandas as pd

MEASURES = {
    "cio": {"confidence": 95},
    "corr_diff": {"mixed_corr": True},
    "mi_diff": {},
    "ks_test": {"sig_lvl": 0.05, "n_perms": 1000},
    "h_dist": {},
    "p_mse": {"k_folds": 5, "max_iter": 100, "solver": "liblinear"},
    "nnaa": {"n_resample": 30},
    "cls_acc": {"F1_type": "micro", "k_folds": 5},
    "hit_rate": {"thres_percent": 0.0333},
    "eps_risk": {},
    "mia": {"num_eval_iter": 5},
}


def main() -> None:
    warnings.filterwarnings("ignore")
    training, test, target, result, *releases = sys.argv[1:]
    real = [pd.read_csv(path) for path in (training, test)]
    found = [judge(*real, pd.read_csv(path), target) for path in releases]
    with open(result, "w") as out:
        json.dump(found, out)


def judge(training, test, release, target: str) -> dict[str, float]:
    """Return SynthEval's measures of one release; rows with values that were made missing go."""
    from syntheval import SynthEval

    np.random.seed(0)  # noqa: NPY002 - SynthEval draws from the global generator
    whole = [name for name in training if training[name].notna().all()]
    kept = release[list(training)].dropna(subset=whole)
    kept = kept.astype({name: training[name].dtype for name in whole}).reset_index(drop=True)
    with contextlib.redirect_stdout(io.StringIO()):
        table = SynthEval(training, test, verbose=False).evaluate(kept, target, **MEASURES)
    found = {row.metric: float(row.val) for row in table.itertuples()}
    scores = table.groupby("dim").n_val.mean()
    return {
        **found,
        "usefulness": float(scores["u"]),
        "privacy": float(scores["p"]),
        "rank": float(table.n_val.sum()),
        "left out": len(release) - len(kept),
    }


if __name__ == "__main__":
    main()
