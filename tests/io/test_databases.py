"""Several tables at once, from folders and databases, with the keys that they declare."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from pathlib import Path

import polars as pl
import pytest

from tulle import hospital, read_table, write_table
from tulle.errors import DataError, TulleError
from tulle.io._databases import is_database, read_tables, tables_of
from tulle.io._sql import connected, execute, parse
from tulle.io.read import read_batches
from tulle.table._links import Link

HOSPITAL = hospital(60, random_state=0)
SCHEMA = [
    "CREATE TABLE patients (patient_id INTEGER PRIMARY KEY, born DATE)",
    "CREATE TABLE visits (patient_id INTEGER REFERENCES patients, number INTEGER, "
    "PRIMARY KEY (patient_id, number))",
    "CREATE TABLE labs (pid INTEGER, nr INTEGER, value REAL, "
    "FOREIGN KEY (pid, nr) REFERENCES visits (patient_id, number))",
    "CREATE VIEW everybody AS SELECT * FROM patients",
    "INSERT INTO patients VALUES (7, '1950-03-01')",
    "INSERT INTO visits VALUES (7, 1)",
    "INSERT INTO labs VALUES (7, 1, 0.5)",
]


def check_declared(source: Path | str) -> None:
    assert is_database(source)
    found = read_tables(source)
    assert sorted(found.frames) == ["labs", "patients", "visits"]  # no view
    assert found.frames["patients"].rows()[0][0] == 7
    assert found.keys == {"patients": ("patient_id",), "visits": ("patient_id", "number")}
    assert set(found.links) == {
        Link("visits", ("patient_id",), "patients", ("patient_id",)),
        Link("labs", ("pid", "nr"), "visits", ("patient_id", "number")),
    }
    assert list(read_tables(source, ["labs"]).frames) == ["labs"]
    with pytest.raises(DataError, match="no table 'lab'.*'labs'"):
        read_tables(source, ["lab"])
    assert "7" not in repr(found)


def test_sqlite(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "h.db") as connection:
        for statement in SCHEMA:
            connection.execute(statement)
    check_declared(tmp_path / "h.db")
    check_declared(f"sqlite:///{tmp_path}/h.db")
    assert not is_database(f"sqlite:///{tmp_path}/h.db#visits")


def test_duckdb(tmp_path: Path) -> None:
    import duckdb

    with duckdb.connect(str(tmp_path / "h.duckdb")) as connection:
        for statement in SCHEMA:
            connection.execute(statement)
    check_declared(tmp_path / "h.duckdb")


def test_postgresql(postgres: str) -> None:
    with connected(parse(postgres), writing=True) as connection:
        execute(connection, "CREATE SCHEMA ward")
        execute(connection, "SET search_path TO ward")
        for statement in SCHEMA:
            execute(connection, statement)
        connection.commit()
        execute(connection, "ALTER ROLE tulle SET search_path TO ward")
        connection.commit()
    try:
        check_declared(postgres)
    finally:
        with connected(parse(postgres), writing=True) as connection:
            execute(connection, "ALTER ROLE tulle RESET search_path")
            execute(connection, "DROP SCHEMA ward CASCADE")
            connection.commit()


def write_folder(folder: Path, tables: dict[str, pl.DataFrame]) -> Path:
    folder.mkdir()
    for name, frame in tables.items():
        frame.write_csv(folder / f"{name}.csv")
    return folder


def test_a_folder_of_tables_is_told_from_the_parts_of_one(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "hospital", HOSPITAL)
    (folder / "README.md").write_text("what it is")
    assert is_database(folder)
    assert {name: frame.height for name, frame in read_tables(folder).frames.items()} == {
        name: frame.height for name, frame in HOSPITAL.items()
    }
    assert list(tables_of(folder)) == sorted(HOSPITAL)
    half = HOSPITAL["visits"].height // 2
    parts = {"a": HOSPITAL["visits"][:half], "b": HOSPITAL["visits"][half:]}
    assert not is_database(write_folder(tmp_path / "visits", parts))
    # one part that lacks a column is a mistake, not a table
    mixed = {**parts, "c": HOSPITAL["visits"].drop("ward")}
    assert not is_database(write_folder(tmp_path / "mixed", mixed))


def test_two_files_for_one_table_are_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "hospital", HOSPITAL)
    HOSPITAL["visits"].write_parquet(folder / "visits.parquet")
    with pytest.raises(DataError, match="two files for the table 'visits'"):
        read_tables(folder)


def test_other_files_are_no_database(tmp_path: Path) -> None:
    (tmp_path / "h.db").write_text("not a database")
    with pytest.raises(DataError, match=r"not a database of SQLite or DuckDB"):
        read_tables(tmp_path / "h.db")
    with pytest.raises(DataError, match="no such file"):
        read_tables(tmp_path / "missing.db")
    (tmp_path / "empty").mkdir()
    assert not is_database(tmp_path / "empty")
    with pytest.raises(DataError, match="no table"):
        read_tables(tmp_path / "empty")
    HOSPITAL["visits"].write_csv(tmp_path / "visits.csv")
    assert not is_database(tmp_path / "visits.csv")


def test_a_single_table_of_duckdb(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE visits AS SELECT 1 AS id, 2.5::DECIMAL(4,1) AS fee")
    table = read_table(f"duckdb:///{path}#visits")
    assert table.to_dict(as_series=False) == {"id": [1], "fee": [2.5]}
    assert read_table(f"duckdb:///{path}#SELECT id FROM visits").columns == ["id"]
    with pytest.raises(DataError, match=r"no such table.*visits"):
        read_table(f"duckdb:///{path}#visit")
    with pytest.raises(DataError, match="write Parquet, which DuckDB reads"):
        write_table(table, f"duckdb:///{path}#copy")


@pytest.fixture
def mysql(mariadb: str) -> Iterator[tuple[str, Callable[[str], object]]]:
    """An empty database of MariaDB, and what runs a statement in it."""
    import pymysql

    port = int(mariadb.rpartition(":")[2].partition("/")[0])
    with pymysql.connect(
        host="127.0.0.1", port=port, user="ann", password="a:b@c", database="clinic",
        autocommit=True, client_flag=pymysql.constants.CLIENT.MULTI_STATEMENTS,
    ) as connection, connection.cursor() as cursor:  # fmt: skip
        cursor.execute("DROP DATABASE clinic")
        cursor.execute("CREATE DATABASE clinic CHARACTER SET utf8mb4")
        cursor.execute("USE clinic")
        yield mariadb, cursor.execute


def test_mysql(mysql: tuple[str, Callable[[str], object]]) -> None:
    address, run = mysql
    for statement in SCHEMA:
        run(statement)
    check_declared(address)
    check_declared(address.replace("mysql", "mariadb+pymysql"))
    assert not is_database(f"{address}#visits")


def test_types_of_mysql(
    mysql: tuple[str, Callable[[str], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, run = mysql
    run("SET sql_mode = ''")  # takes zero dates
    run(
        "CREATE TABLE visits (n BIGINT, x DECIMAL(6,2), f FLOAT, `odd ``name` VARCHAR(20), "
        "day DATE, seen DATETIME(6), clock TIME, sort ENUM('a', 'b'), note JSON, year YEAR)"
    )
    run(
        "INSERT INTO visits VALUES (-3, 1.25, 0.5, 'Zoë ''x''', '1850-01-01', "
        "'2024-01-02 03:04:05.25', '23:59:59', 'b', '[1]', 2024), "
        "(NULL, NULL, NULL, '', '0000-00-00', '2024-01-02', NULL, NULL, NULL, NULL)"
    )
    found = read_table(f"{address}#visits")
    assert found.rows() == [
        (-3, 1.25, 0.5, "Zoë 'x'", date(1850, 1, 1), datetime(2024, 1, 2, 3, 4, 5, 250000),
         time(23, 59, 59), "b", "[1]", 2024),
        (None, None, None, "", None, datetime(2024, 1, 2), None, None, None, None),
    ]  # fmt: skip
    asked = f'{address}#SELECT n + 1 AS m, clock FROM visits WHERE sort = "b";'
    assert read_table(asked, columns=["m"]).rows() == [(-2,)]
    run("INSERT INTO visits (n) SELECT seq FROM seq_1_to_1500")
    monkeypatch.setattr(
        "tulle.io._mysql.BATCH_ROWS", 700
    )  # of which the server sends one at a time
    assert [one.height for one in read_batches(f"{address}#visits", rows=1000)] == [1000, 502]


def test_mysql_says_what_is_wrong_without_its_words(
    mysql: tuple[str, Callable[[str], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, run = mysql
    run("CREATE TABLE visits (long_ago TIME, scan BLOB)")
    run("INSERT INTO visits VALUES ('120:00:00', X'ff')")
    shown = re.escape(re.sub(":a.*@", "@", address))
    with pytest.raises(DataError, match=rf"^{shown}#visit: no such table.*visits"):
        read_table(f"{address}#visit")
    with pytest.raises(DataError, match=r"^[^ab]*ann.*#query: the database reported.*1054"):
        read_table(f"{address}#SELECT Smith FROM visits")
    for name in ("long_ago", "scan"):
        with pytest.raises(DataError, match=f"'{name}' holds values that are not .*query"):
            read_table(f"{address}#visits", columns=[name])
    with pytest.raises(DataError, match="CSV, which LOAD DATA takes"):
        write_table(HOSPITAL["visits"], f"{address}#copy")
    wrong = address.replace(":a%3Ab%40c", "")
    with pytest.raises(DataError, match=r"cannot connect.*OperationalError 1045"):
        read_table(f"{wrong}#visits")
    with pytest.raises(DataError, match=r"^mysql://ann@host/clinic#visits: not an address"):
        read_table("mysql://ann:a/b@c@host/clinic#visits")
    monkeypatch.setenv("MYSQL_PWD", "a:b@c")
    assert read_table(f"{wrong}#SELECT 1 AS one").rows() == [(1,)]
    monkeypatch.setitem(sys.modules, "pymysql", None)
    with pytest.raises(TulleError, match=r"tulle\[mysql\]"):
        read_table(f"{address}#visits")
