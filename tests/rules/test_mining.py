from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlxtend.frequent_patterns import association_rules as mlxtend_rules
from mlxtend.frequent_patterns import fpgrowth
from scipy import sparse

from tests.examples import few
from tests.reference import rules as slow
from tulle import rules
from tulle.errors import DataError, ParameterError
from tulle.rules import mine as implication
from tulle.rules.mine import Itemsets, implications, mine
from tulle.transactions import Transactions

BASKETS = st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=1, max_size=14)
GROCERIES = [["bread", "milk"], ["bread", "milk", "beer"], ["milk"], ["beer", "bread"]]


def coded(baskets: list[set[int]]) -> Transactions:
    rows = np.repeat(np.arange(len(baskets)), [len(basket) for basket in baskets])
    items = np.array([item for basket in baskets for item in basket])
    return Transactions.from_pairs(rows, items, len(baskets), np.arange(6))


def as_dict(found: Itemsets) -> dict[frozenset[int], int]:
    return {
        frozenset(found.codes(node).tolist()): int(found.support[node])
        for node in range(1, len(found))
    }


@pytest.mark.slow
@given(BASKETS, st.integers(1, 5))
def test_all_itemsets_are_found(baskets: list[set[int]], minimum: int) -> None:
    assert as_dict(mine(coded(baskets), minimum)) == slow.itemsets(baskets, minimum)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.02, 0.4])  # sparse and dense kernel
def test_large_data_find_what_mlxtend_finds(share: float) -> None:
    rng = np.random.default_rng(3)
    baskets = slow.random_baskets(rng, 900, 60 if share < 0.1 else 14, share)
    data = Transactions.from_lists(baskets)
    wide = pd.DataFrame([{name: name in basket for name in data.names} for basket in baskets])
    frequent = fpgrowth(wide, min_support=20 / len(data), use_colnames=True)
    code = {name: place for place, name in enumerate(data.names.tolist())}
    expected = {
        frozenset(code[name] for name in names): round(held * len(data))
        for held, names in zip(frequent["support"], frequent["itemsets"])
    }
    assert as_dict(mine(data, 20)) == expected


def test_items_of_every_basket_and_many_perfect_extensions() -> None:
    baskets = [set(range(6))] * 3 + [{0, 1}]
    assert as_dict(mine(coded(baskets), 3)) == slow.itemsets(baskets, 3)


@pytest.mark.slow
def test_too_many_rules_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(implication, "MOST_RULES", 49)
    found = mine(Transactions.from_lists([["a", "b", "c", "d"]] * 3), 1)
    with pytest.raises(DataError, match="49 rules.*min_support"):
        implication.implications(found, Fraction(1, 2), 9)
    monkeypatch.setattr(implication, "MOST_RULES", 50)
    assert len(implication.implications(found, Fraction(1, 2), 9)) == 50


def test_too_many_itemsets_is_an_error() -> None:
    data = Transactions.from_lists([list(range(40))] * 2)
    with pytest.raises(DataError, match="min_support"):
        mine(data, 2)


@pytest.mark.slow
@given(BASKETS, st.integers(1, 4), st.sampled_from([Fraction(0), Fraction(3, 5), Fraction(1)]))
def test_all_rules_are_found(baskets: list[set[int]], minimum: int, confidence: Fraction) -> None:
    found = mine(coded(baskets), minimum)
    for longest in (1, 99):
        expected = slow.rules(baskets, minimum, confidence, longest)
        got = implications(found, confidence, longest)
        sets = [frozenset(found.codes(node).tolist()) for node in range(len(found))]
        assert {
            (sets[left], sets[right]): int(found.support[whole])
            for whole, left, right in got.nodes.tolist()
        } == expected


@pytest.mark.slow
@given(BASKETS, st.integers(1, 4), st.sampled_from(["0%", "60%", "100%"]))
@few(40)
def test_support_of_the_antecedent(baskets: list[set[int]], minimum: int, sure: str) -> None:
    """A rule is as frequent as its antecedent: the convention of Borgelt's miner."""
    every = slow.rules(baskets, 1, Fraction(int(sure[:-1]), 100))
    expected = {sides for sides in every if slow.support(baskets, sides[0]) >= minimum}
    found = rules.association_rules(
        [sorted(basket) for basket in baskets],
        min_support=minimum,
        min_confidence=sure,
        support_of="antecedent",
    )
    sides = zip(found["antecedent"].to_list(), found["consequent"].to_list())
    assert {(frozenset(left), frozenset(right)) for left, right in sides} == expected


@given(BASKETS, st.integers(1, 4))
@few(40)
def test_closed_and_maximal(baskets: list[set[int]], minimum: int) -> None:
    every = slow.itemsets(baskets, minimum)
    closed = {s for s, n in every.items() if not any(s < t and n == m for t, m in every.items())}
    maximal = {s for s in every if not any(s < t for t in every)}
    for kind, expected in {"closed": closed, "maximal": maximal}.items():
        frame = rules.frequent_itemsets(coded(baskets), min_support=minimum, kind=kind)
        assert {frozenset(items) for items in frame["itemset"].to_list()} == expected


