"""What ``tulle stream`` refuses to begin or to go on with, in words that help."""

from __future__ import annotations

import errno
import io
import json
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.reference.streams import OPTIONS, rows, write_csv, write_ndjson
from tulle import StreamCondenser
from tulle._commands import stream as running
from tulle._commands._stream_intake import Intake
from tulle._commands.stream import _Run, stream
from tulle._files import digest
from tulle.errors import DataError, OutputExists, ParameterError, PrivacyError, TulleError
from tulle.releases import write_release

pytestmark = pytest.mark.slow


def test_what_cannot_begin_leaves_no_folder(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "in.csv", rows(300))
    with pytest.raises(ValueError, match="'nope'"):
        stream(
            str(source), tmp_path / "out", state=tmp_path / "st", **{**OPTIONS, "levels": "nope"}
        )
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "st").exists()


def test_a_second_process_is_kept_away(tmp_path: Path) -> None:
    from tulle.stream._checkpoints import locked

    source = write_ndjson(tmp_path / "in.ndjson", rows(100))
    with locked(tmp_path / "st"), pytest.raises(TulleError):
        stream(str(source), tmp_path / "out", state=tmp_path / "st", **OPTIONS)


def test_what_cannot_go_on_is_refused(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(120))
    options = {**OPTIONS, "state": tmp_path / "st"}
    stream(str(source), tmp_path / "out", **options)
    with pytest.raises(ParameterError, match="k=4"):
        stream(str(source), tmp_path / "out", **{**options, "k": 5})
    with pytest.raises(ParameterError, match="target"):
        stream(str(source), tmp_path / "out", **options, target="kind")
    with pytest.raises(OutputExists):
        stream(str(source), tmp_path / "out", **{**options, "state": tmp_path / "new"})
    write_ndjson(source, rows(10))
    with pytest.raises(DataError):
        stream(str(source), tmp_path / "out", **options)
    content = (tmp_path / "st").read_bytes()
    (tmp_path / "st").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="damaged"):
        stream(str(source), tmp_path / "out", **options)


def test_too_few_records_write_nothing(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(2))
    with pytest.raises((PrivacyError, DataError)):
        stream(str(source), tmp_path / "out", state=tmp_path / "st", k=10)
    (tmp_path / "empty.ndjson").write_text("")
    with pytest.raises(DataError):
        stream(str(tmp_path / "empty.ndjson"), tmp_path / "out", state=tmp_path / "st")
    assert not (tmp_path / "st").exists()
    assert not (tmp_path / "out").exists()


def test_a_state_goes_on_with_its_own_kind_of_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(120))
    folder = tmp_path / "in"
    folder.mkdir()
    options = {**OPTIONS, "state": tmp_path / "st", "kind": "ndjson"}
    stream(str(source), tmp_path / "out", **options)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(source.read_bytes())))
    for other in (str(folder), "-", "nats://127.0.0.1:9/PEOPLE"):
        with pytest.raises(DataError):
            stream(other, tmp_path / "out", **options)
    StreamCondenser(k=4, random_state=0).fit(np.eye(60)).save(tmp_path / "own")
    with pytest.raises(DataError):
        stream(str(source), tmp_path / "o2", **{**options, "state": tmp_path / "own"})


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (b"\x1f\x8b\x08\x00 packed\n", "csv", "UTF-8"),
        (b"PK\x00\x00,b\n1,2\n", "csv", "UTF-8"),
        (b'{"a": 1, "b": 2}\n{"a": 2, "b": 3}\n', "csv", "NDJSON"),
        (b"a,b\n1,2\n3,4\n", "ndjson", "3 lines"),
        (b'a,"b\n1,2\n', "csv", "quotes"),
        (b"a,a\n1,2\n", "csv", "'a'"),
        (b"a,b\r1,2\r", "csv", "lone CR"),
        (b"1.5,2\n1.25,1\n3.5,4\n", "csv", "record"),
        (b'{"": 1}\n' * 30, "ndjson", "empty"),
        (b"", "csv", "header"),
        (b"a,b\n", "csv", "record"),
    ],
)
def test_the_wrong_file_is_told_from_a_stream(
    content: bytes, kind: str, words: str, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    source.write_bytes(content)
    with pytest.raises(DataError, match=words):
        stream(str(source), tmp_path / "out", state=tmp_path / "st", kind=kind)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] != ".") == ["in"]


def headed(path: Path, header: str, kinds: str) -> str:
    """A file of 100 records, with a number or a text in each column."""
    numbers = np.random.default_rng(0).uniform(10, 900, size=(100, len(kinds))).round(2)
    rows = [
        [str(value) if kind == "n" else "AB"[int(value > 400)] for value, kind in zip(row, kinds)]
        for row in numbers
    ]
    path.write_text("\n".join([header, *(",".join(row) for row in rows)]) + "\n")
    return str(path)


