from __future__ import annotations

import copy
import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tulle import SiteAgreement, SiteCodec
from tulle.errors import DataError, KeyMaterialError, ParameterError

KINDS = {
    "name": "text",
    "illness": "category",
    "smoker": "boolean",
    "age": "integer",
    "weight": "decimal",
    "born": "date",
    "seen": "timestamp",
    "rang": "category",
}
RANGES = {
    "age": (0, 120),
    "weight": (0, 500),
    "born": ("1900-01-01", "2030-12-31"),
    "seen": ("2020-01-01T00:00", "2022-01-01T00:00"),
}
DTYPES = {
    "name": pl.String,
    "illness": pl.String,
    "smoker": pl.Boolean,
    "age": pl.Int64,
    "weight": pl.Float64,
    "born": pl.Date,
    "seen": pl.Datetime("us"),
    "rang": pl.Time,
}
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "name": st.text(max_size=8),
    "illness": st.sampled_from(["Flu", "Gastritis", "Stomach cancer", "", "?", "Ü"]),
    "smoker": st.booleans(),
    "age": st.integers(0, 120),
    "weight": st.integers(0, 50_000).map(lambda number: number / 100),
    "born": st.dates(dt.date(1900, 1, 1), dt.date(2030, 12, 31)),
    "seen": st.datetimes(dt.datetime(2020, 1, 1), dt.datetime(2022, 1, 1)),
    "rang": st.times(),
}


@st.composite
def tables(draw: st.DrawFn) -> pl.DataFrame:
    rows = draw(st.integers(0, 12))
    columns = {
        name: draw(st.lists(st.none() | cells, min_size=rows, max_size=rows))
        for name, cells in CELLS.items()
    }
    return pl.DataFrame(columns, schema=DTYPES)


def agreement(**choices: Any) -> SiteAgreement:
    return SiteAgreement.create(KINDS, ranges=RANGES, **choices)


@pytest.mark.guarantee
@pytest.mark.slow
@given(tables(), st.sampled_from(["equal", "uneven"]), st.integers(1, 9))
def test_round_trip_is_exact_for_every_type(table: pl.DataFrame, cuts: str, groups: int) -> None:
    codec = SiteCodec(agreement(cuts=cuts, groups=groups))
    encoded = codec.transform(table)
    assert encoded.height == table.height
    assert (encoded.null_count().row(0)) == (table.null_count().row(0))
    assert codec.inverse_transform(encoded).equals(table)


@pytest.mark.slow
@given(tables())
@few(30)
def test_numbers_can_be_aliased(table: pl.DataFrame) -> None:
    codec = SiteCodec(agreement(alias=["age", "weight", "born", "seen"]))
    encoded = codec.transform(table)
    assert codec.inverse_transform(encoded).equals(table)


@pytest.mark.guarantee
@given(st.lists(st.floats(0, 500), min_size=1, max_size=30))
def test_any_decimal_comes_back_within_floating_point(numbers: list[float]) -> None:
    table = pl.DataFrame({"weight": numbers})
    codec = SiteCodec(SiteAgreement.create({"weight": "decimal"}, ranges={"weight": (0, 500)}))
    back = codec.inverse_transform(codec.transform(table))["weight"].to_numpy()
    assert np.abs(back - np.array(numbers)).max() < 1e-11
    order = np.argsort(numbers, kind="stable")
    assert (np.diff(codec.transform(table)["weight"].to_numpy()[order]) >= 0).all()


def small() -> pl.DataFrame:
    return pl.DataFrame(
        {"age": [34, 51, None, 34], "illness": ["Flu", "Gastritis", "Flu", None]},
        schema={"age": pl.Int64, "illness": pl.String},
    )


def small_agreement(**choices: Any) -> SiteAgreement:
    return SiteAgreement.create(
        {"age": "integer", "illness": "category"}, **{"ranges": {"age": (0, 120)}, **choices}
    )


