"""What ``tulle stream`` tells in the end, and which files it may write over."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.reference.streams import OPTIONS, rows, write_csv, write_ndjson
from tulle._commands import stream as running
from tulle._commands._stream_intake import Intake
from tulle._commands.stream import stream
from tulle.errors import DataError, PrivacyError, TulleError

pytestmark = pytest.mark.slow


def test_columns_that_are_left_out_are_named(tmp_path: Path) -> None:
    made = [{**row, "ward": "x", "mrn": f"p{place}"} for place, row in enumerate(rows(120))]
    source = write_ndjson(tmp_path / "in.ndjson", made)
    done = stream(str(source), tmp_path / "out", state=tmp_path / "st", **OPTIONS)
    told = [note for note in done.notes if "--policy" in note]
    assert len(told) == 1
    assert "'ward', 'mrn'" in told[0]


def test_a_beginning_with_few_records_is_told(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(40))
    options = {**OPTIONS, "state": tmp_path / "st"}
    notes = stream(str(source), tmp_path / "out", **options).notes
    assert any("40 records, fewer than --init" in note for note in notes)
    assert not any(
        "fewer than --init" in n for n in stream(str(source), tmp_path / "out", **options).notes
    )


def test_the_report_is_renewed_by_a_stream_that_goes_on(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(120))
    options = {**OPTIONS, "state": tmp_path / "st", "report": tmp_path / "report.html"}
    stream(str(source), tmp_path / "out", **options)
    first = (tmp_path / "report.html").read_text()
    write_ndjson(source, rows(200, seed=1)[:60], "a")
    stream(str(source), tmp_path / "out", **options)
    assert (tmp_path / "report.html").read_text() != first
    with pytest.raises(TulleError, match="exists already"):
        stream(str(source), tmp_path / "out2", **{**options, "state": tmp_path / "st2"})


@pytest.mark.parametrize(
    ("state", "report", "told"),
    [
        ("same", "same", "--report.*--state"),
        ("out", None, "--state"),
        ("in.ndjson", None, "--state"),
        ("st", "in.ndjson", "--report"),
    ],
)
def test_one_name_for_two_files_is_refused(
    state: str, report: str | None, told: str, tmp_path: Path
) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(120))
    before = source.read_bytes()
    with pytest.raises(TulleError, match=told):
        stream(
            str(source),
            tmp_path / "out",
            state=tmp_path / state,
            report=None if report is None else tmp_path / report,
            force=True,
            **OPTIONS,
        )
    assert source.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["in.ndjson"]


def test_force_leaves_no_snapshot_of_the_other_stream(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(120))
    stream(str(source), tmp_path / "out", state=tmp_path / "one", every=30, **OPTIONS)
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 3
    other = {**OPTIONS, "state": tmp_path / "two"}
    stream(str(source), tmp_path / "out", force=True, **other)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "snapshot-000001.parquet",
        "snapshot-000001.parquet.manifest.json",
    ]
    stream(str(source), tmp_path / "out", **other)


def test_a_pipe_that_is_stopped_early_begins_with_what_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(json.dumps(record) + "\n" for record in rows(50))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    take = Intake.take

    def take_and_stop(intake: Any, lines: Any) -> None:
        take(intake, lines)
        stop.append(1)

    stop: list[int] = []
    monkeypatch.setattr(Intake, "take", take_and_stop)
    monkeypatch.setattr(running, "asked_to_stop", lambda: _Given(stop))
    options = {**OPTIONS, "state": tmp_path / "st", "kind": "ndjson"}
    assert stream("-", tmp_path / "out", **options).summary["seen"] == 50


class _Given:
    """A context that gives a value."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __enter__(self) -> Any:
        return self.value

    def __exit__(self, *_: object) -> None:
        pass


def test_a_closed_standard_input_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(DataError, match="standard input"):
        stream("-", tmp_path / "out", state=tmp_path / "st", kind="ndjson")


def test_too_few_records_say_why_and_what_to_do(tmp_path: Path) -> None:
    made = rows(80)
    for row in made:
        row["level"] = 500
    source = write_csv(tmp_path / "in.csv", made)
    with source.open("a") as file:
        file.write("broken\n")
    with pytest.raises(PrivacyError, match="--init.*1 line"):
        stream(str(source), tmp_path / "out", state=tmp_path / "st", **{**OPTIONS, "init": 1_000})
    assert not (tmp_path / "st").exists()


def test_a_manifest_claims_no_k_where_levels_rule(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(120))
    stream(str(source), tmp_path / "out", state=tmp_path / "st", **OPTIONS)
    manifest = (tmp_path / "out" / "snapshot-000001.parquet.manifest.json").read_text()
    assert "k" not in json.loads(manifest)["parameters"]


def test_a_k_beside_levels_is_told_to_do_nothing(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(120))
    for more, told in (({"k": 5}, True), ({"k": None}, False)):
        options = {**OPTIONS, **more, "levels": "level", "state": tmp_path / f"st{told}"}
        done = stream(str(source), tmp_path / f"out{told}", **options)
        assert any(note.startswith("k is not used: the levels in") for note in done.notes) is told
