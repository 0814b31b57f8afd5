"""Baskets of every kind, in and out: nothing in their form tells what was edited."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from tulle import RuleHider
from tulle.errors import DataError
from tulle.rules import association_rules, frequent_itemsets
from tulle.rules.containers import named

BASKETS = [["w", "x", "y"]] * 4 + [["z", "w"], ["z", "x"], ["q", "z"], ["z"]]
PAIRS = [(row, item) for row, basket in enumerate(BASKETS) for item in basket]
LIMITS: dict[str, Any] = {"min_support": 2, "min_confidence": 0.7, "margin": 0, "random_state": 0}
FRAMES = [pl.DataFrame, pd.DataFrame, pa.table]
pytestmark = pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")


def columns(basket: str = "id", item: str = "what") -> dict[str, list[Any]]:
    return {basket: [row for row, _ in PAIRS], item: [what for _, what in PAIRS]}


# --- edits do not show --------------------------------------------------------------------------


def test_items_that_were_added_do_not_stand_at_the_end_of_their_baskets() -> None:
    out = RuleHider("w, x -> y", method="algo1a", **LIMITS).fit_transform(BASKETS)
    assert [sorted(basket) for basket in out[4:6]] == [["w", "x", "z"], ["w", "x", "z"]]
    order = ["w", "x", "y", "z", "q"]
    assert all(basket == sorted(basket, key=order.index) for basket in out)


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("method", ["algo1a", "blocking"])
def test_pairs_that_were_added_do_not_stand_at_the_end_of_the_table(kind: Any, method: str) -> None:
    frame = kind(columns())
    out = RuleHider("w, x -> y", method=method, **LIMITS).fit_transform(frame)
    assert type(out) is type(frame)
    ids = [*out["id"]] if kind is not pa.table else out["id"].to_pylist()
    assert ids == sorted(ids)
    assert len(ids) > len(PAIRS)
    if kind is pd.DataFrame:
        assert out.index.tolist() == list(range(len(out)))


def test_a_column_called_unknown_cannot_be_told_from_the_marks() -> None:
    with pytest.raises(DataError):
        RuleHider("w, x -> y", method="blocking", **LIMITS).fit_transform(
            pl.DataFrame(columns("unknown"))
        )


def test_an_index_does_not_tell_which_pairs_went() -> None:
    out = RuleHider("w, x -> y", method="minfia", **LIMITS).fit_transform(pd.DataFrame(columns()))
    assert len(out) < len(PAIRS)
    assert out.index.tolist() == list(range(len(out)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        pd.Series(BASKETS),
        pd.DataFrame({item: [item in basket for basket in BASKETS] for item in "wxyz"}),
    ],
)
def test_an_index_does_not_tell_the_order_before_shuffling(data: Any) -> None:
    out = RuleHider("w, x -> y", shuffle=True, **LIMITS).fit_transform(data)
    assert out.index.tolist() == list(range(len(BASKETS)))


def test_names_that_end_with_the_mark_of_open_cells_are_refused() -> None:
    data = [["a?", "b"]] * 4 + [["c"]]
    with pytest.raises(DataError, match="1 item"):
        RuleHider("a? -> b", method="blocking", **LIMITS).fit_transform(data)


def test_open_cells_are_not_closed_by_hiding_again() -> None:
    from tulle.transactions import Transactions

    data = Transactions.from_lists(BASKETS)
    blocked = RuleHider("w, x -> y", method="blocking", **LIMITS).fit_transform(data)
    with pytest.raises(DataError):
        RuleHider("w -> x", **LIMITS).fit_transform(blocked)


# --- kinds of columns and of names --------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["Int64", "boolean", "float32", "uint8", "bool", "int8[pyarrow]", "bool[pyarrow]"]
)
def test_wide_columns_keep_their_types(dtype: str) -> None:
    wide = pd.DataFrame(
        {item: [int(item in basket) for basket in BASKETS] for item in "wxyz"}, [3] * len(BASKETS)
    ).astype(dtype)
    out = RuleHider("w, x -> y", method="minfia", **LIMITS).fit_transform(wide)
    assert out.dtypes.tolist() == wide.dtypes.tolist()
    assert out.index.tolist() == [3] * len(BASKETS)
    assert 0 < wide.to_numpy().sum() - out.to_numpy().sum() < len(BASKETS)


@pytest.mark.parametrize("dtype", [pl.Float64, pl.Float32, pl.UInt8, pl.Decimal(4, 1), pl.Boolean])
def test_wide_frames_of_polars_hold_any_numbers(dtype: Any) -> None:
    wide = pl.DataFrame(
        {item: [int(item in basket) for basket in BASKETS] for item in "wxyz"}
    ).cast(dtype)
    out = RuleHider("w, x -> y", method="minfia", **LIMITS).fit_transform(wide)
    assert out.schema == wide.schema


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [bool, np.uint8, float])
def test_sparse_columns_of_pandas_stay_sparse(dtype: Any) -> None:
    matrix = np.array([[item in basket for item in "wxyzq"] for basket in BASKETS], dtype=dtype)
    dense = pd.DataFrame(matrix, [3] * len(BASKETS), list("wxyzq"))
    wide = dense.astype(pd.SparseDtype(dtype, dtype(0)))
    found = frequent_itemsets(wide, min_support=4)
    assert isinstance(found, pd.DataFrame)
    assert found.equals(frequent_itemsets(dense, min_support=4))
    for method in ("minfia", "algo1a"):
        one = RuleHider("w, x -> y", method=method, **LIMITS)
        out = one.fit_transform(wide)
        assert out.dtypes.tolist() == wide.dtypes.tolist()
        assert out.sparse.to_dense().equals(one.fit_transform(dense))
    mixed = RuleHider("w, x -> y", shuffle=True, **LIMITS).fit_transform(wide)
    assert mixed.sparse.to_dense().shape == dense.shape
    blocked = RuleHider("w, x -> y", method="blocking", **LIMITS).fit_transform(wide)
    assert blocked.isna().to_numpy().sum() > 0
    with pytest.raises(DataError, match="0"):
        frequent_itemsets(dense.astype(pd.SparseDtype(dtype, dtype(1))), min_support=4)


@pytest.mark.slow
def test_series_of_polars_keep_their_types() -> None:
    data = pl.Series("sold", BASKETS, dtype=pl.List(pl.Categorical))
    assert RuleHider("w, x -> y", **LIMITS).fit_transform(data).dtype == data.dtype
    marked = RuleHider("w, x -> y", method="blocking", **LIMITS).fit_transform(data)
    assert any(item.endswith("?") for basket in marked for item in basket)


def test_columns_of_pandas_may_have_numbers_for_names() -> None:
    matrix = [[int(item in basket) for item in "wxyz"] for basket in BASKETS]
    found = association_rules(pd.DataFrame(matrix), min_support=4, min_confidence=1.0)
    assert [0, 1] in found["antecedent"].to_list()
    out = RuleHider("0, 1 -> 2", method="minfia", **LIMITS).fit_transform(pd.DataFrame(matrix))
    assert out.columns.tolist() == [0, 1, 2, 3]
    twofold = pd.DataFrame(matrix, columns=pd.MultiIndex.from_product([["p", "q"], [1, 2]]))
    rule = ([("p", 1), ("p", 2)], [("q", 1)])
    out = RuleHider([rule], method="minfia", **LIMITS).fit_transform(twofold)
    assert out.columns.equals(twofold.columns)
    pairs = pd.DataFrame({0: columns()["id"], 1: columns()["what"]})
    blocked = RuleHider("w, x -> y", method="blocking", **LIMITS).fit_transform(pairs)
    assert blocked.columns.tolist() == [0, 1, "unknown"]


@pytest.mark.parametrize("frame", [pd.DataFrame([[1, 0]], columns=["a", "a"])])
def test_columns_of_one_name_are_refused(frame: Any) -> None:
    with pytest.raises(DataError):
        frequent_itemsets(frame, min_support=1)


@pytest.mark.parametrize(
    "ids",
    [
        pl.Series([float(row) for row, _ in PAIRS]),
        pl.Series([Decimal(row) for row, _ in PAIRS]),
        pl.Series([datetime.date(2020, 1, 1 + row) for row, _ in PAIRS]),
        pl.Series([str(row) for row, _ in PAIRS], dtype=pl.Categorical),
    ],
)
@pytest.mark.parametrize("method", ["minfia", "algo1a", "blocking"])
def test_columns_of_pairs_keep_their_types(ids: pl.Series, method: str) -> None:
    frame = pl.DataFrame({"id": ids, "what": pl.Series(columns()["what"], dtype=pl.Categorical)})
    out = RuleHider("w, x -> y", method=method, **LIMITS).fit_transform(frame)
    assert out.select("id", "what").schema == frame.schema


@pytest.mark.slow
def test_pairs_of_mixed_objects() -> None:
    frame = pd.DataFrame({"id": [1, 1, 2, 2, 3], "what": ["x", 5, "x", 5, "y"]})
    out = RuleHider("x -> 5", min_support=2, random_state=0).fit_transform(frame)
    assert len(out) == 4
    assert set(out["what"]) == {"x", 5, "y"}


def test_names_of_several_kinds_are_text_in_frames_of_sets() -> None:
    found = frequent_itemsets([[1, "a", (2, 3)], ["a"]], min_support=1)
    assert {name for names in found["itemset"] for name in names} == {"1", "a", "(2, 3)"}
    assert named([1, 0], np.array([1, 2.5], dtype=object)).to_list() == [2.5, 1.0]
    with pytest.raises(DataError):
        frequent_itemsets([[1, "1"]], min_support=1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([1, 2], "items"),
        ([None], "items"),
        (np.array([1, 2]), "items"),
        (np.ones((2, 2, 2)), "items"),
        ([[["a"]]], "item"),
        ([["a", None]], "missing values"),
        ([["a", float("nan")], ["b", float("nan")]], "missing values"),
        ([["a", pd.NA]], "missing values"),
        (sparse.coo_array(np.array([1, 0, 1])), "items"),
    ],
)
def test_what_holds_no_baskets_is_refused_in_words(data: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        frequent_itemsets(data, min_support=1)
