"""Records that meet a condition, drawn from a fitted model, and values filled in from it.

The fitted state holds no row, so how many people of the original meet a condition is what the
model says of it: their share among many drawn records times the number of people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from tulle._relations.language import parse_condition
from tulle._relations.values import Values, truth, writings_of
from tulle._types import Flags, Floats, Ints
from tulle.condense._grouping import GroupFacts
from tulle.errors import DataError, PrivacyError
from tulle.table._encoder import TableEncoder

_PROBE = 20_000  # records by which a condition is judged, at least
_MOST_PROBED = 200_000
_FEWEST, _LARGEST = 1_000, 500_000  # records drawn at once
_MOST = 20_000_000  # and in all
IMPUTE_FROM = 20_000  # drawn records at least, from which gaps are filled
_DONORS = 5  # drawn records that a missing value may come from

Draw = Callable[[int], pl.DataFrame]


def draw_where(
    draw: Draw, where: str, n: int | None, encoder: TableEncoder, facts: GroupFacts, *, k: int
) -> pl.DataFrame:
    """Draw ``n`` records that meet a condition, by drawing until there are enough.

    Without ``n``, as many as the model expects among as many records as it has people. Records are
    drawn as many at a time as were condensed: how they are matched depends on their number.

    Raises
    ------
    PrivacyError
        If the model does not put at least ``k`` people behind the condition, with a margin of two
        standard errors: of the draws, and of how many people have what by chance.
    """
    people, size = facts.everybody, min(max(int(facts.counts.sum()), _FEWEST), _LARGEST)
    condition = parse_condition(where, [name for name in draw(1).columns if "\0" not in name])
    writings = writings_of(encoder.codecs)

    def meeting() -> pl.DataFrame:
        frame = draw(size)
        return frame.filter(truth(condition, Values(frame, {}, writings=writings))[0])

    probes = math.ceil(min(max(people, _PROBE), _MOST_PROBED) / size)
    parts = [meeting() for _ in range(probes)]
    have, drawn = sum(part.height for part in parts), probes * size
    behind = have / drawn * people
    margin = 2 * math.sqrt(behind * (1 + people / drawn))
    if behind - margin < k:
        raise PrivacyError(
            f"the condition '{where}' is met by about {behind:,.0f} people as the model counts "
            f"them, and k={k} and a margin of {margin:,.0f} are needed: ask for less",
            parameter="where",
        )
    n = max(round(behind), 1) if n is None else n
    while have < n:
        if drawn + size > _MOST:
            raise DataError(
                f"only {have:,} of {n:,} records with '{where}' came up among {drawn:,} drawn "
                "ones: ask for fewer"
            )
        parts.append(meeting())
        have, drawn = have + parts[-1].height, drawn + size
    return pl.concat(parts).head(n)


def fill_missing(
    frame: pl.DataFrame, drawn: pl.DataFrame, encoder: TableEncoder, rng: np.random.Generator
) -> pl.DataFrame:
    """Return the table with its missing values taken from drawn records that are like its rows.

    What a row lacks comes from one drawn record: by lot one of the five nearest in the columns
    that the row has, each of which counts by how much it tells of those that are missing.
    """
    names = list(encoder.codecs)
    absent, lacking = _absent(frame, names), _absent(drawn, names)
    own = encoder.encode_release(drawn)
    centre, scale = own.mean(axis=0), np.where(np.ptp(own, axis=0) > 0, own.std(axis=0), 1.0)
    own, known = (own - centre) / scale, (encoder.encode_release(frame) - centre) / scale
    correlation = own.T @ own / len(own)
    widths = [place.stop - place.start for place in encoder.slices_.values()]
    chosen = np.zeros(frame.height, dtype=np.int64)
    patterns, pattern = np.unique(absent, axis=0, return_inverse=True)
    for place, gone in enumerate(patterns):
        if gone.any():
            rows, asked = np.flatnonzero(pattern.ravel() == place), np.repeat(gone, widths)
            donors = np.flatnonzero(~lacking[:, gone].any(axis=1))
            if len(donors) < _DONORS:
                short = ", ".join(f"'{name}'" for name, flag in zip(names, gone) if flag)
                raise DataError(f"hardly a drawn record has values of {short}: none can be filled")
            weights = np.where(asked, 0.0, (correlation[asked] ** 2).sum(axis=0))
            chosen[rows] = donors[_alike(known[rows], own[donors], weights, rng)]
    return frame.with_columns(
        frame[name].zip_with(pl.Series(~absent[:, at]), drawn[name][chosen].cast(frame[name].dtype))
        for at, name in enumerate(names)
        if absent[:, at].any()
    )


def _absent(frame: pl.DataFrame, names: Sequence[str]) -> Flags:
    """Return where columns have no value, (n, d)."""
    values = Values(frame, {})
    return np.stack([values.absent(name) for name in names], axis=1)


def _alike(rows: Floats, donors: Floats, weights: Floats, rng: np.random.Generator) -> Ints:
    """Return for each row one of its nearest donors, by lot."""
    from sklearn.neighbors import NearestNeighbors

    used = weights > 0
    if not used.any():
        return rng.integers(len(donors), size=len(rows))
    root = np.sqrt(weights[used])
    near = NearestNeighbors(n_neighbors=_DONORS).fit(donors[:, used] * root)
    found = near.kneighbors(rows[:, used] * root, return_distance=False)
    return found[np.arange(len(rows)), rng.integers(_DONORS, size=len(rows))]