def test_equal_values_at_two_sites_get_equal_codes_and_mean_nothing() -> None:
    shared = small_agreement()
    one, two = SiteCodec(shared).transform(small()), SiteCodec(shared).transform(small()[::-1])
    assert one.equals(two[::-1])
    assert one["illness"][0].startswith("illness_")
    assert "Flu" not in one["illness"][0]
    other = SiteCodec(small_agreement()).transform(small())
    assert not set(other["illness"].drop_nulls()) & set(one["illness"].drop_nulls())


def test_types_of_files_do_not_change_aliases() -> None:
    shared = SiteAgreement.create({"ward": "category"})
    codes = [
        SiteCodec(shared).transform(pl.DataFrame({"ward": ward}))["ward"].to_list()
        for ward in ([1, 2, None], [1.0, 2.0, None], ["1", "2", None], [1.0, 2.0, float("nan")])
    ]
    assert all(code == codes[0] for code in codes)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "list", "numpy"])
def test_any_frame_in_same_kind_out(kind: str) -> None:
    frame = pd.DataFrame(
        {"age": [34, 51, 20], "illness": pd.Categorical(["Flu", None, "Flu"])},
        index=["a", "b", "c"],
    )
    table: Any = {
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "pyarrow": pa.Table.from_pandas(frame, preserve_index=False),
        "list": [[34, "Flu"], [51, None], [20, "Flu"]],
        "numpy": np.array([[34, "Flu"], [51, None], [20, "Flu"]], dtype=object),
    }[kind]
    names = ("x0", "x1") if kind in ("list", "numpy") else ("age", "illness")
    shared = SiteAgreement.create(
        {names[0]: "integer", names[1]: "category"}, ranges={names[0]: (0, 120)}
    )
    codec = SiteCodec(shared)
    encoded = codec.transform(table)
    back = codec.inverse_transform(encoded)
    assert type(encoded) is type(table)
    assert type(back) is type(table)
    if kind == "pandas":
        assert encoded.index.tolist() == ["a", "b", "c"]
        pd.testing.assert_frame_equal(back, table)
    elif kind == "numpy":
        assert back.tolist() == table.tolist()
    elif kind == "list":
        assert back == table
    else:
        assert back.equals(table)


@pytest.mark.parametrize(
    ("dtype", "cells"),
    [
        (pl.Int8, [1, None, 3]),
        (pl.UInt16, [1, None, 3]),
        (pl.Float32, [1.5, None, 3.25]),
        (pl.Decimal(10, 2), [Decimal("1.50"), None]),
        (pl.Float64, [1.5, float("nan"), None]),
        (pl.Float64, [1e-7, 2e-7, None]),
    ],
)
@pytest.mark.parametrize("alias", [(), ("x",)])
def test_number_types_are_kept(dtype: Any, cells: list[Any], alias: tuple[str, ...]) -> None:
    table = pl.DataFrame({"x": pl.Series(cells, dtype=dtype)})
    kind = "integer" if dtype in (pl.Int8, pl.UInt16) else "decimal"
    codec = SiteCodec(SiteAgreement.create({"x": kind}, ranges={"x": (0, 10)}, alias=alias))
    back = codec.inverse_transform(codec.transform(table))
    assert back.schema == table.schema
    # an alias of NaN would be a name for nothing: it is missing
    assert back.equals(table.fill_nan(None) if alias and dtype == pl.Float64 else table)


def test_pandas_types_and_empty_batches_are_kept() -> None:
    frame = pd.DataFrame(
        {
            "a": pd.array([1, None], dtype="Int64"),
            "b": pd.array(["x", None], dtype="string"),
            "c": pd.array([True, None], dtype="boolean"),
            "d": pd.Categorical([3, 4]),
            "e": pd.to_datetime(["2020-01-01", None]),
        },
        index=[5, 9],
    )
    kinds = {"a": "integer", "b": "text", "c": "boolean", "d": "category", "e": "date"}
    ranges = {"a": (0, 9), "e": ("2019-01-01", "2021-01-01")}
    codec = SiteCodec(SiteAgreement.create(kinds, ranges=ranges))
    pd.testing.assert_frame_equal(codec.inverse_transform(codec.transform(frame)), frame)
    empty = pa.RecordBatch.from_pylist([], schema=pa.Schema.from_pandas(frame, False))
    assert codec.inverse_transform(codec.transform(empty)).num_rows == 0


