"""Any table in, the same kind out."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pandas.testing import assert_frame_equal
from polars.testing import assert_frame_equal as assert_polars_equal

from tulle.errors import DataError
from tulle.table._frames import enter, enter_column, to_polars


def _round_trip(X):
    frame, exit = enter(X)
    return exit.leave(frame)


def _objects(*values: object) -> pd.DataFrame:
    return pd.DataFrame({"bad": pd.Series(values, dtype=object)})


def _pandas_table() -> pd.DataFrame:
    days = pd.to_datetime(["2020-01-01", None, "2021-05-05"])
    zone = dt.timezone(dt.timedelta(hours=5, minutes=30))
    return pd.DataFrame(
        {
            "int8": np.array([1, 2, -3], dtype=np.int8),
            "float32": np.array([1.5, np.nan, 3], dtype=np.float32),
            "bool": [True, False, True],
            "Int64": pd.array([1, None, 3], dtype="Int64"),
            "UInt8": pd.array([1, None, 3], dtype="UInt8"),
            "Float64": pd.array([1.25, None, 3], dtype="Float64"),
            "boolean": pd.array([True, None, False], dtype="boolean"),
            "string": pd.array(["a", None, ""], dtype="string"),
            "object": ["a", None, "ü"],
            "object_nan": ["a", np.nan, "ü"],
            "object_bool": pd.Series([True, None, False], dtype=object),
            "object_int": pd.Series([1, None, 3], dtype=object),
            "object_date": pd.Series([dt.date(2020, 1, 2), None, dt.date(1999, 1, 1)]),
            "decimal": pd.Series([Decimal("1.20"), None, Decimal("3.45")], dtype=object),
            "category": pd.Categorical(["x", None, "y"], categories=["y", "x", "z"], ordered=True),
            "category_int": pd.Categorical([10, None, 20]),
            "time": days,
            "time_s": days.astype("M8[s]"),
            "zone": days.tz_localize("Asia/Tokyo"),
            "offset": days.tz_localize(zone),
            "delta": pd.to_timedelta([1, None, 3], unit="h"),
            "arrow": pd.array([1, None, 3], dtype=pd.ArrowDtype(pa.int32())),
            "empty": pd.Series([None, None, None], dtype=object),
            7: [1.0, 2.0, 3.0],
        }
    )


def test_pandas_keeps_names_order_and_types():
    table = _pandas_table()
    assert_frame_equal(_round_trip(table), table)


def test_pandas_multi_index_columns_come_back():
    table = pd.DataFrame([[1, 2.5]], columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)]))
    assert_frame_equal(_round_trip(table), table)


def test_pandas_index_is_not_kept():
    table = pd.DataFrame({"a": [1, 2]}, index=["row of Ann", "row of Bob"])
    assert list(_round_trip(table).index) == [0, 1]


@pytest.mark.slow
def test_pandas_needs_no_pyarrow():
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import pandas as pd\n"
        "from tulle.table._frames import enter\n"
        "t = pd.DataFrame({'a': ['x', None], 'b': pd.Categorical(['u', 'v']),"
        " 'c': pd.to_datetime(['2020-01-01', None]), 'd': pd.array([1, None], dtype='Int64')})\n"
        "frame, exit = enter(t)\n"
        "pd.testing.assert_frame_equal(exit.leave(frame), t)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_polars_keeps_types():
    table = pl.DataFrame(
        {
            "categorical": pl.Series(["a", None], dtype=pl.Categorical),
            "enum": pl.Series(["a", None], dtype=pl.Enum(["b", "a"])),
            "date": [dt.date(2020, 1, 1), None],
            "zone": pl.Series([1, 2]).cast(pl.Datetime("ms", "Asia/Tokyo")),
            "duration": pl.Series([1, 2]).cast(pl.Duration("us")),
        }
    )
    assert_polars_equal(_round_trip(table), table)


def _arrow_table() -> pa.Table:
    return pa.table(
        {
            "words": pa.array(["x", "y", None]).dictionary_encode(),
            "coded": pa.array([3, 4, None]).dictionary_encode(),
            "stamp": pa.array([1, 2, None], pa.timestamp("s", tz="+02:00")),
            "date64": pa.array([86_400_000, 0, None], pa.date64()),
            "time32": pa.array([1, 2, None], pa.time32("s")),
            "decimal": pa.array([Decimal("1.23"), None, None], pa.decimal128(10, 2)),
            "nothing": pa.nulls(3),
            "text": pa.array(["a", "", None]),
            "large": pa.array(["a", "", None], pa.large_string()),
            "span": pa.array([1, 2, 3], pa.duration("s")),
        }
    ).replace_schema_metadata({"made by": "a test"})


def test_arrow_keeps_its_schema():
    table = _arrow_table()
    back = _round_trip(table)
    assert back.schema.equals(table.schema, check_metadata=True)
    assert back.equals(table)


def test_arrow_record_batch_comes_back_as_one():
    batch = _arrow_table().to_batches()[0]
    assert isinstance(_round_trip(batch), pa.RecordBatch)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1", "?", "M8[D]", "M8[s]", "m8[ns]", "U3"])
def test_arrays_keep_their_type(dtype):
    array = np.arange(6).reshape(3, 2).astype(dtype)
    back = _round_trip(array)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_object_arrays_and_lists_keep_the_types_of_their_columns():
    rows = [[1, "a", 2.5, None], [2, "b", 3.5, True]]
    assert _round_trip(rows) == rows
    assert _round_trip(np.array(rows, dtype=object)).tolist() == rows
    assert _round_trip([[1, 2.5], [2, 3.5]]) == [[1, 2.5], [2, 3.5]]


def test_duplicate_names_are_refused():
    table = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(DataError, match="'a'"):
        enter(table)
    arrow = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(DataError):
        enter(arrow)
    with pytest.raises(DataError):
        enter(pd.DataFrame([[1, 2]], columns=["1", 1]))


@pytest.mark.parametrize(
    "table",
    [
        pl.DataFrame({"bad": [[1], [2]]}),
        pl.DataFrame({"bad": [{"a": 1}]}),
        pl.DataFrame({"bad": [b"x"]}),
        pl.DataFrame({"bad": pl.Series([2**70], dtype=pl.Int128)}),
        pd.DataFrame({"bad": [[1], [2]]}),
        pd.DataFrame({"bad": [1, "a"]}),
        pd.DataFrame({"bad": pd.period_range("2020", periods=2, freq="Y")}),
        pd.DataFrame({"bad": pd.arrays.SparseArray([0, 1])}),
        pa.table({"bad": [[1], [2]]}),
        pa.table({"bad": pa.array([Decimal("1.5")], pa.decimal256(50, 2))}),
        pd.DataFrame({"bad": np.ones(2, dtype=np.longdouble)}),
        np.ones((2, 1), dtype=np.longdouble),
        _objects(2**70, 1),
        _objects("\ud800", "b"),
        _objects(dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3)),
        _objects(dt.datetime(2024, 1, 2, tzinfo=dt.UTC), dt.datetime(2024, 1, 2)),
        _objects(pd.Timestamp("2024-01-02 00:00:00.000000001")),
    ],
)
def test_unsupported_types_name_the_column_and_no_cell(table):
    with pytest.raises(DataError, match="'bad'|'x0'") as caught:
        enter(table)
    assert not any(cell in str(caught.value) for cell in (str(2**70), "2024", "ud800"))


@pytest.mark.parametrize(
    "values",
    [
        (1.5, pd.NA, 2.5),
        (1.5, None, 2.5),
        (1, pd.NA),
        (True, None),
        ("a", pd.NA),
        (dt.date(2024, 1, 2), None),
    ],
)
def test_objects_keep_their_word_for_missing(values):
    table = _objects(*values)
    back = _round_trip(table)
    assert back.dtypes.equals(table.dtypes)
    assert [repr(value) for value in back["bad"]] == [repr(value) for value in table["bad"]]


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us", "UTC"), pa.duration("ns")])
def test_times_of_arrow_in_pandas_come_back(kind):
    values = pd.array(pa.array([1, None], pa.int64()).cast(pa.int32()).to_pandas(), dtype="Int64")
    arrow = pa.array([1, None], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    table = pd.DataFrame({"t": pd.Series(arrow, dtype=pd.ArrowDtype(kind)), "n": values})
    assert_frame_equal(_round_trip(table), table)


def test_a_column_may_have_no_name():
    table = pl.DataFrame({"a": [1], "": [2]})
    assert_polars_equal(_round_trip(table), table)
    assert to_polars(pd.DataFrame({"a": [1], "": [2]})).columns == ["a", ""]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (np.arange(3), "Reshape your data"),
        (np.zeros((3, 0)), "0 feature.*3.*0"),
        (np.zeros((2, 2), dtype=complex), "supported"),
        (np.ma.zeros((2, 2)), "masked"),
        (pl.LazyFrame({"a": [1]}), "collect"),
        ([[1], [1, 2]], "length"),
        ("text", "cannot"),
        (np.array([[1, {"a": 1}], ["x", 2]], dtype=object), "types"),
    ],
)
def test_what_is_no_table_gets_a_clear_word(table, words):
    with pytest.raises(DataError, match=words):
        enter(table)


@pytest.mark.parametrize(
    "column",
    [
        np.array([1.5, 2.5]),
        [1, 2],
        ["a", "b"],
        pd.Series([1, 2], name="y"),
        pd.Series(["a", None]),
        pl.Series("y", [1, None]),
        pl.Series([True, False]),
        pa.array([1, 2]),
        pa.chunked_array([[1], [2]]),
    ],
)
def test_one_column_comes_back_as_it_was(column):
    series, exit = enter_column(column)
    back = exit.leave(series)
    assert type(back) is type(column)
    if isinstance(column, pd.Series):
        pd.testing.assert_series_equal(back, column)
    elif isinstance(column, pl.Series):
        assert back.name == column.name
        assert back.equals(column)
    else:
        assert list(back) == list(column)


def test_a_column_with_two_dimensions_is_refused():
    with pytest.raises(DataError):
        enter_column(np.zeros((3, 2)))


def test_to_polars_takes_any_table():
    assert to_polars(np.array([[1.0, 2.0]])).columns == ["x0", "x1"]
    assert to_polars(pd.DataFrame({"a": [1]})).to_dict(as_series=False) == {"a": [1]}
    table = pl.DataFrame({"a": [1]})
    assert to_polars(table) is table
