"""Databases: SQLite files, and a real PostgreSQL server."""

from __future__ import annotations

import datetime
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from tulle.errors import DataError, OutputExists, TulleError
from tulle.io._sql import connected, execute, open_query, parse
from tulle.io.read import read_batches, read_schema, read_table
from tulle.io.write import write_batches, write_table
from tulle.releases import check_target

FRAME = pl.DataFrame(
    {
        "n": [1, None, -3],
        "x": [1.5, None, 2.0],
        "whole": [1.0, 2.0, 3.0],
        "t": ["01234", None, 'a "b"; DROP'],
        "truth": [True, None, False],
        "day": [datetime.date(2024, 2, 29), None, datetime.date(1850, 1, 1)],
        "moment": [datetime.datetime(2024, 1, 2, 3, 4, 5, 123456), None, None],
        "zoned": pl.Series([datetime.datetime(2024, 1, 1), None, None]).dt.replace_time_zone("UTC"),
        "clock": [datetime.time(23, 59, 59, 250000), None, None],
        'Odd "name"': ["a", "b", "c"],
        "void": pl.Series([None] * 3, dtype=pl.String),
    }
)


def test_types_and_missing_values_survive(database: str) -> None:
    write_table(FRAME, f"{database}#people")
    found = read_table(f"{database}#people")
    assert found.schema == FRAME.schema
    assert found.equals(FRAME)
    assert read_schema(f"{database}#people") == FRAME.schema
    assert read_table(f"{database}#people", columns=["t", "n"]).equals(FRAME.select("t", "n"))


def test_queries(database: str) -> None:
    write_table(FRAME, f"{database}#people")
    found = read_table(
        f"{database}#SELECT t, n + 1 AS m FROM people WHERE n IS NOT NULL ORDER BY n;"
    )
    assert found.rows() == [('a "b"; DROP', -2), ("01234", 2)]
    with pytest.raises(DataError, match="'t'"):
        read_table(f"{database}#SELECT t, t FROM people")


def test_batches(database: str) -> None:
    frames = [pl.DataFrame({"n": range(i, i + 700), "t": [f"r{i}"] * 700}) for i in (0, 700, 1400)]
    write_batches(iter(frames), f"{database}#many")
    batches = list(read_batches(f"{database}#many", rows=1000))
    assert [batch.height for batch in batches] == [1000, 1000, 100]
    assert pl.concat(batches).equals(pl.concat(frames))


def test_empty_tables(database: str) -> None:
    write_table(FRAME.clear(), f"{database}#none")
    assert read_table(f"{database}#none").columns == FRAME.columns
    assert [batch.height for batch in read_batches(f"{database}#none")] == [0]


def test_one_transaction(database: str) -> None:
    target = f"{database}#people"

    def broken() -> Iterator[pl.DataFrame]:
        yield pl.DataFrame({"n": [8, 9]})
        raise KeyError("the source failed")

    with pytest.raises(KeyError):
        write_batches(broken(), target)
    with pytest.raises(DataError, match=r"no such (file|table)"):
        read_table(target)
    write_table(pl.DataFrame({"n": [1]}), target)
    with pytest.raises(OutputExists):
        write_table(pl.DataFrame({"n": [2]}), target)
    with pytest.raises(KeyError):
        write_batches(broken(), target, force=True)
    assert read_table(target)["n"].to_list() == [1]
    write_table(pl.DataFrame({"other": [2]}), target, force=True)
    assert read_table(target).to_dict(as_series=False) == {"other": [2]}


def test_a_failed_first_table_leaves_no_database_file(tmp_path: Path) -> None:
    frames = [pl.DataFrame({"n": [1]}), pl.DataFrame({"n": ["x"]})]
    with pytest.raises(DataError):
        write_batches(frames, f"sqlite:///{tmp_path}/new.db#t")
    assert list(tmp_path.iterdir()) == []


def test_wrong_tables_and_queries(database: str) -> None:
    write_table(FRAME, f"{database}#people")
    with pytest.raises(DataError, match="'people'"):
        read_table(f"{database}#poeple")
    with pytest.raises(DataError, match="'people'"):
        read_table(database)
    with pytest.raises(DataError):
        write_table(FRAME, database)
    with pytest.raises(DataError, match="database") as caught:
        read_table(f"{database}#SELECT nothing FROM people WHERE t = 'hunter2'")
    assert "hunter2" not in str(caught.value)


def test_reading_never_makes_or_changes_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        read_table(f"sqlite:///{tmp_path}/none.db#t")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match="slashes"):
        read_table("sqlite://file.db#t")


