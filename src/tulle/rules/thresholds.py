"""Thresholds as exact numbers: a support is a whole count, a confidence a fraction.

Floats decide nothing: a rule at exactly the threshold is kept, on any machine.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral
from typing import Any

from tulle.checks import check_real
from tulle.errors import ParameterError

Share = float | int | str


def exact_share(owner: str, name: str, value: Any) -> Fraction:
    """A share in [0, 1] as a fraction: 0.6, "60%".

    >>> exact_share("mine", "min_confidence", "60%")
    Fraction(3, 5)
    """
    if isinstance(value, str):
        value = _from_text(owner, name, value)
    return Fraction(check_real(owner, name, value, 0, 1)).limit_denominator(10**9)


def support_count(owner: str, value: Any, n_baskets: int, name: str = "min_support") -> int:
    """The least number of baskets: a float is a share of them, an int is a count.

    >>> support_count("mine", 0.001, 88162), support_count("mine", 25, 88162)
    (89, 25)
    """
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        if value < 1:
            raise ParameterError(_wrong(owner, name, value))
        return int(value)
    share = exact_share(owner, name, value)
    if share == 0:
        raise ParameterError(_wrong(owner, name, value))
    return max(1, math.ceil(share * n_baskets))


def confidence_share(owner: str, value: Any, name: str = "min_confidence") -> Fraction:
    """The least confidence, as a fraction."""
    return exact_share(owner, name, value)


def _from_text(owner: str, name: str, text: str) -> float:
    body = text.strip()
    try:
        return float(Fraction(body[:-1]) / 100) if body.endswith("%") else float(body)
    except (ValueError, ZeroDivisionError):
        raise ParameterError(
            f"The '{name}' parameter of {owner} must be a share such as 0.1% or 0.001. "
            f"Got {text!r} instead."
        ) from None


def _wrong(owner: str, name: str, value: Any) -> str:
    return (
        f"The '{name}' parameter of {owner} must be a share in the range (0, 1] or a count of "
        f"at least 1. Got {value!r} instead."
    )
