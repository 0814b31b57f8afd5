"""Streams: groups that follow them, exactly and in bounded memory."""

from tulle.stream.condenser import StreamCondenser

__all__ = ["StreamCondenser"]
