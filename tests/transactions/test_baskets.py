from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle.errors import DataError
from tulle.transactions import Transactions

BASKETS = st.lists(st.lists(st.integers(0, 6), max_size=7), min_size=1, max_size=12)


def test_names_are_kept_and_a_repeated_item_counts_once() -> None:
    baskets = Transactions.from_lists([["milk", "beer", "milk"], ("beer",), []])
    assert baskets.to_lists() == [["milk", "beer"], ["beer"], []]
    assert baskets.counts.tolist() == [1, 2]
    assert baskets.lengths.tolist() == [2, 1, 0]


def test_sets_are_taken_in_an_order_that_no_run_changes() -> None:
    words = ["milk", "beer", "tea", "rum", "ale"]
    assert Transactions.from_lists([set(words)]).names.tolist() == sorted(words)
    assert len(Transactions.from_lists([{1, "a", (2, 3)}]).names) == 3


def test_repr_shows_sizes_only() -> None:
    assert repr(Transactions.from_lists([["secret"]])) == "Transactions(1 baskets, 1 items)"


def test_text_is_no_basket() -> None:
    with pytest.raises(DataError):
        Transactions.from_lists(["bread"])


@pytest.mark.slow
@given(BASKETS)
def test_rows_inverted_file_and_edits_agree_with_sets(baskets: list[list[int]]) -> None:
    flat = np.array([item for basket in baskets for item in basket], dtype=np.int64)
    indptr = np.cumsum([0] + [len(basket) for basket in baskets])
    found = Transactions.from_rows(indptr, flat, np.arange(7))
    sets = [set(basket) for basket in baskets]
    assert [set(basket) for basket in found.to_lists()] == sets
    for item in range(7):
        rows = [row for row, basket in enumerate(sets) if item in basket]
        assert found.row_of[found.cells(item)].tolist() == rows
        assert found.cells_at(np.array(rows, dtype=np.int64), item).tolist() == (
            found.cells(item).tolist()
        )
    for items in ([0], [1, 2], [0, 3, 5]):
        expected = [row for row, basket in enumerate(sets) if set(items) <= basket]
        assert found.rows_with(items).tolist() == expected
    odd = found.keeping(found.items % 2 == 1)
    assert [set(basket) for basket in odd.to_lists()] == [
        {item for item in basket if item % 2} for basket in sets
    ]
    assert odd.is_part_of(found)
    assert found.is_part_of(odd) == (len(odd.items) == len(found.items))
    first = np.zeros(1, dtype=np.int64)
    assert set(found.adding(first, np.array([6])).to_lists()[0]) == sets[0] | {6}
    turned = found.take(np.arange(len(sets))[::-1])
    assert [set(basket) for basket in turned.to_lists()] == sets[::-1]


@pytest.mark.parametrize("kind", ["numbers", "texts", "mixed", "far apart"])
def test_many_items_are_coded_as_few_are(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    lists: list[list[Any]] = [rng.integers(0, 50, rng.integers(0, 90)).tolist() for _ in range(300)]
    if kind == "texts":
        lists = [[f"item {item}" for item in basket] for basket in lists]
    elif kind == "mixed":
        lists[200].append("text")
    elif kind == "far apart":
        lists[200].append(10**15)
    few = Transactions.from_lists(lists)
    monkeypatch.setattr("tulle.transactions.baskets._MANY", 10)
    many = Transactions.from_lists(lists)
    expected = [list(dict.fromkeys(basket)) for basket in lists]
    for found in (few, many):
        assert [sorted(map(str, basket)) for basket in found.to_lists()] == [
            sorted(map(str, basket)) for basket in expected
        ]
        assert found.names.tolist() == list(dict.fromkeys(i for basket in lists for i in basket))
    assert np.array_equal(few.items, many.items)
    assert np.array_equal(few.indptr, many.indptr)
