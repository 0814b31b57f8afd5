"""The smallest delta whose sketches pass their own audit: ``tulle sketch --target-risk``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tulle._progress import bar
from tulle.errors import PrivacyError
from tulle.keys import SecretKey

if TYPE_CHECKING:
    from tulle.sketch._records import Records

_RECORDS = 2_000  # that are tried: fewer candidates make attacks easier, never harder
_FIRST = 0.25
_MOST_SUPPRESSED = 0.5  # of the records: beyond, there is little left to mine
_HALVINGS = 3  # after the first delta that passes: it is right to an eighth of a doubling


def find_delta(
    records: Records, target: float, rng: np.random.Generator, **parameters: Any
) -> tuple[float, list[dict[str, Any]]]:
    """Return the smallest delta found with at most this risk, and what was tried.

    The risk is that of the best attack, beyond what guessing gets. Deltas are doubled until one
    passes, and then halved towards the last one that did not.
    """
    drawn = _sample(records, rng)
    tried: list[dict[str, Any]] = []
    failed, delta = 0.0, _FIRST
    with bar("Looking for delta", None) as advance:
        while not _passes(_try(drawn, delta, rng, tried, parameters), target):
            advance(note=f"delta {delta:g} is too small")
            failed, delta = delta, 2 * delta
            if tried[-1]["suppressed"] > _MOST_SUPPRESSED:
                raise PrivacyError(
                    f"no delta of {len(tried)} that were tried has a risk of at most {target:.1%} "
                    "without suppressing half of the records: allow a larger --target-risk, or "
                    "give the records more terms"
                )
        for _ in range(_HALVINGS if failed else 0):
            middle = (failed + delta) / 2
            if _passes(_try(drawn, middle, rng, tried, parameters), target):
                delta = middle
            else:
                failed = middle
            advance(note=f"between {failed:g} and {delta:g}")
    return delta, sorted(tried, key=lambda row: float(row["delta"]))


def _passes(row: dict[str, Any], target: float) -> bool:
    return row["suppressed"] <= _MOST_SUPPRESSED and row["risk"] <= target


def _sample(records: Records, rng: np.random.Generator) -> Records:
    from tulle.sketch._records import Records

    count = records.matrix.shape[0]
    rows = np.sort(rng.permutation(count)[:_RECORDS])
    return Records(records.matrix[rows], records.terms)


def _try(
    records: Records,
    delta: float,
    rng: np.random.Generator,
    tried: list[dict[str, Any]],
    parameters: dict[str, Any],
) -> dict[str, Any]:
    """Sketch and attack a sample under a key of its own; note what was found."""
    from tulle._commands.sketch import attacks_on
    from tulle._metrics.sketches import neighbour_recall
    from tulle.sketch.sketcher import Sketcher
    from tulle.sketch.sketches import Sketches

    sketcher = Sketcher(**{**parameters, "delta": delta}, key=SecretKey.generate()).fit(records)
    sketches = Sketches.stacked(sketcher.transform_parts(records, _RECORDS))
    released = np.flatnonzero(~sketches.suppressed)
    row: dict[str, Any] = {
        "delta": delta,
        "suppressed": float(sketches.suppressed.mean()),
        "median_components": None,
        "neighbour_recall": None,
        "risk": 0.0,
    }
    if len(released) > 1:
        from tulle.sketch._records import Records as Some

        seen, part = sketches[released], Some(records.matrix[released], records.terms)
        found = attacks_on(sketcher, part, seen, rng)[0]
        row["median_components"] = float(np.median(seen.lengths))
        row["neighbour_recall"] = float(neighbour_recall(seen, part.matrix, rng))
        row["risk"] = max(0.0, *(float(result["risk"]) for result in found.values()))
    tried.append(row)
    return row
