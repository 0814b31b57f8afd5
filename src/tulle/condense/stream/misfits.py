"""Records that a condenser refuses, found among many, each with its reason.

A condenser takes a batch as a whole or not at all. Values that are treated alike (missing,
infinite, categories never seen) share one reason, so that one of them is tried for all.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tulle.condense.stream.condenser import StreamCondenser
from tulle.condense.stream.state import FARTHEST
from tulle.errors import DataError
from tulle.tables.categories import CategoryCodec
from tulle.tables.kinds import Codec
from tulle.tables.number_facts import EXACT

Reasons = dict[int, str]  # by the row of the record


def misfits(condenser: StreamCondenser, features: pl.DataFrame) -> Reasons:
    """The rows that do not fit the columns as the initial records had them."""
    encoder = condenser._encoder.features
    reasons: Reasons = {}
    for codec in encoder._codecs:
        column = features[codec.name]
        for rows in _alike(column, codec):
            reason = _refusal(column[rows[:1]], codec)
            if reason:
                for row in rows:
                    reasons.setdefault(row, reason)
    return reasons or _too_far(condenser, features)


def _alike(column: pl.Series, codec: Codec) -> list[list[int]]:
    """Rows whose values are accepted or refused together."""
    alike = [column.is_null()]
    if isinstance(codec, CategoryCodec):
        alike += [column.is_in(codec.domain.cast(column.dtype).implode())]
    elif column.dtype.is_float():
        alike += [column.is_nan(), column.is_infinite()]
    elif column.dtype.is_integer():
        alike += [column.abs() > EXACT]
    keys = {f"key {place}": part for place, part in enumerate(alike)}
    rows = pl.DataFrame(keys).with_row_index("row")
    return rows.group_by(*keys, maintain_order=True).agg("row")["row"].to_list()


def _refusal(value: pl.Series, codec: Codec) -> str:
    try:
        codec.encode(value, np.empty((1, codec.width)))
    except DataError as error:
        return str(error)
    return ""


def _too_far(condenser: StreamCondenser, features: pl.DataFrame) -> Reasons:
    standard = condenser._standardised(condenser._encoder.features.encode(features))
    far = ~(np.abs(standard) < FARTHEST).all(axis=1)
    reason = f"more than {FARTHEST:.0e} standard deviations from the initial records"
    return dict.fromkeys(np.flatnonzero(far).tolist(), reason)
