"""``tulle stream`` from a real NATS JetStream server."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import numpy as np
import pytest
from nats.js.api import RetentionPolicy, StreamConfig

from tests.reference.killing import run_and_kill
from tulle.errors import DataError, TulleError
from tulle.workflows.stream import broker, stream
from tulle.workflows.stream.broker import NatsSource
from tulle.workflows.stream.lines import NO_LINES

OPTIONS: dict[str, Any] = {"k": 4, "init": 60, "levels": "level", "seed": 1}


class Server:
    """A NATS server with JetStream, on a free port of loopback and in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.program = shutil.which("nats-server")
        assert self.program, "nats-server is missing: run scripts/test-tools"
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        place = ["-sd", str(self.folder), "-a", "127.0.0.1", "-p", str(self.port)]
        self.process = subprocess.Popen(
            [str(self.program), "-js", *place],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "js")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def server(machine: Server) -> str:
    return machine.address


def publish(server: str, messages: list[bytes], **config: Any) -> None:
    async def work() -> None:
        connection = await nats.connect(server)
        streams = connection.jetstream()
        await streams.add_stream(StreamConfig(name="PEOPLE", subjects=["people.*"], **config))
        for message in messages:
            await streams.publish("people.new", message)
        await connection.close()

    asyncio.run(work())


def purge(server: str, sequence: int) -> None:
    async def work() -> None:
        connection = await nats.connect(server)
        await connection.jetstream().purge_stream("PEOPLE", seq=sequence)
        await connection.close()

    asyncio.run(work())


def delete(server: str) -> None:
    async def work() -> None:
        connection = await nats.connect(server)
        await connection.jetstream().delete_stream("PEOPLE")
        await connection.close()

    asyncio.run(work())


def messages(count: int) -> list[bytes]:
    rng = np.random.default_rng(0)
    made = [
        {"a": float(rng.normal()), "b": float(rng.normal()), "level": int(rng.integers(3, 7))}
        for _ in range(count)
    ]
    if count > 70:
        made[70]["level"] = 50  # waits, and is asked for again by its sequence
    return [json.dumps(row).encode() for row in made]


def test_messages_are_condensed_once_and_the_stream_goes_on(server: str, tmp_path: Path) -> None:
    sent = messages(250)
    publish(server, [*sent[:100], b"{broken"])
    address, options = f"{server}/PEOPLE", {**OPTIONS, "state": tmp_path / "st"}
    first = stream(address, tmp_path / "out", **options)
    assert (first.summary["seen"], first.summary["waiting"], first.summary["rejected"]) == (
        100,
        1,
        1,
    )
    publish(server, sent[100:])
    second = stream(f"{address}/people.new", tmp_path / "out", **options)
    assert (second.summary["seen"], second.summary["resumed_after"]) == (250, 100)
    entry = json.loads((tmp_path / "st.rejects.ndjson").read_text())
    assert entry == {"source": "PEOPLE", "line": 101, "reason": "not valid JSON"}
    (tmp_path / "in.ndjson").write_bytes(b"\n".join(sent))
    stream(str(tmp_path / "in.ndjson"), tmp_path / "out2", **{**options, "state": tmp_path / "st2"})
    with np.load(tmp_path / "st") as one, np.load(tmp_path / "st2") as two:
        for name in one.files:
            if ".groups." in name and not name.endswith("families"):
                np.testing.assert_array_equal(one[name], two[name])


def test_kills_lose_and_double_no_message(server: str, tmp_path: Path) -> None:
    publish(server, messages(600))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run_and_kill(whole, f"{server}/PEOPLE", 0, every=200)["status"] == 0
    told = run_and_kill(killed, f"{server}/PEOPLE", 3, every=200)
    assert told["status"] == 0
    assert told["kills"] >= 1
    with np.load(whole / "state") as expected, np.load(killed / "state") as found:
        assert expected["0.groups.counts"].sum() == 599  # one record waits
        for name in set(expected.files) - {"header.json"}:
            np.testing.assert_array_equal(expected[name], found[name])


