"""Releases as tables of a database: SQLite, and a real PostgreSQL server."""

from __future__ import annotations

import datetime
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from tulle.errors import DataError, OutputExists, PrivacyError, TulleError
from tulle.io._sql import connected, execute, parse
from tulle.io.read import read_table
from tulle.io.write import put_table, write_table
from tulle.releases import (
    Manifest,
    check_target,
    has_manifest,
    read_manifest,
    verify_release,
    write_release,
)
from tulle.releases._database import digest_of_rows

FRAME = pl.DataFrame(
    {
        "n": [3, None, 1],
        "x": [0.1, float("inf"), None],
        "t": ["b", "ä; DROP", None],
        "day": [datetime.date(2024, 2, 29), None, datetime.date(1850, 1, 1)],
        "truth": [True, None, False],
    }
)
MADE = Manifest("test", {"k": 3}, {"k": 3}, {"groups of at least 3": True})


def release(target: str, frame: pl.DataFrame = FRAME, **options: object) -> Manifest:
    return write_release(target, lambda file: put_table(frame, file, target), MADE, **options)  # type: ignore[arg-type]


def holds(target: str) -> list[bool]:
    return [row["holds"] for row in verify_release(target)]


def change(target: str, statement: str) -> None:
    with connected(parse(target), writing=True) as connection:
        execute(connection, statement)
        connection.commit()


def test_table_and_manifest_appear_together_and_verify(database: str) -> None:
    target = f"{database}#shared"
    made = release(target)
    assert read_table(target).equals(FRAME)
    assert read_manifest(target) == made
    assert made.output["table"] == "shared"
    assert has_manifest(target)
    assert holds(target) == [True, True]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE shared SET x = 0.10000000000000002 WHERE n = 3",
        "DELETE FROM shared WHERE n = 1",
        "INSERT INTO shared SELECT * FROM shared WHERE n = 3",
        "UPDATE shared SET t = '' WHERE t IS NULL",
        'ALTER TABLE shared RENAME COLUMN x TO "y"',
    ],
)
def test_any_change_is_noticed(database: str, statement: str) -> None:
    target = f"{database}#shared"
    release(target)
    change(target, statement)
    assert holds(target) == [False, True]


def test_the_order_of_records_does_not_matter(database: str) -> None:
    target = f"{database}#shared"
    release(target)
    change(target, "CREATE TABLE other AS SELECT * FROM shared ORDER BY n DESC")
    change(target, "DROP TABLE shared")
    change(target, "ALTER TABLE other RENAME TO shared")
    assert read_table(target)["n"].to_list() != FRAME["n"].to_list()
    if not database.startswith("sqlite"):  # SQLite forgets the declared booleans
        assert holds(target) == [True, True]


def test_force_replaces_a_release_and_nothing_else(database: str) -> None:
    target = f"{database}#shared"
    release(target)
    with pytest.raises(OutputExists, match="--force"):
        release(target)
    release(target, FRAME.head(1), force=True)
    assert read_table(target).height == 1
    assert holds(target) == [True, True]
    write_table(FRAME, f"{database}#people")
    with pytest.raises(OutputExists):
        release(f"{database}#people", force=True)
    write_table(FRAME, f"{database}#b_manifest")
    with pytest.raises(OutputExists, match="b_manifest"):
        check_target(f"{database}#b", force=True)
    assert read_table(f"{database}#people").equals(FRAME)


