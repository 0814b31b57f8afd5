"""Messages pulled from a NATS JetStream server, a block of bytes at a time.

The client's own ``fetch`` is bounded by number alone, so that large messages overrun its memory or
the server's, and either drops what is too much. These pulls are bounded by bytes; still neither
side promises that what was sent arrives, and whoever takes the messages has to look for gaps.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from typing import Any

from tulle.workflows.stream.lines import BLOCK

_PATIENCE = 1.0  # seconds that a pull waits for new messages, or for more of those that come
_LONGEST = 20.0  # seconds that a pull may bring nothing: a large message on a slow line


class Consumer:
    """What the server remembers of us, from one message on, and the inbox for what we pull."""

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
        """The next messages as they arrived, a block at most unless a single one is larger.

        None of them, if there are none (a ``patient`` pull waits a while for the first), if the
        server lost the pull, or if the line is slow: then the next call goes on to listen.
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
        """Until the pull ends. That may go unsaid, so silence after some messages ends it too."""
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
