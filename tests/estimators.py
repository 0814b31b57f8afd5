"""Every public estimator, found by looking, and how a test makes one.

A new estimator in any family is found here by itself; it needs an entry in ``EXAMPLES`` only if its
constructor has a parameter without a default or if its data are not a numeric table.
"""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

from sklearn.base import BaseEstimator

import tulle

FAMILIES = ("condense", "rules", "sketch", "sites", "tuning")


def public_estimators() -> list[type[BaseEstimator]]:
    """All classes with scikit-learn's base in the families whose name has no underscore."""
    found = set()
    for module in pkgutil.walk_packages(tulle.__path__, "tulle."):
        if module.name.split(".")[1] not in FAMILIES or "kernel" in module.name:
            continue
        for name, member in inspect.getmembers(import_module(module.name), inspect.isclass):
            ours = member.__module__.startswith("tulle.")
            if ours and issubclass(member, BaseEstimator) and not name.startswith("_"):
                found.add(member)
    return sorted(found, key=lambda member: member.__name__)
