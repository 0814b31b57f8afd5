"""The same people at several sites: pseudonyms match them, and nothing ambiguous gets through."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tulle import SecretKey, SiteAgreement, SiteCodec, SiteSummary, match_people
from tulle.errors import DataError, ParameterError

CLINIC = pl.DataFrame(
    {"insured": ["A1", "B2 ", "C3", "E5"], "age": [40, 51, 63, 18], "ill": ["Flu", "", None, "Flu"]}
)
INSURER = pl.DataFrame({"insured": ["C3", "B2", "D4", "A1"], "cost": [90.5, 870.0, 15.0, None]})


def agreement(**choices: Any) -> SiteAgreement:
    summaries = [SiteSummary.of(CLINIC), SiteSummary.of(INSURER)]
    return SiteAgreement.from_summaries(summaries, match="insured", **choices)


def test_columns_of_the_same_people_come_together_and_the_pseudonym_goes() -> None:
    codec = SiteCodec(agreement())
    codes = [codec.transform(CLINIC), codec.transform(INSURER)]
    assert [table.columns for table in codes] == [["insured", "age", "ill"], ["insured", "cost"]]
    assert not {*codes[0]["insured"]} & {*CLINIC["insured"]}
    found = match_people(codes, "insured")
    assert found.left_out == (1, 1)
    assert found.table.columns == ["age", "ill", "cost"]
    plain = codec.inverse_transform(found.table)
    truth = CLINIC.with_columns(pl.col("insured").str.strip_chars()).join(INSURER, on="insured")
    assert plain.sort("age").equals(truth.select(plain.columns).sort("age"))


@pytest.mark.slow
@given(st.sets(st.integers(0, 60), min_size=1), st.sets(st.integers(0, 60), min_size=1))
@few(40)
def test_exactly_those_who_are_at_both_sites_are_matched(one: set[int], two: set[int]) -> None:
    agreed = SiteAgreement.create(
        {"id": "integer", "x": "integer", "y": "integer"},
        ranges={"x": (0, 99), "y": (0, 99)}, match="id", key=SecretKey(b"k" * 32),
    )  # fmt: skip
    codec = SiteCodec(agreed)
    tables = [
        pl.DataFrame({"id": sorted(one), "x": sorted(one)}),
        pl.DataFrame({"id": [float(i) for i in two], "y": list(two)}),  # 3 and 3.0 are one person
    ]
    codes = [codec.transform(table) for table in tables]
    if not one & two:
        with pytest.raises(DataError, match="nobody"):
            match_people(codes, "id")
        return
    found = match_people(codes, "id")
    assert found.left_out == (len(one - two), len(two - one))
    plain = codec.inverse_transform(found.table)
    assert plain["x"].to_list() == plain["y"].to_list()
    assert set(plain["x"].to_list()) == one & two


def test_three_tables_of_pandas_give_pandas() -> None:
    agreed = SiteAgreement.create(
        {"id": "text", "a": "boolean", "b": "boolean", "c": "boolean"}, match="id"
    )
    codec = SiteCodec(agreed)
    tables = [pd.DataFrame({"id": ["p", "q"], name: [True, False]}) for name in "abc"]
    found = match_people([codec.transform(table) for table in tables], "id")
    assert isinstance(found.table, pd.DataFrame)
    assert list(found.table.columns) == ["a", "b", "c"]
    assert len(found.table) == 2


def test_another_release_or_key_matches_nobody() -> None:
    agreed = agreement()
    clinic = SiteCodec(agreed).transform(CLINIC)
    for other in (agreed.for_release("2027"), agreed.rotate()):
        with pytest.raises(DataError, match="nobody"):
            match_people([clinic, SiteCodec(other).transform(INSURER)], "insured")


def test_people_who_cannot_be_told_apart_are_refused_and_counted() -> None:
    codec = SiteCodec(agreement())
    twice = pl.concat([INSURER, INSURER.head(1)])
    with pytest.raises(DataError, match="'insured': 2 records") as refused:
        codec.transform(twice)
    assert "C3" not in str(refused.value)
    blanks = INSURER.with_columns(insured=pl.Series(["C3", " C3", "D4", "A1"]))
    with pytest.raises(DataError, match="'insured': 2 records"):
        codec.transform(blanks)
    nobody = INSURER.with_columns(insured=pl.Series(["C3", None, "", "A1"]))
    with pytest.raises(DataError, match="'insured': 2 records"):
        codec.transform(nobody)


def test_tables_that_do_not_fit_are_refused() -> None:
    codec = SiteCodec(agreement())
    clinic, insurer = codec.transform(CLINIC), codec.transform(INSURER)
    with pytest.raises(DataError, match="'age'"):
        match_people([clinic, insurer.with_columns(age=1.0)], "insured")
    with pytest.raises(DataError, match="table 2"):
        match_people([clinic, insurer.drop("insured")], "insured")
    with pytest.raises(DataError, match="table 1: 2 records|2 records of table 1"):
        match_people([pl.concat([clinic, clinic.head(1)]), insurer], "insured")
    with pytest.raises(ParameterError):
        match_people([clinic], "insured")
    with pytest.raises(DataError, match="'insured'"):
        codec.transform(CLINIC.drop("insured"))
    with pytest.raises(DataError, match="'insured'"):
        codec.transform(CLINIC.select("insured"))
    with pytest.raises(DataError, match="'height'"):
        codec.transform(CLINIC.with_columns(height=1))


def test_an_agreement_says_where_each_column_is_from() -> None:
    assert agreement().describe()[0]["coded"] == "keyed pseudonyms, to match people"
    both = [SiteSummary.of(CLINIC), SiteSummary.of(INSURER.with_columns(age=1))]
    with pytest.raises(DataError, match="'age'"):
        SiteAgreement.from_summaries(both, match="insured")
    with pytest.raises(DataError, match="site 2"):
        SiteAgreement.from_summaries([both[0], SiteSummary.of(INSURER.drop("insured"))],
                                     match="insured")  # fmt: skip
    with pytest.raises(DataError, match="--match"):
        SiteAgreement.from_summaries([both[0], SiteSummary.of(INSURER)])
    for choices in ({"match": "nobody"}, {"match": "age", "alias": ["age"]}, {"match": ["age"]}):
        with pytest.raises(ParameterError):
            SiteAgreement.create({"age": "integer", "ill": "text"}, **choices)


def test_a_saved_agreement_gives_the_same_pseudonyms(tmp_path: Any) -> None:
    agreed = agreement()
    agreed.save(tmp_path / "file", SecretKey(b"l" * 32))
    again = SiteAgreement.load(tmp_path / "file", SecretKey(b"l" * 32))
    assert again == agreed
    codes = [SiteCodec(one).transform(INSURER)["insured"] for one in (agreed, again)]
    assert codes[0].equals(codes[1])
