"""One user of a stream at a time, and none after an interrupted change.

Kernels write into the arrays of a stream without any lock: two threads in one stream, or a
batch that Ctrl-C has left half done, would count records twice or write beyond an array.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from tulle.errors import PrivacyError, TulleError

_door = threading.Lock()
_users: set[int] = set()  # streams in use, by identity

Stream = TypeVar("Stream")
Given = ParamSpec("Given")
Result = TypeVar("Result")


def alone(
    method: Callable[Concatenate[Stream, Given], Result],
) -> Callable[Concatenate[Stream, Given], Result]:
    """Make a method refuse to run while another thread runs such a method of the same stream."""

    @wraps(method)
    def guarded(stream: Stream, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        with _door:
            if id(stream) in _users:
                raise TulleError("another thread is using this stream: give each thread its own")
            _users.add(id(stream))
        try:
            return method(stream, *args, **kwargs)
        finally:
            _users.discard(id(stream))

    return guarded


@contextmanager
def changing(stream: Any) -> Iterator[None]:
    """Mark a stream as interrupted until its groups have changed as a whole."""
    stream._cut_off = True
    yield
    stream._cut_off = False


def check_whole(stream: Any) -> None:
    """Raise if the last change of a stream was interrupted."""
    if stream._cut_off:
        raise PrivacyError(
            "this stream was interrupted while it was taking records and may have counted some "
            "twice: load the last saved state, or fit again"
        )
