"""scikit-learn's own checks of the condensers, all but the array API (NumPy arrays only)."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from tulle.condense.class_condenser import ClassCondenser
from tulle.condense.condenser import Condenser

# the checks draw labels at random, with classes of one record
_ESTIMATORS = [Condenser(k=2), ClassCondenser(k=2, small_classes="pool")]
_CHECKS = [
    pytest.param(estimator, check, id=f"{type(estimator).__name__}-{check.func.__name__}")
    for made in _ESTIMATORS
    for estimator, check in estimator_checks_generator(made)
    if "array_api" not in check.func.__name__
]


@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
@pytest.mark.parametrize("estimator, check", _CHECKS)
def test_scikit_learn(estimator, check):
    check(estimator)
