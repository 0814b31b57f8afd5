"""Records that wait are read again as they came, or the stream stops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.reference.streams import OPTIONS, rows, same_groups, write_ndjson
from tulle import SecretKey
from tulle._commands.stream import stream
from tulle.errors import DataError
from tulle.stream._checkpoints import Whereabouts

pytestmark = pytest.mark.slow

DIFFERENT = "a waiting record has changed in the source. Restore in"


def two_waiting() -> list[dict[str, Any]]:
    """One of the records that wait is among the initial ones, whose texts are let go."""
    made = rows(300)
    made[20]["level"] = 70
    return made


def edit(path: Path, line: int) -> None:
    """Changes one digit of one line, far before the place that was reached."""
    lines = path.read_text().splitlines(keepends=True)
    place = next(place for place, letter in enumerate(lines[line]) if letter.isdigit())
    digit = str(int(lines[line][place]) % 9 + 1)
    lines[line] = lines[line][:place] + digit + lines[line][place + 1 :]
    path.write_text("".join(lines))


def extra(state: Path) -> dict[str, Any]:
    with np.load(state) as arrays:
        found: dict[str, Any] = json.loads(arrays["header.json"])["extra"]["waiting"]
        return found


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize("waits", [20, 150])
def test_an_edited_record_that_waits_is_noticed(kind: str, waits: int, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    path = write_ndjson(folder / "1.ndjson", two_waiting())
    whole = path.read_bytes()
    source = str(path if kind == "file" else folder)
    options = {**OPTIONS, "state": tmp_path / "st"}
    assert stream(source, tmp_path / "out", **options).summary["waiting"] == 2
    assert stream(source, tmp_path / "out", **options).summary["waiting"] == 2
    edit(path, waits)
    assert len(path.read_bytes()) == len(whole)
    with pytest.raises(DataError, match="source"):
        stream(source, tmp_path / "out", **options)
    path.write_bytes(whole)
    assert stream(source, tmp_path / "out", **options).summary["waiting"] == 2


def test_an_edited_record_that_is_condensed_does_not_matter(tmp_path: Path) -> None:
    path = write_ndjson(tmp_path / "in.ndjson", two_waiting())
    options = {**OPTIONS, "state": tmp_path / "st"}
    stream(str(path), tmp_path / "out", **options)
    edit(path, 100)
    assert stream(str(path), tmp_path / "out", **options).summary["seen"] == 300


def test_states_without_checksums_are_read_and_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = two_waiting()
    path = write_ndjson(tmp_path / "in.ndjson", made[:200])
    options = {**OPTIONS, "state": tmp_path / "st"}
    saved = Whereabouts.to_json
    monkeypatch.setattr(Whereabouts, "to_json", lambda found, sealed: saved(found, sealed=True))
    stream(str(path), tmp_path / "out", **options)
    monkeypatch.undo()
    assert "waiting_checks" not in extra(tmp_path / "st")
    write_ndjson(path, made[200:], "a")
    assert stream(str(path), tmp_path / "out", **options).summary["waiting"] == 2
    assert set(extra(tmp_path / "st")["waiting_checks"]) == {"20", "150"}
    edit(path, 20)
    with pytest.raises(DataError, match=DIFFERENT):
        stream(str(path), tmp_path / "out", **options)


def test_checksums_differ_from_state_to_state_and_sealed_ones_are_not_kept(tmp_path: Path) -> None:
    path = write_ndjson(tmp_path / "in.ndjson", two_waiting())
    for name in ("st1", "st2"):
        stream(str(path), tmp_path / f"{name} out", state=tmp_path / name, **OPTIONS)
    one, other = (extra(tmp_path / name)["waiting_checks"] for name in ("st1", "st2"))
    assert one.keys() == other.keys()
    assert all(one[number] != other[number] for number in one)
    options = {**OPTIONS, "state": tmp_path / "st3", "key": SecretKey.generate()}
    stream(str(path), tmp_path / "out3", **options)
    assert not {"waiting_checks", "waiting_salt"} & extra(tmp_path / "st3").keys()
    assert stream(str(path), tmp_path / "out3", **options).summary["waiting"] == 2
    same_groups(tmp_path / "st1", tmp_path / "st3")
