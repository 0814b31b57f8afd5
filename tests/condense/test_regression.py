"""A wage regression on the release says what it says on the table, standard errors included."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tulle import Condenser
from tulle._types import Floats

pytestmark = pytest.mark.slow

CUTS = (5, 15, 30, 45)
BANDS = np.array(["0-4", "5-14", "15-29", "30-44", "45+"])
TERMS = ("educ", "exper", "expersq", "union", "married")


def wages(n: int = 3000) -> pl.DataFrame:
    """Return wages as textbooks have them: a log, a square, a sum, an indicator and a band."""
    rng = np.random.default_rng(7)
    educ = np.clip(np.round(rng.normal(12.5, 2.5, n)), 6, 18).astype(int)
    exper = np.round(rng.gamma(2.2, 6, n)).astype(int)
    union, married = rng.random(n) < 0.25, rng.random(n) < 0.3 + 0.01 * exper
    log = 0.4 + 0.09 * educ + 0.04 * exper - 0.0007 * exper**2 + 0.15 * union + 0.08 * married
    wage = np.round(np.exp(log + rng.normal(0, 0.4, n)), 2)
    race = rng.choice(["w", "b", "h", "o", "x"], n, p=[0.7, 0.19, 0.1, 0.008, 0.002])
    return pl.DataFrame(
        {
            "wage": wage,
            "lwage": np.round(np.log(wage), 7),
            "educ": educ,
            "exper": exper,
            "expersq": exper**2,
            "age": educ + exper + 6,
            "band": BANDS[np.digitize(exper, CUTS)],
            "step": np.digitize(exper, CUTS),
            "race": race,
            "black": (race == "b").astype(int),
            "hispanic": race == "h",
            "few": (race == "x").astype(int),
            "union": union.astype(int),
            "married": married.astype(int),
        }
    )


def regressed(table: pl.DataFrame) -> tuple[Floats, Floats]:
    """Return the coefficients of log wages and their standard errors."""
    X = np.column_stack([np.ones(table.height), table.select(TERMS).cast(pl.Float64).to_numpy()])
    y = table["lwage"].to_numpy()
    found, *_ = np.linalg.lstsq(X, y, rcond=None)
    rest = y - X @ found
    spread = rest @ rest / (len(y) - X.shape[1])
    return found, np.sqrt(spread * np.diag(np.linalg.inv(X.T @ X)))


@pytest.fixture(scope="module")
def released() -> pl.DataFrame:
    return Condenser(k=10, random_state=0).fit_resample(wages())


def test_a_wage_regression_says_the_same_on_the_release(released: pl.DataFrame) -> None:
    (original, errors), (found, its_errors) = regressed(wages()), regressed(released)
    away = (found - original) / errors
    assert np.abs(away).max() < 3
    assert its_errors == pytest.approx(errors, rel=0.25)  # tails are cut: squares vary less


def test_formulas_indicators_and_bands_hold_where_rare_values_were_cut(
    released: pl.DataFrame,
) -> None:
    table = wages()
    wage, exper = released["wage"].to_numpy(), released["exper"].to_numpy()
    assert exper.max() < table["exper"].max()  # rare values are cut
    assert (released["expersq"].to_numpy() == exper**2).all()
    assert released["lwage"].to_numpy() == pytest.approx(np.log(wage), abs=1e-6)
    assert (released["age"] == released["educ"] + released["exper"] + 6).all()
    for name, value in (("black", "b"), ("hispanic", "h"), ("few", "x")):
        assert (released[name].cast(pl.Boolean) == (released["race"] == value)).all()
    places = np.digitize(exper, CUTS)
    assert (released["step"].to_numpy() == places).all()
    assert (released["band"].to_numpy() == BANDS[places]).all()