def test_input_is_not_changed() -> None:
    table = small()
    before = table.clone()
    SiteCodec(small_agreement()).transform(table)
    assert table.equals(before)


def test_values_outside_the_range_are_refused_or_clamped() -> None:
    table = pl.DataFrame({"age": [34, 121, -1], "illness": ["a", "b", "c"]})
    with pytest.raises(DataError, match="'age'.*2 values") as error:
        SiteCodec(small_agreement()).transform(table)
    assert "121" not in str(error.value)
    codec = SiteCodec(small_agreement(), outside="clamp")
    assert codec.inverse_transform(codec.transform(table))["age"].to_list() == [34, 120, 0]


def test_infinity_is_outside_every_range() -> None:
    shared = SiteAgreement.create({"weight": "decimal"}, ranges={"weight": (0, 500)})
    with pytest.raises(DataError, match="1 value"):
        SiteCodec(shared).transform(pl.DataFrame({"weight": [1.0, float("inf")]}))


def test_table_aliases_are_numbers_without_order_and_refuse_new_categories() -> None:
    illnesses = ["Gastritis", "Flu", "Stomach cancer", "Throat infection", "Mouth ulcer"]
    shared = small_agreement(categories={"illness": illnesses})
    codec = SiteCodec(shared)
    encoded = codec.transform(small())
    assert set(encoded["illness"].drop_nulls()) < {f"illness_{number}" for number in range(1, 6)}
    assert SiteCodec(shared).inverse_transform(encoded).equals(small())
    with pytest.raises(DataError, match="'illness'.*'Mumps'"):
        codec.transform(pl.DataFrame({"age": [1], "illness": ["Mumps"]}))
    orders = {
        tuple(SiteCodec(shared.rotate()).transform(small())["illness"].to_list()) for _ in range(20)
    }
    assert len(orders) > 3


def test_agreed_other_alias_takes_new_categories() -> None:
    shared = small_agreement(categories={"illness": ["Flu", "Gastritis"]}, other=["illness"])
    codec = SiteCodec(shared)
    encoded = codec.transform(pl.DataFrame({"age": [1, 2], "illness": ["Mumps", "Flu"]}))
    assert codec.inverse_transform(encoded)["illness"].to_list() == ["other", "Flu"]


def test_unknown_category_just_works_with_keyed_aliases() -> None:
    codec = SiteCodec(small_agreement())
    codec.transform(small())
    new = pl.DataFrame({"age": [3], "illness": ["Never seen"]})
    assert codec.inverse_transform(codec.transform(new)).equals(new)


def test_values_of_other_sites_are_refused_kept_or_learned(tmp_path: Any) -> None:
    shared = small_agreement()
    other = SiteCodec(shared)
    encoded = other.transform(small())
    mine = SiteCodec(shared).learn(pl.DataFrame({"age": [1], "illness": ["Flu"]}))
    with pytest.raises(DataError, match="'illness'.*1 cell"):
        mine.inverse_transform(encoded)
    keeping = SiteCodec(shared, unknown="keep").learn(
        pl.DataFrame({"age": [1], "illness": ["Flu"]})
    )
    decoded = keeping.inverse_transform(encoded)
    assert decoded["illness"].to_list() == ["Flu", encoded["illness"][1], "Flu", None]
    assert keeping.unknown_count_ == 1
    other.save_vocabulary(tmp_path / "words")
    assert b"Gastritis" not in (tmp_path / "words").read_bytes()
    assert mine.load_vocabulary(tmp_path / "words").inverse_transform(encoded).equals(small())
    with pytest.raises(KeyMaterialError):
        SiteCodec(small_agreement()).load_vocabulary(tmp_path / "words")


