"""Rules between columns that are written as people write them, with special values among them."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

from tulle import Column, Condenser, Kind, infer_columns


def euros(amount: float) -> str:
    return f"{amount:,.2f} €".translate(str.maketrans(",.", ".,"))


@pytest.mark.slow
def test_amounts_add_up_and_dates_are_in_order() -> None:
    rng = np.random.default_rng(0)
    n = 600
    first, second = rng.gamma(2, 300, n).round(2), rng.gamma(3, 500, n).round(2)
    days, stay = rng.integers(0, 700, n), 1 + rng.poisson(5, n)
    at = [date(2023, 1, 1) + timedelta(days=int(day)) for day in days]
    table = pl.DataFrame(
        {
            "part_a": [euros(v) for v in first],
            "part_b": [euros(v) if rng.random() > 0.05 else "k.A." for v in second],
            "total": [euros(v) for v in first + second],
            "admitted": [d.strftime("%d.%m.%Y" if i % 7 else "%Y-%m-%d") for i, d in enumerate(at)],
            "discharged": [
                (d + timedelta(days=int(s))).strftime("%d.%m.%Y") for d, s in zip(at, stay)
            ],
            "stay": stay,
        }
    )
    condenser = Condenser(10, columns=infer_columns(table), random_state=0)
    release = condenser.fit_resample(table)
    rules = {rule.rule for rule in condenser.rules_}
    assert {"total = part_a + part_b", "stay = discharged - admitted"} <= rules
    assert not condenser.broken_rules_
    assert release.schema == table.schema
    parts = [_amounts(release[name]) for name in ("part_a", "part_b", "total")]
    known = ~np.isnan(parts[1])
    np.testing.assert_allclose((parts[0] + parts[1])[known], parts[2][known], atol=0.005)


def _amounts(texts: pl.Series) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    plain = texts.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    numbers = plain.str.strip_suffix(" €").cast(pl.Float64, strict=False)
    return numbers.fill_null(float("nan")).to_numpy()


@pytest.mark.slow
def test_a_sentinel_is_not_a_number_to_a_rule() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 50, 600), rng.integers(0, 50, 600)
    total = np.where(rng.random(600) < 0.06, 9999, a + b)
    table = pl.DataFrame({"a": a, "b": b, "total": total})
    columns = [Column("total", Kind.INTEGER, missing=(9999,))]
    condenser = Condenser(10, columns=columns, random_state=0)
    release = condenser.fit_resample(table)
    assert "total = a + b" in {rule.rule for rule in condenser.rules_}
    whole = release.filter(pl.col("total") != 9999)
    assert (whole["total"] == whole["a"] + whole["b"]).all()
    assert 0.03 < 1 - whole.height / release.height < 0.1


@pytest.mark.slow
def test_numbers_of_single_precision_stay_so_and_formulas_too() -> None:
    """Stata holds 0.91 in four bytes and exports 0.9100000262260437."""
    rng = np.random.default_rng(3)
    price = rng.gamma(9, 0.1, 600).round(2).astype(np.float32).astype(np.float64) + 0.0
    log = np.log(price).astype(np.float32).astype(np.float64)
    table = pl.DataFrame({"price": price, "lprice": log, "size": rng.integers(1, 40, 600)})
    condenser = Condenser(10, random_state=0)
    release = condenser.fit_resample(table)
    assert "lprice = log(price)" in {rule.rule for rule in condenser.rules_}
    prices = release["price"].to_numpy()
    assert (prices.astype(np.float32) == prices).all()
    assert (np.abs(prices - prices.round(2)) < 1e-6).all()
    made = np.log(prices).astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(release["lprice"].to_numpy(), made)


def test_a_centred_column_is_computed_from_the_whole_one_to_its_last_digit() -> None:
    rng = np.random.default_rng(0)
    height = rng.choice(np.arange(400, 560, 3), 601)
    ticks = np.round(height / 50 + rng.normal(size=601), 2)
    table = pl.DataFrame({"height": height, "centred": height - height.mean(), "ticks": ticks})
    condenser = Condenser(10, random_state=0).fit(table)
    (rule,) = (one.rule for one in condenser.rules_)
    assert rule.startswith("centred = height - ")
    drawn = condenser.sample()
    assert np.allclose(drawn["height"] - drawn["centred"], height.mean(), rtol=0, atol=1e-9)