def test_expired_messages_are_not_passed_over_in_silence(server: str, tmp_path: Path) -> None:
    sent = messages(200)
    publish(server, sent[:90])
    options = {**OPTIONS, "state": tmp_path / "st"}
    stream(f"{server}/PEOPLE", tmp_path / "out", **options)
    publish(server, sent[90:])
    purge(server, 120)
    with pytest.raises(DataError, match="29 messages of 'PEOPLE' expired"):
        stream(f"{server}/PEOPLE", tmp_path / "out", **options)
    options["levels"] = None  # nobody waits whose message is gone
    without = stream(f"{server}/PEOPLE", tmp_path / "o2", **{**options, "state": tmp_path / "st2"})
    assert without.summary["seen"] == 81


def test_messages_that_expire_while_a_stream_is_read_stop_it(server: str) -> None:
    publish(server, messages(60))
    source = NatsSource(f"{server}/PEOPLE", follow=False, position=None)
    try:
        assert len(source.read(20) or NO_LINES) == 20
        purge(server, 41)
        source._resubscribe()  # as after a pause that was too long
        with pytest.raises(DataError, match="20 messages of 'PEOPLE' expired"):
            source.read(20)
        assert source.position["sequence"] == 20
    finally:
        source.close()
    source = NatsSource(f"{server}/PEOPLE", follow=False, position=source.position, continued=True)
    try:
        assert list((source.read(50) or NO_LINES).numbers) == list(range(41, 61))
    finally:
        source.close()


def test_a_stream_that_was_created_anew_is_another(server: str, tmp_path: Path) -> None:
    options = {**OPTIONS, "levels": None, "state": tmp_path / "st"}
    publish(server, messages(100))
    stream(f"{server}/PEOPLE", tmp_path / "out", **options)
    delete(server)
    publish(server, messages(130))
    with pytest.raises(DataError, match="created anew"):
        stream(f"{server}/PEOPLE", tmp_path / "out", **options)
    done = stream(f"{server}/PEOPLE", tmp_path / "out", restart="continued", **options)
    assert done.summary["seen"] == 230


def test_what_cannot_be_read_exactly_once_is_refused(server: str, tmp_path: Path) -> None:
    options = {**OPTIONS, "state": tmp_path / "st"}
    with pytest.raises(DataError, match="no JetStream stream 'NONE'"):
        stream(f"{server}/NONE", tmp_path / "out", **options)
    publish(server, messages(3), retention=RetentionPolicy.WORK_QUEUE)
    with pytest.raises(DataError, match="keep them by limits"):
        stream(f"{server}/PEOPLE", tmp_path / "out", **options)
    with pytest.raises(TulleError, match="must be nats"):
        stream(server, tmp_path / "out", **options)
    with pytest.raises(DataError, match="cannot reach"):
        stream("nats://127.0.0.1:9/PEOPLE", tmp_path / "out", **options)


@pytest.mark.parametrize("path", ["", "/PEOPLE"])
def test_passwords_and_tokens_are_not_told(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "_ATTEMPTS", 0.1)
    for login in ("hunter2", "ann:hunter2"):
        with pytest.raises(TulleError, match=r"nats://127\.0\.0\.1:9") as told:
            stream(f"nats://{login}@127.0.0.1:9{path}", tmp_path / "out", state=tmp_path / "st")
        assert "hunter2" not in str(told.value)


def test_a_restarted_server_is_found_again(machine: Server) -> None:
    sent = messages(60)
    publish(machine.address, sent[:40])
    source = NatsSource(f"{machine.address}/PEOPLE", follow=True, position=None)
    try:
        texts = list((source.read(30) or NO_LINES).texts)
        machine.stop()
        machine.start()
        publish(machine.address, sent[40:])
        for _ in range(20):
            texts += (source.read(30) or NO_LINES).texts
            if len(texts) == 60:
                break
        assert texts == sent
        assert source.position["sequence"] == 60
    finally:
        source.close()


def test_a_server_that_went_away_needs_no_farewell(machine: Server) -> None:
    publish(machine.address, messages(40))
    source = NatsSource(f"{machine.address}/PEOPLE", follow=True, position=None)
    try:
        assert len(source.read(30) or NO_LINES) == 30
        machine.stop()
        source._wait(asyncio.sleep(0.2))  # the client notices
        with pytest.raises(nats.errors.TimeoutError):
            source._wait(source.subscription.fetch(1, timeout=0.2))
    finally:
        source.close()
    assert source.loop.is_closed()
