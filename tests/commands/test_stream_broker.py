"""``tulle stream`` from a real NATS JetStream server."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
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
from tulle._brokers import nats as broker
from tulle._brokers import nats as pulls
from tulle._brokers.nats import Consumer, NatsSource
from tulle._commands.stream import stream
from tulle.errors import DataError, TulleError
from tulle.stream._sources import BLOCK, LONGEST, NO_LINES

pytestmark = [pytest.mark.server, pytest.mark.slow]

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
            [str(self.program), "-js", *place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
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


def publish(server: str, messages: list[bytes], subject: str = "people.new", **config: Any) -> None:
    async def work() -> None:
        connection = await nats.connect(server)
        streams = connection.jetstream()
        await streams.add_stream(StreamConfig(name="PEOPLE", subjects=["people.*"], **config))
        for message in messages:
            await streams.publish(subject, message)
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
        for name in set(expected.files) - {"header.json", "private"}:  # never sealed alike
            np.testing.assert_array_equal(expected[name], found[name])


def test_expired_messages_are_not_passed_over_in_silence(server: str, tmp_path: Path) -> None:
    sent = messages(200)
    publish(server, sent[:90])
    options = {**OPTIONS, "state": tmp_path / "st"}
    stream(f"{server}/PEOPLE", tmp_path / "out", **options)
    publish(server, sent[90:])
    purge(server, 120)
    with pytest.raises(DataError, match="29 messages.*'PEOPLE'"):
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
        with pytest.raises(DataError, match="20 messages.*'PEOPLE'"):
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
    with pytest.raises(DataError):
        stream(f"{server}/PEOPLE", tmp_path / "out", **options)
    done = stream(f"{server}/PEOPLE", tmp_path / "out", restart="continued", **options)
    assert done.summary["seen"] == 230


def test_what_cannot_be_read_exactly_once_is_refused(server: str, tmp_path: Path) -> None:
    options = {**OPTIONS, "state": tmp_path / "st"}
    with pytest.raises(DataError, match="JetStream.*'NONE'"):
        stream(f"{server}/NONE", tmp_path / "out", **options)
    publish(server, [])
    with pytest.raises(DataError, match="'PEOPLE'"):
        stream(f"{server}/PEOPLE/places", tmp_path / "out", **options)
    delete(server)
    publish(server, messages(3), retention=RetentionPolicy.WORK_QUEUE)
    with pytest.raises(DataError):
        stream(f"{server}/PEOPLE", tmp_path / "out", **options)
    with pytest.raises(TulleError):
        stream(server, tmp_path / "out", **options)
    with pytest.raises(DataError):
        stream("nats://127.0.0.1:9/PEOPLE", tmp_path / "out", **options)


@pytest.mark.parametrize("path", ["", "/PEOPLE"])
def test_passwords_and_tokens_are_not_told(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "_ATTEMPTS", 0.1)
    for login in ("hunter2", "ann:hunter2"):
        with pytest.raises(TulleError, match=r"127\.0\.0\.1.*9") as told:
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
        with pytest.raises(TimeoutError):
            source._wait(asyncio.wait_for(source.streams.stream_info("PEOPLE"), 0.2))
    finally:
        source.close()
    assert source.loop.is_closed()


def read_all(source: NatsSource) -> list[bytes | None]:
    texts: list[bytes | None] = []
    while (lines := source.read(50_000)) is not None:
        assert sum(len(text or b"") for text in lines.texts) <= max(BLOCK, LONGEST)
        texts += lines.texts
    return texts


def large(count: int, size: int) -> list[bytes]:
    return [b"%d" % number + b"x" * size for number in range(count)]


def lose(monkeypatch: pytest.MonkeyPatch, lost: set[int]) -> None:
    """Messages of these numbers do not arrive the first time."""
    arrive = Consumer._arrive

    async def arrive_or_not(self: Consumer, message: Any) -> None:
        number = message.metadata.sequence.stream if message.reply else 0
        if number not in lost:
            await arrive(self, message)
        lost.discard(number)

    monkeypatch.setattr(Consumer, "_arrive", arrive_or_not)


@pytest.mark.parametrize("subject", ["", "/people.new"])
@pytest.mark.parametrize(("count", "size"), [(1_500, 20_000), (60, 900_000)])
def test_large_messages_are_read_once_in_bounded_memory(
    count: int, size: int, subject: str, server: str
) -> None:
    sent = large(count, size)
    publish(server, sent[: count // 2])
    if subject:
        publish(server, large(3, size), "people.old")
    publish(server, sent[count // 2 :])
    source = NatsSource(f"{server}/PEOPLE{subject}", follow=False, position=None)
    try:
        assert read_all(source) == sent
    finally:
        source.close()


def test_a_message_larger_than_a_block_is_read_alone(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulls, "BLOCK", 3_000)
    sent = [*large(4, 100), *large(1, 5_000), *large(40, 1_000)]
    publish(server, sent)
    source = NatsSource(f"{server}/PEOPLE", follow=False, position=None)
    try:
        assert read_all(source) == sent
    finally:
        source.close()


@pytest.mark.parametrize("subject", ["", "/people.new"])
@pytest.mark.parametrize("lost", [{1}, {40, 41, 90}, {100}, set(range(30, 101))])
def test_messages_that_did_not_arrive_are_read_again(
    lost: set[int], subject: str, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulls, "_PATIENCE", 0.1)
    monkeypatch.setattr(pulls, "_LONGEST", 0.3)
    sent = messages(100)
    publish(server, sent)
    lose(monkeypatch, lost)
    source = NatsSource(f"{server}/PEOPLE{subject}", follow=False, position=None)
    try:
        assert read_all(source) == sent
        assert source.position["sequence"] == 100
        assert not lost
    finally:
        source.close()


def test_a_last_message_that_did_not_arrive_is_read_again_while_we_follow(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulls, "_PATIENCE", 0.1)
    sent = messages(50)
    publish(server, sent)
    lose(monkeypatch, {50})
    source = NatsSource(f"{server}/PEOPLE", follow=True, position=None)
    try:
        texts: list[bytes | None] = []
        for _ in range(20):
            texts += (source.read(30) or NO_LINES).texts
        assert texts == sent
    finally:
        source.close()


def test_messages_before_expired_ones_are_counted_first(server: str) -> None:
    publish(server, messages(60))
    source = NatsSource(f"{server}/PEOPLE", follow=False, position=None)
    try:
        first = source._wait(source.consumer.pull(20, patient=False))
        purge(server, 41)
        rest = source._wait(source.consumer.pull(20, patient=False))
        assert list(source._take([*first, *rest]).numbers) == list(range(1, 21))
        with pytest.raises(DataError, match="20 messages.*'PEOPLE'"):
            source.read(20)
    finally:
        source.close()


def test_the_end_is_not_taken_for_read_when_it_expired(server: str) -> None:
    publish(server, messages(60))
    source = NatsSource(f"{server}/PEOPLE", follow=False, position=None)
    try:
        source.read(20)
        purge(server, 61)
        with pytest.raises(DataError, match="40 messages.*'PEOPLE'"):
            source.read(20)
    finally:
        source.close()


def test_a_stream_created_anew_while_it_is_read_stops_it(server: str) -> None:
    publish(server, messages(60))
    source = NatsSource(f"{server}/PEOPLE", follow=False, position=None)
    try:
        source.read(20)
        delete(server)
        publish(server, messages(60))
        with pytest.raises(DataError):
            source.read(20)
    finally:
        source.close()


def test_a_question_that_fails_loses_nothing(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = messages(60)
    publish(server, sent[:20])
    publish(server, sent[:1], "people.old")
    publish(server, sent[20:])
    source = NatsSource(f"{server}/PEOPLE/people.new", follow=False, position=None)
    monkeypatch.setattr(broker, "_PAUSE", 0.0)
    info = source._info
    failed: list[bool] = []

    def fail_once() -> Any:
        if failed:
            return info()
        failed.append(True)
        raise source._unanswered("once")

    monkeypatch.setattr(source, "_info", fail_once)
    try:
        assert read_all(source) == sent
        assert failed
    finally:
        source.close()


def test_a_server_that_does_not_answer_is_told_in_one_line(
    machine: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = messages(60)
    publish(machine.address, sent)
    source = NatsSource(f"{machine.address}/PEOPLE", follow=False, position=None)
    try:
        assert len(source.read(20)) == 20
        # from here on it is short of patience; not before, while the server is busy
        source.streams = source.connection.jetstream(timeout=0.1)
        source.consumer.streams = source.streams
        for module, name, value in (
            (broker, "_PAUSE", 0.0),
            (broker, "_FAILURES", 1),
            (pulls, "_PATIENCE", 0.1),
            (pulls, "_LONGEST", 0.2),
        ):
            monkeypatch.setattr(module, name, value)
        machine.process.send_signal(signal.SIGSTOP)
        os.waitpid(machine.process.pid, os.WUNTRACED)  # until it has stopped
        told = r"does not answer JetStream requests \(TimeoutError\).*No data was lost"
        for ask in (source._info, source._subscribe):
            with pytest.raises(DataError, match=told):
                ask()
        with pytest.raises(DataError, match=told):
            read_all(source)
        source.follow, source.failures = True, 0
        for _ in range(10):
            assert source.read(20) == NO_LINES
        machine.process.send_signal(signal.SIGCONT)
        found: list[bytes | None] = []
        for _ in range(600):  # however long the server takes to wake up
            found += source.read(20).texts
            if len(found) == 40:
                break
        assert found == sent[20:]
    finally:
        machine.process.send_signal(signal.SIGCONT)
        source.close()
