"""A way for tests to call the parts of kernels, which Python cannot call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def callable_part(part: Any) -> Callable[..., Any]:
    """Return a function that Python can call in place of ``part``."""

    @njit
    def call(*arguments: Any) -> Any:
        return part(*arguments)

    return call
