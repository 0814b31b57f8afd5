"""Pairs of coordinates are drawn together, where people are."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tulle import Condenser
from tulle.guessing.columns import infer_columns

K = 10


def islands(rows: int = 600, seed: int = 1) -> pl.DataFrame:
    """Two islands with the sea between them, a village, and somebody alone on a rock."""
    rng = np.random.default_rng(seed)
    place = rng.choice(3, rows, p=[0.55, 0.4, 0.05])
    centres = np.array([[54.0, 8.0], [54.8, 9.6], [54.9, 8.1]])
    points = centres[place] + rng.normal(0, 0.05, (rows, 2))
    points[0] = [55.6, 7.0]
    income = rng.normal(np.array([30, 45, 38])[place], 4)
    return pl.DataFrame(
        {"home_lat": points[:, 0].round(5), "home_lon": points[:, 1].round(5), "income": income}
    )


def distances(release: pl.DataFrame, table: pl.DataFrame) -> np.ndarray:
    ours, theirs = (t.select("home_lat", "home_lon").to_numpy() for t in (release, table))
    return np.sqrt(((ours[:, None] - theirs[None]) ** 2).sum(axis=2))


def released(table: pl.DataFrame, **options) -> pl.DataFrame:
    columns = infer_columns(table)
    return Condenser(k=K, columns=columns, random_state=3, **options).fit(table).sample()


@pytest.mark.parametrize("seed", [1, 2])
def test_places_are_drawn_among_k_people_and_never_in_the_sea(seed):
    table = islands(seed=seed)
    release = released(table)
    far = distances(release, table)
    assert np.sort(far, axis=1)[:, K - 1].max() < 0.2  # k people live nearby
    assert far[:, 0].min() > 0.3  # nobody on the rock
    west, east = (t["home_lon"].to_numpy() < 9 for t in (table, release))
    assert east.mean() == pytest.approx(west.mean(), abs=0.05)
    incomes = [t.filter(t["home_lon"] > 9)["income"].mean() for t in (table, release)]
    assert incomes[1] == pytest.approx(incomes[0], abs=1.5)


def test_places_of_people_with_several_rows_rest_on_people():
    rng = np.random.default_rng(4)
    table = islands().with_columns(patient_id=pl.Series(np.arange(600) // 2 + 9000))
    alone = pl.DataFrame(
        {"home_lat": [56.5] * 30, "home_lon": [6.0] * 30, "income": rng.normal(30, 4, 30),
         "patient_id": [1] * 30}
    )  # fmt: skip
    release = released(pl.concat([table, alone]))
    assert release["patient_id"].n_unique() > 250  # people stay together, under keys of their own
    assert np.abs(release["home_lon"] - 6.0).min() > 0.5


def test_missing_coordinates_are_missing_together():
    away = np.random.default_rng(5).random(600) < 0.2
    pair = ("home_lat", "home_lon")
    table = islands().with_columns(
        pl.when(pl.Series(~away)).then(pl.col(name)).alias(name) for name in pair
    )
    release = released(table)
    lacking = release["home_lat"].is_null()
    assert (lacking == release["home_lon"].is_null()).all()
    assert lacking.mean() == pytest.approx(away.mean(), abs=0.05)


def test_coordinates_have_the_digits_of_the_table():
    release = released(islands())
    for name in ("home_lat", "home_lon"):
        assert (release[name].round(5) == release[name]).all()


def test_the_lines_of_a_field_are_no_places():
    rows, lines = np.divmod(np.arange(480), 24)
    table = pl.DataFrame(
        {"latitude": (4.3 + 4.3 * rows).round(1), "longitude": (19.2 + 1.2 * lines).round(1)}
    )
    release = released(table.with_columns(wheat=np.random.default_rng(6).normal(25, 4, 480)))
    for name in table.columns:
        assert set(release[name]) <= set(table[name])
