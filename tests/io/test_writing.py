from __future__ import annotations

import datetime
import errno
import io
import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tulle.errors import DataError, OutputExists, ParameterError, TulleError
from tulle.io.read import read_table
from tulle.io.write import put_batches, write_batches, write_table

FILES = [
    "t.csv",
    "t.csv.gz",
    "t.ndjson",
    "t.jsonl.gz",
    "t.parquet",
    "t.arrow",
    "t.feather",
    "t.xlsx",
]
WHOLE = ["t.parquet", "t.arrow", "t.feather"]

# What text formats can tell apart: text that does not look like another type.
words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8).map(lambda t: f"w{t}")
moments = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31))
values: dict[Any, st.SearchStrategy[Any]] = {
    pl.Int64(): st.integers(-(2**63), 2**63 - 1),
    pl.Float64(): st.floats(-1e300, 1e300),
    pl.Boolean(): st.booleans(),
    pl.String(): words,
    pl.Date(): st.dates(),
    pl.Datetime("us"): moments,
    pl.Datetime("us", "UTC"): moments.map(lambda m: m.replace(tzinfo=datetime.UTC)),
    pl.Time(): st.times(),
}


@st.composite
def tables(draw: st.DrawFn) -> pl.DataFrame:
    """Frames of every type, with missing values, a type's own value in every column."""
    rows = draw(st.integers(1, 5))
    names = draw(st.lists(words, min_size=1, max_size=4, unique=True))
    columns = []
    for name in names:
        dtype = draw(st.sampled_from(list(values)))
        some = st.none() | values[dtype]
        cells = draw(st.lists(some, min_size=rows, max_size=rows))
        cells[draw(st.integers(0, rows - 1))] = draw(values[dtype])
        columns.append(pl.Series(name, cells, dtype=dtype))
    return pl.DataFrame(columns)


def returned(frame: pl.DataFrame, folder: Path, name: str) -> pl.DataFrame:
    path = folder / name
    write_table(frame, path, force=True)
    return read_table(path)


@pytest.mark.guarantee
@pytest.mark.slow
@pytest.mark.parametrize("name", ["t.csv", "t.ndjson", "t.parquet", "t.arrow"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frame=tables())
@example(frame=pl.DataFrame({"w,": ['wa"b', "wa,b", None], "w\n": [1, None, 3]}))
@example(frame=pl.DataFrame({"w|": ["wa|b", "wc|d"]}))
def test_types_dates_and_missing_values_survive(
    tmp_path: Path, name: str, frame: pl.DataFrame
) -> None:
    found = returned(frame, tmp_path, name)
    assert found.schema == frame.schema
    assert found.equals(frame)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frame=tables())
def test_excel_keeps_what_excel_knows(tmp_path: Path, frame: pl.DataFrame) -> None:
    blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
    lost = blank if frame.width > 1 else pl.Series([False] * (frame.height - 1) + [blank[-1]])
    kept = frame.filter(~blank) if lost.any() else frame
    if kept.height < frame.height:
        with pytest.raises(DataError, match=f"{lost.sum()} records have no value"):
            returned(frame, tmp_path, "t.xlsx")
    found = returned(kept, tmp_path, "t.xlsx")
    assert found.columns == kept.columns
    assert found.height == kept.height
    for before, after in zip(kept, found):
        for old, new in zip(before, after):
            assert same_in_excel(old, new), (before.dtype, after.dtype)


def same_in_excel(old: Any, new: Any) -> bool:
    if isinstance(old, float):
        return new is not None and math.isclose(old, new, rel_tol=1e-14)
    if isinstance(old, int) and not isinstance(old, bool) and isinstance(new, str):
        return str(old) == new  # more digits than a number of Excel keeps
    if isinstance(old, datetime.datetime) and not isinstance(new, datetime.datetime):
        return old == datetime.datetime.combine(new, datetime.time())
    return bool(old == new)


def test_whatever_parquet_and_arrow_know_survives(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "category": pl.Series(["a", None], dtype=pl.Categorical),
            "enum": pl.Series(["a", None], dtype=pl.Enum(["b", "a"])),
            "span": [datetime.timedelta(days=1), None],
            "float": [math.nan, -math.inf],
            "small": pl.Series([1, None], dtype=pl.Int8),
            "zone": pl.Series([datetime.datetime(2024, 1, 1), None]).dt.replace_time_zone(
                "Europe/Berlin"
            ),
            "empty": ["", None],
            "list": [[1, 2], None],
        }
    )
    for name in WHOLE:
        found = returned(frame, tmp_path, name)
        assert found.schema == frame.schema
        assert found.equals(frame, null_equal=True)