@pytest.mark.parametrize(("header", "kinds"), [("48,484.33,C", "nnt"), ("C,50,D", "tnt")])
def test_a_record_is_not_taken_for_the_header(tmp_path: Path, header: str, kinds: str) -> None:
    source = headed(tmp_path / "in.csv", header, kinds)
    with pytest.raises(DataError, match=r"in\.csv") as told:
        stream(source, tmp_path / "out", state=tmp_path / "st", k=4, init=60)
    assert not any(cell in str(told.value) for cell in ("48", "484", "50"))
    assert not (tmp_path / "st").exists()


@pytest.mark.parametrize("header", ["plan,2019,2020", "plan,7,cost"])
def test_a_column_may_be_named_by_a_number(tmp_path: Path, header: str) -> None:
    source = headed(tmp_path / "in.csv", header, "tnn")
    done = stream(source, tmp_path / "out", state=tmp_path / "st", k=4, init=60)
    assert done.summary["condensed"] == 100


def test_a_stream_of_nothing_but_malformed_lines_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tulle._commands._stream_intake._MOST_REFUSED", 50)
    source = tmp_path / "in.ndjson"
    source.write_bytes(b"{broken\n" * 1_000)
    monkeypatch.setattr(running, "BATCH", 20)
    with pytest.raises(DataError, match="0 records.*60 lines"):
        stream(str(source), tmp_path / "out", state=tmp_path / "st", follow=True)


def test_no_regular_file_is_taken_for_a_state_or_a_source(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(120))
    for state in (tmp_path, Path("/dev/full")):
        with pytest.raises((DataError, OSError)):
            stream(str(source), tmp_path / "out", **{**OPTIONS, "state": state})
    with pytest.raises(DataError):
        stream("/dev/null", tmp_path / "out", state=tmp_path / "st", kind="csv")


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = rows(300)
    source = write_ndjson(tmp_path / "in.ndjson", made)
    options = {**OPTIONS, "state": tmp_path / "st", "every": 100}
    room, written = 2, write_release

    def write(path: Path, *rest: Any, **more: Any) -> None:
        nonlocal room
        room -= 1
        if room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written(path, *rest, **more)

    monkeypatch.setattr("tulle._commands._stream_snapshots.write_release", write)
    with pytest.raises(TulleError, match=r"000003\.parquet"):
        stream(str(source), tmp_path / "out", **options)
    monkeypatch.undo()
    done = stream(str(source), tmp_path / "out", **options)
    assert (done.summary["seen"], done.summary["snapshots"]) == (300, 3)
    whole = stream(str(source), tmp_path / "o2", **{**options, "state": tmp_path / "st2"})
    assert done.summary["groups"] == whole.summary["groups"]
    for number in (1, 2, 3):
        name = f"snapshot-{number:06d}.parquet"
        assert digest(tmp_path / "out" / name) == digest(tmp_path / "o2" / name)


