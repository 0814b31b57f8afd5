"""The figures that others print, under the names that they use.

*DCR share* (Platzer and Reutterer), *nearest neighbour adversarial accuracy* (Yale and others),
*epsilon identifiability risk* (Yoon and others), *copied combinations*, *unique exact matches*
(NIST), *replicated uniques* and *DiSCO*, "disclosive in synthetic, correct in original" (synthpop).
Those by distance take each record's distance to the nearest one elsewhere; keys number combinations
of values, alike in all tables, and targets the values of a secret.

*Breaches* by a group: what all records like a person say of a secret, true or false. An intruder
knows some columns of a person and looks at the released records that agree with them. *Proximity
breach* (Li, Tao and Xiao 2008): most of these have nearly the person's number, so that the intruder
knows a short interval without knowing the number. *Divergence breach* (Poovammal and Ponnavaikko
2010): many of these have one wrong value, so that the person is linked with what is not true of
them. Both are given as the intruder's confidence, for each person: a share of the records that
agree, 0 where none does.
"""

from __future__ import annotations

import numpy as np

from tulle._types import Floats, Ints


def dcr_share(to_people: Floats, to_strangers: Floats) -> float:
    """Return the share of released records nearer to a person than to a stranger; ties are half.

    People and strangers must be as many, or the more of them would be nearer by chance.

    >>> dcr_share(np.array([1.0, 2.0, 3.0, 5.0]), np.array([2.0, 2.0, 4.0, 1.0]))
    0.625
    """
    nearer, equal = to_people < to_strangers, to_people == to_strangers
    return float((nearer + 0.5 * equal).mean())


def adversarial_accuracy(
    people_to_release: Floats,
    people_apart: Floats,
    release_to_people: Floats,
    release_apart: Floats,
) -> float:
    """Return how often the nearest neighbour of a record is of its own table (NNAA).

    0.5 where the tables cannot be told apart, 0 where one copies the other.

    >>> adversarial_accuracy(np.array([0.0]), np.array([1.0]), np.array([3.0]), np.array([1.0]))
    0.5
    """
    own = (people_to_release > people_apart).mean(), (release_to_people > release_apart).mean()
    return float(np.mean(own))


def epsilon_risk(people_to_release: Floats, people_apart: Floats) -> float:
    """Return the share of people who are nearer to a released record than to any other person.

    >>> epsilon_risk(np.array([1.0, 2.0]), np.array([2.0, 1.0]))
    0.5
    """
    return float((people_to_release < people_apart).mean())


def copied_combinations(original: Ints, release: Ints) -> float:
    """Return the share of the released records that are, in every column, some original's.

    >>> copied_combinations(np.array([0, 1]), np.array([1, 1, 2, 3]))
    0.5
    """
    return float(np.isin(release, original).mean())


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


def proximity(
    keys: Ints, values: Floats, released_keys: Ints, released_values: Floats, close: float
) -> Floats:
    """Return the share of the records like each person whose number is close to the person's.

    A number that is missing (NaN) is close to none. The paper's example: two incomes in one group,
    each within 50 of the other.

    >>> group, pay = np.array([0, 0]), np.array([10_000.0, 10_050.0])
    >>> proximity(group, pay, group, pay, close=50).tolist()
    [1.0, 1.0]
    >>> proximity(group, pay, group, pay, close=10).tolist()
    [0.5, 0.5]
    """
    groups, place, sizes = np.unique(released_keys, return_inverse=True, return_counts=True)
    if not len(groups):
        return np.zeros(len(keys))
    own = np.minimum(np.searchsorted(groups, keys), len(groups) - 1)
    known = ~np.isnan(released_values)
    # one line for all groups, each so far from the next that intervals stay inside
    low, high = np.nanmin(released_values, initial=0.0), np.nanmax(released_values, initial=0.0)
    apart = high - low + 4 * close + 1
    line = np.sort(place.ravel()[known] * apart + released_values[known] - low)
    at = own * apart + np.clip(values, low - 2 * close, high + 2 * close) - low
    inside = np.searchsorted(line, at + close, "right") - np.searchsorted(line, at - close, "left")
    return np.where((groups[own] == keys) & ~np.isnan(values), inside / sizes[own], 0.0)


def divergence(keys: Ints, secrets: Ints, released_keys: Ints, released_secrets: Ints) -> Floats:
    """Return the share of the records like each person that have the commonest wrong value.

    The paper's example: one of two records in a group has gastritis, the other one cancer.

    >>> group, illness = np.array([0, 0]), np.array([1, 2])
    >>> divergence(group, illness, group, illness).tolist()
    [0.5, 0.5]
    """
    pairs = np.column_stack([released_keys, released_secrets])
    pairs, counts = np.unique(pairs, axis=0, return_counts=True)
    order = np.lexsort((-counts, pairs[:, 0]))
    pairs, counts = pairs[order], counts[order]  # of each group, the commonest value first
    begin = np.searchsorted(pairs[:, 0], keys, "left")
    end = np.searchsorted(pairs[:, 0], keys, "right")
    sizes = np.concatenate(([0], np.cumsum(counts)))
    top = np.minimum(begin, max(0, len(pairs) - 1))
    wrong = begin + (pairs[top, 1] == secrets) if len(pairs) else begin
    linked = wrong < end
    found = np.zeros(len(keys))
    found[linked] = counts[wrong[linked]] / (sizes[end[linked]] - sizes[begin[linked]])
    return found
