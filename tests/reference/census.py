"""An excerpt of a census as statistical offices publish it, with N for "not applicable".

Made up: the columns have the shapes of those in the excerpts of the American Community Survey that
NIST publishes, not their values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

# column: the kinds that are right
KINDS = {
    "PUMA": "category", "AGEP": "integer", "SEX": "category", "MSP": "category",
    "HISP": "category", "RAC1P": "category", "NOC": "integer/ordered", "NPF": "integer/ordered",
    "HOUSING_TYPE": "category", "OWN_RENT": "category", "DENSITY": "decimal", "INDP": "category",
    "INDP_CAT": "category", "EDU": "ordered/category", "PINCP": "integer/decimal",
    "PINCP_DECILE": "ordered", "POVPIP": "integer", "DVET": "category", "DREM": "category",
    "DPHY": "category", "DEYE": "category", "DEAR": "category", "PWGTP": "integer",
    "WGTP": "integer",
}  # fmt: skip
# of codes without an order some are common in the middle, or at both ends
_MARITAL = [0.4, 0.02, 0.06, 0.1, 0.03, 0.39]
_ORIGIN = [0.83, 0.09, 0.02, 0.01, 0.05]
_VETERAN = [0.04, 0.24, 0.12, 0.17, 0.37, 0.06]
_RACE = [0.69, 0.13, 0.01, 0.005, 0.01, 0.07, 0.005, 0.04, 0.04]


def census(rng: np.random.Generator, n: int = 800) -> pl.DataFrame:
    """Return people of a census."""
    age = rng.integers(0, 96, n)
    grown, home = age >= 15, rng.choice([1, 2, 3], n, p=[0.92, 0.03, 0.05])
    income = np.where(rng.random(n) < 0.3, 0, rng.lognormal(10, 1, n).round(-1)).astype(int)
    codes = np.sort(rng.choice(np.arange(170, 9_990, 10), 120, replace=False))
    industry = rng.choice(120, n, p=rng.permutation(_falling(120)))
    decile = np.ceil(10 * (income.argsort().argsort() + 1) / n).astype(int) - 1
    weight = rng.gamma(2, 60, n).astype(int) + 1
    family, works = (home == 1) & (rng.random(n) < 0.8), grown & (rng.random(n) < 0.7)
    return pl.DataFrame(
        {
            "PUMA": rng.choice(["01-01301", "06-08507", "38-00100", "51-51255"], n),
            "AGEP": age,
            "SEX": rng.integers(1, 3, n),
            "MSP": _or_n(rng.choice(np.arange(1, 7), n, p=_MARITAL), grown),
            "HISP": rng.choice(5, n, p=_ORIGIN),
            "RAC1P": rng.choice(np.arange(1, 10), n, p=_RACE),
            "NOC": _or_n(rng.poisson(0.9, n), family),
            "NPF": _or_n(2 + rng.poisson(1.2, n), family),
            "HOUSING_TYPE": home,
            "OWN_RENT": np.where(home == 1, rng.integers(1, 3, n), 0),
            "DENSITY": rng.choice(rng.gamma(2, 900, 20).round(1), n),
            "INDP": _or_n(codes[industry], works),
            "INDP_CAT": _or_n(industry // 7, works),
            "EDU": _or_n(1 + rng.binomial(11, 0.6, n), age > 2),
            "PINCP": _or_n(income.astype(float), grown),
            "PINCP_DECILE": _or_n(decile, grown),
            "POVPIP": _or_n(np.minimum(501, income // 90), home == 1),
            "DVET": _or_n(rng.choice(np.arange(1, 7), n, p=_VETERAN), rng.random(n) < 0.04),
            "DREM": _or_n(rng.integers(1, 3, n), age > 4),
            "DPHY": _or_n(rng.integers(1, 3, n), age > 4),
            "DEYE": rng.integers(1, 3, n),
            "DEAR": rng.integers(1, 3, n),
            "PWGTP": weight,
            "WGTP": np.where(home == 1, weight, 0),
        }
    )


def _falling(count: int) -> Any:
    shares = 0.96 ** np.arange(count)
    return shares / shares.sum()


def _or_n(values: Any, has: Any) -> list[str]:
    return np.where(has, values.astype(str), "N").tolist()