def test_codes_of_nobody_are_refused() -> None:
    codec = SiteCodec(small_agreement(limits={"age": [0, 60, 120]}, values={"age": [1, 5]}))
    codes = pl.DataFrame({"age": [1.1, 3.0, 0.2, 9.9]})
    with pytest.raises(DataError, match="'age'.*3 numbers"):
        codec.inverse_transform(codes)
    with pytest.raises(DataError):
        codec.inverse_transform(pl.DataFrame({"age": ["x"]}))


def test_miners_columns_are_kept_and_their_aliases_decoded() -> None:
    codec = SiteCodec(small_agreement())
    encoded = codec.transform(small())
    results = encoded.with_columns(
        cluster=pl.Series([0, 1, 1, 0]), prediction=pl.col("illness"), note=pl.lit("fine")
    )
    decoded = codec.inverse_transform(results)
    assert decoded["prediction"].to_list() == small()["illness"].to_list()
    assert decoded["cluster"].to_list() == [0, 1, 1, 0]
    assert decoded["note"].unique().to_list() == ["fine"]


def test_columns_must_match_the_agreement() -> None:
    codec = SiteCodec(small_agreement())
    with pytest.raises(DataError, match="'illness'.*'ilness'"):
        codec.transform(pl.DataFrame({"age": [1], "ilness": ["Flu"]}))
    with pytest.raises(DataError, match="1 column.*'sex'"):
        codec.transform(small().with_columns(sex=pl.lit("f")))
    shuffled = codec.transform(small().select("illness", "age"))
    assert shuffled.columns == ["age", "illness"]


def test_identifiers_stay_at_home_and_plain_columns_pass() -> None:
    from tulle.table.schema import Column, Kind, Role

    shared = SiteAgreement.create(
        [
            Column("patient", Kind.TEXT, Role.IDENTIFIER),
            Column("stay", Kind.INTEGER),
            Column("illness", Kind.CATEGORY, Role.SENSITIVE),
        ],
        plain=["stay"],
    )
    table = pl.DataFrame({"patient": ["Ann"], "stay": [3], "illness": ["Flu"]})
    encoded = SiteCodec(shared).transform(table)
    assert encoded.columns == ["stay", "illness"]
    assert encoded["stay"].to_list() == [3]
    assert SiteCodec(shared).transform(table.drop("patient")).equals(encoded)


def test_split_flattens_frequencies_and_still_decodes(rng: np.random.Generator) -> None:
    sexes = rng.choice(["f", "m", "x"], size=4000, p=[0.6, 0.39, 0.01])
    shared = SiteAgreement.create({"sex": "category"}, split={"sex": 0.1})
    codec = SiteCodec(shared, random_state=1)
    table = pl.DataFrame({"sex": sexes})
    encoded = codec.transform(table)
    shares = encoded["sex"].value_counts(normalize=True)["proportion"].to_numpy()
    assert shares.max() < 0.13
    assert 10 <= len(shares) <= 13
    assert codec.inverse_transform(encoded).equals(table)
    assert SiteCodec(shared).learn(table).inverse_transform(encoded).equals(table)
    assert SiteCodec(shared, random_state=1).transform(table).equals(encoded)


def test_secrets_are_neither_shown_nor_pickled() -> None:
    shared = small_agreement(categories={"illness": ["Flu", "Gastritis"]})
    codec = SiteCodec(shared)
    codec.transform(small())
    secret = shared._key._secret.hex()
    for thing in (shared, codec, *shared.columns, codec._vocabulary, codec._exit):
        shown = repr(thing) + str(thing)
        assert secret not in shown
        assert "Gastritis" not in shown
        assert "24.0" not in shown
    for thing in (shared, codec, codec._vocabulary):
        with pytest.raises(KeyMaterialError):
            pickle.dumps(thing)
    assert copy.deepcopy(shared) is shared


