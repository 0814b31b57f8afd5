"""A small hospital: patients, their visits, laboratory values of visits, prescriptions, wards."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
import polars as pl

from tulle import Database

_DAY = date(2010, 1, 1)


def tables(seed: int = 0, people: int = 160) -> dict[str, pl.DataFrame]:
    """Return tables of people who have none to six visits, and orphans."""
    rng = np.random.default_rng(seed)
    born = rng.integers(1930, 2005, people)
    visits = rng.integers(0, 7, people)
    who = np.repeat(np.arange(people), visits)
    first = rng.integers(0, 2000, people)
    gaps = rng.integers(0, 200, len(who))
    day = first[who] + np.concatenate([np.cumsum(gaps[who == p]) for p in range(people)])
    stay = rng.integers(0, 20, len(who))
    cost = 100 + 50 * stay + rng.integers(0, 40, len(who))
    labs = rng.integers(0, 4, len(who))
    of = np.repeat(np.arange(len(who)), labs)
    patient = pl.Series([f"P{number:04d}" for number in rng.permutation(people)])
    drugs = rng.integers(0, 3, people)
    return {
        "patients": pl.DataFrame(
            {
                "patient": patient,
                "born": born,
                "sex": rng.choice(["f", "m"], people),
                "n_visits": visits,
                "paid": np.bincount(who, weights=cost, minlength=people).astype(int),
            }
        ),
        "visits": pl.DataFrame(
            {
                "visit": np.arange(len(who)) + 7000,
                "patient": patient[who],
                "admitted": [_DAY + timedelta(int(d)) for d in day],
                "discharged": [_DAY + timedelta(int(d)) for d in day + stay],
                "age": 2010 + day // 365 - born[who],
                "ward": rng.choice(["A", "B", "C", "rare"], len(who), p=[0.5, 0.3, 0.19, 0.01]),
                "cost": cost,
                "blood": rng.choice(["0", "A", "B"], people)[who],
            }
        ),
        "labs": pl.DataFrame(
            {"visit": of + 7000, "value": (cost[of] / 10 + rng.normal(0, 2, len(of))).round(1)}
        ),
        "drugs": pl.DataFrame(
            {
                "patient": pl.concat(
                    [patient[np.repeat(np.arange(people), drugs)], pl.Series(["?"])]
                ),
                "dose": rng.integers(1, 5, int(drugs.sum()) + 1),
            }
        ),
        "wards": pl.DataFrame({"ward": ["A", "B", "C", "rare"], "beds": [20, 30, 12, 1]}),
    }


def database(seed: int = 0, people: int = 160, **more: Any) -> Database:
    """Return the tables with their links."""
    return Database(
        tables(seed, people),
        people="patients",
        key="patient",
        links={
            "visits": [("patient", "patients"), ("ward", "wards")],
            "labs": ("visit", "visits"),
            "drugs": ("patient", "patients"),
        },
        keys={"visits": "visit", "wards": "ward"},
        order={"visits": ["admitted"]},
        look_ups=["wards"],
        **more,
    )
