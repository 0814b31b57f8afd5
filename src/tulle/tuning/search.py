"""The search for the group size: try sizes, weigh utility against privacy, say why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from tulle.checks import check_choice, check_int, check_real
from tulle.condense.class_condenser import ClassCondenser
from tulle.condense.gcd import approximate_gcd
from tulle.condense.joint import takes_any_table
from tulle.condense.levels import locate_levels
from tulle.errors import DataError, ParameterError
from tulle.random import RandomState, as_generator, spawn
from tulle.tuning.choice import Limits, Point, choose
from tulle.tuning.splitting import Split, are_classes
from tulle.tuning.strategies import grid_sizes, rule_search
from tulle.tuning.templates import check_condenser, columns_of, with_columns
from tulle.tuning.trials import Trials, as_scorer, check_miner, default_miner

if TYPE_CHECKING:
    import polars as pl

GRID = 12
_LEAST = 5  # the smallest size, unless one is given


class GroupSizeSearch(BaseEstimator):
    """Finds the group size: the most privacy that costs little utility.

    Each size is condensed ``repeats`` times from training records, a miner learns from the
    release and is scored on held-out originals, and the release is attacked.

    Parameters
    ----------
    estimator : ClassCondenser or Condenser, optional
        What makes the release; a ``ClassCondenser()`` by default. Its ``k`` is what is searched.
    strategy : {"rule", "grid", "gcd"}
        ``"rule"`` halves the range by the rule of paper 001, a handful of sizes; ``"grid"`` tries
        ``sizes``; ``"gcd"`` takes the approximate GCD of the class sizes and tries only that.
    sizes : int or sequence of int
        For the grid: how many sizes, or which (those that no class can have are left out).
    miner : scikit-learn classifier or regressor, optional
        Standardisation and one nearest neighbour by default.
    scoring : str or callable, optional
        A scikit-learn scorer; accuracy or R2 by default.
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
    best_estimator_ : the condenser with that size, fitted on all records
    reason_ : str
        Why, in one sentence.
    results_ : polars.DataFrame
        A row a size: ``k``, ``utility``, ``utility_std``, ``ratio`` (to the original's utility),
        ``privacy`` (interval width of paper 001), ``risk``, ``seconds``, ``chosen``.
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
        """Tries sizes on a part of the records, chooses one, and condenses all records with it.

        Records whose ``levels`` (as in :class:`Condenser`) are above a size get the larger groups
        that they ask for, with every size.
        """
        self._check_parameters()
        validate_data(self, X, skip_check_array=True)
        template = ClassCondenser() if self.estimator is None else self.estimator
        check_condenser(template)
        if y is None:
            raise DataError("the search needs a target y: utility is how well it can be predicted")
        classes = isinstance(template, ClassCondenser) or are_classes(y)
        small = getattr(template, "small_classes", "error") != "error"

        rng = as_generator(self.random_state)
        seed = int(rng.integers(2**31))
        levels, columns = locate_levels(X, levels, columns_of(template))
        template = with_columns(template, columns)
        split = Split.of(
            X, y, levels, columns, test_size=self.test_size, classes=classes, seed=seed, small=small
        )
        low, high, counts = self._range(split, template, classes)
        trials = Trials(
            template,
            split,
            default_miner(classes) if self.miner is None else check_miner(self.miner),
            as_scorer(self.scoring, classes),
            repeats=self.repeats,
            n_jobs=self.n_jobs,
            seed=seed,
        )
        settled = self._run(trials, low, high, counts)

        points = trials.points()
        limits = Limits(self.max_risk, self.min_accuracy_ratio)
        self.best_k_, self.reason_ = choose(points, settled, self.accuracy_gap, limits)
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
        """New records and targets from the condenser of the chosen size."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.sample(n_samples)

    def chart(self) -> Any:
        """The frontier of utility and privacy with the chosen size, and both over the size.

        An Altair chart; ``class_curve`` has the rows for one of each class.
        """
        from tulle.charts import chart

        check_is_fitted(self, "results_")
        return chart("curve", self.curve())

    def curve(self) -> list[dict[str, Any]]:
        """The same as rows: size, accuracy, privacy, chosen."""
        names = {"k": "size", "utility": "accuracy", "privacy": "privacy", "chosen": "chosen"}
        return self.results_.select(list(names)).rename(names).to_dicts()

    def class_curve(self) -> list[dict[str, Any]]:
        """The utility of each class as rows: class, size, accuracy."""
        names = {"class": "class", "k": "size", "utility": "accuracy"}
        return self.class_results_.select(list(names)).rename(names).to_dicts()

    def _check_parameters(self) -> None:
        owner = "GroupSizeSearch"
        check_choice(owner, "strategy", self.strategy, ("rule", "grid", "gcd"))
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
                f"{owner}: min_group={self.min_group} is above max_group={self.max_group}"
            )

    def _range(self, split: Split, template: Any, classes: bool) -> tuple[int, int, list[int]]:
        """The smallest and largest size, and the class sizes, of the training records.

        Classes that the condenser withholds or pools because they are small have no say.
        """
        target = split.target[split.train]
        counts = np.unique(target, return_counts=True)[1].tolist() if classes else [len(target)]
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
                f"{what} has {smallest} training records, too few for groups of {low} and more: "
                "lower min_group, or leave out or pool the small classes"
            )
        return low, min(top, smallest), counts

    def _run(self, trials: Trials, low: int, high: int, counts: list[int]) -> int | None:
        """Evaluates sizes; gives the one that the strategy settles on, None for the grid."""
        if self.strategy == "gcd":
            settled = min(approximate_gcd(counts, low), high)
            trials.utilities([settled])
            return settled
        if self.strategy == "rule":
            return rule_search(trials.utilities, low, high, self.accuracy_gap)
        if isinstance(self.sizes, Iterable):
            low = low if self.min_group else 2  # whoever names sizes means them
            sizes = sorted({int(size) for size in self.sizes if low <= size <= high})
        else:
            sizes = grid_sizes(low, high, self.sizes)
        if not sizes:
            raise DataError(f"none of the sizes is between {low} and {high}: give others")
        trials.utilities(sizes)
        return None

    def __sklearn_tags__(self) -> Tags:
        tags = takes_any_table(super().__sklearn_tags__())
        tags.target_tags.required = True
        return tags


def _results(points: Sequence[Point], best: int) -> pl.DataFrame:
    from dataclasses import asdict

    import polars as pl

    return pl.DataFrame([asdict(point) | {"chosen": point.k == best} for point in points])