def test_wrong_parameters_are_named() -> None:
    with pytest.raises(ParameterError, match="SiteAgreement"):
        SiteCodec("agreement")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="'outside'.*'clamp'"):
        SiteCodec(small_agreement(), outside="clam")


def test_whole_numbers_are_checked() -> None:
    with pytest.raises(DataError, match="1 value"):
        SiteCodec(small_agreement()).transform(pl.DataFrame({"age": [1.5], "illness": ["a"]}))
    with pytest.raises(DataError, match="1 value"):
        SiteCodec(small_agreement()).transform(pl.DataFrame({"age": ["old"], "illness": ["a"]}))
    with pytest.raises(DataError):
        SiteCodec(small_agreement()).transform(
            pl.DataFrame({"age": [dt.date(2020, 1, 1)], "illness": ["a"]})
        )
    categories = pl.DataFrame({"age": pl.Series(["secret"], dtype=pl.Enum(["secret"]))})
    for work in (SiteCodec.transform, SiteCodec.inverse_transform):
        with pytest.raises(DataError, match="Enum"):  # and not which categories
            work(SiteCodec(small_agreement()), categories.with_columns(illness=pl.lit("a")))


def test_time_zones_come_back() -> None:
    shared = SiteAgreement.create(
        {"seen": "timestamp"}, ranges={"seen": ("2020-01-01T00:00", "2021-01-01T00:00")}
    )
    stamps = pl.Series([dt.datetime(2020, 7, 1, 12), None]).dt.replace_time_zone("Europe/Berlin")
    table = pl.DataFrame({"seen": stamps})
    codec = SiteCodec(shared)
    assert codec.inverse_transform(codec.transform(table)).equals(table)


def test_nanoseconds_are_taken_if_they_are_whole_microseconds() -> None:
    shared = SiteAgreement.create(
        {"seen": "timestamp"}, ranges={"seen": ("2020-01-01T00:00", "2021-01-01T00:00")}
    )
    codec = SiteCodec(shared)
    stamps = pd.DataFrame({"seen": pd.to_datetime(["2020-07-01 12:00:00.123456", None])})
    pd.testing.assert_frame_equal(codec.inverse_transform(codec.transform(stamps)), stamps)
    with pytest.raises(DataError, match="1 value.*1 microsecond"):
        codec.transform(pd.DataFrame({"seen": pd.to_datetime(["2020-07-01 12:00:00.123456789"])}))


def test_dates_in_text_and_midnights_are_dates() -> None:
    shared = SiteAgreement.create({"born": "date"}, ranges={"born": ("1900-01-01", "2020-01-01")})
    codes = [
        SiteCodec(shared).transform(pl.DataFrame({"born": born}))["born"][0]
        for born in (["1950-02-03"], [dt.date(1950, 2, 3)], [dt.datetime(1950, 2, 3)])
    ]
    assert len(set(codes)) == 1
    with pytest.raises(DataError, match="1 value"):
        SiteCodec(shared).transform(pl.DataFrame({"born": [dt.datetime(1950, 2, 3, 4)]}))


def test_fine_stamps_over_a_wide_range_are_refused_and_coarse_ones_exact() -> None:
    shared = SiteAgreement.create(
        {"seen": "timestamp"},
        ranges={"seen": ("1900-01-01T00:00", "2100-01-01T00:00")},
        cuts="uneven",
    )
    codec = SiteCodec(shared)
    coarse = pl.DataFrame({"seen": [dt.datetime(1950, 1, 2, 3, 4, 5), dt.datetime(2100, 1, 1)]})
    assert codec.inverse_transform(codec.transform(coarse)).equals(coarse)
    with pytest.raises(DataError, match="1 value.*1,000 microseconds"):
        codec.transform(pl.DataFrame({"seen": [dt.datetime(1950, 1, 2, 3, 4, 5, 678901)]}))
