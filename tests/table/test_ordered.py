"""Ordered values: compared by steps, never averaged, only from their domain."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle import Condenser
from tulle.table._encoder import TableEncoder
from tulle.table.schema import Column, Kind

VALUES = st.lists(st.sampled_from([1, 2, 3, 5, 8, 9, None]), min_size=4, max_size=60)


def encoder_of(table: pl.DataFrame) -> TableEncoder:
    return TableEncoder([Column("x", Kind.ORDERED, missing=(9,))]).fit(table)


@given(VALUES, st.integers(0, 99))
def test_groups_keep_the_counts_of_every_value(values: list[int | None], seed: int) -> None:
    table = pl.DataFrame({"x": values}, schema={"x": pl.Int64})
    encoder = encoder_of(table)
    matrix = encoder.encode(table)
    assert encoder.decode(matrix).equals(table)
    groups = np.random.default_rng(seed).integers(0, 3, len(values))
    groups[:3] = [0, 1, 2]
    means = np.stack([matrix[groups == g].mean(axis=0) for g in range(3)])
    drawn = encoder.decode(means[groups], groups, seed, means=means)["x"]
    for g in range(3):
        rows = pl.Series(groups == g)
        before, after = table["x"].filter(rows), drawn.filter(rows)
        assert sorted(before.to_list(), key=str) == sorted(after.to_list(), key=str)


@pytest.mark.slow
@given(VALUES, VALUES)
def test_statistics_of_two_parts_move_into_the_whole(
    first: list[int | None], second: list[int | None]
) -> None:
    tables = [pl.DataFrame({"x": part}, schema={"x": pl.Int64}) for part in (first, second)]
    parts = [encoder_of(table) for table in tables]
    whole, *ways = parts[0].merge(parts[1])
    for table, part, way in zip(tables, parts, ways, strict=True):
        moved = part.encode(table) @ way.linear + way.shift
        np.testing.assert_allclose(moved, whole.encode(table), atol=1e-9)


def test_neighbours_are_nearer_than_the_ends() -> None:
    matrix = encoder_of(pl.DataFrame({"x": [1, 2, 5]})).encode(pl.DataFrame({"x": [1, 2, 5]}))
    steps = np.linalg.norm(matrix - matrix[0], axis=1)
    assert steps[0] < steps[1] < steps[2]


@pytest.mark.parametrize("synthesis", ["shape", "uniform", "mean"])
@pytest.mark.parametrize("text", [False, True])
def test_released_answers_are_answers(synthesis: str, text: bool) -> None:
    rng = np.random.default_rng(1)
    answers = pl.Series("q", np.where(rng.random(600) < 0.1, 9, 1 + rng.binomial(4, 0.5, 600)))
    table = pl.DataFrame({"q": answers.cast(pl.String) if text else answers, "a": rng.random(600)})
    columns = [Column("q", Kind.ORDERED, missing=(9,))]
    release = Condenser(20, columns=columns, synthesis=synthesis, random_state=0)
    found = release.fit_resample(table)["q"].cast(pl.Int64)
    assert set(found.unique()) <= {1, 2, 3, 4, 5, 9}
    assert found.value_counts().height >= 5
    assert (found == 9).mean() == pytest.approx((answers == 9).mean(), abs=0.05)


def test_an_enum_has_its_own_order() -> None:
    stages = pl.Series("x", ["late", "early", "middle"], dtype=pl.Enum(["early", "middle", "late"]))
    encoder = encoder_of(stages.to_frame())
    assert encoder.feature_names_ == ["x>=middle", "x>=late"]


@pytest.mark.slow
def test_numbers_written_as_text_keep_their_order_next_to_a_word() -> None:
    rng = np.random.default_rng(2)
    steps = rng.integers(1, 13, 2_400)
    texts = pl.Series("x", np.where(rng.random(2_400) < 0.1, "N", steps.astype(str)))
    column = Column("x", Kind.ORDERED, missing=("N",))
    encoder = TableEncoder([column]).fit(texts.to_frame())
    assert encoder.feature_names_ == [*(f"x>={step}" for step in range(2, 13)), "x=N"]
    table = pl.DataFrame({"x": texts, "a": rng.random(2_400)})
    drawn = Condenser(20, columns=[column], random_state=0).fit_resample(table)["x"]
    before, after = (part.value_counts().sort("x")["count"] for part in (texts, drawn))
    assert (before - after).abs().sum() < 0.15 * 2_400
