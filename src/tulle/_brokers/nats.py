"""Records from NATS JetStream: one message, one record.

The position is the sequence number that the server gives each message, kept in our own checkpoint:
exactly-once does not depend on acknowledgements. Only messages that follow each other without a gap
are taken; what was sent and did not arrive is asked for again. The stream must keep its messages by
limits, not delete them once read; what expires before it was read is noticed and
reported.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from tulle._plurals import counted
from tulle.errors import DataError, TulleError, missing_extra
from tulle.io._formats import display_name
from tulle.io._text import TOO_LONG
from tulle.stream._sources import BLOCK, LONGEST, NO_LINES, Lines, Position

# Messages pulled from a NATS JetStream server, a block of bytes at a time. The client's own
# ``fetch`` is bounded by number alone, so that large messages overrun its memory or the server's,
# and either drops what is too much. These pulls are bounded by bytes; still neither side promises
# that what was sent arrives, and the receiver has to look for gaps.

_PATIENCE = 1.0  # seconds that a pull waits for new messages, or for more of those that come
_LONGEST = 20.0  # seconds that a pull may bring nothing: a large message on a slow line


class Consumer:
    """The server's record of our position, and the inbox for what we pull."""

    def __init__(self, connection: Any, streams: Any, stream: str, ended: asyncio.Event) -> None:
        self.connection = connection
        self.streams = streams
        self.stream = stream
        self.name = ""  # until the server has given one
        self.waiting = 0  # messages that there were to read when we began
        self.taken = 0  # messages in a row that the reader has accepted, by the server's count
        self.arrived: list[Any] = []
        self._pulls = 0
        self._batch = 0
        self._status: str | None = None  # of the latest pull, if the server told
        self._until = 0.0
        self._ended = ended
        self._ended.set()

    async def begin(self, start: int, subject: str | None) -> None:
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        self._inbox = self.connection.new_inbox()
        config = ConsumerConfig(
            ack_policy=AckPolicy.NONE,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=start,
            filter_subject=subject,
            inactive_threshold=300.0,
        )
        made = await self.streams.add_consumer(self.stream, config)
        self._subscription = await self.connection.subscribe(f"{self._inbox}.*", cb=self._arrive)
        self.name, self.waiting = made.name, made.num_pending

    async def end(self) -> None:
        if self.name:
            await self._subscription.unsubscribe()
            await self.streams.delete_consumer(self.stream, self.name)

    async def pull(self, most: int, *, patient: bool) -> list[Any]:
        """Return the next messages as they arrived, at most a block unless a single one is larger.

        None of them, if there are none (a ``patient`` pull waits a while for the first), if the
        server lost the pull, or if the line is slow: then the next call continues to listen.
        """
        if not self._ended.is_set() and time.monotonic() < self._until:
            await self._listen()
        elif not self.arrived:
            await self._ask(batch=most, max_bytes=BLOCK, no_wait=True)
        if not self.arrived and self._status == "409":  # a message larger than a block
            await self._ask(batch=1, no_wait=True)
        if not self.arrived and self._status == "404" and patient:  # there is nothing yet
            await self._ask(batch=1, expires=int(0.9e9 * _PATIENCE))
        messages, self.arrived = self.arrived[:most], self.arrived[most:]
        return messages

    async def _ask(self, **request: Any) -> None:
        from nats.js.api import DEFAULT_PREFIX

        self._pulls, self._batch, self._status = self._pulls + 1, request["batch"], None
        self._until = time.monotonic() + _LONGEST
        self._ended.clear()
        await self.connection.publish(
            f"{DEFAULT_PREFIX}.CONSUMER.MSG.NEXT.{self.stream}.{self.name}",
            json.dumps(request).encode(),
            reply=f"{self._inbox}.{self._pulls}",
        )
        await self._listen()

    async def _listen(self) -> None:
        """Wait until the pull ends; silence after some messages counts as its end."""
        before = -1
        while not self._ended.is_set() and len(self.arrived) > before:
            before = len(self.arrived)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _PATIENCE)
        if self.arrived:
            self._ended.set()

    async def _arrive(self, message: Any) -> None:
        if not message.reply:  # no message of the stream, but the end of a pull
            if message.subject == f"{self._inbox}.{self._pulls}":
                self._status = (message.headers or {}).get("Status")
                self._ended.set()
            return
        self.arrived.append(message)
        if len(self.arrived) >= self._batch or message.metadata.num_pending == 0:
            self._ended.set()


