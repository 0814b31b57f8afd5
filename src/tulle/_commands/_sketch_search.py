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
_FIRST, _LARGEST = 0.25, 2.0**20
_HALVINGS = 3  # after the first delta that passes: it is right to an eighth of a doubling


def find_delta(
    records: Records, target: float, rng: np.random.Generator, **parameters: Any
) -> tuple[float, list[dict[str, Any]]]:
    """Return the smallest delta found at which no attack succeeds more often, and what was tried.

    Deltas are doubled until one passes, and then halved towards the last one that did not.
    """
    drawn = _sample(records, rng)
    tried: list[dict[str, Any]] = []
    failed, delta = 0.0, _FIRST
    with bar("Looking for delta", None) as advance:
        while not _passes(_try(drawn, delta, rng, tried, parameters), target):
            advance(note=f"delta {delta:g} is too small")
            failed, delta = delta, 2 * delta
            if delta > _LARGEST or tried[-1]["suppressed"] == 1:
                raise PrivacyError(
                    f"no delta was found at which at most {target:.1%} of attempts succeed before "
                    f"every record is suppressed ({len(tried)} were tried): allow a larger "
                    "--target-risk"
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
    return row["suppressed"] < 1 and row["risk"] <= target


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
        row["risk"] = max(float(result["rate"]) for result in found.values())
    tried.append(row)
    return row
