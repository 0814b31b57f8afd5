"""Miners on two tables of the same people: the same where the codes promise it, else not."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.reference.sites_miners import adult_like
from tulle import SiteAgreement, SiteCodec
from tulle._metrics.models import same_answers
from tulle.sites import SiteSummary

MINERS = {"same_bayes", "same_clusters", "same_neighbours", "same_tree"}


def answers(cuts: str, table: pl.DataFrame) -> dict[str, float]:
    agreement = SiteAgreement.from_summaries([SiteSummary.of(table)], cuts=cuts)
    codes = SiteCodec(agreement).transform(table)
    return same_answers(table, codes, "marital-status", np.random.default_rng(0))


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    whole = adult_like(600, np.random.default_rng(0))
    gone = pl.Series(np.random.default_rng(1).random(600) < 0.1)
    return whole.with_columns(age=pl.when(gone).then(None).otherwise(pl.col("age")))


def test_equal_cuts_change_no_answer_and_uneven_ones_some(table: pl.DataFrame) -> None:
    equal, uneven = answers("equal", table), answers("uneven", table.drop_nulls())
    assert set(equal) == MINERS
    assert set(equal.values()) == {1.0}
    assert uneven["same_tree"] == 1
    assert uneven["same_clusters"] < 1


def test_other_people_get_other_answers(table: pl.DataFrame) -> None:
    other = table[np.random.default_rng(2).permutation(600)]
    found = same_answers(table, other, "marital-status", np.random.default_rng(0))
    assert all(share < 0.9 for share in found.values())


def test_too_few_or_one_class_say_nothing(table: pl.DataFrame) -> None:
    rng = np.random.default_rng(0)
    assert same_answers(table[:10], table[:10], "sex", rng) == {}
    flat = table.with_columns(sex=pl.lit("x"))
    assert same_answers(flat, flat, "sex", rng) == {}
    bare = table.select("sex", empty=pl.lit(None, dtype=pl.Float64))
    assert same_answers(bare, bare, "sex", rng) == {}


def test_huge_tiny_and_infinite_numbers_are_compared_too() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=60)
    classes = np.where(numbers > 0, "a", "b")
    plain = pl.DataFrame({"x": numbers, "class": classes})
    for scale in (1e300, 1e-300):
        other = plain.with_columns(pl.col("x") * scale)
        found = same_answers(plain, other, "class", np.random.default_rng(0))
        assert set(found.values()) == {1.0}
    infinite = plain.with_columns(x=pl.Series([np.inf, *numbers[1:]]))
    assert same_answers(infinite, infinite, "class", np.random.default_rng(0))
