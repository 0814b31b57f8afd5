from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tulle.errors import DataError, OutputExists, PrivacyError, TulleError
from tulle.releases import (
    Manifest,
    manifest_path,
    read_manifest,
    releasing,
    verify_release,
    write_release,
)
from tulle.releases import _on_disk as on_disk


def manifest(**changes: object) -> Manifest:
    entries = {
        "method": "test",
        "parameters": {"k": 3},
        "guarantee": {"k": 3},
        "verified": {"groups of at least 3": True},
    }
    return Manifest(**{**entries, **changes})  # type: ignore[arg-type]


def release(path: Path, content: bytes = b"data", **options: object) -> Manifest:
    return write_release(path, lambda file: file.write(content), manifest(), **options)  # type: ignore


def test_release_is_data_and_manifest_that_verify(tmp_path: Path) -> None:
    made = release(tmp_path / "r.bin")
    assert sorted(os.listdir(tmp_path)) == ["r.bin", "r.bin.manifest.json"]
    assert read_manifest(tmp_path / "r.bin") == made
    assert all(row["holds"] for row in verify_release(tmp_path / "r.bin"))
    assert made.output["file"] == "r.bin"
    assert set(made.versions) >= {"python", "tulle", "numpy"}


def test_changed_data_is_noticed(tmp_path: Path) -> None:
    release(tmp_path / "r.bin")
    (tmp_path / "r.bin").write_bytes(b"data!")
    assert not all(row["holds"] for row in verify_release(tmp_path / "r.bin"))


def test_no_guarantee_no_output(tmp_path: Path) -> None:
    with pytest.raises(PrivacyError):
        write_release(tmp_path / "r", lambda file: None, manifest(verified={}))
    assert os.listdir(tmp_path) == []


def test_data_come_first_then_what_the_manifest_says_of_them(tmp_path: Path) -> None:
    with releasing(tmp_path / "r") as draft:
        written = draft.file.write(b"data")
        assert not (tmp_path / "r").exists()
        draft.finish(manifest(counts={"bytes": written}))
    assert read_manifest(tmp_path / "r") == draft.manifest
    assert read_manifest(tmp_path / "r").counts == {"bytes": 4}


def test_data_that_are_refused_when_they_are_complete_leave_nothing(tmp_path: Path) -> None:
    for verified in ({}, {"groups of at least 3": False}):
        with pytest.raises(PrivacyError), releasing(tmp_path / "r") as draft:
            draft.file.write(b"data")
            draft.finish(manifest(verified=verified))
    with pytest.raises(AssertionError), releasing(tmp_path / "r"):
        pass  # never finished
    assert os.listdir(tmp_path) == []


def test_failing_writer_leaves_the_old_release(tmp_path: Path) -> None:
    release(tmp_path / "r")
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}

    def fail(file: object) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_release(tmp_path / "r", fail, manifest(), force=True)
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before


def test_overwriting_needs_force_and_never_takes_the_source(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"people")
    with pytest.raises(TulleError, match="source"):
        release(source, sources=(source,), force=True)
    release(tmp_path / "r", sources=(source,))
    with pytest.raises(OutputExists, match="--force"):
        release(tmp_path / "r")
    release(tmp_path / "r", b"new", force=True)
    assert (tmp_path / "r").read_bytes() == b"new"
    assert source.read_bytes() == b"people"


def test_manifest_errors_are_clear(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        verify_release(tmp_path / "r")
    manifest_path(tmp_path / "r").write_text("{")
    with pytest.raises(DataError, match="manifest"):
        verify_release(tmp_path / "r")
    newer = manifest().to_dict() | {"format": 99}
    manifest_path(tmp_path / "r").write_text(json.dumps(newer))
    with pytest.raises(DataError, match="format 99"):
        verify_release(tmp_path / "r")


CHILD = """
import os, signal, sys
from tulle.releases import (Manifest, write_release)

def crash_at(point):
    calls = 0
    def wrap(function):
        def counted(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls == point:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)
        return counted
    for name in ("open", "link", "replace", "unlink", "fsync"):
        setattr(os, name, wrap(getattr(os, name)))

path, content, point = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3])
made = Manifest("test", {}, {"k": 3}, {"groups of at least 3": True}, counts={"size": len(content)})
write_release(path, lambda file: file.write(b"old" * 100_000), made, force=True)
print("ready", flush=True)
if point:
    crash_at(point)
while True:
    write_release(path, lambda file: file.write(content * 100_000), made, force=True)
    if point:
        break
"""


def run_child(folder: Path, point: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder / "r"), "new", str(point)], stdout=subprocess.PIPE
    )


