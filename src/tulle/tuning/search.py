"""The search for the group size: try sizes, weigh utility against privacy, say why."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from tulle import _progress as progress
from tulle._checks import check_choice, check_int, check_real
from tulle._choices import STRATEGIES
from tulle._random import RandomState, as_generator, spawn
from tulle.condense._classes import approximate_gcd
from tulle.condense._estimators import takes_any_table
from tulle.condense._levels import locate_levels
from tulle.condense.class_condenser import ClassCondenser
from tulle.condense.condenser import Condenser
from tulle.errors import DataError, ParameterError, PrivacyError, nearest_name
from tulle.table._frames import enter
from tulle.table.schema import Column, Schema
from tulle.tuning._evaluation import Split, Trial, are_classes, baseline, evaluate

# Which group sizes to try: the papers' rule, a grid, or the approximate GCD alone. A strategy
# asks ``utility(sizes)`` for sizes and says which one it settles on. The caller caches, so that a
# size is condensed once however often it is asked for.

Utilities = Callable[[Sequence[int]], list[float]]


def rule_search(utilities: Utilities, low: int, high: int, gap: float) -> int:
    """Halve the range on a logarithmic scale (papers/001, Figure 6).

    As long as utility falls by more than ``gap`` (a share of that at the lower end) between the
    ends, the upper end comes down to the geometric middle; else the lower end goes up to it, for
    more privacy. The figure as printed never ends once the ends are neighbours, because rounding
    gives one of them back: that is where this search stops. It errs towards utility: a middle that
    is too large takes everything above the last good middle away.

    >>> rule_search(lambda sizes: [1.0 if size <= 60 else 0.5 for size in sizes], 10, 500, 0.05)
    26
    """
    if low >= high:
        utilities([low])
        return low
    while True:
        at_low, at_high = utilities([low, high])
        middle = round(math.sqrt(low * high))
        if middle in (low, high):
            return middle
        utilities([middle])
        if abs(at_low - at_high) > gap * abs(at_low):  # errors are scores below zero
            high = middle
        else:
            low = middle


def grid_sizes(low: int, high: int, count: int) -> list[int]:
    """Return ``count`` sizes in equal ratios from ``low`` to ``high``, both ends among them.

    >>> grid_sizes(10, 1000, 3)
    [10, 100, 1000]
    """
    if count < 2 or low >= high:
        return [low]
    ratio = (high / low) ** (1 / (count - 1))
    return sorted({min(high, round(low * ratio**step)) for step in range(count)})


def trade_off(sizes: Sequence[int], utilities: Sequence[float], gap: float) -> int:
    """Return the largest size whose utility is within ``gap`` of the best: what a person would
    point at.

    >>> trade_off([10, 20, 40], [0.90, 0.89, 0.70], 0.05)
    20
    """
    best = max(utilities)
    return max(size for size, u in zip(sizes, utilities) if best - u <= gap * abs(best))


# Which of the evaluated sizes to take, and why, in one sentence.


@dataclass(frozen=True)
class SizePoint:
    """The averages of one size over its repeated releases."""

    k: int
    utility: float
    utility_std: float
    ratio: float  # utility over that of the original
    privacy: float
    interval: float
    risk: float
    seconds: float


@dataclass(frozen=True)
class Limits:
    """What the user will not go beyond."""

    max_risk: float | None = None
    min_accuracy_ratio: float | None = None

    @property
    def given(self) -> bool:
        return self.max_risk is not None or self.min_accuracy_ratio is not None

    def excess(self, point: SizePoint) -> float:
        """Return by how much a point misses the limits; 0 inside."""
        risk = 0.0 if self.max_risk is None else _beyond(point.risk - self.max_risk)
        asked = self.min_accuracy_ratio
        return risk + (0.0 if asked is None else _beyond(asked - point.ratio))

    def words(self) -> str:
        parts = []
        if self.max_risk is not None:
            parts.append(f"risk at most {self.max_risk:g}")
        if self.min_accuracy_ratio is not None:
            parts.append(f"at least {self.min_accuracy_ratio:g} of the original's utility")
        return " and ".join(parts)


def _beyond(excess: float) -> float:
    """Return what is beyond a limit; what could not be measured is beyond every limit."""
    return math.inf if math.isnan(excess) else max(0.0, excess)


def choose(
    points: Sequence[SizePoint], settled: int | None, gap: float, limits: Limits
) -> tuple[int, str]:
    """Choose the size and give the reason. ``settled`` is where a strategy ended, None for a
    grid.
    """
    if limits.given:
        return _inside(points, gap, limits)
    if len(points) == 1:
        return points[0].k, _sentence(points[0], "it is the only size that was tried")
    # the rule compares neighbours only: noise may lead it to a size that has lost too much
    upto = [point for point in points if settled is None or point.k <= settled]
    k = trade_off([p.k for p in upto], [p.utility for p in upto], gap)
    how = "tried" if settled is None else f"tried up to {settled}, where the rule ended,"
    why = f"it is the largest size {how} whose utility is within {gap:.0%} of the best"
    return k, _sentence(_at(points, k), why)


def _inside(points: Sequence[SizePoint], gap: float, limits: Limits) -> tuple[int, str]:
    allowed = [point for point in points if limits.excess(point) == 0]
    if not allowed:
        nearest = min(points, key=limits.excess)
        raise PrivacyError(
            f"none of the {len(points)} group sizes tried satisfies {limits.words()}: the nearest "
            f"is k={nearest.k} with risk {nearest.risk:.3f} and {nearest.ratio:.3f} of the "
            "original's utility. Loosen a limit, or try more sizes"
        )
    k = trade_off([p.k for p in allowed], [p.utility for p in allowed], gap)
    why = (
        f"of the {len(allowed)} sizes (of {len(points)} tried) with {limits.words()} it is the "
        f"largest whose utility is within {gap:.0%} of the best"
    )
    return k, _sentence(_at(points, k), why)


def _at(points: Sequence[SizePoint], k: int) -> SizePoint:
    return next(point for point in points if point.k == k)


def _sentence(point: SizePoint, why: str) -> str:
    share = (
        "the original's is 0" if math.isnan(point.ratio) else f"{point.ratio:.0%} of the original's"
    )
    return (
        f"k={point.k} because {why}: utility {point.utility:.3f} ({share}), "
        f"interval {point.interval:.2f} (uncut), linkage risk {point.risk:.3f}."
    )


# The condenser that a search is given: whether it will do, and what it knows of the columns.


def check_condenser(template: Any) -> None:
    """Refuse a condenser that has no group size to search, or no release."""
    wanted = ("fit", "sample", "get_params")
    if not all(hasattr(template, name) for name in wanted) or "k" not in template.get_params():
        raise ParameterError(
            f"GroupSizeSearch: 'estimator' must be a condenser with fit, sample and k, "
            f"not {type(template).__name__}"
        )


def columns_of(template: Any) -> Any:
    """Return what the condenser knows about the columns."""
    inner = getattr(template, "condenser", template)
    return getattr(inner, "columns", None)


def with_columns(template: Any, columns: list[Column]) -> Any:
    """Return the condenser, which then knows the column that holds the levels."""
    if not isinstance(template, ClassCondenser):
        return clone(template).set_params(columns=columns)
    inner = Condenser() if template.condenser is None else clone(template.condenser)
    return clone(template).set_params(condenser=inner.set_params(columns=columns))


# The releases made during a search: each size once, a seed for each size and repeat.


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
        """Return the mean utility of each size, evaluating those that are new."""
        from joblib import Parallel, delayed

        new = [size for size in dict.fromkeys(sizes) if size not in self.done]
        tasks = [(size, repeat) for size in new for repeat in range(self.repeats)]
        run = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")
        with progress.bar("Trying group sizes", len(tasks)) as advance:
            for trial, (size, _) in zip(run(delayed(self._trial)(*task) for task in tasks), tasks):
                if not np.isfinite(trial.utility):
                    raise DataError(
                        f"the scorer returned {trial.utility} for k={size}, not a number"
                    )
                self.done.setdefault(size, []).append(trial)
                advance(1, note=f"k={size}")
        return [float(np.mean([t.utility for t in self.done[size]])) for size in sizes]

    def _trial(self, size: int, repeat: int) -> Trial:
        rng = np.random.default_rng([self.seed, size, repeat])
        return evaluate(self.template, size, self.split, self.miner, self.scorer, rng)

    def points(self) -> list[SizePoint]:
        return [self._point(size) for size in sorted(self.done)]

    def _point(self, size: int) -> SizePoint:
        trials = self.done[size]
        utility = float(np.mean([t.utility for t in trials]))
        return SizePoint(
            size,
            utility,
            float(np.std([t.utility for t in trials])),
            _kept(utility, self.baseline),
            float(np.mean([t.privacy for t in trials])),
            float(np.mean([t.interval for t in trials])),
            float(np.mean([t.risk for t in trials])),
            float(np.sum([t.seconds for t in trials])),
        )

    def class_results(self) -> pl.DataFrame:
        rows = [
            {"k": size, "class": str(label), "utility": float(np.mean(values))}
            for size in sorted(self.done)
            for label, values in zip(
                self.split.labels.tolist(), zip(*(t.class_utilities for t in self.done[size]))
            )
        ]
        return pl.DataFrame(rows, schema={"k": pl.Int64, "class": pl.String, "utility": pl.Float64})


def _kept(utility: float, baseline: float) -> float:
    """Return the share of the original's utility that is left, also of one below zero (an error).

    >>> _kept(0.9, 1.0), _kept(-1.1, -1.0)
    (0.9, 0.8999999999999999)
    """
    if baseline == 0:
        return float("nan")
    return utility / baseline if baseline > 0 else 2 - utility / baseline


def miner_named(name: str, classes: bool) -> Any:
    """Return a miner on standardised columns; one nearest neighbour is that of paper 001."""
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, SVR
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    miners: dict[str, tuple[Any, Any]] = {
        "nearest": (KNeighborsClassifier(1), KNeighborsRegressor(1)),
        "svm": (SVC(), SVR()),
        "tree": (
            DecisionTreeClassifier(min_samples_leaf=5, random_state=0),
            DecisionTreeRegressor(min_samples_leaf=5, random_state=0),
        ),
        "linear": (LogisticRegression(max_iter=1000), LinearRegression()),
    }
    return make_pipeline(StandardScaler(), miners[name][0 if classes else 1])


def as_scorer(scoring: Any, classes: bool) -> Callable[..., float]:
    """Return a scorer by its name; balanced accuracy or R2 by default.

    Plain accuracy calls a model good that never finds a rare class.
    """
    from sklearn.metrics import get_scorer, get_scorer_names

    if callable(scoring):
        return scoring
    if scoring is None and classes:
        return _balanced
    name = "r2"
    if scoring is not None and scoring not in get_scorer_names():
        raise ParameterError(
            "'scoring' of GroupSizeSearch is not a scikit-learn scorer: "
            f"{nearest_name(str(scoring), get_scorer_names())}"
        )
    found: Callable[..., float] = get_scorer(scoring or name)
    return found


def _balanced(model: Any, X: Any, y: Any) -> float:
    """Return the mean share of each class that a model finds; scikit-learn's warns, and quotes."""
    found = np.asarray(model.predict(X) == y)
    return float(np.mean([found[y == label].mean() for label in np.unique(y)]))


