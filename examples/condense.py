"""Condense a table with dates, categories and missing values, then a labelled one."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from tulle import ClassCondenser, Column, Condenser, Kind, Role


def patients(n: int = 2_000) -> pl.DataFrame:
    """A made-up table such as a hospital has."""
    rng = np.random.default_rng(1)
    age = rng.integers(18, 95, n)
    pressure = np.where(
        rng.random(n) < 0.1, np.nan, (95 + 0.5 * age + rng.normal(0, 9, n)).round(1)
    )
    return pl.DataFrame(
        {
            "name": [f"person {number}" for number in range(n)],
            "age": age,
            "pressure": pl.Series(pressure).fill_nan(None),
            "ward": rng.choice(["surgery", "heart", "eyes"], n, p=[0.5, 0.3, 0.2]),
            "smoker": rng.random(n) < 0.25,
            "admitted": [
                dt.date(2025, 1, 1) + dt.timedelta(int(d)) for d in rng.integers(0, 365, n)
            ],
            "level": rng.choice([5, 25], n, p=[0.9, 0.1]),  # one in ten asked for more privacy
        }
    )


def main() -> None:
    """A release for statistics, and a training set."""
    table = patients()
    policy = [
        Column("name", Kind.TEXT, Role.IDENTIFIER),
        Column("age", Kind.INTEGER, bounds=(0, 120)),
    ]
    condenser = Condenser(columns=policy, random_state=7).fit(table, levels="level")
    released = condenser.sample()
    print(released.head(3))
    print(f"information loss {condenser.information_loss_:.1f} %")
    for level, records, smallest in condenser.level_summary_:
        print(f"level {level}: {records} records, smallest group {smallest}")
    for note in condenser.notes_:
        print("note:", note)
    for name in ("age", "pressure"):
        print(name, "mean before and after:", table[name].mean(), released[name].mean())

    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    X_new, y_new = ClassCondenser(k=15, random_state=7).fit_resample(X_train, y_train)
    for name, data in {"original": (X_train, y_train), "released": (X_new, y_new)}.items():
        accuracy = KNeighborsClassifier(1).fit(*data).score(X_test, y_test)
        print(f"1-NN trained on the {name} data: {accuracy:.3f}")


if __name__ == "__main__":
    main()
