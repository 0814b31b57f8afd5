"""A scikit-learn model that learns from a condensed training set, for pipelines and searches."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_regressor
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from tulle.condense.class_condenser import ClassCondenser
from tulle.condense.condenser import Condenser


def _model_has(name: str) -> Any:
    def check(trained: CondensedTraining) -> bool:
        getattr(getattr(trained, "model_", trained.model), name)
        return True

    return check


class CondensedTraining(MetaEstimatorMixin, BaseEstimator):
    """Train a scikit-learn model on a condensed training set, and test it on originals.

    In ``cross_val_score`` and ``GridSearchCV``, every training part is condensed on its own, and
    the part that is held out stays as it is: the score is that of someone who gets the release.

    Parameters
    ----------
    model : scikit-learn classifier or regressor
        What is trained.
    condenser : ClassCondenser or Condenser, optional
        Makes the training set; ``ClassCondenser()`` for a classifier and ``Condenser()`` for a
        regressor by default. Its parameters can be searched: ``condenser__k``.

    Attributes
    ----------
    model_ : the trained model
    condenser_ : the fitted condenser
    classes_ : ndarray
        The classes, if the model has them.

    What may leave
    --------------
    The trained model: it saw pseudo-records only. The fitted condenser is for the owner.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from tulle import ClassCondenser, CondensedTraining
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CondensedTraining(
    ...     DecisionTreeClassifier(random_state=0), ClassCondenser(k=10, random_state=0)
    ... )
    >>> bool(cross_val_score(model, X, y, cv=3).mean() > 0.8)
    True
    """

    def __init__(self, model: Any, condenser: ClassCondenser | Condenser | None = None) -> None:
        self.model = model
        self.condenser = condenser

    def fit(self, X: Any, y: Any) -> Self:
        """Condense the training records and train the model on the release.

        Parameters
        ----------
        X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
            The records.
        y : array-like
            What is predicted.

        Returns
        -------
        self
        """
        validate_data(self, X, skip_check_array=True)
        if self.condenser is None:
            made = Condenser() if is_regressor(self.model) else ClassCondenser()
        else:
            made = clone(self.condenser)
        X_new, y_new = made.fit_resample(X, column_or_1d(y, warn=True))
        self.condenser_ = made
        self.model_ = clone(self.model).fit(X_new, y_new)
        if hasattr(self.model_, "classes_"):
            self.classes_ = self.model_.classes_
        return self

    @available_if(_model_has("predict"))
    def predict(self, X: Any) -> Any:
        """Predict with the trained model.

        Parameters
        ----------
        X : table
            Records with the columns of ``fit``.

        Returns
        -------
        array
        """
        return self._trained().predict(X)

    @available_if(_model_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class.

        Parameters
        ----------
        X : table
            Records with the columns of ``fit``.

        Returns
        -------
        array
        """
        return self._trained().predict_proba(X)

    @available_if(_model_has("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Return the trained model's decision function.

        Parameters
        ----------
        X : table
            Records with the columns of ``fit``.

        Returns
        -------
        array
        """
        return self._trained().decision_function(X)

    @available_if(_model_has("score"))
    def score(self, X: Any, y: Any) -> float:
        """Score the trained model on original records.

        Parameters
        ----------
        X : table
            Records with the columns of ``fit``.
        y : array-like
            What is predicted.

        Returns
        -------
        float
        """
        return float(self._trained().score(X, y))

    def _trained(self) -> Any:
        check_is_fitted(self, "model_")
        return self.model_

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import get_tags

        tags = super().__sklearn_tags__()
        inner = get_tags(self.model)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        tags.target_tags = inner.target_tags
        tags.input_tags = inner.input_tags
        return tags
