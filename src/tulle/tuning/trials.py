"""The releases made during a search: each size once, a seed for each size and repeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tulle import progress
from tulle.errors import DataError, ParameterError, nearest_name
from tulle.tuning.choice import Point
from tulle.tuning.evaluation import Trial, baseline, evaluate
from tulle.tuning.splitting import Split

if TYPE_CHECKING:
    import polars as pl


class Trials:
    """The releases made so far, each size once; a seed for each size and repeat."""

    def __init__(
        self,
        template: Any,
        split: Split,
        miner: Any,
        scorer: Callable[..., float],
        *,
        repeats: int,
        n_jobs: int | None,
        seed: int,
    ) -> None:
        self.template = template
        self.split = split
        self.miner = miner
        self.scorer = scorer
        self.repeats = repeats
        self.n_jobs = n_jobs
        self.seed = seed
        self.baseline = baseline(split, miner, scorer)
        self.done: dict[int, list[Trial]] = {}

    def utilities(self, sizes: Sequence[int]) -> list[float]:
        """The mean utility of each size, evaluated now unless it was before."""
        from joblib import Parallel, delayed

        new = [size for size in dict.fromkeys(sizes) if size not in self.done]
        tasks = [(size, repeat) for size in new for repeat in range(self.repeats)]
        run = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")
        with progress.bar("Trying group sizes", len(tasks)) as advance:
            for trial, (size, _) in zip(run(delayed(self._trial)(*task) for task in tasks), tasks):
                if not np.isfinite(trial.utility):
                    raise DataError(f"the scorer gave {trial.utility} for k={size}, not a number")
                self.done.setdefault(size, []).append(trial)
                advance(1, note=f"k={size}")
        return [float(np.mean([t.utility for t in self.done[size]])) for size in sizes]

    def _trial(self, size: int, repeat: int) -> Trial:
        rng = np.random.default_rng([self.seed, size, repeat])
        return evaluate(self.template, size, self.split, self.miner, self.scorer, rng)

    def points(self) -> list[Point]:
        return [self._point(size) for size in sorted(self.done)]

    def _point(self, size: int) -> Point:
        trials = self.done[size]
        utility = float(np.mean([t.utility for t in trials]))
        return Point(
            size,
            utility,
            float(np.std([t.utility for t in trials])),
            _kept(utility, self.baseline),
            float(np.mean([t.privacy for t in trials])),
            float(np.mean([t.risk for t in trials])),
            float(np.sum([t.seconds for t in trials])),
        )

    def class_results(self) -> pl.DataFrame:
        import polars as pl

        rows = [
            {"k": size, "class": str(label), "utility": float(np.mean(values))}
            for size in sorted(self.done)
            for label, values in zip(
                self.split.labels.tolist(), zip(*(t.class_utilities for t in self.done[size]))
            )
        ]
        return pl.DataFrame(rows, schema={"k": pl.Int64, "class": pl.String, "utility": pl.Float64})


def _kept(utility: float, baseline: float) -> float:
    """The share of the original's utility that is left; of one below zero (an error), too.

    >>> _kept(0.9, 1.0), _kept(-1.1, -1.0)
    (0.9, 0.8999999999999999)
    """
    if baseline == 0:
        return float("nan")
    return utility / baseline if baseline > 0 else 2 - utility / baseline


def default_miner(classes: bool) -> Any:
    """One nearest neighbour on standardised columns, as in paper 001."""
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    nearest = KNeighborsClassifier(1) if classes else KNeighborsRegressor(1)
    return make_pipeline(StandardScaler(), nearest)


def as_scorer(scoring: Any, classes: bool) -> Callable[..., float]:
    """A scorer from its name; accuracy or R2 by default."""
    from sklearn.metrics import get_scorer, get_scorer_names

    if callable(scoring):
        return scoring
    name = "accuracy" if classes else "r2"
    if scoring is not None and scoring not in get_scorer_names():
        raise ParameterError(
            f"'scoring' of GroupSizeSearch is no scorer of scikit-learn: "
            f"{nearest_name(str(scoring), get_scorer_names())}"
        )
    found: Callable[..., float] = get_scorer(scoring or name)
    return found


def check_miner(miner: Any) -> Any:
    """A miner, if it can learn and predict."""
    if isinstance(miner, type) or not all(hasattr(miner, name) for name in ("fit", "predict")):
        raise ParameterError(
            "GroupSizeSearch: 'miner' must be a scikit-learn classifier or regressor, not a "
            f"{type(miner).__name__}"
        )
    return miner
