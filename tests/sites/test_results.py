from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tulle import SiteAgreement, SiteCodec
from tulle.errors import DataError

TABLE = pl.DataFrame(
    {
        "age": [17, 29, 30, 44, 60, 89],
        "relationship": ["Wife", "Own-child", "Wife", "Husband", "Husband", "Husband"],
        "hours-per-week": [40.0, 12.5, 38.0, 60.0, 40.0, 8.0],
        "born": pl.date_range(pl.date(1950, 1, 1), pl.date(1950, 6, 1), "1mo", eager=True),
    }
)


@pytest.fixture(scope="module")
def codec() -> SiteCodec:
    agreement = SiteAgreement.create(
        {"age": "integer", "relationship": "category", "hours-per-week": "decimal", "born": "date"},
        limits={
            "age": [15, 30, 45, 60, 75, 90],
            "hours-per-week": [0, 20, 100],
            "born": ["1950-01-01", "1950-04-01", "1950-07-01"],
        },
        values={"age": [1, 2, 3, 4, 5], "hours-per-week": [3, 7], "born": [1, 4]},
    )
    return SiteCodec(agreement).learn(TABLE)


def alias(codec: SiteCodec, word: str) -> str:
    encoded = codec.transform(TABLE)
    return str(encoded["relationship"][TABLE["relationship"].to_list().index(word)])


def test_rules_in_text(codec: SiteCodec) -> None:
    wife, husband = alias(codec, "Wife"), alias(codec, "Husband")
    rule = f"relationship={wife} age=(2.0, 3.0] ==> relationship={husband} conf:(0.91)"
    assert codec.decode_rules(rule) == (
        "relationship=Wife age=(30, 45] ==> relationship=Husband conf:(0.91)"
    )
    assert codec.unknown_count_ == 0


def test_rules_in_any_nest(codec: SiteCodec) -> None:
    wife, child = alias(codec, "Wife"), alias(codec, "Own-child")

    @dataclass(frozen=True)
    class Rule:
        antecedent: frozenset[str]
        consequent: frozenset[str]
        support: float

    found: list[Any] = [
        (frozenset([wife]), frozenset([child]), 0.5),
        {"items": [wife], wife: 3},
        ("age", 2.0 + 2 / 3),
        Rule(frozenset([wife]), frozenset([child]), 0.25),
    ]
    assert codec.decode_rules(found) == [
        (frozenset(["Wife"]), frozenset(["Own-child"]), 0.5),
        {"items": ["Wife"], "Wife": 3},
        ("age", 40),
        Rule(frozenset(["Wife"]), frozenset(["Own-child"]), 0.25),
    ]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_rules_in_frames(codec: SiteCodec, kind: str) -> None:
    wife = alias(codec, "Wife")
    if kind == "pandas":
        rules = pd.DataFrame(
            {"antecedents": [frozenset([wife])], "consequents": [f"a={wife}"], "support": [0.5]}
        )
        decoded = codec.decode_rules(rules)
        assert decoded.iloc[0].tolist() == [frozenset(["Wife"]), "a=Wife", 0.5]
        assert rules.iloc[0, 1] == f"a={wife}"
    else:
        frame = pl.DataFrame({"items": [[wife, "x"]], "rule": [f"a={wife}"], "support": [0.5]})
        assert codec.decode_rules(frame).row(0) == (["Wife", "x"], "a=Wife", 0.5)


def test_unknown_aliases_stay_and_are_counted(codec: SiteCodec) -> None:
    text = "relationship_aaaaaaaaaaaa and relationship_bbbbbbbbbbbb, relationship_aaaaaaaaaaaa"
    assert codec.decode_text(text) == text
    assert codec.unknown_count_ == 2


def test_one_hot_names_are_decoded_even_for_twelve_letter_columns(codec: SiteCodec) -> None:
    name = f"relationship_{alias(codec, 'Wife')}"
    assert codec.decode_text(f"|--- {name} <= 0.50") == "|--- relationship_Wife <= 0.50"


