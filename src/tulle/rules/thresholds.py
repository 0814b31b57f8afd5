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
_FINEST = 10**9  # denominators up to here: products with counts stay whole numbers of 64 bits


def exact_share(owner: str, name: str, value: Any) -> Fraction:
    """A share in [0, 1] as a fraction: 0.6, "60%".

    >>> exact_share("mine", "min_confidence", "60%")
    Fraction(3, 5)
    """
    if isinstance(value, str):
        value = _from_text(owner, name, value)
    given = Fraction(check_real(owner, name, value, 0, 1))
    # a tiny share is still more than none
    return given.limit_denominator(_FINEST) or (Fraction(1, _FINEST) if given else given)


def support_count(owner: str, value: Any, n_baskets: int, margin: Fraction = Fraction(0)) -> int:
    """The least number of baskets: a float is a share of them, an int is a count.

    With a margin, the least number that is not below (1 - margin) times the threshold.

    >>> support_count("mine", 0.001, 88162), support_count("mine", 25, 88162)
    (89, 25)
    >>> support_count("mine", 0.1, 101), support_count("mine", 0.1, 101, Fraction(1, 20))
    (11, 10)
    """
    name = "min_support"
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        if value < 1:
            raise ParameterError(_wrong(owner, name, value))
        return math.ceil(int(value) * (1 - margin))
    share = exact_share(owner, name, value)
    if share == 0:
        raise ParameterError(_wrong(owner, name, value))
    return math.ceil(share * n_baskets * (1 - margin))


def confidence_share(owner: str, value: Any) -> Fraction:
    """The least confidence, as a fraction."""
    return exact_share(owner, "min_confidence", value)


def confidence_if_any(owner: str, value: Any) -> Fraction:
    """The same where it may be left out: None asks for no confidence."""
    return confidence_share(owner, 0 if value is None else value)


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
