"""Several tables at once, from folders and databases, with the keys that they declare."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import polars as pl
import pytest

from tulle import hospital, read_table, write_table
from tulle.errors import DataError
from tulle.io._databases import is_database, read_tables, tables_of
from tulle.io._sql import connected, execute, parse
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
    with pytest.raises(DataError, match=r"name a table after a #.*visits"):
        read_table(f"duckdb:///{path}#visit")
    with pytest.raises(DataError, match="write Parquet, which DuckDB reads"):
        write_table(table, f"duckdb:///{path}#copy")


def test_mysql_is_refused_with_a_way_out() -> None:
    with pytest.raises(DataError, match=r"MySQL and MariaDB are not read.*table\.tsv"):
        read_table("mysql://ann:secret@host/clinic#visits")