def assert_old_or_new(folder: Path) -> str:
    assert all(row["holds"] for row in verify_release(folder / "r"))
    assert sorted(os.listdir(folder)) == ["r", "r.manifest.json"]
    content = (folder / "r").read_bytes()
    assert content in (b"old" * 100_000, b"new" * 100_000)
    return content[:3].decode()


@pytest.mark.slow
def test_crash_at_each_step_leaves_the_old_release_or_the_new(tmp_path: Path) -> None:
    states = []
    for point in range(1, 40):
        folder = tmp_path / str(point)
        folder.mkdir()
        child = run_child(folder, point)
        child.communicate()
        states.append(assert_old_or_new(folder))
        if child.returncode == 0:
            break
    else:
        pytest.fail("the child never came to its end")
    assert states[0] == "old"
    assert states[-1] == "new"
    assert states == sorted(states, reverse=True), "old, then new, and never back"


@pytest.mark.slow
def test_kills_at_random_moments_leave_the_old_release_or_the_new(tmp_path: Path) -> None:
    moments = random.Random(0)
    for _ in range(6):
        child = run_child(tmp_path, 0)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(moments.random() * 0.05)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        assert_old_or_new(tmp_path)


@pytest.mark.parametrize(
    "verified",
    [
        {"holds": np.False_},
        {"holds": None},
        {"error": float("nan")},
        {"each level": [{"holds": True}, {"holds": False}]},
        {"in a class": {"holds": 0 > 1}},
    ],
)
def test_what_did_not_hold_in_any_form_is_no_guarantee(
    tmp_path: Path, verified: dict[str, object]
) -> None:
    with pytest.raises(PrivacyError):
        write_release(tmp_path / "r", lambda file: None, manifest(verified=verified))
    assert os.listdir(tmp_path) == []


def test_a_manifest_is_strict_json(tmp_path: Path) -> None:
    made = manifest(counts={"loss": float("nan"), "k": np.int64(3), "far": np.array([np.inf, 1])})
    write_release(tmp_path / "r", lambda file: None, made)
    read = json.loads(manifest_path(tmp_path / "r").read_text(), parse_constant=pytest.fail)
    assert read["counts"] == {"loss": None, "k": 3, "far": [None, 1.0]}


@pytest.mark.parametrize(
    "entries",
    [{"format": "1"}, {"format": None}, {"verified": 5}, {"verified": []}, {"output": None}],
)
def test_a_damaged_manifest_gets_a_clear_word(tmp_path: Path, entries: dict[str, object]) -> None:
    release(tmp_path / "r")
    beside = manifest_path(tmp_path / "r")
    beside.write_text(json.dumps(json.loads(beside.read_text()) | entries))
    with pytest.raises(DataError, match="manifest"):
        verify_release(tmp_path / "r")


@pytest.mark.parametrize("name", [".", "/", ""])
def test_a_folder_is_no_release(name: str) -> None:
    with pytest.raises(DataError):
        verify_release(name)


@pytest.mark.slow
def test_a_reader_waits_for_the_run_that_is_between_its_two_steps(tmp_path: Path) -> None:
    release(tmp_path / "r", b"old")
    replace, seen = os.replace, []
    reader = threading.Thread(target=lambda: seen.extend(verify_release(tmp_path / "r")))

    def slowly(source: str, target: str) -> None:
        if str(target).endswith(".manifest.json"):  # the data have their name, the manifest not
            reader.start()
            reader.join(0.2)
        replace(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", slowly)
        release(tmp_path / "r", b"new", force=True)
    reader.join()
    assert [row["holds"] for row in seen] == [True, True]
    assert all(row["holds"] for row in verify_release(tmp_path / "r"))


def test_a_release_that_is_replaced_meanwhile_is_looked_at_again(tmp_path: Path) -> None:
    release(tmp_path / "r", b"old")
    digest, fresh = on_disk.digest, [b"new"]

    def after_a_new_release(path: Path) -> str:
        if fresh:
            release(tmp_path / "r", fresh.pop(), force=True)
        return digest(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(on_disk, "digest", after_a_new_release)
        assert all(row["holds"] for row in verify_release(tmp_path / "r"))
