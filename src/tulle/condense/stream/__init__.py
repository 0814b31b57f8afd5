"""Streams: groups that follow them, exactly and in bounded memory."""

from tulle.condense.stream.condenser import StreamCondenser

__all__ = ["StreamCondenser"]
