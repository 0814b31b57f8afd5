"""Mining condensed groups directly: classes and clusters from counts, means and covariances.

No pseudo-data are drawn, so nothing is lost to chance. Sums of groups are exact: what rests on the
moments of a class (naive Bayes, one normal distribution) comes out as on the records themselves.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from tulle._checks import check_choice, check_int
from tulle._choices import GROUP_RULES
from tulle._moments import GroupMoments
from tulle._random import RandomState, as_generator
from tulle._threads import models_on_one
from tulle._types import Floats, Ints
from tulle.condense._estimators import note_features, takes_any_table
from tulle.condense.class_condenser import ClassCondenser
from tulle.condense.condenser import Condenser
from tulle.errors import DataError, ParameterError
from tulle.table._frames import enter

_FLOOR = 1e-9  # of the widest dimension's variance, added to every variance (as GaussianNB does)


class GroupClassifier(ClassifierMixin, BaseEstimator):
    """Classify records by the condensed groups of each class, without pseudo-data.

    Parameters
    ----------
    condenser : ClassCondenser, optional
        Condenses the training records; ``ClassCondenser()`` by default.
    rule : {"nearest", "bayes", "normal"}
        ``"nearest"``: the class of the nearest group; ``"bayes"``: Gaussian naive Bayes on the
        moments of each class; ``"normal"``: one normal distribution for each class, with its
        covariance.

    Attributes
    ----------
    classes_ : ndarray
        The classes that were condensed.
    condenser_ : ClassCondenser
        Fitted: statistics of groups, no records.

    What may leave
    --------------
    Predictions. The fitted object holds statistics of groups, like the condenser.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tulle import ClassCondenser, GroupClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GroupClassifier(ClassCondenser(k=10, random_state=0)).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    def __init__(self, condenser: ClassCondenser | None = None, *, rule: str = "nearest") -> None:
        self.condenser = condenser
        self.rule = rule

    def fit(self, X: Any, y: Any) -> Self:
        """Condense the training records and keep the groups of each class.

        Parameters
        ----------
        X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
            The records.
        y : array-like
            Their classes.

        Returns
        -------
        self
        """
        template = ClassCondenser() if self.condenser is None else self.condenser
        if not isinstance(template, ClassCondenser):
            raise ParameterError(
                "'condenser' of GroupClassifier must be a ClassCondenser. Got a "
                f"{type(template).__name__}."
            )
        if y is None:
            raise DataError("requires y to be passed, but the target y is None")
        template = clone(template).set_params(condenser=_of_moments(template.condenser))
        self.fit_groups(template.fit(X, column_or_1d(y, warn=True)))
        validate_data(self, X, skip_check_array=True)
        return self

    def fit_groups(self, condenser: ClassCondenser) -> Self:
        """Take the groups of a condenser that is fitted already.

        Parameters
        ----------
        condenser : ClassCondenser
            Fitted, with classes that are not pooled.

        Returns
        -------
        self
        """
        check_choice("GroupClassifier", "rule", self.rule, GROUP_RULES)
        check_is_fitted(condenser, "groups_")
        if any(len(classes) > 1 for classes in condenser._units):
            raise DataError(
                "classes that are pooled have no groups of their own: condense with "
                "small_classes='suppress', or a smaller k"
            )
        self.condenser_ = condenser
        _adopt_features(self, condenser)
        places, self._owners = np.unique(condenser.group_classes_, return_inverse=True)
        self.classes_, self._groups = condenser.classes_[places], condenser.moments_
        return self

    def predict(self, X: Any) -> Any:
        """Return the class of each record.

        Parameters
        ----------
        X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
            Records with the columns of ``fit``.

        Returns
        -------
        ndarray
        """
        best = self._scores(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
            Records with the columns of ``fit``.

        Returns
        -------
        ndarray (records, classes)
            For ``"nearest"``, 1 for the class of the nearest group.
        """
        scores = self._scores(X)
        if self.rule == "nearest":
            return np.eye(len(self.classes_))[scores.argmax(axis=1)]
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self, "condenser_")
        records = _encoded(self, self.condenser_, X)
        if self.rule == "nearest":
            return _nearest(records, self._groups.means, self._owners, len(self.classes_))
        by_class = self._groups.merged(self._owners)
        covariances = by_class.covariances
        if self.rule == "bayes":
            covariances = covariances * np.eye(covariances.shape[1])
        covariances = covariances + _floor(self._groups) * np.eye(covariances.shape[1])
        priors = np.log(by_class.counts / by_class.counts.sum())
        return _normal(records, by_class.means, covariances) + priors

    def __sklearn_tags__(self) -> Tags:
        return takes_any_table(super().__sklearn_tags__())


class GroupKMeans(BaseEstimator):
    """Find clusters of records by clustering their condensed groups, without pseudo-data.

    Groups count as many times as they have records; what records lie away from the mean of their
    group is added to the error, so that ``inertia_`` is exactly that of all records if each is in
    the cluster of its group.

    Parameters
    ----------
    n_clusters : int
        How many clusters.
    condenser : Condenser, optional
        Condenses the records; ``Condenser()`` by default.
    n_init : int
        Starts, of which the best counts.
    random_state : int, Generator, RandomState or None
        None takes the operating system's entropy.

    Attributes
    ----------
    cluster_centers_ : ndarray (clusters, d)
        On the standardised dimensions of the condenser.
    group_labels_ : ndarray (groups,)
        The cluster of each group.
    inertia_ : float
        The sum of squared distances of all records to their centre.
    condenser_ : Condenser
        Fitted.

    What may leave
    --------------
    Centres of clusters with many records, and predictions. The fitted object holds statistics of
    groups, like the condenser.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tulle import Condenser, GroupKMeans
    >>> X, _ = load_iris(return_X_y=True)
    >>> model = GroupKMeans(3, Condenser(k=10, random_state=0), random_state=0).fit(X)
    >>> model.predict(X).shape
    (150,)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        condenser: Condenser | None = None,
        *,
        n_init: int = 10,
        random_state: RandomState = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.condenser = condenser
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Condense the records and cluster their groups.

        Parameters
        ----------
        X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
            The records.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        template = Condenser() if self.condenser is None else self.condenser
        if not isinstance(template, Condenser):
            raise ParameterError(
                f"'condenser' of GroupKMeans must be a Condenser. Got a {type(template).__name__}."
            )
        self.fit_groups(_of_moments(template).fit(X))
        validate_data(self, X, skip_check_array=True)
        return self

    def fit_groups(self, condenser: Condenser) -> Self:
        """Cluster the groups of a condenser that is fitted already.

        Parameters
        ----------
        condenser : Condenser
            Fitted, without a target.

        Returns
        -------
        self
        """
        from sklearn.cluster import KMeans

        check_int("GroupKMeans", "n_clusters", self.n_clusters, 1)
        check_int("GroupKMeans", "n_init", self.n_init, 1)
        check_is_fitted(condenser, "groups_")
        groups = condenser.moments_
        count = min(self.n_clusters, len(np.unique(groups.means, axis=0)))
        seed = int(as_generator(self.random_state).integers(2**31))
        with models_on_one():
            found = KMeans(count, n_init=self.n_init, random_state=seed).fit(
                groups.means, sample_weight=groups.counts
            )
        self.condenser_ = condenser
        _adopt_features(self, condenser)
        self.cluster_centers_ = found.cluster_centers_
        self.group_labels_ = found.labels_.astype(np.int64)
        self.inertia_ = float(found.inertia_ + groups.within.sum())
        return self

    def predict(self, X: Any) -> Ints:
        """Return the cluster of each record: that of the nearest centre.

        Parameters
        ----------
        X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
            Records with the columns of ``fit``.

        Returns
        -------
        ndarray of int
        """
        check_is_fitted(self, "condenser_")
        centres = self.cluster_centers_
        records = _encoded(self, self.condenser_, X)
        return _nearest(records, centres, np.arange(len(centres)), len(centres)).argmax(axis=1)

    def __sklearn_tags__(self) -> Tags:
        return takes_any_table(super().__sklearn_tags__())


def _adopt_features(model: Any, condenser: Any) -> None:
    """Know the columns that the condenser was fitted on."""
    plain = not hasattr(condenser, "feature_names_in_")
    unnamed = [""] * condenser.n_features_in_
    note_features(model, unnamed if plain else list(condenser.feature_names_in_), plain=plain)


def _encoded(model: Any, condenser: Any, X: Any) -> Floats:
    if getattr(X, "ndim", 2) == 1:
        raise DataError("X has 1 dimension instead of 2. Reshape your data: one row for a record")
    validate_data(model, X, skip_check_array=True, reset=False)
    encoder = condenser._encoder
    return np.asarray(encoder.encode_release(enter(X)[0]) / encoder.scales_)


def _of_moments(template: Condenser | None) -> Condenser:
    """Return an unfitted condenser that keeps the moments of groups: what is mined here."""
    condenser: Condenser = Condenser() if template is None else clone(template)
    if condenser._keeps_shape:
        condenser.set_params(synthesis="uniform")
    return condenser


def _floor(groups: GroupMoments) -> float:
    variances = np.diag(groups.pooled().covariances[0])
    return _FLOOR * float(variances.max(initial=0)) + np.finfo(float).tiny


def _nearest(records: Floats, means: Floats, owners: Ints, count: int) -> Floats:
    """Return for each record and owner minus the squared distance to the nearest mean."""
    scores = np.full((len(records), count), -np.inf)
    squares = (records**2).sum(axis=1)[:, None] - 2 * records @ means.T + (means**2).sum(axis=1)
    for owner in range(count):
        scores[:, owner] = -squares[:, owners == owner].min(axis=1)
    return scores


def _normal(records: Floats, means: Floats, covariances: Floats) -> Floats:
    """Return the logarithm of normal densities, up to a constant, (records, classes)."""
    scores = np.empty((len(records), len(means)))
    for place, (mean, covariance) in enumerate(zip(means, covariances)):
        lower = np.linalg.cholesky(covariance)
        away = np.linalg.solve(lower, (records - mean).T)
        scores[:, place] = -0.5 * (away**2).sum(axis=0) - np.log(np.diag(lower)).sum()
    return scores
