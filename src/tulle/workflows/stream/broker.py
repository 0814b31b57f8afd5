"""Records from NATS JetStream: one message, one record.

The position is the sequence number that the server gives each message, kept in our own checkpoint:
exactly-once does not hang on acknowledgements. Messages are pulled, so the server holds what we
cannot take yet. The stream must keep its messages by limits, not delete them once read; what the
limits take away before it was read is noticed and not passed over in silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from tulle.errors import DataError, TulleError, missing_extra
from tulle.tables.formats import display_name
from tulle.workflows.stream.lines import LONGEST, NO_LINES, Lines
from tulle.workflows.stream.sources import Position

_PATIENCE = 1.0  # seconds that one pull waits for messages
_ATTEMPTS = 5.0  # seconds until a server counts as unreachable
_FAILURES = 20  # pulls in a row that a server may leave unanswered, unless we follow it


class NatsSource:
    """A stream (or one subject of it): ``nats://host:port/STREAM`` or ``.../STREAM/subject``."""

    def __init__(
        self,
        address: str,
        *,
        follow: bool,
        position: Position | None,
        continued: bool = False,
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
        self.goes_back = True
        self.sequence = 0
        self.failures = 0
        self.loop = asyncio.new_event_loop()
        server = f"{parts.scheme}://{parts.netloc}"
        try:
            # once connected, the client reconnects for ever; the first time it must succeed soon
            first = nats.connect(server, max_reconnect_attempts=-1, error_cb=_quiet)
            self.connection: Any = self._wait(asyncio.wait_for(first, _ATTEMPTS))
        except (OSError, TimeoutError, nats.errors.Error) as error:
            self.loop.close()
            raise DataError(
                f"cannot reach {display_name(server)}: {type(error).__name__}"
            ) from None
        self.streams = self.connection.jetstream()
        try:
            self._begin(position, continued=continued)
        except DataError:
            self.close()
            raise
        self.subscription = self._wait(self._subscribe())

    @property
    def position(self) -> Position:
        return {"sequence": self.sequence, "created": self.created}

    def read(self, most: int) -> Lines | None:
        import nats

        try:
            messages = self._wait(self.subscription.fetch(min(most, 5_000), timeout=_PATIENCE))
        except (TimeoutError, nats.errors.Error):
            return NO_LINES if self._more_to_come() else None
        texts, numbers = [], []
        latest = self.sequence
        for message in messages:
            number = message.metadata.sequence.stream
            if number <= latest:
                continue  # delivered twice by the server, read once by us
            texts.append(_text(message.data))
            numbers.append(number)
            latest = number
        if self.sequence and numbers and numbers[0] > self.sequence + 1:
            self._refuse_expired(self._info())  # or another subject's, or deleted by hand
        self.sequence = latest
        return Lines(texts, numbers, numbers, [self.name] * len(numbers))

    def header(self) -> bytes | None:
        return None

    def again(self, places: Sequence[int]) -> list[bytes | None]:
        import nats

        try:
            found = [self._wait(self.streams.get_msg(self.name, seq=place)) for place in places]
        except nats.js.errors.NotFoundError:
            raise DataError(
                f"the stream '{self.name}' no longer holds records that wait: keep messages "
                "longer, or seal waiting records in the state with --key"
            ) from None
        return [_text(message.data) for message in found]

    def close(self) -> None:
        import nats

        if not self.connection.is_closed:
            with suppress(OSError, nats.errors.Error):  # a server that is gone hears no farewell
                self._wait(self.connection.close())
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        self._wait(asyncio.wait(left) if left else asyncio.sleep(0))
        self.loop.close()

    def _more_to_come(self) -> bool:
        """After a pull without messages: is there anything to wait for?

        A server that was restarted, or that did not hear from us for long, has forgotten our
        subscription: then a new one begins where we stand.
        """
        import nats

        try:
            waiting = self._wait(self.subscription.consumer_info()).num_pending
        except (TimeoutError, nats.errors.Error):
            self.failures += 1
            if self.failures > _FAILURES and not self.follow:
                raise DataError(f"the server of '{self.name}' went away") from None
            self._resubscribe()
            return True
        self.failures = 0
        return self.follow or waiting > 0

    def _resubscribe(self) -> None:
        import nats

        try:
            self.subscription = self._wait(self._subscribe())
        except (TimeoutError, nats.errors.Error):
            self._wait(asyncio.sleep(_PATIENCE))  # the client is connecting again meanwhile

    async def _subscribe(self) -> Any:
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        start = ConsumerConfig(
            ack_policy=AckPolicy.NONE,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self.sequence + 1,
            inactive_threshold=300.0,
        )
        subject = self.subject or ""
        return await self.streams.pull_subscribe(subject, stream=self.name, config=start)

    def _begin(self, position: Position | None, *, continued: bool) -> None:
        """Finds the place to read on from, if this stream is the one that was read."""
        info = self._info()
        kept = str(getattr(info.config.retention, "value", info.config.retention))
        if kept != "limits":
            raise DataError(
                f"the stream '{self.name}' deletes messages by {kept}: it must keep them by limits"
            )
        self.created = str(info.created)
        if position is None:
            return
        if position.get("created", self.created) == self.created:
            self.sequence = position["sequence"]
            if continued:
                self.sequence = max(self.sequence, info.state.first_seq - 1)
            self._refuse_expired(info)
        elif continued:
            self.goes_back = False
        else:
            raise DataError(
                f"'{self.name}' is another stream than this state has read, or was created anew. "
                "If it goes on where that one ended, say --restart continued"
            )

    def _info(self) -> Any:
        import nats

        try:
            return self._wait(self.streams.stream_info(self.name))
        except (nats.js.errors.NotFoundError, nats.js.errors.ServiceUnavailableError):
            raise DataError(f"there is no JetStream stream '{self.name}' on this server") from None

    def _refuse_expired(self, info: Any) -> None:
        lost = info.state.first_seq - self.sequence - 1
        if lost > 0:
            raise DataError(
                f"{lost} messages of '{self.name}' expired on the server before they were read: "
                "restore the stream, or say --restart continued to go on without them"
            )

    def _wait(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)


def _text(content: bytes) -> bytes | None:
    return content if len(content) <= LONGEST else None


async def _quiet(_: Exception) -> None:
    """Reconnecting is the client's work; what matters is raised by the next pull."""
