"""SWA on the sensitive rules of baskets in memory; the algorithm itself is in ``window.py``."""

from __future__ import annotations

import numpy as np

from tulle.rules.edits import Edits
from tulle.rules.sensitive import Sensitive
from tulle.rules.window import slide


def swa(
    sensitive: Sensitive,
    rng: np.random.Generator,
    *,
    window: int | None = None,
    victim: str = "transaction",
) -> Edits:
    """The shortest baskets of each window lose the item that most sensitive rules share."""
    kept = slide(
        sensitive.baskets,
        sensitive.whole,
        [limit.leaving for limit in sensitive.limits],
        window=window or len(sensitive.baskets),
        victim=victim,
        seed=int(rng.integers(2**63)),
    )
    return Edits(kept)
