"""Tables of people that audits are tested on."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import polars as pl


def matrix(rng: np.random.Generator, count: int = 700) -> np.ndarray:
    mixing = np.random.default_rng(9).normal(size=(5, 5))
    return rng.normal(size=(count, 5)) @ mixing


def people_table(rng: np.random.Generator, count: int = 300) -> pl.DataFrame:
    age = rng.integers(18, 90, count)
    pay = 900.0 + 37.3 * age + rng.normal(size=count)
    start = date(2001, 5, 17)
    return pl.DataFrame(
        {
            "age": age,
            "pay": np.where(rng.random(count) < 0.1, np.nan, pay),
            "city": rng.choice(["Bern", "Chur", "Genf", None], count).tolist(),
            "since": [start + timedelta(days=int(d)) for d in rng.integers(0, 4000, count)],
            "ill": rng.random(count) < 0.3,
        },
        schema_overrides={"city": pl.String},
    )
