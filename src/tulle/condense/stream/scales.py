"""Scales that the owner gives, in place of those of the initial records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tulle.checks import check_real
from tulle.errors import ParameterError, nearest_name
from tulle.tables.encoder import TableEncoder
from tulle.tables.numbers import NumberCodec


def fix_scales(encoder: TableEncoder, scales: Mapping[str, float] | Sequence[float] | None) -> None:
    """Replaces the standard deviations that a fitted encoder found."""
    if scales is None:
        return
    codecs = {codec.name: codec for codec in encoder._codecs}
    if not isinstance(scales, Mapping):
        if len(scales) != len(codecs):
            raise ParameterError(
                f"'scales' has {len(scales)} entries, but {len(codecs)} columns are condensed"
            )
        scales = dict(zip(codecs, scales))
    for name, scale in scales.items():
        if name not in codecs:
            raise ParameterError(f"'scales' names '{name}': {nearest_name(name, codecs)}")
        codec = codecs[name]
        if not isinstance(codec, NumberCodec):
            raise ParameterError(
                f"'scales' names '{name}', which is no column of numbers: use 'weights'"
            )
        deviation = check_real("StreamCondenser", "scales", scale, 0, closed="neither")
        own = codec.scales.copy()
        # where values can be missing, the value and the states of missing share the weight
        own[0] = deviation * (own[1] if len(own) > 1 else 1.0 / codec.weight)
        codec.scales = own
    encoder._collect()
