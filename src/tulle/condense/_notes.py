"""Sentences about a condensed table that its reader should know; none holds a value of it."""

from __future__ import annotations

import warnings
from typing import Any

from tulle.errors import PrivacyWarning


def warn_weaker(condenser: Any) -> None:
    """Warns, in the name of the caller's caller, where protection is weaker than it looks."""
    for note in privacy_notes(condenser):
        warnings.warn(note, PrivacyWarning, stacklevel=3)


def privacy_notes(condenser: Any) -> list[str]:
    """Where protection is weaker than it looks."""
    notes = []
    if condenser.n_verbatim_:
        notes.append(
            f"{condenser.n_verbatim_} records are alone in their group (their level is 1) and "
            "are released as they are"
        )
    if condenser.n_degenerate_:
        notes.append(
            f"{condenser.n_degenerate_} of {len(condenser.counts_)} groups hold records that are "
            "all alike: the release shows what their members share"
        )
    return notes


def table_notes(condenser: Any) -> list[str]:
    """What the table made of the release."""
    encoder = condenser._encoder
    dimensions = len(encoder.feature_names_)
    notes = []
    if condenser.n_suppressed_:
        notes.append(
            f"{condenser.n_suppressed_} records ask for a larger group than can be made and are "
            "withheld"
        )
    if condenser.n_singular_:
        notes.append(
            f"{condenser.n_singular_} of {len(condenser.counts_)} groups have no more records "
            f"than the {dimensions} dimensions: their covariance is singular, and their "
            "pseudo-records lie in the plane that the group's own records span"
        )
    notes += [f"column '{name}' holds one value only and shows it" for name in encoder.constant_]
    notes += [f"column '{name}' is missing throughout" for name in encoder.empty_]
    least = int(condenser.levels_.max())
    notes += [
        f"column '{name}' has {count} categories held by fewer than {least} records: the release "
        "shows that they occur"
        for name, count in encoder.rare_categories(least).items()
    ]
    notes += [f"column '{name}' is left out (its role)" for name in encoder.dropped_]
    return notes
