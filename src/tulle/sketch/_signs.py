"""Four-wise independent signs from a secret key, for any number of columns and components.

Component j has a polynomial of degree 3 over the field of p = 2**61 - 1; the sign of column i is
the low bit of its value at the column's point. The four coefficients come from the key, so no
matrix is stored, and two owners with one key produce comparable sketches. The polynomial is
evaluated once for each column that occurs, never for each non-zero entry.

The point of a column is a keyed BLAKE2b hash of its term (a word, an item), so that the set of
terms may be open, or of its number in a matrix, so that known signs cannot be continued.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from tulle.keys import SecretKey

PRIME = (1 << 61) - 1
_P = np.uint64(PRIME)
_LOW32 = np.uint64(0xFFFFFFFF)
_LOW29 = np.uint64((1 << 29) - 1)
_PER_DERIVATION = 128  # components whose coefficients one derivation gives (4 KiB of key stream)

Points = npt.NDArray[np.uint64]


def coefficients(key: SecretKey, first: int, last: int) -> Points:
    """Return the polynomials of components ``first`` to ``last - 1``; shape (components, 4)."""
    blocks = range(first // _PER_DERIVATION, -(-last // _PER_DERIVATION))
    stream = b"".join(key.derive(f"sketch/signs/{b}", 32 * _PER_DERIVATION) for b in blocks)
    words = np.frombuffer(stream, "<u8").reshape(-1, 4)
    start = first - (first // _PER_DERIVATION) * _PER_DERIVATION
    return _once(words[start : start + last - first] & _P)


def term_points(key: SecretKey, terms: Iterable[str]) -> Points:
    """Return the points of terms; without the key nobody can tell which term has which."""
    secret = key.derive("sketch/terms", 32)
    digests = [
        hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8, key=secret).digest()
        for term in terms
    ]
    return _once(np.frombuffer(b"".join(digests), "<u8") & _P)


def number_points(key: SecretKey, numbers: npt.NDArray[Any]) -> Points:
    """Return the points of numbered columns; without the key nobody knows them.

    The sign of a column is the low bit of a cubic of its point. If the points were the numbers
    themselves, signs that an attacker learns could be continued to columns never seen.
    """
    secret = key.derive("sketch/numbers", 32)
    words = np.ascontiguousarray(numbers, dtype="<u8").tobytes()
    digests = [
        hashlib.blake2b(words[at : at + 8], digest_size=8, key=secret).digest()
        for at in range(0, len(words), 8)
    ]
    return _once(np.frombuffer(b"".join(digests), "<u8") & _P)


def sign_table(polynomials: Points, points: Points) -> npt.NDArray[np.int8]:
    """Compute the signs of all points in all components; shape (points, components)."""
    x = points.astype(np.uint64)
    square = multiply(x, x)
    cube = multiply(square, x)
    table = np.empty((len(x), len(polynomials)), np.int8)
    for j, (a, b, c, d) in enumerate(polynomials):
        value = _once(multiply(b, x) + a)
        value = _once(multiply(c, square) + value)
        value = _once(multiply(d, cube) + value)
        table[:, j] = (value & np.uint64(1)).astype(np.int8)
    return table * np.int8(2) - np.int8(1)


def multiply(a: Points | np.uint64, b: Points) -> Points:
    """Compute a * b mod p for elements of the field, in limbs of 32 bits.

    With a = a1 2**32 + a0 the product is a1 b1 2**64 + middle 2**32 + a0 b0, and 2**61 is 1.
    """
    shift32, shift29, shift61 = np.uint64(32), np.uint64(29), np.uint64(61)
    a1, a0 = a >> shift32, a & _LOW32
    b1, b0 = b >> shift32, b & _LOW32
    middle = a1 * b0 + a0 * b1  # below 2**62
    low = a0 * b0
    high = (a1 * b1) << np.uint64(3)  # 2**64 is 8
    # middle 2**32 = (middle >> 29) 2**61 + (middle & low 29 bits) 2**32
    total = high + (middle >> shift29) + ((middle & _LOW29) << shift32)
    total = total + (low & _P) + (low >> shift61)
    return _once(_once((total & _P) + (total >> shift61)))


def _once(value: Points) -> Points:
    """Subtract p where the value is p or more."""
    return np.where(value >= _P, value - _P, value)
