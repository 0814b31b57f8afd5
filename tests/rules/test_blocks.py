"""Mining in blocks against mining the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle import DataError, ParameterError, Transactions
from tulle.rules._blocks import mine_blocks
from tulle.rules.mine import itemsets_frame, mine
from tulle.rules.rule import support_count


@pytest.mark.slow
@given(
    st.lists(st.lists(st.integers(0, 7), max_size=6), min_size=1, max_size=60),
    st.integers(1, 25),
    st.sampled_from([0.05, 0.2, 0.5, 1, 3, "10%"]),
)
def test_blocks_give_the_itemsets_of_the_whole(
    lists: list[list[int]], size: int, support: float | int | str
) -> None:
    if not any(lists):
        lists = [*lists, [1]]
    names = np.array(sorted({item for basket in lists for item in basket}))
    rows = [row for row, basket in enumerate(lists) for _ in basket]
    codes = np.searchsorted(names, [item for basket in lists for item in basket])
    whole = Transactions.from_pairs(np.array(rows), codes, len(lists), names)
    minimum = support_count("mine", support, len(whole))
    wanted = itemsets_frame(mine(whole, minimum), whole.names, len(whole), "all")

    def blocks():
        for start in range(0, len(lists), size):
            yield whole.take(np.arange(start, min(start + size, len(lists))))

    found = mine_blocks(blocks, support)
    assert itemsets_frame(found.itemsets, found.names, found.baskets, "all").equals(wanted)


def test_words_are_items_too() -> None:
    baskets = Transactions.from_lists([["bread", "milk"], ["milk"], ["bread", "milk", "tea"]])
    found = mine_blocks(lambda: iter([baskets]), 2)
    frame = itemsets_frame(found.itemsets, found.names, 3, "maximal")
    assert frame["itemset"].to_list() == [["bread", "milk"]]
    assert frame["count"].to_list() == [2]
    with pytest.raises(ParameterError, match="min_support"):
        mine_blocks(lambda: iter([baskets]), 0)
    with pytest.raises(DataError):
        mine_blocks(lambda: iter([baskets.take(np.arange(0))]), 2)