def test_a_snapshot_that_was_begun_is_finished_before_more_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one number would have two releases, and their difference a few newcomers."""
    made = rows(300)
    source = write_ndjson(tmp_path / "in.ndjson", made[:200])
    options = {**OPTIONS, "state": tmp_path / "st"}
    save = _Run._save

    def killed(run: _Run) -> None:
        if run.tally.snapshots:
            raise KeyboardInterrupt
        save(run)

    monkeypatch.setattr(_Run, "_save", killed)
    with pytest.raises(KeyboardInterrupt):
        stream(str(source), tmp_path / "out", **options)
    shown = digest(tmp_path / "out" / "snapshot-000001.parquet")
    monkeypatch.undo()
    write_ndjson(source, made[200:], "a")
    done = stream(str(source), tmp_path / "out", **options)
    assert [told["seen"] for told in done.tables["releases"]] == [200, 300]
    assert digest(tmp_path / "out" / "snapshot-000001.parquet") == shown


def test_snapshots_of_another_stream_are_not_replaced(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(120))
    first = {**OPTIONS, "state": tmp_path / "st"}
    second = {**OPTIONS, "state": tmp_path / "st2"}
    stream(str(source), tmp_path / "out", every=40, **first)
    stream(str(source), tmp_path / "out2", **second)
    write_ndjson(source, rows(160)[120:], "a")
    with pytest.raises(OutputExists):
        stream(str(source), tmp_path / "out", **second)
    assert stream(str(source), tmp_path / "out", **first).summary["snapshots"] == 4
    assert stream(str(source), tmp_path / "out", force=True, **second).summary["snapshots"] == 2


def test_force_replaces_what_an_earlier_stream_left(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(120))
    (tmp_path / "st.rejects.ndjson").write_text("{}\n")
    options = {**OPTIONS, "state": tmp_path / "st"}
    with pytest.raises(OutputExists):
        stream(str(source), tmp_path / "out", **options)
    stream(str(source), tmp_path / "out", force=True, **options)
    assert (tmp_path / "st.rejects.ndjson").read_text() == ""


def test_a_folder_does_not_read_what_its_stream_writes(tmp_path: Path) -> None:
    made = rows(120)
    write_ndjson(tmp_path / "1.ndjson", made)
    (tmp_path / "2.ndjson").write_text("{broken\n")
    options = {**OPTIONS, "state": tmp_path / "st"}
    for _ in range(3):
        done = stream(str(tmp_path), tmp_path, **options)
        assert (done.summary["seen"], done.summary["rejected"]) == (120, 1)


@pytest.mark.parametrize("init", [20, 110])  # the wrong ones come later, or among the initial ones
def test_numbers_that_no_release_may_hold_are_refused_wherever_they_come(
    init: int, tmp_path: Path
) -> None:
    made = rows(120)
    made[50]["age"], made[51]["income"], made[52]["level"] = 200, float("inf"), 0
    policy = '[columns.age]\nkind = "integer"\nrole = "quasi-identifier"\nbounds = [0, 120]\n'
    policy += '[columns.income]\nkind = "decimal"\nrole = "sensitive"\n'
    policy += '[columns.city]\nkind = "category"\nrole = "quasi-identifier"\n'
    policy += '[columns.level]\nkind = "integer"\nrole = "level"\n'
    policy += '[columns.kind]\nkind = "category"\nrole = "quasi-identifier"\n'
    (tmp_path / "policy.toml").write_text(policy)
    source = write_csv(tmp_path / "in.csv", made)
    options = {"state": tmp_path / "st", "policy": tmp_path / "policy.toml", "init": init}
    done = stream(str(source), tmp_path / "out", k=4, **options)
    assert (done.summary["seen"], done.summary["rejected"]) == (117, 3)
    told = (tmp_path / "st.rejects.ndjson").read_text().splitlines()
    assert [(json.loads(line)["line"], json.loads(line)["reason"]) for line in told] == [
        (52, "column 'age' is outside its public bounds"),
        (53, "column 'income' is infinite"),
        (54, "the level in column 'level' is below 1"),
    ]


def test_late_keys_are_counted_and_doubled_ones_refused(tmp_path: Path) -> None:
    made = rows(130)
    late = [{**row, "late": 1} for row in made[120:]]
    source = write_ndjson(tmp_path / "in.ndjson", [*made[:120], *late[:4]])
    options = {**OPTIONS, "state": tmp_path / "st"}
    assert stream(str(source), tmp_path / "out", **options).summary["surplus_keys"] == 4
    write_ndjson(source, late[4:], "a")
    with open(source, "a") as file:
        file.write(json.dumps(made[0])[:-1] + ', "age": 1}\n')
    done = stream(str(source), tmp_path / "out", **options)
    assert (done.summary["seen"], done.summary["surplus_keys"]) == (130, 10)
    assert any("10 records have keys" in note for note in done.notes)
    entry = json.loads((tmp_path / "st.rejects.ndjson").read_text())
    assert entry["reason"] == "a key occurs twice"


def test_a_packed_file_is_told_from_an_unknown_one(tmp_path: Path) -> None:
    (tmp_path / "in.csv.gz").write_bytes(b"")
    with pytest.raises(DataError, match=r"in\.csv\.gz"):
        stream(str(tmp_path / "in.csv.gz"), tmp_path / "out", state=tmp_path / "st")


def test_what_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    source = write_csv(tmp_path / "in.csv", rows(100))
    long = "s" * 252  # its lock has a longer name
    with pytest.raises(DataError, match=f"cannot write .*/{long}: File name too long"):
        stream(str(source), tmp_path / "out", state=tmp_path / long, **OPTIONS)
    monkeypatch.setattr("tulle._report.save", full)
    report = tmp_path / "r.json"
    with pytest.raises(TulleError, match=r"r\.json"):
        stream(str(source), tmp_path / "out", state=tmp_path / "st", report=report, **OPTIONS)
    assert (tmp_path / "out" / "snapshot-000001.parquet").exists()


def test_stopped_before_its_first_groups_a_stream_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_csv(tmp_path / "in.csv", rows(100))
    taken = Intake.take
    asked: list[int] = []

    def take_and_stop(intake: Intake, lines: Any) -> None:
        taken(intake, lines)
        asked.append(15)

    monkeypatch.setattr(Intake, "take", take_and_stop)
    monkeypatch.setattr(running, "asked_to_stop", lambda: nullcontext(asked))
    done = stream(str(source), tmp_path / "out", state=tmp_path / "st", init=1_000)
    (note,) = done.notes
    assert "100 of the first 1,000 records (--init)" in note
    assert not (tmp_path / "st").exists()


def test_ctrl_c_while_the_report_is_made_does_not_say_that_nothing_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_csv(tmp_path / "in.csv", rows(100))
    monkeypatch.setattr("tulle._report.save", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    done = stream(
        str(source), tmp_path / "out", state=tmp_path / "st", report=tmp_path / "r.json", **OPTIONS
    )
    assert done.summary["snapshots"] == 1
