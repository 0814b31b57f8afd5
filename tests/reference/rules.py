"""Slow and literal: what each algorithm of the rule family says, on Python sets.

Baskets are lists of sets of item codes; a rule is (antecedent, consequent), both tuples.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np


def support(baskets, items):
    return sum(set(items) <= basket for basket in baskets)


def itemsets(baskets, minimum):
    """{frozenset: support} of all frequent itemsets."""
    every = sorted(set().union(*baskets))
    found = {}
    for size in range(1, len(every) + 1):
        for items in combinations(every, size):
            count = support(baskets, items)
            if count >= minimum:
                found[frozenset(items)] = count
    return found


def rules(baskets, minimum, confidence, longest=99):
    """{(antecedent, consequent): support} of all rules."""
    frequent = itemsets(baskets, minimum)
    found = {}
    for whole, count in frequent.items():
        for size in range(1, min(len(whole), longest + 1)):
            for consequent in combinations(sorted(whole), size):
                left = whole - set(consequent)
                if Fraction(count, frequent[left]) >= confidence:
                    found[left, frozenset(consequent)] = count
    return found


def is_hidden(baskets, rule, limit, confidence):
    whole = support(baskets, rule[0] + rule[1])
    left = support(baskets, rule[0])
    return whole < limit or (confidence is not None and whole < confidence * left)


def _whole(rule):
    return tuple(sorted(rule[0] + rule[1]))


def _rows(baskets, items):
    return [row for row, basket in enumerate(baskets) if set(items) <= basket]


def chance(row, rule, size, seed):
    """The random place of SWA: a mixing function of (seed, row, rule), word by word."""
    word = 2**64
    mixed = (row * 0x9E3779B97F4A7C15 + rule * 0xC2B2AE3D27D4EB4F + seed) % word
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % word
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % word
    return (mixed ^ (mixed >> 31)) % size


def swa(baskets, wholes, leaving, window, scope, seed, lookahead="always"):
    """Sliding window: for each rule the shortest baskets of the window lose the victim.

    ``lookahead="printed"`` is step 8 of the paper's Figure 3: baskets are spared if psi = 0 only.
    """
    out = [set(basket) for basket in baskets]
    for start in range(0, len(baskets), window):
        rows = range(start, min(start + window, len(baskets)))
        holds = {row: [r for r, w in enumerate(wholes) if set(w) <= baskets[row]] for row in rows}
        over_window = {}
        for row in rows:
            for r in holds[row]:
                for item in wholes[r]:
                    over_window[item] = over_window.get(item, 0) + 1
        victims = {}
        for row in rows:
            in_basket = {}
            for r in holds[row]:
                for item in wholes[r]:
                    in_basket[item] = in_basket.get(item, 0) + 1
            freq = in_basket if scope == "transaction" else over_window
            for r in holds[row]:
                top = max(freq[item] for item in wholes[r])
                shared = next(item for item in wholes[r] if freq[item] == top)
                place = chance(row, r, len(wholes[r]), seed)
                victims[row, r] = shared if top > 1 else wholes[r][place]
        for r, whole in enumerate(wholes):
            own = [row for row in rows if r in holds[row]]
            own.sort(key=lambda row: len(baskets[row]))
            need = math.ceil(len(own) * leaving[r])
            if lookahead == "printed" and leaving[r] < 1:
                for row in own[:need]:
                    out[row].discard(victims[row, r])
                continue
            need -= sum(not set(whole) <= out[row] for row in own)
            for row in [row for row in own if set(whole) <= out[row]]:
                if need > 0:
                    out[row].discard(victims[row, r])
                    need -= 1
    return out


def two_scans(baskets, wholes, quota, method):
    """Naive, MinFIA, MaxFIA, RRA and IGA."""
    out = [set(basket) for basket in baskets]
    degree = [sum(set(w) <= basket for w in wholes) for basket in baskets]

    def count(item):
        return support(baskets, [item])

    labels = _group_labels(wholes, count) if method == "iga" else None
    for r, whole in enumerate(wholes):
        rows = _rows(baskets, whole)
        rows.sort(key=lambda row: -degree[row] if method == "iga" else degree[row])
        for turn, row in enumerate(rows[: quota[r]]):
            if method == "minfia":
                out[row].discard(min(whole, key=lambda item: (count(item), item)))
            elif method == "maxfia":
                out[row].discard(max(whole, key=lambda item: (count(item), -item)))
            elif method == "rra":
                out[row].discard(whole[turn % len(whole)])
            elif method == "iga":
                out[row].discard(labels[r])
            elif method == "naive":
                for item in sorted(whole, key=lambda item: (count(item), -item)):
                    if len(out[row]) > 1:
                        out[row].discard(item)
    return out


def _group_labels(wholes, count):
    groups = {}
    for item in set().union(*map(set, wholes)):
        members = {r for r, w in enumerate(wholes) if item in w}
        if len(members) > 1:
            groups[item] = members
    order = sorted(groups, key=lambda item: (-len(groups[item]), count(item), item))
    for i, first in enumerate(order):
        for second in order[i + 1 :]:
            both = groups[first] & groups[second]
            if len(groups[first]) != len(groups[second]):
                smaller = min(first, second, key=lambda item: len(groups[item]))
            else:
                smaller = max(first, second, key=lambda item: (count(item), item))
            groups[smaller] = groups[smaller] - both
    labels = []
    for r, whole in enumerate(wholes):
        own = [item for item in order if r in groups[item]]
        labels.append(own[0] if own else min(whole, key=lambda item: (count(item), item)))
    return labels


def verykios(baskets, sensitive, limits, confidence, method):
    """1.b, 2.a and 2.b: one removal after another, look at the thresholds after each one."""
    out = [set(basket) for basket in baskets]
    order = list(range(len(sensitive)))
    if method == "algo2b":
        order.sort(
            key=lambda r: (-len(_whole(sensitive[r])), -support(baskets, _whole(sensitive[r])), r)
        )
    sure = None if method == "algo2b" else confidence
    pending = order
    while pending:
        for r in pending:
            rule, whole = sensitive[r], _whole(sensitive[r])
            items = rule[1] if method == "algo1b" else whole
            counts = {item: support(out, [item]) for item in items}
            if method == "algo2b":
                victim = max(items, key=lambda item: (counts[item], -item))
            else:
                victim = min(items, key=lambda item: (counts[item], item))
            rows = sorted(_rows(out, whole), key=lambda row: len(out[row]))
            for row in rows:
                if is_hidden(out, rule, limits[r], sure):
                    break
                out[row].discard(victim)
        again = pending + [r for r in range(len(sensitive)) if r not in pending]
        pending = [r for r in again if not is_hidden(out, sensitive[r], limits[r], confidence)]
    return out


def intervals(sure, unknown, rule):
    """The lowest and highest support and confidence of all ways to fill unknown cells in."""
    open_cells = [(row, item) for row, items in enumerate(unknown) for item in items]
    supports, confidences = [], []
    for choice in product([False, True], repeat=len(open_cells)):
        filled = [set(basket) for basket in sure]
        for (row, item), full in zip(open_cells, choice):
            if full:
                filled[row].add(item)
        whole, left = support(filled, rule[0] + rule[1]), support(filled, rule[0])
        supports.append(whole)
        confidences.append(Fraction(whole, left) if left else Fraction(0))
    return min(supports), max(supports), min(confidences), max(confidences)


def covered_share(lost, all_):
    return Fraction(len(lost), len(all_)) if all_ else Fraction(0)


def measures(before, after, sensitive):
    """Misses cost and artifactual patterns of two sets of rules."""
    spared = set(before) - sensitive
    misses = covered_share([rule for rule in spared if rule not in after], spared)
    ghosts = covered_share([rule for rule in after if rule not in before], after)
    return float(misses), float(ghosts)


def random_baskets(rng: np.random.Generator, n_baskets: int, n_items: int, share: float):
    """Baskets with at least one item each, as sorted lists."""
    picks = rng.random((n_baskets, n_items)) < share
    picks[np.arange(n_baskets), rng.integers(0, n_items, n_baskets)] = True
    return [np.flatnonzero(row).tolist() for row in picks]
