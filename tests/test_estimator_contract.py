"""scikit-learn's own checks over every public estimator, found by looking."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from tests.estimators import CASES, Case, public_estimators

pytestmark = pytest.mark.slow


def checks() -> Iterator[Any]:
    for name, case in CASES.items():
        for made in [case.make()] if case.checked is None else case.checked():
            with (
                warnings.catch_warnings()
            ):  # a base of our own might lack something: the checks say
                warnings.filterwarnings("ignore", ".*does not inherit from", UserWarning)
                generated = list(estimator_checks_generator(made))
            for estimator, check in generated:
                # the array API asks for other array libraries than NumPy
                if "array_api" not in check.func.__name__:
                    yield pytest.param(case, estimator, check, id=f"{name}-{check.func.__name__}")


def test_every_public_estimator_is_checked() -> None:
    assert {estimator.__name__ for estimator in public_estimators()} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_only_checks_that_run_are_excused(name: str) -> None:
    run = {param.values[2].func.__name__ for param in checks() if param.values[0] is CASES[name]}
    assert set(CASES[name].excused) < run


@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
@pytest.mark.parametrize("case, estimator, check", list(checks()))
def test_scikit_learn(case: Case, estimator: Any, check: Any) -> None:
    excuse = case.excused.get(check.func.__name__)
    if excuse is None:
        check(estimator)
    else:
        with pytest.raises(excuse.error):
            check(estimator)
