"""What a release has to pass before it leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_nobody_is_found_again_and_it_is_fit_for_use(gate: Callable[..., dict[str, Any]]) -> None:
    found = gate("--max-copies", "0.1%", "--max-linkage", "2%", "--max-singling-out", "10%")
    for about in ("privacy", "use"):
        judged = found["verdict"][about]
        assert judged["level"] != "bad", judged["reason"]
