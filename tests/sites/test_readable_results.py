"""What is decoded keeps every item, and says of which column it is."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tulle import SecretKey, SiteAgreement, SiteCodec
from tulle.errors import DataError

TABLE = pl.DataFrame(
    {
        "mother": ["Flu", "Flu", "none"],
        "father": ["Flu", "none", "Flu"],
        "smoker": [True, True, False],
        "ill": [True, False, True],
        "id": ["A", "B", "C"],
        "age": [3, 40, 99],
        "born": [dt.date(1950, 1, 1), dt.date(1990, 6, 7), dt.date(2000, 1, 1)],
        "seen": [dt.datetime(2020, 1, 1, 5), dt.datetime(2020, 2, 2), dt.datetime(2020, 3, 3, 7)],
    }
)
KINDS = {
    **dict.fromkeys(("mother", "father", "id"), "category"),
    **dict.fromkeys(("smoker", "ill"), "boolean"),
    "age": "integer",
    **dict.fromkeys(("born", "seen"), "datetime"),
}
RANGES = {
    "age": (0, 120),
    "born": ("1900-01-01", "2030-12-31"),
    "seen": ("2020-01-01T00:00", "2021-01-01T00:00"),
}


@pytest.fixture(scope="module")
def codec() -> SiteCodec:
    listed = {"id": [*"ABCDEFGHIJKLMNOPQRSTUVWXYZ"]}
    key = SecretKey(bytes(range(32)))
    agreement = SiteAgreement.create(KINDS, ranges=RANGES, categories=listed, key=key)
    return SiteCodec(agreement).learn(TABLE)


@pytest.fixture(scope="module")
def codes(codec: SiteCodec) -> dict[str, str]:
    found: dict[str, str] = SiteCodec(codec.agreement).transform(TABLE).row(0, named=True)
    return found


def test_equal_values_of_several_columns_are_not_merged(
    codec: SiteCodec, codes: dict[str, str]
) -> None:
    items = [codes[name] for name in ("mother", "father", "smoker", "ill")]
    decoded = {"mother=Flu", "father=Flu", "smoker=true", "ill=true"}
    assert codec.decode_rules(frozenset(items)) == frozenset(decoded)
    assert codec.decode_json(dict.fromkeys(items, 3)) == dict.fromkeys(decoded, 3)
    rule = f"{codes['smoker']} ==> {codes['ill']}"
    assert codec.decode_rules(rule) == "smoker=true ==> ill=true"
    for frame in (pl.DataFrame({item: [0.5] for item in items}), pd.DataFrame([items[:1] * 2])):
        codec.decode_rules(frame)
    named = codec.decode_centers(pl.DataFrame({item: [0.5] for item in items}))
    assert set(named.columns) == decoded


def test_a_column_that_is_named_is_not_named_twice(codec: SiteCodec, codes: dict[str, str]) -> None:
    smoker = codes["smoker"]
    assert codec.decode_rules([f"smoker={smoker}", f"smoker_{smoker}", ("smoker", smoker)]) == [
        "smoker=true", "smoker_true", ("smoker", "true"),
    ]  # fmt: skip
    assert codec.decode_rules({"smoker": [smoker]}) == {"smoker": ["true"]}
    assert codec.decode_json({"smoker": smoker, "if": {"column": "smoker", "value": smoker}}) == {
        "smoker": "true",
        "if": {"column": "smoker", "value": "true"},
    }
    frame = pd.DataFrame({"smoker": [smoker], "ill": [codes["ill"]]})
    assert codec.decode_rules(frame).iloc[0].tolist() == ["true", "true"]


def test_parts_of_a_split_value_keep_their_counts() -> None:
    codec = SiteCodec(SiteAgreement.create({"sex": "category"}, split={"sex": 0.3}), random_state=0)
    encoded = codec.transform(pl.DataFrame({"sex": ["f"] * 60 + ["m"] * 40}))
    counts = dict(encoded["sex"].value_counts().rows())
    decoded = codec.decode_json(counts)
    assert len(decoded) == len(counts) > 2
    assert sum(count for key, count in decoded.items() if key.startswith("f (")) == 60


def test_words_that_only_contain_an_alias_are_left_alone(codec: SiteCodec) -> None:
    text = "covid_19, aid_3 and id_3x"
    assert codec.decode_text(text) == text
    assert codec.unknown_count_ == 0
    assert codec.decode_text("id_99") == "id_99"
    assert codec.unknown_count_ == 1


def test_names_of_columns_are_no_unknown_aliases() -> None:
    kinds = {"patient": "category", "patient_relationship": "category"}
    codec = SiteCodec(SiteAgreement.create(kinds))
    assert codec.decode_text("patient_relationship = x") == "patient_relationship = x"
    assert codec.unknown_count_ == 0


def test_rules_as_pairs_of_lists_series_and_views(codec: SiteCodec, codes: dict[str, str]) -> None:
    mother, father = codes["mother"], codes["father"]
    assert codec.decode_rules(([mother], {father})) == (["mother=Flu"], {"father=Flu"})
    series = pd.Series([frozenset([mother])], name="antecedents", index=[father])
    decoded = codec.decode_rules(series)
    assert decoded.tolist() == [frozenset(["mother=Flu"])]
    assert (decoded.name, decoded.index.tolist()) == ("antecedents", ["father=Flu"])
    assert codec.decode_rules(pl.Series("items", [[mother]])).to_list() == [["mother=Flu"]]
    assert codec.decode_rules(iter([mother])) == ["mother=Flu"]
    assert codec.decode_rules({mother: 1}.keys()) == ["mother=Flu"]
    table = pd.DataFrame({"mother": [mother], "father": [father]}).astype("category")
    assert codec.decode_rules(pd.crosstab(table["mother"], table["father"])).index.tolist() == [
        "mother=Flu"
    ]


def test_thresholds_on_the_left(codec: SiteCodec, codes: dict[str, str]) -> None:
    code = repr(codes["age"])
    for text, expected in [
        ("{} > age", "3 > age"), ("{} >= age", "3 >= age"), ("{} < age", "3 < age"),
    ]:  # fmt: skip
        assert codec.decode_text(text.format(code)) == expected


def test_numbers_that_are_none_are_kept(codec: SiteCodec) -> None:
    decoded = codec.decode_json({"born": math.nan, "age": math.nan})
    assert all(math.isnan(value) for value in decoded.values())
    assert math.isnan(codec.decode_rules([("born", math.nan)])[0][1])


def test_moments_are_decoded_as_moments(codec: SiteCodec) -> None:
    encoded = codec.transform(TABLE).select("born", "seen")
    means = codec.decode_centers(encoded.select(pl.all().mean()))
    for name, near in (("born", dt.datetime(1980, 2, 22)), ("seen", dt.datetime(2020, 2, 1, 20))):
        assert abs(means[name][0] - near) < dt.timedelta(days=1)
    born, seen = encoded.row(0)
    assert codec.decode_intervals((born, math.inf), "born") == (dt.datetime(1950, 1, 1), math.inf)
    decoded = codec.decode_intervals(pd.Interval(born, encoded["born"][2]), "born")
    assert decoded == pd.Interval(pd.Timestamp("1950-01-01"), pd.Timestamp("2000-01-01"))
    low, _ = codec.decode_intervals([(seen, math.inf)], "seen")[0]
    assert abs(low - dt.datetime(2020, 1, 1, 5)) < dt.timedelta(milliseconds=1)


@pytest.mark.parametrize("intervals", [5, None, [None]])
def test_what_is_no_interval_is_refused(codec: SiteCodec, intervals: object) -> None:
    with pytest.raises(DataError):
        codec.decode_intervals(intervals, "age")


def test_arrays_of_centres_need_names(codec: SiteCodec) -> None:
    for columns in (None, ["age"]):
        with pytest.raises(DataError, match="2 columns"):
            codec.decode_centers(np.array([[2.1, 3.5]]), columns)
    with pytest.raises(DataError, match="'age'"):
        codec.decode_centers(pl.DataFrame({"age": ["2.5"]}))


def test_a_tree_knows_its_features_or_is_told(codec: SiteCodec) -> None:
    from sklearn.tree import DecisionTreeClassifier

    encoded = codec.transform(TABLE)
    ages = pd.DataFrame({"age": encoded["age"].to_list()})
    tree = DecisionTreeClassifier(random_state=0).fit(ages, encoded["ill"].to_list())
    assert codec.decode_tree(tree).splitlines()[:2] == [
        "|--- age <= 21.50", "|   |--- class: ill=true",
    ]  # fmt: skip
    nameless = DecisionTreeClassifier(random_state=0).fit(ages.to_numpy(), encoded["ill"].to_list())
    with pytest.raises(DataError, match="1 feature.*8"):
        codec.decode_tree(nameless)
    text = f"|--- feature_0 <= {encoded['age'][0]!r}\n|--- feature_7 > 1"
    assert codec.decode_tree(text, feature_names=["age"], decimals=1) == (
        "|--- age <= 3.0\n|--- feature_7 > 1"
    )
    with pytest.raises(DataError, match="2 classes.*class_names.*has 3"):
        codec.decode_tree(tree, class_names=["a", "b", "c"])
    for nothing in (None, DecisionTreeClassifier()):
        with pytest.raises(DataError, match="fitted"):
            codec.decode_tree(nothing)


def test_predictions_of_any_type_are_decoded_or_counted(
    codec: SiteCodec, codes: dict[str, str]
) -> None:
    table = pd.DataFrame({"guess": pd.Categorical([codes["mother"], None])})
    assert codec.inverse_transform(table)["guess"].tolist() == ["Flu", None]
    stranger = SiteCodec(codec.agreement)
    with pytest.raises(DataError, match="'guess'.*1 cell"):
        stranger.inverse_transform(table)
    keeping = SiteCodec(codec.agreement, unknown="keep")
    assert keeping.inverse_transform(table)["guess"][0] == codes["mother"]
    assert keeping.unknown_count_ == 1
    assert stranger.inverse_transform(pd.DataFrame({"note": ["covid_19"]}))["note"][0] == "covid_19"


def test_rounded_time_stamps_are_noticed(codec: SiteCodec) -> None:
    rounded = codec.transform(TABLE).select(pl.col("seen").round(4))
    with pytest.raises(DataError):
        codec.inverse_transform(rounded)


def test_thresholds_of_tiny_and_of_other_numbers_are_not_rounded_away() -> None:
    for scale in (1e-9, 1.0, 1e9):
        shared = SiteAgreement.create({"dose": "decimal"}, ranges={"dose": (0.0, scale)})
        codec = SiteCodec(shared)
        code = codec.transform(pl.DataFrame({"dose": [0.3125 * scale]}))["dose"][0]
        decoded = codec.decode_text(f"dose <= {code!r}").removeprefix("dose <= ")
        assert float(decoded) == pytest.approx(0.3125 * scale, rel=1e-6)
        assert codec.decode_text(f"dose != {code!r}") == f"dose != {decoded}"
