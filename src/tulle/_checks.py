"""Parameter checks with one sentence form: what is allowed, then what came."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

from tulle.errors import ParameterError, nearest_name


def check_int(owner: str, name: str, value: Any, low: int, high: int | None = None) -> int:
    """Check that a parameter is an integer in ``[low, high]`` and return it.

    >>> check_int("Condenser", "k", 1, 2)
    Traceback (most recent call last):
    ...
    tulle.errors.ParameterError: The 'k' parameter of Condenser must be an int in the range
    [2, inf). Got 1 instead.
    """
    top = "inf)" if high is None else f"{high}]"
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or int(value) < low or (high is not None and int(value) > high):
        raise wrong(owner, name, f"an int in the range [{low}, {top}", value)
    return int(value)


def check_real(
    owner: str,
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    closed: str = "both",
) -> float:
    """Check that a parameter is a finite number between ``low`` and ``high`` and return it;
    ``closed`` is both, left, right or neither.
    """
    left = "[" if closed in ("both", "left") and low > -math.inf else "("
    right = "]" if closed in ("both", "right") and high < math.inf else ")"
    inside = isinstance(value, Real) and not isinstance(value, bool) and _is_finite(value)
    if inside:
        above = value >= low if left == "[" else value > low
        below = value <= high if right == "]" else value < high
        inside = above and below
    if not inside:
        raise wrong(owner, name, f"a number in the range {left}{low:g}, {high:g}{right}", value)
    return float(value)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the largest float
        return False


def check_choice(owner: str, name: str, value: Any, choices: Iterable[str]) -> str:
    """Check that a parameter is one of the given words; the error suggests the closest match."""
    allowed = list(choices)
    if not isinstance(value, str) or value not in allowed:
        hint = nearest_name(str(value), allowed) if isinstance(value, str) else ""
        words = ", ".join(repr(word) for word in allowed)
        near = f": {hint}" if hint.startswith("did") else "."
        raise ParameterError(
            f"must be one of {words}. Got {_show(value)} instead{near}",
            parameter=name,
            subject=f"The '{name}' parameter of {owner}",
        )
    return value


def check_flag(owner: str, name: str, value: Any) -> bool:
    """Check that a parameter is True or False, Python's or NumPy's, and return it."""
    if not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_"):
        raise wrong(owner, name, "True or False", value)
    return bool(value)


def check_share(owner: str, name: str, value: Any) -> float:
    """Check that a parameter is a share from 0 to 1 and return it; a text may give it in percent.

    >>> check_share("mine", "min_confidence", "60%")
    0.6
    """
    if isinstance(value, str):
        body = value.strip()
        try:
            value = float(Fraction(body[:-1]) / 100) if body.endswith("%") else float(body)
        except (ValueError, ZeroDivisionError, OverflowError):
            raise wrong(owner, name, "a share such as 0.1% or 0.001", value) from None
    return check_real(owner, name, value, 0, 1)


def wrong(owner: str, name: str, allowed: str, value: Any) -> ParameterError:
    """Return the error for a parameter that must be something else."""
    return ParameterError(
        f"must be {allowed}. Got {_show(value)} instead.",
        parameter=name,
        subject=f"The '{name}' parameter of {owner}",
    )


def _show(value: Any) -> str:
    # A parameter is the user's own word and may be shown, but an array or a frame is data.
    if value is None or isinstance(value, str | bool | Real):
        return repr(value)
    return f"a {type(value).__name__}"