def test_sqlite_types_of_every_value_decide(tmp_path: Path) -> None:
    path = tmp_path / "loose.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (mixed, number, late, flag BOOLEAN, no BOOLEAN, day)")
    rows = [(1, 1, None, 1, 1, "2024-01-01")] * 3000 + [("x", 1.5, "y", None, 7, "2024-02-30")]
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.execute("CREATE VIEW v AS SELECT mixed FROM t")
    connection.execute("CREATE TABLE b (image BLOB)")
    connection.execute("INSERT INTO b VALUES (x'00')")
    connection.commit()
    connection.close()
    found = read_table(f"sqlite:///{path}#t")
    types = [pl.String, pl.Float64, pl.String, pl.Boolean, pl.Int64, pl.String]
    assert found.dtypes == types
    assert found.row(-1) == ("x", 1.5, "y", None, 7, "2024-02-30")
    assert found.height == 3001
    assert read_table(f"sqlite:///{path}#v").height == 3001
    with pytest.raises(DataError, match="'image'"):
        read_table(f"sqlite:///{path}#b")


def test_postgresql_types(postgres: str) -> None:
    with connected(parse(postgres), writing=True) as connection:
        execute(connection, "DROP SCHEMA IF EXISTS lab CASCADE")
        execute(connection, "CREATE SCHEMA lab")
        execute(connection, "CREATE TYPE lab.mood AS ENUM ('fine', 'ill')")
        execute(
            connection,
            "CREATE TABLE lab.odd AS SELECT 12.5::numeric AS amount, 'fine'::lab.mood AS mood, "
            "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid AS id, '3.5'::money AS cost, "
            "'{\"a\": 1}'::jsonb AS doc, 'x'::char(4) AS code, '1 day'::interval AS span",
        )
        connection.commit()
    found = read_table(f"{postgres}#lab.odd").row(0, named=True)
    assert found == {
        "amount": 12.5,
        "mood": "fine",
        "id": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "cost": 3.5,
        "doc": '{"a": 1}',
        "code": "x",
        "span": "1 day",
    }
    write_table(FRAME, f"{postgres}#lab.people")
    assert read_table(f"{postgres}#lab.people").equals(FRAME)


def test_the_password_is_never_told() -> None:
    with pytest.raises(DataError, match="connect") as caught:
        open_query("postgresql://ann:hunter2@127.0.0.1:1/clinic#visits")
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "adbc_driver_sqlite", None)
    monkeypatch.setitem(sys.modules, "adbc_driver_sqlite.dbapi", None)
    (tmp_path / "x.db").touch()
    with pytest.raises(TulleError, match=r"'tulle\[db\]'"):
        read_table(f"sqlite:///{tmp_path}/x.db#t")


def test_whole_numbers_of_64_bits_are_kept_or_refused(database: str) -> None:
    kept = pl.DataFrame({"n": pl.Series([2**63 - 1, None], dtype=pl.UInt64)})
    write_table(kept, f"{database}#kept")
    assert read_table(f"{database}#kept")["n"].to_list() == [2**63 - 1, None]
    beyond = pl.DataFrame({"n": pl.Series([2**64 - 1, None], dtype=pl.UInt64)})
    with pytest.raises(DataError, match="64 bits"):
        write_table(beyond, f"{database}#beyond")


def test_what_postgresql_would_cut_off_is_refused(postgres: str) -> None:
    fine = pl.Series("t", [1_700_000_000_123_456_789], dtype=pl.Int64)
    for dtype in (pl.Datetime("ns"), pl.Datetime("ns", "UTC"), pl.Time):
        frame = (fine % 86_400_000_000_000).cast(dtype).to_frame()
        with pytest.raises(DataError):
            write_table(frame, f"{postgres}#fine")
    with pytest.raises(DataError, match="63 bytes"):
        write_table(pl.DataFrame({"c" * 64: [1]}), f"{postgres}#wide")
    with pytest.raises(DataError, match="63 bytes"):
        write_table(pl.DataFrame({"c": [1]}), f"{postgres}#{'ä' * 32}")
    with pytest.raises(DataError, match="63 bytes"):
        check_target(f"{postgres}#{'t' * 60}")


def test_names_that_differ_in_capitals_only_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'Age'.*'age'"):
        write_table(pl.DataFrame({"Age": [1], "age": [2]}), f"sqlite:///{tmp_path}/d.db#t")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", [":memory:", "", "file:x.db?mode=memory"])
def test_a_database_in_memory_is_no_place_for_a_table(place: str) -> None:
    with pytest.raises(DataError):
        write_table(pl.DataFrame({"a": [1]}), f"sqlite:///{place}#t")
    with pytest.raises(DataError):
        read_table(f"sqlite:///{place}#t")


def test_a_query_may_be_written_in_many_ways(database: str) -> None:
    write_table(pl.DataFrame({"a": [1, 2]}), f"{database}#t")
    for query in ("SELECT a FROM t -- all", "-- all\nselect a from t;", "select*from t"):
        assert read_table(f"{database}#{query}").height == 2


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_database_that_changes_meanwhile_is_refused(tmp_path: Path, mode: str) -> None:
    with closing(sqlite3.connect(tmp_path / "d.db")) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("CREATE TABLE t (n)")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.commit()
        source = f"sqlite:///{tmp_path}/d.db#t"
        assert read_table(source)["n"].to_list() == [1]
        frames = read_batches(source)
        connection.execute("INSERT INTO t VALUES ('x')")
        connection.commit()
        with pytest.raises(DataError):
            list(frames)
    assert read_table(source)["n"].to_list() == ["1", "x"]
