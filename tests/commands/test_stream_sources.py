"""Files and folders as sources of ``tulle stream``: nothing lost, nothing doubled."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.reference.streams import OPTIONS, groups, rows, same_groups, write_csv, write_ndjson
from tulle._commands._decision import Done
from tulle._commands.stream import stream
from tulle.errors import DataError, KeyMaterialError
from tulle.stream._folder import FolderSource
from tulle.stream._sources import NO_LINES

pytestmark = pytest.mark.slow


def test_a_growing_file_is_followed_until_asked_to_stop(tmp_path: Path) -> None:
    made = rows(300)
    source = write_ndjson(tmp_path / "in.ndjson", made[:100])

    def grow() -> None:
        for start in range(100, 300, 50):
            time.sleep(0.1)
            write_ndjson(source, made[start : start + 50], "a")
        with source.open("a") as file:
            file.write('{"age": 1')  # half a line: not a record yet
        for _ in range(200):
            time.sleep(0.05)
            if (tmp_path / "st").exists() and groups(tmp_path / "st")[
                "0.groups.counts"
            ].sum() > 298:
                break
        os.kill(os.getpid(), signal.SIGTERM)

    grower = threading.Thread(target=grow)
    grower.start()
    done = stream(
        str(source), tmp_path / "out", state=tmp_path / "st", follow=True, checkpoint=0.0, **OPTIONS
    )
    grower.join()
    assert (done.summary["seen"], done.summary["rejected"]) == (300, 0)
    whole = write_ndjson(tmp_path / "whole.ndjson", made)
    stream(str(whole), tmp_path / "out2", state=tmp_path / "st2", **OPTIONS)
    same_groups(tmp_path / "st", tmp_path / "st2")


def test_a_folder_of_arriving_files(tmp_path: Path) -> None:
    made, folder = rows(300), tmp_path / "in"
    folder.mkdir()
    write_csv(folder / "1.csv", made[:120])
    write_csv(folder / "3.csv.part", made[200:])
    options = {**OPTIONS, "state": tmp_path / "st"}
    first = stream(str(folder), tmp_path / "out", **options)
    assert first.summary["seen"] == 120
    write_csv(folder / "2.csv", made[120:200])
    os.rename(folder / "3.csv.part", folder / "3.csv")
    second = stream(str(folder), tmp_path / "out", **options)
    assert (second.summary["seen"], second.summary["resumed_after"]) == (300, 120)
    whole = write_csv(tmp_path / "whole.csv", made)
    stream(str(whole), tmp_path / "out2", **{**options, "state": tmp_path / "st2"})
    same_groups(tmp_path / "st", tmp_path / "st2")
    (folder / "4.csv").write_text("other,columns\n1,2\n")
    assert any("4.csv" in note for note in stream(str(folder), tmp_path / "out", **options).notes)


def test_empty_files_and_byte_order_marks_do_not_stop_a_folder(tmp_path: Path) -> None:
    made, folder = rows(300), tmp_path / "in"
    folder.mkdir()
    (folder / "0.csv").touch()
    write_csv(folder / "1.csv", made[:150])
    (folder / "2.csv").touch()
    marked = write_csv(folder / "3.csv", made[150:])
    marked.write_bytes(b"\xef\xbb\xbf" + marked.read_bytes())
    done = stream(str(folder), tmp_path / "out", state=tmp_path / "st", **OPTIONS)
    assert (done.summary["seen"], done.summary["rejected"]) == (300, 0)


def follow(source: Path, change: Callable[[], None], tmp_path: Path, seen: int) -> Done:
    """Follows a file; once so many records are condensed, something happens to it."""

    def watch() -> None:
        for _ in range(400):
            time.sleep(0.02)
            state = tmp_path / "st"
            if state.exists() and groups(state)["0.groups.counts"].sum() == seen:
                change()
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        return stream(
            str(source),
            tmp_path / "out",
            state=tmp_path / "st",
            follow=True,
            restart="continued",
            k=4,
            init=60,
            checkpoint=0.0,
        )
    finally:
        watcher.join()


@pytest.mark.parametrize("change", ["cut", "replaced"])
def test_a_followed_file_that_is_cut_or_replaced_is_noticed(change: str, tmp_path: Path) -> None:
    made = [{**row, "level": 4} for row in rows(300)]
    source = write_ndjson(tmp_path / "in.ndjson", made[:200])

    def happen() -> None:
        if change == "replaced":
            os.rename(source, tmp_path / "in.1")
            time.sleep(0.5)
        write_ndjson(source, made[200:])

    with pytest.raises(DataError, match="line 200.*--restart"):
        follow(source, happen, tmp_path, 200)
    options = {"state": tmp_path / "st"}
    with pytest.raises(DataError):
        stream(str(source), tmp_path / "out", **options)
    done = stream(str(source), tmp_path / "out", restart="continued", **options)
    assert (done.summary["seen"], done.summary["resumed_after"]) == (300, 200)
    again = stream(str(source), tmp_path / "out", restart="continued", **options)
    assert again.summary["seen"] == 300


def test_a_file_that_was_edited_is_another_file(tmp_path: Path) -> None:
    made = rows(300)
    source = write_ndjson(tmp_path / "in.ndjson", made[:200])
    options = {**OPTIONS, "state": tmp_path / "st"}
    stream(str(source), tmp_path / "out", **options)
    write_ndjson(source, [*made[:199], *made[:101]])
    with pytest.raises(DataError):
        stream(str(source), tmp_path / "out", **options)


def test_records_that_wait_stay_where_a_file_is_replaced(tmp_path: Path) -> None:
    made = rows(300)
    source = write_ndjson(tmp_path / "in.ndjson", made[:200])
    options = {**OPTIONS, "state": tmp_path / "st"}
    assert stream(str(source), tmp_path / "out", **options).summary["waiting"] == 1
    write_ndjson(source, made[200:])
    done = stream(str(source), tmp_path / "out", **options, restart="continued")
    assert (done.summary["seen"], done.summary["waiting"]) == (300, 1)
    assert stream(str(source), tmp_path / "out", **options).summary["seen"] == 300
    (tmp_path / "st.key").unlink()
    with pytest.raises(KeyMaterialError, match="--key"):
        stream(str(source), tmp_path / "out", **options)


def test_a_line_that_is_being_written_is_waited_for_or_told(tmp_path: Path) -> None:
    made = [{**row, "level": 4} for row in rows(121)]
    source = write_ndjson(tmp_path / "in.ndjson", made[:120])
    begun, ended = json.dumps(made[120])[:9], json.dumps(made[120])[9:]
    options = {"state": tmp_path / "st", "k": 4, "init": 60}

    def write(text: str) -> None:
        with source.open("a") as file:
            file.write(text)

    write(begun)
    writer = threading.Timer(0.05, write, [ended])  # without a line end
    writer.start()
    first = stream(str(source), tmp_path / "out", **options)
    writer.join()
    assert (first.summary["seen"], first.summary["rejected"]) == (121, 0)
    write("\n" + begun)
    second = stream(str(source), tmp_path / "out", **options)
    assert (second.summary["seen"], second.summary["rejected"]) == (121, 1)
    write(ended + "\n")
    with pytest.raises(DataError, match="line 122"):
        stream(str(source), tmp_path / "out", **options)
    third = stream(str(source), tmp_path / "out", restart="continued", **options)
    assert (third.summary["seen"], third.summary["rejected"]) == (121, 2)


def test_a_header_is_waited_for(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("a,")

    def write() -> None:
        time.sleep(0.3)
        lines = "".join(f"{place % 7},{place % 5}\n" for place in range(100))
        with source.open("a") as file:
            file.write("b\n" + lines)
        for _ in range(200):
            time.sleep(0.02)
            if (tmp_path / "st").exists():
                break
        os.kill(os.getpid(), signal.SIGINT)

    writer = threading.Thread(target=write)
    writer.start()
    done = stream(str(source), tmp_path / "out", state=tmp_path / "st", k=4, init=90, follow=True)
    writer.join()
    assert done.summary["seen"] >= 90
    assert pl.read_parquet(tmp_path / "out" / "snapshot-000001.parquet").columns == ["a", "b"]


def test_files_that_were_read_may_be_taken_away(tmp_path: Path) -> None:
    made, folder = rows(300), tmp_path / "in"
    folder.mkdir()
    options = {**OPTIONS, "state": tmp_path / "st"}
    write_csv(folder / "1.csv", made[:120])
    stream(str(folder), tmp_path / "out", **options)
    (folder / "1.csv").unlink()
    assert stream(str(folder), tmp_path / "out", **options).summary["seen"] == 120
    write_csv(folder / "1.csv", made[:120])  # back again: it was counted
    write_csv(folder / "2.csv", made[120:200])
    second = stream(str(folder), tmp_path / "out", **options)
    assert (second.summary["seen"], second.summary["waiting"]) == (200, 1)
    (folder / "2.csv").unlink()
    third = stream(str(folder), tmp_path / "out", **options)
    assert (third.summary["seen"], third.summary["waiting"]) == (200, 1)


@pytest.mark.parametrize("after", ["a\n1\n5\n3", "a\n1", "a\n1\n2\n34\n"])
def test_a_file_of_a_folder_that_was_changed_is_told_with_what_helps(
    after: str, tmp_path: Path
) -> None:
    """Edited, cut, or its last line went on."""
    path = tmp_path / "1.csv"
    path.write_text("a\n1\n2\n3")

    def opened(position: dict[str, Any] | None) -> FolderSource:
        return FolderSource(
            str(tmp_path), has_header=True, endings=[".csv"], follow=False, position=position
        )

    with closing(opened(None)) as source:
        assert len(source.read(2) or []) == 2
        assert (source.read(1) or NO_LINES).texts == [b"3"]
        position = source.position
    opened(position).close()  # unchanged
    path.write_text(after)
    with pytest.raises(DataError, match=r"1\.csv.*4 lines") as told:
        opened(position)
    assert "--restart" not in str(told.value)


def test_records_before_a_file_with_other_columns_are_counted(tmp_path: Path) -> None:
    made, folder = rows(140), tmp_path / "in"
    folder.mkdir()
    write_csv(folder / "1.csv", made[:100])
    write_csv(folder / "2.csv", made[100:])
    (folder / "3.csv").write_text("other,columns\n1,2\n")
    options = {**OPTIONS, "state": tmp_path / "st", "checkpoint": 600.0}
    assert any("3.csv" in note for note in stream(str(folder), tmp_path / "out", **options).notes)
    os.rename(folder / "3.csv", folder / "3.csv.part")
    done = stream(str(folder), tmp_path / "out", **options)
    assert (done.summary["seen"], done.summary["resumed_after"]) == (140, 140)


def test_files_of_a_folder_that_nobody_reads_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "arriving"
    folder.mkdir()
    write_csv(folder / "a.csv", rows(100))
    for name in ("b.csv.bz2", "c.dat", ".hidden", "d.csv.part"):
        (folder / name).write_bytes(b"")
    done = stream(str(folder), tmp_path / "out", state=tmp_path / "st", **OPTIONS)
    assert done.summary["seen"] == 100
    told = [note for note in done.notes if "were ignored" in note]
    assert len(told) == 1
    assert told[0].endswith("do not end in .csv, .tsv or .txt (or these and .gz): 2")
