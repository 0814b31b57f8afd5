"""Condensation of several tables about the same people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from sklearn.base import BaseEstimator

from tulle._random import RandomState
from tulle.database.database import Database


class DatabaseCondenser(BaseEstimator):
    """Condense the tables of some people, and draw tables of others from them."""

    def __init__(
        self,
        k: int = 10,
        *,
        rules: Sequence[str] | None = None,
        exact_totals: bool = False,
        accept_broken_rules: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.k = k
        self.rules = rules
        self.exact_totals = exact_totals
        self.accept_broken_rules = accept_broken_rules
        self.random_state = random_state

    def fit(self, database: Database) -> Self:
        """Learn from the tables."""
        raise NotImplementedError

    def sample(self, people: int | None = None) -> dict[str, Any]:
        """Draw the tables of other people."""
        raise NotImplementedError

    def fit_resample(self, database: Database) -> dict[str, Any]:
        """Learn from the tables, and draw those of as many other people."""
        return self.fit(database).sample()
