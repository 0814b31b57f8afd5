"""Breaches by a group: what all records like a person say of a secret, true or false.

An intruder knows some columns of a person and looks at the released records that agree with them.
*Proximity breach* (Li, Tao and Xiao 2008): most of these have nearly the person's number, so that
the intruder knows a short interval without knowing the number. *Divergence breach* (Poovammal and
Ponnavaikko 2010): many of these have one wrong value, so that the person is linked with what is not
true of them. Both are given as the intruder's confidence, for each person: a share of the records
that agree, 0 where none does.
"""

from __future__ import annotations

import numpy as np

from tulle._types import Floats, Ints


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