def test_mlxtend_agrees() -> None:
    rng = np.random.default_rng(1)
    matrix = np.zeros((300, 9), dtype=bool)
    for row, basket in enumerate(slow.random_baskets(rng, 300, 9, 0.35)):
        matrix[row, basket] = True
    wide = pd.DataFrame(matrix, columns=list("abcdefghi"))
    theirs = fpgrowth(wide, min_support=0.1, use_colnames=True)
    ours = rules.frequent_itemsets(wide, min_support=0.1)
    assert isinstance(ours, pd.DataFrame)
    assert {frozenset(s): n for s, n in zip(ours["itemset"], ours["support"])} == pytest.approx(
        dict(zip(theirs["itemsets"], theirs["support"]))
    )
    their_rules = mlxtend_rules(theirs, metric="confidence", min_threshold=0.4)
    our_rules = rules.association_rules(wide, min_support=0.1, min_confidence=0.4)
    measures = ["support", "confidence", "lift", "conviction"]

    def by_rule(frame: Any, left: str, right: str) -> dict[Any, Any]:
        keys = zip(map(frozenset, frame[left]), map(frozenset, frame[right]))
        return dict(zip(keys, frame[measures].to_numpy().tolist()))

    theirs_by_rule = by_rule(their_rules, "antecedents", "consequents")
    ours_by_rule = by_rule(our_rules, "antecedent", "consequent")
    assert ours_by_rule.keys() == theirs_by_rule.keys()
    for key, values in theirs_by_rule.items():
        assert ours_by_rule[key] == pytest.approx(values)


def test_a_rule_at_exactly_the_threshold_is_kept() -> None:
    baskets = [["a", "b"]] * 3 + [["a"]] * 2 + [["c"]] * 5
    found = rules.association_rules(baskets, min_support=0.3, min_confidence=0.6)
    assert ["a"] in found["antecedent"].to_list()
    assert rules.frequent_itemsets(baskets, min_support="30%")["count"].min() == 3


def test_every_container_gives_the_same_rules(tmp_path: Path) -> None:
    names = ["bread", "milk", "beer"]
    wide = pl.DataFrame({n: [int(n in basket) for basket in GROCERIES] for n in names})
    long = pl.DataFrame(
        [(row, item) for row, basket in enumerate(GROCERIES) for item in basket],
        schema=["till", "what"],
        orient="row",
    )
    csv = tmp_path / "sold.csv"
    long.write_csv(csv)
    words = tmp_path / "sold.dat"
    words.write_text("".join(" ".join(basket) + "\n" for basket in GROCERIES))
    matrix = wide.to_numpy()
    options: dict[str, Any] = {"min_support": 2, "min_confidence": 0.5}

    def found(data: Any, translate: Any = lambda item: item) -> set[Any]:
        frame = rules.association_rules(data, **options)
        sides = zip(frame["antecedent"], frame["consequent"], frame["support"])
        return {
            (frozenset(map(translate, a)), frozenset(map(translate, b)), n) for a, b, n in sides
        }

    expected = found(GROCERIES)
    assert (frozenset({"bread"}), frozenset({"milk"}), 0.5) in expected
    for data in (wide, wide.to_pandas(), wide.cast(pl.Boolean), long, long.to_pandas()):
        assert found(data) == expected
    for data in (
        csv,
        str(words),
        tuple(map(tuple, GROCERIES)),
        rules.baskets_from_long(long, "till", "what"),
    ):
        assert found(data) == expected
    for data in (matrix, sparse.csr_array(matrix), sparse.coo_matrix(matrix)):
        assert found(data, lambda code: names[code]) == expected


def test_sql(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as database:
        database.execute("create table sold (till integer, what text)")
        pairs = [(row, item) for row, basket in enumerate(GROCERIES) for item in basket]
        database.executemany("insert into sold values (?, ?)", pairs)
    database.close()
    found = rules.frequent_itemsets(f"sqlite:///{path}#sold", min_support=3)
    assert sorted(found["itemset"].to_list()) == [["bread"], ["milk"]]


@pytest.mark.parametrize("wrong", [0, 0.0, -1, 1.5, "0%", "many", True, None, float("nan")])
def test_wrong_support(wrong: Any) -> None:
    with pytest.raises(ParameterError, match="min_support"):
        rules.frequent_itemsets(GROCERIES, min_support=wrong)


@pytest.mark.parametrize("wrong", [-0.1, 1.1, "x", None])
def test_wrong_confidence(wrong: Any) -> None:
    with pytest.raises(ParameterError, match="min_confidence"):
        rules.association_rules(GROCERIES, min_support=2, min_confidence=wrong)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "basket"),
        ([[], []], "baskets"),
        (["bread"], "not a text"),
        (np.array([[0, 2]]), "1 cell.*0 nor.*1"),
        (sparse.csr_array([[0.5, 1.0]]), "1 cell.*0 nor.*1"),
        (pl.DataFrame({"a": [1, None]}), "'a'.*1 missing"),
        (pl.DataFrame({"a": ["x"], "b": ["y"], "c": ["z"]}), "baskets_from_long"),
        (pl.DataFrame({"id": [7], "b": [1], "c": [0]}), "'id'.*0.*1"),
        (pl.DataFrame({f"c{i}": [2] for i in range(7)}), "'c3'.*'c4'.*2"),
        (pl.DataFrame({"id": [1, 2], "item": ["a", None]}), "'item'.*1 missing"),
        (pl.DataFrame(), "basket"),
        (3, "baskets"),
    ],
)
def test_wrong_data(data: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        rules.frequent_itemsets(data, min_support=1)


def test_nothing_is_frequent_enough() -> None:
    found = rules.association_rules(GROCERIES, min_support=4, min_confidence=0.5)
    assert found.height == 0
    assert {"antecedent", "consequent", "support", "confidence", "lift"} <= set(found.columns)
    assert rules.frequent_itemsets(GROCERIES, min_support=5).height == 0
