"""Make one release with a formal guarantee; runs in dpmm's environment, which has OpenDP.

python epsilon_releases.py METHOD EPSILON MEMBERS RELEASE DOMAIN [DEPTH]

METHOD is MST or AIM (of dpmm), or a condensation: ``moments`` or ``mixture`` in 2^DEPTH groups.
DOMAIN is JSON: the bounds of every number and the list of every category, which must be public.

Condensation with differential privacy, as tried here:

1. Noisy counts of each column's cells, by discrete Gaussian noise of OpenDP (a fifth of the
   budget).
2. Groups by cuts that depend on these noisy counts only, so that one person changes one group.
3. For each group noisy count, sums and sums of products of the encoded records (``moments``), or
   noisy counts of each column's cells (``mixture``).
4. Records drawn from the group's normal distribution, with the noisy distributions of the columns;
   or each column by itself.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

DELTA = 1e-5
BINS = 100  # of a number's public range
CLIP = 2.0  # normal scores beyond it are cut off


def rho_of(epsilon):
    """Return the zero-concentrated budget that implies (epsilon, DELTA)."""
    log = math.log(1 / DELTA)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2


def noisy(values, sensitivity, rho):
    """Add discrete Gaussian noise by OpenDP to whole numbers."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    scale = sensitivity / math.sqrt(2 * rho)
    measure = dp.m.make_gaussian(*space, scale=scale)
    assert measure.map(sensitivity) <= rho * (1 + 1e-9)
    flat = np.asarray(values).ravel()
    return np.array(measure([int(v) for v in flat]), dtype=float).reshape(np.shape(values))


class Coded:
    """A table as whole numbers of cells: categories by the public list, numbers by public bins."""

    def __init__(self, table, domain):
        self.names, self.domain, self.cells, self.edges = list(table), domain, {}, {}
        for name in table:
            known = domain[name]
            if isinstance(known, dict):
                low, high = known["bounds"]
                width = max(1, math.ceil((high - low + 1) / BINS))
                # the lower bound is a cell of its own: it often means "none"
                steps = np.arange(low + width, high + 1, width)
                edges = np.unique(np.r_[low, low + 1, steps, high + 1])
                self.edges[name] = edges
                inside = table[name].clip(low, high).to_numpy()
                self.cells[name] = np.searchsorted(edges, inside, side="right") - 1
            else:
                self.cells[name] = pd.Categorical(table[name].astype(str), known).codes.astype(int)
                assert (self.cells[name] >= 0).all(), name

    def size(self, name):
        return len(self.edges[name]) - 1 if name in self.edges else len(self.domain[name])

    def decode(self, name, cells, rng):
        if name not in self.edges:
            return np.array(self.domain[name], dtype=object)[cells]
        low, high = self.edges[name][cells], self.edges[name][cells + 1]
        return low + (rng.random(len(cells)) * (high - low)).astype(int)


def shares(counts):
    positive = np.maximum(counts, 0)
    return (positive + 1e-9) / (positive + 1e-9).sum()


def histograms(coded, group, groups, rho):
    """Return noisy counts of each column's cells in each group: a record is in one cell each."""
    tables = [
        np.bincount(group * coded.size(n) + coded.cells[n], minlength=groups * coded.size(n))
        for n in coded.names
    ]
    found = noisy(np.concatenate(tables), math.sqrt(len(coded.names)), rho)
    sizes = [groups * coded.size(n) for n in coded.names]
    parts = np.split(found, np.cumsum(sizes)[:-1])
    return {n: p.reshape(groups, -1) for n, p in zip(coded.names, parts)}


def grouped(coded, marginals, depth, first, rng):
    """Put records into 2^depth groups by cuts that depend on noisy marginals only.

    The first cut is by the column ``first``; then random columns are cut near their noisy medians.
    """
    group = np.zeros(len(coded.cells[first]), dtype=int)
    for level in range(depth):
        name = first if level == 0 else rng.choice([n for n in coded.names if n != first])
        share = shares(marginals[name][0])
        if name in coded.edges:
            upper = np.arange(len(share)) > np.searchsorted(np.cumsum(share), 0.5)
        else:  # categories: some of them, at random, until they hold half
            order = rng.permutation(len(share))
            upper = np.zeros(len(share), bool)
            upper[order[np.cumsum(share[order]) > 0.5]] = True
        group = 2 * group + upper[coded.cells[name]]
    return group


def mixture(coded, epsilon, depth, first, rng):
    """Draw columns from each group's own noisy counts, independently within the group."""
    rho = rho_of(epsilon)
    marginals = histograms(coded, np.zeros_like(coded.cells[first]), 1, 0.2 * rho)
    groups = 2**depth
    group = grouped(coded, marginals, depth, first, rng)
    found = histograms(coded, group, groups, 0.8 * rho)
    size = shares(np.mean([t.sum(1) for t in found.values()], axis=0))
    drawn = rng.choice(groups, len(group), p=size)
    made = {}
    for n in coded.names:
        cells = np.zeros(len(drawn), int)
        for g in range(groups):
            here = drawn == g
            cells[here] = rng.choice(coded.size(n), here.sum(), p=shares(found[n][g]))
        made[n] = coded.decode(n, cells, rng)
    return pd.DataFrame(made)


