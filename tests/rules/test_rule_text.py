"""Rules as users write them, with names of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle import Rule, RuleHider
from tulle.errors import ParameterError
from tulle.rules import read_rules
from tulle.rules.rule import as_itemsets

NAMES = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=6) | st.sampled_from(
    ["milk, whole", 'a "b" c', '"', "->", "x -> y", "#1", "beer #3", "a;b", "1 2", " x ", "", "a=b"]
)


@pytest.mark.slow
@given(st.lists(NAMES, min_size=2, max_size=5, unique=True))
def test_a_rule_reads_back_what_it_says(names: list[str]) -> None:
    rule = Rule(names[:-1], names[-1:])
    assert Rule(str(rule)) == rule


def test_quotes() -> None:
    rule = Rule('"milk, whole", bread -> "3"" nails"')
    assert rule.antecedent == ("milk, whole", "bread")
    assert rule.consequent == ('3" nails',)
    assert Rule('12" pizza, cola -> beer').antecedent == ('12" pizza', "cola")


@pytest.mark.slow
def test_a_hash_inside_a_name_is_no_comment(tmp_path: Path) -> None:
    path = tmp_path / "secret.txt"
    path.write_text('bread -> beer#3\n"x #1" -> "y; z" ; support=2 # ours\n# nothing -> here\n')
    found = read_rules(path).rules
    assert [rule.consequent for rule in found] == [("beer#3",), ("y; z",)]
    assert found[1].antecedent == ("x #1",)
    assert found[1].min_support == "2"
    baskets = [["bread", "beer#3"]] * 5 + [["bread", "beer"]] * 3 + [["x"]]
    released = RuleHider(found[:1], min_support=2, random_state=0).fit_transform(baskets)
    assert sum({"bread", "beer#3"} <= set(basket) for basket in released) < 2


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    path = tmp_path / "secret.txt"
    path.write_bytes(b"\xef\xbb\xbfbread -> beer\r\n")
    assert read_rules(path).rules == [Rule("bread -> beer")]


@pytest.mark.parametrize(
    ("text", "message"),
    [("a -> b\nkeep:\n", "line 2"), ("a -> b ; disclosure=1% ; support=2\n", "line 1")],
)
def test_wrong_lines_are_told_by_number(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "secret.txt"
    path.write_text(text)
    with pytest.raises(ParameterError, match=message):
        read_rules(path)


def test_an_empty_confidence_is_no_confidence(tmp_path: Path) -> None:
    path = tmp_path / "secret.txt"
    path.write_text("a -> b ; confidence=\n")
    with pytest.raises(ParameterError, match="min_confidence"):
        RuleHider(path, min_support=2).fit_transform([["a", "b"]] * 3 + [["c"]])


def test_items_of_a_rule_are_single_values() -> None:
    with pytest.raises(ParameterError):
        Rule([["a"]], ["b"])  # type: ignore[list-item]


def test_itemsets_to_keep_are_texts_or_lists() -> None:
    assert as_itemsets("bread, milk") == [("bread", "milk")]
    assert as_itemsets(["bread, milk", ["a", "b"], "ab"]) == [
        ("bread", "milk"),
        ("a", "b"),
        ("ab",),
    ]
    with pytest.raises(ParameterError):
        as_itemsets([[]])


@pytest.mark.slow
def test_rules_of_an_arrow_table() -> None:
    from tulle.rules import association_rules

    baskets = [["a", "b"]] * 3 + [["c"]]
    frame = association_rules(baskets, min_support=1, min_confidence=0.5)
    released = RuleHider(frame.to_arrow(), min_support=2, random_state=0).fit_transform(baskets)
    assert sum({"a", "b"} <= set(basket) for basket in released) < 2
    with pytest.raises(ParameterError, match="'antecedent'"):
        RuleHider(frame.drop("antecedent"), min_support=2).fit_transform(baskets)