def test_what_text_formats_change(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "category": pl.Series(["a", "b"], dtype=pl.Categorical),
            "span": [datetime.timedelta(days=1), None],
            "zone": pl.Series([datetime.datetime(2024, 1, 1), None]).dt.replace_time_zone(
                "Europe/Berlin"
            ),
            "empty": ["", None],
            "digits": ["1", "2"],
        }
    )
    found = returned(frame, tmp_path, "t.csv")
    assert found["category"].to_list() == ["a", "b"]
    assert found["span"].to_list() == ["P1D", None]
    assert found["zone"].to_list()[0] == frame["zone"].to_list()[0]
    assert found["empty"].to_list() == ["", None]
    assert found["digits"].to_list() == [1, 2]
    assert returned(frame, tmp_path, "t.ndjson")["digits"].to_list() == ["1", "2"]
    assert returned(frame, tmp_path, "t.xlsx")["digits"].to_list() == ["1", "2"]


@pytest.mark.parametrize("name", FILES)
def test_batches_are_one_table(tmp_path: Path, name: str) -> None:
    frames = [pl.DataFrame({"n": [i, i + 1], "t": [f"r{i}", None]}) for i in (0, 2, 4)]
    write_batches(iter(frames), tmp_path / name)
    assert read_table(tmp_path / name).equals(pl.concat(frames))


