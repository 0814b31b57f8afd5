"""What snapshots keep of columns between their heaps, and of rules between columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tulle import Column, Kind, Role, StreamCondenser
from tulle.errors import ParameterError

pytestmark = pytest.mark.slow


def sales(count: int, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    price, number = rng.lognormal(3, 1, count).round(2), rng.integers(1, 9, count)
    start = rng.integers(0, 3_000, count)
    return pl.DataFrame(
        {
            "price": price,
            "number": number,
            "total": (price * number).round(2),
            "start": start,
            "end": start + rng.integers(0, 400, count),
        }
    )


def fed(table: pl.DataFrame, **options: object) -> StreamCondenser:
    stream = StreamCondenser(10, init_size=600, random_state=0, **options)  # type: ignore[arg-type]
    for start in range(0, table.height, 300):
        stream.partial_fit(table[start : start + 300])
    return stream


@pytest.fixture(scope="module")
def stream() -> StreamCondenser:
    return fed(sales(1_800))


def apart(one: pl.Series, two: pl.Series) -> float:
    """The largest distance of two distribution functions."""
    values = np.sort(np.concatenate([one.to_numpy(), two.to_numpy()]))
    shares = (
        np.searchsorted(np.sort(s.to_numpy()), values, side="right") / len(s) for s in (one, two)
    )
    return float(np.abs(np.subtract(*shares)).max())


def test_snapshots_keep_the_form_of_a_skewed_column(stream: StreamCondenser) -> None:
    table, shown = sales(1_800), stream.snapshot()
    plain = fed(table, synthesis="uniform").snapshot()
    assert apart(table["price"], shown["price"]) < 0.03
    assert apart(table["price"], plain["price"]) > apart(table["price"], shown["price"])
    assert shown["price"].value_counts()["count"].max() < 40  # nothing heaps up at an end


def test_a_drift_is_followed_beyond_the_form(stream: StreamCondenser) -> None:
    later = fed(sales(1_200))
    later.partial_fit(sales(2_000, seed=1).with_columns(pl.col("start", "end") + 50_000))
    assert later.sample()["start"].quantile(0.75) > 40_000


def prices(count: int, share: float, seed: int) -> pl.DataFrame:
    """Prices with cents, of which this share is 19.99."""
    rng = np.random.default_rng(seed)
    usual = rng.lognormal(3, 1, count).round(2)
    price = np.where(rng.random(count) < share, 19.99, usual)
    return pl.DataFrame({"price": price, "other": rng.normal(size=count)})


def test_a_heap_that_forms_later_is_kept_and_saved(tmp_path: Path) -> None:
    later = fed(prices(600, 0.0, 0))
    before = later.snapshot()
    later.partial_fit(prices(3_000, 0.3, 1))
    shown = later.snapshot()
    assert not (before["price"] == 19.99).mean() > 0.01
    assert (shown["price"] == 19.99).mean() == pytest.approx(0.25, abs=0.03)
    later.save(tmp_path / "state")
    assert StreamCondenser.load(tmp_path / "state").snapshot().equals(shown)
    parts = fed(prices(600, 0.0, 0))
    parts.snapshot()
    table = prices(3_000, 0.3, 1)
    for start in range(0, 3_000, 7):
        parts.partial_fit(table[start : start + 7])
    assert parts.snapshot().equals(shown)  # of any size of batches


def test_a_later_heap_rests_on_people() -> None:
    """One person with a price again and again makes no heap of it; many people do."""
    who = [Column("who", Kind.INTEGER, Role.PERSON)]
    for faithful in (True, False):
        stream = StreamCondenser(10, init_size=600, split="strict", columns=who, random_state=0)
        first = prices(600, 0.0, 0).with_columns(who=pl.int_range(600))
        stream.partial_fit(first)
        own = pl.lit(1_000_000, pl.Int64) if faithful else pl.int_range(600, 2_100)
        stream.partial_fit(prices(1_500, 1.0, 1).with_columns(who=own))
        share = (stream.snapshot()["price"] == 19.99).mean()
        assert (share < 0.01) if faithful else (share > 0.5), share


def test_a_single_newcomer_changes_no_form(stream: StreamCondenser) -> None:
    going_on = fed(sales(1_500))
    before = going_on.snapshot()
    going_on.partial_fit(sales(1, seed=5))
    assert before.equals(going_on.snapshot())
    going_on.partial_fit(sales(600, seed=6))
    assert not before.equals(going_on.snapshot())


def test_snapshots_keep_formulas_and_orders(stream: StreamCondenser, tmp_path: Path) -> None:
    shown = stream.snapshot()
    assert ((shown["price"] * shown["number"]).round(2) - shown["total"]).abs().max() < 1e-6
    assert (shown["start"] <= shown["end"]).all()
    stream.save(tmp_path / "state")
    again = StreamCondenser.load(tmp_path / "state")
    assert again.snapshot().equals(shown)
    assert again.partial_fit(sales(50, seed=3)).notes_ == []
    none = fed(sales(1_200), rules=[]).snapshot()
    assert ((none["price"] * none["number"]).round(2) - none["total"]).abs().max() > 1


def test_later_records_that_break_a_rule_are_told(stream: StreamCondenser) -> None:
    going_on = fed(sales(900), rules=["total = price * number"])
    going_on.partial_fit(sales(30, seed=2).with_columns(total=pl.lit(1.0)))
    (note,) = [note for note in going_on.notes_ if "rule" in note]
    assert "30 later records break" in note
    assert "total = price * number" in note


def test_rules_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(ParameterError, match="nothing_there"):
        fed(sales(900), rules=["total = nothing_there"])


def test_merged_streams_keep_forms_and_rules() -> None:
    both = fed(sales(900)).merge(fed(sales(900, seed=1)))
    shown = both.sample()
    assert shown.height == 1_800
    assert ((shown["price"] * shown["number"]).round(2) - shown["total"]).abs().max() < 1e-6
    assert apart(sales(1_800)["price"], shown["price"]) < 0.06


def test_forms_and_rules_rest_on_people() -> None:
    """Twelve people with a hundred records each are too few for any piece of a form."""
    table = sales(1_200)
    who = [Column("who", Kind.INTEGER, Role.PERSON)]
    for people, forms in ((12, 0), (200, 4)):
        named = table.with_columns(who=pl.Series(np.arange(1_200) % people))
        stream = StreamCondenser(10, init_size=600, split="strict", columns=who, random_state=0)
        shown = stream.partial_fit(named).snapshot()
        assert len(stream._fitted.forms) == forms
        assert "who" not in shown.columns
        assert (stream.people_ >= 10).all()
