"""A hospital's table in which every row makes sense, and the count of rows that would not."""

from __future__ import annotations

import numpy as np
import polars as pl

RULES = (
    "admitted <= discharged",
    "stay = discharged - admitted",
    "age = years(born, admitted)",
    "bmi = weight / (height / 100) ** 2",
    "total = treatment + drugs + room",
    "known(ward, diagnosis)",
    'never sex = "m" and births > 0',
    "income is missing if age < 15",
    "0 <= age <= 120",
)


def hospital(n: int = 1500, seed: int = 0) -> pl.DataFrame:
    """Make admissions; some lack their discharge, or their weight together with their BMI."""
    rng = np.random.default_rng(seed)
    born = np.datetime64("1935-01-01") + rng.integers(0, 80 * 365, n)
    admitted = np.datetime64("2022-01-01") + rng.integers(0, 700, n)
    stay = rng.poisson(4, n) * (rng.random(n) > 0.2)
    frame = pl.DataFrame(
        {
            "born": born,
            "admitted": admitted,
            "discharged": admitted + stay,
            "stay": stay,
            "sex": rng.choice(["m", "f"], n),
            "height": rng.normal(171, 9, n).astype(int),
            "weight": rng.normal(76, 14, n).clip(40).round(1),
            "treatment": rng.lognormal(8, 0.7, n).round(2),
            "drugs": rng.gamma(2, 90, n).round(2),
            "room": 80.0 * rng.binomial(10, 0.05, n),
            "income": rng.lognormal(7.8, 0.5, n).round(),
            "luck": rng.random(n),
        }
    ).with_columns(age=_age())
    mother = (pl.col("sex") == "f") & pl.col("age").is_between(15, 49)
    gone = pl.col("luck") < 0.05
    total = pl.col("treatment") + pl.col("drugs") + pl.col("room")
    return frame.with_columns(
        births=pl.when(mother).then((pl.col("luck") * 4).floor()).otherwise(0).cast(pl.Int64),
        diagnosis=pl.when(mother & (pl.col("luck") > 0.7))
        .then(pl.lit("O80"))
        .otherwise(pl.Series(rng.choice(["I10", "E11", "K35"], n, p=[0.5, 0.3, 0.2]))),
        bmi=pl.when(gone).then(None).otherwise(_bmi().round(1)),
        weight=pl.when(gone).then(None).otherwise("weight"),
        total=total.round(2),
        income=pl.when(pl.col("age") >= 15).then("income"),
        discharged=pl.when(pl.col("luck") < 0.97).then("discharged"),
        died=pl.Series(rng.choice(["yes", "no"], n, p=[0.1, 0.9])),
    ).with_columns(
        ward=pl.col("diagnosis").replace_strict(
            {"O80": "births", "I10": "inner", "E11": "inner", "K35": "surgery"}
        )
    ).drop("luck")  # fmt: skip


def impossible(frame: pl.DataFrame) -> dict[str, int]:
    """Count the rows that cannot be."""
    total = pl.col("treatment") + pl.col("drugs") + pl.col("room")
    days = (pl.col("discharged") - pl.col("admitted")).dt.total_days()
    wrong = {
        "discharged before admitted": days < 0,
        "stay": days != pl.col("stay"),
        "age": _age() != pl.col("age"),
        "bmi": (pl.col("bmi") - _bmi()).abs() > 0.0501,
        "total": (pl.col("total") - total).abs() > 0.005,
        "births by men": (pl.col("sex") == "m") & (pl.col("births") > 0),
        "income of children": (pl.col("age") < 15) & pl.col("income").is_not_null(),
        "ward": (pl.col("diagnosis") == "O80") != (pl.col("ward") == "births"),
    }
    counts = frame.select(
        condition.fill_null(False).sum().alias(n) for n, condition in wrong.items()
    )
    return {name: count for name, count in counts.row(0, named=True).items() if count}


def _bmi() -> pl.Expr:
    return pl.col("weight") / (pl.col("height") / 100) ** 2


def _age() -> pl.Expr:
    later, day = pl.col("admitted").dt, pl.col("born").dt
    before = later.strftime("%m%d") < day.strftime("%m%d")
    return later.year().cast(pl.Int64) - day.year().cast(pl.Int64) - before.cast(pl.Int64)