def check_miner(miner: Any) -> Any:
    """Return a miner, if it can learn and predict."""
    if isinstance(miner, type) or not all(hasattr(miner, name) for name in ("fit", "predict")):
        raise ParameterError(
            "GroupSizeSearch: 'miner' must be a scikit-learn classifier or regressor, not a "
            f"{type(miner).__name__}"
        )
    return miner


GRID = 12
_MOST_SIZES = 50  # that brute force tries
_LEAST = 5  # the smallest size, unless one is given


class GroupSizeSearch(BaseEstimator):
    """Find the group size with the most privacy that costs little utility.

    Each size is condensed ``repeats`` times from training records, a miner learns from the
    release and is scored on held-out originals, and the release is attacked.

    Parameters
    ----------
    estimator : ClassCondenser or Condenser, optional
        What makes the release; a ``ClassCondenser()`` by default. Its ``k`` is what is searched.
    strategy : {"rule", "grid", "gcd"}
        ``"rule"`` halves the range by the rule of paper 001, a handful of sizes; ``"grid"`` tries
        ``sizes``; ``"both"`` follows the rule and then tries every multiple of the smallest size,
        the paper's brute force, to compare; ``"gcd"`` takes the approximate GCD of the class sizes
        and tries only that.
    sizes : int or sequence of int
        For the grid: how many sizes, or which (those that no class can have are left out).
    miner : scikit-learn classifier or regressor, optional
        Standardisation and one nearest neighbour by default.
    scoring : str or callable, optional
        A scikit-learn scorer, such as ``"accuracy"`` (as in paper 001) or ``"roc_auc"``; by
        default the mean over the classes of the share that is found (balanced accuracy), or R2.
    repeats : int
        Releases of each size, averaged.
    accuracy_gap : float
        The share of utility that is worth more privacy (``t_a`` in the paper).
    min_group : int, optional
        The smallest size (``t``). By default that of the condenser, else a twentieth of the
        smallest class, at least 5.
    max_group : int, optional
        The largest size. By default the smallest class, or half of the records without classes.
    max_risk : float, optional
        No size whose linkage attack finds more than this share of people over the control.
    min_accuracy_ratio : float, optional
        No size whose utility is below this share of that of the original. Of scores below zero
        (errors), 0.95 means that they may grow by 5 %.
    test_size : float
        The share of records held out.
    n_jobs : int, optional
        Threads that try sizes at the same time; the result is the same for any number.
    random_state : int, Generator, RandomState or None
        None takes the operating system's entropy.

    Attributes
    ----------
    best_k_ : int
    settled_k_ : int or None
        Where the strategy itself ended: the paper's ``g3`` for the rule, the GCD; None for a grid.
    best_estimator_ : the condenser with that size, fitted on all records
    reason_ : str
        Why, in one sentence.
    results_ : polars.DataFrame
        A row a size: ``k``, ``utility``, ``utility_std``, ``ratio`` (to the original's utility),
        ``privacy`` (interval width of paper 001, of each column at most its range), ``interval``
        (the same uncut, as the paper prints it), ``risk``, ``seconds``, ``chosen``.
    strategies_ : list of dict
        With ``"both"``, for the rule and for brute force: ``strategy``, the ``k`` where it ends,
        ``sizes_tried``, ``utility``, ``interval`` and ``seconds``.
    class_results_ : polars.DataFrame
        A row for each size and class: ``k``, ``class``, ``utility``.
    baseline_ : float
        The utility of the training records themselves.

    What may leave
    --------------
    What ``sample`` returns. The table of results is made of averages over all held-out records.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tulle import GroupSizeSearch
    >>> X, y = load_iris(return_X_y=True)
    >>> search = GroupSizeSearch(min_group=5, random_state=0).fit(X, y)
    >>> 5 <= search.best_k_ <= 45
    True
    >>> X_new, y_new = search.sample()
    """

    def __init__(
        self,
        estimator: Any = None,
        strategy: str = "rule",
        *,
        sizes: int | Sequence[int] = GRID,
        miner: Any = None,
        scoring: str | Callable[..., float] | None = None,
        repeats: int = 3,
        accuracy_gap: float = 0.05,
        min_group: int | None = None,
        max_group: int | None = None,
        max_risk: float | None = None,
        min_accuracy_ratio: float | None = None,
        test_size: float = 0.1,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.strategy = strategy
        self.sizes = sizes
        self.miner = miner
        self.scoring = scoring
        self.repeats = repeats
        self.accuracy_gap = accuracy_gap
        self.min_group = min_group
        self.max_group = max_group
        self.max_risk = max_risk
        self.min_accuracy_ratio = min_accuracy_ratio
        self.test_size = test_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, levels: Any = None) -> Self:
        """Try sizes on a part of the records, choose one, and condense all records with it.

        Parameters
        ----------
        X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
            The table.
        y : array-like
            The class or the number to predict.
        levels : array-like of int >= 1, or the name of a column of ``X``, optional
            The smallest group that each record accepts: where it is above a size, the record gets
            the larger group.

        Returns
        -------
        self
        """
        self._check_parameters()
        validate_data(self, X, skip_check_array=True)
        template = ClassCondenser() if self.estimator is None else self.estimator
        check_condenser(template)
        if y is None:
            raise DataError(
                "requires y to be passed, but the target y is None: utility is measured on it"
            )
        classes = isinstance(template, ClassCondenser) or are_classes(y)
        small = getattr(template, "small_classes", "error") != "error"

        rng = as_generator(self.random_state)
        seed = int(rng.integers(2**31))
        frame, exit = enter(X)
        schema = Schema.of(columns_of(template), frame)
        named = isinstance(levels, str)
        levels, schema = locate_levels(frame, levels, schema, plain=exit.plain)
        if named:
            template = with_columns(template, list(schema))
        split = Split.of(
            frame,
            exit,
            y,
            levels,
            schema,
            test_size=self.test_size,
            classes=classes,
            seed=seed,
            small=small,
        )
        low, high, counts = self._range(split, template, classes)
        trials = Trials(
            template,
            split,
            miner_named("nearest", classes) if self.miner is None else check_miner(self.miner),
            as_scorer(self.scoring, classes),
            repeats=self.repeats,
            n_jobs=self.n_jobs,
            seed=seed,
        )
        self.strategies_: list[dict[str, Any]] = []
        settled = self._run(trials, low, high, counts)

        points = trials.points()
        limits = Limits(self.max_risk, self.min_accuracy_ratio)
        self.best_k_, self.reason_ = choose(points, settled, self.accuracy_gap, limits)
        self.settled_k_ = settled
        self.baseline_ = trials.baseline
        self.results_ = _results(points, self.best_k_)
        self.class_results_ = trials.class_results()
        # the release is drawn from as many random bits as any other, not from the trials' seed
        self.best_estimator_ = clone(template).set_params(
            k=self.best_k_, random_state=spawn(rng, 1)[0]
        )
        self.best_estimator_.fit(X, y, split.demands(self.best_k_))
        return self

    def sample(self, n_samples: int | None = None) -> Any:
        """Draw new records and targets from the condenser of the chosen size.

        Parameters
        ----------
        n_samples : int, optional
            How many; by default as many as were condensed.

        Returns
        -------
        pair of tables
            ``(X_new, y_new)``.
        """
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.sample(n_samples)

    def chart(self) -> Any:
        """Draw utility and privacy over the size.

        Returns
        -------
        altair.Chart
        """
        from tulle._charts import chart

        check_is_fitted(self, "results_")
        return chart("over_k", self.curve())

    def curve(self, *, classes: bool = False) -> list[dict[str, Any]]:
        """Return utility and privacy of each size, or the utility of each class, to draw.

        Parameters
        ----------
        classes : bool
            Whether the classes are wanted.

        Returns
        -------
        list of dict
            Rows with ``curve`` (the class), ``k``, ``measure`` and ``value``.
        """
        results = self.class_results_ if classes else self.results_
        return [
            {"curve": str(row.get("class", "")), "k": row["k"], "measure": measure,
             "value": row[measure]}
            for measure in ("utility", "privacy")
            for row in results.to_dicts()
            if row.get(measure) is not None
        ]  # fmt: skip

    def _check_parameters(self) -> None:
        owner = "GroupSizeSearch"
        check_choice(owner, "strategy", self.strategy, STRATEGIES)
        check_int(owner, "repeats", self.repeats, 1)
        check_real(owner, "accuracy_gap", self.accuracy_gap, 0, 1)
        check_real(owner, "test_size", self.test_size, 0, 1, closed="neither")
        for name in ("min_group", "max_group"):
            if getattr(self, name) is not None:
                check_int(owner, name, getattr(self, name), 2)
        for name in ("max_risk", "min_accuracy_ratio"):
            if getattr(self, name) is not None:
                check_real(owner, name, getattr(self, name), 0)
        if isinstance(self.sizes, Iterable):
            for size in self.sizes:
                check_int(owner, "sizes", size, 2)
        else:
            check_int(owner, "sizes", self.sizes, 1)
        if self.min_group and self.max_group and self.min_group > self.max_group:
            raise ParameterError(
                f"min_group={self.min_group} is above max_group={self.max_group}",
                parameter="min_group",
            )

    def _range(self, split: Split, template: Any, classes: bool) -> tuple[int, int, list[int]]:
        """Return the smallest and largest size, and the class sizes, of the people trained on.

        Classes that the condenser withholds or pools because they are small have no say.
        """
        counts = split.class_sizes()
        least = max(self.min_group or 0, getattr(template, "min_group", None) or 0)
        if getattr(template, "small_classes", "error") != "error":
            counts = [count for count in counts if count >= (least or _LEAST)] or counts
        smallest = min(counts)
        top = self.max_group or (smallest if classes else smallest // 2)
        usual = max(_LEAST, round(smallest / 20))
        low = least or min(usual, self.max_group or usual)
        if low > smallest or low > top:
            what = "the smallest class" if classes else "the table"
            raise DataError(
                f"{what} has {smallest} people to train on, too few for groups of {low} or more: "
                "lower min_group, or leave out or pool the small classes"
            )
        return low, min(top, smallest), counts

    def _run(self, trials: Trials, low: int, high: int, counts: list[int]) -> int | None:
        """Evaluate sizes; return the one that the strategy settles on, None for the grid."""
        if self.strategy == "gcd":
            settled = min(approximate_gcd(counts, low), high)
            trials.utilities([settled])
            return settled
        if self.strategy in ("rule", "both"):
            settled = rule_search(trials.utilities, low, high, self.accuracy_gap)
            if self.strategy == "both":
                self._compare(trials, settled, low, high)
            return settled
        if isinstance(self.sizes, Iterable):
            low = low if self.min_group else 2  # sizes that are given are meant
            sizes = sorted({int(size) for size in self.sizes if low <= size <= high})
        else:
            sizes = grid_sizes(low, high, self.sizes)
        if not sizes:
            raise DataError(f"none of the sizes is between {low} and {high}: choose others")
        trials.utilities(sizes)
        return None

    def _compare(self, trials: Trials, settled: int, low: int, high: int) -> None:
        """Try every multiple of the smallest size too, and keep what rule and brute force cost."""
        by_rule = list(trials.done)
        step = max(low, -(-high // _MOST_SIZES))
        sizes = list(range(low, high + 1, step))
        utilities = trials.utilities(sizes)
        best = trade_off(sizes, utilities, self.accuracy_gap)
        points = {point.k: point for point in trials.points()}
        self.strategies_ = [
            {
                "strategy": name,
                "k": k,
                "sizes_tried": len(tried),
                "utility": points[k].utility,
                "interval": points[k].interval,
                "seconds": sum(points[size].seconds for size in tried),
            }
            for name, k, tried in (("rule", settled, by_rule), ("brute force", best, sizes))
        ]

    def __sklearn_tags__(self) -> Tags:
        tags = takes_any_table(super().__sklearn_tags__())
        tags.target_tags.required = True
        return tags


def _results(points: Sequence[SizePoint], best: int) -> pl.DataFrame:
    from dataclasses import asdict

    return pl.DataFrame([asdict(point) | {"chosen": point.k == best} for point in points])
