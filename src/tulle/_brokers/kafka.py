"""Records from Kafka: one message, one record.

The position is the next offset of each partition, kept in our own checkpoint and committed to
nobody: exactly-once does not depend on a consumer group. What expires before it was read, and a
topic that was recreated, are noticed and reported.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tulle._plurals import counted
from tulle.errors import DataError, TulleError, missing_extra
from tulle.io._formats import display_name
from tulle.io._text import TOO_LONG
from tulle.stream._sources import BLOCK, LONGEST, NO_LINES, PAUSE, Lines, Position

_ANSWER = 10.0  # seconds for the answer to a question, or for messages that are there
_AT_ONCE = 100  # messages
_SETTINGS = "TULLE_KAFKA_CONFIG"  # the environment variable with the file of client settings


class KafkaSource:
    """All partitions of a topic: ``kafka://host:port/topic``, several hosts with commas.

    Settings of the client (TLS, passwords) come from the file that ``TULLE_KAFKA_CONFIG`` names:
    lines ``security.protocol=SSL``, as the tools of Kafka have them.
    """

    kind = "Kafka"

    def __init__(
        self, address: str, *, follow: bool, position: Position | None, continued: bool = False
    ) -> None:
        try:
            from confluent_kafka import Consumer, KafkaException
        except ImportError:
            raise missing_extra("confluent-kafka", "kafka", "reading from Kafka") from None
        parts = urlsplit(address)
        self.name = parts.path.strip("/")
        if not parts.netloc or not self.name or "/" in self.name:
            raise TulleError(f"{display_name(address)} must be kafka://host:port/topic")
        self.follow = follow
        self.consumer: Any = Consumer(
            _settings()
            | {
                "bootstrap.servers": parts.netloc,
                "group.id": "tulle",  # which the client wants, and which holds nothing of ours
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "queued.max.messages.kbytes": BLOCK >> 10,
                "log_level": 0,
            }
        )
        self.heard = time.monotonic()
        try:
            self.ends = self._ends()
            self.offsets = self._start(position, continued=continued)
            self._assign(self.offsets)
        except KafkaException as error:
            self.close()
            raise self._unanswered(error) from None
        except DataError:
            self.close()
            raise
        self.ended = {part for part, end in self.ends.items() if self.offsets[part] >= end}

    @property
    def position(self) -> Position:
        return {"offsets": {str(part): offset for part, offset in self.offsets.items()}}

    @staticmethod
    def place(position: Position) -> str:
        read = sum(position["offsets"].values())
        return f"Kafka, {len(position['offsets'])} partitions, up to {read:,} offsets in all"

    def read(self, most: int) -> Lines | None:
        texts: list[bytes | None] = []
        numbers: list[int] = []
        origins: list[str] = []
        size = 0
        while len(texts) < most and size < BLOCK:
            found = self.consumer.consume(min(most - len(texts), _AT_ONCE), timeout=PAUSE)
            for message in found:
                text = self._taken(message)
                if text is not None:
                    texts.append(text[0])
                    numbers.append(message.offset())
                    origins.append(f"{self.name}/{message.partition()}")
                    size += len(text[0] or b"")
            if not found or len(self.ended) == len(self.offsets):
                break
        if texts:
            long = {at: TOO_LONG for at, text in enumerate(texts) if text is None}
            return Lines(texts, numbers, origins, long)
        if self.follow:
            return NO_LINES
        if len(self.ended) == len(self.offsets):
            return None
        if time.monotonic() - self.heard > _ANSWER:
            raise self._unanswered(None)
        return NO_LINES

    def header(self) -> bytes | None:
        return None

    def notes(self) -> list[str]:
        return []

    def close(self) -> None:
        self.consumer.close()

    def _taken(self, message: Any) -> tuple[bytes | None] | None:
        """Note how far a message leads; return its text, or None for an event that has none."""
        from confluent_kafka import KafkaError

        error = message.error()
        if error is None:
            self.heard = time.monotonic()
            self.offsets[message.partition()] = message.offset() + 1
            if self.offsets[message.partition()] >= self.ends[message.partition()]:
                self.ended.add(message.partition())
            content = message.value() or b""  # nothing: a mark that a key was deleted
            return (content if len(content) <= LONGEST else None,)
        if error.code() == KafkaError._PARTITION_EOF:
            self.heard = time.monotonic()
            self.ended.add(message.partition())
        elif error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
            raise self._expired(1)
        elif error.fatal() or not error.retriable():
            raise self._unanswered(error)
        return None

    def _ends(self) -> dict[int, int]:
        topic = self.consumer.list_topics(self.name, timeout=_ANSWER).topics.get(self.name)
        if topic is None or topic.error is not None or not topic.partitions:
            raise DataError(f"topic '{self.name}' does not exist on this broker")
        return {part: self._watermarks(part)[1] for part in sorted(topic.partitions)}

    def _watermarks(self, part: int) -> tuple[int, int]:
        from confluent_kafka import TopicPartition

        place = TopicPartition(self.name, part)
        low, high = self.consumer.get_watermark_offsets(place, timeout=_ANSWER)
        return int(low), int(high)

    def _start(self, position: Position | None, *, continued: bool) -> dict[int, int]:
        """Return where to resume in each partition, if this is the topic that was read before."""
        known = {} if position is None else {int(n): at for n, at in position["offsets"].items()}
        offsets = {}
        lost = 0
        for part, end in self.ends.items():
            low = self._watermarks(part)[0]
            offset = known.get(part, low)
            if offset > end or not known.keys() <= self.ends.keys():
                if not continued:
                    raise DataError(
                        f"'{self.name}' is not the topic that this state has read, or was "
                        "recreated. If it continues where that one ended, pass --restart continued"
                    )
                offset = low
            lost += max(0, low - offset)
            offsets[part] = max(low, offset)
        if lost and not continued:
            raise self._expired(lost)
        return offsets

    def _assign(self, offsets: dict[int, int]) -> None:
        from confluent_kafka import TopicPartition

        self.consumer.assign([TopicPartition(self.name, p, at) for p, at in offsets.items()])

    def _expired(self, lost: int) -> DataError:
        return DataError(
            f"{counted(lost, 'message')} of '{self.name}' or more expired on the broker unread: "
            "restore the topic, or pass --restart continued to resume without them"
        )

    def _unanswered(self, error: Any) -> DataError:
        why = "no messages came" if error is None else type(error).__name__
        return DataError(
            f"the broker of '{self.name}' does not answer ({why}). No data was lost: run the same "
            "command again to resume"
        )


def _settings() -> dict[str, str]:
    name = os.environ.get(_SETTINGS)
    if not name:
        return {}
    try:
        lines = Path(name).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise TulleError(f"{_SETTINGS} names {name}, which cannot be read") from None
    pairs = [line.partition("=") for line in lines if line.strip() and not line.startswith("#")]
    return {key.strip(): value.strip() for key, _, value in pairs}
