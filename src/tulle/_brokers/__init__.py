"""Message brokers as sources of a stream: one plug-in a file, loaded when an address asks for it.

A plug-in is a class with the methods of :class:`tulle.stream._sources.Source`, made of an address,
``follow``, a position and ``continued``. One line in the table adds it; nothing else knows it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PLUG_INS = {
    "nats://": ("tulle._brokers.nats", "NatsSource"),
    "tls://": ("tulle._brokers.nats", "NatsSource"),
    "kafka://": ("tulle._brokers.kafka", "KafkaSource"),
}


def is_broker(address: str) -> bool:
    return address.startswith(tuple(_PLUG_INS))


def broker_at(address: str) -> Any:
    module, name = next(way for scheme, way in _PLUG_INS.items() if address.startswith(scheme))
    return getattr(import_module(module), name)