@pytest.mark.parametrize("name", FILES)
def test_failure_in_the_middle_leaves_nothing(tmp_path: Path, name: str) -> None:
    def broken() -> Iterator[pl.DataFrame]:
        yield pl.DataFrame({"n": [1]})
        raise KeyError("the source failed")

    with pytest.raises(KeyError, match="source"):
        write_batches(broken(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError):
        write_batches([pl.DataFrame({"n": [1]}), pl.DataFrame({"n": ["x"]})], tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_replaced_unasked_and_names_in_brackets_are_names(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / f"a[1]*{name}"
    write_table(pl.DataFrame({"n": [1]}), path)
    with pytest.raises(OutputExists):
        write_table(pl.DataFrame({"n": [2]}), path)
    assert read_table(path)["n"].to_list() == [1]
    write_table(pl.DataFrame({"n": [2]}), path, force=True)
    assert read_table(path)["n"].to_list() == [2]


@pytest.mark.parametrize("name", FILES)
def test_same_table_same_bytes(name: str) -> None:
    frame = pl.DataFrame({"n": [1, 2], "t": ["a", None]})
    made = []
    for _ in range(2):
        file = io.BytesIO()
        put_batches([frame], file, name)
        made.append(file.getvalue())
    if name != "t.xlsx":  # a workbook carries the time at which it was made
        assert made[0] == made[1]


@pytest.mark.parametrize(
    ("frame", "name", "words"),
    [
        (pl.DataFrame(), "t.csv", "columns"),
        (pl.DataFrame({"a": [[1]]}), "t.csv", "'a'"),
        (pl.DataFrame({"a": [b"x"]}), "t.ndjson", "'a'"),
        (pl.DataFrame({"a": [math.inf]}), "t.ndjson", "'a'"),
        (pl.DataFrame({"a": [math.inf]}), "t.xlsx", "'a'"),
        (pl.DataFrame({"a": ["x" * 40_000]}), "t.xlsx", "'a'"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(
    tmp_path: Path, frame: pl.DataFrame, name: str, words: str
) -> None:
    with pytest.raises(TulleError, match=words):
        write_table(frame, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def workbook(path: Path, sheets: dict[str, list[list[Any]]]) -> Path:
    import xlsxwriter

    book = xlsxwriter.Workbook(path)
    for name, rows in sheets.items():
        sheet = book.add_worksheet(name)
        for i, row in enumerate(rows):
            for j, cell in enumerate(row):
                if cell is not None:
                    sheet.write(i, j, cell)
    book.close()
    return path


def test_excel_sheets_names_and_blanks(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    people = [[None, "zip", "n", "void"], ["x", "01234", 1], [], [None, "98765", 2.5]]
    path = workbook(tmp_path / "book.xlsx", {"notes": [["read me"]], "people": people})
    with pytest.raises(DataError, match="has 2 sheets"):
        read_table(path)
    with pytest.raises(DataError, match="'people'"):
        read_table(f"{path}#peple")
    found = read_table(f"{path}#people")
    assert found.columns == ["column_1", "zip", "n", "void"]
    assert found.rows() == [("x", "01234", 1.0, None), (None, "98765", 2.5, None)]
    assert capfd.readouterr().err == ""


def test_excel_refusals(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="sheet"):
        read_table(workbook(tmp_path / "a.xlsx", {"s": []}))
    with pytest.raises(DataError, match="'a'"):
        read_table(workbook(tmp_path / "b.xlsx", {"s": [["a", "a"], [1, 2]]}))
    for title in (["Report 2024"], ["Person", None, "Home"]):  # the second is a merged cell
        rows = [title, ["age", "sex", "city"], [40, "f", "Bern"]]
        with pytest.raises(DataError, match="2"):
            read_table(workbook(tmp_path / "d.xlsx", {"s": rows}))
    assert read_table(workbook(tmp_path / "c.xlsx", {"s": [["a", "b"]]})).shape == (0, 2)


def test_text_is_never_a_formula(tmp_path: Path) -> None:
    frame = pl.DataFrame({"t": ["=1+1", "http://example.org", "=HYPERLINK(1)"]})
    assert returned(frame, tmp_path, "t.xlsx").equals(frame)


def test_excel_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    with pytest.raises(TulleError, match=r"'tulle\[excel\]'"):
        write_table(pl.DataFrame({"a": [1]}), tmp_path / "t.xlsx")


@pytest.mark.parametrize("name", ["t.tsv", "t.tsv.gz"])
def test_tsv_is_separated_by_tabs(tmp_path: Path, name: str) -> None:
    frame = pl.DataFrame({"a,b": ["x\ty", "1,5"], "c": [1, 2]})
    assert returned(frame, tmp_path, name).equals(frame)
    if name == "t.tsv":
        assert (tmp_path / name).read_text() == '"a,b"\tc\n"x\ty"\t1\n1,5\t2\n'


class Full(io.BytesIO):
    """A disk that is full after a few bytes."""

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > 100:
            raise OSError(28, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("name", [*FILES, "sqlite:///t.db#t"])
def test_a_full_disk_is_told_in_plain_words(name: str) -> None:
    frame = pl.DataFrame({"n": range(5000), "t": ["secret cell"] * 5000})
    with pytest.raises(DataError, match="disk full") as caught:
        put_batches([frame], Full(), name)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int32, pl.UInt8, pl.UInt32, pl.UInt64])
def test_narrow_whole_numbers_go_into_excel(tmp_path: Path, dtype: Any) -> None:
    frame = pl.DataFrame({"n": pl.Series([0, None, 127], dtype=dtype)})
    assert returned(frame, tmp_path, "t.xlsx")["n"].to_list() == [0, None, 127]
    none = pl.DataFrame({"a": ["x"], "n": pl.Series([None], dtype=dtype)})
    assert returned(none, tmp_path, "u.xlsx")["n"].to_list() == [None]


@pytest.mark.parametrize("names", [("Age", "age"), ("a", " ")])
def test_names_that_excel_cannot_hold_are_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    with pytest.raises(DataError, match="rename"):
        write_table(pl.DataFrame({names[0]: [1], names[1]: [2]}), tmp_path / "t.xlsx")
    assert not (tmp_path / "t.xlsx").exists()


@pytest.mark.parametrize("dtype", [pl.Date, pl.Datetime("us")])
def test_days_beyond_those_of_excel_are_text(tmp_path: Path, dtype: Any) -> None:
    days = pl.Series("d", [4_000_000, 0], dtype=pl.Int32).cast(pl.Date).cast(dtype)
    found = returned(days.to_frame(), tmp_path, "t.xlsx")["d"].to_list()
    assert [text[:12] for text in found] == ["+12921-08-18", found[1][:12]]


def test_what_a_writer_stumbles_over_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*_: object) -> bytes:
        raise ValueError("Smith")

    monkeypatch.setattr("tulle.io._excel.excel_book", stumble)
    with pytest.raises(DataError, match="ValueError"):
        write_table(pl.DataFrame({"a": [1]}), tmp_path / "t.xlsx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.xlsx"])
def test_tables_of_any_kind_are_written(tmp_path: Path, name: str) -> None:
    frame = pl.DataFrame({"a": [1, 2], "b": ["x", None], "c": ["u", "v"]})
    for number, table in enumerate((frame.to_pandas(), frame.to_arrow(), frame)):
        write_table(table, tmp_path / f"{number}{name}")
        assert read_table(tmp_path / f"{number}{name}").equals(frame)
    write_table([[1, "x"], [2, "y"]], tmp_path / f"rows{name}")
    assert read_table(tmp_path / f"rows{name}").columns == ["x0", "x1"]
    with pytest.raises(DataError, match="collect"):
        write_table(frame.lazy(), tmp_path / f"lazy{name}")


class _Full(io.BytesIO):
    """A disk that is full after some bytes."""

    def write(self, data: Any) -> int:
        if self.tell() > 10_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_batches_are_made_where_they_are_asked_for(name: str) -> None:
    """On a thread of polars, the small stack is not enough for linear algebra."""
    makers: set[int] = set()

    def batches(stop: bool = False) -> Iterator[pl.DataFrame]:
        for number in range(30):
            makers.add(threading.get_ident())
            if stop and number == 20:
                raise ParameterError("enough")
            yield pl.DataFrame({"x": np.random.default_rng(number).random(5_000)})

    put_batches(batches(), file := io.BytesIO(), name)
    read = pl.read_parquet if name.endswith("parquet") else pl.read_ipc
    file.seek(0)
    assert read(file).height == 150_000
    with pytest.raises(ParameterError):
        put_batches(batches(stop=True), io.BytesIO(), name)
    with pytest.raises(DataError):
        put_batches(batches(), _Full(), name)
    assert makers == {threading.get_ident()}
