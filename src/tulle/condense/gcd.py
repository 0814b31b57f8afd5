"""The group size that fits several classes at once ('approximate GCD', paper 001)."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from tulle.checks import check_int
from tulle.errors import PrivacyError


def approximate_gcd(sizes: Iterable[int], t: int) -> int:
    """The largest multiple of ``t`` that divides each class, counted in blocks of ``t``.

    ``g * t`` with ``g`` the greatest common divisor of ``size // t`` over the classes: every
    class is then filled by groups of that size, with fewer than ``t`` records to spare.

    >>> approximate_gcd([15, 10], 5)
    5
    >>> approximate_gcd([1001, 501], 20)
    500
    """
    check_int("approximate_gcd", "t", t, 1)
    blocks = [int(size) // t for size in sizes]
    short = sum(block == 0 for block in blocks)
    if short or not blocks:
        raise PrivacyError(
            f"{short} of {len(blocks)} classes have fewer than t={t} records: lower t, or "
            "suppress or pool those classes"
        )
    return gcd(*blocks) * t