def test_tree_text_thresholds_and_operators(codec: SiteCodec) -> None:
    text = "\n".join(
        [
            "|--- age <= 2.03333333333",
            "|   |--- hours-per-week <= 5.00",
            "|   |--- hours-per-week >  5.00",
            "|   |   |--- hours-per-week < 5.00",
            "|   |   |--- hours-per-week >= 5.00",
            "|--- age >  2.03333333333",
            "|   |--- wage > 2.0",
            "|   |--- 1.5 < age <= 3.5",
            "|   |--- born <= 1.505",
            "|   |--- born < 1.505",
            "|   |--- born <= 3.0",
            "|   |--- born > 3.0",
        ]
    )
    assert codec.decode_tree(text).splitlines() == [
        "|--- age <= 30.5",
        "|   |--- hours-per-week < 20",
        "|   |--- hours-per-week >=  20",
        "|   |   |--- hours-per-week < 20",
        "|   |   |--- hours-per-week >= 20",
        "|--- age >  30.5",
        "|   |--- wage > 2.0",
        "|   |--- 22.5 < age <= 52.5",
        "|   |--- born <= 1950-02-15",
        "|   |--- born < 1950-02-16",
        "|   |--- born < 1950-04-01",
        "|   |--- born >= 1950-04-01",
    ]


def test_decoded_fitted_tree_splits_as_the_encoded_one(codec: SiteCodec) -> None:
    from sklearn.tree import DecisionTreeClassifier, export_text

    names = ["age", "hours-per-week"]
    encoded = codec.transform(TABLE)
    y = TABLE["relationship"]
    plain = DecisionTreeClassifier(random_state=0).fit(TABLE.select(names).to_numpy(), y)
    coded = DecisionTreeClassifier(random_state=0).fit(
        encoded.select(names).to_numpy(), encoded["relationship"]
    )
    decoded = codec.decode_tree(coded, feature_names=names)
    assert decoded.count("\n") == export_text(plain, feature_names=names).count("\n")
    assert "Husband" in decoded
    assert "relationship_" not in decoded


def test_intervals_of_every_kind(codec: SiteCodec) -> None:
    assert codec.decode_intervals(["(1.5, 2.5]", "[2, inf)"], "age") == [
        "(22.5, 37.5]",
        "[30, inf)",
    ]
    assert codec.decode_intervals(["(-inf-1.5]", "(1.5-2.5]"], "age") == [
        "(-inf, 22.5]",
        "(22.5, 37.5]",
    ]
    weka = r"age=\'(1.5-2.5]\' 7 ==> hours-per-week='(-inf-3.5]' 6"
    assert codec.decode_rules(weka) == (r"age=\'(22.5, 37.5]\' 7 ==> hours-per-week='(-inf, 10]' 6")
    assert codec.decode_intervals([(1.0, 2.5)], "age") == [(15.0, 37.5)]
    gap = codec.decode_intervals(pd.Interval(3.5, 5.0, closed="right"), "hours-per-week")
    assert gap == pd.Interval(10.0, 20.0, closed="neither")
    bins = pd.IntervalIndex.from_tuples([(1.0, 2.0), (2.0, 3.0)])
    assert codec.decode_intervals(bins, "age")[1] == pd.Interval(30.0, 45.0)
    with pytest.raises(DataError):
        codec.decode_intervals(["(1, 2]"], "relationship")


def test_centres_are_not_rounded(codec: SiteCodec) -> None:
    name = alias(codec, "Wife")
    centres = pd.DataFrame({"age": [2.1, 5.0], f"relationship_{name}": [0.25, 0.5]})
    decoded = codec.decode_centers(centres)
    assert decoded.columns.tolist() == ["age", "relationship_Wife"]
    assert decoded["age"].tolist() == pytest.approx([31.5, 75.0])
    array = codec.decode_centers(np.array([[2.1, 3.5]]), ["age", "hours-per-week"])
    assert array.tolist() == [[pytest.approx(31.5), 10.0]]


def test_json_numbers_follow_the_column_they_are_about(codec: SiteCodec) -> None:
    wife = alias(codec, "Wife")
    found = {
        "split": {"feature": "age", "threshold": 2.5, "gain": 2.5},
        "center": {"age": 2.5, "hours-per-week": [3.5, 7.5]},
        "rule": [f"relationship={wife}", "age <= 2.5"],
        "n": 7,
    }
    assert codec.decode_json(found) == {
        "split": {"feature": "age", "threshold": 37.5, "gain": 2.5},
        "center": {"age": 37.5, "hours-per-week": [10.0, 60.0]},
        "rule": ["relationship=Wife", "age <= 37.5"],
        "n": 7,
    }
