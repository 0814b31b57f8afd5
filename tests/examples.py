"""How many examples of a property are tried."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("TULLE_FUZZ_EXAMPLES", "0"))  # 0: the repeatable ones
REPEATED = 50  # examples of a property in the gate, the same in every run; many more in make fuzz

settings.register_profile(
    "tulle",
    deadline=None,
    derandomize=True,
    max_examples=REPEATED,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz",
    deadline=None,
    print_blob=True,
    max_examples=EXAMPLES or REPEATED,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("fuzz" if EXAMPLES else "tulle")


def few(count: int) -> Any:
    """Try a property that takes long on so many examples only, unless all are fuzzed."""
    return settings(max_examples=EXAMPLES or count)
