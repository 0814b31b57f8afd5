"""People who stand alone: are their records, or what is known of them, in the release?

Under the names that others use: *unique exact matches* (NIST), *replicated uniques* and *DiSCO*,
"disclosive in synthetic, correct in original" (synthpop). All are shares of people. Keys number the
combinations of what is known, alike in all tables; targets number the values of a secret.
"""

from __future__ import annotations

import numpy as np

from tulle._types import Ints


def unique_matches(original: Ints, release: Ints) -> float:
    """Return the share of the unique original records that the release holds as they are.

    >>> unique_matches(np.array([0, 1, 1, 2]), np.array([2, 1, 5]))
    0.5
    """
    alone = _alone(original)
    return float(np.isin(alone, release).mean()) if len(alone) else 0.0


def unique_matches_of_strangers(control: Ints, original: Ints, release: Ints) -> float:
    """Return the same share of strangers who would stand alone if they were in the original."""
    alone = _alone(control)
    alone = alone[~np.isin(alone, original)]
    return float(np.isin(alone, release).mean()) if len(alone) else 0.0


def replicated_uniques(original: Ints, release: Ints) -> float:
    """Return the share of all originals that are unique by their key, there and in the release.

    >>> replicated_uniques(np.array([0, 1, 1, 2]), np.array([0, 2, 2]))
    0.25
    """
    return len(np.intersect1d(_alone(original), _alone(release))) / len(original)


def disco(keys: Ints, targets: Ints, released_keys: Ints, released_targets: Ints) -> float:
    """Return the share of people whose key has one target in the release, which is theirs.

    >>> people, secrets = np.array([0, 0, 1, 2]), np.array([7, 8, 7, 7])
    >>> disco(people, secrets, np.array([0, 0, 1, 1]), np.array([7, 7, 7, 8]))
    0.25
    """
    pairs = np.unique(np.column_stack([released_keys, released_targets]), axis=0)
    known, first, times = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    known, answers = known[times == 1], pairs[first[times == 1], 1]
    if not len(known):
        return 0.0
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return float(((known[place] == keys) & (answers[place] == targets)).mean())


def _alone(keys: Ints) -> Ints:
    found, counts = np.unique(keys, return_counts=True)
    return np.asarray(found[counts == 1])