def moments(coded, epsilon, depth, first, rng):
    """Draw from each group's noisy mean and covariance, as condensation does."""
    from scipy.stats import norm

    rho = rho_of(epsilon)
    marginals = histograms(coded, np.zeros_like(coded.cells[first]), 1, 0.2 * rho)
    groups = 2**depth
    group = grouped(coded, marginals, depth, first, rng)
    columns, where, ranks = [], {}, {}
    fixed = 100  # numbers in hundredths
    for n in coded.names:
        share = shares(marginals[n][0])
        if n in coded.edges:
            middle = np.cumsum(share) - share / 2
            score = np.clip(norm.ppf(middle), -CLIP, CLIP) / CLIP
            ranks[n] = np.cumsum(share)
            where[n] = [len(columns)]
            columns.append(np.round(fixed * score[coded.cells[n]]))
        else:
            where[n] = list(range(len(columns), len(columns) + len(share)))
            columns += [fixed * (coded.cells[n] == c) for c in range(len(share))]
    v = np.column_stack(columns)
    d, p = len(coded.names), v.shape[1]
    upper = np.triu_indices(p)
    stats = []
    for g in range(groups):
        x = v[group == g]
        # the count in the same units: the whole vector is 10,000 times (1, x, xx')
        stats.append(np.r_[fixed**2 * len(x), fixed * x.sum(0), (x.T @ x)[upper]])
    sensitivity = fixed**2 * math.sqrt(1 + d + d * (d + 1) / 2)
    found = noisy(np.array(stats), sensitivity, 0.8 * rho) / fixed**2
    size = shares(found[:, 0])
    drawn = np.sort(rng.choice(groups, len(group), p=size))
    latent = np.zeros((len(drawn), p))
    means = np.zeros((groups, p))
    for g in range(groups):
        here = drawn == g
        if not here.any():
            continue
        n = max(found[g, 0], 1)
        means[g] = found[g, 1 : p + 1] / n
        second = np.zeros((p, p))
        second[upper] = found[g, p + 1 :] / n
        second = second + second.T - np.diag(np.diag(second))
        values, vectors = np.linalg.eigh(second - np.outer(means[g], means[g]))
        root = vectors * np.sqrt(np.maximum(values, 0))
        latent[here] = means[g] + rng.normal(size=(here.sum(), p)) @ root.T
    made = {}
    for n in coded.names:
        cells = np.zeros(len(drawn), int)
        if n in coded.edges:  # keep the noisy marginal: the ranks of the draws decide
            x = latent[:, where[n][0]]
            rank = (np.argsort(np.argsort(x, kind="stable")) + 0.5) / len(x)
            cells = np.minimum(np.searchsorted(ranks[n], rank), len(ranks[n]) - 1)
        else:
            for g in range(groups):
                here = np.flatnonzero(drawn == g)
                if len(here):
                    share = shares(means[g][where[n]])
                    cells[here] = allotted(latent[np.ix_(here, where[n])], share, rng)
        made[n] = coded.decode(n, cells, rng)
    return pd.DataFrame(made)


def allotted(latent, share, rng):
    """Give categories to records by their latent scores, rare ones first, each its quota."""
    quota = rng.multinomial(len(latent), share)
    cells = np.full(len(latent), -1)
    for c in np.argsort(quota):
        free = np.flatnonzero(cells < 0)
        if quota[c]:
            best = np.argpartition(-latent[free, c], min(quota[c], len(free)) - 1)[: quota[c]]
            cells[free[best]] = c
    return cells


def dpmm(table, domain, pipeline, epsilon):
    import dpmm.pipelines as pipelines

    plain = table.copy()
    for n in plain:
        if not isinstance(domain[n], dict):
            plain[n] = plain[n].astype(str).astype("category")
    made = getattr(pipelines, pipeline)(epsilon=epsilon, delta=DELTA, disable_processing=False)
    made.fit(plain)
    return made.generate(len(table))


def main():
    method, epsilon, members, release, domain, *depth = sys.argv[1:]
    warnings.filterwarnings("ignore")
    np.random.seed(0)  # noqa: NPY002 - dpmm draws from the global generator
    table = pd.read_csv(members, keep_default_na=False)
    known = json.loads(Path(domain).read_text())
    if method in ("MST", "AIM"):
        made = dpmm(table, known, f"{method}Pipeline", float(epsilon))
    else:
        make = {"mixture": mixture, "moments": moments}[method]
        coded = Coded(table, known)
        made = make(
            coded, float(epsilon), int(depth[0]), table.columns[-1], np.random.default_rng(0)
        )
    made[list(table)].to_csv(release, index=False)


if __name__ == "__main__":
    main()
