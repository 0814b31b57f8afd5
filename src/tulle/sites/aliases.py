"""Aliases: names of values that carry no order, no alphabet and no meaning.

A keyed alias is ``<attribute>_<token>``, the token 60 bits of BLAKE2b under a key of the attribute.
Sites that share the key give equal aliases to equal values without telling each other which values
they hold; going back means hashing the values one knows. A table alias, as in the paper, is
``<attribute>_<number>``, the numbers drawn once for a list that all sites have agreed on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np
import polars as pl

from tulle.errors import DataError
from tulle.keys import SecretKey

TOKEN = "[a-z2-7]{12}"  # what a keyed token looks like, for a regular expression
_ALPHABET = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz234567", dtype=np.uint8)
_SHIFTS = np.arange(55, -1, -5, dtype=np.uint64)  # twelve letters of five bits


def keyed_aliases(attribute: str, texts: Sequence[str], key: SecretKey, part: int = 0) -> list[str]:
    """The alias of each text; ``part`` numbers the several aliases of a split value.

    >>> key = SecretKey(bytes(32))
    >>> keyed_aliases("illness", ["Flu", "Gastritis", "Flu"], key)
    ['illness_gftbdheo3fsi', 'illness_evscx6ogop6o', 'illness_gftbdheo3fsi']
    """
    use = f"sites/alias/{part}/{attribute}"
    digests = np.frombuffer(b"".join(_digests(use, texts, key)), dtype=">u8")
    letters = (digests.astype(np.uint64)[:, None] >> _SHIFTS) & np.uint64(31)
    tokens = _ALPHABET[letters].tobytes().decode("ascii")
    return [f"{attribute}_{tokens[at : at + 12]}" for at in range(0, len(tokens), 12)]


def table_aliases(attribute: str, texts: Sequence[str], key: SecretKey) -> list[str]:
    """The alias of each text of an agreed list: numbers 1, 2, ... in an order drawn by the key."""
    digests = list(_digests(f"sites/table/{attribute}", texts, key))
    order = sorted(range(len(texts)), key=lambda index: (digests[index], texts[index]))
    number = {index: place for place, index in enumerate(order, start=1)}
    return [f"{attribute}_{number[index]}" for index in range(len(texts))]


def check_no_collision(attribute: str, aliases: pl.Series) -> None:
    """Refuses two different texts with one alias (a chance of one in a million at 1.5M texts)."""
    shared = len(aliases) - aliases.n_unique()
    if shared:
        raise DataError(
            f"column '{attribute}': {shared} values share an alias with "
            "another: rotate the agreement (tulle sites rotate) and encode again"
        )


def _digests(use: str, texts: Sequence[str], key: SecretKey) -> Iterator[bytes]:
    # copying the keyed state is faster than keying anew
    keyed = blake2b(key=key.derive(use), digest_size=8, person=b"tulle-alias")
    for text in texts:
        state = keyed.copy()
        state.update(text.encode("utf-8", "surrogatepass"))
        yield state.digest()