_ATTEMPTS = 5.0  # seconds until a server counts as unreachable
_ANSWER = 5.0  # seconds for the answer to a request other than a pull
_PAUSE = 1.0  # seconds until a question that was not answered is asked again
_FAILURES = 5  # times in a row that nothing may come of asking, unless we follow the stream
_BATCH = 5_000  # messages of a pull


class _Unanswered(DataError):
    """The server does not answer, which may pass."""


class _Missing(DataError):
    """The server answers that the stream or consumer does not exist."""


class NatsSource:
    """A stream (or one subject of it): ``nats://host:port/STREAM`` or ``.../STREAM/subject``."""

    kind = "NATS"

    def __init__(
        self, address: str, *, follow: bool, position: Position | None, continued: bool = False
    ) -> None:
        try:
            import nats
        except ImportError:
            raise missing_extra("nats-py", "broker", "reading from NATS") from None
        parts = urlsplit(address)
        names = [name for name in parts.path.split("/") if name]
        if not names or len(names) > 2 or not parts.hostname:
            raise TulleError(
                f"{display_name(address)} must be nats://host:port/STREAM or .../STREAM/subject"
            )
        self.name = names[0]
        self.subject = names[1] if len(names) > 1 else None
        self.follow = follow
        self.sequence = 0
        self.failures = 0
        self.astray = False  # whether a message did not arrive, so that we must begin again
        self.ended = asyncio.Event()  # the latest pull
        self.loop = asyncio.new_event_loop()
        server = f"{parts.scheme}://{parts.netloc}"
        try:
            # once connected, the client reconnects for ever; the first time it must succeed soon
            first = nats.connect(
                server,
                max_reconnect_attempts=-1,
                error_cb=_quiet,
                disconnected_cb=self._interrupt,
                reconnected_cb=self._interrupt,
            )
            self.connection: Any = self._wait(asyncio.wait_for(first, _ATTEMPTS))
        except (OSError, TimeoutError, nats.errors.Error) as error:
            self.loop.close()
            raise DataError(
                f"cannot reach {display_name(server)}: {type(error).__name__}"
            ) from None
        self.streams = self.connection.jetstream(timeout=_ANSWER)
        try:
            self._begin(position, continued=continued)
            self._subscribe()
        except DataError:
            self.close()
            raise

    @property
    def position(self) -> Position:
        return {"sequence": self.sequence, "created": self.created}

    @staticmethod
    def place(position: Position) -> str:
        return f"NATS, up to message {position['sequence']:,}"

    def read(self, most: int) -> Lines | None:
        try:
            if self.astray:
                self._resubscribe()
            messages = self._ask(self.consumer.pull(min(most, _BATCH), patient=self.follow))
            if not messages and not self._more_to_come():
                return None
            found = self._take(messages)
        except _Unanswered as problem:
            self._fail(problem)
            self._wait(asyncio.sleep(_PAUSE))  # the client is connecting again meanwhile
            return NO_LINES
        if len(found):
            self.failures = 0
        elif not self.follow:
            self._fail(self._unanswered("messages it holds did not arrive"))
        return found

    def header(self) -> bytes | None:
        return None

    def notes(self) -> list[str]:
        return []

    def close(self) -> None:
        import nats

        if not self.connection.is_closed:
            # a server that is gone hears no farewell; from Python 3.12 on that is a TypeError
            with suppress(OSError, TypeError, nats.errors.Error):
                self._wait(self.connection.close())
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        self._wait(asyncio.wait(left) if left else asyncio.sleep(0))
        self.loop.close()

    def _take(self, messages: Sequence[Any]) -> Lines:
        """Return the messages up to the first gap; those after it are read again."""
        taken, latest, hole = self.consumer.taken, self.sequence, None
        texts: list[bytes | None] = []
        numbers: list[int] = []
        for message in messages:
            place = message.metadata.sequence
            if place.consumer != taken + 1 or place.stream <= latest:
                self.astray = True
                break
            if hole is None and latest and place.stream > latest + 1:
                hole = len(numbers)
            taken, latest = place.consumer, place.stream
            texts.append(_text(message.data))
            numbers.append(latest)
        if hole is not None:
            kept = self._before_expired(numbers, hole)
            texts, numbers = texts[:kept], numbers[:kept]
        self.consumer.taken = taken  # both counts at once: what fails before this is read again
        if numbers:
            self.sequence = numbers[-1]
        long = {at: TOO_LONG for at, text in enumerate(texts) if text is None}
        return Lines(texts, numbers, [self.name] * len(numbers), long)

    def _before_expired(self, numbers: Sequence[int], hole: int) -> int:
        """Count how many messages to keep if sequence numbers are missing from ``hole`` on.

        They may be another subject's or deleted by hand. If they expired, the next read
        says so, once those before them have been counted.
        """
        info = self._info()
        if hole == 0:
            self._refuse_expired(info)
        elif info.state.first_seq > numbers[hole - 1] + 1:
            self.astray = True
            return hole
        return len(numbers)

    def _more_to_come(self) -> bool:
        """Tell whether there is anything to wait for after a pull without messages.

        A server that was restarted, or that did not hear from us for long, has forgotten our
        consumer, and what was sent last may not have arrived: only a new consumer, which counts
        what there is after our position, knows the end.
        """
        behind = self._behind()
        if self.consumer.arrived:  # slowly: they came before this answer
            return True
        if self.follow and not behind:
            self.ended.set()
            return True
        info = self._resubscribe()
        if self.follow or self.consumer.waiting:
            return True
        if self.sequence and self.subject is None:
            self._refuse_expired(info)
        return False

    def _behind(self) -> bool:
        """Tell whether the server has sent something that did not arrive."""
        try:
            info = self._ask(self.streams.consumer_info(self.name, self.consumer.name))
        except _Missing:
            return True
        return bool(info.delivered.consumer_seq != self.consumer.taken)

    def _subscribe(self) -> None:
        self.astray = True  # until the server has answered
        self.consumer = Consumer(self.connection, self.streams, self.name, self.ended)
        self._ask(self.consumer.begin(self.sequence + 1, self.subject))
        self.astray = False

    def _resubscribe(self) -> Any:
        """Start again after the last message taken, in the same stream."""
        import nats

        info = self._info()
        if str(info.created) != self.created:
            raise self._another()
        with suppress(OSError, TimeoutError, nats.errors.Error):  # it may not know us any more
            self._wait(self.consumer.end())
        self._subscribe()
        return info

    async def _interrupt(self) -> None:
        """End the current pull: what it asked for was lost with the connection."""
        self.ended.set()

    def _fail(self, problem: DataError) -> None:
        self.failures += 1
        if self.connection.is_closed or (self.failures > _FAILURES and not self.follow):
            raise problem

    def _begin(self, position: Position | None, *, continued: bool) -> None:
        """Find the position to resume from, if this is the stream that was read before."""
        info = self._info()
        kept = str(getattr(info.config.retention, "value", info.config.retention))
        if kept != "limits":
            raise DataError(
                f"the stream '{self.name}' deletes messages by {kept}: its retention policy must "
                "be 'limits'"
            )
        self.created = str(info.created)
        if position is None:
            return
        if position.get("created", self.created) == self.created:
            self.sequence = position["sequence"]
            if continued:
                self.sequence = max(self.sequence, info.state.first_seq - 1)
            self._refuse_expired(info)
        elif not continued:
            raise self._another()

    def _another(self) -> DataError:
        return DataError(
            f"'{self.name}' is not the stream that this state has read, or was recreated. If it "
            "continues where that one ended, pass --restart continued"
        )

    def _info(self) -> Any:
        return self._ask(self.streams.stream_info(self.name))

    def _refuse_expired(self, info: Any) -> None:
        lost = info.state.first_seq - self.sequence - 1
        if lost > 0:
            raise DataError(
                f"{counted(lost, 'message')} of '{self.name}' expired on the server unread: "
                "restore the stream, or pass --restart continued to resume without them"
            )

    def _ask(self, work: Any) -> Any:
        import nats

        try:
            return self._wait(work)
        except nats.js.errors.NotFoundError:
            raise _Missing(f"there is no JetStream stream '{self.name}' on this server") from None
        except nats.js.errors.BadRequestError as error:
            why = error.description
            raise DataError(f"the server refuses to read '{self.name}': {why}") from None
        except (OSError, TimeoutError, nats.errors.Error) as error:
            raise self._unanswered(type(error).__name__) from None

    def _unanswered(self, why: str) -> _Unanswered:
        return _Unanswered(
            f"the server of '{self.name}' does not answer JetStream requests ({why}). No data "
            "was lost: run the same command again to resume"
        )

    def _wait(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)


def _text(content: bytes) -> bytes | None:
    return content if len(content) <= LONGEST else None


async def _quiet(_: Exception) -> None:
    """Ignore connection errors: the client reconnects, and lost pulls are requested again."""