def test_the_source_is_never_replaced(database: str, tmp_path: Path) -> None:
    target = f"{database}#shared"
    release(target)
    with pytest.raises(TulleError, match="source"):
        release(target, sources=(f"{database}#Shared",), force=True)
    for other in (
        f"{database}#shared_manifest",
        f"{database}#SELECT * FROM shared WHERE n > 1",
        f"{database}#with x as (select n from Shared) select * from x",
    ):
        with pytest.raises(TulleError, match="source"):
            release(target, sources=(other,), force=True)
    if not database.startswith("sqlite"):
        for other in (f"{database}#public.shared", f"{database}?application_name=x#shared"):
            with pytest.raises(TulleError, match="source"):
                release(target, sources=(other,), force=True)
        with pytest.raises(TulleError, match="source"):
            check_target(f"{database}#a.shared", sources=(f"{database}#a.shared",))
        check_target(f"{database}#a.shared", sources=(f"{database}#b.shared",))
    release(target, sources=(f"{database}#SELECT * FROM sharedness",), force=True)
    file = tmp_path / "data.db"
    file.touch()
    with pytest.raises(TulleError, match="source"):
        check_target(f"sqlite:///{file}#t", sources=(file,))


def test_nothing_is_left_of_a_failure(database: str, tmp_path: Path) -> None:
    def fail(file: object) -> None:
        raise RuntimeError

    for put, error, manifest in (
        (fail, RuntimeError, MADE),
        (lambda file: file.write(b"PAR1"), DataError, MADE),
        (fail, PrivacyError, Manifest("test", {}, {}, {"holds": False})),
    ):
        with pytest.raises(error):
            write_release(f"{database}#t", put, manifest)  # type: ignore[arg-type]
    assert not has_manifest(f"{database}#t")
    assert not (tmp_path / "data.db").exists()


def test_what_is_no_release_is_called_so(database: str) -> None:
    write_table(FRAME, f"{database}#people")
    with pytest.raises(DataError, match="people_manifest"):
        verify_release(f"{database}#people")
    write_table(FRAME, f"{database}#people_manifest")
    with pytest.raises(DataError, match="manifest"):
        verify_release(f"{database}#people")
    release(f"{database}#gone")
    change(f"{database}#gone", "DROP TABLE gone")
    with pytest.raises(DataError, match="manifest"):
        verify_release(f"{database}#gone")
    with pytest.raises(DataError):
        check_target(database)
    with pytest.raises(DataError) as caught:
        verify_release(f"{database}#SELECT 'Smith' FROM people")
    assert "Smith" not in str(caught.value)


def test_an_empty_release_is_one(database: str) -> None:
    release(f"{database}#none", FRAME.clear())
    assert read_table(f"{database}#none").columns == FRAME.columns
    assert holds(f"{database}#none") == [True, True]


def test_digests_tell_records_apart() -> None:
    frames = [
        pl.DataFrame({"a": ["x", None]}),
        pl.DataFrame({"a": ["x", "None"]}),
        pl.DataFrame({"a": ["x"]}),
        pl.DataFrame({"b": ["x", None]}),
        pl.DataFrame({"a": [0.0, -0.0]}),
        pl.DataFrame({"a": [0.0, 0.0]}),
    ]
    digests = [digest_of_rows([frame]) for frame in frames]
    assert len(set(digests)) == len(frames)
    parts = [frames[0].head(1), frames[0].tail(1)]
    assert digest_of_rows(reversed(parts)) == digests[0]


CHILD = """
import sys
import polars as pl
from tulle.io.write import put_table
from tulle.releases import Manifest, write_release

made = Manifest("test", {}, {"k": 3}, {"groups of at least 3": True})
for i in range(1000):
    frame = pl.DataFrame({"n": [i] * 20_000})
    write_release(sys.argv[1], lambda file: put_table(frame, file, sys.argv[1]), made, force=True)
    print("ready", flush=True)
"""


@pytest.mark.slow
def test_kills_leave_the_old_release_or_the_new(tmp_path: Path) -> None:
    target = f"sqlite:///{tmp_path}/data.db#t"
    moments = random.Random(0)
    for _ in range(4):
        child = subprocess.Popen([sys.executable, "-c", CHILD, target], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(moments.random() * 0.05)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        assert holds(target) == [True, True]
        assert read_table(target)["n"].n_unique() == 1
    with closing(sqlite3.connect(tmp_path / "data.db")) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master ORDER BY name").fetchall()
    assert tables == [("t",), ("t_manifest",)]
    assert set(os.listdir(tmp_path)) <= {"data.db", "data.db-journal"}
