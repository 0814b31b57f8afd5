"""``tulle stream`` from Kafka: the broker is the mock one that the client library brings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Producer

from tests.reference.killing import run_and_kill
from tests.reference.streams import same_groups
from tulle._brokers import kafka as _kafka
from tulle._brokers.kafka import KafkaSource
from tulle._commands.stream import status, stream
from tulle.errors import DataError, TulleError

pytestmark = [pytest.mark.server, pytest.mark.slow]

OPTIONS: dict[str, Any] = {"k": 4, "init": 60, "levels": "level", "seed": 1}


class Broker:
    """A mock broker, which lives as long as the producer whose process it is in."""

    def __init__(self) -> None:
        self.producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
        broker = next(iter(self.producer.list_topics(timeout=10).brokers.values()))
        self.address = f"kafka://{broker.host}:{broker.port}"

    def send(self, topic: str, messages: list[bytes], partition: int = 0) -> None:
        for message in messages:
            self.producer.produce(topic, message, partition=partition)
        assert self.producer.flush(30) == 0


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.producer.flush(1)


def messages(count: int, seed: int = 0) -> list[bytes]:
    rng = np.random.default_rng(seed)
    made = [
        {"a": float(rng.normal()), "b": float(rng.normal()), "level": int(rng.integers(3, 7))}
        for _ in range(count)
    ]
    if count > 70:
        made[70]["level"] = 50  # waits, and is read again by its offset
    return [json.dumps(row).encode() for row in made]


def test_messages_are_counted_once_across_runs(broker: Broker, tmp_path: Path) -> None:
    sent = messages(200)
    broker.send("visits", [*sent[:120], b"{broken"])
    address, options = f"{broker.address}/visits", {**OPTIONS, "state": tmp_path / "st"}
    first = stream(address, tmp_path / "out", **options)
    assert (first.summary["seen"], first.summary["waiting"]) == (120, 1)
    assert first.summary["rejected"] == 1
    listed = json.loads((tmp_path / "st.rejects.ndjson").read_text())
    assert (listed["source"], listed["line"]) == ("visits/0", 120)
    broker.send("visits", sent[120:])
    second = stream(address, tmp_path / "out", **options)
    assert (second.summary["seen"], second.summary["resumed_after"]) == (200, 120)
    assert status(tmp_path / "st")["source"].startswith("Kafka")
    lines = tmp_path / "v.ndjson"
    lines.write_bytes(b"\n".join(sent) + b"\n")
    stream(str(lines), tmp_path / "o2", **{**options, "state": tmp_path / "st2"})
    same_groups(tmp_path / "st", tmp_path / "st2")


def test_every_partition_is_read_to_its_end(broker: Broker, tmp_path: Path) -> None:
    sent = messages(200)
    for partition in range(3):
        broker.send("parts", sent[partition::3], partition)
    address, options = f"{broker.address}/parts", {**OPTIONS, "state": tmp_path / "st"}
    assert stream(address, tmp_path / "out", **options).summary["seen"] == 200
    broker.send("parts", messages(10, 5), 2)
    assert stream(address, tmp_path / "out", **options).summary["seen"] == 210
    assert stream(address, tmp_path / "out", **options).summary["seen"] == 210


def test_long_and_empty_messages(broker: Broker) -> None:
    broker.send("odd", [b"{}", b"", b"x" * 900_000])
    source = KafkaSource(f"{broker.address}/odd", follow=False, position=None)
    texts: list[bytes | None] = []
    while (lines := source.read(2)) is not None:
        texts += lines.texts
    source.close()
    assert [None if text is None else len(text) for text in texts] == [2, 0, 900_000]


def test_another_topic_and_expired_messages_are_noticed(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.send("visits", messages(120))
    address, options = f"{broker.address}/visits", {**OPTIONS, "state": tmp_path / "st"}
    stream(address, tmp_path / "out", **options)
    monkeypatch.setattr(KafkaSource, "_watermarks", lambda self, part: (0, 50))
    with pytest.raises(DataError, match="--restart continued"):
        stream(address, tmp_path / "out", **options)
    monkeypatch.setattr(KafkaSource, "_watermarks", lambda self, part: (125, 130))
    with pytest.raises(DataError, match="expired"):
        stream(address, tmp_path / "out", **options)


def test_addresses_brokers_and_topics_that_are_not_there(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wrong in ("kafka://", "kafka://host:1", "kafka://host:1/a/b"):
        with pytest.raises(TulleError, match="kafka://host:port/topic"):
            KafkaSource(wrong, follow=False, position=None)
    monkeypatch.setattr(_kafka, "_ANSWER", 0.5)
    with pytest.raises(DataError, match="No data was lost"):
        KafkaSource("kafka://127.0.0.1:9/topic", follow=False, position=None)
    monkeypatch.setenv("TULLE_KAFKA_CONFIG", str(tmp_path / "none"))
    with pytest.raises(TulleError, match="TULLE_KAFKA_CONFIG"):
        KafkaSource(f"{broker.address}/visits", follow=False, position=None)
    (tmp_path / "set").write_text("# of the client\nclient.id = tulle\n")
    monkeypatch.setenv("TULLE_KAFKA_CONFIG", str(tmp_path / "set"))
    assert _kafka._settings() == {"client.id": "tulle"}


def test_a_state_of_another_kind_of_source_is_refused(broker: Broker, tmp_path: Path) -> None:
    broker.send("visits", messages(120))
    (tmp_path / "v.ndjson").write_bytes(b"\n".join(messages(120)) + b"\n")
    options = {**OPTIONS, "state": tmp_path / "st"}
    stream(str(tmp_path / "v.ndjson"), tmp_path / "out", **options)
    with pytest.raises(DataError, match="a file"):
        stream(f"{broker.address}/visits", tmp_path / "out", **options)


def test_kills_lose_no_message_and_count_none_twice(broker: Broker, tmp_path: Path) -> None:
    broker.send("visits", messages(600))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run_and_kill(whole, f"{broker.address}/visits", 0, every=200)["status"] == 0
    told = run_and_kill(killed, f"{broker.address}/visits", 3, every=200)
    assert told["status"] == 0
    same_groups(whole / "state", killed / "state")
    assert status(killed / "state")["seen"] == 600
