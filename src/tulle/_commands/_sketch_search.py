"""Deltas whose sketches pass their own audit: ``tulle sketch --target-risk``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tulle._progress import bar
from tulle.errors import PrivacyError
from tulle.keys import SecretKey

if TYPE_CHECKING:
    from tulle.sketch._records import SparseRecords

_RECORDS = 2_000  # that are tried: fewer candidates make attacks easier, never harder
_MOST_SUPPRESSED = 0.5  # of the records: beyond, there is little left to mine
_DELTAS = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
_IN_A_ROW = 3  # that pass: larger ones hide more, and leave less


def find_deltas(
    records: SparseRecords, target: float, rng: np.random.Generator, **parameters: Any
) -> tuple[list[float], list[dict[str, Any]]]:
    """Return the deltas with at most this risk, the smallest first, and all that were tried.

    The risk is that of the best attack, beyond what guessing gets. It goes up and down with the
    draw, so that every delta of a list is tried, and one counts if the next larger one passes too.
    """
    from tulle.sketch._records import unit_rows

    drawn = _sample(records, rng)
    drawn = unit_rows(drawn) if parameters.get("normalize") else drawn
    tried: list[dict[str, Any]] = []
    passed: list[bool] = []
    with bar("Looking for delta", len(_DELTAS)) as advance:
        for delta in _DELTAS:
            row = _try(drawn, delta, rng, tried, parameters)
            passed.append(_passes(row, target))
            advance(note=f"delta {delta:g}: risk {row['risk']:.1%}")
            if row["suppressed"] > _MOST_SUPPRESSED or sum(passed[-_IN_A_ROW:]) == _IN_A_ROW:
                break
    held = passed if tried[-1]["suppressed"] <= _MOST_SUPPRESSED else passed[:-1]
    found = [
        tried[at]["delta"] for at in range(len(held)) if held[at] and all(held[at + 1 : at + 2])
    ]
    if not found:
        raise PrivacyError(
            f"no delta that was tried has a risk of at most {target:.1%} without suppressing half "
            f"of the records. {told(tried)} Allow a larger --target-risk, or give the records more "
            "terms"
        )
    return found, tried


def told(tried: list[dict[str, Any]]) -> str:
    """Say what was tried, and which delta had the least risk."""
    usable = [row for row in tried if row["suppressed"] <= _MOST_SUPPRESSED] or tried
    best = min(usable, key=lambda row: float(row["risk"]))
    rows = "; ".join(
        f"delta {row['delta']:g}: risk {row['risk']:.1%}, nearest neighbours kept "
        f"{row['neighbour_recall'] or 0:.1%}"
        for row in tried
    )
    return f"Tried: {rows}. The least risk has delta {best['delta']:g}."


def trade(tried: list[dict[str, Any]], found: list[float]) -> str:
    """Say what is to be had, where no delta that was tried passes both verdicts; else nothing."""
    from tulle._report.fitness import graded
    from tulle._report.verdict import CLASSES

    kept = {row["delta"]: float(row["neighbour_recall"] or 0.0) for row in tried}
    risk = {row["delta"]: row["risk"] for row in tried}
    useful = [d for d in kept if (graded("neighbour_recall", kept[d], None) or ("",))[0] != "bad"]
    if not found or set(useful) & set(found):
        return ""
    best, most = max(found, key=kept.__getitem__), max(useful or [max(kept, key=kept.__getitem__)])
    return (
        "No delta that was tried passes both verdicts: of those within the risk, delta "
        f"{best:g} is the best ({kept[best]:.1%} of the nearest neighbours kept, risk "
        f"{risk[best]:.1%}); {kept[most]:.1%} are kept with delta {most:g}, at a risk of "
        f"{risk[most]:.1%}. {CLASSES}"
    )


def _passes(row: dict[str, Any], target: float) -> bool:
    return row["suppressed"] <= _MOST_SUPPRESSED and row["risk"] <= target


def _sample(records: SparseRecords, rng: np.random.Generator) -> SparseRecords:
    from tulle.sketch._records import SparseRecords

    count = records.matrix.shape[0]
    rows = np.sort(rng.permutation(count)[:_RECORDS])
    return SparseRecords(records.matrix[rows], records.terms)


def _try(
    records: SparseRecords,
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
        from tulle.sketch._records import SparseRecords as Some

        seen, part = sketches[released], Some(records.matrix[released], records.terms)
        found = attacks_on(sketcher, part, seen, rng)[0]
        row["median_components"] = float(np.median(seen.lengths))
        row["neighbour_recall"] = float(neighbour_recall(seen, part.matrix, rng))
        row["risk"] = max(0.0, *(float(result["risk"]) for result in found.values()))
    tried.append(row)
    return row
