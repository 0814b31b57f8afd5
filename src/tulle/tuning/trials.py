"""The releases made during a search: each size once, a seed for each size and repeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from tulle import progress
from tulle.tuning.choice import Point
from tulle.tuning.evaluation import Split, Trial, baseline, evaluate

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
                self.done.setdefault(size, []).append(trial)
                advance(1, note=f"k={size}")
        return [float(np.mean([t.utility for t in self.done[size]])) for size in sizes]

    def _trial(self, size: int, repeat: int) -> Trial:
        rng = np.random.default_rng([self.seed, size, repeat])
        condenser = clone(self.template).set_params(k=size)
        return evaluate(condenser, self.split, self.miner, self.scorer, rng)

    def points(self) -> list[Point]:
        return [self._point(size) for size in sorted(self.done)]

    def _point(self, size: int) -> Point:
        trials = self.done[size]
        utility = float(np.mean([t.utility for t in trials]))
        return Point(
            size,
            utility,
            float(np.std([t.utility for t in trials])),
            utility / self.baseline if self.baseline > 0 else float("nan"),
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


def default_miner(classes: bool) -> Any:
    """One nearest neighbour on standardised columns, as in paper 001."""
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    nearest = KNeighborsClassifier(1) if classes else KNeighborsRegressor(1)
    return make_pipeline(StandardScaler(), nearest)


def as_scorer(scoring: Any, classes: bool) -> Callable[..., float]:
    """A scorer from its name; accuracy or R2 by default."""
    from sklearn.metrics import get_scorer

    if callable(scoring):
        return scoring
    found: Callable[..., float] = get_scorer(scoring or ("accuracy" if classes else "r2"))
    return found
