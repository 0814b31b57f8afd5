"""Table <-> matrix: the identity on originals, types and counts on pseudo-data."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from polars.testing.parametric import column, dataframes

from tulle.errors import DataError, ParameterError
from tulle.table._drawing import clip_keeping_means
from tulle.table._encoder import TableEncoder
from tulle.table._frames import enter, to_polars
from tulle.table._rare import Crowd
from tulle.table.schema import Column, Kind, Role


def _fit(table, **options):
    return TableEncoder(**options).fit(to_polars(table))


def _there_and_back(table, **options):
    frame, exit = enter(table)
    encoder = TableEncoder(**options).fit(frame, frame.columns if exit.plain else ())
    matrix = encoder.encode(frame)
    assert matrix.shape == (len(table), len(encoder.feature_names_))
    assert np.isfinite(matrix).all()
    assert encoder.scales_.shape == (matrix.shape[1],)
    assert (encoder.scales_ > 0).all()
    return exit.leave(encoder.decode(matrix))


def _bounded(name, low, high):
    return Column(name, Kind.INTEGER, bounds=(low, high))


_WORDS = Column("c", Kind.CATEGORY)
_SMALL = {"min_cols": 1, "max_cols": 1, "max_size": 12, "allow_chunks": True}
_EXACT_INTEGERS = st.integers(-(2**53), 2**53)


def _one_column(dtype, **options):
    return dataframes([column("c", dtype=dtype, **options)], min_cols=1, max_cols=1, max_size=12)


@pytest.mark.slow
@given(
    st.one_of(
        _one_column(pl.Int64, strategy=_EXACT_INTEGERS, allow_null=True),
        _one_column(pl.Int8, allow_null=True),
        _one_column(pl.UInt32, allow_null=True),
        _one_column(pl.Boolean, allow_null=True),
        _one_column(pl.Date, allow_null=True),
        _one_column(pl.Time, allow_null=True),
        _one_column(pl.Float64, strategy=st.floats(allow_infinity=False), allow_null=True),
        _one_column(
            pl.Float32, strategy=st.floats(allow_infinity=False, width=32), allow_null=True
        ),
        _one_column(pl.Null, allow_null=True),
    )
)
def test_numbers_and_truth_values_come_back(table):
    assert_frame_equal(_there_and_back(table), table, check_exact=True)


@pytest.mark.slow
@given(
    st.one_of(
        _one_column(pl.String, allow_null=True),
        _one_column(pl.Categorical, allow_null=True),
        _one_column(pl.Enum(["", "a", "ü", "🦆"]), allow_null=True),
        _one_column(pl.Int64, allow_null=True),
        _one_column(pl.Float64, allow_null=True),
        _one_column(pl.Date, allow_null=True),
    ),
    st.integers(2, 5),
)
def test_categories_come_back_however_narrow_the_code(table, max_width):
    options = {"columns": [_WORDS], "max_width": max_width}
    assert_frame_equal(_there_and_back(table, **options), table, check_exact=True)


_INSTANTS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2150, 1, 1))


@given(
    st.lists(st.none() | _INSTANTS, max_size=12),
    st.sampled_from(["ms", "us"]),
    st.sampled_from([None, "UTC", "Europe/Zurich", "America/St_Johns"]),
)
def test_points_in_time_come_back(values, unit, zone):
    table = pl.DataFrame({"t": pl.Series(values, dtype=pl.Datetime("us")).cast(pl.Datetime(unit))})
    if zone:
        table = table.select(pl.col("t").dt.replace_time_zone("UTC").dt.convert_time_zone(zone))
    assert_frame_equal(_there_and_back(table), table)


@pytest.mark.slow
@given(
    dataframes(
        min_cols=1,
        max_cols=6,
        max_size=15,
        allow_null=True,
        allow_infinity=False,
        allowed_dtypes=[pl.Int32, pl.Float64, pl.String, pl.Boolean, pl.Date, pl.Categorical],
    )
)
def test_whole_tables_come_back(table):
    columns = [Column(series.name, Kind.CATEGORY) for series in table if series.dtype == pl.String]
    back = _there_and_back(table, columns=columns, max_width=4)
    assert_frame_equal(back, table, check_exact=True)


def test_durations_decimals_and_nanoseconds_come_back():
    hours = pl.Series([-2_500_000, 2_500_000, None])  # farther apart than 2**63 nanoseconds
    table = pl.DataFrame(
        {
            "span": pl.Series([5, None, 7]).cast(pl.Duration("ms")),
            "price": pl.Series([Decimal("1.20"), None, Decimal("3.45")]),
            "nano": pl.Series([10**18, 10**18 + 1, None]).cast(pl.Datetime("ns")),
            "far": pl.Series([-(2**41), 2**41, None]).cast(pl.Datetime("ms")),
            "apart": (hours * (3600 * 10**9)).cast(pl.Datetime("ns")),
        }
    )
    assert_frame_equal(_there_and_back(table), table)


def test_ten_thousand_categories_come_back_in_a_bounded_width():
    rng = np.random.default_rng(0)
    words = [f"word {place}" for place in range(10_000)]
    table = pl.DataFrame({"w": words + list(rng.choice(words[:50], 20_000))})
    encoder = TableEncoder().fit(table)
    assert len(encoder.feature_names_) == 32
    assert_frame_equal(encoder.decode(encoder.encode(table)), table)


@pytest.mark.parametrize("rows", [0, 1])
def test_tables_of_no_row_and_of_one(rows):
    table = pl.DataFrame(
        {"a": [1], "b": [2.5], "c": ["x"], "d": [True], "e": [dt.date(2020, 1, 1)]}
    )[:rows]
    assert_frame_equal(_there_and_back(table), table)


def test_other_containers_come_back_as_they_were():
    array = np.array([[1.5, np.nan], [2.0, 3.0]])
    np.testing.assert_array_equal(_there_and_back(array), array)
    frame = pd.DataFrame(
        {
            "a": pd.array([1, None, 3], dtype="Int64"),
            "b": pd.Categorical(["x", None, "y"], categories=["y", "x", "z"]),
            "c": pd.to_datetime(["2020-01-01", None, "2021-05-05"]).tz_localize("Asia/Tokyo"),
            "d": ["u", None, "v"],
        }
    )
    pd.testing.assert_frame_equal(_there_and_back(frame), frame)
    assert _there_and_back([[1, "a"], [2, "a"]]) == [[1, "a"], [2, "a"]]


# -- scales --------------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    dataframes(
        min_cols=1,
        max_cols=4,
        min_size=2,
        max_size=20,
        allow_null=True,
        allow_infinity=False,
        allowed_dtypes=[pl.Int32, pl.String, pl.Boolean, pl.Date],
    ),
    st.floats(0.1, 10),
)
def test_every_column_has_its_weight_as_deviation(table, weight):
    columns = [Column(s.name, Kind.CATEGORY) for s in table if s.dtype == pl.String]
    encoder = TableEncoder(columns, 4, weights=[weight] * table.width).fit(table)
    scaled = encoder.encode(table) / encoder.scales_
    for place in encoder.slices_.values():
        variance = scaled[:, place].var(axis=0).sum()
        alike = (scaled[:, place] == scaled[0, place]).all()
        assert variance == pytest.approx(0 if alike else weight**2, abs=1e-9)


def test_plain_numbers_are_z_scores():
    array = np.random.default_rng(1).normal(5, 3, (100, 3))
    array[:, 2] = 7
    encoder = _fit(array)
    np.testing.assert_array_equal(encoder.encode(to_polars(array)), array)
    np.testing.assert_allclose(encoder.scales_, [*array[:, :2].std(axis=0), 1])
    assert encoder.constant_ == ["x2"]


# -- pseudo-data ---------------------------------------------------------------------------------


def _mixed(n: int, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    words = rng.choice([f"w{place}" for place in range(60)], n)
    missing = rng.random(n) < 0.3
    return pl.DataFrame(
        {
            "count": rng.integers(-5, 200, n),
            "price": np.round(rng.lognormal(3, 1, n), 2),
            "holey": pl.Series(np.where(missing, None, rng.normal(50, 9, n).round(1)).tolist()),
            "flag": rng.random(n) < 0.2,
            "perhaps": pl.Series(np.where(missing, None, rng.random(n) < 0.5).tolist()),
            "word": words,
            "day": [dt.date(2020, 1, 1) + dt.timedelta(int(d)) for d in rng.integers(0, 900, n)],
        }
    )


def _noisy(table, groups, seed, **options):
    encoder = TableEncoder(**options).fit(table)
    matrix = encoder.encode(table)
    means = np.stack([matrix[groups == group].mean(axis=0) for group in range(groups.max() + 1)])
    rng = np.random.default_rng(seed)
    drawn = means[groups] + rng.normal(size=matrix.shape) * encoder.scales_
    return encoder.decode(drawn, groups, rng, means=means)


def test_every_group_keeps_its_counts():
    table = _mixed(600)
    groups = np.random.default_rng(1).integers(0, 40, 600)
    groups[:40] = np.arange(40)
    released = _noisy(table, groups, 2)
    for name in ["flag", "perhaps"]:
        assert_frame_equal(_counts(released, groups, name), _counts(table, groups, name))
    nulls = [frame.select(pl.col("holey").is_null()) for frame in (released, table)]
    assert_frame_equal(_counts(nulls[0], groups, "holey"), _counts(nulls[1], groups, "holey"))


def test_every_group_keeps_the_counts_of_its_common_categories():
    table = _mixed(600).with_columns(pl.col("word").str.slice(0, 2).alias("word"))
    groups = np.random.default_rng(1).integers(0, 40, 600)
    groups[:40] = np.arange(40)
    released = _noisy(table, groups, 2)
    assert_frame_equal(_counts(released, groups, "word"), _counts(table, groups, "word"))


def _counts(frame, groups, name):
    return (
        frame.select(pl.col(name), group=pl.Series(groups))
        .group_by("group", name)
        .len()
        .sort("group", name)
    )


def test_pseudo_data_keeps_types_ranges_precision_and_domains():
    table = _mixed(500)
    groups = np.arange(500) // 25
    released = _noisy(table, groups, 3)
    assert released.schema == table.schema
    for name in ["count", "price", "holey", "day"]:
        assert released[name].min() >= table[name].min()
        assert released[name].max() <= table[name].max()
    assert (released["price"].round(2) == released["price"]).all()
    assert (released["holey"].drop_nulls().round(1) == released["holey"].drop_nulls()).all()
    assert set(released["word"]) <= set(table["word"])


def test_the_rarer_categories_share_a_code_and_stay_in_the_domain():
    table = _mixed(500)
    encoder = TableEncoder(max_width=8).fit(table.select("word"))
    assert len(encoder.feature_names_) == 8
    groups = np.arange(500) // 25
    released = _noisy(table, groups, 3, max_width=8)
    common = table["word"].value_counts().sort("count", "word", descending=[True, False])
    for word in common["word"][:7]:
        assert (released["word"] == word).sum() == (table["word"] == word).sum()
    assert set(released["word"]) <= set(table["word"])


def test_values_are_not_pulled_towards_the_fill_of_missing_ones():
    """A group where half are missing and the others are high stays high."""
    rng = np.random.default_rng(5)
    high = np.where(rng.random(2000) < 0.5, np.nan, rng.normal(100, 2, 2000))
    low = rng.normal(0, 2, 2000)
    table = pl.DataFrame({"v": np.concatenate([high, low])})
    groups = np.arange(4000) // 20
    encoder = TableEncoder().fit(table)
    matrix = encoder.encode(table)
    means = matrix.reshape(200, 20, -1).mean(axis=1)
    deviations = matrix.reshape(200, 20, -1) - means[:, None]
    mixing = rng.normal(size=(200, 20, 20)) / np.sqrt(20)
    drawn = (means[:, None] + mixing @ deviations).reshape(4000, -1)  # same moments on average
    released = encoder.decode(drawn, groups, rng, means=means)["v"].to_numpy()
    assert np.nanmean(released[:2000]) == pytest.approx(np.nanmean(high), abs=2)
    assert np.isnan(released).sum() == np.isnan(high).sum()


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(-100, 100)), min_size=1, max_size=40),
    st.floats(-20, 20),
    st.floats(0, 30),
)
def test_clipping_keeps_the_means_of_groups(rows, low, width):
    groups, values = (np.array(part) for part in zip(*rows))
    means = np.array([values[groups == group].sum() for group in range(4)])
    means /= np.maximum(np.bincount(groups, minlength=4), 1)
    clipped = clip_keeping_means(values.astype(float), groups, means, low, low + width)
    assert (clipped >= low).all()
    assert (clipped <= low + width).all()
    for group in set(groups.tolist()):
        wanted = np.clip(values[groups == group].mean(), low, low + width)
        assert clipped[groups == group].mean() == pytest.approx(wanted, abs=1e-9)


def test_the_mean_of_a_skewed_column_stays():
    """Most values are 0 and the range begins there: cutting alone would raise the mean."""
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"gain": np.where(rng.random(4000) < 0.1, rng.integers(1, 9000, 4000), 0)})
    groups = np.arange(4000) // 20
    encoder = TableEncoder().fit(table)
    means = encoder.encode(table).reshape(200, 20, 1).mean(axis=1)
    drawn = means[groups] + rng.normal(0, 1500, (4000, 1))
    released = encoder.decode(drawn, groups, rng, means=means)["gain"]
    assert released.min() >= 0
    assert released.mean() == pytest.approx(table["gain"].mean(), rel=0.01)


def test_public_bounds_replace_the_observed_range():
    table = pl.DataFrame({"age": [30, 40]})
    encoder = TableEncoder([_bounded("age", 0, 120)]).fit(table)
    assert encoder.decode(np.array([[-7.0], [130.4], [64.6]]))["age"].to_list() == [0, 120, 65]
    with pytest.raises(DataError, match="'age'.*1 of 2 records"):
        TableEncoder([_bounded("age", 0, 35)]).fit(table)
    with pytest.raises(ParameterError):
        TableEncoder([_bounded("age", 5, 1)]).fit(table)


def test_whole_days_and_hours_stay_whole():
    days = (pl.Series("t", [0, 1, 5]) * (86_400 * 10**6)).cast(pl.Datetime("us"))
    table = days.to_frame()
    encoder = TableEncoder().fit(table)
    assert encoder.decode(np.array([[2.4]]))["t"][0] == dt.datetime(1970, 1, 3)


def test_snap_off_leaves_decimals_as_drawn():
    table = pl.DataFrame({"v": [1.5, 2.5], "n": [1, 2]})
    encoder = TableEncoder().fit(table)
    drawn = np.array([[9.123, 9.123]])
    assert encoder.decode(drawn, snap=False).row(0) == (9.123, 2)
    assert encoder.decode(drawn).row(0) == (2.5, 2)


def test_the_same_seed_decodes_alike():
    table = _mixed(300)
    groups = np.arange(300) // 20
    assert_frame_equal(_noisy(table, groups, 4), _noisy(table, groups, 4))


# -- roles, policy and refusals --------------------------------------------------------------------


def test_identifiers_levels_and_ignored_columns_are_left_out():
    table = pl.DataFrame(
        {"name": list("abcdef"), "level": [2] * 6, "note": ["x"] * 6, "age": range(6)}
    )
    columns = [
        Column("name", Kind.TEXT, Role.IDENTIFIER),
        Column("level", Kind.INTEGER, Role.LEVEL),
        Column("note", Kind.TEXT, Role.IGNORED),
    ]
    encoder = TableEncoder(columns).fit(table)
    assert encoder.dropped_ == ["name", "level", "note"]
    assert encoder.decode(encoder.encode(table)).columns == ["age"]
    with pytest.raises(DataError):
        TableEncoder(columns).fit(table.select("name", "level", "note"))


def test_truth_values_may_be_written_as_numbers_or_words():
    table = pl.DataFrame({"a": [0, 1, 1], "b": ["yes", "no", "no"]})
    columns = [Column("a", Kind.BOOLEAN), Column("b", Kind.BOOLEAN)]
    assert_frame_equal(_there_and_back(table, columns=columns), table)


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        ({"name": list("abcdefgh")}, {}, "'name'"),
        ({"x": [1.0, np.inf]}, {}, "'x'.*2 records"),
        ({"x": [1, 2**60]}, {}, "'x'.*2 records"),
        ({"x": [1]}, {"columns": [Column("y", Kind.INTEGER)]}, "'y'"),
        ({"x": [1]}, {"columns": [Column("x", Kind.TEXT)]}, "'x'"),
        ({"x": ["a"]}, {"columns": [Column("x", Kind.INTEGER)]}, "'x'.*1 of 1"),
        ({"x": ["a"]}, {"columns": [Column("x", Kind.TEXT, bounds=(0, 1))]}, "'x'"),
        ({"x": [1]}, {"weights": {"z": 1}}, "'weights'.*'z'"),
        ({"x": [1]}, {"weights": [1, 2]}, "2 entries.*1 column"),
        ({"x": [1]}, {"weights": [-1]}, "'weights'"),
        ({"x": [1]}, {"weights": [1e300]}, "'weights'"),
        ({"x": [1]}, {"columns": [Column("x", Kind.INTEGER, weight=0)]}, "'weights'"),
        ({"x": [1]}, {"max_width": 1}, "'max_width'"),
    ],
)
def test_wrong_requests_name_column_and_remedy(table, options, words):
    with pytest.raises((DataError, ParameterError), match=words):
        TableEncoder(**options).fit(pl.DataFrame(table))


def test_time_that_spans_too_much_is_refused():
    table = pl.DataFrame({"t": pl.Series([0, 10**18 + 1]).cast(pl.Datetime("ns"))})
    with pytest.raises(DataError, match="'t'"):
        TableEncoder().fit(table)


def test_unseen_values_are_counted_not_shown():
    encoder = TableEncoder().fit(pl.DataFrame({"c": ["a", "b"], "n": [1.0, 2.0]}))
    with pytest.raises(DataError, match="'c'.*2 records") as caught:
        encoder.encode(pl.DataFrame({"c": ["a", "SECRET"], "n": [1.0, 2.0]}))
    assert "SECRET" not in str(caught.value)
    with pytest.raises(DataError, match="'n'.*2 records"):
        encoder.encode(pl.DataFrame({"c": ["a", "b"], "n": [1.0, np.nan]}))
    with pytest.raises(DataError, match="'c'"):
        encoder.encode(pl.DataFrame({"n": [1.0]}))


def test_rare_categories_and_empty_columns_are_counted():
    table = pl.DataFrame({"c": list("aaaaabbc"), "e": [np.nan] * 8, "k": [3] * 8})
    encoder = TableEncoder().fit(table, crowd=Crowd(3, np.ones(8, dtype=bool)))
    assert encoder.merged() == ["c"]
    assert encoder.decode(encoder.encode(table))["c"].to_list() == ["a"] * 5 + ["other"] * 3
    assert encoder.empty_ == ["e"]
    assert encoder.constant_ == ["k"]


def test_widen_lets_later_values_through():
    encoder = _fit(np.array([[1.0], [2.0]]))
    encoder.widen(encoder.encode(pl.DataFrame({"x0": [5.0]})))
    assert encoder.decode(np.array([[9.0]])).item() == 5.0


def test_ranges_can_be_those_of_some_records_alone():
    table = pl.DataFrame({"a": [1.5, 2.5, 90.5, None], "b": [0, 7, 9, 7], "c": [4, 4, 4, 4]})
    encoder = TableEncoder([_bounded("c", 0, 10)]).fit(table)
    matrix = encoder.encode(table)
    encoder.confine(matrix[[0, 1, 3]], None)
    a, b, c = encoder._codecs
    assert (a.low, a.high, a.observed, a.pair) == (1.5, 2.5, 2, (1.5, 2.5))
    assert (b.low, b.high, b.pair) == (0, 7, (0, 7))
    assert (c.low, c.high) == (0, 10)  # public
    encoder.confine(matrix[3:], None)  # a holds no value, and none is shown until there is one
    encoder.widen(matrix[2:3])
    assert (a.low, a.high, a.observed) == (90.5, 90.5, 1)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ([1, 2, 3], ["secret"]),
        ([1, 2, 3], [dt.date(2020, 1, 1)]),
        ([1.5, 2.5], ["secret"]),
        ([dt.date(2020, 1, 1), dt.date(2020, 2, 1)], [5]),
        ([dt.date(2020, 1, 1), dt.date(2020, 2, 1)], [dt.datetime(2020, 1, 1)]),
        ([dt.datetime(2020, 1, 1), dt.datetime(2020, 2, 1)], [dt.time(1)]),
        ([True, False], [7]),
        ([True, False], ["secret"]),
        (["a", "b"], [7]),
    ],
)
def test_a_later_column_of_another_type_is_refused_without_its_values(first, later):
    encoder = TableEncoder().fit(pl.DataFrame({"a": first}))
    with pytest.raises(DataError, match="'a'.*1 record") as refused:
        encoder.encode(pl.DataFrame({"a": later}))
    assert "secret" not in str(refused.value)


def test_later_times_may_have_another_unit_and_missing_values_another_word():
    times = pl.Series("a", [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 9), None])
    encoder = TableEncoder().fit(times.to_frame())
    for unit in ("ms", "us", "ns"):
        later = times.cast(pl.Datetime(unit)).to_frame()
        assert encoder.encode(later)[:2, 0].tolist() == [0, 8]
    zoned = times.dt.replace_time_zone("UTC").to_frame()
    with pytest.raises(DataError, match="'a'"):
        encoder.encode(zoned)
    numbers = TableEncoder().fit(pl.DataFrame({"a": [1.0, np.nan]}))
    for missing in (pd.DataFrame({"a": [None]}), pl.DataFrame({"a": [None]})):
        assert numbers.encode(to_polars(missing))[0, 1] == 1
    with pytest.raises(DataError, match="'a'.*2 of 3 records"):
        bounded = TableEncoder([_bounded("a", 0, 9)]).fit(pl.DataFrame({"a": [1, 2]}))
        bounded.encode(pl.DataFrame({"a": [3, 10, -1]}))


def test_rare_ones_among_zeros_are_not_rounded_away():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 20)
    table = pl.DataFrame(
        {
            "smoker": (rng.random(400) < 0.06).astype(int),  # only 0 and 1
            "dose": np.where(rng.random(400) < 0.1, 1.0, 0.48),  # only two decimals
            "falls": rng.binomial(3, 0.03, size=400),  # few, mostly none
        }
    )
    encoder = TableEncoder().fit(table)
    matrix = encoder.encode(table)
    drawn = matrix.copy()
    means = np.array([matrix[groups == g].mean(axis=0) for g in range(20)])
    drawn = means[groups] + rng.normal(size=(400, 3)) * 0.05
    back = encoder.decode(drawn, groups, rng, means=means)
    assert set(back["smoker"]) == {0, 1}
    assert set(back["dose"]) == {0.48, 1.0}
    for name in ("smoker", "dose"):
        kept, before = (frame[name].to_numpy().reshape(20, 20) for frame in (back, table))
        assert kept.mean(axis=1) == pytest.approx(before.mean(axis=1))
    assert abs(back["falls"].sum() - table["falls"].sum()) <= 3
    assert back.schema == table.schema


def test_two_values_become_more_when_more_data_say_so():
    encoder = TableEncoder().fit(pl.DataFrame({"a": [0.0, 1.0, 0.0, 1.0]}))
    assert encoder.decode(np.array([[0.4], [0.6]]))["a"].to_list() == [0.0, 1.0]
    encoder.widen(encoder.encode(pl.DataFrame({"a": [0.5]})))
    assert encoder.decode(np.array([[0.4]]))["a"].to_list() == [0.0]  # of no decimals, as fitted
    other = TableEncoder().fit(pl.DataFrame({"a": [0.0, 2.0, 1.0]}))
    assert other._codecs[0].pair is None


def test_decimals_come_back_to_the_last_digit_or_are_refused():
    kept = pl.DataFrame({"a": pl.Series(["90071992547409.91", None]).cast(pl.Decimal(20, 2))})
    encoder = TableEncoder().fit(kept)
    assert encoder.decode(encoder.encode(kept)).equals(kept)
    longer = pl.DataFrame({"a": pl.Series(["-90071992547410.01"]).cast(pl.Decimal(20, 2))})
    with pytest.raises(DataError, match="'a'.*1 record"):
        TableEncoder().fit(longer)


@pytest.mark.parametrize(
    "values",
    [
        np.where(np.arange(40) % 4, 1.7e308, -1.7e308),  # only two
        np.linspace(-1, 1, 40) * 1.7e308,
        np.full(40, 5e-324) * (np.arange(40) % 2),
    ],
)
def test_groups_of_the_largest_and_smallest_numbers_keep_their_means(values):
    encoder = _fit(values[:, None])
    groups = np.arange(40) % 3
    means = np.array([np.mean(values[groups == g] / 2**10) * 2**10 for g in range(3)])[:, None]
    drawn = values[:, None] * 1.05
    decoded = encoder.decode(drawn, groups, 0, means=means)["x0"].to_numpy()
    assert decoded.min() >= values.min()
    assert decoded.max() <= values.max()
    for group in range(3):
        mean = np.mean(decoded[groups == group] / 2**10) * 2**10
        assert mean == pytest.approx(means[group, 0], rel=0.02, abs=max(5e-324, values.max() / 14))
