"""State files that somebody else wrote: every one is refused in one line, or is sound."""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import few
from tulle import StreamCondenser
from tulle._commands.stream import stream
from tulle.errors import DataError, TulleError
from tulle.stream import _saved
from tulle.stream._checkpoints import Checkpoint

STRANGE = [None, True, -1, 0, 2**70, 0.5, 1e308, float("nan"), "", "x", [], [1], {}, {"x": 1}]


@cache
def parts() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a state with classes, a snapshot and somebody who waits."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": rng.normal(size=300), "c": rng.choice(["a", "b"], size=300)})
    stream = StreamCondenser(k=5, classwise=True, random_state=0)
    stream.partial_fit(frame, rng.integers(2, size=300))
    stream.snapshot()
    stream.partial_fit(frame[:1], [1], levels=[200])
    return _saved.read_parts(io.BytesIO(saved(stream)))


def saved(stream: StreamCondenser) -> bytes:
    file = io.BytesIO()
    _saved.write_state(file, stream, None, plain=True)
    return file.getvalue()


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all values of a JSON document, those inside of others included."""
    found = [path]
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value[:3])
    for name, entry in items:
        found += leaves(entry, (*path, name))
    return found


def load(content: bytes) -> StreamCondenser:
    return _saved.load_state(StreamCondenser, io.BytesIO(content), key=None)[0]


def check(content: bytes) -> None:
    """A state is refused in one line, or goes on without an unexpected error."""
    try:
        stream = load(content)
        stream.snapshot()
        stream.partial_fit(pl.DataFrame({"x": [0.5], "c": ["a"]}), [1])
    except TulleError as error:
        message = str(error)
    else:
        message = ""
    assert "\n" not in message


@pytest.mark.slow
def test_a_sound_state_is_read() -> None:
    header, arrays = parts()
    assert load(_saved.to_bytes(header, arrays)).n_waiting_ == 1


@pytest.mark.slow
@few(10)
@given(
    st.integers(0, 10**9),
    st.sampled_from(["paper", "strict"]),
    st.lists(st.sampled_from(["records", "snapshot", "merge"]), max_size=6),
)
def test_every_state_of_a_stream_is_read(seed: int, split: str, steps: list[str]) -> None:
    """With groups shown behind which nobody is, for example: every step leads to a sound one."""
    rng = np.random.default_rng(seed)

    def more(count: int) -> dict[str, Any]:
        missing = np.where(rng.random(count) < 0.2, np.nan, rng.normal(size=count))
        frame = pl.DataFrame({"x": missing, "c": rng.choice(["a", "b"], size=count)})
        return {"X": frame, "y": rng.normal(size=count), "levels": rng.integers(1, 12, size=count)}

    stream, other = (
        StreamCondenser(k=3, split=split, init_size=60, random_state=seed).partial_fit(**more(100))
        for _ in range(2)
    )
    for step in steps:
        if step == "records":
            stream.partial_fit(**more(150))
        elif step == "snapshot":
            stream.snapshot()
        else:
            stream = stream.merge(other)
        loaded = load(saved(stream))
        np.testing.assert_array_equal(loaded.means_, stream.means_)
        assert loaded.n_waiting_ == stream.n_waiting_


@pytest.mark.slow
@given(st.integers(0, 10**9))
def test_a_crafted_header_is_refused_in_one_line(seed: int) -> None:
    dice = random.Random(seed)
    header = copy.deepcopy(parts()[0])
    *way, last = dice.choice([path for path in leaves(header) if path])
    place = header
    for name in way:
        place = place[name]
    if dice.random() < 0.2 and isinstance(place, dict):
        del place[last]
    else:
        place[last] = dice.choice(STRANGE)
    check(_saved.to_bytes(header, parts()[1]))


@pytest.mark.slow
@given(st.integers(0, 10**9))
def test_crafted_arrays_are_refused_in_one_line(seed: int) -> None:
    dice = random.Random(seed)
    arrays = dict(parts()[1])
    name = dice.choice(sorted(arrays))
    array = arrays[name].copy()
    change = dice.choice(["gone", "short", "flat", "type", "value"])
    if change == "gone":
        del arrays[name]
    elif change == "short":
        arrays[name] = array[:-1]
    elif change == "flat":
        arrays[name] = array.ravel()
    elif change == "type":
        arrays[name] = array.astype(np.float32)
    else:
        extremes = {"i": [-1, 2**62], "u": [0, 255]}.get(array.dtype.kind, [np.nan, np.inf, 1e200])
        array.flat[dice.randrange(array.size)] = dice.choice(extremes)
        arrays[name] = array
    check(_saved.to_bytes(parts()[0], arrays))


@pytest.mark.parametrize("name", ["header.json", "0.groups.counts.npy"])
def test_no_member_unfolds(name: str) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, bytes(50_000_000), zipfile.ZIP_DEFLATED)
    with pytest.raises(DataError):
        load(buffer.getvalue())


def test_an_array_is_as_long_as_it_says() -> None:
    header, arrays = parts()
    np.save(written := io.BytesIO(), arrays["location"])
    member = written.getvalue()
    for wrong in (member[:-8], member + bytes(8), member.replace(b",), }", b"0,), }")):
        buffer = io.BytesIO(_saved.to_bytes(header, {}))
        with zipfile.ZipFile(buffer, "a") as archive:
            archive.writestr("location.npy", wrong)
        with pytest.raises(DataError):
            _saved.read_parts(buffer)


def test_other_versions_and_deep_headers_are_refused() -> None:
    header, arrays = parts()
    with pytest.raises(DataError):
        load(_saved.to_bytes(header | {"version": 1}, arrays))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("header.json", "[" * 200_000)
    with pytest.raises(DataError):
        load(buffer.getvalue())


def test_names_that_are_no_part_of_a_state_are_not_taken() -> None:
    header, arrays = parts()
    stream = load(_saved.to_bytes(header | {"_drawn": "x", "sample": "x"}, arrays))
    assert callable(stream.sample)
    assert json.dumps(header)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["read", "snapshots", "reader", "owes_snapshot", "settings"])
def test_a_checkpoint_without_a_part_is_refused(tmp_path: Path, name: str) -> None:
    source = tmp_path / "in.ndjson"
    source.write_text("".join(json.dumps({"x": row % 7, "z": row}) + "\n" for row in range(60)))
    state = tmp_path / "state"
    stream(str(source), tmp_path / "out", state=state, k=3)
    header, arrays = _saved.read_parts(state)
    checkpoint = Checkpoint(state, key=None)
    checkpoint.read()
    extra = header["extra"]
    (extra if name in extra else extra["tally"])[name] = "x"
    state.write_bytes(_saved.to_bytes(header, arrays))
    with pytest.raises(DataError, match="damaged"):
        checkpoint.read()
